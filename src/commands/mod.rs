//! Owns the text rules about command lines: the sign on the wall, not the wall. They give early and
//! clear answers, judge parsed commands and never substrings, and nothing rests on them.

mod substitutions;
pub mod judge;
pub mod line;
pub mod parse;
pub mod pattern;
pub mod rules;
mod wrappers;
mod syntax_nodes;
mod variables;
mod words;

#[cfg(test)]
mod tests;

use crate::commands::pattern::CommandRegex;

/// What the text rules are set to.
#[derive(Clone, Debug, Default)]
pub struct CommandRules {
    /// How much is refused by text.
    pub policy: CommandPolicy,
    /// Whether commands may become root and change rights.
    pub privileges: PrivilegePolicy,
    /// Each simple command must match one of these from its start, if there are any
    /// (`command_line_allowed_commands`).
    pub allowed: Option<Vec<CommandRegex>>,
    /// And none of these (`command_line_blocked_commands`).
    pub blocked: Vec<CommandRegex>,
}

/// How much is refused by text (`command_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandPolicy {
    /// What no sandbox makes sensible: becoming root, raw devices, disk formatting, fork bombs.
    #[default]
    Standard,
    /// Also what changes or removes files and rights, whatever the target.
    Strict,
}

/// Whether commands may become root and change rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrivilegePolicy {
    /// Refused by text.
    #[default]
    Refused,
    /// Allowed: the container is made for it (`command_line_docker_enable_sudo`).
    Allowed,
}

/// Why a command line is refused by text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRefusal {
    /// The rule that refuses.
    pub rule: &'static str,
    /// The simple command that it is about, or the beginning of the line.
    pub command: String,
    /// Why, as the end of the sentence "… is refused: …".
    pub reason: String,
    /// What to do instead.
    pub way_out: String,
}
