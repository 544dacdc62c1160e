//! A job of a batch: it runs the cells of one index of a submission, one after another. It can be
//! killed at any moment and started again anywhere.

use tokio_util::sync::CancellationToken;

use crate::batch::next_step::{AttemptEnd, CellNextStep, next_step};
use crate::batch::result::{CellOutcome, CellResult};
use crate::batch::task::BatchTask;
use crate::cli::args::batch::BatchJobArguments;
use crate::cli::batch::cell_delivery::export_delivery;
use crate::cli::batch::cell_report::CellRunReport;
use crate::cli::batch::cell_run::{CellRun, report_lost_run, run_in_cell};
use crate::cli::batch::open_batch_and_record;
use crate::cli::environment;
use crate::cli::interrupts::{SHUTDOWN_TIMEOUT, listen_for_parking, runtime};
use crate::cli::output::CliOutput;
use crate::cli::run_context::environment_secrets;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::spending::money::Money;
use crate::world::io::clock::now;
use crate::world::store::batches::attempts::{AttemptNote, CellAttempt, EarlierAttempts};
use crate::world::store::batches::budget::AttemptBudget;
use crate::world::store::batches::submissions::Submission;
use crate::world::store::batches::{BatchDir, BatchRecord};
use crate::world::store::redact::Redactor;

/// How often a running job checks whether its batch was cancelled.
const CANCEL_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// Runs `massgen batch job`. It ends with 0 if this job has nothing more to do, whatever became of
/// its cells, and with 75 if a signal parked it and its engine must start it again.
pub(super) fn run(
    host: &Host,
    arguments: &BatchJobArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, record) = open_batch_and_record(&arguments.batch, host, output)?;
    let job = BatchJob {
        host: environment::load(host).host,
        submission: batch.submission(arguments.submission)?,
        name: format!("{}.{}", arguments.submission, arguments.index),
        batch,
        record,
    };
    let cells = job.submission.cells_of(arguments.index);
    let runtime = runtime()?;
    let result = runtime.block_on(Box::pin(job.run_all(&cells, output)));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

/// A process that runs cells of a batch.
#[derive(Debug)]
struct BatchJob {
    /// The process, with the variables of the user's `.env` files.
    host: Host,
    batch: BatchDir,
    record: BatchRecord,
    submission: Submission,
    /// The numbers of its submission and of its index, such as `2.17`.
    name: String,
}

impl BatchJob {
    async fn run_all(&self, cells: &[u32], output: &mut CliOutput<'_>) -> Result<ExitStatus> {
        let stop = listen_for_parking(self.host.hangup)?;
        output.set_stop(&stop);
        let cancel_watch = park_when_stopped(self.batch.clone(), stop.clone());
        tokio::spawn(cancel_watch);
        for number in cells {
            if self
                .batch
                .is_submission_superseded(self.submission.number)?
            {
                output.note("another process has submitted the cells of this job again");
                break;
            }
            if stop.park.is_cancelled()
                || self.batch.is_cancelled()?
                || !Box::pin(self.run_cell(*number, cells, &stop)).await?
            {
                break;
            }
        }
        let is_parked = stop.park.is_cancelled() && !self.batch.is_cancelled()?;
        Ok(if is_parked {
            ExitStatus::Parked
        } else {
            ExitStatus::Success
        })
    }

    /// Runs the cell with this number, one of the `cells` of the job. Returns whether the job may
    /// begin another one.
    async fn run_cell(&self, number: u32, cells: &[u32], stop: &ShutdownSignal) -> Result<bool> {
        let task = self.batch.task(number)?;
        let spent_by_job = self.spent_by(cells)?;
        let Some(attempt) = self.batch.begin_attempt(&task.id, &self.name)? else {
            return Ok(true);
        };
        // The process of the attempt before it may still be parking its run.
        while attempt.is_earlier_locked()? {
            if stop.park.is_cancelled() {
                attempt.write(&AttemptNote {
                    end: Some(AttemptEnd::Parked),
                    reason: "parked before an earlier attempt had ended".to_owned(),
                    ..AttemptNote::default()
                })?;
                return Ok(false);
            }
            tokio::time::sleep(CANCEL_POLL_INTERVAL).await;
        }
        let earlier = attempt.earlier()?;
        // Nothing ends the run of a cell; it is parked.
        let park = stop.park.child_token();
        let run = self.prepare(&task, attempt, &earlier, spent_by_job, &park);
        if earlier.losses > self.record.retries {
            let message = format!("its process was lost {} times", earlier.losses);
            let error = Error::new(ErrorKind::Environment, message);
            let report = report_lost_run(&run, &error, &self.redactor())?;
            self.publish(&run, CellOutcome::Failed, &report)?;
            return Ok(true);
        }
        let stop = ShutdownSignal {
            park,
            ..ShutdownSignal::default()
        };
        let report = Box::pin(run_in_cell(&run, stop)).await?;
        let end = match next_step(report.end) {
            CellNextStep::Publish(outcome) => {
                self.publish(&run, outcome, &report)?;
                return Ok(true);
            }
            CellNextStep::RunAgain(end) => end,
        };
        if end == AttemptEnd::EndpointsFailed {
            self.batch.hold(&report.reason())?;
        }
        run.budget.attempt().write(&AttemptNote {
            end: Some(end),
            reason: report.reason(),
            ..run.budget.note(report.cost)
        })?;
        Ok(false)
    }

    /// Returns what this job has spent on its cells, also before it was started again.
    fn spent_by(&self, cells: &[u32]) -> Result<Money> {
        let mut spent = Money::ZERO;
        if self.submission.head.share_usd.is_some() {
            for number in cells {
                let id = self.batch.task(*number)?.id;
                spent = spent.saturating_add(self.batch.spent_by_job(&id, &self.name)?);
            }
        }
        Ok(spent)
    }

    fn prepare<'a>(
        &'a self,
        task: &'a BatchTask,
        attempt: CellAttempt,
        earlier: &'a EarlierAttempts,
        spent_by_job: Money,
        park: &CancellationToken,
    ) -> CellRun<'a> {
        let cell = self.batch.cell_dir(&task.id);
        let first = cell.first_attempt();
        let first_resumed = first.filter(|first| earlier.can_resume(*first));
        let (earlier_cost, earlier_ms) =
            first_resumed.map_or((Money::ZERO, 0), |first| earlier.sum_since(first));
        CellRun {
            host: &self.host,
            batch: &self.batch,
            record: &self.record,
            task,
            cell,
            is_resumed: first_resumed.is_some(),
            earlier,
            earlier_ms,
            budget: AttemptBudget::new(
                &self.batch,
                attempt,
                &self.submission,
                spent_by_job,
                earlier_cost,
                park.clone(),
            )
            .into(),
        }
    }

    /// Returns what redacts errors outside a run, without its config.
    fn redactor(&self) -> Redactor {
        Redactor::new(environment_secrets(&self.host))
    }

    /// Publishes the result of a cell, with its delivery, unless it has one. A cell whose delivery
    /// cannot be read has failed.
    fn publish(
        &self,
        run: &CellRun<'_>,
        outcome: CellOutcome,
        report: &CellRunReport,
    ) -> Result<()> {
        let file_count = export_delivery(&run.cell);
        let failure = file_count
            .as_ref()
            .err()
            .map(|error| CellRunReport::from_error(error, &self.redactor()))
            .transpose()?;
        let outcome = failure.as_ref().map_or(outcome, |_| CellOutcome::Failed);
        let final_report = failure.as_ref().unwrap_or(report);
        let attempt = run.budget.attempt();
        let note = run.budget.note(report.cost);
        attempt.write(&note)?;
        let result = CellResult {
            id: run.task.id.clone(),
            outcome,
            exit_code: final_report.end.exit_code,
            tags: run.task.tags.clone(),
            checks: report.checks,
            winner: report.winner(),
            cost_usd: run.earlier.spent().saturating_add(note.spent_usd),
            cost_is_complete: report.cost_is_complete,
            duration_ms: report.duration_ms,
            attempts: attempt.number(),
            engine: self.submission.head.engine.clone(),
            host: attempt.mark().host.clone(),
            ended: now().iso_format(),
            files: file_count.unwrap_or_default(),
            reason: final_report.reason(),
        };
        self.batch.publish(&result, &final_report.run_result)
    }
}

/// Parks the runs of this process when the batch is cancelled or the user presses Ctrl-C.
async fn park_when_stopped(batch: BatchDir, stop: ShutdownSignal) {
    // A question that fails is asked again.
    while !matches!(batch.is_cancelled(), Ok(true)) {
        tokio::select! {
            () = tokio::time::sleep(CANCEL_POLL_INTERVAL) => {}
            () = stop.graceful.cancelled() => break,
        }
    }
    stop.park.cancel();
}
