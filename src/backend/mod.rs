//! Owns the asking of models: what is sent, what streams back, and the one trait that all backends
//! implement. A backend never touches files and never decides anything.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::Value;

use crate::backend::conversation::Conversation;
use crate::backend::external_agent::AgentLaunchSetup;
use crate::backend::rate_limit::ModelRateLimiter;
use crate::config::vendors::ImageInput;
use crate::event::StopReason;
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::spending::price::ModelPrice;
use crate::tools::request::CallRequest;
use crate::tools::spec::ToolOffer;

mod chatcompletion;
pub mod connect;
pub mod conversation;
mod gemini;
pub mod external_agent;
mod messages;
pub mod rate_limit;
pub mod remote;
mod responses;
pub(crate) mod scripted;

/// One request to a model: everything it will know.
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

/// A model that can be asked.
#[derive(Clone, Debug)]
pub struct AvailableModel {
    /// Its name at its vendor.
    pub name: Arc<str>,
    /// What it costs; `None` if that is not known.
    pub price: Option<ModelPrice>,
    /// Whether it is given images.
    pub image_input: ImageInput,
    /// The client that reaches it.
    pub backend: Arc<dyn Backend>,
    /// How fast it may be asked.
    pub rate_limiter: ModelRateLimiter,
}

/// A piece of a model's reply, in the order in which it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyEvent {
    /// More of the answer's text.
    Text(String),
    /// More of the model's reasoning, where the vendor shows it.
    Reasoning(String),
    /// A whole tool call.
    Call(CallRequest),
    /// What the vendor wants to have back with this reply in later requests; at most once.
    Echo(Value),
    /// From here on it uses up what is counted only at its end.
    Uncounted,
    /// What the reply has used so far; a later count replaces an earlier one.
    Usage(TokenUsage),
    /// What the reply has cost so far, where whoever gives it says so itself.
    Cost(Money),
    /// A guest has used a tool of its own, or was refused it.
    NativeToolCall(NativeToolCall),
    /// The reply is complete; nothing follows. A stream that ends without it was cut.
    End(StopReason),
}

/// A tool of a guest's own, as people see it; bounded in size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeToolCall {
    /// Its name, as the guest has it.
    pub tool: String,
    /// What it was used on.
    pub detail: String,
    /// Why it was refused, if it was.
    pub denied: Option<String>,
}

/// Why a model could not be asked, or its reply not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    /// Whether asking again can help.
    pub kind: BackendErrorKind,
    /// What happened, in the vendor's own words where there are any; no key is in it.
    pub message: String,
}

/// Whether asking again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendErrorKind {
    /// It will fail again: a bad key, an unknown model.
    Permanent,
    /// The vendor refuses what is in the request: it will fail again unless something is left out.
    InvalidRequest,
    /// The conversation is longer than the model can read; a shorter one may be answered.
    ContextTooLong,
    /// Nobody listens there, or the way there is closed. It may heal, but mostly not soon.
    Unreachable,
    /// It may heal: a cut stream, an overloaded server, a rate limit.
    Transient {
        /// How long the vendor asked to wait.
        retry_after: Option<Duration>,
    },
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BackendError {}

/// A reply as it streams in.
pub type ReplyStream<'a> = BoxStream<'a, Result<ReplyEvent, BackendError>>;

/// A client of one model. To add one: implement this, add a row to the vendor table, an example
/// config and a wire test.
///
/// The stream yields events as they arrive and ends after [`ReplyEvent::End`] or after the first
/// error. Dropping it ends the request. It must be bounded in bytes and in silence between bytes.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Asks the model.
    fn ask<'a>(&'a self, request: ModelRequest<'a>) -> ReplyStream<'a>;

    /// The same in its place, for a backend that is a program and needs something that holds it.
    fn with_launcher(&self, _seat: &AgentLaunchSetup) -> Option<Arc<dyn Backend>> {
        None
    }

    /// Ends what goes on although nobody waits for it any more, if anything does: a program gets a moment
    /// to end its turn itself. To drop this ends it at once.
    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
}
