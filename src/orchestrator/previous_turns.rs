//! What a turn inherits from the earlier turns of its session: their description for agents, and
//! the workspaces that agents may read.

use crate::path::AbsPath;
use crate::prompts::previous_turns::{self, describe_previous_turns};
use crate::world::store::sessions::turn::PreviousTurn;

/// Maximum number of workspaces of earlier turns that agents may read, the newest first.
const WORKSPACES_MAX: usize = 20;

/// Describes `turns` for agents.
pub fn turn_history(turns: &[PreviousTurn]) -> String {
    let summary = |turn: &PreviousTurn| previous_turns::PreviousTurnSummary {
        number: turn.metadata.turn,
        task: turn.metadata.task.clone(),
        answer: turn.answer.clone(),
        files: turn.workspace.as_ref().map(ToString::to_string),
    };
    describe_previous_turns(&turns.iter().map(summary).collect::<Vec<_>>())
}

/// Returns the workspaces of `turns`, the newest first.
pub fn previous_workspaces(turns: &[PreviousTurn]) -> Vec<AbsPath> {
    let workspaces = turns.iter().rev().filter_map(|turn| turn.workspace.clone());
    workspaces.take(WORKSPACES_MAX).collect()
}
