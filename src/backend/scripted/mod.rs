//! Backend that replies from a script: for demonstrations and for tests of everything above it. It
//! uses no network, and checks that each request keeps the invariants that callers promise.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

use crate::backend::conversation::ChatMessage;
use crate::backend::scripted::script::{ScriptedCall, ScriptedReplies, ScriptedReply};
use crate::backend::scripted::transcript::{call_result_violation, latest_texts};
use crate::backend::{
    Backend, BackendError, BackendErrorKind, ModelRequest, ReplyEvent, ReplyStream,
};
use crate::tools::CallRequest;

pub(crate) mod script;
mod transcript;

/// Maximum length of a quotation from a request in an error, in characters.
const QUOTE_CHARS_MAX: usize = 200;

/// A model whose replies come from a script.
#[derive(Debug)]
pub(crate) struct ScriptedBackend {
    replies: Vec<ScriptedReply>,
    /// Which replies have been used, by position.
    used: Mutex<Vec<bool>>,
}

/// One event of a reply and how long to wait before it.
#[derive(Debug)]
struct TimedEvent {
    pause: Duration,
    event: Result<ReplyEvent, BackendError>,
}

impl ScriptedBackend {
    /// Creates the backend for a script that has been checked.
    pub(crate) fn new(list: ScriptedReplies) -> Self {
        let used_replies = Mutex::new(vec![false; list.replies.len()]);
        Self {
            replies: list.replies,
            used: used_replies,
        }
    }

    fn next_events(&self, request: &ModelRequest<'_>) -> Result<Vec<TimedEvent>, BackendError> {
        if let Some(violation) = call_result_violation(request.conversation.messages()) {
            return Err(permanent_error(format!(
                "the request is malformed: {violation}"
            )));
        }
        let reply = self
            .take_reply(request)
            .ok_or_else(|| self.exhausted_error(request))?;
        Ok(timed_events(reply, request.conversation.messages().len()))
    }

    /// Returns the first unused reply whose condition holds, and marks it as used.
    fn take_reply(&self, request: &ModelRequest<'_>) -> Option<&ScriptedReply> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let (reply, used) = self
            .replies
            .iter()
            .zip(used.iter_mut())
            .find(|(reply, used)| !**used && reply.when.matches(request))?;
        *used = !reply.repeat;
        Some(reply)
    }

    fn exhausted_error(&self, request: &ModelRequest<'_>) -> BackendError {
        let used_replies = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let unused: Vec<String> = self
            .replies
            .iter()
            .zip(used_replies.iter())
            .enumerate()
            .filter(|(_, (_, used))| !**used)
            .map(|(position, (reply, _))| format!("`replies[{position}]` waits for {}", reply.when))
            .collect();
        let unused_text = if unused.is_empty() {
            "all of its replies are used".to_owned()
        } else {
            unused.join("; ")
        };
        let last_text: String = latest_texts(request)
            .next()
            .unwrap_or_default()
            .chars()
            .take(QUOTE_CHARS_MAX)
            .collect();
        let replies = request
            .conversation
            .messages()
            .iter()
            .filter(|message| matches!(message, ChatMessage::Assistant { .. }))
            .count();
        permanent_error(format!(
            "the script has no reply for this request, which follows {replies} replies and ends in \
             `{last_text}`: {unused_text}"
        ))
    }
}

impl Backend for ScriptedBackend {
    fn is_free(&self) -> bool {
        true
    }

    fn ask<'a>(&'a self, request: ModelRequest<'a>) -> ReplyStream<'a> {
        let events = self.next_events(&request).unwrap_or_else(|error| {
            vec![TimedEvent {
                pause: Duration::ZERO,
                event: Err(error),
            }]
        });
        stream::iter(events)
            .then(async |timed| {
                if !timed.pause.is_zero() {
                    tokio::time::sleep(timed.pause).await;
                }
                timed.event
            })
            .boxed()
    }
}

/// Returns all events of `reply`. `turn` keeps the ids of calls unique in the conversation.
fn timed_events(reply: &ScriptedReply, turn: usize) -> Vec<TimedEvent> {
    let mut events = Vec::new();
    if !reply.reasoning.is_empty() {
        events.push(Ok(ReplyEvent::Reasoning(reply.reasoning.clone())));
    }
    let chunk_pause = Duration::from_millis(reply.chunk_delay_ms);
    if chunk_pause.is_zero() {
        if !reply.text.is_empty() {
            events.push(Ok(ReplyEvent::Text(reply.text.clone())));
        }
    } else {
        let words = reply.text.split_inclusive(' ');
        events.extend(words.map(|word| Ok(ReplyEvent::Text(word.to_owned()))));
    }
    if let Some(error) = &reply.error {
        events.push(Err(error.into()));
    } else if !reply.cut {
        events.extend(closing_events(reply, turn).into_iter().map(Ok));
    }

    let first_pause = Duration::from_millis(reply.delay_ms);
    let pauses = std::iter::once(first_pause).chain(std::iter::repeat(chunk_pause));
    let timed = |(pause, event)| TimedEvent { pause, event };
    pauses.zip(events).map(timed).collect()
}

/// Returns the events after the text of a complete reply.
fn closing_events(reply: &ScriptedReply, turn: usize) -> Vec<ReplyEvent> {
    let call = |(position, call): (usize, &ScriptedCall)| {
        ReplyEvent::Call(CallRequest {
            id: format!("call_{turn}_{position}"),
            name: call.name.clone(),
            arguments: call.arguments_text(),
        })
    };
    let calls = reply.calls.iter().enumerate().map(call);
    let usage = reply.usage.map(ReplyEvent::Usage);
    let end = ReplyEvent::End(reply.stop);
    calls.chain(usage).chain([end]).collect()
}

fn permanent_error(message: String) -> BackendError {
    BackendError {
        kind: BackendErrorKind::Permanent,
        message,
    }
}

#[cfg(test)]
mod tests;
