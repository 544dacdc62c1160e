//! Derives from the events of a recorded run how to replay it: the order of each coordination, and
//! how many replies each agent got in each conversation.

use std::collections::{BTreeMap, VecDeque};

use crate::agent::replay_visibility::{ShownAnswers, VisibilityTimeline};
use crate::agent::user_messages::MessageRecipient;
use crate::error::ExitStatus;
use crate::event::{
    CoordinationEvent, DeliveryEvent, Event, ModelEvent, RunEvent, SetupProblem, StopReason,
};
use crate::id::{AgentId, AgentNumber};
use crate::orchestrator::replay_order::{
    RecordedCoordination, RecordedEnding, RecordedInput, RecordedSubmission,
};

/// Plan for the replay of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReplayPlan {
    /// The record of each coordination.
    pub coordinations: VecDeque<RecordedCoordination>,
    /// The conversations of each agent, in order.
    pub conversations: BTreeMap<AgentId, Vec<ConversationPlan>>,
    /// Whether the record covers its run to the end.
    pub is_complete: bool,
}

/// One conversation of an agent with its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationPlan {
    /// The number of recorded replies that belong to it, including requests that finally failed.
    pub replies: usize,
    /// What happens to a request after them.
    pub missing_reply: MissingReply,
}

/// Behaviour of a request without a recorded reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingReply {
    /// It fails: the record has no such request.
    Fails,
    /// It gets no answer: something else ended the conversation.
    Waits,
    /// It gets no answer, and the run ended there.
    Ends,
}

/// The phase of a run in which an event happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EventPhase {
    /// Neither coordination nor the final phase.
    #[default]
    Outside,
    Coordination,
    Final,
}

/// Builds a plan from the events of a run, one after another.
#[derive(Default)]
struct ReplayPlanner {
    plan: ReplayPlan,
    phase: EventPhase,
    agent_numbers: BTreeMap<AgentId, AgentNumber>,
    /// The number of steps of each agent in the current coordination.
    step_counts: BTreeMap<AgentId, u32>,
    /// The agent that presents the final answer.
    presenter: Option<AgentId>,
    /// Whether the run reached its conclusion, so that only the report of its end can follow. A run
    /// that was aborted, or that a bug ended, did not.
    is_concluded: bool,
    /// Whether an agent of the current coordination has answered.
    has_answer: bool,
    /// Whether the last event is a request that finally failed.
    ends_with_failure: bool,
    /// What the user has to change, according to the first request that failed for it.
    setup_problem: Option<SetupProblem>,
    /// The conversations that no event has belonged to so far.
    conversations_not_begun: BTreeMap<AgentId, ConversationPlan>,
}

impl ReplayPlan {
    /// Derives a plan from `events`, in their order.
    pub fn from_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut planner = ReplayPlanner::default();
        for event in events {
            planner.apply(event);
            if let Event::Model(ModelEvent::Failed { problem, .. }) = event {
                planner.setup_problem = planner.setup_problem.or(*problem);
            }
            planner.ends_with_failure = matches!(event, Event::Model(ModelEvent::Failed { .. }));
        }
        if !planner.plan.is_complete {
            planner.close_unfinished();
        }
        planner.plan
    }
}

impl ReplayPlanner {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Run(event) => self.apply_run_event(event),
            Event::Model(event) => self.apply_model_event(event),
            Event::Coordination(event) => self.apply_coordination_event(event),
            Event::Delivery(event) => self.apply_delivery_event(event),
            Event::Tool(_) | Event::Subagent(_) | Event::Pipeline(_) => {}
        }
    }

    fn apply_run_event(&mut self, event: &RunEvent) {
        if let RunEvent::RunStarted { agents, .. } = event {
            self.begin_coordination(agents);
        } else if let RunEvent::UserMessage { number, agent, .. } = event {
            self.record_message(*number, agent.as_ref());
        } else if let RunEvent::CoordinationStopped { .. } = event {
            self.close_unfinished();
            // With an answer, the final phase still follows.
            if !self.has_answer {
                self.is_concluded = true;
            }
        } else if let RunEvent::RunEnded { status, .. } = event
            && (self.is_concluded
                || *status == ExitStatus::Failure
                || (*status == ExitStatus::Environment && self.setup_problem.is_some()))
        {
            self.close_coordination();
            self.plan.is_complete = true;
        }
    }

    fn apply_coordination_event(&mut self, event: &CoordinationEvent) {
        if let CoordinationEvent::AnswersShown { agent, labels } = event {
            let shown_answers = ShownAnswers {
                after_steps: self.step_count(agent),
                labels: labels.clone(),
            };
            self.update_timeline(agent, |timeline| {
                timeline.shown_answers.push_back(shown_answers);
            });
        } else if let CoordinationEvent::Answered {
            agent,
            label,
            check_results,
            changes,
            ..
        } = event
        {
            if let Some(coordination) = self.plan.coordinations.back_mut() {
                let check_results = check_results.iter().cloned();
                let changes = changes.iter().cloned();
                coordination
                    .check_results
                    .extend(check_results.map(|results| (*label, results)));
                coordination
                    .changes
                    .extend(changes.map(|changes| (*label, changes)));
            }
            self.has_answer = true;
            self.record_submission(agent, None);
        } else if let CoordinationEvent::Voted { agent, .. } = event {
            self.record_submission(agent, None);
        } else if let CoordinationEvent::SubmissionRejected {
            agent, external, ..
        } = event
        {
            self.record_submission(agent, external.clone());
        } else if let CoordinationEvent::DroppedOut {
            agent, timed_out, ..
        } = event
        {
            if *timed_out {
                let steps = self.step_count(agent);
                self.update_timeline(agent, |timeline| timeline.out_of_time_after = Some(steps));
            }
            self.record_submission(agent, None);
        } else if let CoordinationEvent::WinnerSelected { label, reason, .. } = event {
            if let Some(coordination) = self.plan.coordinations.back_mut() {
                coordination.selection = Some((*label, *reason));
            }
            self.close_coordination();
        }
    }

    fn apply_delivery_event(&mut self, event: &DeliveryEvent) {
        if let DeliveryEvent::FinalStarted { agent } = event {
            self.phase = EventPhase::Final;
            self.presenter = Some(agent.clone());
            self.open_conversation(agent);
        } else if let DeliveryEvent::AnswerKept { reason, .. } = event {
            if let Some(coordination) = self.plan.coordinations.back_mut() {
                coordination.kept_answer = Some(reason.clone());
            }
        } else if let DeliveryEvent::FinalAnswer { .. } = event {
            self.is_concluded = true;
        }
    }

    /// Counts an event in its conversation.
    fn apply_model_event(&mut self, event: &ModelEvent) {
        let (replies, agent) =
            if let ModelEvent::Replied { agent, .. } | ModelEvent::Failed { agent, .. } = event {
                (1, agent)
            } else if let ModelEvent::ModelRequestStarted { agent, .. }
            | ModelEvent::RateLimited { agent, .. } = event
            {
                (0, agent)
            } else {
                return;
            };
        let conversations = self.plan.conversations.entry(agent.clone()).or_default();
        conversations.extend(self.conversations_not_begun.remove(agent));
        if let Some(conversation) = conversations.last_mut() {
            conversation.replies = conversation.replies.saturating_add(replies);
        }
        if let ModelEvent::Replied { calls, stop, .. } = event {
            let is_complete_step = *stop != StopReason::Paused || !calls.is_empty();
            let steps = self.step_counts.entry(agent.clone()).or_default();
            *steps = steps.saturating_add(u32::from(is_complete_step));
        }
    }

    /// Begins a coordination.
    fn begin_coordination(&mut self, agents: &[AgentId]) {
        let mut sorted_agents = agents.to_vec();
        sorted_agents.sort();
        let numbered_agents = sorted_agents.into_iter().enumerate();
        self.agent_numbers = numbered_agents
            .map(|(index, agent)| (agent, AgentNumber::from_index(index)))
            .collect();
        self.step_counts.clear();
        self.presenter = None;
        self.is_concluded = false;
        self.has_answer = false;
        self.phase = EventPhase::Coordination;
        for agent in agents {
            self.open_conversation(agent);
        }
        // Until its end is read, it counts as interrupted.
        self.plan.coordinations.push_back(RecordedCoordination {
            ending: RecordedEnding::Interrupted,
            ..RecordedCoordination::default()
        });
    }

    /// Adds a conversation of `agent`, which its first event begins.
    fn open_conversation(&mut self, agent: &AgentId) {
        let conversation = ConversationPlan {
            replies: 0,
            missing_reply: MissingReply::Fails,
        };
        self.conversations_not_begun
            .insert(agent.clone(), conversation);
    }

    /// Ends the coordination as closed, unless it was interrupted before.
    fn close_coordination(&mut self) {
        if self.phase == EventPhase::Coordination
            && let Some(coordination) = self.plan.coordinations.back_mut()
        {
            coordination.ending = RecordedEnding::Closed;
        }
        self.phase = EventPhase::Outside;
    }

    /// Marks what has not ended so far as interrupted.
    fn close_unfinished(&mut self) {
        match self.phase {
            EventPhase::Outside => {}
            EventPhase::Coordination => {
                let conversations = self.plan.conversations.values_mut();
                let waiting_conversations =
                    conversations.filter_map(|conversations| conversations.last_mut());
                waiting_conversations
                    .for_each(|conversation| conversation.missing_reply = MissingReply::Waits);
            }
            EventPhase::Final => {
                let presenter = self.presenter.take();
                let conversations =
                    presenter.and_then(|agent| self.plan.conversations.get_mut(&agent));
                if let Some(conversation) =
                    conversations.and_then(|conversations| conversations.last_mut())
                {
                    // A limit refused the request, so it was never sent.
                    let refused_count = usize::from(self.ends_with_failure);
                    conversation.replies = conversation.replies.saturating_sub(refused_count);
                    conversation.missing_reply = MissingReply::Ends;
                }
            }
        }
        self.phase = EventPhase::Outside;
    }

    fn record_submission(&mut self, agent: &AgentId, external_refusal: Option<String>) {
        let number = self.agent_numbers.get(agent).copied();
        if let (Some(coordination), Some(number)) = (self.plan.coordinations.back_mut(), number) {
            coordination
                .inputs
                .push_back(RecordedInput::Submission(RecordedSubmission {
                    agent: number,
                    external_refusal,
                }));
        }
    }

    /// Records a message of the user that the coordinator took.
    fn record_message(&mut self, number: u32, agent: Option<&AgentId>) {
        let is_coordinating = self.phase == EventPhase::Coordination;
        if let Some(coordination) = self
            .plan
            .coordinations
            .back_mut()
            .filter(|_| is_coordinating)
        {
            let recipient = MessageRecipient::from(agent.cloned());
            coordination
                .inputs
                .push_back(RecordedInput::Message(number, recipient));
        }
    }

    fn update_timeline(&mut self, agent: &AgentId, update: impl FnOnce(&mut VisibilityTimeline)) {
        let number = self.agent_numbers.get(agent).copied();
        if let (Some(coordination), Some(number)) = (self.plan.coordinations.back_mut(), number) {
            update(coordination.visibility.entry(number).or_default());
        }
    }

    fn step_count(&self, agent: &AgentId) -> u32 {
        self.step_counts.get(agent).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(id: &str) -> AgentId {
        AgentId::parse(id).unwrap()
    }

    /// Returns an event with this type, agent and further JSON fields.
    fn event(kind: &str, id: &str, rest: &str) -> Event {
        let text = format!("{{\"type\":\"{kind}\",\"agent\":\"{id}\"{rest}}}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn start_event() -> Event {
        Event::Run(RunEvent::RunStarted {
            question: "?".into(),
            agents: vec![agent("b"), agent("a")],
            restart: 0,
            cwd: None,
        })
    }

    fn request_started(id: &str) -> Event {
        event("model_request_started", id, ",\"model\":\"m\"")
    }

    fn reply_event(id: &str) -> Event {
        event("replied", id, ",\"calls\":[],\"stop\":\"done\"")
    }

    fn pause_event(id: &str) -> Event {
        event("replied", id, ",\"calls\":[],\"stop\":\"paused\"")
    }

    fn failure_event(id: &str) -> Event {
        event("failed", id, ",\"reason\":\"no\"")
    }

    fn vote_event(id: &str) -> Event {
        let rest = ",\"candidate\":\"a\",\"label\":\"agent1.1\",\"reason\":\"\"";
        event("voted", id, rest)
    }

    fn cut_event() -> Event {
        Event::Run(RunEvent::CoordinationStopped {
            status: ExitStatus::Limit,
        })
    }

    fn winner_event() -> Event {
        event(
            "winner_selected",
            "a",
            ",\"label\":\"agent1.1\",\"reason\":\"only_answer\",\"votes\":[]",
        )
    }

    fn final_answer() -> Event {
        event("final_answer", "a", ",\"content\":\"\"")
    }

    fn presents() -> Event {
        event("final_started", "a", "")
    }

    fn end_event() -> Event {
        Event::Run(RunEvent::RunEnded {
            status: ExitStatus::Success,
            summary: String::new(),
        })
    }

    /// `expected` is the ending of each coordination, and each agent's conversations: the number of
    /// replies, and what follows them.
    #[track_caller]
    fn check(events: &[Event], expected: &str) {
        let plan = ReplayPlan::from_events(events);
        let endings = plan
            .coordinations
            .iter()
            .map(|coordination| format!("{:?}", coordination.ending));
        let conversations = plan.conversations.iter().map(|(agent, conversations)| {
            let conversations = conversations.iter().map(|conversation| {
                format!("{}{:?}", conversation.replies, conversation.missing_reply)
            });
            format!("{agent}: {}", conversations.collect::<Vec<_>>().join(" "))
        });
        let got: Vec<String> = endings.chain(conversations).collect();
        assert_eq!(got.join("; "), expected);
    }

    #[test]
    fn replies_belong_to_conversations() {
        let coordination = [
            start_event(),
            request_started("a"),
            reply_event("a"),
            request_started("b"),
            failure_event("b"),
        ];
        let final_phase = [
            winner_event(),
            presents(),
            request_started("a"),
            reply_event("a"),
            reply_event("a"),
        ];
        let end = [final_answer(), end_event()];
        let whole = [&coordination[..], &final_phase, &end].concat();
        check(&whole, "Closed; a: 1Fails 2Fails; b: 1Fails");
        let twice = [&whole[..9], &coordination[..3], &[winner_event()], &end].concat();
        check(&twice, "Closed; Closed; a: 1Fails 1Fails 1Fails; b: 1Fails");
        let skipped = [&[start_event()], &final_phase[..], &end].concat();
        check(&skipped, "Closed; a: 2Fails");
    }

    #[test]
    fn an_interrupted_recording_leaves_open_requests_unanswered() {
        let coordination = [
            start_event(),
            request_started("a"),
            reply_event("a"),
            request_started("b"),
        ];
        let timed = [
            &coordination[..],
            &[cut_event(), winner_event(), end_event()],
        ]
        .concat();
        check(&timed, "Interrupted; a: 1Waits; b: 0Waits");
        check(&coordination, "Interrupted; a: 1Waits; b: 0Waits");
        let final_phase = [
            winner_event(),
            presents(),
            request_started("a"),
            reply_event("a"),
            request_started("a"),
            cut_event(),
        ];
        let presenting = [&coordination[..], &final_phase, &[end_event()]].concat();
        check(&presenting, "Closed; a: 1Fails 1Ends; b: 0Fails");
        let limited = [
            &presenting[..9],
            &[failure_event("a"), cut_event(), end_event()],
        ]
        .concat();
        check(&limited, "Closed; a: 1Fails 1Ends; b: 0Fails");
        let given_up = [&coordination[..], &[end_event()]].concat();
        check(&given_up, "Interrupted; a: 1Waits; b: 0Waits");
    }

    #[test]
    fn a_run_that_was_given_up_while_it_ended_is_not_complete() {
        #[track_caller]
        fn check(events: &[Event], expected: bool) {
            assert_eq!(ReplayPlan::from_events(events).is_complete, expected);
        }
        let rest = ",\"label\":\"agent1.1\",\"content\":\"\",\"snapshot\":null";
        let answered = [start_event(), event("answered", "a", rest)];
        check(
            &[&answered[..], &[cut_event(), end_event()]].concat(),
            false,
        );
        check(
            &[&answered[..], &[cut_event(), winner_event(), end_event()]].concat(),
            false,
        );
        let final_events = [cut_event(), winner_event(), final_answer(), end_event()];
        check(&[&answered[..], &final_events].concat(), true);
        check(&[start_event(), cut_event(), end_event()], true);
        check(&[&answered[..], &[end_event()]].concat(), false);
    }

    #[test]
    fn a_look_is_known_by_the_steps_before_it() {
        let informed =
            |labels: &str| event("answers_shown", "b", &format!(",\"labels\":[{labels}]"));
        let plan = ReplayPlan::from_events(&[
            start_event(),
            informed("\"agent1.1\""),
            pause_event("b"),
            reply_event("b"),
            vote_event("b"),
            informed("\"agent1.2\",\"agent2.1\""),
            event("dropped_out", "b", ",\"reason\":\"\",\"timed_out\":true"),
        ]);
        let coordination = &plan.coordinations[0];
        let b = AgentNumber::from_index(1);
        let submission = |external_refusal| {
            RecordedInput::Submission(RecordedSubmission {
                agent: b,
                external_refusal,
            })
        };
        assert_eq!(coordination.inputs, [submission(None), submission(None)]);
        let timeline = &coordination.visibility[&b];
        let shown_answers: Vec<String> = timeline
            .shown_answers
            .iter()
            .map(|shown| format!("{} {}", shown.after_steps, shown.labels.len()))
            .collect();
        assert_eq!(shown_answers, ["0 1", "1 2"]);
        assert_eq!(timeline.out_of_time_after, Some(1));
    }
}
