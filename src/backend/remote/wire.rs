//! Owns what sets one vendor's wire format apart from another's: how a request is written and how a
//! reply is read. Implementations are pure; the way over the network is the same for all.

use std::fmt;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::backend::conversation::ChatMessage;
use crate::backend::{ModelRequest, ReplyEvent};

/// A wire format, with what a config says about requests over it.
pub trait WireCodec: fmt::Debug + Send + Sync {
    /// A request's body without the conversation. Its last entry is the list to which the elements
    /// of the conversation are added; it may hold some already.
    fn request_body(&self, request: &ModelRequest<'_>) -> Map<String, Value>;

    /// The elements for the messages in `new`. Earlier ones have been written and are there to be
    /// looked up; no element may hold messages from both sides of an assistant's.
    fn encode_messages(&self, messages: &[ChatMessage], new: Range<usize>) -> Vec<Value>;

    /// Changes the last elements of a request, which will be written again next time.
    fn set_cache_breakpoint(&self, _elements: &mut [Value]) {}

    /// Begins to read the reply to a request.
    fn decoder<'a>(&'a self, request: ModelRequest<'a>) -> Box<dyn ReplyDecoder + 'a>;
}

/// A reply as far as it has come.
pub trait ReplyDecoder: Send {
    /// Reads one event of the stream. A body that is not streamed comes as one event without a
    /// name. After [`ReplyEvent::End`] nothing more is given to it.
    fn decode_event(&mut self, piece: SseMessage<'_>) -> Result<Vec<ReplyEvent>, ReplyDecodeError>;

    /// The stream has ended without [`ReplyEvent::End`]: gives what completes the reply, if the
    /// vendor has said enough.
    fn end(&mut self) -> Result<Vec<ReplyEvent>, ReplyDecodeError>;
}

/// One event of a stream.
#[derive(Clone, Copy, Debug)]
pub struct SseMessage<'a> {
    /// The event's name, empty if it has none.
    pub name: &'a str,
    /// Its data, without space around it; never empty.
    pub data: &'a str,
}

/// Why a reply could not be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyDecodeError {
    /// What came cannot be understood; says why.
    Malformed(String),
    /// The vendor reported an error in the reply's place; this is its text, mostly JSON.
    VendorError(String),
    /// The vendor ended the reply for this reason, which is an error.
    GaveUp(String),
    /// The stream ended where more had to come.
    UnexpectedEnd,
}
