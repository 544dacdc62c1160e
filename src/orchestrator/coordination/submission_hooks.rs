//! Asks the user's hooks about answers and votes.

use std::pin::pin;

use crate::agent::round::AgentSubmission;
use crate::id::{AgentNumber, AnswerLabel};
use crate::orchestrator::check_runner::{CheckTarget, CheckedFiles};
use crate::orchestrator::coordination::Coordinator;
use crate::orchestrator::hooks::{self, HookEventPayload};
use crate::permissions::grant::Phase;
use crate::world::access::hook_runner::HookRunner;
use crate::world::sandbox::overlay::WriteOverlay;

impl Coordinator<'_> {
    /// Returns why the user's hooks reject a submission, if they do.
    pub(super) async fn hook_refusal(
        &self,
        agent: AgentNumber,
        submission: &AgentSubmission,
    ) -> Option<String> {
        let participant = self.participants.get(&agent)?;
        let hooks = participant.hooks.as_ref()?;
        let latest_label = |agent| self.answers.get(agent).map(|answer| answer.label);
        let payload = match submission {
            // Its hooks are asked about what is captured.
            AgentSubmission::Answer { .. } if participant.attempt.is_some() => return None,
            AgentSubmission::Answer { content, .. } => {
                let previous_ordinal = latest_label(&agent).map_or(0, |label| label.ordinal);
                let ordinal = previous_ordinal.saturating_add(1);
                HookEventPayload::Answer(AnswerLabel { agent, ordinal }, content.clone())
            }
            AgentSubmission::Vote {
                candidate, reason, ..
            } => HookEventPayload::Vote(
                self.id(*candidate)?,
                latest_label(candidate)?,
                reason.clone(),
            ),
            AgentSubmission::Stopped { .. } => return None,
        };
        self.ask_hooks(hooks, payload, Phase::Coordination, None)
            .await
    }

    /// Returns why the user's hooks reject an answer whose changes are captured in `target`, if they do.
    pub(super) async fn captured_answer_refusal(
        &self,
        label: AnswerLabel,
        content: &str,
        target: &CheckTarget,
    ) -> Option<String> {
        let participant = self.participants.get(&label.agent)?;
        let (hooks, attempt) = (participant.hooks.as_ref()?, participant.attempt.as_ref()?);
        let CheckTarget::Answer(Ok(CheckedFiles::Changes(changes))) = target else {
            return None;
        };
        if self.recorded_changes.contains_key(&label) {
            return None;
        }
        let view = match attempt.open_view(&changes.layers).await {
            Ok(view) => view,
            Err(error) => return Some(format!("hooks cannot see the answer: {error:#}")),
        };
        let payload = HookEventPayload::Answer(label, content.to_owned());
        let refusal = self.ask_hooks(hooks, payload, Phase::Attempt, view).await;
        attempt.remove_view().await;
        refusal
    }

    async fn ask_hooks(
        &self,
        hooks: &HookRunner,
        payload: HookEventPayload,
        phase: Phase,
        view: Option<WriteOverlay>,
    ) -> Option<String> {
        let cancellation = self.deadline.stop.child_token();
        let mut refusal = pin!(hooks::hook_refusal(
            hooks,
            payload,
            phase,
            view,
            &cancellation
        ));
        tokio::select! {
            refusal = &mut refusal => refusal,
            _ = self.deadline.wait() => {
                cancellation.cancel();
                refusal.await
            }
        }
    }
}
