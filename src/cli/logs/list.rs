//! Implements `massgen logs list`: prints one line per run. Of each run only its small summary is
//! read.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::logs::logs_directory;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::render::event_lines::format_duration;
use crate::error::Result;
use crate::event::{Event, RunEvent};
use crate::host::Host;
use crate::text::{count_noun, single_line};
use crate::world::io::clock::LocalDateTime;
use crate::world::store::runs::{self, RunDir, RunStatus};

/// Maximum length of a task on one line, in characters.
const TASK_CHARS_MAX: usize = 60;

/// Summary of a run on one line.
#[derive(Debug, Default)]
struct RunSummary {
    started: Option<String>,
    task: String,
    agents: Vec<String>,
    outcome: Option<String>,
    winner: Option<String>,
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: Option<f64>,
    seconds: Option<f64>,
}

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
        let summary = match &status {
            Some(status) => RunSummary::from_status(status),
            None => RunSummary::from_first_events(&run),
        };
        output.result(&match form {
            ReportFormat::Json => summary.to_json(&run, state),
            ReportFormat::Text => summary.to_text(&run, state),
        })?;
        if output.is_closed() {
            break;
        }
    }
    Ok(())
}

impl RunSummary {
    /// Reads the summary from `status.json`.
    fn from_status(status: &Value) -> Self {
        let text = |pointer: &str| status.pointer(pointer)?.as_str().map(str::to_owned);
        let agents = status.get("agents").and_then(Value::as_object);
        let spent = status.pointer("/token_usage/run");
        let tokens = |name: &str| spent.and_then(|spent| spent.get(name)?.as_u64());
        Self {
            started: text("/meta/start_time"),
            task: text("/meta/question").unwrap_or_default(),
            agents: agents
                .map(|agents| agents.keys().cloned().collect())
                .unwrap_or_default(),
            outcome: text("/finish_reason"),
            winner: text("/results/winner"),
            input_tokens: tokens("input_tokens").unwrap_or_default(),
            output_tokens: tokens("output_tokens").unwrap_or_default(),
            cost_usd: spent.and_then(|spent| spent.get("cost_usd")?.as_f64()),
            seconds: status
                .pointer("/meta/elapsed_seconds")
                .and_then(Value::as_f64),
        }
    }

    /// Reads the summary of a run without `status.json` from the first event of its log.
    fn from_first_events(run: &RunDir) -> Self {
        match run.first_event() {
            Some(Event::Run(RunEvent::RunStarted {
                question, agents, ..
            })) => Self {
                task: question.to_string(),
                agents: agents.iter().map(ToString::to_string).collect(),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }

    fn to_text(&self, run: &RunDir, state: RunStatus) -> String {
        let started = self.started.as_deref().and_then(LocalDateTime::parse);
        let started = started.map_or_else(|| "-".to_owned(), |started| started.list_format());
        let outcome = match state {
            RunStatus::Running => "running",
            RunStatus::Interrupted => "crashed",
            RunStatus::Ended => self.outcome.as_deref().unwrap_or("ended"),
        };
        let seconds = self.seconds.map(Duration::try_from_secs_f64);
        let took = seconds.and_then(std::result::Result::ok);
        let took = took.map_or_else(|| "-".to_owned(), format_duration);
        let tokens = self.input_tokens.saturating_add(self.output_tokens);
        let cost = self.cost_usd.filter(|cost| *cost > 0.0);
        let cost = cost.map_or_else(String::new, |cost| format!("  ${cost:.4}"));
        format!(
            "{}  {started}  {outcome:<11}  {:<9}  {took:>11}  {tokens:>8} tokens{cost}  {}\n",
            run.name(),
            count_noun(self.agents.len(), "agent"),
            single_line(&self.task, TASK_CHARS_MAX),
        )
    }

    fn to_json(&self, run: &RunDir, state: RunStatus) -> String {
        let state = match state {
            RunStatus::Running => "running",
            RunStatus::Interrupted => "broken_off",
            RunStatus::Ended => "ended",
        };
        let row = json!({
            "name": run.name(),
            "log_dir": run.log().to_string(),
            "state": state,
            "finish_reason": self.outcome,
            "start_time": self.started,
            "elapsed_seconds": self.seconds,
            "task": self.task,
            "agents": self.agents,
            "winner": self.winner,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
        });
        format!("{row}\n")
    }
}
