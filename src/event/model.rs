//! The events of requests to models: their start and end, what the model replies, and why a
//! request is delayed, retried or fails.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::VariantNames;

use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::tools::CallRequest;

/// An event of an agent's requests to its models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, VariantNames)]
#[serde(tag = "type", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ModelEvent {
    /// A request to a model starts.
    ModelRequestStarted {
        /// The agent.
        agent: AgentId,
        /// The model.
        model: Arc<str>,
    },
    /// The model produced text.
    Text {
        /// The agent.
        agent: AgentId,
        /// The piece of it that was streamed.
        text: String,
    },
    /// The model produced reasoning.
    Reasoning {
        /// The agent.
        agent: AgentId,
        /// The piece of it that was streamed.
        text: String,
    },
    /// A request to a model ended, with or without a complete reply.
    ModelRequestFinished {
        /// The agent.
        agent: AgentId,
        /// The model.
        model: Arc<str>,
        /// The phase of the agent.
        phase: Phase,
        /// The tokens that the vendor reported.
        #[serde(flatten)]
        usage: TokenUsage,
        /// The cost; `None` if the price is not known.
        cost_usd: Option<Money>,
        /// The duration in milliseconds.
        elapsed_ms: u64,
    },
    /// A model gave a complete reply, which is part of the conversation.
    Replied {
        /// The agent.
        agent: AgentId,
        /// Its text; empty in the event log, where the preceding `text` events hold it.
        #[serde(default, skip_serializing_if = "is_empty")]
        text: Arc<str>,
        /// Its calls, in order.
        calls: Vec<CallRequest>,
        /// Why it stopped.
        stop: StopReason,
        /// What the vendor requires to be sent back with it; only in the event log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        echo: Option<Value>,
    },
    /// A request failed permanently: no model of the agent gave a complete reply.
    Failed {
        /// The agent.
        agent: AgentId,
        /// The reason.
        reason: String,
        /// What the user has to change first, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<SetupProblem>,
    },
    /// A request failed and will be retried.
    Retrying {
        /// The agent.
        agent: AgentId,
        /// Why it failed.
        reason: String,
        /// The wait before the retry, in milliseconds.
        wait_ms: u64,
    },
    /// A request waits because of a rate limit.
    RateLimited {
        /// The agent.
        agent: AgentId,
        /// The rate limit.
        reason: String,
        /// The wait in milliseconds.
        wait_ms: u64,
    },
    /// The agent switches to a fallback model.
    ModelFallback {
        /// The agent.
        agent: AgentId,
        /// The previous model.
        from: Arc<str>,
        /// The fallback model.
        to: Arc<str>,
        /// The reason.
        reason: String,
    },
    /// The conversation was too long for the model and was compacted.
    ContextCompacted {
        /// The agent.
        agent: AgentId,
        /// What was removed, in one sentence.
        #[serde(rename = "how")]
        removal: String,
    },
}

impl ModelEvent {
    /// Creates the event for a piece of streamed output.
    pub fn from_piece(kind: ReplyTextKind, agent: AgentId, text: String) -> Self {
        match kind {
            ReplyTextKind::Text => ModelEvent::Text { agent, text },
            ReplyTextKind::Reasoning => ModelEvent::Reasoning { agent, text },
        }
    }

    /// Returns the agent whose model it is.
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
    /// The vendor wants to be asked again, with the reply so far.
    Paused,
}

/// The kind of a piece of text in a model's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyTextKind {
    /// Text of the reply.
    Text,
    /// Reasoning that the vendor shows.
    Reasoning,
}

/// What the user has to change before a model answers any request.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SetupProblem {
    /// The vendor rejects the API key.
    RejectedKey,
    /// The endpoint does not have the model.
    UnknownModel,
    /// The account has no credit or quota left.
    ExhaustedAccount,
    /// No host of the team is found.
    NoNetwork,
}

impl SetupProblem {
    /// Returns what is wrong, as part of a sentence.
    pub fn cause(self) -> &'static str {
        match self {
            SetupProblem::RejectedKey => "the API key is rejected",
            SetupProblem::UnknownModel => "the endpoint does not have the model",
            SetupProblem::ExhaustedAccount => "the account has no credit left",
            SetupProblem::NoNetwork => "there is no network",
        }
    }

    /// Returns what the user can do.
    pub fn remedy(self) -> &'static str {
        match self {
            SetupProblem::RejectedKey => "correct the key: `massgen doctor --online` tests it",
            SetupProblem::UnknownModel => {
                "correct `model` or the URL: `massgen doctor --online` tests them"
            }
            SetupProblem::ExhaustedAccount => {
                "add credit to the account, or use a model of another vendor"
            }
            SetupProblem::NoNetwork => {
                "check the connection and the names in URLs; behind a proxy, set `HTTPS_PROXY`"
            }
        }
    }
}
