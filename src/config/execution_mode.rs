//! Where the commands of an agent run (`command_line_execution_mode`), and everything in the config
//! that depends on it. The engine itself is created in `orchestrator::environments`.

use crate::commands::{CommandPolicy, PrivilegePolicy};
use crate::config::docker::{ContainerNetwork, DockerConfig, PackagesConfig, RootAccess};
use crate::sandbox_policy::sandbox_level::SandboxLevel;

/// What to do instead of running the commands alone on another machine.
pub const ELSEWHERE_HINT: &str = "to run commands on another machine, run massgen there, with the \
                                  project: `ssh HOST massgen …`, `kubectl exec`, or a job of a \
                                  queue; see `docs/scale.md`";

/// Where commands run.
#[derive(Clone, Debug, Default)]
pub enum ExecutionMode {
    /// On this machine, in massgen's sandbox.
    #[default]
    Local,
    /// In the agent's own container.
    Docker(Box<DockerConfig>),
}

impl ExecutionMode {
    /// The values of the key. `srt` is read as `local`.
    pub const NAMES: &'static [&'static str] = &["local", "docker", "srt"];

    /// Returns whether commands run in massgen's sandbox on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            ExecutionMode::Local => true,
            ExecutionMode::Docker(_) => false,
        }
    }

    /// Returns the settings of the container, if commands run in one.
    pub fn container(&self) -> Option<&DockerConfig> {
        match self {
            ExecutionMode::Local => None,
            ExecutionMode::Docker(docker) => Some(docker),
        }
    }

    /// Returns the image that commands see instead of this machine, if there is one.
    pub fn image(&self) -> Option<&str> {
        match self {
            ExecutionMode::Local => None,
            ExecutionMode::Docker(docker) => Some(&docker.image),
        }
    }

    /// Returns whether the engine gives commands a network; `None` on this machine, where massgen
    /// decides about each connection.
    pub(super) fn has_engine_network(&self) -> Option<bool> {
        match self {
            ExecutionMode::Local => None,
            ExecutionMode::Docker(docker) => Some(docker.network != ContainerNetwork::None),
        }
    }

    /// Returns the names of the variables of massgen's environment that commands get in addition to
    /// those of the key `env`. Only Docker containers have a key for them.
    pub(super) fn passed_variables(&self) -> &[String] {
        let docker = self.container();
        docker.map_or(&[], |docker| &docker.credentials.env_vars)
    }

    /// Takes away the network, the credentials and the root user of a container, unless
    /// `other` has the same. Packages cannot be installed without a network.
    pub(super) fn restrict_to(&mut self, other: &Self) {
        match self {
            ExecutionMode::Local => {}
            ExecutionMode::Docker(docker) => {
                let has_same_rights = |other: &DockerConfig| {
                    docker.network == other.network
                        && docker.root == other.root
                        && docker.credentials == other.credentials
                };
                if !other.container().is_some_and(has_same_rights) {
                    **docker = DockerConfig {
                        network: ContainerNetwork::None,
                        packages: PackagesConfig::default(),
                        ..docker.for_server(None)
                    };
                }
            }
        }
    }

    /// Returns which commands are refused for their text: as `requested` in the config, or strictly
    /// if nothing enforces the grants. `level` is that of the sandbox of local commands.
    pub(super) fn command_policy(
        &self,
        requested: CommandPolicy,
        level: SandboxLevel,
    ) -> CommandPolicy {
        if self.is_local() && level == SandboxLevel::Unavailable {
            CommandPolicy::Strict
        } else {
            requested
        }
    }

    /// Returns whether commands may become root where they run.
    pub(super) fn privileges(&self) -> PrivilegePolicy {
        match self.container().map(|docker| docker.root) {
            Some(RootAccess::BySudo) => PrivilegePolicy::Allowed,
            Some(RootAccess::Never) | None => PrivilegePolicy::Refused,
        }
    }
}
