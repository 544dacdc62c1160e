//! Decodes Messages replies: converts each event that the vendor sends to massgen's events.
//! Unknown event types are skipped, because the vendor adds some without notice.

use serde_json::Value;

use crate::backend::ReplyEvent;
use crate::backend::conversation::Conversation;
use crate::backend::messages::content::{ContentAssembler, kind};
use crate::backend::remote::wire::{ReplyDecodeError, ReplyDecoder, SseMessage};
use crate::event::StopReason;
use crate::spending::{TokenUsage, token_count};

/// A reply that is being decoded.
#[derive(Debug)]
pub(super) struct MessagesDecoder<'a> {
    conversation: &'a Conversation,
    content: ContentAssembler,
    counts: TokenCounts,
    /// Why the reply has ended, once the vendor has said that.
    stop: Option<StopReason>,
}

/// Token counts as the vendor reports them: the input is in three parts.
#[derive(Debug, Default)]
struct TokenCounts {
    uncached: u64,
    cached: u64,
    cache_write: u64,
    output: u64,
    thinking: u64,
}

impl<'a> MessagesDecoder<'a> {
    /// Creates a decoder for the reply to `conversation`.
    pub(super) fn new(conversation: &'a Conversation) -> Self {
        Self {
            conversation,
            content: ContentAssembler::default(),
            counts: TokenCounts::default(),
            stop: None,
        }
    }

    /// Updates the counts from what the vendor reports.
    fn count(&mut self, usage: Option<&Value>) -> Option<ReplyEvent> {
        let usage = usage.filter(|usage| usage.is_object())?;
        self.counts.update(usage);
        Some(ReplyEvent::Usage(self.counts.usage()))
    }

    fn update_stop_reason(&mut self, object: Option<&Value>) {
        let reason = object.and_then(|object| object.get("stop_reason")?.as_str());
        self.stop = reason.map(stop_reason).or(self.stop);
    }

    /// Returns the last events of a complete reply: the calls, the echo, the end.
    fn finish_reply(&mut self) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        let stop = self.stop.unwrap_or_default();
        let content = self.content.finish(stop, self.conversation)?;
        let calls = content.calls.into_iter().map(ReplyEvent::Call);
        let echo = content.echo.map(ReplyEvent::Echo);
        let end = ReplyEvent::End(stop);
        Ok(calls.chain(echo).chain([end]).collect())
    }

    /// Decodes a reply from a server that does not stream.
    fn decode_whole(&mut self, message: &Value) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        let blocks = message.get("content").and_then(Value::as_array);
        let mut events = Vec::new();
        for (index, block) in (0..).zip(blocks.into_iter().flatten()) {
            events.extend(self.content.begin_block(index, block)?);
        }
        events.extend(self.count(message.get("usage")));
        self.update_stop_reason(Some(message));
        events.extend(self.finish_reply()?);
        Ok(events)
    }
}

impl ReplyDecoder for MessagesDecoder<'_> {
    fn decode_event(
        &mut self,
        message: SseMessage<'_>,
    ) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        let text = message.data;
        if message.name == "error" {
            return Err(ReplyDecodeError::VendorError(text.to_owned()));
        }
        let event: Value = serde_json::from_str(text)
            .map_err(|error| ReplyDecodeError::Malformed(format!("{error}: {text}")))?;
        let part = |name| event.get(name).unwrap_or(&Value::Null);
        let reply_event = match kind(&event) {
            "message_start" => self.count(event.pointer("/message/usage")),
            "content_block_start" => self
                .content
                .begin_block(block_index(&event)?, part("content_block"))?,
            "content_block_delta" => self.content.add(block_index(&event)?, part("delta"))?,
            "message_delta" => {
                self.update_stop_reason(event.get("delta"));
                self.count(event.get("usage"))
            }
            "message_stop" => return self.finish_reply(),
            "message" => return self.decode_whole(&event),
            _ if is_error(&event) => return Err(ReplyDecodeError::VendorError(text.to_owned())),
            _ => None,
        };
        Ok(reply_event.into_iter().collect())
    }

    fn end(&mut self) -> Result<Vec<ReplyEvent>, ReplyDecodeError> {
        // Some servers do not send `message_stop`.
        match self.stop {
            Some(_) => self.finish_reply(),
            None => Err(ReplyDecodeError::UnexpectedEnd),
        }
    }

    fn held_bytes(&self) -> usize {
        self.content.bytes()
    }
}

impl TokenCounts {
    /// Updates the counts that `usage` has. Each covers the whole reply so far; a later event may
    /// have only some of them.
    fn update(&mut self, usage: &Value) {
        for (count, pointer) in [
            (&mut self.uncached, "/input_tokens"),
            (&mut self.cached, "/cache_read_input_tokens"),
            (&mut self.cache_write, "/cache_creation_input_tokens"),
            (&mut self.output, "/output_tokens"),
            (&mut self.thinking, "/output_tokens_details/thinking_tokens"),
        ] {
            let new_count = usage.pointer(pointer).and_then(token_count);
            *count = new_count.unwrap_or(*count);
        }
    }

    fn usage(&self) -> TokenUsage {
        let input_read = self.uncached.saturating_add(self.cached);
        TokenUsage {
            input_tokens: input_read.saturating_add(self.cache_write),
            cached_tokens: self.cached,
            cache_write_tokens: self.cache_write,
            output_tokens: self.output,
            reasoning_tokens: self.thinking,
        }
    }
}

/// Converts a stop reason:
/// <https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons>
fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "refusal" => StopReason::Filtered,
        "pause_turn" => StopReason::Paused,
        _ => StopReason::Done,
    }
}

/// Returns the index of the block that an event is about.
fn block_index(event: &Value) -> Result<u64, ReplyDecodeError> {
    let index = event.get("index").and_then(Value::as_u64);
    index.ok_or_else(|| {
        ReplyDecodeError::Malformed(format!("no `index` of a content block: {event}"))
    })
}

fn is_error(event: &Value) -> bool {
    kind(event) == "error" || event.get("error").is_some_and(|error| !error.is_null())
}
