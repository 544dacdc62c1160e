//! What a person sees of a run, folded from its events: phase, agents, ballot, approvals, delivery,
//! pipeline, usage and timeline. It knows no terminal, no HTML and no clock; the lines on a
//! terminal, the dashboard, the web page and `massgen logs show` are renderings of it. Its size is
//! bounded, however long the run is.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::error::ExitStatus;
use crate::event::{
    CoordinationEvent, DeliveryEvent, Event, ModelEvent, PipelineEvent, RunEvent, SubagentEvent,
    ToolEvent,
};
use crate::id::AgentId;
use crate::run_view::agent::AgentView;
use crate::run_view::approvals::PendingApproval;
use crate::run_view::ballot::BallotView;
use crate::run_view::candidates::CandidateFacts;
use crate::run_view::delivery::DeliveryView;
use crate::run_view::overview::{RunOverview, RunPhase, SandboxNote};
use crate::run_view::pipeline::PipelineStages;
use crate::run_view::timeline::Timeline;
use crate::spending::totals::{RequestTotals, SpendingPhase, UsageTotals};

pub mod agent;
pub mod approvals;
pub mod ballot;
pub mod candidates;
pub mod delivery;
pub mod overview;
pub mod pipeline;
pub mod timeline;
pub mod tool_call;
pub mod transcript;

/// Maximum number of warnings that are kept; later ones are counted.
pub const WARNINGS_MAX: usize = 200;

/// A part of the view that changes on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViewSection {
    /// Task, phase, warnings and end: [`RunOverview`].
    Run,
    /// The agent at this index: [`AgentView`].
    Agent(usize),
    /// Answers, votes and winner: [`BallotView`].
    Ballot,
    /// The approvals that wait for the user: a list of [`PendingApproval`].
    Approvals,
    /// The final answer and the delivered files: [`DeliveryView`].
    Delivery,
    /// The stages of a pipeline: [`PipelineStages`].
    Pipeline,
    /// The usage of each agent, model and phase.
    Usage,
    /// What each agent did when: [`Timeline`].
    Timeline,
}

impl ViewSection {
    /// Returns the name of the section: `run`, `agents/0` and so on.
    pub fn name(self) -> String {
        match self {
            ViewSection::Run => "run".to_owned(),
            ViewSection::Agent(index) => format!("agents/{index}"),
            ViewSection::Ballot => "ballot".to_owned(),
            ViewSection::Approvals => "approvals".to_owned(),
            ViewSection::Delivery => "delivery".to_owned(),
            ViewSection::Pipeline => "pipeline".to_owned(),
            ViewSection::Usage => "usage".to_owned(),
            ViewSection::Timeline => "timeline".to_owned(),
        }
    }
}

/// The position of an event in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPosition {
    /// The number of the event, such as its line in the event log. It never decreases.
    pub seq: u64,
    /// The time since the start of the run, in milliseconds.
    pub elapsed_ms: u64,
}

/// The view of a run, as its events so far make it.
#[derive(Clone, Debug, Default)]
pub struct RunView {
    run: RunOverview,
    agents: Vec<AgentView>,
    ballot: BallotView,
    approvals: Vec<PendingApproval>,
    delivery: DeliveryView,
    pipeline: PipelineStages,
    usage: UsageTotals,
    candidate_facts: CandidateFacts,
    timeline: Timeline,
    /// The number of the last event.
    seq: u64,
    /// The number of the event that changed each section last.
    last_changes: BTreeMap<ViewSection, u64>,
}

/// The requests of an agent to a model in a phase, as the section `usage` lists them.
#[derive(Serialize)]
struct UsageRow<'v> {
    agent: &'v AgentId,
    model: &'v str,
    phase: SpendingPhase,
    #[serde(flatten)]
    totals: &'v RequestTotals,
}

impl RunView {
    /// Folds the next event of a run that is not read from a log, `elapsed_ms` after its start.
    pub fn apply_next(&mut self, event: &Event, elapsed_ms: u64) {
        let seq = self.seq.saturating_add(1);
        self.apply(event, EventPosition { seq, elapsed_ms });
    }

    /// Folds one event into the view.
    pub fn apply(&mut self, event: &Event, at: EventPosition) {
        self.seq = at.seq;
        self.run.elapsed_ms = at.elapsed_ms;
        self.apply_usage(event, at);
        self.candidate_facts.apply(event);
        match event {
            Event::Run(event) => self.apply_run_event(event, at),
            Event::Model(_) | Event::Subagent(_) => {}
            Event::Tool(event) => self.apply_tool_event(event, at),
            Event::Coordination(event) => {
                if self.ballot.apply(event, at) {
                    self.mark_changed(ViewSection::Ballot, at);
                }
            }
            Event::Delivery(event) => self.apply_delivery_event(event, at),
            Event::Pipeline(event) => self.apply_pipeline_event(event, at),
        }
        self.apply_to_agents(event, at);
        self.update_open_spans(at);
        if self.timeline.apply(event, at) {
            self.mark_changed(ViewSection::Timeline, at);
        }
    }

    /// Returns the task, the phase and the end of the run.
    pub fn run(&self) -> &RunOverview {
        &self.run
    }

    /// Returns the agents, in the order of the config.
    pub fn agents(&self) -> &[AgentView] {
        &self.agents
    }

    /// Returns the agent with this id.
    pub fn agent(&self, id: &AgentId) -> Option<&AgentView> {
        self.agents.iter().find(|agent| agent.id == *id)
    }

    /// Returns the position of the agent with this id in the config.
    pub fn agent_index(&self, id: &AgentId) -> Option<usize> {
        self.agents.iter().position(|agent| agent.id == *id)
    }

    /// Returns the number of the agent with this id, as the labels of its answers have it: agents
    /// are numbered by their names, from 1.
    pub fn agent_number(&self, id: &AgentId) -> usize {
        let before = self.agents.iter().filter(|agent| agent.id < *id);
        before.count().saturating_add(1)
    }

    /// Returns the answers, the votes and the winner.
    pub fn ballot(&self) -> &BallotView {
        &self.ballot
    }

    /// Returns whether `agent` has won the vote of a team. An agent that answers alone, in a run or
    /// as a role of a pipeline, is not a winner.
    pub fn is_winner(&self, agent: &AgentId) -> bool {
        let is_in_team = if self.pipeline.stages.is_empty() {
            self.agents.len() > 1
        } else {
            self.pipeline.teammates(agent).len() > 1
        };
        let winner = self.ballot.winner.as_ref();
        is_in_team && winner.is_some_and(|winner| winner.agent == *agent)
    }

    /// Returns the approvals that wait for the user, oldest first.
    pub fn approvals(&self) -> &[PendingApproval] {
        &self.approvals
    }

    /// Returns the final answer and the delivered files.
    pub fn delivery(&self) -> &DeliveryView {
        &self.delivery
    }

    /// Returns the stages of a pipeline; there are none in a run without one.
    pub fn pipeline(&self) -> &PipelineStages {
        &self.pipeline
    }

    /// Returns what the run used so far.
    pub fn usage(&self) -> &UsageTotals {
        &self.usage
    }

    /// Returns what each agent did when.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Returns the sections that changed after the event with the number `seq`, in order.
    pub fn sections_changed_after(&self, seq: u64) -> impl Iterator<Item = ViewSection> + '_ {
        let changes = self.last_changes.iter();
        changes.filter_map(move |(section, last_change)| (*last_change > seq).then_some(*section))
    }

    /// Returns the number of the event that changed a section last; `None` for one that never
    /// changed.
    pub fn last_change(&self, section: ViewSection) -> Option<u64> {
        self.last_changes.get(&section).copied()
    }

    /// Returns a section as JSON; `None` for an agent that does not exist.
    pub fn section_json(&self, section: ViewSection) -> Option<Value> {
        let value = match section {
            ViewSection::Run => serde_json::to_value(&self.run),
            ViewSection::Agent(index) => serde_json::to_value(self.agents.get(index)?),
            ViewSection::Ballot => serde_json::to_value(&self.ballot),
            ViewSection::Approvals => serde_json::to_value(&self.approvals),
            ViewSection::Delivery => serde_json::to_value(&self.delivery),
            ViewSection::Pipeline => serde_json::to_value(&self.pipeline),
            ViewSection::Usage => serde_json::to_value(self.usage_rows()),
            ViewSection::Timeline => serde_json::to_value(&self.timeline),
        };
        value.ok()
    }

    fn usage_rows(&self) -> Vec<UsageRow<'_>> {
        let rows = self.usage.entries().map(|(key, totals)| UsageRow {
            agent: &key.agent,
            model: &key.model,
            phase: key.phase,
            totals,
        });
        rows.collect()
    }

    fn mark_changed(&mut self, section: ViewSection, at: EventPosition) {
        self.last_changes.insert(section, at.seq);
    }

    fn add_warning(&mut self, message: &str, at: EventPosition) {
        if self.run.warnings.len() < WARNINGS_MAX {
            self.run.warnings.push(message.to_owned());
        } else {
            self.run.more_warnings = self.run.more_warnings.saturating_add(1);
        }
        self.mark_changed(ViewSection::Run, at);
    }

    fn apply_run_event(&mut self, event: &RunEvent, at: EventPosition) {
        match event {
            RunEvent::RunStarted {
                question,
                agents,
                restart,
                cwd,
            } => {
                self.run.cwd.clone_from(cwd);
                self.start_coordination(question, agents, *restart, at);
            }
            RunEvent::LimitMet { agent, limit } => match agent {
                Some(agent) => self.add_warning(&format!("{agent} reached its limit: {limit}"), at),
                None => self.add_warning(limit, at),
            },
            RunEvent::CoordinationRestarted { reason, .. } => {
                self.add_warning(&format!("the agents start again: {reason}"), at);
            }
            RunEvent::SandboxSelected {
                agents,
                by,
                leaves_open,
            } => self.run.add_sandbox(SandboxNote {
                agents: agents.clone(),
                isolation: by.to_string(),
                leaves_open: leaves_open.clone(),
            }),
            RunEvent::CoordinationStopped { .. } => self.run.is_stopped = true,
            RunEvent::UserMessage {
                number,
                agent,
                text,
                ..
            } => self.run.add_message(*number, agent.as_ref(), text),
            RunEvent::UserMessagesShown { agent, numbers } => {
                self.run.show_messages(agent, numbers);
            }
            // Only the renderings as lines show these events.
            RunEvent::SetupStarted { .. }
            | RunEvent::BaselineStarted { .. }
            | RunEvent::BaselineChecked { .. }
            | RunEvent::Judged { .. }
            | RunEvent::InstructionsRead { .. }
            | RunEvent::SkillsOffered { .. }
            | RunEvent::MemoryRead { .. }
            | RunEvent::MemorySaved { .. } => {}
            RunEvent::Warning { message } => self.add_warning(message, at),
            RunEvent::RunEnded { status, summary } => self.end(*status, summary, at),
        }
        self.mark_changed(ViewSection::Run, at);
    }

    /// Starts a coordination: its ballot is empty. The agents of an earlier one keep their history;
    /// the next stage of a pipeline has agents of its own.
    fn start_coordination(
        &mut self,
        task: &Arc<str>,
        agents: &[AgentId],
        restart: u32,
        at: EventPosition,
    ) {
        self.run.start(task, agents, restart);
        if self.timeline.close_all(at) {
            self.mark_changed(ViewSection::Timeline, at);
        }
        let mut previous_agents = std::mem::take(&mut self.agents);
        for id in agents {
            let position = previous_agents.iter().position(|agent| agent.id == *id);
            let agent = position.map(|index| previous_agents.swap_remove(index));
            let mut agent = agent.unwrap_or_else(|| AgentView::new(id.clone()));
            agent.start_coordination(self.run.cwd.as_ref(), at);
            self.agents.push(agent);
        }
        self.ballot = BallotView::new(agents);
        self.approvals.clear();
        self.delivery = DeliveryView::default();
        // Their indices may mean other agents now, and there may be fewer.
        self.last_changes
            .retain(|section, _| !matches!(section, ViewSection::Agent(_)));
        for index in 0..self.agents.len() {
            self.mark_changed(ViewSection::Agent(index), at);
        }
        for section in [
            ViewSection::Ballot,
            ViewSection::Approvals,
            ViewSection::Delivery,
        ] {
            self.mark_changed(section, at);
        }
    }

    fn end(&mut self, status: ExitStatus, summary: &str, at: EventPosition) {
        self.run.end(status, summary);
        self.approvals.clear();
        self.mark_changed(ViewSection::Approvals, at);
        for index in 0..self.agents.len() {
            if let Some(agent) = self.agents.get_mut(index) {
                agent.stop(at);
            }
            self.mark_changed(ViewSection::Agent(index), at);
        }
    }

    fn apply_pipeline_event(&mut self, event: &PipelineEvent, at: EventPosition) {
        self.pipeline.apply(event);
        self.mark_changed(ViewSection::Pipeline, at);
        if let PipelineEvent::Works { agents, .. } = event {
            self.begin_turn(agents, at);
        }
        if let PipelineEvent::StageRun { role, .. } = event {
            // The requests of an interrupted run of the stage are void; its new run asks again.
            let agents = self.pipeline.agents_of(role);
            self.approvals
                .retain(|pending| !agents.contains(&pending.agent));
            self.mark_changed(ViewSection::Approvals, at);
        }
    }

    /// Lets the agents that have not worked yet wait, except for these.
    fn begin_turn(&mut self, agents: &[AgentId], at: EventPosition) {
        for index in 0..self.agents.len() {
            let Some(agent) = self.agents.get_mut(index) else {
                return;
            };
            let is_in_stage = agents.contains(&agent.id);
            if agent.wait_for_turn(is_in_stage, at) {
                self.mark_changed(ViewSection::Agent(index), at);
            }
        }
    }

    fn apply_tool_event(&mut self, event: &ToolEvent, at: EventPosition) {
        if let ToolEvent::Approval { .. } = event {
            approvals::apply(&mut self.approvals, event, at);
            self.mark_changed(ViewSection::Approvals, at);
        } else if let ToolEvent::ServerProgress { server, text } = event {
            self.run.server_progress = Some(format!("{server}: {text}"));
            self.mark_changed(ViewSection::Run, at);
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "events that are not named change nothing here"
    )]
    fn apply_delivery_event(&mut self, event: &DeliveryEvent, at: EventPosition) {
        let phase_before = self.run.phase;
        self.run.phase = match event {
            DeliveryEvent::FinalStarted { .. } => RunPhase::Presenting,
            DeliveryEvent::FinalAnswer { .. } => RunPhase::Delivering,
            _ => phase_before,
        };
        if self.run.phase != phase_before {
            self.mark_changed(ViewSection::Run, at);
        }
        if self.delivery.apply(event) {
            self.mark_changed(ViewSection::Delivery, at);
        }
    }

    /// Adds what the event reports as used.
    fn apply_usage(&mut self, event: &Event, at: EventPosition) {
        event.add_to_totals(&mut self.usage);
        self.run.tool_calls = self.usage.tool_calls();
        let Some(ModelEvent::ModelRequestFinished { agent, .. }) = event.as_model_event() else {
            return;
        };
        self.run.usage = self.usage.run();
        let usage = self.usage.agent(agent);
        if let Some(view) = self.agents.iter_mut().find(|view| view.id == *agent) {
            view.usage = usage;
        }
        self.mark_changed(ViewSection::Usage, at);
        self.mark_changed(ViewSection::Run, at);
    }

    /// Folds the event into the agent that it is about, into those that wait for what that agent
    /// writes before the first round, into those whose votes it voids, and into those that submit
    /// something when it closes the ballot.
    fn apply_to_agents(&mut self, event: &Event, at: EventPosition) {
        let voided_voters = ballot::voided_voters(event);
        let preparation = preparation_event(event);
        let closed_ballot_agents = self.agents_of_closed_ballot(event);
        for index in 0..self.agents.len() {
            let Some(agent) = self.agents.get_mut(index) else {
                return;
            };
            let is_subject = event.agent() == Some(&agent.id);
            let mut is_changed = is_subject;
            if is_subject {
                agent.apply(event, at);
            } else if let Some(preparation) = preparation {
                is_changed = agent.wait_for_preparation(preparation, at);
            }
            if voided_voters.contains(&agent.id) {
                agent.vote = None;
                is_changed = true;
            }
            if closed_ballot_agents.contains(&agent.id) {
                is_changed |= agent.close_ballot(at);
            }
            if is_changed {
                self.mark_changed(ViewSection::Agent(index), at);
            }
        }
    }

    /// Updates the open span of each agent that this event changed.
    fn update_open_spans(&mut self, at: EventPosition) {
        let mut is_changed = false;
        for (index, agent) in self.agents.iter().enumerate() {
            if self.last_changes.get(&ViewSection::Agent(index)) == Some(&at.seq) {
                is_changed |= self.timeline.set_open(&agent.id, agent.open_span(), at);
            }
        }
        if is_changed {
            self.mark_changed(ViewSection::Timeline, at);
        }
    }

    /// Returns the agents whose votes `event` ends: those of a stage, in a pipeline.
    fn agents_of_closed_ballot(&self, event: &Event) -> Vec<AgentId> {
        if let Event::Coordination(CoordinationEvent::WinnerSelected { agent, .. }) = event
            && !self.pipeline.stages.is_empty()
        {
            return self.pipeline.teammates(agent).to_vec();
        }
        let is_closed = matches!(
            event,
            Event::Coordination(CoordinationEvent::WinnerSelected { .. })
                | Event::Run(RunEvent::CoordinationStopped { .. })
        );
        if is_closed {
            self.run.agents.clone()
        } else {
            Vec::new()
        }
    }
}

/// Returns the event of a request to a model outside the rounds, if `event` is one.
fn preparation_event(event: &Event) -> Option<&SubagentEvent> {
    if let Event::Subagent(event) = event
        && event.separate_call().is_some()
    {
        Some(event)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
