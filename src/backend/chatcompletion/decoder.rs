//! Decodes Chat Completions replies: converts each piece of JSON that a vendor sends to events. It
//! accepts every shape that vendors are known to send, because none of them follows the
//! specification exactly.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::backend::chatcompletion::calls::{ToolCallAssembler, ToolCallError};
use crate::backend::chatcompletion::reasoning::ReasoningCollector;
use crate::backend::chatcompletion::thoughts::ThoughtSplitter;
use crate::backend::conversation::Conversation;
use crate::backend::remote::wire::{ReplyDecodeError, ReplyDecoder, SseMessage};
use crate::backend::{ModelRequest, ReplyEvent};
use crate::config::vendors::ReasoningEcho;
use crate::event::StopReason;
use crate::spending::{TokenUsage, token_count};
use crate::tools::CallRequest;
use crate::tools::spec::ToolOffer;
use crate::tools::text_calls::{TEXT_CALL_BYTES_MAX, TextCall, parse_text_call};

/// The piece that ends a stream; it is not JSON.
const DONE: &str = "[DONE]";

/// A reply that is being decoded.
#[derive(Debug)]
pub(super) struct ChatCompletionsDecoder<'a> {
    conversation: &'a Conversation,
    calls: ToolCallAssembler,
    reasoning: ReasoningCollector,
    thoughts: ThoughtSplitter,
    tools: Arc<[ToolOffer]>,
    /// The text so far, as long as it may be a call that is written as text.
    text: Option<String>,
    usage: TokenUsage,
    stop: Option<StopReason>,
}

impl<'a> ChatCompletionsDecoder<'a> {
    /// Creates a decoder for the reply to `request`.
    pub(super) fn new(request: &ModelRequest<'a>, echo: ReasoningEcho) -> Self {
        Self {
            conversation: request.conversation,
            calls: ToolCallAssembler::default(),
            reasoning: ReasoningCollector::new(echo),
            thoughts: ThoughtSplitter::default(),
            tools: Arc::clone(&request.tools),
            text: (!request.tools.is_empty()).then(String::new),
            usage: TokenUsage::default(),
            stop: None,
        }
    }

    /// Returns the last events of a complete reply: the calls, the echo, the end.
    fn finish_reply(&mut self) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        let rest = self.thoughts.finish();
        let rest = (!rest.is_empty()).then(|| self.add_text(rest));
        let (mut calls, call_fields) = self.calls.finish(self.conversation)?;
        if calls.is_empty() {
            calls.extend(self.text_call());
        }
        let mut echo_fields: Map<String, Value> = self.reasoning.finish(!calls.is_empty());
        if !call_fields.is_empty() {
            echo_fields.insert("calls".to_owned(), call_fields.into());
        }
        let echo = (!echo_fields.is_empty()).then(|| ReplyEvent::Echo(echo_fields.into()));
        let end = ReplyEvent::End(self.stop.unwrap_or_default());
        let calls = calls.into_iter().map(ReplyEvent::Call);
        Ok(rest
            .into_iter()
            .chain(calls)
            .chain(echo)
            .chain([end])
            .collect())
    }
}

impl ChatCompletionsDecoder<'_> {
    /// Adds `text` to the reply.
    fn add_text(&mut self, text: String) -> ReplyEvent {
        // A longer text cannot be a call.
        self.text = self
            .text
            .take()
            .filter(|before| before.len().saturating_add(text.len()) <= TEXT_CALL_BYTES_MAX);
        if let Some(buffered_text) = &mut self.text {
            buffered_text.push_str(&text);
        }
        ReplyEvent::Text(text)
    }

    /// Returns the call that a whole reply consists of, if it is written as text.
    fn text_call(&mut self) -> Option<CallRequest> {
        let text = self.text.take()?;
        if self.stop.is_some_and(|stop| stop != StopReason::Done) {
            return None;
        }
        let TextCall { name, arguments } = parse_text_call(&text, &self.tools)?;
        let id = self.conversation.call_id("", &[]);
        Some(CallRequest {
            id,
            name,
            arguments,
        })
    }
}

impl ReplyDecoder for ChatCompletionsDecoder<'_> {
    fn decode_event(
        &mut self,
        message: SseMessage<'_>,
    ) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        if message.name == "error" {
            return Err(ReplyDecodeError::VendorError(message.data.to_owned()));
        }
        if message.data == DONE {
            return self.finish_reply();
        }
        let text = message.data;
        let piece: Value = match serde_json::from_str(text) {
            Ok(piece) => piece,
            // The reply is whole: what follows cannot change it.
            Err(_) if self.stop.is_some() => return Ok(Vec::new()),
            Err(error) => return Err(ReplyDecodeError::Malformed(format!("{error}: {text}"))),
        };
        if is_error(&piece) {
            return Err(ReplyDecodeError::VendorError(text.to_owned()));
        }
        let mut events = Vec::new();
        if let Some(usage) = usage(&piece).filter(|usage| *usage != self.usage) {
            self.usage = usage;
            events.push(ReplyEvent::Usage(usage));
        }
        let Some(choice) = piece.pointer("/choices/0") else {
            return Ok(events);
        };
        let delta = choice
            .get("delta")
            .or_else(|| choice.get("message"))
            .unwrap_or(&Value::Null);
        events.extend(self.reasoning.add(delta).map(ReplyEvent::Reasoning));
        if let Some(text) = first_nonempty_text(delta, &["content", "refusal"]) {
            let (thought, text) = self.thoughts.split(text);
            if !thought.is_empty() {
                events.push(ReplyEvent::Reasoning(thought));
            }
            if !text.is_empty() {
                events.push(self.add_text(text));
            }
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        for piece in calls.into_iter().flatten() {
            self.calls.add(piece)?;
        }
        if let Some(reason) = first_nonempty_text(choice, &["finish_reason"]) {
            self.stop = Some(stop_reason(reason)?);
        }
        Ok(events)
    }

    /// Accepts a stream that ends without a terminator, as some vendors' do after they have sent
    /// the stop reason.
    fn end(&mut self) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        match self.stop {
            Some(_) => self.finish_reply(),
            None => Err(ReplyDecodeError::UnexpectedEnd),
        }
    }

    fn held_bytes(&self) -> usize {
        let bytes = self.calls.bytes();
        bytes.saturating_add(self.reasoning.bytes())
    }
}

impl From<ToolCallError> for ReplyDecodeError {
    fn from(error: ToolCallError) -> Self {
        match error {
            ToolCallError::TooMany => ReplyDecodeError::TooLong(error.to_string()),
            ToolCallError::MissingName => ReplyDecodeError::Malformed(error.to_string()),
        }
    }
}

fn stop_reason(finish_reason: &str) -> Result<StopReason, ReplyDecodeError> {
    match finish_reason {
        "length" | "max_tokens" | "model_length" => Ok(StopReason::Length),
        "content_filter" | "safety" | "sensitive" => Ok(StopReason::Filtered),
        "error" | "network_error" | "insufficient_system_resource" => {
            Err(ReplyDecodeError::ReplyFailed(finish_reason.to_owned()))
        }
        _ => Ok(StopReason::Done),
    }
}

/// Returns whether a piece is an error. Most vendors send `error`; vLLM sends `object: error`.
fn is_error(piece: &Value) -> bool {
    piece.get("error").is_some_and(|error| !error.is_null())
        || piece.get("object").and_then(Value::as_str) == Some("error")
}

/// Returns the first of the fields `keys` that holds a string that is not empty.
fn first_nonempty_text<'v>(object: &'v Value, keys: &[&str]) -> Option<&'v str> {
    keys.iter()
        .filter_map(|key| object.get(key)?.as_str())
        .find(|text| !text.is_empty())
}

/// Returns the token counts, which Moonshot puts into the choice. Later counts include earlier
/// ones.
fn usage(piece: &Value) -> Option<TokenUsage> {
    let usage = [piece.get("usage"), piece.pointer("/choices/0/usage")]
        .into_iter()
        .flatten()
        .find(|usage| usage.is_object())?;
    let count = |pointers: &[&str]| {
        let number = |pointer: &&str| token_count(usage.pointer(pointer)?);
        pointers.iter().find_map(number).unwrap_or_default()
    };
    let (input, output) = (count(&["/prompt_tokens"]), count(&["/completion_tokens"]));
    // xAI, and Google in this format, leave reasoning out of the completion but not of the total:
    // <https://docs.x.ai/docs/key-information/consumption-and-rate-limits>.
    let whole_output = count(&["/total_tokens"]).saturating_sub(input).max(output);
    Some(TokenUsage {
        input_tokens: input,
        cached_tokens: count(&[
            "/prompt_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
            "/cached_tokens",
        ]),
        cache_write_tokens: 0,
        output_tokens: whole_output,
        reasoning_tokens: count(&["/completion_tokens_details/reasoning_tokens"]),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns what must be sent back with a reply that has reasoning and a call.
    fn echo(policy: ReasoningEcho) -> Option<Value> {
        let conversation = Conversation::default();
        let request = ModelRequest {
            system: "".into(),
            conversation: &conversation,
            tools: Arc::new([]),
        };
        let mut decoder = ChatCompletionsDecoder::new(&request, policy);
        let call = json!({"index": 0, "id": "a", "function": {"name": "f"}});
        for delta in [
            json!({"reasoning_content": "H"}),
            json!({"reasoning_content": "m."}),
            json!({"tool_calls": [call]}),
        ] {
            let data = json!({"choices": [{"delta": delta}]}).to_string();
            let piece = SseMessage {
                name: "",
                data: &data,
            };
            decoder.decode_event(piece).unwrap();
        }
        let mut echo = None;
        for event in decoder.finish_reply().unwrap() {
            if let ReplyEvent::Echo(value) = event {
                echo = Some(value);
            }
        }
        echo
    }

    #[test]
    fn reasoning_before_a_call_is_echoed_only_where_it_is_wanted() {
        let expected = json!({"message": {"reasoning_content": "Hm."}});
        assert_eq!(echo(ReasoningEcho::Wanted), Some(expected));
        let on_demand = json!({"reasoning": {"reasoning_content": "Hm."}});
        assert_eq!(echo(ReasoningEcho::OnDemand), Some(on_demand));
        assert_eq!(echo(ReasoningEcho::Refused), None);
    }
}
