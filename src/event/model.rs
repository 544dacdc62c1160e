//! Owns the events of requests to models: what an agent's model is asked, what it says, and what
//! keeps it from saying it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::tools::request::CallRequest;

/// Something that happened between an agent and its models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ModelEvent {
    /// An agent's model is being asked.
    #[serde(alias = "asking")]
    ModelRequestStarted {
        /// Who.
        agent: AgentId,
        /// The model.
        model: Arc<str>,
    },
    /// An agent's model wrote text.
    Text {
        /// Who.
        agent: AgentId,
        /// A piece of it, as it streamed.
        text: String,
    },
    /// An agent's model showed reasoning.
    Reasoning {
        /// Who.
        agent: AgentId,
        /// A piece of it, as it streamed.
        text: String,
    },
    /// A request to a model ended, with a whole reply or without.
    #[serde(alias = "asked")]
    ModelRequestFinished {
        /// Who.
        agent: AgentId,
        /// The model.
        model: Arc<str>,
        /// The phase of the agent.
        phase: Phase,
        /// What the vendor counted, as far as it has said so.
        #[serde(flatten)]
        usage: TokenUsage,
        /// What it cost; nothing is said where the price is not known.
        cost_usd: Option<Money>,
        /// How long it took, in milliseconds.
        elapsed_ms: u64,
    },
    /// A model gave a whole reply, which counts.
    Replied {
        /// Who.
        agent: AgentId,
        /// Its text; empty in the event log, where the `text` events before it hold it.
        #[serde(default, skip_serializing_if = "is_empty")]
        text: Arc<str>,
        /// Its calls, in order.
        calls: Vec<CallRequest>,
        /// Why it stopped.
        stop: StopReason,
        /// What the vendor wants to have back with it; only the event log has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        echo: Option<Value>,
    },
    /// A request failed for good: no model of the agent gives a whole reply.
    Failed {
        /// Who.
        agent: AgentId,
        /// Why.
        reason: String,
    },
    /// A model could not be asked and will be asked again.
    Retrying {
        /// Who.
        agent: AgentId,
        /// Why the last try failed.
        reason: String,
        /// How long it waits before it asks again, in milliseconds.
        wait_ms: u64,
    },
    /// A request waits because a limit of requests or tokens in a time is met.
    #[serde(alias = "held")]
    RateLimited {
        /// Who.
        agent: AgentId,
        /// Which limit.
        reason: String,
        /// How long it waits, in milliseconds.
        wait_ms: u64,
    },
    /// An agent goes on with another model.
    #[serde(alias = "fell_back")]
    ModelFallback {
        /// Who.
        agent: AgentId,
        /// The model so far.
        from: Arc<str>,
        /// The model from now on.
        to: Arc<str>,
        /// Why.
        reason: String,
    },
    /// A conversation was too long for its model and was shortened.
    #[serde(alias = "shortened")]
    ContextCompacted {
        /// Who.
        agent: AgentId,
        /// What was left out, in one sentence.
        how: String,
    },
}

impl ModelEvent {
    /// A piece of what the model of `agent` says.
    pub fn from_piece(kind: ReplyTextKind, agent: AgentId, text: String) -> Self {
        match kind {
            ReplyTextKind::Text => ModelEvent::Text { agent, text },
            ReplyTextKind::Reasoning => ModelEvent::Reasoning { agent, text },
        }
    }

    /// The agent whose model it is.
    pub fn agent(&self) -> &AgentId {
        match self {
            ModelEvent::ModelRequestStarted { agent, .. }
            | ModelEvent::Text { agent, .. }
            | ModelEvent::Reasoning { agent, .. }
            | ModelEvent::ModelRequestFinished { agent, .. }
            | ModelEvent::Replied { agent, .. }
            | ModelEvent::Failed { agent, .. }
            | ModelEvent::Retrying { agent, .. }
            | ModelEvent::RateLimited { agent, .. }
            | ModelEvent::ModelFallback { agent, .. }
            | ModelEvent::ContextCompacted { agent, .. } => agent,
        }
    }
}

fn is_empty(text: &str) -> bool {
    text.is_empty()
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// It had said all, or it waits for its tool calls.
    #[default]
    Done,
    /// The vendor's limit of output tokens was met.
    Length,
    /// The vendor held content back, or the model refused.
    Filtered,
    /// The vendor wants to be asked again, with the reply as it stands.
    Paused,
}

/// What a model's stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyTextKind {
    /// Text of the reply.
    Text,
    /// Reasoning that the vendor shows.
    Reasoning,
}
