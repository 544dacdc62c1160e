//! Owns the backend that replies from a script: for demonstrations and for tests of everything
//! above it. It has no network, and it holds each request to what its callers promise.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

use crate::backend::conversation::Message;
use crate::backend::scripted::script::{ReplyList, ScriptedCall, ScriptedReply};
use crate::backend::scripted::transcript::{news, violation};
use crate::backend::{Backend, BackendError, FaultKind, Reply, ReplyEvent, Request};
use crate::tools::request::CallRequest;

pub(crate) mod script;
mod transcript;

/// How much of a request an error quotes.
const QUOTE_CHARS_MAX: usize = 200;

/// A model that says what a script tells it to.
#[derive(Debug)]
pub(crate) struct Scripted {
    replies: Vec<ScriptedReply>,
    /// Which replies have been given, by position.
    given: Mutex<Vec<bool>>,
}

/// One event of a reply and how long to wait before it.
#[derive(Debug)]
struct Beat {
    pause: Duration,
    event: Result<ReplyEvent, BackendError>,
}

impl Scripted {
    /// Takes a script that has been checked.
    pub(crate) fn new(list: ReplyList) -> Self {
        let given = Mutex::new(vec![false; list.replies.len()]);
        Self {
            replies: list.replies,
            given,
        }
    }

    fn play(&self, request: &Request<'_>) -> Result<Vec<Beat>, BackendError> {
        if let Some(violation) = violation(request.conversation.messages()) {
            return Err(permanent(format!("the request is malformed: {violation}")));
        }
        let reply = self
            .choose(request)
            .ok_or_else(|| self.exhausted(request))?;
        Ok(beats(reply, request.conversation.messages().len()))
    }

    /// The first reply that is still to be given and whose condition holds; it counts as given.
    fn choose(&self, request: &Request<'_>) -> Option<&ScriptedReply> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let (reply, given) = self
            .replies
            .iter()
            .zip(given.iter_mut())
            .find(|(reply, given)| !**given && reply.when.holds(request))?;
        *given = !reply.repeat;
        Some(reply)
    }

    fn exhausted(&self, request: &Request<'_>) -> BackendError {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting: Vec<String> = self
            .replies
            .iter()
            .zip(given.iter())
            .enumerate()
            .filter(|(_, (_, given))| !**given)
            .map(|(position, (reply, _))| format!("`replies[{position}]` waits for {}", reply.when))
            .collect();
        let left = if waiting.is_empty() {
            "all of its replies have been given".to_owned()
        } else {
            waiting.join("; ")
        };
        let last: String = news(request)
            .next()
            .unwrap_or_default()
            .chars()
            .take(QUOTE_CHARS_MAX)
            .collect();
        let asked = request
            .conversation
            .messages()
            .iter()
            .filter(|message| matches!(message, Message::Assistant { .. }))
            .count();
        permanent(format!(
            "the script has no reply for this request, which follows {asked} replies and ends in \
             `{last}`: {left}"
        ))
    }
}

impl Backend for Scripted {
    fn ask<'a>(&'a self, request: Request<'a>) -> Reply<'a> {
        let beats = self.play(&request).unwrap_or_else(|error| {
            vec![Beat {
                pause: Duration::ZERO,
                event: Err(error),
            }]
        });
        stream::iter(beats)
            .then(async |beat| {
                if !beat.pause.is_zero() {
                    tokio::time::sleep(beat.pause).await;
                }
                beat.event
            })
            .boxed()
    }
}

/// Everything that `reply` makes happen. `turn` keeps the ids of calls unique in the conversation.
fn beats(reply: &ScriptedReply, turn: usize) -> Vec<Beat> {
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
        events.extend(closing(reply, turn).into_iter().map(Ok));
    }

    let first_pause = Duration::from_millis(reply.delay_ms);
    let pauses = std::iter::once(first_pause).chain(std::iter::repeat(chunk_pause));
    let beat = |(pause, event)| Beat { pause, event };
    pauses.zip(events).map(beat).collect()
}

/// What stands after the text of a reply that is whole.
fn closing(reply: &ScriptedReply, turn: usize) -> Vec<ReplyEvent> {
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

fn permanent(message: String) -> BackendError {
    BackendError {
        kind: FaultKind::Permanent,
        message,
    }
}

#[cfg(test)]
mod tests;
