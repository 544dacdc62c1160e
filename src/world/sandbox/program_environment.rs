//! Owns what the programs of one agent are run with: their language, the tools that they may call, and
//! the sandbox and the directories that are theirs. It starts nothing: `exec` does, with a permitted
//! call.

use std::sync::Arc;

use crate::code_mode::language::ProgramDialect;
use crate::code_mode::lint::LintRefusal;
use crate::code_mode::package::PathChecks;
use crate::code_mode::{lint_program, offer};
use crate::config::ToolFilter;
use crate::permissions::PathPermissionManager;
use crate::tools::spec::ToolOffer;
use crate::tools::tool_selection::{CommandOffering, DirectoryNaming, ToolSelection};
use crate::world::sandbox::exec_environment::ExecEnvironment;

/// The tool that runs commands.
const COMMAND: &str = "execute_command";

/// The programs of one agent. A clone is the same, in every phase of a run.
#[derive(Clone, Debug)]
pub struct ProgramEnvironment(Arc<ProgramEnvironmentState>);

#[derive(Debug)]
struct ProgramEnvironmentState {
    dialect: ProgramDialect,
    tools: ToolFilter,
    held: ExecEnvironment,
    layers: ProgramSafeguards,
}

/// Which of the layers before the gate are there. No config leaves one out: tests do, to see that each
/// of the others holds alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramSafeguards {
    /// Whether programs are looked through before they run.
    pub analysis: PathChecks,
    /// Whether the functions of the package look at paths.
    pub package: PathChecks,
}

impl ProgramEnvironment {
    /// Programs that run in the sandbox and the directories of `held`, which are theirs alone.
    pub fn new(dialect: ProgramDialect, tools: ToolFilter, held: ExecEnvironment) -> Self {
        Self::with_layers(dialect, tools, held, ProgramSafeguards::default())
    }

    /// The same with these layers.
    pub fn with_layers(
        dialect: ProgramDialect,
        tools: ToolFilter,
        held: ExecEnvironment,
        layers: ProgramSafeguards,
    ) -> Self {
        Self(Arc::new(ProgramEnvironmentState {
            dialect,
            tools,
            held,
            layers,
        }))
    }

    /// What they are written in.
    pub fn dialect(&self) -> ProgramDialect {
        self.0.dialect
    }

    /// What holds them.
    pub fn environment(&self) -> &ExecEnvironment {
        &self.0.held
    }

    /// Which layers are there.
    pub(in crate::world) fn layers(&self) -> ProgramSafeguards {
        self.0.layers
    }

    /// Looks through a program of an agent with these permissions, with or without commands.
    pub(in crate::world) fn lint_program(
        &self,
        program: &str,
        permissions: &PathPermissionManager,
        commands: CommandOffering,
    ) -> Result<(), LintRefusal> {
        if self.0.layers.analysis == PathChecks::Disabled {
            return Ok(());
        }
        let tools = self.tools(permissions, commands);
        let offered = if tools.iter().any(|tool| tool.name == COMMAND) {
            CommandOffering::Offered
        } else {
            CommandOffering::NotOffered
        };
        lint_program(self.0.dialect, program, offered)
    }

    /// The tools that they may call under these permissions, of an agent with or without commands.
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
        })
    }
}
