//! The calls that wait for the user's approval.

use serde::Serialize;

use crate::event::ToolEvent;
use crate::id::AgentId;
use crate::run_view::EventPosition;
use crate::text::escape_name;

/// A call that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingApproval {
    /// The agent that makes the call.
    pub agent: AgentId,
    /// The id of the call in the conversation, if it has one.
    pub call_id: Option<String>,
    /// The tool.
    pub tool: String,
    /// The effects of the call, one each, escaped.
    pub effects: Vec<String>,
    /// Why approval is required.
    pub reason: String,
    /// When the user was asked, in milliseconds after the start of the run.
    pub since_ms: u64,
}

/// Adds the approval that `event` requests, or removes the one that it answers.
pub(super) fn apply(pending: &mut Vec<PendingApproval>, event: &ToolEvent, at: EventPosition) {
    let ToolEvent::Approval {
        agent,
        call_id,
        tool,
        effects,
        reason,
        answer,
        ..
    } = event
    else {
        return;
    };
    let effects: Vec<String> = effects.iter().map(|effect| escape_name(effect)).collect();
    let is_same = |known: &PendingApproval| {
        known.agent == *agent
            && known.call_id == *call_id
            && known.tool == *tool
            && known.effects == effects
    };
    if answer.is_some() {
        if let Some(index) = pending.iter().position(is_same) {
            pending.remove(index);
        }
    } else {
        pending.push(PendingApproval {
            agent: agent.clone(),
            call_id: call_id.clone(),
            tool: tool.clone(),
            effects,
            reason: reason.clone(),
            since_ms: at.elapsed_ms,
        });
    }
}
