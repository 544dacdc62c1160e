//! Implements `massgen logs list`: prints one line per run. Of each run only its small summary is
//! read.

use std::time::Duration;

use serde_json::json;

use crate::cli::deliveries::deliveries_directory;
use crate::cli::logs::logs_directory;
use crate::cli::logs::run_summary::RecordedRunSummary;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::render::event_lines::format_duration;
use crate::error::Result;
use crate::host::{Host, StreamTarget};
use crate::spending::money::Money;
use crate::text::{count_noun, single_line};
use crate::world::delivery::delivered_files::DeliveriesByRun;
use crate::world::diagnostics::probe::terminal::stdout_columns;
use crate::world::io::clock::LocalDateTime;
use crate::world::store::runs::{self, RunDir, RunState, RunStatus};

/// Minimum and maximum length of a task on one line, in characters.
const TASK_CHARS_MIN: usize = 20;
const TASK_CHARS_MAX: usize = 60;
/// Minimum widths of terminals, in characters: of one that shows when each run started, and of one
/// that shows everything. The first leaves space for the shortest task, with the `…` of one that is
/// cut off.
const START_WIDTH_MIN: usize = 99;
const FULL_WIDTH_MIN: usize = 140;

/// Prints the runs of this directory, newest first.
pub(super) fn list(host: &Host, format: ReportFormat, output: &mut CliOutput<'_>) -> Result<()> {
    let logs = logs_directory(host);
    let runs = runs::list(&logs)?;
    if runs.is_empty() {
        output.note(&format!("no runs in `{logs}`"));
    }
    let deliveries = DeliveriesByRun::list(&deliveries_directory(host))?;
    let terminal_width = (host.stdout == StreamTarget::Terminal).then(stdout_columns);
    for run in runs {
        let RunState {
            status,
            status_file,
        } = run.state()?;
        let summary = RecordedRunSummary::read(&run, status_file.as_ref());
        let files = deliveries.delivered_files(&run.name())?;
        let outcome = match status {
            RunStatus::Running => "running",
            RunStatus::Interrupted => "crashed",
            RunStatus::Ended => summary.outcome_word(&files).unwrap_or("ended"),
        };
        output.result(&match format {
            ReportFormat::Json => to_json(&summary, &run, status, outcome),
            ReportFormat::Text => to_text(&summary, &run, outcome, terminal_width),
        })?;
        if output.is_closed() {
            break;
        }
    }
    Ok(())
}

/// Formats a run as a line of text that fits into a terminal of this width, in characters. If there
/// is no terminal, it says everything.
fn to_text(
    summary: &RecordedRunSummary,
    run: &RunDir,
    outcome: &str,
    terminal_width: Option<usize>,
) -> String {
    let start_time = summary.start_time.as_deref().and_then(LocalDateTime::parse);
    let start_text = start_time.map_or_else(|| "-".to_owned(), |time| time.list_format());
    let seconds = summary.seconds.map(Duration::try_from_secs_f64);
    let duration = seconds
        .and_then(std::result::Result::ok)
        .map_or_else(|| "-".to_owned(), format_duration);
    let tokens = summary.input_tokens.saturating_add(summary.output_tokens);
    let known_cost = summary.cost_usd.filter(|cost| *cost > Money::ZERO);
    let cost = known_cost.map_or_else(String::new, |cost| format!("  ${}", cost.round_up()));
    let name = run.name();
    let mut line = match terminal_width {
        Some(..START_WIDTH_MIN) => format!("{name}  {outcome:<14}  "),
        Some(..FULL_WIDTH_MIN) => format!("{name}  {start_text}  {outcome:<14}  {duration:>11}  "),
        Some(_) | None => {
            let agents = count_noun(summary.agents.len(), "agent");
            format!(
                "{name}  {start_text}  {outcome:<14}  {agents:<9}  {duration:>11}  \
                 {tokens:>8} tokens{cost}  "
            )
        }
    };
    let task_chars = terminal_width.map_or(TASK_CHARS_MAX, |width| {
        // A task that is cut off ends with `…`.
        width.saturating_sub(line.chars().count() + 1)
    });
    let task_chars = task_chars.clamp(TASK_CHARS_MIN, TASK_CHARS_MAX);
    line.push_str(&single_line(&summary.task, task_chars));
    line.push('\n');
    line
}

/// Formats a run as a line of JSON.
fn to_json(summary: &RecordedRunSummary, run: &RunDir, status: RunStatus, outcome: &str) -> String {
    let state = match status {
        RunStatus::Running => "running",
        // The list calls it `crashed`; scripts rely on this name.
        RunStatus::Interrupted => "broken_off",
        RunStatus::Ended => "ended",
    };
    let row = json!({
        "name": run.name(),
        "log_dir": run.log().to_string(),
        "state": state,
        "finish_reason": summary.finish_reason,
        "outcome": outcome,
        "start_time": summary.start_time,
        "elapsed_seconds": summary.seconds,
        "task": summary.task,
        "agents": summary.agents,
        "winner": summary.winner,
        "input_tokens": summary.input_tokens,
        "output_tokens": summary.output_tokens,
        "cost_usd": summary.cost_usd,
    });
    format!("{row}\n")
}
