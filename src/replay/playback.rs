//! Owns the model of an agent whose run is played again: it gives the recorded replies, each in the
//! conversation that it belongs to, whatever it is asked.

use std::sync::{Mutex, PoisonError};

use futures_util::StreamExt;
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use crate::backend::conversation::Version;
use crate::backend::scripted::Scripted;
use crate::backend::scripted::script::ReplyList;
use crate::backend::{Backend, BackendError, FaultKind, Reply, Request};
use crate::replay::plan::{Talk, Then};

/// A model that says what it said before.
#[derive(Debug)]
pub(super) struct Playback {
    talks: Vec<PlayedTalk>,
    place: Mutex<Place>,
    ends: Ends,
}

/// How the wait for a reply ends that was never given.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// The run goes another way than the record.
    pub(super) departed: CancellationToken,
    /// The record ends: so does the run.
    pub(super) stop: CancellationToken,
}

#[derive(Debug)]
struct PlayedTalk {
    script: Scripted,
    replies: usize,
    then: Then,
}

/// Which conversation goes on, and how often it was asked for a reply.
#[derive(Debug, Default)]
struct Place {
    conversation: Option<Version>,
    /// How many conversations have been begun.
    begun: usize,
    asked: usize,
}

impl Playback {
    /// Gives `replies`, which belong to `talks` in their order.
    pub(super) fn new(mut replies: ReplyList, talks: &[Talk], ends: Ends) -> Self {
        let talks = talks.iter().map(|talk| {
            let part = replies.take(talk.replies);
            PlayedTalk {
                replies: part.len(),
                script: Scripted::new(part),
                then: talk.then,
            }
        });
        Self {
            talks: talks.collect(),
            place: Mutex::default(),
            ends,
        }
    }

    /// The conversation of `request`, and which of its requests this is, from 0.
    fn talk(&self, request: &Request<'_>) -> Option<(&PlayedTalk, usize)> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let version = request.conversation.version();
        if !place
            .conversation
            .as_ref()
            .is_some_and(|known| known.is(version))
        {
            *place = Place {
                conversation: Some(version.clone()),
                begun: place.begun.saturating_add(1),
                asked: 0,
            };
        }
        let asked = place.asked;
        place.asked = asked.saturating_add(1);
        Some((self.talks.get(place.begun.checked_sub(1)?)?, asked))
    }
}

impl Backend for Playback {
    fn ask<'a>(&'a self, request: Request<'a>) -> Reply<'a> {
        let then = match self.talk(&request) {
            Some((talk, asked)) if asked < talk.replies => return talk.script.ask(request),
            Some((talk, _)) => talk.then,
            None => Then::Fails,
        };
        let silence = async move {
            if then == Then::Ends {
                self.ends.stop.cancel();
            }
            if then != Then::Fails {
                self.ends.departed.cancelled().await;
            }
            Err(BackendError {
                kind: FaultKind::Permanent,
                message: "the record has no reply to this request".to_owned(),
            })
        };
        stream::once(silence).boxed()
    }
}
