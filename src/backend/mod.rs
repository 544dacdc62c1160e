//! Owns the conversation with a model: what is sent, what streams back, and the one trait that all
//! backends implement. A backend never touches files and never decides anything.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use serde::Deserialize;
use serde_json::Value;

use crate::tools::spec::ToolOffer;

pub mod chatcompletion;
pub mod connect;
mod scripted;

/// One request to a model: everything it will know.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The system message. It is the same in every request of an agent's phase, so that vendors can
    /// cache it.
    pub system: Arc<str>,
    /// The conversation so far, oldest first; it only grows.
    pub messages: &'a [Message],
    /// The tools that the model may call.
    pub tools: Arc<[ToolOffer]>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// What massgen says.
    User(Arc<str>),
    /// What the model said.
    Assistant {
        /// Its text; may be empty.
        text: String,
        /// The calls that it made, in order.
        calls: Vec<CallRequest>,
    },
    /// What a call gave. Every call of the last assistant message has exactly one.
    CallResult {
        /// The id of the call.
        call_id: String,
        /// What the model reads.
        content: String,
    },
}

/// A tool call as the model wrote it: nothing about it has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRequest {
    /// The vendor's id of the call, unique within the conversation.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as JSON text; may be malformed.
    pub arguments: String,
    /// What the vendor wants to have back with this call; nobody else looks into it.
    pub echo: Option<Value>,
}

/// A piece of a model's reply, in the order in which it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyEvent {
    /// More of the answer's text.
    Text(String),
    /// More of the model's reasoning, where the vendor shows it. Vendors that want it back find it
    /// in the echo of a call.
    Reasoning(String),
    /// A whole tool call.
    Call(CallRequest),
    /// What the reply cost; at most once.
    Usage(Usage),
    /// The reply is complete; nothing follows. A stream that ends without it was cut.
    End(StopReason),
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// It had said all, or it waits for its tool calls.
    #[default]
    Done,
    /// The vendor's limit of output tokens was met.
    Length,
    /// The vendor held content back.
    Filtered,
}

/// Tokens as the vendor counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the request that came from the vendor's cache; part of `input_tokens`.
    pub cached_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
}

/// Why a model could not be asked, or its reply not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    /// Whether asking again can help.
    pub kind: FaultKind,
    /// What happened, in the vendor's own words where there are any; no key is in it.
    pub message: String,
}

/// Whether asking again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It will fail again: a bad key, an unknown model, a refused parameter.
    Permanent,
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
pub type Reply<'a> = BoxStream<'a, Result<ReplyEvent, BackendError>>;

/// A client of one model. To add one: implement this, add a row to the vendor table, an example
/// config and a wire test.
///
/// The stream yields events as they arrive and ends after [`ReplyEvent::End`] or after the first
/// error. Dropping it ends the request. It must be bounded in bytes and in silence between bytes.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Asks the model.
    fn ask<'a>(&'a self, request: Request<'a>) -> Reply<'a>;
}
