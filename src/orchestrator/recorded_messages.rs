//! The user's messages in a recorded run: what they were, and before which request of which
//! conversation each agent read them. A conversation of the run that replays or resumes it takes
//! those of its counterpart.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::agent::message_reader::ShownMessages;
use crate::agent::user_messages::UserMessage;
use crate::event::{DeliveryEvent, Event, ModelEvent, RunEvent, StopReason};
use crate::id::AgentId;
use crate::permissions::grant::Phase;

/// The user's messages of a recorded run.
#[derive(Debug, Default)]
pub struct RecordedMessages {
    /// All of them, in the order of their numbers.
    pub messages: Vec<RecordedMessage>,
    /// In a replay, cancelled when the run diverges from the recording: until then agents read only
    /// what they read in it. In a resumed run each conversation follows its own recording.
    pub divergence: Option<CancellationToken>,
    /// What each agent read in each of its conversations.
    conversations: Mutex<ConversationsByAgent>,
}

/// The conversations of each agent, in order.
type ConversationsByAgent = BTreeMap<AgentId, VecDeque<ReadMessages>>;

/// A recorded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedMessage {
    /// The message.
    pub message: UserMessage,
    /// Whether an agent has read it.
    pub was_read: bool,
}

/// The messages that an agent read in one conversation.
#[derive(Debug)]
struct ReadMessages {
    phase: Phase,
    /// The number of complete replies in the conversation, up to the last event that was collected.
    steps: u32,
    shown_messages: VecDeque<ShownMessages>,
}

impl ReadMessages {
    fn begin(phase: Phase) -> Self {
        Self {
            phase,
            steps: 0,
            shown_messages: VecDeque::new(),
        }
    }
}

impl RecordedMessages {
    /// Collects the messages of the run that emitted `events`.
    pub fn from_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut messages: Vec<RecordedMessage> = Vec::new();
        let mut by_agent = ConversationsByAgent::new();
        let begin_conversation = |by_agent: &mut ConversationsByAgent, agent: &AgentId, phase| {
            let conversations = by_agent.entry(agent.clone()).or_default();
            conversations.push_back(ReadMessages::begin(phase));
        };
        for event in events {
            // Every coordination begins with this event.
            if let Event::Run(RunEvent::RunStarted { agents, .. }) = event {
                for agent in agents {
                    begin_conversation(&mut by_agent, agent, Phase::Coordination);
                }
            } else if let Event::Delivery(DeliveryEvent::FinalStarted { agent }) = event {
                begin_conversation(&mut by_agent, agent, Phase::Final);
            } else if let Event::Run(RunEvent::UserMessage {
                agent, text, by, ..
            }) = event
            {
                let message = UserMessage {
                    to: agent.clone().into(),
                    text: Arc::clone(text),
                    by: *by,
                };
                messages.push(RecordedMessage {
                    message,
                    was_read: false,
                });
            } else if let Event::Run(RunEvent::UserMessagesShown { agent, numbers }) = event
                && let Some(conversation) = by_agent.get_mut(agent).and_then(VecDeque::back_mut)
            {
                for number in numbers {
                    let index = usize::try_from(number.saturating_sub(1));
                    let read_message = index.ok().and_then(|index| messages.get_mut(index));
                    if let Some(read_message) = read_message {
                        read_message.was_read = true;
                    }
                }
                conversation.shown_messages.push_back(ShownMessages {
                    after_steps: conversation.steps,
                    numbers: numbers.clone(),
                });
            } else if let Event::Model(ModelEvent::Replied {
                agent, calls, stop, ..
            }) = event
                && let Some(conversation) = by_agent.get_mut(agent).and_then(VecDeque::back_mut)
            {
                // A paused reply without calls is continued within the same step.
                let is_complete = *stop != StopReason::Paused || !calls.is_empty();
                conversation.steps = conversation.steps.saturating_add(u32::from(is_complete));
            }
        }
        Self {
            messages,
            divergence: None,
            conversations: Mutex::new(by_agent),
        }
    }

    /// Takes what `agent` read in its next conversation in `phase`. Conversations of the other
    /// phase before it are dropped: this run had no counterpart of them.
    pub fn take(&self, agent: &AgentId, phase: Phase) -> VecDeque<ShownMessages> {
        let mut by_agent = self
            .conversations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(conversations) = by_agent.get_mut(agent) else {
            return VecDeque::new();
        };
        while let Some(conversation) = conversations.pop_front() {
            if conversation.phase == phase {
                return conversation.shown_messages;
            }
        }
        VecDeque::new()
    }
}
