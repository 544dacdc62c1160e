//! The process that submits the jobs of a batch to a queue and polls their state. The jobs continue
//! without it; when it is restarted, it finds them through the queue and the files of the batch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::batch::next_step::{AttemptEnd, PAUSES_MAX};
use crate::batch::task::CellId;
use crate::cli::batch::control::{BatchStop, finish, next_stop};
use crate::cli::batch::index_schedule::IndexSchedule;
use crate::cli::batch::progress::BatchProgress;
use crate::cli::batch::start_settings::BatchStartSettings;
use crate::cli::batch_report::resume_command;
use crate::cli::interrupts::listen_for_parking;
use crate::cli::output::CliOutput;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::text::count_noun;
use crate::world::batch_scheduler::{JobListing, JobQueue, QueueJob};
use crate::world::store::batches::claims::ClaimOwner;
use crate::world::store::batches::queue::OpenCell;
use crate::world::store::batches::{BatchDir, BatchRecord};

/// The shortest time between two polls of the queue. It is doubled up to [`POLL_MAX`] while nothing
/// changes.
const POLL_MIN: Duration = Duration::from_millis(500);
/// The longest time between two polls of the queue.
const POLL_MAX: Duration = Duration::from_secs(8);
/// The time that each cell of the batch adds to the shortest time between two polls, because a poll
/// lists all claims and results.
const POLL_PER_CELL: Duration = Duration::from_micros(80);
/// Number of submissions in a row whose jobs end without any progress, after which the batch stops.
const FRUITLESS_SUBMISSIONS_MAX: u32 = 3;
/// Number of polls in a row in which a command of the queue may fail.
const FAILURES_MAX: u32 = 50;

/// The cells of a batch and the queue of their jobs.
#[derive(Debug)]
pub(super) struct QueueControl {
    batch: BatchDir,
    ids: Vec<CellId>,
    queue: Box<dyn JobQueue>,
    settings: BatchStartSettings,
    /// The last attempt at each open cell that waited for money when this process began, by the
    /// number of the cell. Those do not stop the batch: there may be more money now.
    unpaid_before: BTreeMap<u32, u32>,
    /// The progress of the batch at the last submission.
    progress_at_submission: Option<BatchProgressSnapshot>,
    /// Number of submissions in a row whose jobs ended without any progress.
    fruitless_submissions: u32,
    /// Number of polls in a row in which a command of the queue failed.
    failures: u32,
    /// Whether the queue accepted no further jobs at the last submission.
    is_full: bool,
    /// Since when each job with a claim is missing from the list, by its name.
    missing_since: BTreeMap<String, Instant>,
    /// How often each cell has lost its process since this process began, by its number.
    loss_counts: BTreeMap<u32, u32>,
    /// Maximum number of retries of a cell.
    retries: u32,
    /// The last reason that was shown for which jobs wait.
    last_wait_reason: Option<String>,
    /// Whether the jobs of a cancelled batch were cancelled.
    has_cancelled_jobs: bool,
    /// Why no further cells are started; the first reason stays.
    stop: Option<BatchStop>,
}

/// The progress of a batch; it changes when a cell is claimed or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BatchProgressSnapshot {
    open_cells: usize,
    attempts: u64,
    claimed_cells: usize,
}

impl BatchProgressSnapshot {
    fn new(cells: &[OpenCell]) -> Self {
        Self {
            open_cells: cells.len(),
            attempts: cells.iter().map(|cell| u64::from(cell.attempt)).sum(),
            claimed_cells: cells.iter().filter(|cell| cell.is_claimed()).count(),
        }
    }
}

impl QueueControl {
    /// Creates the control of `batch` with jobs in `queue`.
    pub(super) fn new(
        batch: BatchDir,
        record: &BatchRecord,
        queue: Box<dyn JobQueue>,
        settings: BatchStartSettings,
    ) -> Result<Self> {
        let ids = batch.cell_ids(record)?;
        batch.settle_finished()?;
        let open_cells = batch.open_cells(&ids)?;
        let unpaid = open_cells
            .iter()
            .filter(|cell| cell.end == Some(AttemptEnd::OutOfMoney));
        Ok(Self {
            unpaid_before: unpaid.map(|cell| (cell.number, cell.attempt)).collect(),
            batch,
            ids,
            queue,
            settings,
            progress_at_submission: None,
            fruitless_submissions: 0,
            failures: 0,
            is_full: false,
            missing_since: BTreeMap::new(),
            loss_counts: BTreeMap::new(),
            retries: record.retries,
            last_wait_reason: None,
            has_cancelled_jobs: false,
            stop: None,
        })
    }

    /// Lists the jobs; `None` if the queue does not answer now.
    ///
    /// # Errors
    /// The queue has not answered for too long, or no job can ever work. Then the jobs are
    /// cancelled.
    async fn list_jobs(&mut self, output: &mut CliOutput<'_>) -> Result<Option<Vec<QueueJob>>> {
        let listing = match self.queue.list().await {
            Ok(listing) => listing,
            Err(error) => return self.tolerate_failure(error, output).map(|()| None),
        };
        let JobListing {
            jobs,
            wait,
            messages,
            error,
        } = listing;
        for line in &messages {
            output.note(line);
        }
        if let Some(error) = error {
            if let Err(error) = self.queue.cancel_all().await {
                output.warning(&format!("jobs may be left in the queue: {error:#}"));
            }
            let resume = resume_command(&self.batch.name(), false);
            return Err(error.with_hint(format!("then: {resume}")));
        }
        if let Some(wait) = wait.as_ref().filter(|_| wait != self.last_wait_reason) {
            output.note(&format!("jobs wait in the queue: {wait}"));
        }
        self.last_wait_reason = wait;
        Ok(Some(jobs))
    }

    /// Cancels all jobs of a batch that was cancelled or interrupted, otherwise those of `jobs`
    /// that wait: the others finish their cells.
    async fn cancel(&mut self, jobs: &[QueueJob], output: &mut CliOutput<'_>) -> Result<()> {
        let has_waiting = jobs.iter().any(|job| job.is_waiting);
        let cancels_running_jobs = match self.stop {
            Some(BatchStop::Cancelled | BatchStop::Interrupted) => true,
            Some(
                BatchStop::Parked
                | BatchStop::WrongConfig
                | BatchStop::OutOfMoney
                | BatchStop::EndpointsFail,
            )
            | None => false,
        };
        let cancel_result = if cancels_running_jobs && (has_waiting || !self.has_cancelled_jobs) {
            self.queue.cancel_all().await
        } else if has_waiting {
            self.queue.cancel_waiting().await
        } else {
            Ok(())
        };
        match cancel_result {
            Ok(()) => {
                self.has_cancelled_jobs |= cancels_running_jobs;
                Ok(())
            }
            Err(error) => self.tolerate_failure(error, output),
        }
    }

    /// Tolerates a failed command unless too many failed in a row. The jobs continue meanwhile.
    fn tolerate_failure(&mut self, error: Error, output: &mut CliOutput<'_>) -> Result<()> {
        if self.failures >= FAILURES_MAX {
            let resume = resume_command(&self.batch.name(), false);
            return Err(error.with_hint(format!(
                "its jobs continue; to control them again: {resume}"
            )));
        }
        if self.failures == 0 {
            output.warning(&format!(
                "the queue does not answer, trying again: {error:#}"
            ));
        }
        self.failures = self.failures.saturating_add(1);
        Ok(())
    }

    /// Records which of the claimed `cells` have lost their job, and marks them as free.
    ///
    /// # Errors
    /// A cell loses its process again and again without a result: none can be written.
    fn record_lost_cells(&mut self, cells: &mut [OpenCell], jobs: &[QueueJob]) -> Result<()> {
        // A waiting job of a queue that restarts jobs may have lost its cell.
        let restarts = self.queue.restarts_jobs();
        let live_jobs: BTreeSet<&str> = jobs
            .iter()
            .filter(|job| !restarts || !job.is_waiting)
            .map(|job| job.name.as_str())
            .collect();
        self.missing_since
            .retain(|name, _| !live_jobs.contains(name.as_str()));
        let delay = self.queue.loss_delay();
        let this_process = ClaimOwner::this_process("", None);
        for cell in cells.iter_mut().filter(|cell| cell.is_claimed()) {
            let Some(owner) = &cell.owner else {
                continue;
            };
            let job = owner.job.as_deref().unwrap_or_default();
            // On this host, the lock of the claim is more reliable than the queue.
            let is_alive = if owner.engine == self.queue.name() && owner.boot != this_process.boot {
                live_jobs.contains(job) || {
                    let since = self.missing_since.entry(job.to_owned());
                    since.or_insert_with(Instant::now).elapsed() < delay
                }
            } else {
                self.batch
                    .is_attempt_alive(&cell.id, cell.attempt, &this_process)
            };
            if !is_alive {
                self.batch.record_lost_job(cell)?;
                cell.end = Some(AttemptEnd::ProcessLost);
                let count = self.loss_counts.entry(cell.number).or_default();
                *count = count.saturating_add(1);
                if *count > self.retries.saturating_add(2) {
                    return Err(self.no_progress_error());
                }
            }
        }
        Ok(())
    }

    /// Determines whether the batch must stop, and why, from the files of the batch.
    fn update_stop(&mut self, cells: &[OpenCell]) -> Result<()> {
        let is_newly_unpaid = |cell: &OpenCell| {
            cell.end == Some(AttemptEnd::OutOfMoney)
                && self.unpaid_before.get(&cell.number) != Some(&cell.attempt)
        };
        let pauses = self.batch.pause()?.map_or(0, |pause| pause.count);
        let stop = if self.batch.is_config_wrong()? {
            BatchStop::WrongConfig
        } else if self.batch.is_cancelled()? {
            BatchStop::Cancelled
        } else if cells.iter().any(is_newly_unpaid) {
            BatchStop::OutOfMoney
        } else if pauses > PAUSES_MAX {
            BatchStop::EndpointsFail
        } else {
            return Ok(());
        };
        self.stop.get_or_insert(stop);
        Ok(())
    }

    /// Submits jobs for cells that no job works on, up to the wanted number of jobs.
    async fn submit(
        &mut self,
        cells: &[OpenCell],
        jobs: &[QueueJob],
        output: &mut CliOutput<'_>,
    ) -> Result<()> {
        if self.batch.active_pause()?.is_some() {
            return Ok(());
        }
        let free_cells = cells.iter().filter(|cell| !cell.is_claimed()).count();
        let waiting_jobs = jobs.iter().filter(|job| job.is_waiting).count();
        let wanted_jobs = self
            .settings
            .parallel
            .min(cells.len().div_ceil(self.settings.cells_per_job));
        let missing_jobs = wanted_jobs.saturating_sub(jobs.len());
        // Jobs that are about to begin take a free cell each.
        let count = missing_jobs.min(free_cells.saturating_sub(waiting_jobs));
        if count == 0 {
            return Ok(());
        }
        let progress = BatchProgressSnapshot::new(cells);
        // While a job is in the queue, it may still make progress.
        if jobs.is_empty() && self.progress_at_submission == Some(progress) {
            self.fruitless_submissions = self.fruitless_submissions.saturating_add(1);
        } else if self.progress_at_submission != Some(progress) {
            self.fruitless_submissions = 0;
        }
        if self.fruitless_submissions >= FRUITLESS_SUBMISSIONS_MAX {
            return Err(self.no_progress_error());
        }
        let refused_nodes = self.batch.refused_nodes()?;
        if let Err(error) = self.queue.submit(count, &refused_nodes).await {
            // The first submission shows whether the settings are right. Later, the queue may be
            // unavailable for a while, or the site may allow fewer jobs than are wanted.
            if jobs.is_empty() && self.progress_at_submission.is_none() {
                return Err(error);
            }
            if jobs.is_empty() {
                return self.tolerate_failure(error, output);
            }
            if !self.is_full {
                output.warning(&format!("the queue takes no further jobs now: {error:#}"));
            }
            self.is_full = true;
            return Ok(());
        }
        self.is_full = false;
        self.progress_at_submission = Some(progress);
        Ok(())
    }

    fn no_progress_error(&self) -> Error {
        let message = "the jobs of the batch end without a result";
        let error = Error::new(ErrorKind::Environment, message);
        let error = match self.batch.last_job_output() {
            Some(text) => error.with_hint(format!("the last one printed: {text}")),
            None => error.with_hint(
                "its directory and the program `massgen` must have the same paths on all nodes",
            ),
        };
        let refused_nodes = self.batch.refused_nodes().unwrap_or_default();
        match refused_nodes.as_slice() {
            [] => error,
            names => error.with_hint(format!("nodes that were refused: {}", names.join(", "))),
        }
    }
}

/// Runs the cells of a batch to their ends.
pub(super) async fn run_queue_jobs(
    mut control: QueueControl,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let stop = listen_for_parking(host.hangup)?;
    control.queue.preflight().await?;
    let mut progress = BatchProgress::new(control.ids.len());
    let mut index = IndexSchedule::new(&control.batch);
    let interval_min = poll_interval_min(control.ids.len());
    let mut last_snapshot = None;
    let mut interval = interval_min;
    loop {
        let mut cells = control.batch.open_cells(&control.ids)?;
        if cells.is_empty() {
            break;
        }
        let failures_before = control.failures;
        let jobs = control.list_jobs(output).await?;
        control.update_stop(&cells)?;
        if let Some(jobs) = &jobs {
            control.record_lost_cells(&mut cells, jobs)?;
            let finished_cells = control.ids.len().saturating_sub(cells.len());
            let running_jobs = jobs.iter().filter(|job| !job.is_waiting).count();
            progress.show(finished_cells, running_jobs, output);
            index.update_if_due(finished_cells);
            if control.stop.is_none() {
                control.submit(&cells, jobs, output).await?;
            } else if jobs.is_empty() {
                break;
            } else {
                control.cancel(jobs, output).await?;
            }
        }
        // A poll without a failure ends the series.
        if control.failures == failures_before {
            control.failures = 0;
        }
        let snapshot = (BatchProgressSnapshot::new(&cells), jobs);
        interval = if last_snapshot.as_ref() == Some(&snapshot) {
            POLL_MAX.min(interval.saturating_mul(2))
        } else {
            interval_min
        };
        last_snapshot = Some(snapshot);
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            new_stop = next_stop(&stop, control.stop) => {
                control.stop = Some(new_stop);
                if new_stop == BatchStop::Parked {
                    return detach(&control, output);
                }
                // Ctrl-C cancels the batch, also for its jobs on other hosts.
                control.batch.cancel()?;
                interval = POLL_MIN;
            }
            () = stop.immediate.cancelled() => break,
        }
    }
    // Jobs that still wait would find no cell.
    if let Err(error) = control.queue.cancel_all().await {
        output.warning(&format!("jobs may be left in the queue: {error:#}"));
    }
    finish(&control.batch, control.ids.len(), control.stop, output)
}

/// Returns the shortest time between two polls of a batch of `cells` cells.
fn poll_interval_min(cells: usize) -> Duration {
    let cells = u32::try_from(cells).unwrap_or(u32::MAX);
    POLL_PER_CELL
        .saturating_mul(cells)
        .clamp(POLL_MIN, POLL_MAX)
}

/// Tells the user that the jobs continue after the end of this process.
fn detach(control: &QueueControl, output: &mut CliOutput<'_>) -> Result<ExitStatus> {
    let name = control.batch.name();
    let open_count = control.batch.open_cells(&control.ids)?.len();
    let cells = count_noun(open_count, "cell");
    let resume = resume_command(&name, false);
    output.note(&format!(
        "{cells} without a result; the jobs continue. Show progress: massgen batch watch {name}; \
         submit more: {resume}"
    ));
    Ok(ExitStatus::Parked)
}
