//! One agent as a person sees it: what it does now, its answer and vote, its last tool calls, the
//! end of its reply, and what it used.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;

use crate::event::{
    CoordinationEvent, DeliveryEvent, Event, ModelEvent, ReplyTextKind, RunEvent, SubagentEvent,
    ToolEvent, rejection_cause,
};
use crate::id::{AgentId, AnswerLabel, SubagentId};
use crate::run_view::EventPosition;
use crate::run_view::timeline::SpanKind;
use crate::run_view::tool_call::{CALL_CHARS_MAX, ToolCallOutcome, ToolCallView};
use crate::run_view::transcript::{EntryKind, Transcript};
use crate::spending::totals::RequestTotals;
use crate::text::{count_noun, single_line};
use crate::tools::task_plan::TaskPlan;
use crate::tools::workflow::{NEW_ANSWER, VOTE};

/// Maximum number of tool calls that are kept for an overview.
pub const CALLS_MAX: usize = 12;
/// Length to which the end of a reply is cut, in bytes: small enough that few pieces cut it.
const REPLY_TAIL_BYTES_KEPT: usize = 8 * 1024;
/// Length at which the end of a reply is cut, in bytes.
const REPLY_TAIL_BYTES_MAX: usize = 16 * 1024;
/// Whom an agent waits for after its answer or its vote.
const OTHER_AGENTS: &str = "other agents";

/// One agent.
#[derive(Clone, Debug, Serialize)]
pub struct AgentView {
    /// Its id.
    pub id: AgentId,
    /// The model that it asked last; `None` before the first request.
    pub model: Option<Arc<str>>,
    /// What it does now.
    pub activity: AgentActivity,
    /// When it began to do that, in milliseconds after the start of the run.
    pub since_ms: u64,
    /// Its last answer in this coordination.
    pub answer: Option<AnswerLabel>,
    /// The answer that its vote is for; `None` without a vote that counts.
    pub vote: Option<AnswerLabel>,
    /// The agent that gave the answer it voted for last, even if that vote does not count any more.
    pub candidate: Option<AgentId>,
    /// Its last tool calls, oldest first.
    pub calls: VecDeque<ToolCallView>,
    /// Its plan; `None` if it has none.
    pub plan: Option<TaskPlan>,
    /// The end of its current reply.
    #[serde(rename = "speech")]
    pub reply_tail: ReplyTail,
    /// What it used.
    pub usage: RequestTotals,
    /// What it said and did, at length.
    #[serde(skip)]
    pub transcript: Transcript,
    /// Whether a request to its model has started and not ended. External agents use tools
    /// meanwhile.
    #[serde(skip)]
    has_open_request: bool,
    /// Whether it has answered or voted in a ballot that is open, and not begun anything since.
    #[serde(skip)]
    waits_for_others: bool,
    /// The directory of the user, to which paths are shown relative.
    #[serde(skip)]
    cwd: Option<Arc<str>>,
}

/// What an agent does now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "detail", rename_all = "snake_case")]
pub enum AgentActivity {
    /// Nothing that an event reports.
    #[default]
    Idle,
    /// It has not worked yet, and another role of its pipeline works.
    WaitingForTurn,
    /// It waits for the reply of a model.
    WaitingForModel,
    /// Its model writes a reply.
    Writing,
    /// Its model reasons.
    Reasoning,
    /// Its model writes this for the team before the first round, such as personas.
    Preparing(String),
    /// The model of another agent writes this for the team before the first round.
    WaitingForPreparation(String),
    /// It runs this tool.
    RunningTool(String),
    /// It has given an answer or a vote, which waits for those of others, or for their checks.
    Submitting(&'static str),
    /// The user is asked to approve a call of this tool.
    WaitingForApproval(String),
    /// The user is asked to approve a call of this tool after another request.
    QueuedForApproval(String),
    /// A request failed and is sent again later.
    Retrying {
        /// Why it failed.
        reason: String,
        /// The wait in milliseconds.
        wait_ms: u64,
    },
    /// A rate limit delays a request.
    RateLimited {
        /// The rate limit.
        reason: String,
        /// The wait in milliseconds.
        wait_ms: u64,
    },
    /// This check of the config runs on its work.
    Checking(String),
    /// It dropped out for this reason.
    DroppedOut(String),
}

/// The end of a streamed reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplyTail {
    /// Whether it is text or reasoning; `None` before the first piece.
    pub kind: Option<&'static str>,
    /// The length of everything that was streamed since the start of the run, in bytes.
    pub length: u64,
    /// The end of the current text or reasoning.
    pub text: String,
}

impl ReplyTail {
    /// Starts the next reply; the previous one stays until its first piece.
    fn start_reply(&mut self) {
        self.kind = None;
    }

    fn push(&mut self, kind: ReplyTextKind, text: &str) {
        let word = match kind {
            ReplyTextKind::Text => "text",
            ReplyTextKind::Reasoning => "reasoning",
        };
        if self.kind != Some(word) {
            self.text.clear();
            self.kind = Some(word);
        }
        self.length = self
            .length
            .saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
        self.text.push_str(text);
        if self.text.len() > REPLY_TAIL_BYTES_MAX {
            let excess = self.text.len().saturating_sub(REPLY_TAIL_BYTES_KEPT);
            let start = self.text.ceil_char_boundary(excess);
            self.text.drain(..start);
        }
    }

    /// Returns the last line that is not empty, if there is one.
    pub fn last_line(&self) -> Option<&str> {
        let mut lines = self.text.lines().rev();
        lines.find(|line| !line.trim().is_empty())
    }
}

impl AgentView {
    /// Creates the view of an agent that has done nothing.
    pub(super) fn new(id: AgentId) -> Self {
        Self {
            id,
            model: None,
            activity: AgentActivity::Idle,
            since_ms: 0,
            answer: None,
            vote: None,
            candidate: None,
            calls: VecDeque::new(),
            plan: None,
            reply_tail: ReplyTail::default(),
            usage: RequestTotals::default(),
            transcript: Transcript::default(),
            has_open_request: false,
            waits_for_others: false,
            cwd: None,
        }
    }

    /// Starts a coordination, in which the agent has no plan and has neither answered nor voted.
    pub(super) fn start_coordination(&mut self, cwd: Option<&Arc<str>>, at: EventPosition) {
        self.cwd = cwd.cloned();
        self.answer = None;
        self.vote = None;
        self.plan = None;
        self.has_open_request = false;
        self.waits_for_others = false;
        self.activity = AgentActivity::Idle;
        self.since_ms = at.elapsed_ms;
    }

    /// Ends what it does, because the coordination or the run has ended.
    pub(super) fn stop(&mut self, at: EventPosition) {
        self.has_open_request = false;
        self.waits_for_others = false;
        self.set_activity(AgentActivity::Idle, at);
    }

    /// Returns whom it votes for, such as `ben`; `None` without a vote that counts.
    pub fn vote_text(&self) -> Option<String> {
        let label = self.vote?;
        let candidate = self.candidate.as_ref();
        Some(candidate.map_or_else(|| label.to_string(), AgentId::to_string))
    }

    /// Returns the state in words for people, such as `runs execute_command` or `voted for ben`.
    pub fn state_text(&self) -> String {
        match &self.activity {
            AgentActivity::Idle => match (self.vote_text(), self.answer) {
                (Some(vote), _) => format!("voted for {vote}"),
                (None, Some(label)) => format!("answered {label}"),
                (None, None) => "idle".to_owned(),
            },
            AgentActivity::WaitingForTurn => "waits for its turn".to_owned(),
            AgentActivity::WaitingForModel => "waits for its model".to_owned(),
            AgentActivity::Writing => "writes".to_owned(),
            AgentActivity::Reasoning => "reasons".to_owned(),
            AgentActivity::Preparing(label) => format!("writes {label}"),
            AgentActivity::WaitingForPreparation(label) => format!("waits for {label}"),
            AgentActivity::RunningTool(tool) => format!("runs {tool}"),
            AgentActivity::Submitting(label) => format!("submits {label}"),
            AgentActivity::WaitingForApproval(tool) => format!("asks for approval of {tool}"),
            AgentActivity::QueuedForApproval(tool) => {
                format!("waits to ask for approval of {tool}")
            }
            AgentActivity::Retrying { wait_ms, .. } => {
                format!("retries in {} s", wait_ms.div_ceil(1000))
            }
            AgentActivity::RateLimited { wait_ms, .. } => {
                format!("rate limited for {} s", wait_ms.div_ceil(1000))
            }
            AgentActivity::Checking(check) => format!("is checked by {check}"),
            AgentActivity::DroppedOut(reason) => format!("dropped out: {reason}"),
        }
    }

    /// Returns the kind and the label of the span that is open in the timeline: what the agent does
    /// now, or what it waits for. `None` if it is idle, and for waits whose end is known when they
    /// begin.
    pub(super) fn open_span(&self) -> Option<(SpanKind, &str)> {
        let model_span = || (SpanKind::Model, self.model.as_deref().unwrap_or_default());
        match &self.activity {
            AgentActivity::Submitting(_) => Some((SpanKind::Others, OTHER_AGENTS)),
            AgentActivity::WaitingForPreparation(label) => Some((SpanKind::Others, label.as_str())),
            AgentActivity::WaitingForTurn => Some((SpanKind::OtherRole, "another role")),
            AgentActivity::WaitingForApproval(tool) | AgentActivity::QueuedForApproval(tool) => {
                Some((SpanKind::Approval, tool.as_str()))
            }
            AgentActivity::Preparing(label) => Some((SpanKind::Model, label.as_str())),
            AgentActivity::WaitingForModel | AgentActivity::Writing | AgentActivity::Reasoning => {
                Some(model_span())
            }
            // An external agent uses tools, and is checked, while its request is open.
            AgentActivity::RunningTool(_) | AgentActivity::Checking(_) if self.has_open_request => {
                Some(model_span())
            }
            AgentActivity::RunningTool(tool) => Some((SpanKind::Tool, tool.as_str())),
            AgentActivity::Checking(check) => Some((SpanKind::Check, check.as_str())),
            AgentActivity::Idle => self
                .waits_for_others
                .then_some((SpanKind::Others, OTHER_AGENTS)),
            AgentActivity::Retrying { .. }
            | AgentActivity::RateLimited { .. }
            | AgentActivity::DroppedOut(_) => None,
        }
    }

    /// Returns its last tool call of this id.
    pub fn call(&self, call_id: &str) -> Option<&ToolCallView> {
        let mut newest_first = self.calls.iter().rev();
        newest_first.find(|call| call.call_id == call_id)
    }

    /// Returns the tool call that runs; of several, the last.
    pub fn running_call(&self) -> Option<&ToolCallView> {
        let mut newest_first = self.calls.iter().rev();
        newest_first.find(|call| call.outcome == ToolCallOutcome::Running)
    }

    /// Returns whether a request to its model has started and not ended.
    pub fn has_open_request(&self) -> bool {
        self.has_open_request
    }

    /// Folds an event about this agent into it.
    pub(super) fn apply(&mut self, event: &Event, at: EventPosition) {
        match event {
            Event::Model(event) => self.apply_model_event(event, at),
            Event::Tool(event) => self.apply_tool_event(event, at),
            Event::Subagent(event) => {
                if event.separate_call().is_some() {
                    self.apply_preparation_event(event, at);
                }
                self.apply_subagent_event(event, at);
            }
            Event::Coordination(event) => self.apply_coordination_event(event, at),
            Event::Delivery(event) => self.apply_delivery_event(event, at),
            Event::Run(RunEvent::LimitMet { limit, .. }) => {
                self.note(&format!("reached its limit: {limit}"), at);
            }
            Event::Run(RunEvent::UserMessagesShown { numbers, .. }) => {
                let noun = count_noun(numbers.len(), "message");
                self.note(&format!("reads {noun} of the user"), at);
            }
            Event::Run(_) | Event::Pipeline(_) => {}
        }
    }

    /// Folds the beginning of a stage of a pipeline into the agent, which works in the stage or
    /// waits until its own stage begins. Returns whether the agent changed.
    pub(super) fn wait_for_turn(&mut self, is_in_stage: bool, at: EventPosition) -> bool {
        let activity = if is_in_stage && self.activity == AgentActivity::WaitingForTurn {
            AgentActivity::Idle
        } else if !is_in_stage && self.activity == AgentActivity::Idle && !self.has_submitted() {
            AgentActivity::WaitingForTurn
        } else {
            return false;
        };
        self.set_activity(activity, at);
        true
    }

    /// Returns whether it has an answer or a vote.
    fn has_submitted(&self) -> bool {
        self.answer.is_some() || self.vote.is_some()
    }

    /// Folds a request to the model of another agent before the first round into this one, which
    /// waits for the reply. Returns whether the agent changed.
    pub(super) fn wait_for_preparation(
        &mut self,
        event: &SubagentEvent,
        at: EventPosition,
    ) -> bool {
        let is_waiting = matches!(self.activity, AgentActivity::WaitingForPreparation(_));
        let activity = match event {
            SubagentEvent::SubagentStarted { subagent, .. }
                if self.activity == AgentActivity::Idle && !self.has_submitted() =>
            {
                AgentActivity::WaitingForPreparation(subagent.to_string())
            }
            SubagentEvent::SubagentFinished { .. } if is_waiting => AgentActivity::Idle,
            SubagentEvent::SubagentStarted { .. }
            | SubagentEvent::SubagentModel { .. }
            | SubagentEvent::SubagentTool { .. }
            | SubagentEvent::SubagentFinished { .. } => return false,
        };
        self.set_activity(activity, at);
        true
    }

    /// Sets what the agent does. One that has dropped out does nothing any more.
    fn set_activity(&mut self, activity: AgentActivity, at: EventPosition) {
        let has_dropped_out = matches!(self.activity, AgentActivity::DroppedOut(_));
        if !has_dropped_out && self.activity != activity {
            self.activity = activity;
            self.since_ms = at.elapsed_ms;
        }
    }

    /// Ends its wait for the others, and a submission that comes too late, because the ballot is
    /// closed. Returns whether there was either.
    pub(super) fn close_ballot(&mut self, at: EventPosition) -> bool {
        let was_waiting = std::mem::take(&mut self.waits_for_others);
        let is_submitting = matches!(self.activity, AgentActivity::Submitting(_));
        if is_submitting {
            self.end_activity(at);
        }
        is_submitting || was_waiting
    }

    /// Ends the current activity: the agent waits for its model again, or is idle.
    fn end_activity(&mut self, at: EventPosition) {
        let activity = if self.has_open_request {
            AgentActivity::WaitingForModel
        } else {
            AgentActivity::Idle
        };
        self.set_activity(activity, at);
    }

    fn note(&mut self, text: &str, at: EventPosition) {
        self.transcript.push(EntryKind::Note, text, at);
    }

    fn apply_model_event(&mut self, event: &ModelEvent, at: EventPosition) {
        match event {
            ModelEvent::ModelRequestStarted { model, .. } => {
                self.model = Some(Arc::clone(model));
                self.has_open_request = true;
                self.waits_for_others = false;
                self.reply_tail.start_reply();
                self.set_activity(AgentActivity::WaitingForModel, at);
            }
            ModelEvent::Text { text, .. } => {
                self.reply_tail.push(ReplyTextKind::Text, text);
                self.transcript.append(EntryKind::Text, text, at);
                self.set_activity(AgentActivity::Writing, at);
            }
            ModelEvent::Reasoning { text, .. } => {
                self.reply_tail.push(ReplyTextKind::Reasoning, text);
                self.transcript.append(EntryKind::Reasoning, text, at);
                self.set_activity(AgentActivity::Reasoning, at);
            }
            ModelEvent::ModelRequestFinished { .. } => {
                self.transcript.finish_entry();
                self.has_open_request = false;
                self.end_activity(at);
            }
            ModelEvent::Replied { calls, .. } => {
                let mut submissions = calls.iter().filter_map(|call| submission(&call.name));
                if let Some(submission) = submissions.next() {
                    self.set_activity(AgentActivity::Submitting(submission), at);
                }
            }
            ModelEvent::Failed { reason, .. } => self.note(&format!("failed: {reason}"), at),
            ModelEvent::Retrying {
                reason, wait_ms, ..
            } => {
                self.note(&format!("the request failed: {reason}"), at);
                let (reason, wait_ms) = (reason.clone(), *wait_ms);
                self.set_activity(AgentActivity::Retrying { reason, wait_ms }, at);
            }
            ModelEvent::RateLimited {
                reason, wait_ms, ..
            } => {
                let (reason, wait_ms) = (reason.clone(), *wait_ms);
                self.set_activity(AgentActivity::RateLimited { reason, wait_ms }, at);
            }
            ModelEvent::ModelFallback {
                from, to, reason, ..
            } => self.note(&format!("switches to {to} from {from}: {reason}"), at),
            ModelEvent::ContextCompacted { removal, .. } => {
                self.note(&format!("compacts its context: {removal}"), at);
            }
        }
    }

    fn apply_tool_event(&mut self, event: &ToolEvent, at: EventPosition) {
        match event {
            ToolEvent::ToolCalled { .. } | ToolEvent::NativeToolCall { .. } => {
                if let Some(call) = ToolCallView::from_event(event, self.cwd.as_deref(), at) {
                    self.start_call(call, at);
                }
            }
            ToolEvent::ToolFinished { .. } => self.finish_call(event, at),
            ToolEvent::PlanUpdated { entries, .. } => {
                self.note(&format!("updates its plan: {entries}"), at);
                self.plan = Some(entries.clone());
            }
            ToolEvent::ApprovalQueued { tool, waiting, .. } => {
                self.apply_queued_approval(tool, *waiting, at);
            }
            ToolEvent::Approval { tool, answer, .. } => match answer {
                None => self.set_activity(AgentActivity::WaitingForApproval(tool.clone()), at),
                Some(answer) => {
                    self.note(&format!("approval of {tool}: {answer}"), at);
                    self.resume_calls(at);
                }
            },
            ToolEvent::HookRan {
                command, decision, ..
            } => self.note(&format!("hook `{command}`: {decision}"), at),
            ToolEvent::ServerProgress { .. } => {}
        }
    }

    /// Folds the wait of a request for approval into the agent. While the user is asked about
    /// another of its calls, the agent stays in that state.
    fn apply_queued_approval(&mut self, tool: &str, waiting: bool, at: EventPosition) {
        let is_asking = matches!(self.activity, AgentActivity::WaitingForApproval(_));
        let is_queued = matches!(self.activity, AgentActivity::QueuedForApproval(_));
        if waiting && !is_asking {
            self.set_activity(AgentActivity::QueuedForApproval(tool.to_owned()), at);
        } else if !waiting && is_queued {
            self.resume_calls(at);
        }
    }

    /// Sets what the agent does while its model is asked before the first round.
    fn apply_preparation_event(&mut self, event: &SubagentEvent, at: EventPosition) {
        match event {
            SubagentEvent::SubagentStarted { subagent, .. } => {
                self.set_activity(AgentActivity::Preparing(subagent.to_string()), at);
            }
            SubagentEvent::SubagentModel {
                subagent, event, ..
            } => {
                if let Some(activity) = preparation_activity(subagent, event) {
                    self.set_activity(activity, at);
                }
            }
            SubagentEvent::SubagentFinished { .. } => self.end_activity(at),
            SubagentEvent::SubagentTool { .. } => {}
        }
    }

    /// Adds what a subagent does to the agent's transcript.
    fn apply_subagent_event(&mut self, event: &SubagentEvent, at: EventPosition) {
        let name = event.key().subagent;
        let mut push = |kind, text: &str| {
            let text = format!("subagent {name}: {text}");
            self.transcript.push(kind, &text, at);
        };
        match event {
            SubagentEvent::SubagentStarted { task, .. } => push(EntryKind::Note, task),
            SubagentEvent::SubagentModel { event, .. } => match event {
                ModelEvent::Replied { text, .. } if !text.trim().is_empty() => {
                    push(EntryKind::Text, text);
                    self.transcript.finish_entry();
                }
                ModelEvent::Failed { reason, .. } => {
                    push(EntryKind::Note, &format!("failed: {reason}"));
                }
                ModelEvent::Retrying { reason, .. } => {
                    push(EntryKind::Note, &format!("the request failed: {reason}"));
                }
                ModelEvent::ModelRequestStarted { .. }
                | ModelEvent::ModelRequestFinished { .. }
                | ModelEvent::Text { .. }
                | ModelEvent::Reasoning { .. }
                | ModelEvent::Replied { .. }
                | ModelEvent::RateLimited { .. }
                | ModelEvent::ModelFallback { .. }
                | ModelEvent::ContextCompacted { .. } => {}
            },
            SubagentEvent::SubagentTool {
                event: call @ ToolEvent::ToolCalled { .. },
                ..
            } => {
                if let Some(call) = ToolCallView::from_event(call, self.cwd.as_deref(), at) {
                    push(EntryKind::Call, &call.sentence());
                }
            }
            SubagentEvent::SubagentTool { .. } => {}
            SubagentEvent::SubagentFinished { status, reason, .. } => match reason {
                Some(reason) => push(EntryKind::Note, &format!("{status}: {reason}")),
                None => push(EntryKind::Note, &status.to_string()),
            },
        }
    }

    fn start_call(&mut self, call: ToolCallView, at: EventPosition) {
        self.transcript.push(EntryKind::Call, &call.sentence(), at);
        if call.outcome == ToolCallOutcome::Running {
            self.set_activity(AgentActivity::RunningTool(call.tool.clone()), at);
        }
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
    }

    fn finish_call(&mut self, event: &ToolEvent, at: EventPosition) {
        let ToolEvent::ToolFinished {
            call_id,
            success,
            denied,
            summary,
            measure,
            elapsed_ms,
            ..
        } = event
        else {
            return;
        };
        let summary = single_line(summary, CALL_CHARS_MAX);
        let (kind, outcome) = match (success, denied) {
            (_, true) => (
                EntryKind::Denial,
                ToolCallOutcome::Denied {
                    // The result begins with the same word as the note about it.
                    reason: summary.trim_start_matches("denied: ").to_owned(),
                    rule: None,
                },
            ),
            (true, false) => (
                EntryKind::Result,
                ToolCallOutcome::Succeeded {
                    summary: summary.clone(),
                },
            ),
            (false, false) => (
                EntryKind::Failure,
                ToolCallOutcome::Failed {
                    summary: summary.clone(),
                },
            ),
        };
        self.transcript.push(kind, &summary, at);
        let mut newest_first = self.calls.iter_mut().rev();
        let ended_call = newest_first
            .find(|call| call.call_id == *call_id && call.outcome == ToolCallOutcome::Running);
        if let Some(call) = ended_call {
            call.finish(outcome, measure.as_deref(), *elapsed_ms);
            self.transcript.amend_call(&call.text, call.sentence());
        }
        self.resume_calls(at);
    }

    /// Ends the current activity: the agent continues the last call that has not ended, such as the
    /// program whose own call has just ended. Without one, it waits for its model again or is
    /// idle.
    fn resume_calls(&mut self, at: EventPosition) {
        match self.running_call().map(|call| call.tool.clone()) {
            Some(tool) => self.set_activity(AgentActivity::RunningTool(tool), at),
            None => self.end_activity(at),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "events that are not named change nothing here"
    )]
    fn apply_coordination_event(&mut self, event: &CoordinationEvent, at: EventPosition) {
        match event {
            CoordinationEvent::Answered { label, .. } => {
                self.answer = Some(*label);
                self.vote = None;
                self.waits_for_others = true;
                self.note(&format!("answers as {label}"), at);
                self.end_activity(at);
            }
            CoordinationEvent::Voted {
                candidate,
                label,
                reason,
                ..
            } => {
                self.vote = Some(*label);
                self.candidate = Some(candidate.clone());
                self.waits_for_others = true;
                self.note(&format!("votes for {candidate} ({label}): {reason}"), at);
                self.end_activity(at);
            }
            CoordinationEvent::SubmissionRejected { reason, .. } => {
                let cause = rejection_cause(reason);
                self.note(&format!("decision not counted: {cause}"), at);
            }
            CoordinationEvent::AnswersShown { labels, .. } => {
                let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
                self.note(&format!("sees {}", labels.join(", ")), at);
            }
            CoordinationEvent::DroppedOut { reason, .. } => {
                self.note(&format!("drops out: {reason}"), at);
                self.has_open_request = false;
                self.set_activity(AgentActivity::DroppedOut(reason.clone()), at);
            }
            _ => {}
        }
    }

    fn apply_delivery_event(&mut self, event: &DeliveryEvent, at: EventPosition) {
        match event {
            DeliveryEvent::FinalStarted { .. } => self.note("presents the final answer", at),
            DeliveryEvent::AnswerKept { reason, .. } => {
                self.note(&format!("keeps the answer that was voted on: {reason}"), at);
            }
            DeliveryEvent::Checking { check, .. } => {
                self.set_activity(AgentActivity::Checking(check.clone()), at);
            }
            DeliveryEvent::Checked { finding, .. } => {
                let verdict = finding.verdict.word();
                self.note(&format!("check {}: {verdict}", finding.check), at);
                self.end_activity(at);
            }
            DeliveryEvent::FinalAnswer { .. } => self.end_activity(at),
            DeliveryEvent::Delivered { .. } => {}
        }
    }
}

/// Returns what a call of `tool` submits to the ballot; `None` if it submits nothing.
fn submission(tool: &str) -> Option<&'static str> {
    match tool {
        NEW_ANSWER => Some("an answer"),
        VOTE => Some("a vote"),
        _ => None,
    }
}

/// Returns what an agent does after `event` of the request `subagent` before the first round;
/// `None` if the event does not change that.
fn preparation_activity(subagent: &SubagentId, event: &ModelEvent) -> Option<AgentActivity> {
    match event {
        ModelEvent::ModelRequestStarted { .. } => {
            Some(AgentActivity::Preparing(subagent.to_string()))
        }
        ModelEvent::Retrying {
            reason, wait_ms, ..
        } => Some(AgentActivity::Retrying {
            reason: reason.clone(),
            wait_ms: *wait_ms,
        }),
        ModelEvent::RateLimited {
            reason, wait_ms, ..
        } => Some(AgentActivity::RateLimited {
            reason: reason.clone(),
            wait_ms: *wait_ms,
        }),
        ModelEvent::ModelRequestFinished { .. }
        | ModelEvent::Text { .. }
        | ModelEvent::Reasoning { .. }
        | ModelEvent::Replied { .. }
        | ModelEvent::Failed { .. }
        | ModelEvent::ModelFallback { .. }
        | ModelEvent::ContextCompacted { .. } => None,
    }
}
