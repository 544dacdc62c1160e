//! Prints a run from its event log, with the same renderer as a live run. Everything goes to
//! standard output, because it is the result of the command; with JSON, reports about damaged lines
//! go to standard error.

use crate::cli::logs::RecordedLog;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::render::RunRenderer;
use crate::error::Result;
use crate::event::{Event, RunEvent};
use crate::host::Host;
use crate::path::AbsPath;
use crate::world::io::event_sink::EventSink as _;
use crate::world::store::event_log::{self, EventLogClock, LogEntry, LogReadResult};
use crate::world::store::tail::LogTail;

/// Prints a run or a pipeline as far as its log at `events` goes.
pub(super) fn show(events: &AbsPath, format: ReportFormat, host: &Host) -> Result<()> {
    print_lines(event_log::open(events)?, format, host).map(drop)
}

/// Prints a run or a pipeline from its log, and follows it until it ends.
pub(super) fn follow(log: &RecordedLog, format: ReportFormat, host: &Host) -> Result<()> {
    let is_complete = print_lines(LogTail::open(&log.events)?, format, host)?;
    if !is_complete {
        let mut output = CliOutput::from_host(host);
        output.warning(&log.interrupted_message());
    }
    Ok(())
}

/// Prints the lines of a log. Returns whether printing is over: the run has ended, or the reader of
/// the output has closed it.
fn print_lines(
    lines: impl Iterator<Item = LogReadResult>,
    format: ReportFormat,
    host: &Host,
) -> Result<bool> {
    let mut output = CliOutput::for_run_log(host);
    match format {
        ReportFormat::Json => print_json(lines, &mut output),
        ReportFormat::Text => print_text(lines, &mut output),
    }
}

/// Prints each event as it is in the log, and reports damaged lines on standard error.
fn print_json(
    lines: impl Iterator<Item = LogReadResult>,
    output: &mut CliOutput<'_>,
) -> Result<bool> {
    let mut error_output = CliOutput::plain();
    for line in lines {
        match line {
            Ok(entry) => {
                let is_last = is_end(&entry);
                output.result(&format!("{}\n", entry.json))?;
                if is_last || output.is_closed() {
                    return Ok(true);
                }
            }
            Err(error) => error_output.warning(&error.to_string()),
        }
    }
    Ok(false)
}

/// Returns whether the log ends here: pipelines end with the same event as runs.
fn is_end(entry: &LogEntry) -> bool {
    matches!(entry.event, Some(Event::Run(RunEvent::RunEnded { .. })))
}

fn print_text(
    lines: impl Iterator<Item = LogReadResult>,
    output: &mut CliOutput<'_>,
) -> Result<bool> {
    let mut clock = EventLogClock::default();
    let mut renderer = RunRenderer::new(output);
    for line in lines {
        let entry = match line {
            Ok(entry) => entry,
            Err(error) => {
                renderer.show_warning(&error.to_string());
                continue;
            }
        };
        let Some(event) = &entry.event else {
            continue;
        };
        renderer.on_event(event, clock.elapsed_at(&entry))?;
        if is_end(&entry) || renderer.is_closed() {
            return Ok(true);
        }
    }
    renderer.finish_all_replies();
    Ok(false)
}
