//! Owns where the commands of an agent run, as the config says it, and what of the rest of the config
//! depends on that. What executes them there is made in `orchestrator::environments`.

use crate::commands::{CommandPolicy, PrivilegePolicy};
use crate::config::docker::{DockerConfig, RootAccess};
use crate::sandbox_policy::sandbox_level::SandboxLevel;

/// Where commands run.
#[derive(Clone, Debug, Default)]
pub enum ExecutionMode {
    /// On this machine, in massgen's sandbox.
    #[default]
    Local,
    /// In a container of the agent's own.
    Docker(Box<DockerConfig>),
}

impl ExecutionMode {
    /// Whether massgen's sandbox on this machine holds them.
    pub fn is_local(&self) -> bool {
        match self {
            ExecutionMode::Local => true,
            ExecutionMode::Docker(_) => false,
        }
    }

    /// What the config says about the container that they run in, if they do.
    pub fn container(&self) -> Option<&DockerConfig> {
        match self {
            ExecutionMode::Local => None,
            ExecutionMode::Docker(docker) => Some(docker),
        }
    }

    /// The image that they find instead of this machine, if they do.
    pub fn image(&self) -> Option<&str> {
        self.container().map(|docker| docker.image.as_str())
    }

    /// The variables of the user's that are passed on to them besides `env`.
    pub(super) fn passed_variables(&self) -> &[String] {
        let docker = self.container();
        docker.map_or(&[], |docker| &docker.credentials.env_vars)
    }

    /// How much of their text is refused where the config says `wanted`, and `level` holds local
    /// commands. Without anything that enforces the rules are strict.
    pub(super) fn command_policy(
        &self,
        wanted: CommandPolicy,
        level: SandboxLevel,
    ) -> CommandPolicy {
        if self.is_local() && level == SandboxLevel::D {
            CommandPolicy::Strict
        } else {
            wanted
        }
    }

    /// Whether they may become root where they run.
    pub(super) fn privileges(&self) -> PrivilegePolicy {
        match self.container().map(|docker| docker.root) {
            Some(RootAccess::BySudo) => PrivilegePolicy::Allowed,
            Some(RootAccess::Never) | None => PrivilegePolicy::Refused,
        }
    }
}
