//! Messages that the user sends to the agents while a run is in progress: the bounded channel on
//! which they arrive, and the log in which agents find them. A message is never interpreted: its
//! text opens no path and answers no question.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use crate::agent::emit;
use crate::event::{InputChannel, RunEvent};
use crate::id::AgentId;
use crate::text::join_with_commas;
use crate::world::io::event_sink::QueuedEvent;

/// Maximum length of one message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of messages in one run: each conversation of an agent contains all of them.
pub const MESSAGES_MAX: usize = 256;
/// Maximum length of all messages of one run, in bytes.
pub const MESSAGES_BYTES_MAX: usize = 256 * 1024;

/// A message of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMessage {
    /// The agents that it is for.
    pub to: MessageRecipient,
    /// The text.
    pub text: Arc<str>,
    /// Where it came from.
    pub by: InputChannel,
}

/// Recipients of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageRecipient {
    /// All agents.
    All,
    /// One agent.
    Agent(AgentId),
}

impl MessageRecipient {
    /// Returns whether `agent` is a recipient.
    pub fn includes(&self, agent: &AgentId) -> bool {
        match self {
            MessageRecipient::All => true,
            MessageRecipient::Agent(recipient) => recipient == agent,
        }
    }

    /// Returns the agent, if it is only one.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            MessageRecipient::All => None,
            MessageRecipient::Agent(agent) => Some(agent),
        }
    }
}

impl From<Option<AgentId>> for MessageRecipient {
    fn from(agent: Option<AgentId>) -> Self {
        agent.map_or(MessageRecipient::All, MessageRecipient::Agent)
    }
}

impl fmt::Display for MessageRecipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageRecipient::All => f.write_str("all"),
            MessageRecipient::Agent(agent) => agent.fmt(f),
        }
    }
}

/// Reason why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageRejection {
    /// It has no text.
    #[error("the message is empty")]
    Empty,
    /// It is too long.
    #[error("the message has {bytes} bytes; expected at most {MESSAGE_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The run has no such agent.
    #[error(
        "there is no agent `{agent}`; expected one of {}",
        join_with_commas(agents)
    )]
    UnknownAgent {
        /// The agent that it is for.
        agent: AgentId,
        /// The agents of the run.
        agents: Vec<AgentId>,
    },
    /// The run has taken the maximum number of messages.
    #[error(
        "the run has received too many messages; expected at most {MESSAGES_MAX}, with \
         {MESSAGES_BYTES_MAX} bytes together"
    )]
    TooMany,
    /// The run has ended.
    #[error("the run has ended, so no agent reads messages")]
    RunOver,
}

/// Number and length of the messages that were sent.
#[derive(Debug, Default)]
struct SentTotals {
    messages: usize,
    bytes: usize,
}

/// Sends messages of the user to a run. Clones send to the same run.
#[derive(Clone, Debug)]
pub struct UserMessageSender {
    agents: Arc<BTreeSet<AgentId>>,
    totals: Arc<Mutex<SentTotals>>,
    messages: mpsc::Sender<UserMessage>,
}

/// Receives the messages of the user in a run.
#[derive(Debug)]
pub struct UserMessageReceiver {
    messages: mpsc::Receiver<UserMessage>,
}

/// Creates the channel for the messages to a run of `agents`.
pub fn user_message_channel(
    agents: impl IntoIterator<Item = AgentId>,
) -> (UserMessageSender, UserMessageReceiver) {
    let (sender, messages) = mpsc::channel(MESSAGES_MAX);
    let sender = UserMessageSender {
        agents: Arc::new(agents.into_iter().collect()),
        totals: Arc::default(),
        messages: sender,
    };
    (sender, UserMessageReceiver { messages })
}

impl UserMessageSender {
    /// Returns the agents of the run.
    pub fn agents(&self) -> &BTreeSet<AgentId> {
        &self.agents
    }

    /// Sends a message, which each recipient reads before its next request.
    pub fn send(&self, message: UserMessage) -> Result<(), MessageRejection> {
        let bytes = message.text.len();
        if message.text.trim().is_empty() {
            return Err(MessageRejection::Empty);
        }
        if bytes > MESSAGE_BYTES_MAX {
            return Err(MessageRejection::TooLong { bytes });
        }
        if let Some(agent) = message
            .to
            .agent()
            .filter(|agent| !self.agents.contains(agent))
        {
            return Err(MessageRejection::UnknownAgent {
                agent: agent.clone(),
                agents: self.agents.iter().cloned().collect(),
            });
        }
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes_total = totals.bytes.saturating_add(bytes);
        if self.messages.is_closed() {
            return Err(MessageRejection::RunOver);
        }
        if totals.messages >= MESSAGES_MAX || bytes_total > MESSAGES_BYTES_MAX {
            return Err(MessageRejection::TooMany);
        }
        self.messages
            .try_send(message)
            .map_err(|error| match error {
                TrySendError::Full(_) => MessageRejection::TooMany,
                TrySendError::Closed(_) => MessageRejection::RunOver,
            })?;
        totals.messages = totals.messages.saturating_add(1);
        totals.bytes = bytes_total;
        Ok(())
    }
}

impl UserMessageReceiver {
    /// Waits for the next message; forever if none can come. Cancel-safe.
    pub async fn next(&mut self) -> UserMessage {
        match self.messages.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }
}

impl Default for UserMessageReceiver {
    /// Creates a receiver to which nothing can be sent.
    fn default() -> Self {
        user_message_channel([]).1
    }
}

/// A message in the log. Its number is its position, from 1.
#[derive(Clone, Debug)]
struct LoggedMessage {
    message: UserMessage,
    /// Whether an agent was shown it.
    was_shown: Arc<AtomicBool>,
}

impl LoggedMessage {
    fn new(message: UserMessage, was_shown: bool) -> Self {
        Self {
            message,
            was_shown: Arc::new(AtomicBool::new(was_shown)),
        }
    }
}

/// A message with its number in the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedMessage {
    /// Its number, from 1.
    pub number: u32,
    /// The message.
    pub message: UserMessage,
}

/// The messages of a run: takes them from the channel, reports each as an event, and then lets the
/// agents read it.
#[derive(Debug)]
pub struct UserMessageLog {
    incoming: UserMessageReceiver,
    /// The message that was taken from the channel and is not in the log yet.
    unlogged_message: Option<UserMessage>,
    logged_messages: watch::Sender<Vec<LoggedMessage>>,
}

impl UserMessageLog {
    /// Creates the empty log of a run that receives `incoming`.
    pub fn new(incoming: UserMessageReceiver) -> Self {
        Self {
            incoming,
            unlogged_message: None,
            logged_messages: watch::channel(Vec::new()).0,
        }
    }

    /// Adds a message that is recorded already; `was_shown` says whether an agent was shown it.
    pub fn add(&mut self, message: UserMessage, was_shown: bool) {
        let message = LoggedMessage::new(message, was_shown);
        self.logged_messages
            .send_modify(|logged| logged.push(message));
    }

    /// Returns a view of the log, which shows messages as they arrive.
    pub fn subscribe(&self) -> UserMessageView {
        UserMessageView(self.logged_messages.subscribe())
    }

    /// Waits for the next message, and adds it to the log; forever if none can come. Cancel-safe.
    pub async fn next(&mut self, events: &mpsc::Sender<QueuedEvent>) -> NumberedMessage {
        // Kept here until it is in the log, so that it is not lost if the future is dropped.
        if self.unlogged_message.is_none() {
            self.unlogged_message = Some(self.incoming.next().await);
        }
        let Some(message) = self.unlogged_message.clone() else {
            return std::future::pending().await;
        };
        let number = number_at(self.logged_messages.borrow().len());
        emit(events, message_event(number, &message)).await;
        self.unlogged_message = None;
        self.add(message.clone(), false);
        NumberedMessage { number, message }
    }

    /// Adds the next message to the log, if one has arrived.
    pub async fn next_arrived(
        &mut self,
        events: &mpsc::Sender<QueuedEvent>,
    ) -> Option<NumberedMessage> {
        let has_arrived = self.unlogged_message.is_some() || !self.incoming.messages.is_empty();
        if has_arrived {
            Some(self.next(events).await)
        } else {
            None
        }
    }

    /// Adds the messages that arrive to the log, forever, while only `agent` works.
    pub async fn receive_for(&mut self, agent: &AgentId, events: &mpsc::Sender<QueuedEvent>) -> ! {
        loop {
            let NumberedMessage { number, message } = self.next(events).await;
            if !message.to.includes(agent) {
                let to = &message.to;
                let message =
                    format!("only {agent} works now; {to} will not read message {number}");
                emit(events, RunEvent::Warning { message }).await;
            }
        }
    }

    /// Refuses further messages, and returns those that no agent was shown.
    pub async fn close(&mut self, events: &mpsc::Sender<QueuedEvent>) -> Vec<NumberedMessage> {
        self.incoming.messages.close();
        while self.next_arrived(events).await.is_some() {}
        let logged_messages = self.logged_messages.borrow();
        let unread_messages = logged_messages
            .iter()
            .enumerate()
            .filter(|(_, logged)| !logged.was_shown.load(Ordering::Relaxed));
        let numbered_messages = unread_messages.map(|(index, logged)| NumberedMessage {
            number: number_at(index),
            message: logged.message.clone(),
        });
        numbered_messages.collect()
    }
}

/// Read access to the messages of a run.
#[derive(Clone, Debug)]
pub struct UserMessageView(watch::Receiver<Vec<LoggedMessage>>);

impl UserMessageView {
    /// Returns a view without messages.
    pub(super) fn empty() -> Self {
        Self(watch::channel(Vec::new()).1)
    }

    /// Returns the messages for `agent` after the first `seen_count`.
    pub(super) fn unread(&self, agent: &AgentId, seen_count: usize) -> Vec<NumberedMessage> {
        let logged = self.0.borrow();
        let new_entries = logged
            .iter()
            .enumerate()
            .skip(seen_count)
            .filter(|(_, logged)| logged.message.to.includes(agent));
        let new = new_entries.map(|(index, logged)| NumberedMessage {
            number: number_at(index),
            message: logged.message.clone(),
        });
        new.collect()
    }

    /// Returns the message with this number.
    pub(super) fn get(&self, number: u32) -> Option<NumberedMessage> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let logged = self.0.borrow();
        let message = logged.get(index)?.message.clone();
        Some(NumberedMessage { number, message })
    }

    /// Marks a message as shown to an agent.
    pub(super) fn mark_shown(&self, number: u32) {
        let logged = self.0.borrow();
        let index = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
        if let Some(logged) = index.and_then(|index| logged.get(index)) {
            logged.was_shown.store(true, Ordering::Relaxed);
        }
    }
}

fn number_at(index: usize) -> u32 {
    u32::try_from(index.saturating_add(1)).unwrap_or(u32::MAX)
}

/// Returns the event that reports a message.
fn message_event(number: u32, message: &UserMessage) -> RunEvent {
    RunEvent::UserMessage {
        number,
        agent: message.to.agent().cloned(),
        text: Arc::clone(&message.text),
        by: message.by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(id: &str) -> AgentId {
        AgentId::parse(id).unwrap()
    }

    fn message(to: Option<&str>, text: &str) -> UserMessage {
        UserMessage {
            to: to.map(agent).into(),
            text: text.into(),
            by: InputChannel::Web,
        }
    }

    #[test]
    fn only_messages_that_an_agent_can_read_are_sent() {
        #[track_caller]
        fn check(to: Option<&str>, text: &str, expected: Result<(), &str>) {
            let (sender, _receiver) = user_message_channel([agent("a"), agent("b")]);
            let sent = sender.send(message(to, text)).map_err(|e| e.to_string());
            assert_eq!(sent, expected.map_err(str::to_owned));
        }
        check(None, "x", Ok(()));
        check(Some("b"), "x", Ok(()));
        check(None, &"x".repeat(MESSAGE_BYTES_MAX), Ok(()));
        check(None, " \n", Err("the message is empty"));
        check(
            Some("c"),
            "x",
            Err("there is no agent `c`; expected one of a, b"),
        );
        check(
            None,
            &"x".repeat(MESSAGE_BYTES_MAX + 1),
            Err("the message has 16385 bytes; expected at most 16384"),
        );
    }

    #[test]
    fn a_run_takes_a_limited_number_of_messages() {
        #[track_caller]
        fn check(text: &str, expected: usize) {
            let (sender, _receiver) = user_message_channel([agent("a")]);
            let sent: Vec<_> = (0..)
                .map(|_| sender.send(message(None, text)))
                .take(MESSAGES_MAX + 1)
                .collect();
            let accepted = sent.iter().filter(|sent| sent.is_ok()).count();
            assert_eq!(accepted, expected);
            assert_eq!(sent.last(), Some(&Err(MessageRejection::TooMany)));
        }
        check("x", MESSAGES_MAX);
        check(
            &"x".repeat(MESSAGE_BYTES_MAX),
            MESSAGES_BYTES_MAX / MESSAGE_BYTES_MAX,
        );
    }

    #[tokio::test]
    async fn messages_that_no_agent_has_read_are_listed_at_the_end() {
        let (sender, receiver) = user_message_channel([agent("a"), agent("b")]);
        let (events, mut reported) = mpsc::channel(8);
        let mut log = UserMessageLog::new(receiver);
        let view = log.subscribe();
        for to in [Some("a"), Some("b"), None] {
            sender.send(message(to, "x")).unwrap();
        }
        log.next(&events).await;
        log.next(&events).await;
        let numbers = |unread: &[NumberedMessage]| -> Vec<u32> {
            unread.iter().map(|unread| unread.number).collect()
        };
        assert_eq!(numbers(&view.unread(&agent("b"), 0)), [2]);
        view.mark_shown(2);
        assert_eq!(numbers(&log.close(&events).await), [1, 3]);
        assert_eq!(numbers(&view.unread(&agent("a"), 1)), [3]);
        let late = sender.send(message(None, "x"));
        assert_eq!(late, Err(MessageRejection::RunOver));
        drop(events);
        let mut count = 0;
        while reported.recv().await.is_some() {
            count += 1;
        }
        assert_eq!(count, 3);
    }
}
