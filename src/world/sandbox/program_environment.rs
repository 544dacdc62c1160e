//! Environment of one agent's programs: their language, the tools that they may call, their sandbox
//! and their private directories. It starts nothing: `exec` does, with a permitted call.

use std::sync::Arc;

use crate::code_mode::language::ProgramDialect;
use crate::code_mode::lint::LintRefusal;
use crate::code_mode::package::PathChecks;
use crate::code_mode::{lint_program, offer};
use crate::config::ToolFilter;
use crate::permissions::PathPermissionManager;
use crate::tools::spec::ToolOffer;
use crate::tools::tool_selection::{
    CommandOffering, DirectoryNaming, EditFormat, ImageOffering, ToolSelection,
};
use crate::world::sandbox::exec_environment::ExecEnvironment;

/// The tool that runs commands.
const COMMAND_TOOL: &str = "execute_command";

/// The programs of one agent. A clone is the same, in every phase of a run.
#[derive(Clone, Debug)]
pub struct ProgramEnvironment(Arc<ProgramEnvironmentState>);

#[derive(Debug)]
struct ProgramEnvironmentState {
    dialect: ProgramDialect,
    tools: ToolFilter,
    environment: ExecEnvironment,
    safeguards: ProgramSafeguards,
}

/// Which of the safeguards before the gate are enabled. No config disables one: tests do, to check
/// that each of the others suffices alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramSafeguards {
    /// Whether programs are linted before they run.
    pub analysis: PathChecks,
    /// Whether the functions of the package check paths.
    pub package: PathChecks,
}

impl ProgramEnvironment {
    /// Creates an environment whose programs run in the sandbox and the private directories of
    /// `environment`.
    pub fn new(dialect: ProgramDialect, tools: ToolFilter, environment: ExecEnvironment) -> Self {
        Self::with_safeguards(dialect, tools, environment, ProgramSafeguards::default())
    }

    /// Like [`ProgramEnvironment::new`], with these safeguards.
    pub fn with_safeguards(
        dialect: ProgramDialect,
        tools: ToolFilter,
        environment: ExecEnvironment,
        safeguards: ProgramSafeguards,
    ) -> Self {
        Self(Arc::new(ProgramEnvironmentState {
            dialect,
            tools,
            environment,
            safeguards,
        }))
    }

    /// Returns the language of the programs.
    pub fn dialect(&self) -> ProgramDialect {
        self.0.dialect
    }

    /// Returns the environment of the processes.
    pub fn environment(&self) -> &ExecEnvironment {
        &self.0.environment
    }

    /// Returns the enabled safeguards.
    pub(in crate::world) fn safeguards(&self) -> ProgramSafeguards {
        self.0.safeguards
    }

    /// Lints a program of an agent with these permissions, with or without commands.
    pub(in crate::world) fn lint_program(
        &self,
        program: &str,
        permissions: &PathPermissionManager,
        commands: CommandOffering,
    ) -> Result<(), LintRefusal> {
        if self.0.safeguards.analysis == PathChecks::Disabled {
            return Ok(());
        }
        let tools = self.tools(permissions, commands);
        let command_offering = if tools.iter().any(|tool| tool.name == COMMAND_TOOL) {
            CommandOffering::Offered
        } else {
            CommandOffering::NotOffered
        };
        lint_program(self.0.dialect, program, command_offering)
    }

    /// Returns the tools that programs may call under these permissions, with or without commands.
    pub(in crate::world) fn tools(
        &self,
        permissions: &PathPermissionManager,
        commands: CommandOffering,
    ) -> Vec<ToolOffer> {
        offer::callable_tools(ToolSelection {
            allowed: self.0.tools.allowed.as_deref(),
            excluded: &self.0.tools.excluded,
            permissions,
            directories: DirectoryNaming::Named,
            commands,
            images: ImageOffering::NotOffered,
            edits: EditFormat::Program,
        })
    }
}
