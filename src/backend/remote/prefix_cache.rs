//! Encodes the bodies of requests. The stable beginning of a conversation is encoded once and
//! cached, so that a step of a long conversation costs no more than one of a short conversation,
//! and vendors receive the same bytes again.

use std::sync::Arc;

use serde_json::Value;

use crate::backend::ModelRequest;
use crate::backend::conversation::{ChatMessage, ConversationVersion};
use crate::backend::remote::wire::WireCodec;
use crate::tools::spec::ToolOffer;

/// End of a body after the conversation: closes the list and the object.
const CLOSING: &[u8] = b"]}";

/// The beginning of the previous body.
#[derive(Debug, Default)]
pub(super) struct RequestPrefixCache {
    head: Option<CachedRequestHead>,
    conversation: Option<CachedMessages>,
}

/// A body up to the first message.
#[derive(Debug)]
struct CachedRequestHead {
    system: Arc<str>,
    tools: Arc<[ToolOffer]>,
    text: Vec<u8>,
}

/// The elements of the first messages; later messages may still be merged into one element.
#[derive(Debug)]
struct CachedMessages {
    version: ConversationVersion,
    /// The number of those messages.
    message_count: usize,
    text: Vec<u8>,
}

impl RequestPrefixCache {
    /// Returns the body of `request`.
    pub(super) fn body(&mut self, wire: &dyn WireCodec, request: &ModelRequest<'_>) -> Vec<u8> {
        let messages = request.conversation.messages();
        let version = request.conversation.version();
        self.conversation
            .take_if(|cached| !cached.version.is_same(version));
        let cached = self.conversation.get_or_insert_with(|| CachedMessages {
            version: version.clone(),
            message_count: 0,
            text: Vec::new(),
        });
        let end = stable_length(messages);
        if end > cached.message_count {
            let elements = wire.encode_messages(messages, cached.message_count..end);
            append_elements(&mut cached.text, &elements);
            cached.message_count = end;
        }
        let mut new_messages = wire.encode_messages(messages, end..messages.len());
        wire.set_cache_breakpoint(&mut new_messages);

        let head = cached_head(&mut self.head, wire, request);
        let mut body = Vec::with_capacity(head.len() + cached.text.len());
        body.extend_from_slice(head);
        if !cached.text.is_empty() {
            push_separator(&mut body);
            body.extend_from_slice(&cached.text);
        }
        append_elements(&mut body, &new_messages);
        body.extend_from_slice(CLOSING);
        body
    }
}

/// Returns the number of messages up to and including the last reply of the model: messages after
/// it may still be merged into one element, messages before it cannot.
fn stable_length(messages: &[ChatMessage]) -> usize {
    let is_reply = |message: &ChatMessage| matches!(message, ChatMessage::Assistant { .. });
    messages
        .iter()
        .rposition(is_reply)
        .map_or(0, |position| position.saturating_add(1))
}

fn cached_head<'f>(
    cache: &'f mut Option<CachedRequestHead>,
    wire: &dyn WireCodec,
    request: &ModelRequest<'_>,
) -> &'f [u8] {
    let is_same = |head: &CachedRequestHead| {
        Arc::ptr_eq(&head.system, &request.system) && Arc::ptr_eq(&head.tools, &request.tools)
    };
    cache.take_if(|head| !is_same(head));
    let head = cache.get_or_insert_with(|| {
        let mut text = Value::Object(wire.request_body(request))
            .to_string()
            .into_bytes();
        // The list of messages is the last entry; the first message is written in place of its end.
        text.truncate(text.len().saturating_sub(CLOSING.len()));
        CachedRequestHead {
            system: Arc::clone(&request.system),
            tools: Arc::clone(&request.tools),
            text,
        }
    });
    &head.text
}

fn append_elements(text: &mut Vec<u8>, elements: &[Value]) {
    for element in elements {
        push_separator(text);
        text.extend_from_slice(element.to_string().as_bytes());
    }
}

/// Appends a comma if there is an element before.
fn push_separator(text: &mut Vec<u8>) {
    if !matches!(text.last(), None | Some(b'[')) {
        text.push(b',');
    }
}
