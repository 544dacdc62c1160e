//! Owns the bodies of requests. The settled beginning of a conversation is written once and kept, so
//! that a long conversation costs no more at each step than a short one, and vendors see the same
//! bytes again.

use std::sync::Arc;

use serde_json::Value;

use crate::backend::Request;
use crate::backend::conversation::{Message, Version};
use crate::backend::remote::wire::Wire;
use crate::tools::spec::ToolOffer;

/// What a body ends with after the conversation: the list and the object.
const CLOSING: &[u8] = b"]}";

/// The beginning of the last body.
#[derive(Debug, Default)]
pub(super) struct Written {
    frame: Option<Frame>,
    conversation: Option<Settled>,
}

/// A body up to the first message.
#[derive(Debug)]
struct Frame {
    system: Arc<str>,
    tools: Arc<[ToolOffer]>,
    text: Vec<u8>,
}

/// The elements of the first messages; later ones may still be joined to one element.
#[derive(Debug)]
struct Settled {
    version: Version,
    messages: usize,
    text: Vec<u8>,
}

impl Written {
    /// The body of `request`.
    pub(super) fn body(&mut self, wire: &dyn Wire, request: &Request<'_>) -> Vec<u8> {
        let messages = request.conversation.messages();
        let version = request.conversation.version();
        self.conversation
            .take_if(|settled| !settled.version.is(version));
        let settled = self.conversation.get_or_insert_with(|| Settled {
            version: version.clone(),
            messages: 0,
            text: Vec::new(),
        });
        let end = settled_length(messages);
        if end > settled.messages {
            let elements = wire.elements(messages, settled.messages..end);
            append(&mut settled.text, &elements);
            settled.messages = end;
        }
        let mut newest = wire.elements(messages, end..messages.len());
        wire.mark_newest(&mut newest);

        let frame = frame(&mut self.frame, wire, request);
        let mut body = Vec::with_capacity(frame.len() + settled.text.len());
        body.extend_from_slice(frame);
        if !settled.text.is_empty() {
            separate(&mut body);
            body.extend_from_slice(&settled.text);
        }
        append(&mut body, &newest);
        body.extend_from_slice(CLOSING);
        body
    }
}

/// How many messages stand up to and with the last reply of the model: what follows may still be
/// joined to one element, what stands before cannot.
fn settled_length(messages: &[Message]) -> usize {
    let is_reply = |message: &Message| matches!(message, Message::Assistant { .. });
    messages
        .iter()
        .rposition(is_reply)
        .map_or(0, |position| position.saturating_add(1))
}

fn frame<'f>(known: &'f mut Option<Frame>, wire: &dyn Wire, request: &Request<'_>) -> &'f [u8] {
    let is_same = |frame: &Frame| {
        Arc::ptr_eq(&frame.system, &request.system) && Arc::ptr_eq(&frame.tools, &request.tools)
    };
    known.take_if(|frame| !is_same(frame));
    let frame = known.get_or_insert_with(|| {
        let mut text = Value::Object(wire.frame(request)).to_string().into_bytes();
        text.truncate(text.len().saturating_sub(CLOSING.len()));
        Frame {
            system: Arc::clone(&request.system),
            tools: Arc::clone(&request.tools),
            text,
        }
    });
    &frame.text
}

fn append(text: &mut Vec<u8>, elements: &[Value]) {
    for element in elements {
        separate(text);
        text.extend_from_slice(element.to_string().as_bytes());
    }
}

/// Puts a comma after an element that is already there.
fn separate(text: &mut Vec<u8>) {
    if !matches!(text.last(), None | Some(b'[')) {
        text.push(b',');
    }
}
