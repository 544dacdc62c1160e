//! The end of a turn: what it leaves in its session and in the files that the config key `record`
//! names, and the last events of its run.

use crate::config::Config;
use crate::error::{ExitStatus, Result};
use crate::event::{DeliveryRow, RunEvent};
use crate::id::AgentId;
use crate::orchestrator::TurnResult;
use crate::orchestrator::event_sinks::{EventSinks, SessionTurn};
use crate::orchestrator::memory::MemoryKeeper;
use crate::orchestrator::overlays::PendingDelivery;
use crate::orchestrator::snapshots::{SnapshotMode, SnapshotStore};
use crate::orchestrator::team::AgentTeam;
use crate::path::AbsPath;
use crate::world::store::records::{Recorder, replies};
use crate::world::store::sessions::session::{
    FinishedTurn, LiveWorkspace, SavedTurn, Session, TurnContext,
};

/// A turn that has run to its end.
pub(super) struct CompletedTurn {
    pub(super) result: TurnResult,
    pub(super) team: AgentTeam,
    pub(super) snapshots: SnapshotStore,
}

impl CompletedTurn {
    /// Returns the workspace of the winner, if there is an answer and its agent has one.
    fn winner_workspace(&self) -> Option<&AbsPath> {
        let answer = self.result.answer.as_ref()?;
        let mut members = self.team.members.iter();
        let member = members.find(|member| member.id == answer.agent)?;
        member.workspace.as_ref()
    }

    /// Returns whether files of the delivery have not reached the user's tree.
    fn pending_delivery(&self) -> PendingDelivery {
        let is_pending = |row: &DeliveryRow| row.outcome.has_undelivered_part();
        if self.result.rows.iter().any(is_pending) {
            PendingDelivery::Undelivered
        } else {
            PendingDelivery::Nothing
        }
    }
}

/// Where the result of a turn is saved.
#[derive(Debug)]
pub(super) struct TurnRecords {
    pub(super) session: Session,
    pub(super) turn_context: TurnContext,
    /// The task as the user wrote it.
    pub(super) task: String,
    pub(super) snapshot_mode: SnapshotMode,
    pub(super) recordings: ReplyRecordings,
    /// Keeps the winner's notes, if the config asks for it.
    pub(super) memory: Option<MemoryKeeper>,
}

impl TurnRecords {
    /// Saves `turn` and ends the run. What cannot be saved becomes a warning and changes the exit
    /// status; the result is returned in any case. A turn that is not saved leaves its run
    /// interrupted, so that resuming the run saves it.
    pub(super) async fn save(
        mut self,
        mut turn: CompletedTurn,
        mut sinks: EventSinks,
    ) -> TurnResult {
        let log_dir = sinks.recorder().paths().log().clone();
        let (saved_turn, save_error) = match self.save_answer(&mut turn, &log_dir) {
            Ok(saved_turn) => (saved_turn, None),
            Err(error) => (None, Some(format!("cannot save the session: {error:#}"))),
        };
        let turn_state = match &save_error {
            Some(_) => SessionTurn::Unsaved,
            None => SessionTurn::Complete,
        };
        let (workspace, notes) = saved_turn.map_or_else(Default::default, |saved_turn| {
            (saved_turn.workspace, saved_turn.notes)
        });
        let recording_warnings = self.recordings.publish(sinks.recorder());
        let pending_delivery = turn.pending_delivery();
        let cleanup_warning = turn
            .team
            .clear_overlays(pending_delivery)
            .err()
            .map(|error| error.to_string());
        for message in notes
            .into_iter()
            .chain(save_error)
            .chain(recording_warnings)
            .chain(cleanup_warning)
        {
            sinks.emit(RunEvent::Warning { message }).await;
        }
        let memory = self.memory.take();
        let notes = memory.and_then(|memory| Some(memory.keep_notes(turn.winner_workspace()?)));
        for event in notes.into_iter().flatten() {
            sinks.emit(event).await;
        }
        let is_disk_full = turn.team.disk_reserve.was_met();
        let mut result = turn.result;
        if is_disk_full {
            result.add_loss("the disk is nearly full, and agents could not write all files");
        }
        if let Some(workspace) = workspace.filter(|_| result.rows.is_empty()) {
            result.summary = format!("{}; its files are in `{workspace}`", result.summary);
        }
        sinks.finish(&mut result, turn_state).await;
        if turn_state == SessionTurn::Complete {
            self.leave_session(result.status);
        }
        result
    }

    /// Ends the turn in the session, unless the user stopped the run: then it can be resumed.
    pub(super) fn leave_session(self, status: ExitStatus) {
        if status != ExitStatus::Interrupted {
            self.session.end();
        }
    }

    /// Saves the answer in the session, if there is one.
    fn save_answer(
        &mut self,
        turn: &mut CompletedTurn,
        log_dir: &AbsPath,
    ) -> Result<Option<SavedTurn>> {
        let workspace = turn
            .winner_workspace()
            .cloned()
            .filter(|_| self.snapshot_mode == SnapshotMode::Copied);
        let Some(answer) = &turn.result.answer else {
            return Ok(None);
        };
        // A resumed run may have saved its turn just before it was interrupted.
        if let Some(saved_turn) = self.session.saved_turn()? {
            return Ok(Some(saved_turn));
        }
        let snapshots = turn.snapshots.take_agent_snapshots(&answer.agent);
        let saved_turn = self.session.save_turn(&FinishedTurn {
            task: &self.task,
            winner: &answer.agent,
            answer: &answer.text,
            workspace: workspace.as_ref().map(|path| LiveWorkspace {
                path,
                snapshots: &snapshots,
            }),
            turn_context: &self.turn_context,
            log_dir,
        })?;
        Ok(Some(saved_turn))
    }
}

/// The recorded agents, and the files for their replies.
#[derive(Debug)]
pub(crate) struct ReplyRecordings(Vec<(AgentId, AbsPath)>);

impl ReplyRecordings {
    /// Collects the files that `config` names; fails if one must not or cannot be written.
    pub(crate) fn validate(config: &Config) -> Result<Self> {
        let recording_paths = config.agents.iter().filter_map(|agent| {
            let path = agent.record.clone()?;
            Some((agent.id.clone(), path))
        });
        let recordings: Vec<(AgentId, AbsPath)> = recording_paths.collect();
        for (_, path) in &recordings {
            replies::check_target(path)?;
        }
        Ok(Self(recordings))
    }

    /// Writes the files. Returns one sentence for each that could not be written.
    pub(crate) fn publish(&self, recorder: &Recorder) -> Vec<String> {
        let publish = |(agent, path): &(AgentId, AbsPath)| match recorder.replies_file(agent) {
            None => Some(format!("`{path}` was not written: {agent} gave no reply")),
            Some(replies) => replies::publish(replies, path)
                .err()
                .map(|error| format!("cannot record the replies of {agent}: {error:#}")),
        };
        self.0.iter().filter_map(publish).collect()
    }
}
