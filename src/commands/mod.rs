//! Text rules about command lines. They are guidance, not a security boundary: they give early and
//! clear answers, judge parsed commands and never substrings, and no guarantee depends on them.

mod substitutions;
pub mod judge;
pub mod line;
pub mod parse;
pub mod rules;
mod wrappers;
mod syntax_nodes;
mod variables;
mod words;

#[cfg(test)]
mod tests;

use crate::commands::rules::CommandRegex;

/// The settings of the text rules.
#[derive(Clone, Debug, Default)]
pub struct CommandRules {
    /// How much is refused.
    pub policy: CommandPolicy,
    /// Whether commands may become root and change permissions.
    pub privileges: PrivilegePolicy,
    /// If set, each simple command must match one of these from its start
    /// (`command_line_allowed_commands`).
    pub allowed: Option<Vec<CommandRegex>>,
    /// No simple command may match one of these (`command_line_blocked_commands`).
    pub blocked: Vec<CommandRegex>,
}

/// How much is refused by the text rules (`command_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandPolicy {
    /// Commands that make no sense in any sandbox: becoming root, raw devices, disk formatting,
    /// fork bombs.
    #[default]
    Standard,
    /// Also commands that change or remove files and permissions, whatever the target.
    Strict,
}

/// Whether commands may become root and change permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrivilegePolicy {
    /// Refused.
    #[default]
    Refused,
    /// Allowed: the container is meant for it (`command_line_docker_enable_sudo`).
    Allowed,
}

/// The refusal of a command line by the text rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRefusal {
    /// The rule that refused.
    pub rule: &'static str,
    /// The simple command concerned, or the beginning of the line.
    pub command: String,
    /// The reason, as the end of the sentence "… is refused: …".
    pub reason: String,
    /// What to do instead.
    pub suggestion: String,
}
