//! The processes of agents that need an environment, and the facts about massgen's own process that
//! they depend on.

use std::collections::BTreeMap;

use crate::code_mode::language::ProgramDialect;
use crate::config::ToolFilter;
use crate::config::command_line::{CommandLineConfig, Privilege};
use crate::config::external_agents::ExternalAgentConfig;
use crate::config::machine_policy::MachinePolicy;
use crate::dotenv::ConfigVariables;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::permissions::grant::Grant;
use crate::world::sandbox::container_owner::{ContainerOrigin, ContainerOwner};
use crate::world::store::sandboxes::SessionSandboxes;

/// Facts about the massgen process that commands depend on.
#[derive(Clone, Debug)]
pub struct HostEnvironment {
    /// The executable that is started as the sandbox helper.
    pub executable: AbsPath,
    /// The directory that the user started massgen in.
    pub cwd: AbsPath,
    /// The environment of the process.
    pub env: BTreeMap<String, String>,
    /// The variables that a config may pass on.
    pub variables: ConfigVariables,
    /// The user's home directory.
    pub home: Option<AbsPath>,
    /// The policy of the machine.
    pub policy: MachinePolicy,
    /// The directories of the last turn, in an interactive session.
    pub session_sandboxes: Option<SessionSandboxes>,
}

/// Processes of an agent, such as its commands, its checks or one of its servers, and what decides
/// how they run.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentSpec<'a> {
    /// The agent.
    pub id: &'a AgentId,
    /// How the processes run.
    pub config: &'a CommandLineConfig,
    /// All grants of the agent.
    pub grants: &'a [Grant],
    /// Its workspace.
    pub workspace: &'a AbsPath,
}

impl<'a> EnvironmentSpec<'a> {
    /// Returns the privilege of the processes.
    pub fn privilege(self) -> Privilege {
        Privilege::of(&self.config.env, &self.config.network)
    }

    /// Returns the owner of a container of the agent, with these variables of the config.
    pub(super) fn container_owner(
        self,
        origin: ContainerOrigin<'a>,
        config_env: &'a BTreeMap<String, String>,
    ) -> ContainerOwner<'a> {
        ContainerOwner {
            agent: self.id,
            origin,
            workspace: self.workspace,
            limits: &self.config.limits,
            config_env,
        }
    }
}

/// An agent in code mode.
#[derive(Clone, Copy, Debug)]
pub struct CodeModeSpec<'a> {
    /// The agent, and how its programs run.
    pub environment: EnvironmentSpec<'a>,
    /// The language of the programs.
    pub dialect: ProgramDialect,
    /// The tools that they may call.
    pub tools: &'a ToolFilter,
}

/// An external agent that may work as subagents of an agent.
#[derive(Clone, Copy, Debug)]
pub struct SubagentProgramSpec<'a> {
    /// Its index among the models for subagents, counted from 0.
    pub index: usize,
    /// The external agent.
    pub program: &'a ExternalAgentConfig,
    /// The agent that starts the subagents, and how their program runs.
    pub environment: EnvironmentSpec<'a>,
}
