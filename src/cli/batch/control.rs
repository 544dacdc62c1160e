//! The control process of a batch: it submits arrays of jobs until every cell has a result. It keeps
//! nothing that is not in the files of the batch: it can be killed and started again anywhere.

use std::time::Duration;

use crate::batch::next_step::{AttemptEnd, PAUSES_MAX, pause_after};
use crate::batch::task::CellId;
use crate::cli::batch::results::write_table;
use crate::cli::batch_report::{failure_lines, resume_command};
use crate::cli::interrupts::listen_for_parking;
use crate::cli::output::CliOutput;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::spending::money::Money;
use crate::text::count_noun;
use crate::world::batch_engine::{ArrayEngine, JobCounts};
use crate::world::io::clock::Stopwatch;
use crate::world::store::batches::attempts::ProcessMark;
use crate::world::store::batches::submissions::{OwnSubmission, SubmissionHead};
use crate::world::store::batches::{BatchDir, BatchRecord};

/// Interval at which the files of the batch are read while no job ends.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time for each cell of the batch during which what it has spent is not read again.
const REREAD_PER_CELL: Duration = Duration::from_micros(80);
/// Number of submissions in a row that may give no result, in addition to the repetitions of a cell.
const FRUITLESS_MAX: u32 = 2;
/// Number of polls in a row in which the engine may fail.
const FAILURES_MAX: u32 = 50;

/// Why a batch starts no further cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchStop {
    /// The user pressed Ctrl-C.
    Interrupted,
    /// A signal asked the process to end.
    Parked,
    /// The batch was cancelled.
    Cancelled,
    /// Another process has submitted the cells again.
    TakenOver,
    /// The money of the batch is spent.
    OutOfMoney,
    /// The endpoints of the models failed too often.
    EndpointsFail,
}

/// A batch and the engine of its jobs.
#[derive(Debug)]
pub(super) struct BatchControl {
    batch: BatchDir,
    record: BatchRecord,
    ids: Vec<CellId>,
    engine: Box<dyn ArrayEngine>,
    cells_per_job: usize,
    /// The last submission of this process.
    submission: Option<OwnSubmission>,
    /// The number of jobs that wait.
    waiting: usize,
    facts: Option<BatchFacts>,
    /// The pause before the next submission, and the time since it began.
    pause: Option<(Duration, Stopwatch)>,
    /// The number of open cells and the spent money at the last submission.
    last_progress: Option<(usize, Money)>,
    /// Number of submissions in a row without any progress.
    fruitless: u32,
    /// Number of polls in a row in which the engine failed.
    failures: u32,
    /// How many polls in a row found no job.
    idle_polls: u32,
    stop: Option<BatchStop>,
}

/// What takes time for each cell or attempt to read.
#[derive(Clone, Copy, Debug)]
struct BatchFacts {
    /// The number of cells with a result.
    finished: usize,
    /// What all attempts have spent; zero without a limit.
    spent: Money,
    /// The time since this was read.
    age: Stopwatch,
}

/// Creates the next submission of `batch` for the jobs of `engine`, at most `indexes_max`, for the
/// cells in `open`, with equal shares of the money that is left; `None` if another process has just
/// done so.
pub(super) fn create_submission(
    batch: &BatchDir,
    record: &BatchRecord,
    engine: &str,
    open: &[u32],
    [cells_per_job, indexes_max]: [usize; 2],
) -> Result<Option<OwnSubmission>> {
    let indexes = open.len().div_ceil(cells_per_job.max(1)).min(indexes_max);
    let indexes = u32::try_from(indexes.max(1)).unwrap_or(u32::MAX);
    let share_usd = match batch.limit(record)? {
        Some(limit) => Some(limit.saturating_sub(batch.spent()?).divided_by(indexes)),
        None => None,
    };
    let head = SubmissionHead {
        engine: engine.to_owned(),
        indexes,
        share_usd,
        mark: ProcessMark::of_this_process(String::new()),
    };
    batch.submit(&head, open)
}

impl BatchControl {
    /// Creates the control of `batch`.
    pub(super) fn new(
        batch: BatchDir,
        record: BatchRecord,
        engine: Box<dyn ArrayEngine>,
        cells_per_job: usize,
    ) -> Result<Self> {
        Ok(Self {
            ids: batch.cell_ids(&record)?,
            batch,
            record,
            engine,
            cells_per_job,
            submission: None,
            waiting: 0,
            facts: None,
            pause: None,
            last_progress: None,
            fruitless: 0,
            failures: 0,
            idle_polls: 0,
            stop: None,
        })
    }

    /// Runs the cells to their ends.
    pub(super) async fn run(
        mut self,
        host: &Host,
        output: &mut CliOutput<'_>,
    ) -> Result<ExitStatus> {
        let signals = listen_for_parking(host.hangup)?;
        output.set_stop(&signals);
        let indexes_max = usize::try_from(self.engine.indexes_max().await?).unwrap_or(usize::MAX);
        let mut progress = BatchProgress::new(self.ids.len());
        loop {
            let may_start = self.read_files()?;
            if self.waiting > 0 && !may_start {
                self.engine.cancel_waiting().await?;
            }
            if let Some(counts) = self.poll(output).await? {
                let is_idle = self.is_idle(counts);
                let finished = self.facts(is_idle)?.finished;
                progress.show(finished, counts.running, output);
                self.waiting = counts.waiting;
                if finished >= self.ids.len() {
                    // Jobs that were requeued would find nothing to do.
                    self.engine.cancel_waiting().await?;
                    break;
                }
                if is_idle && self.stop.is_some() {
                    break;
                }
                if is_idle && !self.is_pausing() {
                    self.begin_round(indexes_max, output).await?;
                    continue;
                }
            }
            if self.stop == Some(BatchStop::TakenOver) {
                break;
            }
            tokio::select! {
                () = self.engine.wait() => {}
                () = tokio::time::sleep(POLL_INTERVAL), if !self.engine.outlives_control() => {}
                stop = next_stop(&signals, self.stop) => {
                    self.stop = Some(stop);
                    if stop == BatchStop::Parked && self.engine.outlives_control() {
                        break;
                    }
                    // Runs are parked by the file, on every host.
                    self.batch.cancel()?;
                }
                () = signals.immediate.cancelled() => break,
            }
        }
        self.finish(output)
    }

    /// Returns whether no job is left. A queue may list none for a moment while it requeues one, so
    /// it has to say so twice.
    fn is_idle(&mut self, counts: JobCounts) -> bool {
        self.idle_polls = if counts == JobCounts::default() {
            self.idle_polls.saturating_add(1)
        } else {
            0
        };
        let polls_min = if self.engine.outlives_control() { 2 } else { 1 };
        self.idle_polls >= polls_min
    }

    /// Counts the jobs; `None` if the engine does not answer now.
    async fn poll(&mut self, output: &mut CliOutput<'_>) -> Result<Option<JobCounts>> {
        let error = match self.engine.poll().await {
            Ok(counts) => {
                self.failures = 0;
                return Ok(Some(counts));
            }
            Err(error) => error,
        };
        self.failures = self.failures.saturating_add(1);
        if !self.engine.outlives_control() || self.failures > FAILURES_MAX {
            let resume = resume_command(&self.batch.name(), false);
            return Err(error.with_hint(format!(
                "its jobs continue; to control them again: {resume}"
            )));
        }
        if self.failures == 1 {
            output.warning(&format!(
                "the queue does not answer, trying again: {error:#}"
            ));
        }
        Ok(None)
    }

    /// Reads from the files of the batch whether further jobs of this submission may start.
    fn read_files(&mut self) -> Result<bool> {
        let is_superseded = match &self.submission {
            Some(submission) => self.batch.is_submission_superseded(submission.number)?,
            None => false,
        };
        let limit = self.batch.limit(&self.record)?;
        let is_spent = match limit {
            Some(limit) => self.facts(false)?.spent >= limit,
            None => false,
        };
        let stop = if self.batch.is_cancelled()? {
            Some(BatchStop::Cancelled)
        } else if is_superseded {
            Some(BatchStop::TakenOver)
        } else {
            is_spent.then_some(BatchStop::OutOfMoney)
        };
        self.stop = self.stop.or(stop);
        Ok(self.stop.is_none() && self.batch.held_reason()?.is_none())
    }

    /// Returns the number of results and what was spent, not older than they may be for the size of
    /// the batch, or `must_be_new`.
    fn facts(&mut self, must_be_new: bool) -> Result<BatchFacts> {
        let cells = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        let age_max = REREAD_PER_CELL.saturating_mul(cells);
        let is_new = |facts: &BatchFacts| !must_be_new && facts.age.elapsed() < age_max;
        if let Some(facts) = self.facts.filter(is_new) {
            return Ok(facts);
        }
        let has_limit = self.batch.limit(&self.record)?.is_some();
        let facts = BatchFacts {
            finished: self.batch.finished_count()?,
            spent: if has_limit {
                self.batch.spent()?
            } else {
                Money::ZERO
            },
            age: Stopwatch::start(),
        };
        self.facts = Some(facts);
        Ok(facts)
    }

    fn is_pausing(&self) -> bool {
        let is_over = |(length, began): &(Duration, Stopwatch)| began.elapsed() >= *length;
        self.pause.as_ref().is_some_and(|pause| !is_over(pause))
    }

    /// Submits the cells without a result. If endpoints failed, it begins a pause before that.
    async fn begin_round(&mut self, indexes_max: usize, output: &mut CliOutput<'_>) -> Result<()> {
        let (open, held) = self.open_cells()?;
        if self.pause.take().is_none() {
            let progress = (open.len(), self.batch.spent()?);
            self.fruitless = if self.last_progress.replace(progress) == Some(progress) {
                self.fruitless.saturating_add(1)
            } else {
                0
            };
            if let Some(reason) = self.batch.held_reason()?.filter(|_| held > 0) {
                self.begin_pause(&reason, output);
                return Ok(());
            }
        }
        if held == 0 && self.fruitless > self.record.retries.saturating_add(FRUITLESS_MAX) {
            let message = "the jobs of the batch end without a result";
            let error = Error::new(ErrorKind::Environment, message);
            return Err(error.with_hint(self.engine.failure_hint()));
        }
        self.batch.release_held()?;
        let sizes = [self.cells_per_job, indexes_max];
        let engine = self.engine.name();
        let submission = create_submission(&self.batch, &self.record, engine, &open, sizes)?;
        let Some(submission) = submission else {
            self.stop = Some(BatchStop::TakenOver);
            return Ok(());
        };
        let (number, indexes) = (submission.number, submission.indexes);
        let is_first = self.submission.replace(submission).is_none();
        if let Err(error) = self.engine.submit(number, indexes).await {
            if is_first {
                return Err(error);
            }
            output.warning(&format!("submitting again: {error:#}"));
        }
        Ok(())
    }

    /// Returns the numbers of the cells without a result, and how many of them are held; those come
    /// last.
    fn open_cells(&self) -> Result<(Vec<u32>, usize)> {
        let (mut open, mut held) = (Vec::new(), Vec::new());
        for number in self.batch.unfinished_numbers(&self.ids)? {
            let id = usize::try_from(number).ok().and_then(|at| self.ids.get(at));
            let Some(id) = id else {
                continue;
            };
            let attempt = self.batch.last_attempt(id)?;
            let note = match attempt {
                0 => None,
                attempt => self.batch.attempt_note(id, attempt)?,
            };
            if note.and_then(|note| note.end) == Some(AttemptEnd::EndpointsFailed) {
                held.push(number);
            } else {
                open.push(number);
            }
        }
        let held_count = held.len();
        open.append(&mut held);
        Ok((open, held_count))
    }

    /// Begins a pause because endpoints failed, each time a longer one.
    fn begin_pause(&mut self, reason: &str, output: &mut CliOutput<'_>) {
        if self.fruitless > PAUSES_MAX {
            self.stop = Some(BatchStop::EndpointsFail);
            return;
        }
        let seconds = pause_after(self.fruitless.saturating_sub(1));
        output.note(&format!("the batch pauses for {seconds} s: {reason}"));
        self.pause = Some((Duration::from_secs(seconds), Stopwatch::start()));
    }

    /// Shows the results, and says what remains to be done.
    fn finish(&self, output: &mut CliOutput<'_>) -> Result<ExitStatus> {
        let survey = self.batch.survey(self.record.cells)?;
        let results = &survey.results;
        write_table(results, output)?;
        for line in failure_lines(&self.batch, &survey) {
            output.note(&line);
        }
        let open_count = self.ids.len().saturating_sub(results.len());
        if open_count == 0 {
            let has_failures = results.iter().any(|result| !result.is_success());
            return Ok(if has_failures {
                ExitStatus::Failure
            } else {
                ExitStatus::Success
            });
        }
        let cells = count_noun(open_count, "cell");
        let (status, outcome) = match self.stop {
            Some(BatchStop::Interrupted) => (ExitStatus::Interrupted, "interrupted"),
            Some(BatchStop::Parked) if self.engine.outlives_control() => {
                (ExitStatus::Parked, "the jobs continue without this process")
            }
            Some(BatchStop::Parked) => (ExitStatus::Parked, "parked"),
            Some(BatchStop::TakenOver) => (ExitStatus::Parked, "another process resumed the batch"),
            Some(BatchStop::Cancelled) | None => (ExitStatus::Interrupted, "cancelled"),
            Some(BatchStop::OutOfMoney) => (ExitStatus::Limit, "the money of the batch is spent"),
            Some(BatchStop::EndpointsFail) => {
                (ExitStatus::Failure, "the endpoints of the models fail")
            }
        };
        let resume = resume_command(&self.batch.name(), self.stop == Some(BatchStop::OutOfMoney));
        output.note(&format!(
            "{outcome}: {cells} without a result; continue with: {resume}"
        ));
        Ok(status)
    }
}

/// Waits for a signal that stops the batch; forever if `last_stop` was such a signal.
async fn next_stop(signals: &ShutdownSignal, last_stop: Option<BatchStop>) -> BatchStop {
    if matches!(last_stop, Some(BatchStop::Interrupted | BatchStop::Parked)) {
        return std::future::pending().await;
    }
    tokio::select! {
        () = signals.graceful.cancelled() => BatchStop::Interrupted,
        () = signals.park.cancelled() => BatchStop::Parked,
    }
}

/// The shortest interval between two lines where nothing can be redrawn.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Shows how many cells of a batch have a result.
#[derive(Debug)]
struct BatchProgress {
    cell_count: usize,
    /// The numbers of finished cells and of running jobs at the last call.
    last_counts: Option<(usize, usize)>,
    /// The time since the last line.
    since_line: Stopwatch,
}

impl BatchProgress {
    /// Creates the progress of a batch of this many cells.
    fn new(cell_count: usize) -> Self {
        Self {
            cell_count,
            last_counts: None,
            since_line: Stopwatch::start(),
        }
    }

    /// Shows that `finished_cells` cells have a result and `jobs` jobs are running.
    fn show(&mut self, finished_cells: usize, jobs: usize, output: &mut CliOutput<'_>) {
        let counts = (finished_cells, jobs);
        if self.last_counts.replace(counts) == Some(counts) {
            return;
        }
        let text = format!(
            "{finished_cells} of {} cells, {jobs} running",
            self.cell_count
        );
        if output.has_terminal() {
            output.transient(&text);
        } else if self.since_line.elapsed() >= LINE_INTERVAL {
            self.since_line = Stopwatch::start();
            output.note(&text);
        }
    }
}
