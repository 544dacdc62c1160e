//! Requests to models: what is sent, what streams back, and the trait that all backends implement.
//! A backend never touches files and never decides anything.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::Value;

use crate::backend::conversation::Conversation;
use crate::event::{SetupProblem, StopReason};
use crate::id::SubagentId;
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::tools::CallRequest;
use crate::tools::spec::ToolOffer;
use crate::tools::task_plan::TaskPlan;
use crate::world::exec::agent_launcher::AgentLaunchSetup;

mod source_list;
mod chatcompletion;
pub mod available_model;
pub mod connect;
pub mod conversation;
mod gemini;
pub mod external_agent;
mod messages;
pub mod rate_limit;
pub mod remote;
mod responses;
pub(crate) mod scripted;

/// Maximum size of what one reply says, in bytes: its text, its reasoning, its calls and its echo.
/// The longest replies of models have half a million tokens.
pub const REPLY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of calls in one reply.
pub const CALLS_MAX: usize = 128;

/// Returns the size of `value` as JSON, in bytes.
pub fn json_bytes(value: &Value) -> usize {
    value.to_string().len()
}

/// One request to a model: everything that the model will know.
#[derive(Clone, Debug)]
pub struct ModelRequest<'a> {
    /// The system message. It is the same in every request of an agent's phase, so that vendors can
    /// cache it.
    pub system: Arc<str>,
    /// The conversation so far.
    pub conversation: &'a Conversation,
    /// The tools that the model may call.
    pub tools: Arc<[ToolOffer]>,
}

/// A piece of a model's reply, in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyEvent {
    /// More of the answer's text.
    Text(String),
    /// More of the model's reasoning, where the vendor shows it.
    Reasoning(String),
    /// A whole tool call.
    Call(CallRequest),
    /// What the vendor requires back with this reply in later requests; at most once.
    Echo(Value),
    /// From here on the reply uses tokens that are counted only at its end.
    Uncounted,
    /// The usage of the reply so far; a later count replaces an earlier one.
    Usage(TokenUsage),
    /// The cost of the reply so far, if the backend reports it itself.
    Cost(Money),
    /// The reply ended for a reason that massgen does not know, and is complete nevertheless; the
    /// vendor's words.
    UnknownFinish(String),
    /// An external agent has called a native tool, or was refused it.
    NativeToolCall(NativeToolCall),
    /// An external agent has reported its plan.
    Plan(TaskPlan),
    /// The reply is complete; nothing follows. A stream that ends without this was truncated.
    End(StopReason),
}

/// A native tool call of an external agent, as it is shown to the user; bounded in size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeToolCall {
    /// The tool's name in the external agent.
    pub tool: String,
    /// What it was used on.
    pub detail: String,
    /// Why it was denied, if it was.
    pub denied: Option<String>,
}

/// Why a request to a model failed, or its reply could not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    /// Whether a retry can help.
    pub kind: BackendErrorKind,
    /// The error, in the vendor's own words where there are any; it contains no key.
    pub message: String,
}

/// Kind of an error, which decides whether a retry can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendErrorKind {
    /// It will fail again.
    Permanent,
    /// It will fail again until the user changes something: a rejected key, an unknown model.
    NeedsUser(SetupProblem),
    /// The vendor rejects something in the request: it will fail again unless that is left out.
    InvalidRequest,
    /// The conversation exceeds the model's context; a shorter one may be answered.
    ContextTooLong,
    /// The server is down, or the network blocks the way to it. It may recover, but usually not
    /// soon.
    Unreachable,
    /// It may recover: a truncated stream, an overloaded server, a rate limit.
    Transient {
        /// The wait that the vendor asked for.
        retry_after: Option<Duration>,
    },
}

impl BackendError {
    /// Returns what the user has to change first, if that is known.
    pub fn setup_problem(&self) -> Option<SetupProblem> {
        if let BackendErrorKind::NeedsUser(problem) = self.kind {
            Some(problem)
        } else {
            None
        }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BackendError {}

/// A reply that streams in.
pub type ReplyStream<'a> = BoxStream<'a, Result<ReplyEvent, BackendError>>;

/// A client of one model. `docs/architecture.md` says what else a new one needs.
///
/// The stream yields events as they arrive and ends after [`ReplyEvent::End`] or after the first
/// error. Dropping it ends the request. It must be bounded in bytes and have an idle timeout.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Sends a request to the model and streams its reply.
    fn ask<'a>(&'a self, request: ModelRequest<'a>) -> ReplyStream<'a>;

    /// Returns this backend with the launcher and the command in `setup`, if it is an external
    /// agent, which cannot be asked without them.
    fn with_launcher(&self, _setup: &AgentLaunchSetup) -> Option<Arc<dyn Backend>> {
        None
    }

    /// Returns the backend for a subagent of the agent, if it differs from the agent's own.
    fn for_subagent(&self, _subagent: &SubagentId) -> Option<Arc<dyn Backend>> {
        None
    }

    /// Returns whether a reply costs nothing, so that one may be requested twice.
    fn is_free(&self) -> bool {
        false
    }

    /// Ends what still runs although nothing waits for it any more, if anything does: a program
    /// gets a moment to end its turn itself. Dropping the future ends it immediately.
    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
}
