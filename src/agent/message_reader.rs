//! The messages of the user that one agent reads in one conversation: before each request, those
//! that arrived since the last one. During replay, and while a resumed conversation is replayed, it
//! reads those that it read at the same request in the recording.

use std::collections::VecDeque;

use tokio_util::sync::CancellationToken;

use crate::agent::ModelSession;
use crate::agent::replay_visibility::ReplySource;
use crate::agent::user_messages::{NumberedMessage, UserMessageView};
use crate::event::RunEvent;
use crate::id::AgentId;
use crate::prompts::rounds::user_message;

/// Messages that an agent was shown before one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownMessages {
    /// The number of steps before it in the conversation.
    pub after_steps: u32,
    /// The numbers of the messages.
    pub numbers: Vec<u32>,
}

/// An agent's position in the messages of the user, in one conversation.
#[derive(Debug)]
pub struct MessageReader {
    view: UserMessageView,
    /// The number of messages that it has looked through, whether they are for the agent or not.
    seen_count: usize,
    /// The number of steps that the agent has taken.
    steps: u32,
    recorded: VecDeque<ShownMessages>,
    /// In a replay, cancelled when the run diverges from the recording: new messages count only
    /// from then on.
    divergence: Option<CancellationToken>,
}

impl MessageReader {
    /// Creates the reader for a conversation of which `recorded` was recorded.
    pub fn new(
        view: UserMessageView,
        recorded: VecDeque<ShownMessages>,
        divergence: Option<CancellationToken>,
    ) -> Self {
        Self {
            view,
            seen_count: 0,
            steps: 0,
            recorded,
            divergence,
        }
    }

    /// Creates the reader of a subagent: the messages of the user are for agents.
    pub(super) fn without_messages() -> Self {
        Self::new(UserMessageView::empty(), VecDeque::new(), None)
    }

    /// Returns the number of the last message that the agent could have read.
    pub(super) fn known_messages(&self) -> u32 {
        u32::try_from(self.seen_count).unwrap_or(u32::MAX)
    }

    /// Counts a step of the agent.
    pub(super) fn count_step(&mut self) {
        self.steps = self.steps.saturating_add(1);
    }

    /// Returns whether a replay still follows its recording.
    fn follows_replay(&self) -> bool {
        let divergence = self.divergence.as_ref();
        divergence.is_some_and(|divergence| !divergence.is_cancelled())
    }

    /// Returns the recorded messages that are due now.
    fn next_recorded(&mut self) -> Option<Vec<NumberedMessage>> {
        let steps = self.steps;
        let is_due = |shown: &mut ShownMessages| shown.after_steps <= steps;
        let shown_messages = self.recorded.pop_front_if(is_due)?;
        let last_number = shown_messages
            .numbers
            .iter()
            .max()
            .copied()
            .unwrap_or_default();
        self.seen_count = self
            .seen_count
            .max(usize::try_from(last_number).unwrap_or(usize::MAX));
        let messages = shown_messages.numbers.iter();
        Some(
            messages
                .filter_map(|number| self.view.get(*number))
                .collect(),
        )
    }

    /// Returns the messages for `agent` that have arrived since it last read messages.
    fn next_new(&mut self, agent: &AgentId) -> Vec<NumberedMessage> {
        let new_messages = self.view.unread(agent, self.seen_count);
        // A message that arrives in the meantime is returned the next time.
        let last_number = new_messages
            .last()
            .map(|last| last.number)
            .unwrap_or_default();
        self.seen_count = self
            .seen_count
            .max(usize::try_from(last_number).unwrap_or(usize::MAX));
        new_messages
    }
}

impl ModelSession {
    /// Adds the messages of the user that are due to the conversation.
    pub(super) async fn show_user_messages(&mut self) {
        while let Some(messages) = self.messages.next_recorded() {
            self.add_messages(&messages).await;
        }
        if !self.follows_recording() {
            let new_messages = self.messages.next_new(&self.agent);
            self.add_messages(&new_messages).await;
        }
    }

    /// Returns whether the user has sent a message that the agent has not read.
    pub(super) fn has_unread_messages(&self) -> bool {
        let reader = &self.messages;
        let is_due = |shown: &ShownMessages| shown.after_steps <= reader.steps;
        if reader.recorded.front().is_some_and(is_due) {
            return true;
        }
        !self.follows_recording()
            && !reader
                .view
                .unread(&self.agent, reader.seen_count)
                .is_empty()
    }

    /// Returns whether the next step follows a recording.
    fn follows_recording(&self) -> bool {
        self.messages.follows_replay() || self.next_reply_source() == ReplySource::Recording
    }

    async fn add_messages(&mut self, messages: &[NumberedMessage]) {
        if messages.is_empty() {
            return;
        }
        let numbers = messages.iter().map(|message| message.number).collect();
        for NumberedMessage { number, message } in messages {
            self.add_user_message(user_message(&message.text));
            self.messages.view.mark_shown(*number);
        }
        self.emit(RunEvent::UserMessagesShown {
            agent: self.agent.clone(),
            numbers,
        })
        .await;
    }
}
