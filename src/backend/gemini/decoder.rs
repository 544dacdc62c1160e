//! Decodes `generateContent` replies: each `GenerateContentResponse` becomes events.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::backend::conversation::Conversation;
use crate::backend::gemini::request::calls_in;
use crate::backend::remote::wire::{ReplyDecodeError, ReplyDecoder, SseMessage};
use crate::backend::source_list::SourceList;
use crate::backend::{CALLS_MAX, ReplyEvent, json_bytes};
use crate::event::StopReason;
use crate::spending::{TokenUsage, token_count};
use crate::tools::CallRequest;

/// The finish reasons of a reply that was blocked:
/// <https://ai.google.dev/api/generate-content#FinishReason>.
const FILTERED_REASONS: &[&str] = &[
    "BLOCKLIST",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_SAFETY",
    "LANGUAGE",
    "MODEL_ARMOR",
    "PROHIBITED_CONTENT",
    "RECITATION",
    "SAFETY",
    "SPII",
];

/// The finish reasons of a reply that the vendor could not complete: it has to be requested again.
const FAILED_REASONS: &[&str] = &[
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "MISSING_THOUGHT_SIGNATURE",
    "TOO_MANY_TOOL_CALLS",
    "UNEXPECTED_TOOL_CALL",
];

/// The vendor's default value of `finishReason`: no reason is given yet.
const UNSPECIFIED: &str = "FINISH_REASON_UNSPECIFIED";

/// The reason for which a reply ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FinishReason {
    /// The reply ended in one of the ways that all vendors have.
    Stopped(StopReason),
    /// It failed, with this explanation.
    Failed(String),
    /// A reason that the documentation does not list.
    Unknown(String),
    /// `OTHER`, with this explanation: text may be cut off, so only a reply with tool calls counts
    /// as complete.
    VendorOther(String),
    /// The field is there but holds the default value: more responses may follow.
    Unspecified,
}

/// A reply that is being decoded.
#[derive(Debug)]
pub(super) struct GenerateContentDecoder<'a> {
    conversation: &'a Conversation,
    /// Shared by all replies of the backend, so that a reason that repeats is reported once.
    last_unknown_finish: &'a Mutex<Option<String>>,
    /// The parts that later requests send back: all but thoughts without a signature.
    parts: Vec<Value>,
    /// The bytes of all of them.
    bytes: usize,
    usage: TokenUsage,
    /// The finish reason, once there is one.
    finish: Option<FinishReason>,
    /// Whether the reply has any text.
    has_text: bool,
    /// The pages that Google's search found, if they are listed.
    sources: Option<SourceList>,
}

impl<'a> GenerateContentDecoder<'a> {
    /// Creates a decoder for the next reply of a conversation.
    /// `last_unknown_finish` holds the last finish reason that was reported as unknown.
    pub(super) fn new(
        conversation: &'a Conversation,
        last_unknown_finish: &'a Mutex<Option<String>>,
    ) -> Self {
        Self {
            conversation,
            last_unknown_finish,
            parts: Vec::new(),
            bytes: 0,
            usage: TokenUsage::default(),
            finish: None,
            has_text: false,
            sources: None,
        }
    }

    /// Lists the pages that the vendor's search found in `sources`, and at the end of the text.
    #[must_use]
    pub(super) fn with_sources(self, sources: Option<SourceList>) -> Self {
        Self { sources, ..self }
    }

    /// Adds the pages that a response names.
    fn add_sources(&mut self, response: &Value) {
        let chunks = response
            .pointer("/candidates/0/groundingMetadata/groundingChunks")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let Some(sources) = &mut self.sources else {
            return;
        };
        for page in chunks.filter_map(|chunk| chunk.get("web")) {
            let text = |field| page.get(field).and_then(Value::as_str).unwrap_or_default();
            sources.add(text("title"), text("uri"));
        }
    }

    fn handle_response(
        &mut self,
        mut response: Value,
    ) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        if response.get("error").is_some_and(|error| !error.is_null()) {
            return Err(ReplyDecodeError::VendorError(response.to_string()));
        }
        let mut events = Vec::new();
        if let Some(Value::Array(parts)) = response
            .pointer_mut("/candidates/0/content/parts")
            .map(Value::take)
        {
            for part in parts {
                let event = part_event(&part);
                self.has_text |= matches!(event, Some(ReplyEvent::Text(_)));
                events.extend(event);
                self.append_part(part);
            }
        }
        if let Some(usage) = usage(&response).filter(|usage| *usage != self.usage) {
            self.usage = usage;
            events.push(ReplyEvent::Usage(usage));
        }
        self.add_sources(&response);
        // The last reason given counts.
        self.finish = finish_reason(&response).or_else(|| self.finish.take());
        Ok(events)
    }

    /// Keeps a part for later requests. Text is appended to the text before it, but a part with a
    /// signature stays as it is.
    fn append_part(&mut self, mut part: Value) {
        if is_thought(&part) && part.get("thoughtSignature").is_none() {
            return;
        }
        let part_bytes = match plain_text(&mut part) {
            Some(text) => text.len(),
            None => json_bytes(&part),
        };
        self.bytes = self.bytes.saturating_add(part_bytes);
        if let Some(text) = plain_text(&mut part) {
            match self.parts.last_mut().and_then(plain_text) {
                Some(text_before) => return text_before.push_str(text),
                None if text.is_empty() => return,
                None => {}
            }
        }
        self.parts.push(part);
    }

    /// Returns whether the model has said why the reply ended.
    fn has_finished(&self) -> bool {
        !matches!(self.finish, None | Some(FinishReason::Unspecified))
    }

    /// Returns the event that warns of a finish reason, unless the last warning was about the same
    /// one.
    fn warn_once_about_finish(&self, reason: String) -> Option<ReplyEvent> {
        let mut last_reason = self
            .last_unknown_finish
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_new = last_reason.as_ref() != Some(&reason);
        is_new.then(|| {
            *last_reason = Some(reason.clone());
            ReplyEvent::UnknownFinish(reason)
        })
    }

    /// Returns the calls of the reply, each with an id that is unique in the conversation.
    fn calls(&self) -> Result<Vec<CallRequest>, ReplyDecodeError> {
        let mut calls: Vec<CallRequest> = Vec::new();
        for call in calls_in(&self.parts) {
            let text = |field| call.get(field).and_then(Value::as_str).unwrap_or_default();
            if calls.len() == CALLS_MAX {
                let reason = format!("makes more than {CALLS_MAX} tool calls");
                return Err(ReplyDecodeError::TooLong(reason));
            }
            if text("name").is_empty() {
                let reason = "the reply makes a tool call without a name";
                return Err(ReplyDecodeError::Malformed(reason.to_owned()));
            }
            let arguments = call.get("args").filter(|args| !args.is_null());
            calls.push(CallRequest {
                id: self.conversation.call_id(text("id"), &calls),
                name: text("name").to_owned(),
                arguments: arguments.map_or_else(|| "{}".to_owned(), Value::to_string),
            });
        }
        Ok(calls)
    }
}

impl ReplyDecoder for GenerateContentDecoder<'_> {
    /// Accepts all responses as one list too, from a server that does not stream.
    fn decode_event(
        &mut self,
        message: SseMessage<'_>,
    ) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        let mut response: Value = match serde_json::from_str(message.data) {
            Ok(response) => response,
            // The reply is whole: what follows cannot change it.
            Err(_) if self.has_finished() => return Ok(Vec::new()),
            Err(error) => {
                let reason = format!("{error}: {}", message.data);
                return Err(ReplyDecodeError::Malformed(reason));
            }
        };
        let responses = match response.as_array_mut() {
            Some(responses) => std::mem::take(responses),
            None => vec![response],
        };
        let mut events = Vec::new();
        for response in responses {
            events.extend(self.handle_response(response)?);
        }
        Ok(events)
    }

    /// Ends the reply. A stream has no last event: it is complete if the model has given a finish
    /// reason. A reason that is not known does not matter if there is something to act on.
    fn end(&mut self) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        let finish = self.finish.take().ok_or(ReplyDecodeError::UnexpectedEnd)?;
        let function_calls = self.calls()?;
        let (stop, warning) = match finish {
            FinishReason::Stopped(stop) => (stop, None),
            FinishReason::Unknown(reason) if !function_calls.is_empty() || self.has_text => {
                (StopReason::Done, self.warn_once_about_finish(reason))
            }
            FinishReason::VendorOther(reason) if !function_calls.is_empty() => {
                (StopReason::Done, self.warn_once_about_finish(reason))
            }
            FinishReason::Unspecified if !function_calls.is_empty() => {
                let reason = UNSPECIFIED.to_owned();
                (StopReason::Done, self.warn_once_about_finish(reason))
            }
            FinishReason::Unspecified => return Err(ReplyDecodeError::UnexpectedEnd),
            FinishReason::Failed(reason)
            | FinishReason::Unknown(reason)
            | FinishReason::VendorOther(reason) => {
                return Err(ReplyDecodeError::ReplyFailed(reason));
            }
        };
        let sources = self
            .sources
            .as_mut()
            .and_then(SourceList::take_text)
            .filter(|_| self.has_text)
            .map(ReplyEvent::Text);
        let mut events: Vec<ReplyEvent> = sources.into_iter().collect();
        events.extend(function_calls.into_iter().map(ReplyEvent::Call));
        events.extend(warning);
        let mut parts = std::mem::take(&mut self.parts);
        // Parts that hold only text can be rebuilt from the text.
        let is_special = parts.iter_mut().any(|part| plain_text(part).is_none());
        let echo = is_special.then(|| ReplyEvent::Echo(parts.into()));
        events.extend(echo);
        events.push(ReplyEvent::End(stop));
        Ok(events)
    }

    fn held_bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns the event that a part produces immediately.
fn part_event(part: &Value) -> Option<ReplyEvent> {
    let text = part
        .get("text")
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())?
        .to_owned();
    Some(if is_thought(part) {
        ReplyEvent::Reasoning(text)
    } else {
        ReplyEvent::Text(text)
    })
}

fn is_thought(part: &Value) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

/// Returns the text of a part that is text and nothing else.
fn plain_text(part: &mut Value) -> Option<&mut String> {
    let fields = part.as_object_mut().filter(|fields| fields.len() == 1)?;
    match fields.get_mut("text") {
        Some(Value::String(text)) => Some(text),
        Some(_) | None => None,
    }
}

/// Returns the finish reason, if a response has one. A prompt that is blocked has no reply at all.
fn finish_reason(response: &Value) -> Option<FinishReason> {
    let text = |pointer| response.pointer(pointer).and_then(Value::as_str);
    if text("/promptFeedback/blockReason").is_some() {
        return Some(FinishReason::Stopped(StopReason::Filtered));
    }
    let reason = text("/candidates/0/finishReason")?;
    let reason_and_message = match text("/candidates/0/finishMessage") {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    };
    Some(match reason {
        "" | UNSPECIFIED => FinishReason::Unspecified,
        "STOP" => FinishReason::Stopped(StopReason::Done),
        "MAX_TOKENS" => FinishReason::Stopped(StopReason::Length),
        filtered if FILTERED_REASONS.contains(&filtered) => {
            FinishReason::Stopped(StopReason::Filtered)
        }
        failed if FAILED_REASONS.contains(&failed) => FinishReason::Failed(reason_and_message),
        "OTHER" => FinishReason::VendorOther(reason_and_message),
        _ => FinishReason::Unknown(reason_and_message),
    })
}

/// Returns the token counts. Later counts include earlier ones.
fn usage(response: &Value) -> Option<TokenUsage> {
    let counts = response.get("usageMetadata")?.as_object()?;
    let count = |name| counts.get(name).and_then(token_count).unwrap_or_default();
    let thoughts = count("thoughtsTokenCount");
    Some(TokenUsage {
        input_tokens: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        cached_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: 0,
        output_tokens: count("candidatesTokenCount").saturating_add(thoughts),
        reasoning_tokens: thoughts,
    })
}
