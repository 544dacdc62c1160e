//! The configuration of how the programs of an agent that writes programs are run.

use crate::code_mode::language::ProgramDialect;
use crate::config::command_line::{CommandBounds, CommandLineConfig};
use crate::sandbox_policy::limits::ResourceLimits;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};

/// How the programs of one agent are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeModeConfig {
    /// Their language (`code_language`) and additional libraries (`code_libraries`).
    pub dialect: ProgramDialect,
    /// The sandbox level (`command_line_sandbox`).
    pub sandbox: SandboxLevelChoice,
    /// The resource limits of a program (`command_line_limits`).
    pub limits: ResourceLimits,
    /// The timeout and the size of the output that is kept (`command_line_limits`).
    pub bounds: CommandBounds,
}

impl CodeModeConfig {
    /// Returns the configuration of their sandbox: no network, none of the user's variables, and
    /// always a sandbox.
    pub fn sandbox_config(&self) -> CommandLineConfig {
        CommandLineConfig {
            sandbox: match self.sandbox {
                SandboxLevelChoice::Only(SandboxLevel::Off) => SandboxLevelChoice::Auto,
                SandboxLevelChoice::Auto
                | SandboxLevelChoice::Only(
                    SandboxLevel::Overlay
                    | SandboxLevel::Namespaces
                    | SandboxLevel::Landlock
                    | SandboxLevel::Unavailable,
                ) => self.sandbox,
            },
            limits: self.limits,
            bounds: self.bounds,
            ..CommandLineConfig::default()
        }
    }
}
