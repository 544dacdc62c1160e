//! The conversation of a role up to a stage run: its earlier stage runs, as the turns of a session
//! are for the next one.

use crate::agent::recorded_conversation::{RecordedConversation, RecordedReply};
use crate::error::Result;
use crate::orchestrator::resumed_turn::RecordedConversations;
use crate::permissions::grant::Phase;
use crate::pipeline::PipelineRun;
use crate::pipeline::role_instance::RoleInstance;
use crate::pipeline::stage_run::{StageRun, read_events};
use crate::prompts::compaction::{CompactedCall, CompactedStep, answer_after_steps};
use crate::resume::complete_replies;
use crate::world::store::sessions::turn::PreviousTurn;
use crate::world::store::{runs, sessions};

impl PipelineRun {
    /// Returns the stage runs of the same role instance that ended before `stage_run`, the oldest
    /// first: in this iteration and in earlier ones.
    pub(super) fn earlier_conversation(
        &self,
        stage_run: &StageRun<'_>,
    ) -> Result<Vec<PreviousTurn>> {
        let current = (stage_run.instance.iteration, stage_run.task.attempt());
        let mut turns = Vec::new();
        for iteration in 1..=current.0 {
            let instance = RoleInstance {
                iteration,
                ..stage_run.instance.clone()
            };
            for attempt in 0..=self.newest_repair_attempt(&instance)? {
                if (iteration, attempt) < current
                    && let Some(turn) = self.stage_run_as_turn(&instance, attempt)?
                {
                    turns.push(turn);
                }
            }
        }
        for (number, turn) in (1..).zip(&mut turns) {
            turn.metadata.turn = number;
        }
        Ok(turns)
    }

    /// Returns the saved turn of a stage run, whose answer follows what the agent did for it; `None` if
    /// no answer was saved.
    fn stage_run_as_turn(
        &self,
        instance: &RoleInstance,
        attempt: u32,
    ) -> Result<Option<PreviousTurn>> {
        for session in sessions::list(&self.sessions(instance, attempt))? {
            let Some(turn) = session.turns()?.pop() else {
                continue;
            };
            let log_dir = &turn.metadata.log_dir;
            // Its records may have been removed.
            let run = runs::find(&log_dir.to_string(), log_dir, &self.context.run.base);
            let mut events = run.map_or_else(|_| Ok(Vec::new()), |run| read_events(&run))?;
            complete_replies(events.iter_mut());
            let conversation = RecordedConversations::from_events(&events)
                .take(&turn.metadata.winning_agent, Phase::Coordination)
                .unwrap_or_default();
            return Ok(Some(PreviousTurn {
                answer: answer_after_steps(&turn.answer, &steps(&conversation)),
                // The files are in its checkout.
                workspace: None,
                ..turn
            }));
        }
        Ok(None)
    }
}

fn steps(conversation: &RecordedConversation) -> Vec<CompactedStep<'_>> {
    let mut steps = Vec::new();
    for reply in &conversation.replies {
        if let RecordedReply::Whole { text, calls, .. } = reply {
            let calls = calls.iter().map(|call| CompactedCall {
                tool: &call.name,
                arguments: &call.arguments,
                result: (conversation.result_of(&call.id)).map_or("", |result| &result.content),
            });
            steps.push(CompactedStep {
                text,
                calls: calls.collect(),
            });
        }
    }
    steps
}
