//! What the user reads about a message that waits: which stage it waits for.

use crate::agent::user_messages::UserMessage;
use crate::id::AgentId;
use crate::pipeline::role_instance::RoleInstance;
use crate::pipeline::{MESSAGE_CHARS_SHOWN_MAX, instance_agents};
use crate::roles::progress::next_stage_where;
use crate::roles::{PipelineSpec, PipelineStage};
use crate::text::single_line;

/// Returns the line about `message`, for which no agent works; `last` is the iteration and the
/// stage, from 0, that began last.
pub(super) fn waiting_notice(
    pipeline: &PipelineSpec,
    message: &UserMessage,
    last: Option<(u32, usize)>,
) -> String {
    let to = message.to.agent();
    let is_meant = |number: usize, stage: &PipelineStage| {
        to.is_none_or(|agent| may_work_in(stage, number, agent))
    };
    let next_stage = next_stage_where(pipeline, last, is_meant).and_then(|(iteration, number)| {
        let stage = pipeline.stage(number)?;
        let (role, count) = (stage.role.name.as_str(), pipeline.stages.len());
        let stage = format!("stage {} of {count} ({role})", number.saturating_add(1));
        Some(match last {
            Some((current, _)) if current != iteration => {
                format!("{stage} begins in iteration {iteration}, if there is one")
            }
            Some(_) | None => format!("{stage} begins"),
        })
    });
    let who = to.map_or_else(
        || "no role works now".to_owned(),
        |agent| format!("{agent} does not work now"),
    );
    let when = next_stage.map_or_else(
        || "no further stage reads your message".to_owned(),
        |begins| format!("your message is read when {begins}"),
    );
    let text = single_line(&message.text, MESSAGE_CHARS_SHOWN_MAX);
    format!("{who}: {when}: {text}")
}

/// Returns whether `agent` may work in the stage with this number, in any copy of its role.
fn may_work_in(stage: &PipelineStage, number: usize, agent: &AgentId) -> bool {
    (1..=stage.copies).any(|copy| {
        let instance = RoleInstance::new(&stage.role, 1, number, copy, stage.copies);
        instance_agents(stage, &instance).is_ok_and(|agents| agents.contains(agent))
    })
}
