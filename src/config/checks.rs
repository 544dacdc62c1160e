//! Owns the commands that tell whether an answer holds, as a config gives them.

use crate::confinement::tier::TierChoice;
use crate::evidence::Need;

/// How long a check may take where the config does not say it, in seconds.
pub const CHECK_SECONDS_DEFAULT: u64 = 10 * 60;

/// What tells whether answers hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// The commands, in the order of the file. Names are unique.
    pub list: Vec<Check>,
    /// What becomes of a delivery after which a required check fails.
    pub on_red: OnRed,
    /// What is to hold them, if the command line says it; otherwise what holds the agent's commands.
    pub sandbox: Option<TierChoice>,
}

/// A command that is run on every answer, in the tree as it would be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What voters and reports call it.
    pub name: String,
    /// What is given to the shell.
    pub command: String,
    /// Whether an answer has to pass it.
    pub need: Need,
    /// How long it may take, in seconds.
    pub timeout_seconds: u64,
}

/// What becomes of a delivery after which a required check fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRed {
    /// It is taken back.
    #[default]
    Undo,
    /// It stays.
    Keep,
    /// The user is asked; where nobody can be, it is taken back.
    Ask,
}
