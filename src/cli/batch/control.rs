//! The process that starts the jobs of a batch. It keeps nothing that is not in the files of the
//! batch: it can be killed and started again, and several may work on one batch.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::batch::next_step::{CellAfterJob, CellWait, PAUSES_MAX};
use crate::batch::result::CellResult;
use crate::batch::task::CellId;
use crate::cli::batch::index_schedule::IndexSchedule;
use crate::cli::batch::progress::BatchProgress;
use crate::cli::batch::results::write_table;
use crate::cli::batch::start_settings::BatchStartSettings;
use crate::cli::batch_report::{failure_lines, resume_command};
use crate::cli::interrupts::listen_for_parking;
use crate::cli::output::CliOutput;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::text::count_noun;
use crate::world::batch_scheduler::{BatchScheduler, EndedJob};
use crate::world::store::batches::claims::ClaimOwner;
use crate::world::store::batches::{BatchDir, BatchRecord};

/// Interval at which the files of the batch are read while no job ends.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of useless jobs in a row after which the batch stops: none of their cells got any
/// further.
const USELESS_JOBS_MAX: u32 = 10;

/// The cells of a batch that have no result, and what starts them.
#[derive(Debug)]
pub(super) struct BatchControl {
    batch: BatchDir,
    ids: Vec<CellId>,
    scheduler: Box<dyn BatchScheduler>,
    settings: BatchStartSettings,
    /// The numbers of the cells to be started.
    pending_cells: VecDeque<u32>,
    /// The numbers of the cells that other processes work on.
    cells_of_others: VecDeque<u32>,
    /// The last attempt at each cell of a job before the job was started.
    attempts_before: BTreeMap<u32, u32>,
    /// The number of cells that have a result.
    finished_cells: usize,
    stop: Option<BatchStop>,
    useless_jobs: u32,
    /// Whether the user has been told that fewer jobs are running than wanted.
    has_reported_full: bool,
    /// Whether the user has been told that the batch only waits for other processes.
    has_reported_wait: bool,
    /// How often a cell is tried again.
    retries: u32,
}

/// Why a batch starts no further cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchStop {
    /// The user pressed Ctrl-C.
    Interrupted,
    /// A signal asked the process to end.
    Parked,
    /// The batch was cancelled.
    Cancelled,
    /// A config is wrong.
    WrongConfig,
    /// The money of the batch is spent.
    OutOfMoney,
    /// The endpoints of the models failed too often.
    EndpointsFail,
}

impl BatchControl {
    /// Creates the control of `batch`: every cell without a result is pending.
    pub(super) fn new(
        batch: BatchDir,
        record: &BatchRecord,
        scheduler: Box<dyn BatchScheduler>,
        settings: BatchStartSettings,
    ) -> Result<Self> {
        let ids = batch.cell_ids(record)?;
        let pending_cells = batch.unfinished_numbers(&ids)?;
        batch.settle_finished()?;
        Ok(Self {
            finished_cells: ids.len().saturating_sub(pending_cells.len()),
            batch,
            ids,
            scheduler,
            settings,
            pending_cells,
            cells_of_others: VecDeque::new(),
            attempts_before: BTreeMap::new(),
            stop: None,
            useless_jobs: 0,
            has_reported_full: false,
            has_reported_wait: false,
            retries: record.retries,
        })
    }

    /// Starts jobs until there are as many as wanted, or as the machine allows.
    async fn submit(&mut self, output: &mut CliOutput<'_>) -> Result<()> {
        if self.stop.is_some() || self.batch.active_pause()?.is_some() {
            return Ok(());
        }
        while self.scheduler.jobs() < self.settings.parallel && !self.pending_cells.is_empty() {
            let count = self.settings.cells_per_job.min(self.pending_cells.len());
            let cells: Vec<u32> = self.pending_cells.drain(..count).collect();
            for number in &cells {
                let id = cell_id(&self.ids, *number);
                let attempt = match id {
                    Some(id) => self.batch.last_attempt(id)?,
                    None => 0,
                };
                self.attempts_before.insert(*number, attempt);
            }
            let Err(error) = self.scheduler.submit(cells.clone()).await else {
                continue;
            };
            if self.scheduler.jobs() == 0 {
                return Err(error);
            }
            // The cells are submitted again when a job has ended, and at each poll.
            for number in cells.into_iter().rev() {
                self.pending_cells.push_front(number);
            }
            if !self.has_reported_full {
                output.warning(&format!("fewer jobs than wanted are running: {error:#}"));
                self.has_reported_full = true;
            }
            break;
        }
        Ok(())
    }

    /// Sorts the cells of a job that has ended: finished, to be started again, or waiting.
    fn handle_ended_job(&mut self, job: &EndedJob) -> Result<()> {
        let mut is_useless = true;
        for number in &job.cells {
            let attempt_before = self.attempts_before.remove(number).unwrap_or(0);
            let Some(id) = cell_id(&self.ids, *number) else {
                continue;
            };
            if self.batch.has_result(id)? {
                self.finished_cells = self.finished_cells.saturating_add(1);
                is_useless = false;
                continue;
            }
            let attempt = self.batch.last_attempt(id)?;
            let this_process = ClaimOwner::this_process("", None);
            let cell = CellAfterJob {
                attempt_before,
                attempt,
                end: self.batch.attempt_note(id, attempt)?.map(|note| note.end),
                is_alive: attempt > 0 && self.batch.is_attempt_alive(id, attempt, &this_process),
            };
            is_useless &= cell.is_useless(self.retries);
            match cell.wait() {
                CellWait::Money => {
                    self.stop.get_or_insert(BatchStop::OutOfMoney);
                }
                CellWait::OtherProcess => self.cells_of_others.push_back(*number),
                CellWait::Job => self.pending_cells.push_back(*number),
            }
        }
        if is_useless && self.batch.is_cancelled()? {
            self.stop.get_or_insert(BatchStop::Cancelled);
        }
        if job.exit_code == Some(i32::from(ExitStatus::Usage.code())) {
            self.stop.get_or_insert(BatchStop::WrongConfig);
        }
        let pauses = self.batch.pause()?.map_or(0, |pause| pause.count);
        if pauses > PAUSES_MAX {
            self.stop.get_or_insert(BatchStop::EndpointsFail);
        }
        // While the batch pauses, jobs end without a cell.
        if is_useless && self.batch.active_pause()?.is_none() && self.stop.is_none() {
            self.useless_jobs = self.useless_jobs.saturating_add(1);
        } else {
            self.useless_jobs = 0;
        }
        if self.useless_jobs < USELESS_JOBS_MAX {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Environment,
            "the jobs of the batch end without a result",
        )
        .with_hint(format!(
            "see what one of them says: massgen batch cell {} {}",
            self.batch.name(),
            job.cells.first().copied().unwrap_or_default()
        )))
    }

    /// Reads the files of the batch, which other processes change.
    async fn poll_files(&mut self) -> Result<()> {
        if self.batch.is_cancelled()? && self.stop.is_none() {
            self.stop = Some(BatchStop::Cancelled);
            self.scheduler.cancel().await?;
        }
        let this_process = ClaimOwner::this_process("", None);
        for _ in 0..self.cells_of_others.len() {
            let Some(number) = self.cells_of_others.pop_front() else {
                break;
            };
            let Some(id) = cell_id(&self.ids, number) else {
                continue;
            };
            let attempt = self.batch.last_attempt(id)?;
            if self.batch.has_result(id)? {
                self.finished_cells = self.finished_cells.saturating_add(1);
            } else if self.batch.attempt_note(id, attempt)?.is_none()
                && self.batch.is_attempt_alive(id, attempt, &this_process)
            {
                self.cells_of_others.push_back(number);
            } else {
                self.pending_cells.push_back(number);
            }
        }
        Ok(())
    }

    /// Returns what the user should know, once, if only other processes work on the remaining
    /// cells: one on another host counts as alive.
    fn take_wait_note(&mut self) -> Option<String> {
        let is_busy = self.scheduler.jobs() > 0 || !self.pending_cells.is_empty();
        if is_busy || self.has_reported_wait {
            return None;
        }
        let id = cell_id(&self.ids, *self.cells_of_others.front()?)?;
        let attempt = self.batch.last_attempt(id).ok()?;
        let owner = self.batch.claim_owner(id, attempt)?;
        self.has_reported_wait = true;
        let cells = count_noun(self.cells_of_others.len(), "cell");
        let (host, since, batch_dir) = (&owner.host, &owner.since, self.batch.dir());
        let hint = if owner.boot == ClaimOwner::this_process("", None).boot {
            String::new()
        } else {
            format!("; if it is gone for good, remove `{batch_dir}/claims/{id}.{attempt}`")
        };
        Some(format!(
            "waiting for {cells} that other processes work on, such as `{id}` on `{host}` since \
             {since}{hint}"
        ))
    }

    /// Returns whether nothing remains to be waited for.
    fn is_over(&self) -> bool {
        let is_idle = self.scheduler.jobs() == 0;
        let is_stopped = self.stop.is_some();
        is_idle
            && (is_stopped || (self.pending_cells.is_empty() && self.cells_of_others.is_empty()))
    }
}

/// Returns the id of the cell with this number, from 0.
fn cell_id(ids: &[CellId], number: u32) -> Option<&CellId> {
    ids.get(usize::try_from(number).ok()?)
}

/// Runs the cells of a batch to their ends.
pub(super) async fn run_jobs(
    mut control: BatchControl,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let stop = listen_for_parking(host.hangup)?;
    control.scheduler.preflight().await?;
    let mut polls = tokio::time::interval(POLL_INTERVAL);
    let mut progress = BatchProgress::new(control.ids.len());
    let mut index = IndexSchedule::new(&control.batch);
    while !control.is_over() {
        control.submit(output).await?;
        progress.show(control.finished_cells, control.scheduler.jobs(), output);
        index.update_if_due(control.finished_cells);
        if control.is_over() {
            break;
        }
        if let Some(note) = control.take_wait_note() {
            output.note(&note);
        }
        tokio::select! {
            ended_job = control.scheduler.poll() => control.handle_ended_job(&ended_job?)?,
            new_stop = next_stop(&stop, control.stop) => {
                control.stop = Some(new_stop);
                control.scheduler.cancel().await?;
            }
            _ = polls.tick() => control.poll_files().await?,
            () = stop.immediate.cancelled() => break,
        }
    }
    finish(&control.batch, control.ids.len(), control.stop, output)
}

/// Waits for a signal that stops the batch; forever if `last_stop` was such a signal.
pub(super) async fn next_stop(stop: &ShutdownSignal, last_stop: Option<BatchStop>) -> BatchStop {
    if matches!(last_stop, Some(BatchStop::Interrupted | BatchStop::Parked)) {
        return std::future::pending().await;
    }
    tokio::select! {
        () = stop.graceful.cancelled() => BatchStop::Interrupted,
        () = stop.park.cancelled() => BatchStop::Parked,
    }
}

/// Shows the results, and says what remains to be done.
pub(super) fn finish(
    batch: &BatchDir,
    cells: usize,
    stop: Option<BatchStop>,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let survey = batch.survey::<CellResult>(u32::try_from(cells).unwrap_or(u32::MAX))?;
    let results = &survey.results;
    write_table(results, output)?;
    for line in failure_lines(batch, &survey) {
        output.note(&line);
    }
    let open_count = cells.saturating_sub(results.len());
    if open_count == 0 {
        let has_failures = results.iter().any(|result| !result.is_success());
        return Ok(if has_failures {
            ExitStatus::Failure
        } else {
            ExitStatus::Success
        });
    }
    let cells = count_noun(open_count, "cell");
    let (status, outcome) = match stop {
        Some(BatchStop::Interrupted) => (ExitStatus::Interrupted, "interrupted"),
        Some(BatchStop::Parked) => (ExitStatus::Parked, "parked"),
        Some(BatchStop::Cancelled) | None => (ExitStatus::Interrupted, "cancelled"),
        Some(BatchStop::WrongConfig) => (ExitStatus::Usage, "a config is wrong"),
        Some(BatchStop::OutOfMoney) => (ExitStatus::Limit, "the money of the batch is spent"),
        Some(BatchStop::EndpointsFail) => (ExitStatus::Failure, "the endpoints of the models fail"),
    };
    let resume = resume_command(&batch.name(), stop == Some(BatchStop::OutOfMoney));
    output.note(&format!(
        "{outcome}: {cells} without a result; continue with: {resume}"
    ));
    Ok(status)
}
