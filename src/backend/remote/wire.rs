//! The interface of a wire format: how a request is encoded and how a reply is decoded.
//! Implementations are pure; the HTTP client is the same for all.

use std::fmt;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::backend::conversation::ChatMessage;
use crate::backend::{ModelRequest, ReplyEvent};

/// A wire format, with the request parameters of a config.
pub trait WireCodec: fmt::Debug + Send + Sync {
    /// Returns a request's body without the conversation. Its last entry is the list to which the
    /// elements of the conversation are appended; it may contain some already.
    fn request_body(&self, request: &ModelRequest<'_>) -> Map<String, Value>;

    /// Encodes the messages in `range`. Earlier messages have been encoded and are passed for
    /// lookups; no element may contain messages from both sides of an assistant message.
    fn encode_messages(&self, messages: &[ChatMessage], range: Range<usize>) -> Vec<Value>;

    /// Changes the last elements of a request, which will be encoded again next time.
    fn set_cache_breakpoint(&self, _elements: &mut [Value]) {}

    /// Changes how later requests are encoded, if the message of the vendor's refusal shows how.
    fn adapt_to_refusal(&self, _message: &str) -> RefusalRemedy {
        RefusalRemedy::None
    }

    /// Creates a decoder for the reply to a request.
    fn decoder<'a>(&'a self, request: ModelRequest<'a>) -> Box<dyn ReplyDecoder + 'a>;
}

/// What helps after a vendor has refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalRemedy {
    /// No change to the encoding helps.
    None,
    /// To send the request again, which is now encoded differently.
    Retry,
}

/// A reply that is being decoded.
pub trait ReplyDecoder: Send {
    /// Decodes one message of the stream. A body that is not streamed is one message without a
    /// name. Not called again after [`ReplyEvent::End`].
    fn decode_event(
        &mut self,
        message: SseMessage<'_>,
    ) -> Result<Vec<ReplyEvent>, ReplyDecodeError>;

    /// Handles the end of a stream without [`ReplyEvent::End`]: returns the events that complete
    /// the reply, if the vendor has sent enough.
    fn end(&mut self) -> Result<Vec<ReplyEvent>, ReplyDecodeError>;

    /// Returns how many bytes of calls and echoes it holds for later events, at least.
    fn held_bytes(&self) -> usize;
}

/// One message of a stream of server-sent events.
#[derive(Clone, Copy, Debug)]
pub struct SseMessage<'a> {
    /// The name of its event, empty if it has none.
    pub name: &'a str,
    /// Its data, trimmed; never empty.
    pub data: &'a str,
}

/// Error in the decoding of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyDecodeError {
    /// The data cannot be decoded, for this reason.
    Malformed(String),
    /// The reply exceeds a limit; this says how, as the end of "a reply that". Another reply would
    /// exceed it, too.
    TooLong(String),
    /// The vendor reported an error instead of a reply; this is its text, mostly JSON.
    VendorError(String),
    /// The vendor ended the reply for this reason, which is an error.
    ReplyFailed(String),
    /// The stream ended too early.
    UnexpectedEnd,
}
