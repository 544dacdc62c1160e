//! What a turn inherits from the earlier turns of its session: their description for agents, and
//! the workspaces that agents may read.

use crate::path::AbsPath;
use crate::prompts::previous_turns::{self, CommandHome, describe_previous_turns};
use crate::world::store::sessions::turn::PreviousTurn;

/// Maximum number of workspaces of earlier turns that agents may read, the newest first.
const WORKSPACES_MAX: usize = 20;

/// Describes `turns` for agents, and what is left of their commands, if agents have some.
pub fn turn_history(turns: &[PreviousTurn], command_home: Option<CommandHome>) -> String {
    let summary = |turn: &PreviousTurn| previous_turns::PreviousTurnSummary {
        number: turn.metadata.turn,
        task: turn.metadata.task.clone(),
        answer: turn.answer.clone(),
        files: turn.workspace.as_ref().map(ToString::to_string),
    };
    let mut description = describe_previous_turns(&turns.iter().map(summary).collect::<Vec<_>>());
    if let Some(home) = command_home.filter(|_| !turns.is_empty()) {
        description.push_str(home.describe());
    }
    description
}

/// Returns the workspaces of `turns`, the newest first.
pub fn previous_workspaces(turns: &[PreviousTurn]) -> Vec<AbsPath> {
    let workspaces = turns.iter().rev().filter_map(|turn| turn.workspace.clone());
    workspaces.take(WORKSPACES_MAX).collect()
}
