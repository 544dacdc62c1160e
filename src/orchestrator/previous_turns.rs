//! Owns what a turn takes over from those before it in its session: what agents are told of them, and
//! which of their files agents may read.

use crate::path::AbsPath;
use crate::prompts::previous_turns::{self, describe_previous_turns};
use crate::world::store::sessions::turn::PreviousTurn;

/// How many workspaces of earlier turns agents may read, the newest first.
const WORKSPACES_MAX: usize = 20;

/// What agents are told of `turns`.
pub fn describe(turns: &[PreviousTurn]) -> String {
    let turn = |turn: &PreviousTurn| previous_turns::PreviousTurnSummary {
        number: turn.metadata.turn,
        task: turn.metadata.task.clone(),
        answer: turn.answer.clone(),
        files: turn.workspace.as_ref().map(ToString::to_string),
    };
    describe_previous_turns(&turns.iter().map(turn).collect::<Vec<_>>())
}

/// The workspaces that `turns` left, the newest first.
pub fn previous_workspaces(turns: &[PreviousTurn]) -> Vec<AbsPath> {
    let workspaces = turns.iter().rev();
    let workspaces = workspaces.filter_map(|turn| turn.workspace.clone());
    workspaces.take(WORKSPACES_MAX).collect()
}
