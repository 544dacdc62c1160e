//! Owns the reading of replies: each piece of JSON that a vendor sends becomes events. Pure; it
//! takes every shape that vendors are known to send, because none of them keeps to the letter.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::backend::chatcompletion::calls::Calls;
use crate::backend::chatcompletion::faults::Faults;
use crate::backend::{BackendError, Message, ReplyEvent, Request, StopReason, Usage};
use crate::config::vendors::ReasoningEcho;

/// One reply as far as it has come.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    faults: &'a Faults,
    /// Ids of calls that the conversation holds already.
    taken_ids: BTreeSet<String>,
    /// The number of messages before the reply.
    turn: usize,
    bytes: usize,
    bytes_max: usize,
    calls: Calls,
    /// The reasoning, where the vendor wants it back.
    reasoning: Option<String>,
    usage: Option<Usage>,
    stop: Option<StopReason>,
}

impl<'a> Decoder<'a> {
    /// Awaits the reply to `request`.
    pub(super) fn new(
        request: &Request<'_>,
        faults: &'a Faults,
        echo: ReasoningEcho,
        bytes_max: usize,
    ) -> Self {
        let ids = |message: &Message| match message {
            Message::Assistant { calls, .. } => calls.iter().map(|call| call.id.clone()).collect(),
            Message::User(_) | Message::CallResult { .. } => Vec::new(),
        };
        Self {
            faults,
            taken_ids: request.messages.iter().flat_map(ids).collect(),
            turn: request.messages.len(),
            bytes: 0,
            bytes_max,
            calls: Calls::default(),
            reasoning: match echo {
                ReasoningEcho::Wanted => Some(String::new()),
                ReasoningEcho::Refused => None,
            },
            usage: None,
            stop: None,
        }
    }

    /// Reads one piece of JSON: the data of an event, or a body that is not streamed.
    pub(super) fn read(&mut self, text: &str) -> Result<Vec<ReplyEvent>, BackendError> {
        let piece: Value = serde_json::from_str(text)
            .map_err(|error| self.faults.malformed(&format!("{error}: {text}")))?;
        if is_error(&piece) {
            return Err(self.faults.reported(text));
        }
        self.usage = usage(&piece).or(self.usage);

        let Some(choice) = piece.pointer("/choices/0") else {
            return Ok(Vec::new());
        };
        let delta = choice.get("delta").or_else(|| choice.get("message"));
        let delta = delta.unwrap_or(&Value::Null);
        let mut events = Vec::new();
        if let Some(text) = first_text(delta, &["reasoning_content", "reasoning"]) {
            events.push(ReplyEvent::Reasoning(text.to_owned()));
            self.count(text.len())?;
            if let Some(reasoning) = &mut self.reasoning {
                reasoning.push_str(text);
            }
        }
        if let Some(text) = first_text(delta, &["content", "refusal"]) {
            events.push(ReplyEvent::Text(text.to_owned()));
            self.count(text.len())?;
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        for piece in calls.into_iter().flatten() {
            let added = self.calls.add(piece);
            let added = added.map_err(|fault| self.faults.malformed(&fault.to_string()))?;
            self.count(added)?;
        }
        if let Some(reason) = first_text(choice, &["finish_reason"]) {
            self.stop = Some(self.stop_reason(reason)?);
        }
        Ok(events)
    }

    /// Whether the vendor has said why it stopped; some end the stream after that without a word.
    pub(super) fn has_stopped(&self) -> bool {
        self.stop.is_some()
    }

    /// What a whole reply ends with: the calls, what it cost, the end.
    pub(super) fn close(&mut self) -> Result<Vec<ReplyEvent>, BackendError> {
        let calls = self.calls.finish(&mut self.taken_ids, self.turn);
        let mut calls = calls.map_err(|fault| self.faults.malformed(&fault.to_string()))?;
        let reasoning = self.reasoning.take().filter(|text| !text.is_empty());
        if let (Some(reasoning), Some(call)) = (reasoning, calls.first_mut()) {
            call.echo = Some(json!({"message": {"reasoning_content": reasoning}}));
        }
        let calls = calls.into_iter().map(ReplyEvent::Call);
        let usage = self.usage.map(ReplyEvent::Usage);
        let end = ReplyEvent::End(self.stop.unwrap_or_default());
        Ok(calls.chain(usage).chain([end]).collect())
    }

    fn count(&mut self, bytes: usize) -> Result<(), BackendError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.bytes_max {
            return Err(self.faults.too_long("a reply", self.bytes_max));
        }
        Ok(())
    }

    fn stop_reason(&self, finish_reason: &str) -> Result<StopReason, BackendError> {
        match finish_reason {
            "length" | "max_tokens" | "model_length" => Ok(StopReason::Length),
            "content_filter" | "safety" | "sensitive" => Ok(StopReason::Filtered),
            "error" | "network_error" | "insufficient_system_resource" => {
                Err(self.faults.gave_up(finish_reason))
            }
            _ => Ok(StopReason::Done),
        }
    }
}

/// Most vendors send `error`; vLLM sends `object: error`.
fn is_error(piece: &Value) -> bool {
    piece.get("error").is_some_and(|error| !error.is_null())
        || piece.get("object").and_then(Value::as_str) == Some("error")
}

/// The first of `keys` whose value is a text that is not empty.
fn first_text<'v>(object: &'v Value, keys: &[&str]) -> Option<&'v str> {
    keys.iter()
        .filter_map(|key| object.get(key)?.as_str())
        .find(|text| !text.is_empty())
}

/// The count of tokens, which Moonshot puts into the choice. Later counts include earlier ones.
fn usage(piece: &Value) -> Option<Usage> {
    let usage = [piece.get("usage"), piece.pointer("/choices/0/usage")]
        .into_iter()
        .flatten()
        .find(|usage| usage.is_object())?;
    let count = |pointers: &[&str]| {
        let number = |pointer: &&str| usage.pointer(pointer)?.as_u64();
        pointers.iter().find_map(number).unwrap_or_default()
    };
    Some(Usage {
        input_tokens: count(&["/prompt_tokens"]),
        cached_tokens: count(&[
            "/prompt_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
            "/cached_tokens",
        ]),
        output_tokens: count(&["/completion_tokens"]),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// What the first call of a reply with reasoning wants to have back.
    fn echo(wish: ReasoningEcho) -> Option<Value> {
        let request = Request {
            system: "".into(),
            messages: &[],
            tools: Arc::new([]),
        };
        let faults = Faults::new("moonshot", String::new(), None);
        let mut decoder = Decoder::new(&request, &faults, wish, 1 << 10);
        let call = json!({"index": 0, "id": "a", "function": {"name": "f"}});
        for delta in [
            json!({"reasoning_content": "H"}),
            json!({"reasoning_content": "m."}),
            json!({"tool_calls": [call]}),
        ] {
            let piece = json!({"choices": [{"delta": delta}]});
            decoder.read(&piece.to_string()).unwrap();
        }
        let ReplyEvent::Call(call) = decoder.close().unwrap().swap_remove(0) else {
            panic!("the reply makes no call");
        };
        call.echo
    }

    #[test]
    fn reasoning_before_a_call_is_echoed_only_where_it_is_wanted() {
        let wanted = json!({"message": {"reasoning_content": "Hm."}});
        assert_eq!(echo(ReasoningEcho::Wanted), Some(wanted));
        assert_eq!(echo(ReasoningEcho::Refused), None);
    }
}
