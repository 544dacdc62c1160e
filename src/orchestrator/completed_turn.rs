//! The end of a turn: what it leaves in its session, and the last events of its run.

use crate::error::ExitStatus;
use crate::event::{DeliveryRow, Event, RunEvent};
use crate::orchestrator::TurnResult;
use crate::orchestrator::event_sinks::EventSinks;
use crate::orchestrator::memory::MemoryKeeper;
use crate::orchestrator::overlays::PendingDelivery;
use crate::orchestrator::reply_recordings::ReplyRecordings;
use crate::orchestrator::snapshots::{SnapshotMode, SnapshotStore};
use crate::orchestrator::team::AgentTeam;
use crate::path::AbsPath;
use crate::world::store::sessions::session::{FinishedTurn, LiveWorkspace, Session, TurnContext};

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
    /// Saves `turn` and ends the run. What cannot be saved becomes a warning, and the result is
    /// returned in any case.
    pub(super) async fn save(
        mut self,
        mut turn: CompletedTurn,
        mut sinks: EventSinks,
    ) -> TurnResult {
        let log_dir = sinks.recorder().paths().log().clone();
        let save_outcome = self.save_answer(&mut turn, &log_dir);
        let recording_warnings = self.recordings.publish(sinks.recorder());
        let pending_delivery = turn.pending_delivery();
        let cleanup_warning = turn
            .team
            .clear_overlays(pending_delivery)
            .err()
            .map(|error| error.to_string());
        for message in save_outcome
            .notes
            .into_iter()
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
        let run_end = run_ended_event(&turn.result, save_outcome.workspace.as_ref());
        sinks.finish(run_end).await;
        self.leave_session(turn.result.status);
        turn.result
    }

    /// Ends the turn in the session, unless the user stopped the run: then it can be resumed.
    pub(super) fn leave_session(self, status: ExitStatus) {
        if status != ExitStatus::Interrupted {
            self.session.end();
        }
    }

    /// Saves the answer in the session; failures become notes.
    fn save_answer(&mut self, turn: &mut CompletedTurn, log_dir: &AbsPath) -> SaveOutcome {
        let workspace = turn
            .winner_workspace()
            .cloned()
            .filter(|_| self.snapshot_mode == SnapshotMode::Copied);
        let Some(answer) = &turn.result.answer else {
            return SaveOutcome::default();
        };
        // A resumed run may have saved its turn just before it was interrupted.
        if let Some(saved_turn) = self.session.saved_turn() {
            return SaveOutcome {
                workspace: saved_turn.workspace,
                notes: saved_turn.notes,
            };
        }
        let snapshots = turn.snapshots.take_agent_snapshots(&answer.agent);
        let save_result = self.session.save_turn(&FinishedTurn {
            task: &self.task,
            winner: &answer.agent,
            answer: &answer.text,
            workspace: workspace.as_ref().map(|path| LiveWorkspace {
                path,
                snapshots: &snapshots,
            }),
            turn_context: &self.turn_context,
            log_dir,
        });
        match save_result {
            Ok(saved) => SaveOutcome {
                workspace: saved.workspace,
                notes: saved.notes,
            },
            Err(error) => SaveOutcome {
                workspace: None,
                notes: vec![format!("cannot save the session: {error:#}")],
            },
        }
    }
}

/// Result of saving a turn: the saved copy of the winner's workspace, and notes for the user.
#[derive(Debug, Default)]
struct SaveOutcome {
    workspace: Option<AbsPath>,
    notes: Vec<String>,
}

/// Returns the last event of a run.
fn run_ended_event(result: &TurnResult, workspace: Option<&AbsPath>) -> Event {
    let summary = match workspace {
        Some(workspace) if result.rows.is_empty() => {
            format!("{}; its files are in `{workspace}`", result.summary)
        }
        Some(_) | None => result.summary.clone(),
    };
    Event::Run(RunEvent::RunEnded {
        status: result.status,
        summary,
    })
}
