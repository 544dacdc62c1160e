//! Owns where the commands of one agent run and what they are held to beside its grants. It starts
//! nothing: `exec` does, with a permitted call.

pub mod agent_directories;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::commands::CommandRules;
use crate::config::command_line::{CommandLineConfig, TIMEOUT_SECONDS_MAX};
use crate::dotenv::ConfigVariables;
use crate::path::{AbsPath, RealPath};
use crate::sandbox_policy::compile::{CommandContext, WriteTarget};
use crate::sandbox_policy::environment::{EnvironmentInputs, command_environment};
use crate::sandbox_policy::network::{NetworkAccess, NetworkPolicy};
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::sandbox_policy::toolchains::UserToolchains;
use crate::world::io::file_change::{FileChange, LateChanges};
use crate::world::sandbox::Sandbox;
use crate::world::sandbox::background::BackgroundCommands;
use crate::world::sandbox::docker::container::AgentContainer;
use crate::world::sandbox::exec_environment::agent_directories::AgentDirectories;
use crate::world::sandbox::overlay::{WeakWriteOverlay, WriteOverlay};
use crate::world::sandbox::proxy::NetworkProxy;

/// The port of the proxy on the loopback of a sandbox of its own.
const PROXY_PORT: u16 = 3128;

/// The commands of one agent. A clone is the same, in every phase of a run.
#[derive(Clone, Debug)]
pub struct ExecEnvironment(Arc<ExecEnvironmentInner>);

#[derive(Debug)]
struct ExecEnvironmentInner {
    rules: CommandRules,
    config: CommandLineConfig,
    own_env: BTreeMap<String, String>,
    added_env: BTreeMap<String, String>,
    toolchains: UserToolchains,
    place: ExecBackend,
    executable: AbsPath,
    room: AgentDirectories,
    background: BackgroundCommands,
    trees: UserTreeLock,
    late: LateChanges,
}

/// The user's trees, as the commands of one agent share them. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(in crate::world) struct UserTreeLock(Arc<Mutex<UserTreeState>>);

/// What the commands of one agent know of the user's trees.
#[derive(Debug, Default)]
pub(in crate::world) struct UserTreeState {
    /// What was already said to have stayed on a stage.
    pub(in crate::world) reported: BTreeSet<RealPath>,
    /// The stage that the agent's container shows, while a command works on it.
    pub(in crate::world) visible_overlay: WeakWriteOverlay,
}

impl UserTreeLock {
    /// Waits until nobody else looks at them or carries something there.
    pub(in crate::world) fn lock(&self) -> MutexGuard<'_, UserTreeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where commands run.
#[derive(Debug)]
pub enum ExecBackend {
    /// In massgen's sandbox.
    Sandbox(Sandbox),
    /// In a container of the agent's own.
    Container(Arc<AgentContainer>),
}

/// What the commands of an agent are made from.
#[derive(Debug)]
pub struct ExecEnvironmentConfig<'a> {
    /// What the config says.
    pub config: &'a CommandLineConfig,
    /// Where they run.
    pub backend: ExecBackend,
    /// massgen itself, which is started as the stem of stages.
    pub executable: &'a AbsPath,
    /// The directories that are theirs.
    pub room: AgentDirectories,
    /// massgen's own environment.
    pub env: &'a BTreeMap<String, String>,
    /// The variables that the config may pass on.
    pub variables: &'a ConfigVariables,
    /// The user's home directory.
    pub home: Option<&'a AbsPath>,
}

/// What one command is.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// What is given to the shell.
    pub program: Vec<String>,
    /// The directory that it begins in.
    pub dir: AbsPath,
    /// The Python environment that the directory holds, if it does.
    pub venv: Option<AbsPath>,
}

impl ExecEnvironment {
    /// Puts together what all commands of an agent share.
    pub fn new(origin: ExecEnvironmentConfig<'_>) -> Self {
        let ExecEnvironmentConfig {
            config,
            backend: place,
            executable,
            room,
            env,
            variables,
            home,
        } = origin;
        Self(Arc::new(ExecEnvironmentInner {
            rules: config.rules(place.sandbox_level()),
            added_env: config.added_env(variables),
            toolchains: UserToolchains::from_environment(env, home),
            own_env: env.clone(),
            config: config.clone(),
            background: BackgroundCommands::default(),
            place,
            executable: executable.clone(),
            room,
            trees: UserTreeLock::default(),
            late: LateChanges::default(),
        }))
    }

    /// The rules about their text.
    pub fn rules(&self) -> &CommandRules {
        &self.0.rules
    }

    /// What the config says about them.
    pub fn config(&self) -> &CommandLineConfig {
        &self.0.config
    }

    /// What holds them, for people.
    pub fn isolation(&self) -> ExecutionIsolation {
        match &self.0.place {
            ExecBackend::Sandbox(sandbox) => ExecutionIsolation::Sandbox {
                tier: sandbox.level(),
                reasons: sandbox.reasons().to_vec(),
            },
            ExecBackend::Container(container) => ExecutionIsolation::Container {
                image: container.image().to_owned(),
            },
        }
    }

    /// What of the config could not be had, and what it exposes.
    pub fn notes(&self) -> &[String] {
        match &self.0.place {
            ExecBackend::Sandbox(_) => &[],
            ExecBackend::Container(container) => container.notes(),
        }
    }

    /// How they are held. What a container reaches is what a sandbox of tier B would.
    pub fn sandbox_level(&self) -> SandboxLevel {
        self.0.place.sandbox_level()
    }

    /// Where they run.
    pub(in crate::world) fn backend(&self) -> &ExecBackend {
        &self.0.place
    }

    /// massgen itself.
    pub(in crate::world) fn executable(&self) -> &AbsPath {
        &self.0.executable
    }

    /// The directories that are theirs.
    pub(in crate::world) fn directories(&self) -> &AgentDirectories {
        &self.0.room
    }

    /// Those that go on while the agent works.
    pub(in crate::world) fn background(&self) -> &BackgroundCommands {
        &self.0.background
    }

    /// The user's trees.
    pub(in crate::world) fn user_tree_lock(&self) -> &UserTreeLock {
        &self.0.trees
    }

    /// What commands changed that nobody waited for.
    pub(in crate::world) fn late_changes(&self) -> &LateChanges {
        &self.0.late
    }

    /// Ends those that go on, and takes what they and others changed that nobody waited for. It
    /// blocks.
    pub fn end_background(&self) -> Vec<FileChange> {
        self.0.background.stop_all();
        self.0.late.take()
    }

    /// How long a command may run that asks for `seconds`.
    pub(in crate::world) fn time_max(&self, seconds: Option<u64>) -> Duration {
        let usual = self.0.config.bounds.timeout_seconds;
        let most = usual.max(TIMEOUT_SECONDS_MAX);
        Duration::from_secs(seconds.map_or(usual, |seconds| seconds.min(most)))
    }

    /// How much is kept of each output of a command, in bytes.
    pub(in crate::world) fn output_bytes_max(&self) -> usize {
        usize::try_from(self.0.config.bounds.output_bytes_max).unwrap_or(usize::MAX)
    }

    /// What one command reaches of the network, with what answers there. A container has the
    /// network that it was made with.
    pub(in crate::world) fn network(
        &self,
    ) -> io::Result<(NetworkAccess, Option<Arc<NetworkProxy>>)> {
        self.network_under(&self.0.config.network)
    }

    /// The same for one that reaches this of the network.
    pub(in crate::world) fn network_under(
        &self,
        network: &NetworkPolicy,
    ) -> io::Result<(NetworkAccess, Option<Arc<NetworkProxy>>)> {
        if let ExecBackend::Container(_) = self.0.place {
            return Ok((NetworkAccess::None, None));
        }
        let domains = match network {
            NetworkPolicy::Off => return Ok((NetworkAccess::None, None)),
            NetworkPolicy::On => return Ok((NetworkAccess::Host, None)),
            NetworkPolicy::Domains(domains) => domains,
        };
        let proxy = NetworkProxy::new(domains)?;
        let port = match self.sandbox_level() {
            SandboxLevel::A | SandboxLevel::B => PROXY_PORT,
            SandboxLevel::C | SandboxLevel::D | SandboxLevel::Off => proxy.serve_on_loopback()?,
        };
        Ok((NetworkAccess::Proxy { port }, Some(Arc::new(proxy))))
    }

    /// What a command is besides the grants; nothing is masked or laid over yet.
    pub(in crate::world) fn command_context(
        &self,
        order: CommandSpec,
        reach: NetworkAccess,
    ) -> CommandContext {
        let (home, scratch) = (self.0.room.home(), self.0.room.scratch());
        let env = command_environment(&EnvironmentInputs {
            own: &self.0.own_env,
            toolchains: &self.0.toolchains,
            added: &self.0.added_env,
            home: &home,
            scratch: &scratch,
            venv: order.venv.as_ref(),
            tier: self.sandbox_level(),
            reach,
        });
        CommandContext {
            dir: order.dir,
            home,
            scratch,
            toolchains: self.0.toolchains.places.clone(),
            env,
            limits: self.0.config.limits,
            reach,
            written: WriteTarget::Layers(Vec::new()),
            identities: BTreeMap::new(),
            masked: Vec::new(),
            hidden: Vec::new(),
            program: order.program,
        }
    }
}

impl ExecBackend {
    /// Whether commands find at `path` what they may change there: what no stage holds, or what this
    /// stage shows them.
    pub(in crate::world) fn shows_changes(&self, stage: &WriteOverlay, path: &AbsPath) -> bool {
        match self {
            ExecBackend::Sandbox(_) => !stage.is_hidden(path),
            ExecBackend::Container(_) => {
                !stage.is_hidden(path) || stage.copies().contains_key(path)
            }
        }
    }

    fn sandbox_level(&self) -> SandboxLevel {
        match self {
            ExecBackend::Sandbox(sandbox) => sandbox.level(),
            ExecBackend::Container(_) => SandboxLevel::B,
        }
    }
}
