//! Passes the messages of the user on to the runs of the stages that work, whose logs have them,
//! and numbers them for the pipeline. A message to an agent that does not work waits for its next
//! stage.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agent::user_messages::{MessageRejection, UserMessage, UserMessageSender};
use crate::event::{Event, RunEvent};
use crate::id::AgentId;

/// What the router did with a message.
#[derive(Debug)]
pub(super) enum RoutingOutcome {
    /// It was sent to the agents that it is for and that work.
    Sent,
    /// It waits for a stage.
    Waiting {
        /// The iteration and the stage, from 0, that began last.
        last_stage: Option<(u32, usize)>,
    },
    /// A stage run rejects it.
    Rejected(MessageRejection),
    /// The pipeline is over.
    Closed,
}

/// A position in the pipeline, which all copies of a role share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StagePosition {
    /// The iteration, from 1.
    pub(super) iteration: u32,
    /// The index of the stage, from 0.
    pub(super) stage: usize,
    /// The number of the repair attempt; 0 for the role's own work.
    pub(super) attempt: u32,
}

/// The messages of the user in a pipeline.
#[derive(Debug)]
pub(super) struct MessageRouter {
    state: Mutex<RouterState>,
}

#[derive(Debug, Default)]
struct RouterState {
    /// Senders to the stage runs that work, by their numbers.
    senders: BTreeMap<u32, UserMessageSender>,
    /// The number of the last stage run.
    last_run: u32,
    /// The number of the last message in the events of the pipeline.
    last_message: u32,
    /// The iteration and the stage, from 0, that began last.
    last_stage: Option<(u32, usize)>,
    waiting_messages: Vec<WaitingMessage>,
    is_closed: bool,
}

/// A message for which no agent worked when it arrived.
#[derive(Debug)]
struct WaitingMessage {
    message: UserMessage,
    /// The position at which agents were given it; those of further copies of the role get it too.
    given_at: Option<StagePosition>,
}

impl MessageRouter {
    /// Creates the router of a pipeline whose log already contains so many messages.
    pub(super) fn new(message_count: u32) -> Self {
        Self {
            state: Mutex::new(RouterState {
                last_message: message_count,
                ..RouterState::default()
            }),
        }
    }

    /// Sends `message` to the stage runs that work, or keeps it for the next one that it is for.
    pub(super) fn send(&self, message: UserMessage) -> RoutingOutcome {
        let mut state = self.lock();
        if state.is_closed {
            return RoutingOutcome::Closed;
        }
        let mut is_sent = false;
        for sender in state.senders.values() {
            if !is_for(&message, sender) {
                continue;
            }
            match sender.send(message.clone()) {
                Ok(()) => is_sent = true,
                // It has just ended.
                Err(MessageRejection::RunOver) => {}
                Err(rejection) => return RoutingOutcome::Rejected(rejection),
            }
        }
        if is_sent {
            return RoutingOutcome::Sent;
        }
        state.waiting_messages.push(WaitingMessage {
            message,
            given_at: None,
        });
        RoutingOutcome::Waiting {
            last_stage: state.last_stage,
        }
    }

    /// Notes that the stage with this index, from 0, of this iteration begins.
    pub(super) fn begin_stage(&self, iteration: u32, stage: usize) {
        self.lock().last_stage = Some((iteration, stage));
    }

    /// Adds a stage run, which works from now on, and sends it the messages that wait for it.
    /// Returns its number.
    pub(super) fn begin_stage_run(
        &self,
        position: StagePosition,
        sender: UserMessageSender,
    ) -> u32 {
        let mut state = self.lock();
        // What agents were given at an earlier position no longer waits.
        state
            .waiting_messages
            .retain(|message| message.given_at.is_none_or(|given_at| given_at == position));
        for waiting_message in &mut state.waiting_messages {
            if is_for(&waiting_message.message, &sender)
                && sender.send(waiting_message.message.clone()).is_ok()
            {
                waiting_message.given_at = Some(position);
            }
        }
        state.last_run = state.last_run.saturating_add(1);
        let number = state.last_run;
        state.senders.insert(number, sender);
        number
    }

    /// Removes the stage run with this number, which has ended.
    pub(super) fn end_stage_run(&self, number: u32) {
        self.lock().senders.remove(&number);
    }

    /// Refuses further messages, and returns those that no agent was given.
    pub(super) fn close(&self) -> Vec<UserMessage> {
        let mut state = self.lock();
        state.is_closed = true;
        let waiting_messages = std::mem::take(&mut state.waiting_messages).into_iter();
        let unread_messages = waiting_messages.filter(|waiting| waiting.given_at.is_none());
        unread_messages.map(|unread| unread.message).collect()
    }

    fn next_number(&self) -> u32 {
        let mut state = self.lock();
        state.last_message = state.last_message.saturating_add(1);
        state.last_message
    }

    fn lock(&self) -> MutexGuard<'_, RouterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether `message` is for an agent of the stage run of `sender`.
fn is_for(message: &UserMessage, sender: &UserMessageSender) -> bool {
    let to = message.to.agent();
    to.is_none_or(|agent| sender.agents().contains(agent))
}

/// Converts the message events of a stage run to events of the pipeline, which have numbers of
/// their own. A message to all agents of the stage run becomes one message to each of them.
#[derive(Debug)]
pub(super) struct StageMessageEvents<'r> {
    router: &'r MessageRouter,
    /// The agents of the stage run.
    agents: Vec<AgentId>,
    /// The numbers in the pipeline, by number in the stage run and recipient.
    numbers: BTreeMap<(u32, AgentId), u32>,
}

impl<'r> StageMessageEvents<'r> {
    /// Creates the converter for a stage run of `agents`.
    pub(super) fn new(router: &'r MessageRouter, agents: Vec<AgentId>) -> Self {
        Self {
            router,
            agents,
            numbers: BTreeMap::new(),
        }
    }

    /// Converts an event of the stage run.
    pub(super) fn convert(&mut self, event: Event) -> Vec<Event> {
        match event {
            Event::Run(RunEvent::UserMessage {
                number,
                agent,
                text,
                by,
            }) => {
                let recipients = agent.map_or_else(|| self.agents.clone(), |agent| vec![agent]);
                let converted = recipients.into_iter().map(|agent| {
                    let pipeline_number = self.router.next_number();
                    self.numbers
                        .insert((number, agent.clone()), pipeline_number);
                    Event::Run(RunEvent::UserMessage {
                        number: pipeline_number,
                        agent: Some(agent),
                        text: Arc::clone(&text),
                        by,
                    })
                });
                converted.collect()
            }
            Event::Run(RunEvent::UserMessagesShown { agent, numbers }) => {
                // Messages that an earlier process recorded are not in `self.numbers`.
                let pipeline_numbers = numbers
                    .iter()
                    .filter_map(|number| self.numbers.get(&(*number, agent.clone())).copied());
                let numbers: Vec<u32> = pipeline_numbers.collect();
                if numbers.is_empty() {
                    return Vec::new();
                }
                vec![Event::Run(RunEvent::UserMessagesShown { agent, numbers })]
            }
            Event::Run(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Subagent(_)
            | Event::Coordination(_)
            | Event::Delivery(_)
            | Event::Pipeline(_) => vec![event],
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::agent::user_messages::{UserMessageReceiver, user_message_channel};
    use crate::event::InputChannel;

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

    fn position(stage: usize) -> StagePosition {
        StagePosition {
            iteration: 1,
            stage,
            attempt: 0,
        }
    }

    /// Adds a stage run of one agent. Returns its number, and what it receives.
    fn begin(router: &MessageRouter, stage: usize, id: &str) -> (u32, UserMessageReceiver) {
        let (sender, receiver) = user_message_channel([agent(id)]);
        (router.begin_stage_run(position(stage), sender), receiver)
    }

    /// Returns the texts of the messages that have arrived.
    fn texts(mut receiver: UserMessageReceiver) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(message) = receiver.next().now_or_never() {
            texts.push(message.text.to_string());
        }
        texts
    }

    #[test]
    fn messages_go_to_the_agents_that_work_or_wait_for_them() {
        let router = MessageRouter::new(0);
        let send = |to, text| router.send(message(to, text));
        assert!(matches!(
            send(None, "early"),
            RoutingOutcome::Waiting { .. }
        ));
        let (first, to_a) = begin(&router, 0, "a");
        let (copy, to_copy) = begin(&router, 0, "a-2");
        assert!(matches!(send(None, "all"), RoutingOutcome::Sent));
        assert!(matches!(send(Some("a"), "one"), RoutingOutcome::Sent));
        assert!(matches!(
            send(Some("b"), "later"),
            RoutingOutcome::Waiting { .. }
        ));
        assert_eq!(texts(to_a), ["early", "all", "one"]);
        assert_eq!(texts(to_copy), ["early", "all"]);
        router.end_stage_run(first);
        router.end_stage_run(copy);
        assert!(matches!(
            send(Some("a"), "never"),
            RoutingOutcome::Waiting { .. }
        ));
        let (_, to_b) = begin(&router, 1, "b");
        assert_eq!(texts(to_b), ["later"]);
        let unread = router.close();
        assert_eq!(unread, [message(Some("a"), "never")]);
        assert!(matches!(send(None, "late"), RoutingOutcome::Closed));
    }

    #[test]
    fn the_numbers_of_messages_are_those_of_the_pipeline() {
        let router = MessageRouter::new(4);
        let mut events = StageMessageEvents::new(&router, vec![agent("a"), agent("b")]);
        let sent = |number, to: Option<&str>| {
            Event::Run(RunEvent::UserMessage {
                number,
                agent: to.map(agent),
                text: "x".into(),
                by: InputChannel::Web,
            })
        };
        let shown = |id, numbers: &[u32]| {
            Event::Run(RunEvent::UserMessagesShown {
                agent: agent(id),
                numbers: numbers.to_vec(),
            })
        };
        assert_eq!(
            events.convert(sent(1, None)),
            [sent(5, Some("a")), sent(6, Some("b"))]
        );
        assert_eq!(events.convert(sent(2, Some("b"))), [sent(7, Some("b"))]);
        assert_eq!(events.convert(shown("b", &[1, 2])), [shown("b", &[6, 7])]);
        assert!(events.convert(shown("a", &[9])).is_empty());
    }
}
