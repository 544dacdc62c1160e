//! The configuration of the commands that check answers.

use crate::check_results::CheckRequirement;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;

/// The default timeout of a check, in seconds.
pub const CHECK_SECONDS_DEFAULT: u64 = 10 * 60;

/// The checks of answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChecksConfig {
    /// The commands, in the order of the file. Names are unique.
    pub list: Vec<CheckConfig>,
    /// What to do with a delivery when a required check fails afterwards.
    pub on_failure: FailedCheckPolicy,
    /// The sandbox level from the command line; `None` uses that of the agent's commands.
    pub sandbox: Option<SandboxLevelChoice>,
}

/// A command that is run on every answer, in the tree as it would be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConfig {
    /// Its name for voters and reports.
    pub name: String,
    /// The command line for the shell.
    pub command: String,
    /// Whether an answer must pass it.
    pub requirement: CheckRequirement,
    /// The timeout, in seconds.
    pub timeout_seconds: u64,
}

/// What to do with a delivery when a required check fails afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailedCheckPolicy {
    /// Revert it.
    #[default]
    Undo,
    /// Keep it.
    Keep,
    /// Ask the user; revert it if no one can be asked.
    Ask,
}
