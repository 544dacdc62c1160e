//! Shows a batch until every cell has a result or nothing works on it any more: on the whole
//! terminal where a person watches, as a line for each change elsewhere.

use std::time::Duration;

use crate::batch::result::CellResult;
use crate::cli::args::batch::BatchWatchArguments;
use crate::cli::batch::open_batch_and_record;
use crate::cli::batch::state::write_report;
use crate::cli::batch_report::{BatchActivity, BatchReport, WatchedCells};
use crate::cli::dashboard::DashboardInputEffect;
use crate::cli::dashboard::batch_dashboard::BatchDashboard;
use crate::cli::dashboard::settings::select_watch_theme;
use crate::cli::dashboard::theme::Theme;
use crate::cli::execution::UserPresence;
use crate::cli::interrupts::listen_for_parking;
use crate::cli::output::CliOutput;
use crate::cli::run::{SHUTDOWN_TIMEOUT, runtime};
use crate::error::{Error, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::world::diagnostics::probe::terminal::stderr_size;
use crate::world::io::clock::Stopwatch;
use crate::world::store::batches::BatchDir;

/// Minimum pause between two polls of the files of the batch.
const POLL_PAUSE_MIN: Duration = Duration::from_secs(2);
/// How many times longer than a poll the pause after it is, so that polls use little of the disk.
const PAUSE_PER_POLL_TIME: u32 = 10;
/// Number of polls in a row that must find a batch stopped before it counts as stopped: a process
/// may be about to start or resume it.
const STOPPED_POLLS: u32 = 2;

/// How a live view ended.
enum LiveViewEnd {
    /// The user or a signal closed it, every cell has a result, or nothing works on the batch.
    Over(ExitStatus),
    /// The rest is shown as lines.
    Lines,
}

/// Runs `massgen batch watch`.
pub(super) fn watch(
    host: &Host,
    arguments: &BatchWatchArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, _) = open_batch_and_record(&arguments.batch, host, output)?;
    let presence = UserPresence::detect(host);
    let theme = (!arguments.json && !arguments.plain)
        .then(|| select_watch_theme(presence, &host.env, stderr_size()))
        .flatten();
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let stop = listen_for_parking(host.hangup)?;
        if let Some(theme) = theme
            && let LiveViewEnd::Over(status) = watch_live(&batch, theme, &stop, output).await?
        {
            return Ok(status);
        }
        write_changes(&batch, arguments.json, &stop, output).await
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

/// Writes each change of the counts.
async fn write_changes(
    batch: &BatchDir,
    is_json: bool,
    stop: &ShutdownSignal,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let mut last_state = None;
    let mut last_hint = None;
    let mut stopped_polls = StoppedPolls::default();
    loop {
        let began = Stopwatch::start();
        let report = BatchReport::read(batch)?;
        let pause = pause_after(began.elapsed());
        let is_stopped = report.activity == BatchActivity::Stopped;
        let state = (report.counts, is_json && is_stopped);
        if last_state != Some(state) {
            write_report(&report, is_json, output)?;
            last_state = Some(state);
            last_hint = None;
        } else if last_hint.is_none() {
            // Nothing has changed since the last poll, so no process is between two cells.
            last_hint = report.idle_hint();
            if let Some(hint) = &last_hint {
                output.note(hint);
            }
        }
        if report.is_finished() || output.is_closed() {
            return Ok(ExitStatus::Success);
        }
        if stopped_polls.record_poll(&report) {
            if let Some(hint) = report.idle_hint().filter(|_| last_hint.is_none()) {
                output.note(&hint);
            }
            return Ok(ExitStatus::Parked);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.graceful.cancelled() => return Ok(ExitStatus::Interrupted),
            () = stop.park.cancelled() => return Ok(ExitStatus::Interrupted),
        }
    }
}

/// Shows the batch on the whole terminal; the lines of its last state remain.
async fn watch_live(
    batch: &BatchDir,
    theme: Theme,
    stop: &ShutdownSignal,
    output: &mut CliOutput<'_>,
) -> Result<LiveViewEnd> {
    let Some(mut dashboard) = BatchDashboard::open(theme, output) else {
        return Ok(LiveViewEnd::Lines);
    };
    let view_result = show_changes(&mut dashboard, batch, stop, output).await;
    let last_report = dashboard.close(output);
    let end = view_result?;
    if let (LiveViewEnd::Over(_), Some(report)) = (&end, last_report) {
        write_report(&report, false, output)?;
        if let Some(hint) = report.idle_hint() {
            output.note(&hint);
        }
    }
    Ok(end)
}

/// Shows each change on the dashboard until the view ends.
async fn show_changes(
    dashboard: &mut BatchDashboard,
    batch: &BatchDir,
    stop: &ShutdownSignal,
    output: &mut CliOutput<'_>,
) -> Result<LiveViewEnd> {
    let mut next_poll = Box::pin(poll_after(batch.clone(), Duration::ZERO));
    let mut stopped_polls = StoppedPolls::default();
    loop {
        tokio::select! {
            poll = &mut next_poll => {
                let poll = poll?;
                let is_finished = poll.report.is_finished();
                let is_stopped = stopped_polls.record_poll(&poll.report);
                dashboard.show(poll.report, poll.cells, output);
                if is_finished {
                    return Ok(LiveViewEnd::Over(ExitStatus::Success));
                }
                if is_stopped {
                    return Ok(LiveViewEnd::Over(ExitStatus::Parked));
                }
                next_poll = Box::pin(poll_after(batch.clone(), poll.pause));
            }
            input = dashboard.next_input() => match dashboard.on_input(&input, output) {
                DashboardInputEffect::Stay | DashboardInputEffect::Send(_) => {}
                DashboardInputEffect::LeaveToLines => return Ok(LiveViewEnd::Lines),
                DashboardInputEffect::Quit => return Ok(LiveViewEnd::Over(ExitStatus::Success)),
            },
            () = stop.graceful.cancelled() => return Ok(LiveViewEnd::Over(ExitStatus::Interrupted)),
            () = stop.park.cancelled() => return Ok(LiveViewEnd::Over(ExitStatus::Interrupted)),
        }
    }
}

/// How many polls in a row have found that nothing works on a batch.
#[derive(Default)]
struct StoppedPolls(u32);

impl StoppedPolls {
    /// Counts a poll that found `report`; returns whether the batch counts as stopped.
    fn record_poll(&mut self, report: &BatchReport) -> bool {
        self.0 = match report.activity {
            BatchActivity::Stopped => self.0.saturating_add(1),
            BatchActivity::Active | BatchActivity::Unknown => 0,
        };
        self.0 >= STOPPED_POLLS
    }
}

/// Result of polling the files of a batch.
struct BatchPoll {
    report: BatchReport,
    cells: WatchedCells,
    /// The time until the next poll.
    pause: Duration,
}

/// Reads the files of `batch` after a `pause`, on another thread than the one that reads keys.
async fn poll_after(batch: BatchDir, pause: Duration) -> Result<BatchPoll> {
    tokio::time::sleep(pause).await;
    let poll = tokio::task::spawn_blocking(move || {
        let began = Stopwatch::start();
        let record = batch.record()?;
        let survey = batch.survey::<CellResult>(record.cells)?;
        Ok(BatchPoll {
            report: BatchReport::from_survey(&batch, &record, &survey)?,
            cells: WatchedCells::select(&batch, &survey),
            pause: pause_after(began.elapsed()),
        })
    });
    poll.await
        .map_err(|_| Error::bug("reading a batch failed unexpectedly"))?
}

/// Returns the pause after a poll that took this long.
fn pause_after(poll_time: Duration) -> Duration {
    poll_time
        .saturating_mul(PAUSE_PER_POLL_TIME)
        .max(POLL_PAUSE_MIN)
}
