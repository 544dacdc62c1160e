//! Variables by which a command runs other programs or other code than its words name.

use crate::commands::line::{ShellWord, SimpleCommand};
use crate::commands::wrappers::{WrappedCommand, joined_script};

/// Variables whose value programs pass to a shell.
const COMMAND_LINE_VARIABLES: [&str; 13] = [
    "EDITOR",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "MANPAGER",
    "PAGER",
    "SSH_ASKPASS",
    "VISUAL",
];

/// Variables that determine where programs, their code or their settings are found.
const LOCATION_VARIABLES: [&str; 9] = [
    "BASH_ENV",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_EXEC_PATH",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PATH",
];

/// Shell builtins that set variables for later commands.
const DECLARING_BUILTINS: [&str; 5] = ["export", "declare", "typeset", "readonly", "local"];

/// Returns what a command runs through the variables that it sets, for itself or for later
/// commands.
pub(super) fn wrapped_by_variables(command: &SimpleCommand) -> Vec<WrappedCommand> {
    let program = command.program().unwrap_or_default();
    let is_declaration = DECLARING_BUILTINS.contains(&program.as_str());
    let arguments = command.words.iter().skip(1).filter(|_| is_declaration);
    let assignments = command
        .assignments
        .iter()
        .chain(arguments)
        .filter_map(ShellWord::assignment)
        .filter(|(_, value)| value.known_text().is_none_or(|value| !value.is_empty()));
    let wrapped_commands = assignments.filter_map(|(name, value)| {
        if LOCATION_VARIABLES.contains(&name.as_str()) {
            Some(WrappedCommand::Unknown)
        } else if COMMAND_LINE_VARIABLES.contains(&name.as_str()) {
            Some(joined_script(std::slice::from_ref(&value)))
        } else {
            None
        }
    });
    wrapped_commands.collect()
}
