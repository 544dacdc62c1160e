//! The notice about a message of the user that waits: which stage it waits for.

use crate::agent::user_messages::UserMessage;
use crate::id::AgentId;
use crate::pipeline::role_instance::RoleInstance;
use crate::pipeline::{MESSAGE_CHARS_SHOWN_MAX, instance_agents};
use crate::roles::progress::next_stage_where;
use crate::roles::{PipelineSpec, PipelineStage};
use crate::text::single_line;

/// Returns the notice about `message`, for which no agent works; `last_stage` is the iteration and
/// the index of the stage that began last.
pub(super) fn waiting_notice(
    pipeline: &PipelineSpec,
    message: &UserMessage,
    last_stage: Option<(u32, usize)>,
) -> String {
    let recipient = message.to.agent();
    let is_recipient = |stage_index: usize, stage: &PipelineStage| {
        recipient.is_none_or(|agent| may_work_in(stage, stage_index, agent))
    };
    let next_stage = next_stage_where(pipeline, last_stage, is_recipient).and_then(
        |(iteration, stage_index)| {
            let stage = pipeline.stage(stage_index)?;
            let (role, count) = (stage.role.name.as_str(), pipeline.stages.len());
            let stage = format!(
                "stage {} of {count} ({role})",
                stage_index.saturating_add(1)
            );
            Some(match last_stage {
                Some((current, _)) if current != iteration => {
                    format!("{stage} begins in iteration {iteration}, if there is one")
                }
                Some(_) | None => format!("{stage} begins"),
            })
        },
    );
    let recipient_state = recipient.map_or_else(
        || "no role works now".to_owned(),
        |agent| format!("{agent} does not work now"),
    );
    let when = next_stage.map_or_else(
        || "no further stage reads your message".to_owned(),
        |begins| format!("your message is read when {begins}"),
    );
    let text = single_line(&message.text, MESSAGE_CHARS_SHOWN_MAX);
    format!("{recipient_state}: {when}: {text}")
}

/// Returns whether `agent` may work in the stage with this index, in any copy of its role.
fn may_work_in(stage: &PipelineStage, stage_index: usize, agent: &AgentId) -> bool {
    (1..=stage.copies).any(|copy| {
        let instance = RoleInstance::new(&stage.role, 1, stage_index, copy, stage.copies);
        instance_agents(stage, &instance).is_ok_and(|agents| agents.contains(agent))
    })
}
