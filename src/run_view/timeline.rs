//! What each agent did when: spans for requests, tool calls, checks and waits, and marks for
//! answers and votes. Each agent has a lane; its oldest spans go first when it is full.

use std::collections::VecDeque;

use serde::Serialize;

use crate::event::{CoordinationEvent, DeliveryEvent, Event, ModelEvent, SubagentEvent, ToolEvent};
use crate::id::AgentId;
use crate::run_view::EventPosition;
use crate::text::single_line;

/// Maximum number of spans in a lane.
pub const SPANS_MAX: usize = 1_000;
/// Maximum length of the label of a span, in characters.
const LABEL_CHARS_MAX: usize = 80;

/// All lanes, in the order in which the agents first did something.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    lanes: Vec<TimelineLane>,
}

/// The lane of an agent.
#[derive(Clone, Debug, Serialize)]
pub struct TimelineLane {
    /// The agent.
    pub agent: AgentId,
    /// Its spans, in the order of their ends.
    pub spans: VecDeque<TimelineSpan>,
    /// The number of older spans that are not kept.
    pub dropped: u64,
    /// What the agent does now, or waits for; `None` if it is idle.
    pub open: Option<OpenSpan>,
}

/// A span that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenSpan {
    /// What it is.
    pub kind: SpanKind,
    /// The start, in milliseconds after the start of the run.
    pub from_ms: u64,
    /// The label, as in [`TimelineSpan::label`].
    pub label: String,
}

/// Something that an agent did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineSpan {
    /// What it is.
    pub kind: SpanKind,
    /// The start, in milliseconds after the start of the run.
    pub from_ms: u64,
    /// The end; equal to the start for an answer or a vote.
    pub to_ms: u64,
    /// The name of the model, tool, check or answer, or of what the model wrote before the first
    /// round, such as `personas`; for a wait, whom or what the agent waited for, or why.
    pub label: String,
}

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// A request to a model.
    Model,
    /// A tool call.
    Tool,
    /// A tool call that was denied.
    Denied,
    /// A wait before a retry, or because of a rate limit.
    Wait,
    /// A wait for other agents.
    Others,
    /// A wait for another role of the agent's pipeline.
    #[serde(rename = "turn")]
    OtherRole,
    /// A wait for the user's approval of a call.
    Approval,
    /// A check of the agent's work.
    Check,
    /// An answer.
    Answer,
    /// A vote.
    Vote,
}

impl Timeline {
    /// Returns the lanes.
    pub fn lanes(&self) -> &[TimelineLane] {
        &self.lanes
    }

    /// Folds an event into the timeline. Returns whether it changed.
    pub(super) fn apply(&mut self, event: &Event, at: EventPosition) -> bool {
        let (Some(agent), Some(span)) = (event.agent(), span_of(event, at.elapsed_ms)) else {
            return false;
        };
        if let Some(lane) = self.lane(agent) {
            lane.push(span);
        }
        true
    }

    /// Sets what `agent` does, or waits for, from now on; what it did before that ends. Returns
    /// whether it changed.
    pub(super) fn set_open(
        &mut self,
        agent: &AgentId,
        open: Option<(SpanKind, &str)>,
        at: EventPosition,
    ) -> bool {
        let new_span = open.map(|(kind, label)| OpenSpan {
            kind,
            from_ms: at.elapsed_ms,
            label: single_line(label, LABEL_CHARS_MAX),
        });
        let mut lanes = self.lanes.iter();
        let lane = lanes.find(|lane| lane.agent == *agent);
        let open_span = lane.and_then(|lane| lane.open.as_ref());
        if open_span.map(OpenSpan::subject) == new_span.as_ref().map(OpenSpan::subject) {
            return false;
        }
        if let Some(lane) = self.lane(agent) {
            lane.close(at);
            lane.open = new_span;
        }
        true
    }

    /// Ends what is open in all lanes. Returns whether there was anything.
    pub(super) fn close_all(&mut self, at: EventPosition) -> bool {
        let mut is_changed = false;
        for lane in &mut self.lanes {
            is_changed |= lane.open.is_some();
            lane.close(at);
        }
        is_changed
    }

    /// Returns the lane of `agent`, which is added if there is none.
    fn lane(&mut self, agent: &AgentId) -> Option<&mut TimelineLane> {
        if !self.lanes.iter().any(|lane| lane.agent == *agent) {
            self.lanes.push(TimelineLane {
                agent: agent.clone(),
                spans: VecDeque::new(),
                dropped: 0,
                open: None,
            });
        }
        self.lanes.iter_mut().find(|lane| lane.agent == *agent)
    }
}

impl TimelineLane {
    fn push(&mut self, span: TimelineSpan) {
        if self.spans.len() == SPANS_MAX {
            self.spans.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
        self.spans.push_back(span);
    }

    /// Ends what is open. A wait that took some time becomes a span; what else ends has an event of
    /// its own, with the exact time.
    fn close(&mut self, at: EventPosition) {
        let ended_span = self.open.take();
        let is_kept = |open: &OpenSpan| open.kind.is_wait() && open.from_ms < at.elapsed_ms;
        if let Some(wait) = ended_span.filter(is_kept) {
            self.push(TimelineSpan {
                kind: wait.kind,
                from_ms: wait.from_ms,
                to_ms: at.elapsed_ms,
                label: wait.label,
            });
        }
    }
}

impl SpanKind {
    /// Returns whether it is a wait whose end is not known when it begins.
    pub fn is_wait(self) -> bool {
        matches!(
            self,
            SpanKind::Others | SpanKind::OtherRole | SpanKind::Approval
        )
    }
}

impl OpenSpan {
    /// Returns what tells it apart from other spans of the agent.
    fn subject(&self) -> (SpanKind, &str) {
        (self.kind, self.label.as_str())
    }
}

/// Returns the span that `event` reports at `now`, in milliseconds after the start of the run. A
/// wait before a retry, or for a rate limit, begins then; all other spans end then.
fn span_of(event: &Event, now: u64) -> Option<TimelineSpan> {
    let span = |kind, from_ms: u64, to_ms: u64, label: &str| {
        Some(TimelineSpan {
            kind,
            from_ms,
            to_ms,
            label: single_line(label, LABEL_CHARS_MAX),
        })
    };
    let span_until_now =
        |kind, elapsed_ms: u64, label: &str| span(kind, now.saturating_sub(elapsed_ms), now, label);
    match event {
        Event::Model(ModelEvent::ModelRequestFinished {
            model, elapsed_ms, ..
        }) => span_until_now(SpanKind::Model, *elapsed_ms, model),
        Event::Model(
            ModelEvent::Retrying {
                reason, wait_ms, ..
            }
            | ModelEvent::RateLimited {
                reason, wait_ms, ..
            },
        ) => span(SpanKind::Wait, now, now.saturating_add(*wait_ms), reason),
        Event::Tool(ToolEvent::ToolFinished {
            tool,
            denied,
            elapsed_ms,
            ..
        }) => {
            let kind = if *denied {
                SpanKind::Denied
            } else {
                SpanKind::Tool
            };
            span_until_now(kind, *elapsed_ms, tool)
        }
        Event::Tool(
            ToolEvent::ToolCalled {
                tool,
                denied: Some(_),
                ..
            }
            | ToolEvent::NativeToolCall {
                tool,
                denied: Some(_),
                ..
            },
        ) => span_until_now(SpanKind::Denied, 0, tool),
        Event::Tool(ToolEvent::NativeToolCall { tool, .. }) => {
            span_until_now(SpanKind::Tool, 0, tool)
        }
        Event::Subagent(
            event @ SubagentEvent::SubagentFinished {
                subagent,
                elapsed_ms,
                ..
            },
        ) if event.separate_call().is_some() => {
            span_until_now(SpanKind::Model, *elapsed_ms, subagent.as_str())
        }
        Event::Delivery(DeliveryEvent::Checked { finding, .. }) => {
            span_until_now(SpanKind::Check, finding.elapsed_ms, &finding.check)
        }
        Event::Coordination(CoordinationEvent::Answered { label, .. }) => {
            span_until_now(SpanKind::Answer, 0, &label.to_string())
        }
        Event::Coordination(CoordinationEvent::Voted { label, .. }) => {
            span_until_now(SpanKind::Vote, 0, &label.to_string())
        }
        Event::Run(_)
        | Event::Model(_)
        | Event::Tool(_)
        | Event::Subagent(_)
        | Event::Delivery(_)
        | Event::Coordination(_)
        | Event::Pipeline(_) => None,
    }
}
