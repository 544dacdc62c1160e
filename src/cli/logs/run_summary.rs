//! What an overview says about a recorded run: read from its small summary, or from the first event
//! of its log.

use serde_json::Value;

use crate::event::{Event, RunEvent};
use crate::world::store::runs::RunDir;

/// What an overview says about a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedRunSummary {
    /// When it started, in ISO 8601.
    pub(crate) started: Option<String>,
    /// The task.
    pub(crate) task: String,
    /// The agents.
    pub(crate) agents: Vec<String>,
    /// How it ended.
    pub(crate) outcome: Option<String>,
    /// Whether the person took nothing of what was delivered.
    pub(crate) is_declined: bool,
    /// The answer that won.
    pub(crate) winner: Option<String>,
    /// The tokens of all requests.
    pub(crate) input_tokens: u64,
    /// The tokens of all replies.
    pub(crate) output_tokens: u64,
    /// The cost in US dollars, as far as it is known.
    pub(crate) cost_usd: Option<f64>,
    /// How long it took, in seconds.
    pub(crate) seconds: Option<f64>,
}

impl RecordedRunSummary {
    /// Reads the summary of `run`; `status` is the content of its `status.json`.
    pub(crate) fn read(run: &RunDir, status: Option<&Value>) -> Self {
        match status {
            Some(status) => Self::from_status(status),
            None => Self::from_first_events(run),
        }
    }

    /// Returns how the run ended, in the words of lists.
    pub(crate) fn outcome_word(&self) -> Option<&str> {
        match self.outcome.as_deref() {
            Some("delivered") if self.is_declined => Some("nothing taken"),
            outcome => outcome,
        }
    }

    /// Reads the summary from `status.json`.
    fn from_status(status: &Value) -> Self {
        let text = |pointer: &str| status.pointer(pointer)?.as_str().map(str::to_owned);
        let agents = status.get("agents").and_then(Value::as_object);
        let spent = status.pointer("/token_usage/run");
        let is_interrupted = text("/finish_reason").as_deref() == Some("interrupted");
        let tokens = |name: &str| spent.and_then(|spent| spent.get(name)?.as_u64());
        Self {
            started: text("/meta/start_time"),
            task: text("/meta/question").unwrap_or_default(),
            agents: agents
                .map(|agents| agents.keys().cloned().collect())
                .unwrap_or_default(),
            outcome: text("/finish_reason"),
            is_declined: is_declined(status),
            // A run that was interrupted may have named the winner of an unfinished ballot.
            winner: text("/results/winner").filter(|_| !is_interrupted),
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
}

/// Returns whether the review of the delivery left out all of its files.
fn is_declined(status: &Value) -> bool {
    let rows = status
        .pointer("/results/delivered")
        .and_then(Value::as_array);
    let is_declined = |row: &Value| row.get("outcome").and_then(Value::as_str) == Some("declined");
    rows.is_some_and(|rows| !rows.is_empty() && rows.iter().all(is_declined))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_says_what_happened() {
        #[track_caller]
        fn check(reason: &str, outcomes: &[&str], expected: &str) {
            let rows = outcomes.iter();
            let rows: Vec<Value> = rows
                .map(|outcome| json!({"path": "a", "outcome": outcome}))
                .collect();
            let status = json!({
                "finish_reason": reason,
                "results": {"winner": "a", "delivered": rows},
            });
            let summary = RecordedRunSummary::from_status(&status);
            assert_eq!(summary.outcome_word(), Some(expected), "{outcomes:?}");
            let winner = (reason != "interrupted").then_some("a");
            assert_eq!(summary.winner.as_deref(), winner, "{reason}");
        }
        check("delivered", &["declined", "declined"], "nothing taken");
        check("delivered", &["declined", "changed"], "delivered");
        check("delivered", &[], "delivered");
        check("interrupted", &[], "interrupted");
    }
}
