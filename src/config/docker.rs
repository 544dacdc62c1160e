//! The configuration of an agent's container. By default it has no network and no credentials,
//! and its user has no more rights on this machine than massgen's user.

use std::collections::BTreeMap;

use crate::path::AbsPath;

/// The default image, which `massgen docker build` builds.
pub const IMAGE: &str = "massgen/mcp-runtime:latest";
/// The default image for containers in which the agent may become root.
pub const SUDO_IMAGE: &str = "massgen/mcp-runtime-sudo:latest";
/// The home directory of the container's user.
pub const CONTAINER_HOME: &str = "/home/massgen";

/// The configuration of an agent's container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DockerConfig {
    /// The image (`command_line_docker_image`).
    pub image: String,
    /// Memory of all its processes, in bytes (`command_line_docker_memory_limit`).
    pub memory_bytes: Option<u64>,
    /// CPU time, in billionths of one CPU (`command_line_docker_cpu_limit`).
    pub nano_cpus: Option<u64>,
    /// The network access (`command_line_docker_network_mode`).
    pub network: ContainerNetwork,
    /// Whether the agent may become root in it (`command_line_docker_enable_sudo`).
    pub root: RootAccess,
    /// The user's secrets that it is given (`command_line_docker_credentials`).
    pub credentials: CredentialsConfig,
    /// The packages that are installed in it (`command_line_docker_packages`).
    pub packages: PackagesConfig,
}

impl Default for DockerConfig {
    fn default() -> Self {
        Self {
            image: IMAGE.to_owned(),
            memory_bytes: None,
            nano_cpus: None,
            network: ContainerNetwork::default(),
            root: RootAccess::default(),
            credentials: CredentialsConfig::default(),
            packages: PackagesConfig::default(),
        }
    }
}

impl DockerConfig {
    /// Returns the configuration of the container of a server of the agent, with `image` if the
    /// server names one. It has no credentials, which are for commands, and no root user, and so no
    /// packages of the distribution.
    #[must_use]
    pub fn for_server(&self, image: Option<&String>) -> Self {
        Self {
            image: image.unwrap_or(&self.image).clone(),
            root: RootAccess::Never,
            credentials: CredentialsConfig::default(),
            packages: PackagesConfig {
                system: Vec::new(),
                ..self.packages.clone()
            },
            ..self.clone()
        }
    }
}

/// The network access of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContainerNetwork {
    /// Only its own loopback.
    #[default]
    None,
    /// The engine's bridge network.
    Bridge,
    /// The machine's network, including services that listen on the machine itself.
    Host,
}

impl ContainerNetwork {
    /// Returns its name in container engines.
    pub fn name(self) -> &'static str {
        match self {
            ContainerNetwork::None => "none",
            ContainerNetwork::Bridge => "bridge",
            ContainerNetwork::Host => "host",
        }
    }
}

/// Whether an agent may become root in its container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootAccess {
    /// No process in it can gain privileges.
    #[default]
    Never,
    /// By `sudo`. Root in the container is root in the mounted directories as well.
    BySudo,
}

/// The user's secrets that a container is given, all read-only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialsConfig {
    /// The paths of well-known files below the user's home directory.
    pub mount: Vec<&'static str>,
    /// Other files and directories, each with its path in the container.
    pub additional_mounts: BTreeMap<AbsPath, AbsPath>,
    /// A file of variables.
    pub env_file: Option<AbsPath>,
    /// If not empty, the only variables taken from that file.
    pub env_vars_from_file: Vec<String>,
    /// Variables from massgen's own environment, or else from a `.env` file.
    pub env_vars: Vec<String>,
    /// Whether massgen's whole environment is passed.
    pub environment: PassedEnvironment,
}

/// How much of massgen's environment a container is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassedEnvironment {
    /// Only the listed variables.
    #[default]
    Listed,
    /// All variables (`pass_all_env`).
    All,
}

/// Well-known files and directories with secrets in the user's home: their names in YAML, and their
/// paths below a home directory.
pub const HOST_CREDENTIALS: &[(&str, &str)] = &[
    ("ssh_keys", ".ssh"),
    ("git_config", ".gitconfig"),
    ("gh_config", ".config/gh"),
    ("npm_config", ".npmrc"),
    ("pypi_config", ".pypirc"),
    ("claude_config", ".claude"),
    ("codex_config", ".codex"),
];

impl CredentialsConfig {
    /// Returns the names of the user's secrets that every command of the agent can read; empty if
    /// there are none.
    pub fn exposed_names(&self) -> Vec<String> {
        let home_paths = self.mount.iter();
        let mut names: Vec<String> = home_paths.map(|path| format!("`~/{path}`")).collect();
        let mounts = self.additional_mounts.keys();
        names.extend(mounts.map(|path| format!("`{path}`")));
        match (&self.env_file, self.env_vars_from_file.as_slice()) {
            (None, _) => {}
            (Some(file), []) => names.push(format!("all variables of `{file}`")),
            (Some(file), variables) => {
                names.push(format!("{} of `{file}`", join_quoted(variables)));
            }
        }
        match (self.environment, self.env_vars.as_slice()) {
            (PassedEnvironment::All, _) => names.push("your whole environment".to_owned()),
            (PassedEnvironment::Listed, []) => {}
            (PassedEnvironment::Listed, variables) => names.push(join_quoted(variables)),
        }
        names
    }
}

fn join_quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The packages that are installed in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackagesConfig {
    /// Packages of the image's distribution, installed first, as root.
    pub system: Vec<String>,
    /// Python packages, installed after the system's.
    pub python: Vec<String>,
    /// npm packages, installed last.
    pub npm: Vec<String>,
    /// Whether the workspace's dependencies are installed.
    pub dependencies: DependencyInstall,
}

/// Whether massgen installs a workspace's dependencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DependencyInstall {
    /// The agent installs them itself.
    #[default]
    Manual,
    /// Before a command, if the workspace's `requirements.txt`, `pyproject.toml` or `package.json`
    /// is new or was changed (`auto_install_deps`).
    Automatic,
}
