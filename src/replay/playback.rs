//! The model of an agent in a replay: it returns the recorded replies, each in the conversation
//! that it belongs to, whatever the request says.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use crate::backend::conversation::ConversationVersion;
use crate::backend::scripted::ScriptedBackend;
use crate::backend::scripted::script::ScriptedReplies;
use crate::backend::{Backend, BackendError, BackendErrorKind, ModelRequest, ReplyStream};
use crate::event::{Event, ModelEvent, SubagentEvent, SubagentKey};
use crate::id::{AgentId, SubagentId};
use crate::replay::plan::{ConversationPlan, MissingReply};

/// A model that repeats its recorded replies.
#[derive(Debug)]
pub(super) struct PlaybackBackend {
    conversations: Vec<PlayedConversation>,
    position: Mutex<PlaybackPosition>,
    /// The subagents of the agent, in the order in which they started.
    subagents: Mutex<Vec<SubagentReplies>>,
    cancellation: PlaybackCancellation,
}

/// Tokens that end the wait for a reply that was never given.
#[derive(Clone, Debug)]
pub(super) struct PlaybackCancellation {
    /// Cancelled when the run diverges from the record.
    pub(super) divergence: CancellationToken,
    /// Cancelled at the end of the record, which ends the run too.
    pub(super) stop: CancellationToken,
}

/// The recorded replies of one subagent.
#[derive(Debug)]
pub(super) struct SubagentReplies {
    /// The agent that started it.
    pub(super) agent: AgentId,
    /// Its name.
    pub(super) subagent: SubagentId,
    /// Its replies, in order.
    pub(super) replies: ScriptedReplies,
}

/// A conversation with its recorded replies.
#[derive(Debug)]
struct PlayedConversation {
    script: ScriptedBackend,
    /// The number of its recorded replies.
    reply_count: usize,
    missing_reply: MissingReply,
}

/// The conversation that the playback has come to, and the place in it.
#[derive(Debug, Default)]
struct PlaybackPosition {
    /// The conversation of the last request.
    conversation: Option<ConversationVersion>,
    /// The number of conversations that have begun.
    conversations_begun: usize,
    /// The number of requests in the current conversation.
    requests: usize,
}

impl PlaybackBackend {
    /// Creates the backend for `replies`, which belong to `conversations` in their order.
    pub(super) fn new(
        mut replies: ScriptedReplies,
        conversations: &[ConversationPlan],
        subagents: Vec<SubagentReplies>,
        cancellation: PlaybackCancellation,
    ) -> Self {
        let conversations = conversations.iter().map(|conversation| {
            let conversation_replies = replies.take_first(conversation.replies);
            PlayedConversation {
                reply_count: conversation_replies.len(),
                script: ScriptedBackend::new(conversation_replies),
                missing_reply: conversation.missing_reply,
            }
        });
        Self {
            conversations: conversations.collect(),
            position: Mutex::default(),
            subagents: Mutex::new(subagents),
            cancellation,
        }
    }

    /// Returns the conversation of `request`, and the index of the request in it, from 0.
    fn conversation(&self, request: &ModelRequest<'_>) -> Option<(&PlayedConversation, usize)> {
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let version = request.conversation.version();
        if !position
            .conversation
            .as_ref()
            .is_some_and(|known| known.is_same(version))
        {
            *position = PlaybackPosition {
                conversation: Some(version.clone()),
                conversations_begun: position.conversations_begun.saturating_add(1),
                requests: 0,
            };
        }
        let index = position.requests;
        position.requests = index.saturating_add(1);
        Some((
            self.conversations
                .get(position.conversations_begun.checked_sub(1)?)?,
            index,
        ))
    }
}

impl Backend for PlaybackBackend {
    fn is_free(&self) -> bool {
        true
    }

    fn ask<'a>(&'a self, request: ModelRequest<'a>) -> ReplyStream<'a> {
        let missing_reply = match self.conversation(&request) {
            Some((conversation, index)) if index < conversation.reply_count => {
                return conversation.script.ask(request);
            }
            Some((conversation, _)) => conversation.missing_reply,
            None => MissingReply::Fails,
        };
        let refusal = async move {
            if missing_reply == MissingReply::Ends {
                self.cancellation.stop.cancel();
            }
            if missing_reply != MissingReply::Fails {
                self.cancellation.divergence.cancelled().await;
            }
            Err(BackendError {
                kind: BackendErrorKind::Permanent,
                message: "the record has no reply to this request".to_owned(),
            })
        };
        stream::once(refusal).boxed()
    }

    fn for_subagent(&self, subagent: &SubagentId) -> Option<Arc<dyn Backend>> {
        let mut subagents = self
            .subagents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let index = subagents
            .iter()
            .position(|known| known.subagent == *subagent);
        // Without a record, its requests fail: it must not take the replies of its agent.
        let replies = index.map(|index| subagents.remove(index).replies);
        Some(Arc::new(ScriptedBackend::new(replies.unwrap_or_default())))
    }
}

/// Returns the replies of all recorded subagents, in the order in which they started.
pub(super) fn subagent_replies<'e>(
    events: impl IntoIterator<Item = &'e Event>,
) -> Vec<SubagentReplies> {
    let mut started_subagents: Vec<(SubagentKey<'e>, SubagentReplies)> = Vec::new();
    for event in events {
        let Event::Subagent(event) = event else {
            continue;
        };
        let key = event.key();
        if let SubagentEvent::SubagentStarted { .. } = event {
            let replies = SubagentReplies {
                agent: key.agent.clone(),
                subagent: key.subagent.clone(),
                replies: ScriptedReplies::default(),
            };
            started_subagents.push((key, replies));
        }
        let known = started_subagents
            .iter_mut()
            .rev()
            .find(|(known, _)| *known == key);
        let (Some((_, known)), SubagentEvent::SubagentModel { event, .. }) = (known, event) else {
            continue;
        };
        if let ModelEvent::Replied {
            text, calls, stop, ..
        } = event
        {
            known.replies.push_reply(text, calls, *stop);
        } else if let ModelEvent::Failed { reason, .. } = event {
            known.replies.push_failure(reason);
        }
    }
    started_subagents
        .into_iter()
        .map(|(_, replies)| replies)
        .collect()
}
