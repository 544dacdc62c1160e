//! The summary of a recorded run in lists of runs: read from its `status.json`, or from the first
//! event of its log.

use serde::Deserialize as _;
use serde_json::Value;

use crate::event::{Event, RunEvent};
use crate::spending::money::Money;
use crate::world::delivery::delivered_files::DeliveredFiles;
use crate::world::store::runs::RunDir;

/// The summary of a recorded run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedRunSummary {
    /// When it started, in ISO 8601.
    pub(crate) start_time: Option<String>,
    /// The task, as the agents read it.
    pub(crate) task: String,
    pub(crate) agents: Vec<String>,
    /// How it ended, as `status.json` names it.
    pub(crate) finish_reason: Option<String>,
    /// The number of files in the delivery.
    file_count: usize,
    /// The paths of the files that the review left out of it.
    declined_paths: Vec<String>,
    /// Which agent won, as `status.json` names it.
    pub(crate) winner: Option<String>,
    /// The tokens of all requests.
    pub(crate) input_tokens: u64,
    /// The tokens of all replies.
    pub(crate) output_tokens: u64,
    /// The cost in US dollars, as far as it is known.
    pub(crate) cost_usd: Option<Money>,
    /// How long it took, in seconds.
    pub(crate) seconds: Option<f64>,
}

impl RecordedRunSummary {
    /// Reads the summary of `run`; `status` is the content of its `status.json`.
    pub(crate) fn read(run: &RunDir, status: Option<&Value>) -> Self {
        match status {
            Some(status) => Self::from_status(status),
            None => Self::from_first_event(run),
        }
    }

    /// Returns the word for how the run ended; `files` are those that it delivered, as they are
    /// now.
    pub(crate) fn outcome_word(&self, files: &DeliveredFiles) -> Option<&str> {
        let is_unapplied = |path: &&String| !files.is_applied(path);
        let unapplied_count = self.declined_paths.iter().filter(is_unapplied).count();
        match self.finish_reason.as_deref() {
            Some("delivered") if files.is_reverted() => Some("undone"),
            Some("delivered") if files.is_partly_reverted() => Some("partly undone"),
            Some("delivered") if unapplied_count > 0 && unapplied_count == self.file_count => {
                Some("nothing applied")
            }
            Some("delivered") if unapplied_count > 0 || files.is_partial() => {
                Some("partly applied")
            }
            finish_reason => finish_reason,
        }
    }

    /// Reads the summary from `status.json`.
    fn from_status(status: &Value) -> Self {
        let text = |pointer: &str| status.pointer(pointer)?.as_str().map(str::to_owned);
        let agents = status.get("agents").and_then(Value::as_object);
        let usage = status.pointer("/token_usage/run");
        let finish_reason = text("/finish_reason");
        let is_interrupted = finish_reason.as_deref() == Some("interrupted");
        let tokens = |name: &str| usage.and_then(|usage| usage.get(name)?.as_u64());
        Self {
            start_time: text("/meta/start_time"),
            task: text("/meta/question").unwrap_or_default(),
            agents: agents
                .map(|agents| agents.keys().cloned().collect())
                .unwrap_or_default(),
            finish_reason,
            file_count: delivered_rows(status).count(),
            declined_paths: declined_paths(status),
            // A run that was interrupted may have named the winner of an unfinished ballot.
            winner: text("/results/winner").filter(|_| !is_interrupted),
            input_tokens: tokens("input_tokens").unwrap_or_default(),
            output_tokens: tokens("output_tokens").unwrap_or_default(),
            cost_usd: usage.and_then(|usage| Money::deserialize(usage.get("cost_usd")?).ok()),
            seconds: status
                .pointer("/meta/elapsed_seconds")
                .and_then(Value::as_f64),
        }
    }

    /// Reads the summary of a run without `status.json` from the first event of its log.
    fn from_first_event(run: &RunDir) -> Self {
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
}

/// Returns the files of the delivery and their outcomes.
fn delivered_rows(status: &Value) -> impl Iterator<Item = &Value> {
    let rows = status.pointer("/results/delivered");
    rows.and_then(Value::as_array).into_iter().flatten()
}

/// Returns the files that the review of the delivery left out.
fn declined_paths(status: &Value) -> Vec<String> {
    let text = |row: &Value, name: &str| Some(row.get(name)?.as_str()?.to_owned());
    let declined =
        delivered_rows(status).filter(|row| text(row, "outcome").as_deref() == Some("declined"));
    declined.filter_map(|row| text(row, "path")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_says_what_happened() {
        #[track_caller]
        fn check(reason: &str, outcomes: &[&str], expected: &str) {
            let rows: Vec<Value> = outcomes
                .iter()
                .map(|outcome| json!({"path": "a", "outcome": outcome}))
                .collect();
            let status = json!({
                "finish_reason": reason,
                "results": {"winner": "a", "delivered": rows},
            });
            let summary = RecordedRunSummary::from_status(&status);
            let word = summary.outcome_word(&DeliveredFiles::default());
            assert_eq!(word, Some(expected), "{outcomes:?}");
            let winner = (reason != "interrupted").then_some("a");
            assert_eq!(summary.winner.as_deref(), winner, "{reason}");
        }
        check("delivered", &["declined", "declined"], "nothing applied");
        check("delivered", &["declined", "changed"], "partly applied");
        check("delivered", &[], "delivered");
        check("interrupted", &[], "interrupted");
    }
}
