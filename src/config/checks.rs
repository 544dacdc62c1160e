//! Owns the commands that tell whether an answer holds, as a config gives them.

use crate::check_results::CheckRequirement;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;

/// How long a check may take where the config does not say it, in seconds.
pub const CHECK_SECONDS_DEFAULT: u64 = 10 * 60;

/// What tells whether answers hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChecksConfig {
    /// The commands, in the order of the file. Names are unique.
    pub list: Vec<CheckConfig>,
    /// What becomes of a delivery after which a required check fails.
    pub on_failure: FailedCheckPolicy,
    /// What is to hold them, if the command line says it; otherwise what holds the agent's commands.
    pub sandbox: Option<SandboxLevelChoice>,
}

/// A command that is run on every answer, in the tree as it would be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConfig {
    /// What voters and reports call it.
    pub name: String,
    /// What is given to the shell.
    pub command: String,
    /// Whether an answer has to pass it.
    pub requirement: CheckRequirement,
    /// How long it may take, in seconds.
    pub timeout_seconds: u64,
}

/// What becomes of a delivery after which a required check fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailedCheckPolicy {
    /// It is taken back.
    #[default]
    Undo,
    /// It stays.
    Keep,
    /// The user is asked; where nobody can be, it is taken back.
    Ask,
}
