//! Shows a run or a pipeline from its event log on the dashboard, also one that has ended: its last
//! state stays open until the user closes it.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::cli::command_line::usage_error;
use crate::cli::dashboard::settings::{DashboardSettings, theme};
use crate::cli::dashboard::{DashboardInputEffect, DashboardSource};
use crate::cli::interrupts::{SHUTDOWN_TIMEOUT, listen, single_thread_runtime};
use crate::cli::logs::RecordedLog;
use crate::cli::output::CliOutput;
use crate::cli::run_frontend::UserPresence;
use crate::cli::run_terminal::RunTerminal;
use crate::error::Result;
use crate::event::{Event, RunEvent};
use crate::host::Host;
use crate::world::io::clock::Stopwatch;
use crate::world::io::event_sink::{EventSink as _, sleep_until_due};
use crate::world::store::event_log::{EventLogClock, LogReadError, LogReadResult};
use crate::world::store::tail::LogTail;

/// Maximum number of lines that are shown at once, before input of the terminal is handled again.
const BATCH_LINES_MAX: usize = 256;
/// Maximum number of batches of lines that wait to be shown.
const BATCHES_WAITING_MAX: usize = 4;

/// An event of the log, or why a line of it cannot be used.
type RecordedLine = std::result::Result<RecordedEvent, LogReadError>;

/// An event of the log.
#[derive(Debug)]
struct RecordedEvent {
    event: Event,
    /// The time since the first line.
    elapsed: Duration,
}

/// Shows the run or the pipeline with this log on the dashboard until the user closes it.
pub(super) fn follow(log: &RecordedLog, host: &Host) -> Result<()> {
    if UserPresence::detect(host) == UserPresence::Absent {
        return Err(usage_error(
            "`--dashboard` needs a terminal as standard input and standard error",
        )
        .with_hint("leave it out to follow the run as lines"));
    }
    let tail = LogTail::open(&log.events)?;
    let runtime = single_thread_runtime()?;
    let result = runtime.block_on(follow_lines(tail, log, host));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

async fn follow_lines(tail: LogTail, log: &RecordedLog, host: &Host) -> Result<()> {
    let (sender, mut lines) = mpsc::channel(BATCHES_WAITING_MAX);
    // Nothing waits for the task, which ends with the process at the latest: the line that it waits
    // for may never come.
    tokio::task::spawn_blocking(move || send_lines(tail, &sender));
    let stop = listen(host.hangup)?;
    let mut output = CliOutput::for_run_log(host);
    let settings = DashboardSettings {
        theme: theme(&host.env),
        limits: log.limits.unwrap_or_default(),
    };
    let mut terminal = RunTerminal::with_dashboard(&mut output, settings, DashboardSource::Record);
    let mut clock = RecordClock::start();
    let mut is_over = false;
    loop {
        tokio::select! {
            batch = lines.recv(), if !is_over => {
                if let Some(batch) = batch {
                    is_over = show_lines(batch, &mut terminal, &mut clock)?;
                    // What it delivered may have been undone since.
                    if is_over && let Some(note) = log.revert_note(host)? {
                        terminal.show_warning(note);
                    }
                } else {
                    // The log has ended without the end of its run: its process is gone.
                    is_over = true;
                    terminal.show_warning(&log.interrupted_message());
                }
            }
            () = sleep_until_due(terminal.due()) => {}
            input = terminal.next_input() => {
                if terminal.on_input(&input)? == DashboardInputEffect::Quit {
                    return Ok(());
                }
            }
            () = stop.graceful.cancelled() => {
                terminal.close_dashboard();
                return Ok(());
            }
        }
        let elapsed = if is_over {
            clock.last_elapsed
        } else {
            clock.now()
        };
        terminal.on_due(elapsed)?;
        if is_over && !terminal.has_dashboard() {
            return Ok(());
        }
    }
}

/// Shows the events of these lines up to the end of the run. Returns whether it has ended.
fn show_lines(
    batch: Vec<RecordedLine>,
    terminal: &mut RunTerminal<'_, '_>,
    clock: &mut RecordClock,
) -> Result<bool> {
    for line in batch {
        match line {
            Ok(RecordedEvent { event, elapsed }) => {
                clock.set(elapsed);
                terminal.on_event(&event, elapsed)?;
                if matches!(event, Event::Run(RunEvent::RunEnded { .. })) {
                    return Ok(true);
                }
            }
            Err(error) => terminal.show_warning(&error.to_string()),
        }
    }
    Ok(false)
}

/// Reads the events of the log, so that the thread of the terminal only shows them. Lines that have
/// already been written are sent together.
fn send_lines(mut tail: LogTail, sender: &mpsc::Sender<Vec<RecordedLine>>) {
    let mut clock = EventLogClock::default();
    let mut batch = Vec::new();
    loop {
        let line = tail.next_written();
        let has_read_all = line.is_none();
        batch.extend(line.and_then(|line| read_line(line, &mut clock)));
        let is_due = has_read_all || batch.len() >= BATCH_LINES_MAX;
        if is_due && !batch.is_empty() && sender.blocking_send(std::mem::take(&mut batch)).is_err()
        {
            return;
        }
        if has_read_all && !tail.wait() {
            return;
        }
    }
}

/// Reads the event of a line; `None` if this version does not know it.
fn read_line(line: LogReadResult, clock: &mut EventLogClock) -> Option<RecordedLine> {
    match line {
        Ok(entry) => {
            let elapsed = clock.elapsed_at(&entry);
            let event = entry.event?;
            Some(Ok(RecordedEvent { event, elapsed }))
        }
        Err(error) => Some(Err(error)),
    }
}

/// The time of a recorded run: that of its last event, and how long ago that was read.
#[derive(Debug)]
struct RecordClock {
    last_elapsed: Duration,
    since_last: Stopwatch,
}

impl RecordClock {
    fn start() -> Self {
        Self {
            last_elapsed: Duration::ZERO,
            since_last: Stopwatch::start(),
        }
    }

    fn set(&mut self, elapsed: Duration) {
        self.last_elapsed = elapsed;
        self.since_last = Stopwatch::start();
    }

    fn now(&self) -> Duration {
        self.last_elapsed.saturating_add(self.since_last.elapsed())
    }
}
