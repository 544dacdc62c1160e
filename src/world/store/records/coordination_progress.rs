//! The current state of a coordination, derived from its events. It must never access the disk
//! or the clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::error::ExitStatus;
use crate::event::{
    CoordinationEvent, DeliveryEvent, DeliveryRow, Event, ModelEvent, RunEvent, ToolEvent,
};
use crate::id::{AgentId, AgentNumber, AnswerLabel};
use crate::spending::totals::UsageTotals;
use crate::world::io::clock::LocalDateTime;

/// One coordination, as its events show it.
#[derive(Clone, Debug)]
pub struct CoordinationProgress {
    /// The task as the agents read it.
    pub question: Arc<str>,
    /// The number of restarts before it; 0 for the first coordination.
    pub restart: u32,
    /// When it began.
    pub started: LocalDateTime,
    /// All agents by id, in the order of their numbers.
    pub agents: BTreeMap<AgentId, AgentProgress>,
    /// The agent that the last event was about.
    pub active: Option<AgentId>,
    /// The winner, once the ballot is closed.
    pub winner: Option<AgentId>,
    /// Whether the winner has started to present.
    pub is_presenting: bool,
    /// The final answer.
    pub final_answer: Option<Arc<str>>,
    /// What has been used, including earlier coordinations.
    pub spent: UsageTotals,
    /// What happened to the files that were to be delivered.
    pub delivery_rows: Vec<DeliveryRow>,
    /// How the run ended.
    pub exit_status: Option<ExitStatus>,
    /// The progress of the coordination in percent; it never decreases, and is 100 at the end.
    pub completion_percentage: u32,
}

/// One agent in a run.
#[derive(Clone, Debug)]
pub struct AgentProgress {
    /// The name by which other agents know it.
    pub number: AgentNumber,
    /// What it is doing.
    pub status: AgentStatus,
    /// The number of its answers.
    pub answer_count: u32,
    /// The label of its latest answer.
    pub latest_label: Option<AnswerLabel>,
    /// Its vote, while it is valid.
    pub vote: Option<ValidVote>,
    /// How often it was shown answers that were new to it.
    pub times_informed: u32,
    /// The time of the last event about it.
    pub last_activity: Option<LocalDateTime>,
    /// Why it dropped out, or why its last request failed, until it gets a reply.
    pub error: Option<String>,
}

/// A valid vote.
#[derive(Clone, Debug)]
pub struct ValidVote {
    /// The agent that was voted for.
    pub candidate: AgentId,
    /// Which of the candidate's answers was voted for.
    pub label: AnswerLabel,
    /// The reason, in the voter's words.
    pub reason: String,
}

/// What an agent is doing; serialized for `status.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// It has not started.
    Waiting,
    /// Its model or a tool is working.
    Streaming,
    /// It has an answer and waits for the others.
    Answered,
    /// It has voted.
    Voted,
    /// The whole coordination is restarting.
    Restarting,
    /// It dropped out.
    Error,
    /// It dropped out because it reached its time limit.
    Timeout,
}

impl AgentStatus {
    fn has_dropped_out(self) -> bool {
        matches!(self, AgentStatus::Error | AgentStatus::Timeout)
    }
}

impl AgentProgress {
    fn new(number: AgentNumber) -> Self {
        Self {
            number,
            status: AgentStatus::Waiting,
            answer_count: 0,
            latest_label: None,
            vote: None,
            times_informed: 0,
            last_activity: None,
            error: None,
        }
    }

    fn void_vote(&mut self) {
        self.vote = None;
        if self.status == AgentStatus::Voted {
            self.status = AgentStatus::Answered;
        }
    }

    fn drop_out(&mut self, reason: &str, timed_out: bool) {
        self.error = Some(reason.to_owned());
        self.vote = None;
        self.status = if timed_out {
            AgentStatus::Timeout
        } else {
            AgentStatus::Error
        };
    }
}

impl CoordinationProgress {
    /// Returns the state at the beginning of a coordination.
    pub fn new(
        question: Arc<str>,
        agents: &[AgentId],
        restart: u32,
        started: LocalDateTime,
    ) -> Self {
        let mut sorted_agents = agents.to_vec();
        sorted_agents.sort();
        let agents = sorted_agents
            .into_iter()
            .enumerate()
            .map(|(index, agent)| (agent, AgentProgress::new(AgentNumber::from_index(index))))
            .collect();
        Self {
            question,
            restart,
            started,
            agents,
            active: None,
            winner: None,
            is_presenting: false,
            final_answer: None,
            spent: UsageTotals::default(),
            delivery_rows: Vec::new(),
            exit_status: None,
            completion_percentage: 0,
        }
    }

    /// Applies the next event.
    pub fn apply(&mut self, event: &Event, time: &LocalDateTime) {
        if let Some(agent) = event.agent() {
            self.active = Some(agent.clone());
            if let Some(progress) = self.agents.get_mut(agent) {
                progress.last_activity = Some(time.clone());
                progress.apply(event);
            }
        }
        self.apply_to_run(event);
        event.add_to_totals(&mut self.spent);
        let done_percentage = match self.exit_status {
            Some(_) => 100,
            None => self.done_percentage().min(99),
        };
        self.completion_percentage = self.completion_percentage.max(done_percentage);
    }

    fn apply_to_run(&mut self, event: &Event) {
        if let Event::Run(RunEvent::CoordinationRestarted { .. }) = event {
            for progress in self.agents.values_mut() {
                progress.status = AgentStatus::Restarting;
            }
        } else if let Event::Run(RunEvent::RunEnded { status, .. }) = event {
            self.exit_status = Some(*status);
        } else if let Event::Coordination(CoordinationEvent::VotesVoided { voters, .. }) = event {
            for (agent, progress) in &mut self.agents {
                if voters.contains(agent) {
                    progress.void_vote();
                }
            }
        } else if let Event::Coordination(CoordinationEvent::WinnerSelected { agent, .. }) = event {
            self.winner = Some(agent.clone());
        } else if let Event::Delivery(DeliveryEvent::FinalStarted { .. }) = event {
            self.is_presenting = true;
        } else if let Event::Delivery(DeliveryEvent::FinalAnswer { content, .. }) = event {
            self.final_answer = Some(Arc::clone(content));
        } else if let Event::Delivery(DeliveryEvent::Delivered { rows, .. }) = event {
            self.delivery_rows.extend_from_slice(rows);
        }
    }

    /// Returns the phase as `status.json` names it.
    pub fn phase(&self) -> &'static str {
        let takes_part = |progress: &&AgentProgress| !progress.status.has_dropped_out();
        let mut agents = self.agents.values().filter(takes_part).peekable();
        if self.is_presenting {
            "presentation"
        } else if agents.peek().is_some() && agents.all(|progress| progress.answer_count > 0) {
            "enforcement"
        } else {
            "initial_answer"
        }
    }

    /// Returns the number of valid votes for each answer.
    pub fn tally(&self) -> BTreeMap<AnswerLabel, u32> {
        let mut tally = BTreeMap::new();
        for vote in self
            .agents
            .values()
            .filter_map(|progress| progress.vote.as_ref())
        {
            *tally.entry(vote.label).or_insert(0) += 1;
        }
        tally
    }

    /// Returns how many of the steps of the coordination are done, in percent: each agent answers
    /// and votes, and one that dropped out has nothing left to do.
    fn done_percentage(&self) -> u32 {
        let mut done_steps: usize = 0;
        for progress in self.agents.values() {
            done_steps += match (
                progress.status.has_dropped_out(),
                progress.answer_count,
                &progress.vote,
            ) {
                (true, _, _) | (_, 1.., Some(_)) => 2,
                (_, 1.., None) | (_, 0, Some(_)) => 1,
                (_, 0, None) => 0,
            };
        }
        let all_steps = self.agents.len().saturating_mul(2).max(1);
        u32::try_from(done_steps.saturating_mul(100) / all_steps).unwrap_or(100)
    }
}

impl AgentProgress {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Model(event) => self.apply_model_event(event),
            Event::Tool(event) => self.apply_tool_event(event),
            Event::Coordination(event) => self.apply_coordination_event(event),
            Event::Delivery(event) => self.apply_delivery_event(event),
            Event::Subagent(_) => self.status = AgentStatus::Streaming,
            Event::Run(_) | Event::Pipeline(_) => {}
        }
    }

    fn apply_model_event(&mut self, event: &ModelEvent) {
        if let ModelEvent::ModelRequestStarted { .. }
        | ModelEvent::Text { .. }
        | ModelEvent::Reasoning { .. } = event
        {
            self.status = AgentStatus::Streaming;
        } else if let ModelEvent::Replied { .. } = event {
            self.error = None;
        } else if let ModelEvent::Retrying { reason, .. }
        | ModelEvent::ModelFallback { reason, .. }
        | ModelEvent::Failed { reason, .. } = event
        {
            self.error = Some(reason.clone());
        }
    }

    fn apply_tool_event(&mut self, event: &ToolEvent) {
        if let ToolEvent::ApprovalQueued { .. }
        | ToolEvent::Approval { .. }
        | ToolEvent::HookRan { .. }
        | ToolEvent::ToolCalled { .. }
        | ToolEvent::ToolFinished { .. } = event
        {
            self.status = AgentStatus::Streaming;
        }
    }

    fn apply_coordination_event(&mut self, event: &CoordinationEvent) {
        if let CoordinationEvent::Answered { label, .. } = event {
            self.status = AgentStatus::Answered;
            self.answer_count = self.answer_count.saturating_add(1);
            self.latest_label = Some(*label);
        } else if let CoordinationEvent::Voted {
            candidate,
            label,
            reason,
            ..
        } = event
        {
            self.status = AgentStatus::Voted;
            self.vote = Some(ValidVote {
                candidate: candidate.clone(),
                label: *label,
                reason: reason.clone(),
            });
        } else if let CoordinationEvent::SubmissionRejected { .. } = event {
            self.status = AgentStatus::Streaming;
        } else if let CoordinationEvent::AnswersShown { .. } = event {
            self.times_informed = self.times_informed.saturating_add(1);
        } else if let CoordinationEvent::DroppedOut {
            reason, timed_out, ..
        } = event
        {
            self.drop_out(reason, *timed_out);
        }
    }

    fn apply_delivery_event(&mut self, event: &DeliveryEvent) {
        if let DeliveryEvent::FinalStarted { .. } = event {
            self.status = AgentStatus::Streaming;
        } else if let DeliveryEvent::FinalAnswer { .. } = event {
            self.status = AgentStatus::Answered;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::CoordinationProgress;
    use crate::error::ExitStatus;
    use crate::event::{CoordinationEvent, DeliveryEvent, Event, RunEvent};
    use crate::id::{AgentId, AgentNumber, AnswerLabel};
    use crate::world::io::clock;

    fn agent(id: &str) -> AgentId {
        AgentId::parse(id).unwrap()
    }

    fn answer_event(id: &str, index: usize) -> Event {
        Event::Coordination(CoordinationEvent::Answered {
            agent: agent(id),
            label: label(index),
            content: Arc::from(""),
            snapshot: None,
            check_results: None,
            changes: None,
            plan: None,
        })
    }

    fn vote_event(id: &str) -> Event {
        Event::Coordination(CoordinationEvent::Voted {
            agent: agent(id),
            candidate: agent("a"),
            label: label(0),
            reason: String::new(),
        })
    }

    fn label(index: usize) -> AnswerLabel {
        let agent = AgentNumber::from_index(index);
        AnswerLabel { agent, ordinal: 1 }
    }

    /// Compares the phase, the percentage and the number of valid votes after `events` with
    /// `expected`.
    #[track_caller]
    fn check(events: &[Event], expected: (&str, u32, u32)) {
        let now = clock::now();
        let agents = [agent("b"), agent("a")];
        let mut view = CoordinationProgress::new(Arc::from("?"), &agents, 0, now.clone());
        for event in events {
            view.apply(event, &now);
        }
        let votes = view.tally().values().sum();
        let got = (view.phase(), view.completion_percentage, votes);
        assert_eq!(got, expected);
    }

    #[test]
    fn progress_is_reported_and_never_decreases() {
        let (a, b) = (answer_event("a", 0), answer_event("b", 1));
        let voided = Event::Coordination(CoordinationEvent::VotesVoided {
            message: None,
            voters: vec![agent("a"), agent("b")],
        });
        let dropped = Event::Coordination(CoordinationEvent::DroppedOut {
            agent: agent("b"),
            reason: String::new(),
            timed_out: false,
        });
        let started = Event::Delivery(DeliveryEvent::FinalStarted { agent: agent("a") });
        let ended = Event::Run(RunEvent::RunEnded {
            status: ExitStatus::Limit,
            summary: String::new(),
        });
        let all = [a.clone(), b.clone(), vote_event("a"), vote_event("b")];
        check(&[], ("initial_answer", 0, 0));
        check(&all[..1], ("initial_answer", 25, 0));
        check(&all[..2], ("enforcement", 50, 0));
        check(&all[..3], ("enforcement", 75, 1));
        check(&all, ("enforcement", 99, 2));
        check(&[&all[..], &[voided]].concat(), ("enforcement", 99, 0));
        check(&[a.clone(), dropped], ("enforcement", 75, 0));
        check(&[&all[..], &[started]].concat(), ("presentation", 99, 2));
        check(&[a, ended], ("initial_answer", 100, 0));
    }

    #[test]
    fn agents_are_numbered_by_their_sorted_ids() {
        let view =
            CoordinationProgress::new(Arc::from("?"), &[agent("b"), agent("a")], 0, clock::now());
        let numbers: Vec<String> = view
            .agents
            .values()
            .map(|progress| progress.number.to_string())
            .collect();
        assert_eq!(numbers, ["agent1", "agent2"]);
        assert!(view.agents.keys().is_sorted());
    }
}
