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
}
