//! Owns the model of an agent whose run is played again: it gives the recorded replies, each in the
//! conversation that it belongs to, whatever it is asked.

use std::sync::{Mutex, PoisonError};

use futures_util::StreamExt;
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use crate::backend::conversation::ConversationVersion;
use crate::backend::scripted::ScriptedBackend;
use crate::backend::scripted::script::ScriptedReplies;
use crate::backend::{Backend, BackendError, BackendErrorKind, ModelRequest, ReplyStream};
use crate::replay::plan::{ConversationPlan, MissingReply};

/// A model that says what it said before.
#[derive(Debug)]
pub(super) struct PlaybackBackend {
    talks: Vec<PlayedConversation>,
    place: Mutex<PlaybackPosition>,
    ends: PlaybackCancellation,
}

/// How the wait for a reply ends that was never given.
#[derive(Clone, Debug)]
pub(super) struct PlaybackCancellation {
    /// The run goes another way than the record.
    pub(super) departed: CancellationToken,
    /// The record ends: so does the run.
    pub(super) stop: CancellationToken,
}

#[derive(Debug)]
struct PlayedConversation {
    script: ScriptedBackend,
    replies: usize,
    then: MissingReply,
}

/// Which conversation goes on, and how often it was asked for a reply.
#[derive(Debug, Default)]
struct PlaybackPosition {
    conversation: Option<ConversationVersion>,
    /// How many conversations have been begun.
    begun: usize,
    asked: usize,
}

impl PlaybackBackend {
    /// Gives `replies`, which belong to `talks` in their order.
    pub(super) fn new(
        mut replies: ScriptedReplies,
        talks: &[ConversationPlan],
        ends: PlaybackCancellation,
    ) -> Self {
        let talks = talks.iter().map(|talk| {
            let part = replies.take_first(talk.replies);
            PlayedConversation {
                replies: part.len(),
                script: ScriptedBackend::new(part),
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
    fn conversation(&self, request: &ModelRequest<'_>) -> Option<(&PlayedConversation, usize)> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let version = request.conversation.version();
        if !place
            .conversation
            .as_ref()
            .is_some_and(|known| known.is_same(version))
        {
            *place = PlaybackPosition {
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

impl Backend for PlaybackBackend {
    fn ask<'a>(&'a self, request: ModelRequest<'a>) -> ReplyStream<'a> {
        let then = match self.conversation(&request) {
            Some((talk, asked)) if asked < talk.replies => return talk.script.ask(request),
            Some((talk, _)) => talk.then,
            None => MissingReply::Fails,
        };
        let silence = async move {
            if then == MissingReply::Ends {
                self.ends.stop.cancel();
            }
            if then != MissingReply::Fails {
                self.ends.departed.cancelled().await;
            }
            Err(BackendError {
                kind: BackendErrorKind::Permanent,
                message: "the record has no reply to this request".to_owned(),
            })
        };
        stream::once(silence).boxed()
    }
}
