//! Prints a run from its event log, with the same renderer as a live run. Everything goes to
//! standard output, including reports of damage: it is what was asked for.

use crate::cli::logs::dashboard_follow::INTERRUPTED;
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
pub(super) fn show(events: &AbsPath, form: ReportFormat, host: &Host) -> Result<()> {
    print_lines(event_log::open(events)?, form, host).map(drop)
}

/// Prints a run or a pipeline from its log at `events`, and follows it until it ends.
pub(super) fn follow(events: &AbsPath, form: ReportFormat, host: &Host) -> Result<()> {
    let is_complete = print_lines(LogTail::open(events)?, form, host)?;
    if !is_complete {
        let mut output = CliOutput::from_host(host);
        output.warning(INTERRUPTED);
    }
    Ok(())
}

fn print_lines(
    lines: impl Iterator<Item = LogReadResult>,
    form: ReportFormat,
    host: &Host,
) -> Result<bool> {
    let mut output = CliOutput::for_run_log(host);
    match form {
        ReportFormat::Json => print_json(lines, &mut output),
        ReportFormat::Text => print_text(lines, &mut output),
    }
}

/// Prints each event as it is in the log, and reports damage on standard error.
fn print_json(
    lines: impl Iterator<Item = LogReadResult>,
    output: &mut CliOutput<'_>,
) -> Result<bool> {
    let mut damage = CliOutput::plain();
    for line in lines {
        match line {
            Ok(entry) => {
                let is_last = is_end(&entry);
                output.result(&format!("{}\n", entry.json))?;
                if is_last || output.is_closed() {
                    return Ok(true);
                }
            }
            Err(fault) => damage.warning(&fault.to_string()),
        }
    }
    Ok(false)
}

fn is_end(entry: &LogEntry) -> bool {
    matches!(entry.event, Some(Event::Run(RunEvent::RunEnded { .. })))
}

fn print_text(
    lines: impl Iterator<Item = LogReadResult>,
    output: &mut CliOutput<'_>,
) -> Result<bool> {
    let mut clock = EventLogClock::default();
    let mut render = RunRenderer::new(output);
    for line in lines {
        let entry = match line {
            Ok(entry) => entry,
            Err(fault) => {
                render.show_warning(&fault.to_string());
                continue;
            }
        };
        let Some(event) = &entry.event else {
            continue;
        };
        render.on_event(event, clock.elapsed_at(&entry))?;
        if matches!(event, Event::Run(RunEvent::RunEnded { .. })) || render.is_closed() {
            return Ok(true);
        }
    }
    render.finish_all_replies();
    Ok(false)
}
