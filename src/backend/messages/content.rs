//! Assembles a reply's content from the pieces that stream in: the events to emit immediately, the
//! calls, and the blocks that go back to the vendor.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::backend::conversation::Conversation;
use crate::backend::messages::request::{
    encode_input, encode_reply, sanitize_id, sanitize_tool_name,
};
use crate::backend::remote::wire::ReplyDecodeError;
use crate::backend::{CALLS_MAX, ReplyEvent, json_bytes};
use crate::event::StopReason;
use crate::tools::CallRequest;

/// Maximum number of blocks in one reply.
const BLOCKS_MAX: usize = 4096;
/// Separator between two texts with another block between them.
const TEXT_SEPARATOR: &str = "\n\n";
/// Blocks that the API rejects at the end of a message. A server tool's call at the end was never
/// executed, unless the reply was only paused.
const NEVER_LAST: &[&str] = &[
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "mcp_tool_use",
];

/// The blocks of one reply so far, by index.
#[derive(Debug, Default)]
pub(super) struct ContentAssembler {
    blocks: BTreeMap<u64, ContentBlock>,
    /// The index of the last block with text.
    last_text: Option<u64>,
    /// The bytes of all blocks and their pieces.
    bytes: usize,
}

/// One block as the vendor began it, with all later pieces added.
#[derive(Debug)]
struct ContentBlock {
    fields: Map<String, Value>,
    /// The JSON of its input, if that came in pieces.
    input: String,
}

/// The complete content of a reply.
#[derive(Debug)]
pub(super) struct AssembledContent {
    pub(super) calls: Vec<CallRequest>,
    /// All blocks as the vendor requires them back, if text and calls do not cover them.
    pub(super) echo: Option<Value>,
}

impl ContentAssembler {
    /// Returns the bytes of all blocks and their pieces.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins a block. Servers that do not stream send it whole.
    pub(super) fn begin_block(
        &mut self,
        index: u64,
        block: &Value,
    ) -> Result<Option<ReplyEvent>, ReplyDecodeError> {
        let Some(fields) = block.as_object() else {
            return Err(malformed_reply("a content block is not an object"));
        };
        if self.blocks.contains_key(&index) {
            return Err(malformed_reply("a content block begins twice"));
        }
        if self.blocks.len() == BLOCKS_MAX {
            let reason = format!("has more than {BLOCKS_MAX} content blocks");
            return Err(ReplyDecodeError::TooLong(reason));
        }
        self.bytes = self.bytes.saturating_add(json_bytes(block));
        let block = ContentBlock {
            fields: fields.clone(),
            input: String::new(),
        };
        let event = match block.kind() {
            "text" => self.text(index, block.text("text")),
            "thinking" => reasoning(block.text("thinking")),
            _ => None,
        };
        self.blocks.insert(index, block);
        Ok(event)
    }

    /// Adds a piece to a block; pieces of unknown kinds are skipped.
    pub(super) fn add(
        &mut self,
        index: u64,
        delta: &Value,
    ) -> Result<Option<ReplyEvent>, ReplyDecodeError> {
        if !self.blocks.contains_key(&index) {
            // Some servers do not begin the blocks of texts.
            let begun = match kind(delta) {
                "text_delta" => "text",
                "thinking_delta" => "thinking",
                _ => {
                    let reason = "a piece of a content block that has not begun";
                    return Err(malformed_reply(reason));
                }
            };
            self.begin_block(index, &json!({"type": begun}))?;
        }
        let Some(block) = self.blocks.get_mut(&index) else {
            return Ok(None);
        };
        let pieces = delta.as_object().into_iter().flatten();
        let piece_bytes: usize = pieces
            .filter(|(name, _)| *name != "type")
            .map(|(_, piece)| piece.as_str().map_or_else(|| json_bytes(piece), str::len))
            .sum();
        self.bytes = self.bytes.saturating_add(piece_bytes);
        let field = |name| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        match kind(delta) {
            "text_delta" => {
                block.append("text", field("text"));
                Ok(self.text(index, field("text")))
            }
            "thinking_delta" => {
                block.append("thinking", field("thinking"));
                Ok(reasoning(field("thinking")))
            }
            "signature_delta" => {
                block.append("signature", field("signature"));
                Ok(None)
            }
            "input_json_delta" => {
                block.input.push_str(field("partial_json"));
                Ok(None)
            }
            "citations_delta" => {
                block.add_citation(delta.get("citation"));
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Returns the text of the block at `index`, separated from earlier text if another block is
    /// between them.
    fn text(&mut self, index: u64, text: &str) -> Option<ReplyEvent> {
        if text.is_empty() {
            return None;
        }
        let earlier_index = self.last_text.replace(index);
        let is_apart = earlier_index.is_some_and(|earlier| index > earlier.saturating_add(1));
        let separator = if is_apart { TEXT_SEPARATOR } else { "" };
        Some(ReplyEvent::Text(format!("{separator}{text}")))
    }

    /// Returns the complete content of a reply that ended for this reason.
    pub(super) fn finish(
        &mut self,
        stop: StopReason,
        conversation: &Conversation,
    ) -> Result<AssembledContent, ReplyDecodeError> {
        let mut calls: Vec<CallRequest> = Vec::new();
        let (mut text, mut blocks) = (String::new(), Vec::new());
        for (_, mut block) in std::mem::take(&mut self.blocks) {
            match block.kind() {
                "text" => text.push_str(block.text("text")),
                "tool_use" => calls.push(block.call(&calls, conversation)?),
                _ => {}
            }
            if block.is_sendable() {
                blocks.push(block.into_value());
            }
        }
        if calls.len() > CALLS_MAX {
            let reason = format!("makes more than {CALLS_MAX} tool calls");
            return Err(ReplyDecodeError::TooLong(reason));
        }
        let is_dangling = |block: &Value| NEVER_LAST.contains(&kind(block));
        while stop != StopReason::Paused && blocks.last().is_some_and(is_dangling) {
            blocks.pop();
        }
        let echo = (blocks != encode_reply(&text, &calls)).then(|| blocks.into());
        Ok(AssembledContent { calls, echo })
    }
}

impl ContentBlock {
    fn kind(&self) -> &str {
        self.text("type")
    }

    fn text(&self, field: &str) -> &str {
        let value = self.fields.get(field).and_then(Value::as_str);
        value.unwrap_or_default()
    }

    fn append(&mut self, field: &str, piece: &str) {
        if let Some(Value::String(text)) = self.fields.get_mut(field) {
            text.push_str(piece);
        } else {
            self.fields.insert(field.to_owned(), piece.into());
        }
    }

    fn add_citation(&mut self, citation: Option<&Value>) {
        let citation = citation.cloned();
        if let Some(Value::Array(citations)) = self.fields.get_mut("citations") {
            citations.extend(citation);
        } else {
            let citations = Vec::from_iter(citation);
            self.fields.insert("citations".to_owned(), citations.into());
        }
    }

    /// Returns the call that the block is. Its id is unique in the conversation, and its input is
    /// normalized for the API.
    fn call(
        &mut self,
        earlier: &[CallRequest],
        conversation: &Conversation,
    ) -> Result<CallRequest, ReplyDecodeError> {
        let name = self.text("name").to_owned();
        if name.is_empty() {
            return Err(malformed_reply(
                "the reply makes a tool call without a name",
            ));
        }
        let id = conversation.call_id(&sanitize_id(self.text("id")), earlier);
        self.fields.insert("id".to_owned(), id.as_str().into());
        self.fields
            .insert("name".to_owned(), sanitize_tool_name(&name).into());
        let pieces = std::mem::take(&mut self.input);
        let arguments = match (pieces.trim(), self.fields.get("input")) {
            ("", Some(Value::String(whole))) => whole.clone(),
            ("", Some(whole @ Value::Object(_))) => whole.to_string(),
            ("", _) => "{}".to_owned(),
            _ => pieces,
        };
        self.fields
            .insert("input".to_owned(), encode_input(&arguments));
        Ok(CallRequest {
            id,
            name,
            arguments,
        })
    }

    /// Returns whether the API accepts the block back. It rejects blank text, and thinking without
    /// a signature, which occurs if the reply was cut in its middle.
    fn is_sendable(&self) -> bool {
        match self.kind() {
            "text" => !self.text("text").trim().is_empty(),
            "thinking" => !self.text("signature").is_empty(),
            _ => true,
        }
    }

    /// Returns the block in the form in which it is sent back.
    fn into_value(mut self) -> Value {
        if !self.input.trim().is_empty() {
            self.fields
                .insert("input".to_owned(), encode_input(&self.input));
        }
        self.fields.into()
    }
}

/// Returns the type of a block, a piece or an event.
pub(super) fn kind(object: &Value) -> &str {
    let kind = object.get("type").and_then(Value::as_str);
    kind.unwrap_or_default()
}

fn reasoning(text: &str) -> Option<ReplyEvent> {
    (!text.is_empty()).then(|| ReplyEvent::Reasoning(text.to_owned()))
}

fn malformed_reply(reason: &str) -> ReplyDecodeError {
    ReplyDecodeError::Malformed(reason.to_owned())
}
