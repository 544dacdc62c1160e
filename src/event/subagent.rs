//! The events of subagents: which task each works on, what it does, and how it ended. All events of
//! a subagent name its parent as the agent, because the parent is charged for it. Requests to the
//! model outside the rounds are recorded as subagents too.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, VariantNames};

use crate::event::{ModelEvent, ToolEvent};
use crate::id::{AgentId, SubagentId};

/// The occasion of a request outside the rounds, which no call starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeparateCall {
    /// A model prepares the first round.
    Preparation,
    /// A model compares answers.
    Comparison,
}

impl SeparateCall {
    /// Returns the `call_id` of its events.
    pub fn id(self) -> &'static str {
        match self {
            SeparateCall::Preparation => "preparation",
            SeparateCall::Comparison => "comparison",
        }
    }
}

/// The subagent id of the request in which a model writes the criteria for votes.
pub const CRITERIA_SUBAGENT: &str = "criteria";

/// An event of a subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, VariantNames)]
#[serde(tag = "type", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SubagentEvent {
    /// An agent gave a part of its work to a subagent.
    SubagentStarted {
        /// The parent.
        agent: AgentId,
        /// The id of the agent's call in its conversation.
        call_id: String,
        /// The subagent.
        subagent: SubagentId,
        /// Its task.
        task: String,
    },
    /// A subagent asked its model. Its text is not streamed: the reply has it as a whole.
    SubagentModel {
        /// The parent.
        agent: AgentId,
        /// The id of the agent's call in its conversation.
        call_id: String,
        /// The subagent.
        subagent: SubagentId,
        /// What happened.
        event: ModelEvent,
    },
    /// A subagent called a tool.
    SubagentTool {
        /// The parent.
        agent: AgentId,
        /// The id of the agent's call in its conversation.
        call_id: String,
        /// The subagent.
        subagent: SubagentId,
        /// What happened.
        event: ToolEvent,
    },
    /// A subagent ended.
    SubagentFinished {
        /// The parent.
        agent: AgentId,
        /// The id of the agent's call in its conversation.
        call_id: String,
        /// The subagent.
        subagent: SubagentId,
        /// How it ended.
        status: SubagentStatus,
        /// Why, if it did not complete its task.
        reason: Option<String>,
        /// The duration in milliseconds.
        elapsed_ms: u64,
    },
}

impl SubagentEvent {
    /// Returns the occasion of the request outside the rounds that it is about, if it is about one.
    pub fn separate_call(&self) -> Option<SeparateCall> {
        let mut calls = [SeparateCall::Preparation, SeparateCall::Comparison].into_iter();
        calls.find(|call| self.key().call_id == call.id())
    }

    /// Returns which subagent it is about.
    pub fn key(&self) -> SubagentKey<'_> {
        match self {
            SubagentEvent::SubagentStarted {
                agent,
                call_id,
                subagent,
                ..
            }
            | SubagentEvent::SubagentModel {
                agent,
                call_id,
                subagent,
                ..
            }
            | SubagentEvent::SubagentTool {
                agent,
                call_id,
                subagent,
                ..
            }
            | SubagentEvent::SubagentFinished {
                agent,
                call_id,
                subagent,
                ..
            } => SubagentKey {
                agent,
                call_id,
                subagent,
            },
        }
    }
}

/// How a subagent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum SubagentStatus {
    /// It gave its result.
    Completed,
    /// It gave no result: its model failed, or a limit was reached.
    Failed,
    /// Its time ran out.
    Timeout,
    /// Its parent stopped waiting for it.
    Cancelled,
}

/// Which subagent an event is about: the call that started it, and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubagentKey<'e> {
    /// The agent that started it.
    pub agent: &'e AgentId,
    /// The id of the agent's call in its conversation.
    pub call_id: &'e str,
    /// The subagent.
    pub subagent: &'e SubagentId,
}
