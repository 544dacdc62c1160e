//! Owns how the programs of an agent are run that works by them, as its config gives it.

use crate::config::command_line::{CommandBounds, CommandLineConfig};
use crate::confinement::limits::Limits;
use crate::confinement::tier::{Tier, TierChoice};
use crate::programs::dialect::Dialect;

/// How the programs of one agent are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramsConfig {
    /// What they are written in (`code_language`), with what they import (`code_libraries`).
    pub dialect: Dialect,
    /// How they are held (`command_line_sandbox`).
    pub sandbox: TierChoice,
    /// What one may use up (`command_line_limits`).
    pub limits: Limits,
    /// How long one may run, and how much is kept of its output (`command_line_limits`).
    pub bounds: CommandBounds,
}

impl ProgramsConfig {
    /// What their sandbox is made from: no network, no variables of the user's, and never no sandbox.
    pub fn held(&self) -> CommandLineConfig {
        CommandLineConfig {
            sandbox: match self.sandbox {
                TierChoice::Only(Tier::Off) => TierChoice::Auto,
                TierChoice::Auto | TierChoice::Only(Tier::A | Tier::B | Tier::C | Tier::D) => {
                    self.sandbox
                }
            },
            limits: self.limits,
            bounds: self.bounds,
            ..CommandLineConfig::default()
        }
    }
}
