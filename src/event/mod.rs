//! The events that a run reports while it is running: one closed list, in groups. The event log,
//! `status.json` and the terminal output are all derived from them.
//!
//! The groups are not part of the JSON form: each event is one object whose `type` is the name of
//! its variant in snake case.

mod coordination;
mod delivery;
mod json;
mod model;
mod pipeline;
mod run;
mod subagent;
mod tool;

use std::borrow::Cow;
use std::mem::discriminant;
use std::sync::Arc;

use derive_more::From;

pub use crate::event::coordination::{CoordinationEvent, rejection_cause};
pub use crate::event::delivery::{
    CheckedTree, DeliveryEvent, DeliveryOutcome, DeliveryRow, HunkCount,
};
pub use crate::event::model::{ModelEvent, ReplyTextKind, SetupProblem, StopReason};
pub use crate::event::pipeline::PipelineEvent;
pub use crate::event::run::{OfferedSkill, RunEvent};
pub use crate::event::subagent::{
    CRITERIA_SUBAGENT, SeparateCall, SubagentEvent, SubagentKey, SubagentStatus,
};
pub use crate::event::tool::{ApprovalAnswer, InputChannel, NestedRefusal, ToolEvent};
use crate::id::AgentId;
use crate::spending::totals::{RequestTotals, SpendingPhase, UsageKey, UsageTotals};

/// An event of a run. Its JSON form is the content of a line of the event log and of the stream for
/// scripts.
#[derive(Clone, Debug, From, PartialEq)]
pub enum Event {
    /// An event of the whole run.
    Run(RunEvent),
    /// An event of an agent's request to a model.
    Model(ModelEvent),
    /// An event of a tool call.
    Tool(ToolEvent),
    /// An event of a subagent.
    Subagent(SubagentEvent),
    /// An event of a coordination.
    Coordination(CoordinationEvent),
    /// An event of a delivery.
    Delivery(DeliveryEvent),
    /// An event of a pipeline of roles.
    Pipeline(PipelineEvent),
}

impl Event {
    /// Returns the agent that the event is about, if there is one.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Event::Run(event) => event.agent(),
            Event::Model(event) => Some(event.agent()),
            Event::Tool(event) => event.agent(),
            Event::Subagent(event) => Some(event.key().agent),
            Event::Coordination(event) => event.agent(),
            Event::Delivery(event) => event.agent(),
            Event::Pipeline(_) => None,
        }
    }

    /// Returns whether `other` is an event of the same name.
    pub fn is_same_kind(&self, other: &Self) -> bool {
        fn are_same<E>(one: &E, other: &E) -> bool {
            discriminant(one) == discriminant(other)
        }
        match (self, other) {
            (Event::Run(one), Event::Run(other)) => are_same(one, other),
            (Event::Model(one), Event::Model(other)) => are_same(one, other),
            (Event::Tool(one), Event::Tool(other)) => are_same(one, other),
            (Event::Subagent(one), Event::Subagent(other)) => are_same(one, other),
            (Event::Coordination(one), Event::Coordination(other)) => are_same(one, other),
            (Event::Delivery(one), Event::Delivery(other)) => are_same(one, other),
            (one, other) => are_same(one, other),
        }
    }

    /// Returns whether it is a piece of streamed model output.
    pub fn is_streamed(&self) -> bool {
        matches!(
            self,
            Event::Model(ModelEvent::Text { .. } | ModelEvent::Reasoning { .. })
        )
    }

    /// Returns the event without the fields that only the event log has, for resuming a run.
    pub fn without_log_fields(&self) -> Cow<'_, Self> {
        let mut event = Cow::Borrowed(self);
        if let Event::Model(ModelEvent::Replied { .. })
        | Event::Tool(ToolEvent::ToolFinished { .. })
        | Event::Subagent(
            SubagentEvent::SubagentModel { .. } | SubagentEvent::SubagentTool { .. },
        ) = self
        {
            event.to_mut().clear_log_fields();
        }
        event
    }

    fn clear_log_fields(&mut self) {
        if let Event::Model(ModelEvent::Replied { echo, .. })
        | Event::Subagent(SubagentEvent::SubagentModel {
            event: ModelEvent::Replied { echo, .. },
            ..
        }) = self
        {
            *echo = None;
        } else if let Event::Tool(ToolEvent::ToolFinished {
            content, images, ..
        })
        | Event::Subagent(SubagentEvent::SubagentTool {
            event: ToolEvent::ToolFinished {
                content, images, ..
            },
            ..
        }) = self
        {
            *content = None;
            images.clear();
        }
    }

    /// Returns the event of a request to a model, of an agent or of one of its subagents. Both are
    /// charged to the agent.
    pub fn as_model_event(&self) -> Option<&ModelEvent> {
        if let Event::Model(event) | Event::Subagent(SubagentEvent::SubagentModel { event, .. }) =
            self
        {
            Some(event)
        } else {
            None
        }
    }

    /// Returns the event of a tool call of a subagent, with an id of the call that differs from
    /// those of the agent's own calls.
    pub fn as_scoped_tool_event(&self) -> Option<ToolEvent> {
        let Event::Subagent(SubagentEvent::SubagentTool {
            call_id: parent,
            subagent,
            event,
            ..
        }) = self
        else {
            return None;
        };
        let mut event = event.clone();
        if let ToolEvent::ToolCalled { call_id, .. } | ToolEvent::ToolFinished { call_id, .. } =
            &mut event
        {
            *call_id = format!("{parent}/{subagent}/{call_id}");
        }
        Some(event)
    }

    /// Returns the event of a tool call, of an agent or of one of its subagents.
    pub fn as_tool_event(&self) -> Option<&ToolEvent> {
        if let Event::Tool(event) | Event::Subagent(SubagentEvent::SubagentTool { event, .. }) =
            self
        {
            Some(event)
        } else {
            None
        }
    }

    /// Returns whether it is an event of a request that compares answers.
    fn is_comparison(&self) -> bool {
        let comparison = SeparateCall::Comparison.id();
        matches!(self, Event::Subagent(SubagentEvent::SubagentModel { call_id, .. }) if call_id == comparison)
    }

    /// Returns what a request to a model used that ended, and the account that it is charged to.
    pub fn request_usage(&self) -> Option<(UsageKey, RequestTotals)> {
        let Some(ModelEvent::ModelRequestFinished {
            agent,
            model,
            phase,
            usage,
            cost_usd,
            ..
        }) = self.as_model_event()
        else {
            return None;
        };
        let phase = if self.is_comparison() {
            SpendingPhase::Selection
        } else {
            SpendingPhase::from(*phase)
        };
        let key = UsageKey {
            agent: agent.clone(),
            model: Arc::clone(model),
            phase,
        };
        Some((key, RequestTotals::of_request(*usage, *cost_usd)))
    }

    /// Adds the usage that the event reports, if any, to `totals`.
    pub fn add_to_totals(&self, totals: &mut UsageTotals) {
        if let Some((key, used)) = self.request_usage() {
            totals.charge(key, used);
        }
        if let Some(ToolEvent::ToolCalled { agent, .. }) = self.as_tool_event() {
            totals.count_tool_call(agent);
        }
    }
}
