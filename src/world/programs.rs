//! Owns what the programs of one agent are run with: their language, the tools that they may call, and
//! the sandbox and the directories that are theirs. It starts nothing: `exec` does, with a permitted
//! call.

use std::sync::Arc;

use crate::config::ToolFilter;
use crate::permissions::PathPermissionManager;
use crate::programs::dialect::Dialect;
use crate::programs::finding::Refusal;
use crate::programs::package::Checks;
use crate::programs::{judge, offer};
use crate::tools::menu::{Commands as OfferedCommands, Directories, Menu};
use crate::tools::spec::ToolOffer;
use crate::world::commands::Commands;

/// The tool that runs commands.
const COMMAND: &str = "execute_command";

/// The programs of one agent. A clone is the same, in every phase of a run.
#[derive(Clone, Debug)]
pub struct Programs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dialect: Dialect,
    tools: ToolFilter,
    held: Commands,
    layers: Layers,
}

/// Which of the layers before the gate are there. No config leaves one out: tests do, to see that each
/// of the others holds alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// Whether programs are looked through before they run.
    pub analysis: Checks,
    /// Whether the functions of the package look at paths.
    pub package: Checks,
}

impl Programs {
    /// Programs that run in the sandbox and the directories of `held`, which are theirs alone.
    pub fn new(dialect: Dialect, tools: ToolFilter, held: Commands) -> Self {
        Self::with_layers(dialect, tools, held, Layers::default())
    }

    /// The same with these layers.
    pub fn with_layers(
        dialect: Dialect,
        tools: ToolFilter,
        held: Commands,
        layers: Layers,
    ) -> Self {
        Self(Arc::new(Inner {
            dialect,
            tools,
            held,
            layers,
        }))
    }

    /// What they are written in.
    pub fn dialect(&self) -> Dialect {
        self.0.dialect
    }

    /// What holds them.
    pub fn held(&self) -> &Commands {
        &self.0.held
    }

    /// Which layers are there.
    pub(super) fn layers(&self) -> Layers {
        self.0.layers
    }

    /// Looks through a program of an agent with these permissions, with or without commands.
    pub(super) fn judge(
        &self,
        program: &str,
        permissions: &PathPermissionManager,
        commands: OfferedCommands,
    ) -> Result<(), Refusal> {
        if self.0.layers.analysis == Checks::LeftOut {
            return Ok(());
        }
        let tools = self.tools(permissions, commands);
        let offered = if tools.iter().any(|tool| tool.name == COMMAND) {
            OfferedCommands::Offered
        } else {
            OfferedCommands::NotOffered
        };
        judge(self.0.dialect, program, offered)
    }

    /// The tools that they may call under these permissions, of an agent with or without commands.
    pub(super) fn tools(
        &self,
        permissions: &PathPermissionManager,
        commands: OfferedCommands,
    ) -> Vec<ToolOffer> {
        offer::tools(Menu {
            allowed: self.0.tools.allowed.as_deref(),
            excluded: &self.0.tools.excluded,
            permissions,
            directories: Directories::Named,
            commands,
        })
    }
}
