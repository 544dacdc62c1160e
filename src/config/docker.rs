//! Owns how the container of an agent is made, as its config gives it. Where nothing is written, the
//! container has no network, no credentials and nobody who is root.

use std::collections::BTreeMap;

use crate::path::AbsPath;

/// The image of a container, which `massgen docker build` makes.
pub const IMAGE: &str = "massgen/mcp-runtime:latest";
/// The image of a container in which the agent may become root.
pub const SUDO_IMAGE: &str = "massgen/mcp-runtime-sudo:latest";
/// The home directory of whoever runs commands in a container.
pub const CONTAINER_HOME: &str = "/home/massgen";

/// How the container of one agent is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DockerConfig {
    /// What it is made from (`command_line_docker_image`).
    pub image: String,
    /// Memory of all its processes, in bytes (`command_line_docker_memory_limit`).
    pub memory_bytes: Option<u64>,
    /// Processor time, in billionths of one processor (`command_line_docker_cpu_limit`).
    pub nano_cpus: Option<u64>,
    /// What it reaches of the network (`command_line_docker_network_mode`).
    pub network: ContainerNetwork,
    /// Whether the agent may become root in it (`command_line_docker_enable_sudo`).
    pub root: RootAccess,
    /// What it is given of the user's secrets (`command_line_docker_credentials`).
    pub credentials: CredentialsConfig,
    /// What is installed in it (`command_line_docker_packages`).
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

/// What a container reaches of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContainerNetwork {
    /// Nothing but its own loopback.
    #[default]
    None,
    /// What the engine's own network leads to.
    Bridge,
    /// All that the machine reaches, with what listens on the machine itself.
    Host,
}

impl ContainerNetwork {
    /// The name that engines know it by.
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
    /// Nothing there gains rights.
    #[default]
    Never,
    /// By `sudo`. What is root inside is root in the mounted directories too.
    BySudo,
}

/// What a container is given of the user's secrets, all of it read-only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialsConfig {
    /// Well-known files of the user's home.
    pub mount: Vec<HostCredential>,
    /// Other files and directories, each with its path in the container.
    pub additional_mounts: BTreeMap<AbsPath, AbsPath>,
    /// A file of variables.
    pub env_file: Option<AbsPath>,
    /// The only variables that are taken from the file, if there are any listed.
    pub env_vars_from_file: Vec<String>,
    /// Variables of massgen's own environment, or else of a `.env` file.
    pub env_vars: Vec<String>,
    /// Whether all of them are passed.
    pub environment: PassedEnvironment,
}

/// How much of massgen's environment a container is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassedEnvironment {
    /// The variables that are listed.
    #[default]
    Listed,
    /// All of them (`pass_all_env`).
    All,
}

/// A well-known file or directory with secrets in the user's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostCredential {
    /// `ssh_keys`
    SshKeys,
    /// `git_config`
    GitConfig,
    /// `gh_config`
    GhConfig,
    /// `npm_config`
    NpmConfig,
    /// `pypi_config`
    PypiConfig,
}

impl HostCredential {
    /// All of them, with their names in YAML and where they lie below a home directory.
    pub const ALL: &[(HostCredential, &'static str, &'static str)] = &[
        (HostCredential::SshKeys, "ssh_keys", ".ssh"),
        (HostCredential::GitConfig, "git_config", ".gitconfig"),
        (HostCredential::GhConfig, "gh_config", ".config/gh"),
        (HostCredential::NpmConfig, "npm_config", ".npmrc"),
        (HostCredential::PypiConfig, "pypi_config", ".pypirc"),
    ];

    /// The one with this name in YAML.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, own, _)| *own == name);
        found.map(|(credential, ..)| *credential)
    }

    /// Where it lies below a home directory.
    pub fn home_path(self) -> &'static str {
        let found = Self::ALL.iter().find(|(own, ..)| *own == self);
        found.map_or("", |(_, _, place)| place)
    }
}

impl CredentialsConfig {
    /// What of the user's every command of the agent can read, as a list of names; empty if nothing.
    pub fn exposed_names(&self) -> Vec<String> {
        let places = self.mount.iter().map(|credential| credential.home_path());
        let mut exposed: Vec<String> = places.map(|place| format!("`~/{place}`")).collect();
        let mounts = self.additional_mounts.keys();
        exposed.extend(mounts.map(|path| format!("`{path}`")));
        match (&self.env_file, self.env_vars_from_file.as_slice()) {
            (None, _) => {}
            (Some(file), []) => exposed.push(format!("all variables of `{file}`")),
            (Some(file), names) => exposed.push(format!("{} of `{file}`", variables(names))),
        }
        match (self.environment, self.env_vars.as_slice()) {
            (PassedEnvironment::All, _) => exposed.push("your whole environment".to_owned()),
            (PassedEnvironment::Listed, []) => {}
            (PassedEnvironment::Listed, names) => exposed.push(variables(names)),
        }
        exposed
    }
}

fn variables(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// What is installed in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackagesConfig {
    /// Packages of the image's distribution, installed first, as root.
    pub system: Vec<String>,
    /// Packages of Python, installed after those.
    pub python: Vec<String>,
    /// Packages of npm, installed last.
    pub npm: Vec<String>,
    /// Whether what the workspace depends on is installed.
    pub dependencies: DependencyInstall,
}

/// Whether what a workspace depends on is installed by massgen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DependencyInstall {
    /// The agent does so itself.
    #[default]
    Manual,
    /// Before a command, if `requirements.txt`, `pyproject.toml` or `package.json` of the workspace
    /// is new or was changed (`auto_install_deps`).
    Automatic,
}

impl PackagesConfig {
    /// Whether anything would have to be fetched.
    pub fn needs_network(&self) -> bool {
        let lists = [&self.system, &self.python, &self.npm];
        self.dependencies == DependencyInstall::Automatic
            || lists.iter().any(|list| !list.is_empty())
    }
}
