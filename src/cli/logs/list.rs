//! Implements `massgen logs list`: prints one line per run. Of each run only its small summary is
//! read.

use std::time::Duration;

use serde_json::json;

use crate::cli::logs::logs_directory;
use crate::cli::logs::run_summary::RecordedRunSummary;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::render::event_lines::format_duration;
use crate::error::Result;
use crate::host::Host;
use crate::text::{count_noun, single_line};
use crate::world::io::clock::LocalDateTime;
use crate::world::store::runs::{self, RunDir, RunStatus};

/// Maximum length of a task on one line, in characters.
const TASK_CHARS_MAX: usize = 60;

/// Prints the runs of this directory, newest first.
pub(super) fn list(host: &Host, form: ReportFormat, output: &mut CliOutput<'_>) -> Result<()> {
    let logs = logs_directory(host);
    let runs = runs::list(&logs)?;
    if runs.is_empty() {
        output.note(&format!("no runs in `{logs}`"));
    }
    for run in runs {
        let status = run.status();
        let state = run.state(status.as_ref());
        let summary = RecordedRunSummary::read(&run, status.as_ref());
        output.result(&match form {
            ReportFormat::Json => to_json(&summary, &run, state),
            ReportFormat::Text => to_text(&summary, &run, state),
        })?;
        if output.is_closed() {
            break;
        }
    }
    Ok(())
}

/// Formats a run as a line of text.
fn to_text(summary: &RecordedRunSummary, run: &RunDir, state: RunStatus) -> String {
    let started = summary.started.as_deref().and_then(LocalDateTime::parse);
    let started = started.map_or_else(|| "-".to_owned(), |started| started.list_format());
    let outcome = match state {
        RunStatus::Running => "running",
        RunStatus::Interrupted => "crashed",
        RunStatus::Ended => summary.outcome.as_deref().unwrap_or("ended"),
    };
    let seconds = summary.seconds.map(Duration::try_from_secs_f64);
    let took = seconds.and_then(std::result::Result::ok);
    let took = took.map_or_else(|| "-".to_owned(), format_duration);
    let tokens = summary.input_tokens.saturating_add(summary.output_tokens);
    let cost = summary.cost_usd.filter(|cost| *cost > 0.0);
    let cost = cost.map_or_else(String::new, |cost| format!("  ${cost:.4}"));
    format!(
        "{}  {started}  {outcome:<11}  {:<9}  {took:>11}  {tokens:>8} tokens{cost}  {}\n",
        run.name(),
        count_noun(summary.agents.len(), "agent"),
        single_line(&summary.task, TASK_CHARS_MAX),
    )
}

/// Formats a run as a line of JSON.
fn to_json(summary: &RecordedRunSummary, run: &RunDir, state: RunStatus) -> String {
    let state = match state {
        RunStatus::Running => "running",
        RunStatus::Interrupted => "broken_off",
        RunStatus::Ended => "ended",
    };
    let row = json!({
        "name": run.name(),
        "log_dir": run.log().to_string(),
        "state": state,
        "finish_reason": summary.outcome,
        "start_time": summary.started,
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
