//! Owns what a turn takes over from those before it in its session: what agents are told of them, and
//! which of their files agents may read.

use crate::brief::earlier::{self, earlier};
use crate::path::AbsPath;
use crate::world::store::sessions::turn::EarlierTurn;

/// How many workspaces of earlier turns agents may read, the newest first.
const WORKSPACES_MAX: usize = 20;

/// What agents are told of `turns`.
pub fn told(turns: &[EarlierTurn]) -> String {
    let turn = |turn: &EarlierTurn| earlier::EarlierTurn {
        number: turn.metadata.turn,
        task: turn.metadata.task.clone(),
        answer: turn.answer.clone(),
        files: turn.workspace.as_ref().map(ToString::to_string),
    };
    earlier(&turns.iter().map(turn).collect::<Vec<_>>())
}

/// The workspaces that `turns` left, the newest first.
pub fn left(turns: &[EarlierTurn]) -> Vec<AbsPath> {
    let workspaces = turns.iter().rev();
    let workspaces = workspaces.filter_map(|turn| turn.workspace.clone());
    workspaces.take(WORKSPACES_MAX).collect()
}
