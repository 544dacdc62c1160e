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
use crate::world::exec_backend::{ExecBackend, NetworkControl};
use crate::world::exec_environment::agent_directories::AgentDirectories;
use crate::world::file_change::{FileChange, LateChanges};
use crate::world::overlay::{OverlayAudience, OverlayOrigin, WeakWriteOverlay};
use crate::world::sandbox::background::BackgroundCommands;
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
    backend: Arc<dyn ExecBackend>,
    executable: AbsPath,
    room: AgentDirectories,
    background: BackgroundCommands,
    trees: UserTreeLock,
    late: LateChanges,
}

/// The user's trees, as the commands of one agent share them. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct UserTreeLock(Arc<Mutex<UserTreeState>>);

/// What the commands of one agent know of the user's trees.
#[derive(Debug, Default)]
pub(super) struct UserTreeState {
    /// What was already said to have stayed on a stage.
    pub(super) reported: BTreeSet<RealPath>,
    /// The stage that the agent's container shows, while a command works on it.
    pub(super) visible_overlay: WeakWriteOverlay,
}

impl UserTreeLock {
    /// Waits until nobody else looks at them or carries something there.
    pub(super) fn lock(&self) -> MutexGuard<'_, UserTreeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the commands of an agent are made from.
#[derive(Debug)]
pub struct ExecEnvironmentConfig<'a> {
    /// What the config says.
    pub config: &'a CommandLineConfig,
    /// What executes them.
    pub backend: Arc<dyn ExecBackend>,
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
            backend,
            executable,
            room,
            env,
            variables,
            home,
        } = origin;
        Self(Arc::new(ExecEnvironmentInner {
            rules: config.rules(backend.sandbox_level()),
            added_env: config.added_env(variables),
            toolchains: UserToolchains::from_environment(env, home),
            own_env: env.clone(),
            config: config.clone(),
            background: BackgroundCommands::default(),
            backend,
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
        self.0.backend.isolation()
    }

    /// What of the config could not be had, and what it exposes.
    pub fn notes(&self) -> &[String] {
        self.0.backend.notes()
    }

    /// How they are held. What they reach elsewhere is what a sandbox of this level would open.
    pub fn sandbox_level(&self) -> SandboxLevel {
        self.0.backend.sandbox_level()
    }

    /// How they are shown an overlay.
    pub fn overlay_audience(&self) -> OverlayAudience {
        self.0.backend.overlay_audience()
    }

    /// What executes them.
    pub(super) fn backend(&self) -> &Arc<dyn ExecBackend> {
        &self.0.backend
    }

    /// What the processes of a stage come from that they work on.
    pub fn overlay_origin(&self) -> OverlayOrigin<'_> {
        let own = OverlayOrigin::Executable(&self.0.executable);
        let sandbox = self.0.backend.local_sandbox();
        sandbox.map_or(own, OverlayOrigin::Sandbox)
    }

    /// The directories that are theirs.
    pub(super) fn directories(&self) -> &AgentDirectories {
        &self.0.room
    }

    /// Those that go on while the agent works.
    pub(super) fn background(&self) -> &BackgroundCommands {
        &self.0.background
    }

    /// The user's trees.
    pub(super) fn user_tree_lock(&self) -> &UserTreeLock {
        &self.0.trees
    }

    /// What commands changed that nobody waited for.
    pub(super) fn late_changes(&self) -> &LateChanges {
        &self.0.late
    }

    /// Ends those that go on, and takes what they and others changed that nobody waited for. It
    /// blocks.
    pub fn end_background(&self) -> Vec<FileChange> {
        self.0.background.stop_all();
        self.0.late.take()
    }

    /// How long a command may run that asks for `seconds`.
    pub(super) fn time_max(&self, seconds: Option<u64>) -> Duration {
        let usual = self.0.config.bounds.timeout_seconds;
        let most = usual.max(TIMEOUT_SECONDS_MAX);
        Duration::from_secs(seconds.map_or(usual, |seconds| seconds.min(most)))
    }

    /// How much is kept of each output of a command, in bytes.
    pub(super) fn output_bytes_max(&self) -> usize {
        usize::try_from(self.0.config.bounds.output_bytes_max).unwrap_or(usize::MAX)
    }

    /// What one command reaches of the network, with what answers there. Where that is fixed, nothing is
    /// added to it.
    pub(super) fn network(&self) -> io::Result<(NetworkAccess, Option<Arc<NetworkProxy>>)> {
        self.network_under(&self.0.config.network)
    }

    /// The same for one that reaches this of the network.
    pub(super) fn network_under(
        &self,
        network: &NetworkPolicy,
    ) -> io::Result<(NetworkAccess, Option<Arc<NetworkProxy>>)> {
        if self.0.backend.network_control() == NetworkControl::Fixed {
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
    pub(super) fn command_context(
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
