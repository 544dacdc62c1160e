//! Owns how the programs of an agent are run that works by them, as its config gives it.

use crate::code_mode::language::ProgramDialect;
use crate::config::command_line::{CommandBounds, CommandLineConfig};
use crate::sandbox_policy::limits::ResourceLimits;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};

/// How the programs of one agent are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeModeConfig {
    /// What they are written in (`code_language`), with what they import (`code_libraries`).
    pub dialect: ProgramDialect,
    /// How they are held (`command_line_sandbox`).
    pub sandbox: SandboxLevelChoice,
    /// What one may use up (`command_line_limits`).
    pub limits: ResourceLimits,
    /// How long one may run, and how much is kept of its output (`command_line_limits`).
    pub bounds: CommandBounds,
}

impl CodeModeConfig {
    /// What their sandbox is made from: no network, no variables of the user's, and never no sandbox.
    pub fn sandbox_config(&self) -> CommandLineConfig {
        CommandLineConfig {
            sandbox: match self.sandbox {
                SandboxLevelChoice::Only(SandboxLevel::Off) => SandboxLevelChoice::Auto,
                SandboxLevelChoice::Auto
                | SandboxLevelChoice::Only(
                    SandboxLevel::A | SandboxLevel::B | SandboxLevel::C | SandboxLevel::D,
                ) => self.sandbox,
            },
            limits: self.limits,
            bounds: self.bounds,
            ..CommandLineConfig::default()
        }
    }
}
