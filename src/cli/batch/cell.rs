//! Runs one cell of a batch: claims it, prepares its work, runs or resumes its run there, and
//! publishes the result. It can be killed at any moment and started again anywhere.

use tokio_util::sync::CancellationToken;

use crate::batch::next_step::{AttemptEnd, CellNextStep, next_step};
use crate::batch::result::{CellOutcome, CellResult};
use crate::batch::task::{BatchTask, CellId};
use crate::cli::args::batch::BatchCellArguments;
use crate::cli::batch::cell_delivery::export_delivery;
use crate::cli::batch::cell_report::CellRunReport;
use crate::cli::batch::cell_run::{CellRun, report_lost_run, run_in_cell};
use crate::cli::batch::open_batch_and_record;
use crate::cli::environment;
use crate::cli::execution::environment_secrets;
use crate::cli::interrupts::listen_for_parking;
use crate::cli::output::CliOutput;
use crate::cli::run::{SHUTDOWN_TIMEOUT, runtime};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::spending::money::Money;
use crate::world::io::clock::now;
use crate::world::store::batches::claims::{AttemptNote, CellClaim, ClaimAttempt, ClaimOwner};
use crate::world::store::batches::{BatchDir, BatchRecord};
use crate::world::store::redact::Redactor;

/// How often a running cell checks whether its batch was cancelled.
const CANCEL_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// How a process left a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellExit {
    /// It has its result, which this process published.
    Published,
    /// It had its result already.
    Finished,
    /// Another process works on it.
    Taken,
    /// It has no result yet: this attempt ended so.
    Unfinished(AttemptEnd),
    /// Its config is wrong.
    WrongConfig,
}

/// Runs `massgen batch cell`: the named cells, one after another.
pub(super) fn run(
    host: &Host,
    arguments: &BatchCellArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let owner = ClaimOwner::this_process(&arguments.engine, arguments.job.as_deref());
    let worker = CellWorker::new(host, &arguments.batch, owner, output)?;
    let runtime = runtime()?;
    let result = runtime.block_on(worker.run_all(&arguments.cells, output));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

/// A process that runs cells of a batch.
#[derive(Debug)]
pub(super) struct CellWorker {
    /// The process, with the variables of the user's `.env` files.
    host: Host,
    /// The batch.
    pub(super) batch: BatchDir,
    /// How the batch began.
    pub(super) record: BatchRecord,
    owner: ClaimOwner,
}

impl CellWorker {
    /// Creates the worker of a process that claims cells of the batch `name` as `owner`.
    pub(super) fn new(
        host: &Host,
        name: &str,
        owner: ClaimOwner,
        output: &mut CliOutput<'_>,
    ) -> Result<Self> {
        let (batch, record) = open_batch_and_record(name, host, output)?;
        Ok(Self {
            host: environment::load(host).host,
            batch,
            record,
            owner,
        })
    }

    /// Listens for what parks runs: a signal of the scheduler or the user, or `massgen batch
    /// cancel`.
    pub(super) fn listen(&self) -> Result<ShutdownSignal> {
        let stop = listen_for_parking(self.host.hangup)?;
        tokio::spawn(park_when_stopped(self.batch.clone(), stop.clone()));
        Ok(stop)
    }

    /// Returns the exit status of a process that may begin no cell now; `None` if it may begin one.
    pub(super) fn obstacle(
        &self,
        stop: &ShutdownSignal,
        output: &mut CliOutput<'_>,
    ) -> Result<Option<ExitStatus>> {
        if stop.park.is_cancelled() || self.batch.is_cancelled()? {
            return Ok(Some(ExitStatus::Parked));
        }
        let pause = self.batch.active_pause()?;
        Ok(pause.map(|pause| {
            output.note(&format!("the batch pauses: {}", pause.reason));
            ExitStatus::Parked
        }))
    }

    async fn run_all(&self, cells: &[u32], output: &mut CliOutput<'_>) -> Result<ExitStatus> {
        let stop = self.listen()?;
        let mut status = ExitStatus::Success;
        for number in cells {
            if let Some(obstacle) = self.obstacle(&stop, output)? {
                status = obstacle;
                break;
            }
            match Box::pin(self.run_cell(*number, &stop)).await? {
                CellExit::Published
                | CellExit::Finished
                | CellExit::Taken
                | CellExit::Unfinished(AttemptEnd::NodeFault | AttemptEnd::Bug) => {}
                CellExit::Unfinished(_) => status = ExitStatus::Parked,
                CellExit::WrongConfig => {
                    status = ExitStatus::Usage;
                    break;
                }
            }
        }
        Ok(status)
    }

    /// Claims the cell with this number and runs it.
    pub(super) async fn run_cell(&self, number: u32, stop: &ShutdownSignal) -> Result<CellExit> {
        let task = self.batch.task(number)?;
        let owner = ClaimOwner {
            since: now().iso_format(),
            ..self.owner.clone()
        };
        let claim = match self.batch.claim(&task.id, &owner)? {
            ClaimAttempt::Acquired(claim) => claim,
            ClaimAttempt::Taken => return Ok(CellExit::Taken),
            ClaimAttempt::Finished => return Ok(CellExit::Finished),
        };
        let earlier_attempts = claim.earlier_attempts();
        let cell_run = |stop: ShutdownSignal| CellRun {
            host: &self.host,
            batch: &self.batch,
            record: &self.record,
            task: &task,
            attempt: claim.attempt(),
            earlier_attempts,
            stop,
        };
        if earlier_attempts.counts.node_faults > self.record.retries {
            let last_note = self
                .batch
                .attempt_note(&task.id, claim.attempt().saturating_sub(1))?;
            let reason = last_note.map_or_else(|| "unknown".to_owned(), |note| note.reason);
            let error = Error::new(
                ErrorKind::Environment,
                format!(
                    "its process was lost {} times; the last reason: {reason}",
                    earlier_attempts.counts.node_faults
                ),
            );
            let run = cell_run(ShutdownSignal::default());
            let report = report_lost_run(&run, &error, &self.redactor())?;
            return self.publish(&task, &claim, CellOutcome::Failed, &report);
        }
        // The process of a lost attempt may still be parking its run.
        while self
            .batch
            .is_claim_locked(&task.id, claim.attempt().saturating_sub(1))
        {
            if stop.park.is_cancelled() {
                let reason = "parked before an earlier attempt had ended";
                claim.end(&AttemptNote::new(AttemptEnd::Parked, reason))?;
                return Ok(CellExit::Unfinished(AttemptEnd::Parked));
            }
            tokio::time::sleep(CANCEL_POLL_INTERVAL).await;
        }
        // Nothing ends the run of a cell; it is parked.
        let park = stop.park.child_token();
        let stop = ShutdownSignal {
            park: park.clone(),
            ..ShutdownSignal::default()
        };
        let run = cell_run(stop);
        let loss_watch = tokio::spawn(park_when_lost(
            self.batch.clone(),
            task.id.clone(),
            claim.attempt(),
            park,
        ));
        let report = Box::pin(run_in_cell(run)).await;
        loss_watch.abort();
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                let reason = self.redactor().text(&format!("{error:#}"));
                claim.end(&AttemptNote::new(AttemptEnd::ProcessLost, reason))?;
                return Err(error);
            }
        };
        if self
            .batch
            .attempt_note(&task.id, claim.attempt())?
            .is_some()
        {
            // Another process has the cell now, and finds the records of this run. The queue has
            // lost this process, so it claims no other cell.
            return Ok(CellExit::Unfinished(AttemptEnd::ProcessLost));
        }
        self.take_next_step(&task, *claim, &report)
    }

    /// Carries out what follows from the end of the run.
    fn take_next_step(
        &self,
        task: &BatchTask,
        claim: CellClaim,
        report: &CellRunReport,
    ) -> Result<CellExit> {
        let counts = claim.earlier_attempts().counts;
        match next_step(report.end, counts, self.record.retries) {
            CellNextStep::Publish(outcome) => self.publish(task, &claim, outcome, report),
            CellNextStep::StopBatch => {
                self.publish(task, &claim, CellOutcome::Failed, report)?;
                Ok(CellExit::WrongConfig)
            }
            CellNextStep::RunAgain(end) => {
                if end == AttemptEnd::EndpointsFailed {
                    self.batch.begin_pause(&report.reason())?;
                }
                let mut note = AttemptNote::new(end, report.reason());
                if !end.is_resumable() {
                    note.spent_picodollars = report.cost.picodollars();
                }
                self.batch.settle(&task.id, total_cost(&claim, report))?;
                claim.end(&note)?;
                Ok(CellExit::Unfinished(end))
            }
        }
    }

    /// Returns what redacts errors outside a run, without its config.
    fn redactor(&self) -> Redactor {
        Redactor::new(environment_secrets(&self.host))
    }

    /// Publishes the result of a cell, with its delivery. A cell whose delivery cannot be read has
    /// failed.
    fn publish(
        &self,
        task: &BatchTask,
        claim: &CellClaim,
        outcome: CellOutcome,
        report: &CellRunReport,
    ) -> Result<CellExit> {
        let cell = self.batch.cell_dir(&task.id);
        let file_count = export_delivery(&cell);
        let failure = file_count
            .as_ref()
            .err()
            .map(|error| CellRunReport::from_error(error, &self.redactor()))
            .transpose()?;
        let outcome = failure.as_ref().map_or(outcome, |_| CellOutcome::Failed);
        let final_report = failure.as_ref().unwrap_or(report);
        let cost = total_cost(claim, report);
        let result = CellResult {
            id: task.id.clone(),
            outcome,
            exit_code: final_report.end.exit_code,
            tags: task.tags.clone(),
            checks: report.checks,
            winner: report.winner(),
            cost_usd: cost,
            cost_is_complete: report.cost_is_complete,
            duration_ms: report.duration_ms,
            attempts: claim.attempt(),
            engine: self.owner.engine.clone(),
            host: self.owner.host.clone(),
            ended: now().iso_format(),
            files: file_count.unwrap_or_default(),
        };
        self.batch.publish(&result, &final_report.run_result)?;
        self.batch.settle(&task.id, cost)?;
        self.batch.end_pauses()?;
        Ok(CellExit::Published)
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

/// Parks the run of an attempt that was declared lost: its node was cut off from the scheduler but
/// not from the files.
async fn park_when_lost(batch: BatchDir, cell: CellId, attempt: u32, park: CancellationToken) {
    while !matches!(batch.attempt_note(&cell, attempt), Ok(Some(_))) {
        tokio::time::sleep(CANCEL_POLL_INTERVAL).await;
    }
    park.cancel();
}

/// Returns the cost of all attempts at a cell.
fn total_cost(claim: &CellClaim, report: &CellRunReport) -> Money {
    claim.earlier_attempts().spent.saturating_add(report.cost)
}
