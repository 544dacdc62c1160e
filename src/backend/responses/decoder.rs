//! Decodes Responses replies: converts each event of a stream, or a whole reply, to massgen's
//! events. Event types that are not named here carry nothing that the items do not carry too.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::backend::conversation::Conversation;
use crate::backend::remote::wire::{ReplyDecodeError, ReplyDecoder, SseMessage};
use crate::backend::responses::echo;
use crate::backend::responses::output::{OutputAssembler, OutputError, kind, text_field};
use crate::backend::responses::parameters::ReplyStorage;
use crate::backend::source_list::SourceList;
use crate::backend::{ModelRequest, ReplyEvent};
use crate::event::StopReason;
use crate::spending::{TokenUsage, token_count};

/// What some servers send at the end of a stream, after the last event; it is not JSON.
const DONE: &str = "[DONE]";
/// The type of the event that replaces a reply.
const ERROR: &str = "error";

/// A reply that is being decoded.
#[derive(Debug)]
pub(super) struct ResponsesDecoder<'a> {
    conversation: &'a Conversation,
    storage: ReplyStorage,
    output: OutputAssembler,
    text: TextDeduplicator,
    reasoning: TextDeduplicator,
    /// The pages that the vendor's search cites, if they are listed.
    sources: Option<SourceList>,
}

impl<'a> ResponsesDecoder<'a> {
    /// Creates a decoder for the reply to `request`.
    pub(super) fn new(request: &ModelRequest<'a>, storage: ReplyStorage) -> Self {
        Self {
            conversation: request.conversation,
            storage,
            output: OutputAssembler::default(),
            text: TextDeduplicator::default(),
            reasoning: TextDeduplicator::default(),
            sources: None,
        }
    }

    /// Lists the pages that the vendor's search found in `sources`, and at the end of the text.
    #[must_use]
    pub(super) fn with_sources(self, sources: Option<SourceList>) -> Self {
        Self { sources, ..self }
    }

    /// Adds the pages that the text of an item cites.
    fn add_sources(&mut self, item: &Value) {
        let Some(sources) = &mut self.sources else {
            return;
        };
        for citation in items_of(item, "content").flat_map(|part| items_of(part, "annotations")) {
            sources.add(text_field(citation, "title"), text_field(citation, "url"));
        }
    }

    /// Handles one event of a stream.
    fn handle_event(
        &mut self,
        name: &str,
        event: &Value,
    ) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        let delta = text_field(event, "delta");
        let item = event.get("item").unwrap_or(&Value::Null);
        let index = event.get("output_index").and_then(Value::as_u64);
        let mut events = Vec::new();
        match name {
            "response.output_text.delta" | "response.refusal.delta" => {
                let position = self.text_position(event)?;
                let piece = self.text.take_piece(position, delta);
                events.extend(piece.map(ReplyEvent::Text));
            }
            "response.output_text.done" | "response.refusal.done" => {
                let position = self.text_position(event)?;
                let new_text = self.text.take_whole(position, part_text(event));
                events.extend(new_text.map(ReplyEvent::Text));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let position = self.text_position(event)?;
                let piece = self.reasoning.take_piece(position, delta);
                events.extend(piece.map(ReplyEvent::Reasoning));
            }
            "response.function_call_arguments.delta" => self.output.add_arguments(event)?,
            "response.function_call_arguments.done" => self.output.set_arguments(event)?,
            "response.output_item.added" => {
                self.output.upsert(index, item)?;
            }
            "response.output_item.done" => self.handle_item(index, item, &mut events)?,
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = event.get("response").unwrap_or(&Value::Null);
                let status = name.trim_start_matches("response.");
                return self.finish_reply(response, status);
            }
            _ => {}
        }
        Ok(events)
    }

    /// Returns the item and the part that an event is about.
    fn text_position(&mut self, event: &Value) -> Result<TextPosition, OutputError> {
        let index_at = |field| event.get(field).and_then(Value::as_u64);
        let part = index_at("summary_index").or_else(|| index_at("content_index"));
        Ok(TextPosition {
            item: self.output.position(event)?,
            part: part.unwrap_or_default(),
        })
    }

    /// Handles a whole item, and its texts that have not come in pieces.
    fn handle_item(
        &mut self,
        index: Option<u64>,
        item: &Value,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ReplyDecodeError> {
        let item_position = self.output.upsert(index, item)?;
        let position = |part| TextPosition {
            item: item_position,
            part,
        };
        let parts = |field| item.get(field).and_then(Value::as_array).into_iter();
        let numbered = |field| parts(field).flat_map(|parts| (0..).zip(parts));
        match kind(item) {
            "message" => {
                for (number, part) in numbered("content") {
                    let new_text = self.text.take_whole(position(number), part_text(part));
                    events.extend(new_text.map(ReplyEvent::Text));
                }
            }
            "reasoning" => {
                for (number, part) in numbered("summary").chain(numbered("content")) {
                    let new_text = self.reasoning.take_whole(position(number), part_text(part));
                    events.extend(new_text.map(ReplyEvent::Reasoning));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the last events of a complete reply: what has not come before, the calls, the usage,
    /// the end.
    fn finish_reply(
        &mut self,
        response: &Value,
        status: &str,
    ) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        if let Some(error) = response_error(response) {
            return Err(ReplyDecodeError::VendorError(
                json!({"error": error}).to_string(),
            ));
        }
        let stop = stop_reason(response, status)?;
        let mut events = Vec::new();
        let items = response.get("output").and_then(Value::as_array);
        for (index, item) in (0..).zip(items.into_iter().flatten()) {
            self.handle_item(Some(index), item, &mut events)?;
            self.add_sources(item);
        }
        let sources = self.sources.as_mut().and_then(SourceList::take_text);
        events.extend(sources.map(ReplyEvent::Text));
        let (calls, items) = self.output.finish(self.conversation)?;
        events.extend(calls.into_iter().map(ReplyEvent::Call));
        events.extend(echo::from_items(items, self.storage).map(ReplyEvent::Echo));
        events.extend(usage(response).map(ReplyEvent::Usage));
        events.push(ReplyEvent::End(stop));
        Ok(events)
    }
}

impl ReplyDecoder for ResponsesDecoder<'_> {
    fn decode_event(
        &mut self,
        message: SseMessage<'_>,
    ) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        let SseMessage { name, data } = message;
        if name == ERROR {
            return Err(ReplyDecodeError::VendorError(data.to_owned()));
        }
        if data == DONE {
            return Ok(Vec::new());
        }
        let event: Value = serde_json::from_str(data)
            .map_err(|error| ReplyDecodeError::Malformed(format!("{error}: {data}")))?;
        match kind(&event) {
            ERROR => Err(ReplyDecodeError::VendorError(data.to_owned())),
            _ if response_error(&event).is_some() => {
                Err(ReplyDecodeError::VendorError(data.to_owned()))
            }
            // This is a whole reply, from a server that does not stream.
            "" if event.get("output").is_some() => self.finish_reply(&event, ""),
            "" => self.handle_event(name, &event),
            kind => self.handle_event(kind, &event),
        }
    }

    /// Fails: every complete stream has an event that ends it.
    fn end(&mut self) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        Err(ReplyDecodeError::UnexpectedEnd)
    }

    fn held_bytes(&self) -> usize {
        self.output.bytes()
    }
}

impl From<OutputError> for ReplyDecodeError {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::TooMany => ReplyDecodeError::TooLong(error.to_string()),
            OutputError::MissingName => ReplyDecodeError::Malformed(error.to_string()),
        }
    }
}

/// Returns the text of a part; a model that refuses writes it to another field.
fn part_text(part: &Value) -> &str {
    match text_field(part, "text") {
        "" => text_field(part, "refusal"),
        text => text,
    }
}

fn response_error(response: &Value) -> Option<&Value> {
    response.get("error").filter(|error| !error.is_null())
}

/// Returns why a reply ended. `event` is the status that the event's name says; it is empty for a
/// reply that is not streamed.
fn stop_reason(response: &Value, event: &str) -> Result<StopReason, ReplyDecodeError> {
    let own_status = text_field(response, "status");
    let status = if own_status.is_empty() {
        event
    } else {
        own_status
    };
    let output = response.get("output").and_then(Value::as_array);
    let has_output = output.is_some_and(|items| !items.is_empty());
    let details = response.get("incomplete_details");
    let reason = details.map_or("", |details| text_field(details, "reason"));
    match (status, reason) {
        ("incomplete", "content_filter") => Ok(StopReason::Filtered),
        ("incomplete", _) => Ok(StopReason::Length),
        // The event says that the reply is whole, and it holds one: the status does not matter.
        ("failed" | "cancelled" | "queued" | "in_progress", _)
            if event == "completed" && has_output =>
        {
            Ok(StopReason::Done)
        }
        ("failed" | "cancelled" | "queued" | "in_progress", _) => {
            Err(ReplyDecodeError::ReplyFailed(status.to_owned()))
        }
        _ => Ok(StopReason::Done),
    }
}

fn usage(response: &Value) -> Option<TokenUsage> {
    let usage = response.get("usage").filter(|usage| usage.is_object())?;
    let count = |pointer| usage.pointer(pointer).and_then(token_count);
    let count = |pointer| count(pointer).unwrap_or_default();
    Some(TokenUsage {
        input_tokens: count("/input_tokens"),
        cached_tokens: count("/input_tokens_details/cached_tokens"),
        cache_write_tokens: count("/input_tokens_details/cache_write_tokens"),
        output_tokens: count("/output_tokens"),
        reasoning_tokens: count("/output_tokens_details/reasoning_tokens"),
    })
}

/// Returns the items of an array in `value`; none if there is no such array.
fn items_of<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    let items = value.get(field).and_then(Value::as_array);
    items.into_iter().flatten()
}

/// The position of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TextPosition {
    /// The position of its item.
    item: usize,
    /// The index of the part within the item.
    part: u64,
}

/// The texts of one kind in a reply that have been emitted so far.
#[derive(Debug, Default)]
struct TextDeduplicator {
    seen_positions: BTreeSet<TextPosition>,
    last: Option<TextPosition>,
}

impl TextDeduplicator {
    /// Returns more of the text at `position`, with a blank line before it if another text precedes
    /// it.
    fn take_piece(&mut self, position: TextPosition, text: &str) -> Option<String> {
        if text.is_empty() {
            return None;
        }
        self.seen_positions.insert(position);
        let position_before = self.last.replace(position);
        let is_another = position_before.is_some_and(|before| before != position);
        Some(if is_another {
            format!("\n\n{text}")
        } else {
            text.to_owned()
        })
    }

    /// Returns the whole text at `position`, unless it has been emitted in pieces.
    fn take_whole(&mut self, position: TextPosition, text: &str) -> Option<String> {
        if self.seen_positions.contains(&position) {
            None
        } else {
            self.take_piece(position, text)
        }
    }
}
