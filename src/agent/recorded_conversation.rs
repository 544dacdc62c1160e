//! The recorded part of a resumed conversation: each reply, and the outcome of each call. It is
//! replayed in order, so that no model is asked for it again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

use crate::backend::BackendError;
use crate::event::{StopReason, SubagentStatus};
use crate::id::SubagentId;
use crate::permissions::grant::Phase;
use crate::prompts::untrusted_text::note;
use crate::tools::CallRequest;
use crate::tools::image::ModelImage;
use crate::tools::task_plan::TaskPlan;
use crate::tools::workflow::presented_text;
use crate::world::exec::subagents::SubagentReport;

/// The recorded part of one conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedConversation {
    /// The complete replies that are still to be replayed, and the requests that finally failed.
    pub replies: VecDeque<RecordedReply>,
    /// The outcomes of the calls, by id.
    pub calls: BTreeMap<String, RecordedCall>,
    /// How many models were abandoned for their fallback.
    pub abandoned_models: usize,
    /// Whether the effects of its calls persist.
    pub effects: EffectPersistence,
    /// The last plan of the agent.
    pub plan: Option<TaskPlan>,
    /// The subagents that its calls started, in the order in which they started.
    pub subagents: Vec<RecordedSubagent>,
}

/// A recorded subagent.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedSubagent {
    /// The id of the call that started it.
    pub call_id: String,
    /// Its name.
    pub subagent: SubagentId,
    /// The recorded part of its conversation.
    pub conversation: RecordedConversation,
    /// How it ended, if it had ended.
    pub ending: Option<SubagentEnding>,
}

/// How a recorded subagent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentEnding {
    /// Whether it completed its task.
    pub status: SubagentStatus,
    /// Why it did not complete its task.
    pub reason: Option<String>,
    /// How long it worked.
    pub elapsed: Duration,
}

impl RecordedSubagent {
    /// Returns the last text of its model.
    fn last_answer(&self) -> Option<&str> {
        let mut latest_first = self.conversation.replies.iter().rev();
        latest_first.find_map(|reply| match reply {
            RecordedReply::Whole { text, .. } => {
                Some(text.as_str()).filter(|text| !text.trim().is_empty())
            }
            RecordedReply::Failed(_) => None,
        })
    }

    /// Returns the report about it, if it had ended.
    pub fn report(&self) -> Option<SubagentReport> {
        let SubagentEnding {
            status,
            reason,
            elapsed,
        } = self.ending.clone()?;
        Some(SubagentReport {
            status,
            answer: self.last_answer().unwrap_or_default().to_owned(),
            reason,
            elapsed,
        })
    }
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedReply {
    /// A complete reply.
    Whole {
        /// Its text.
        text: String,
        /// Its calls, in order.
        calls: Vec<CallRequest>,
        /// The stop reason.
        stop: StopReason,
        /// What the vendor requires back.
        echo: Option<Value>,
    },
    /// No model gave a reply.
    Failed(BackendError),
}

/// Outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedCall {
    /// It was started; no end is recorded.
    Started,
    /// It was executed, with this result.
    Executed(ToolResultContent),
    /// It was rejected, with this result.
    Rejected(ToolResultContent),
}

/// The result of a call, as a model reads and sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResultContent {
    /// The text.
    pub content: String,
    /// Its images.
    pub images: Vec<ModelImage>,
    /// Whether the call failed or was denied.
    pub has_failed: bool,
}

impl ToolResultContent {
    /// Returns the result of a call that was rejected for `reason`.
    pub fn from_rejection(reason: &str) -> Self {
        Self {
            content: note(reason),
            images: Vec::new(),
            has_failed: true,
        }
    }
}

/// Persistence of the effects of recorded calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EffectPersistence {
    /// They are on disk.
    #[default]
    Present,
    /// They are gone, or are in a place that does not count: the calls are executed again.
    Gone,
}

impl RecordedConversation {
    /// Returns whether all of it has been replayed.
    pub fn is_exhausted(&self) -> bool {
        self.replies.is_empty()
    }

    /// Returns the text that the final agent presented last.
    pub fn last_presented_text(&self) -> Option<String> {
        let mut latest_first = self.replies.iter().rev();
        latest_first.find_map(|reply| match reply {
            RecordedReply::Whole { text, calls, .. } => presented_text(text, calls),
            RecordedReply::Failed(_) => None,
        })
    }

    /// Returns whether the call `id` is recorded.
    pub fn contains_call(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// Returns whether the effects of the call `id` persist. A rejection in the final phase is part
    /// of the delivery, and is evaluated again.
    pub fn effects_of(&self, id: &str, phase: Phase) -> EffectPersistence {
        match self.calls.get(id) {
            Some(RecordedCall::Rejected(_)) if phase == Phase::Final => EffectPersistence::Gone,
            _ => self.effects,
        }
    }

    /// Returns whether tools whose names begin with `prefix` were executed and have to be executed
    /// again.
    pub fn repeats_calls_of(&self, prefix: &str) -> bool {
        let is_executed = |call: &CallRequest| {
            let recorded_call = self.calls.get(&call.id);
            call.name.starts_with(prefix)
                && matches!(recorded_call, Some(RecordedCall::Executed(_)))
        };
        self.effects == EffectPersistence::Gone
            && self.replies.iter().any(|reply| match reply {
                RecordedReply::Whole { calls, .. } => calls.iter().any(is_executed),
                RecordedReply::Failed(_) => false,
            })
    }

    /// Returns the result of the call `id`, if it has one.
    pub fn result_of(&self, id: &str) -> Option<&ToolResultContent> {
        match self.calls.get(id)? {
            RecordedCall::Executed(result) | RecordedCall::Rejected(result) => Some(result),
            RecordedCall::Started => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_repeated_if_they_were_executed_and_their_effects_are_gone() {
        let call = |id: &str, name: &str| CallRequest {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: "{}".to_owned(),
        };
        let reply = RecordedReply::Whole {
            text: String::new(),
            calls: vec![call("1", "mcp__a__x"), call("2", "mcp__b__x")],
            stop: StopReason::Done,
            echo: None,
        };
        let ended = RecordedCall::Executed(ToolResultContent::default());
        let rejected = RecordedCall::Rejected(ToolResultContent::from_rejection("no"));
        let mut recorded = RecordedConversation {
            replies: [reply].into(),
            calls: [("1".to_owned(), ended), ("2".to_owned(), rejected)].into(),
            effects: EffectPersistence::Gone,
            ..RecordedConversation::default()
        };
        let repeats = |recorded: &RecordedConversation| {
            ["a", "b", "c"].map(|server| recorded.repeats_calls_of(&format!("mcp__{server}__")))
        };
        assert_eq!(repeats(&recorded), [true, false, false]);
        recorded.effects = EffectPersistence::Present;
        assert_eq!(repeats(&recorded), [false, false, false]);
    }
}
