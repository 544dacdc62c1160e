//! Execution environment of one agent's commands: where they run, and their restrictions in
//! addition to its grants. It starts nothing: `exec` does, with a permitted call.

pub mod agent_directories;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::commands::CommandRules;
use crate::config::command_line::{CommandLineConfig, TIMEOUT_SECONDS_MAX};
use crate::error::Result;
use crate::path::{AbsPath, RealPath};
use crate::sandbox_policy::compile::{CommandContext, WriteTarget};
use crate::sandbox_policy::environment::{
    EnvironmentInputs, command_environment, exclude_directories,
};
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::sandbox_policy::toolchains::UserToolchains;
use crate::sandbox_policy::{NetworkAccess, NetworkPolicy};
use crate::world::io::file_change::{FileChange, LateChanges};
use crate::world::sandbox::background::BackgroundCommands;
use crate::world::sandbox::exec_backend::ExecBackend;
use crate::world::sandbox::exec_environment::agent_directories::AgentDirectories;
use crate::world::sandbox::overlay::{OverlayAudience, OverlayOrigin, WeakWriteOverlay};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};

/// Port of the proxy on the loopback interface of a network namespace.
const PROXY_PORT: u16 = 3128;

/// The execution environment of one agent. A clone is the same, in every phase of a run.
#[derive(Clone, Debug)]
pub struct ExecEnvironment(Arc<ExecEnvironmentInner>);

#[derive(Debug)]
struct ExecEnvironmentInner {
    rules: CommandRules,
    config: CommandLineConfig,
    process_env: BTreeMap<String, String>,
    config_env: BTreeMap<String, String>,
    toolchains: UserToolchains,
    venv: VenvChoice,
    backend: ExecBackend,
    executable: AbsPath,
    directories: AgentDirectories,
    background: BackgroundCommands,
    user_tree_lock: UserTreeLock,
    late_changes: LateChanges,
}

/// The Python virtual environment that commands use.
#[derive(Clone, Debug)]
enum VenvChoice {
    /// That of their working directory.
    Local,
    /// This one, if any.
    Only(Option<AbsPath>),
}

/// Lock on the user's trees that the commands of one agent share. A clone is the same lock.
#[derive(Clone, Debug, Default)]
pub(in crate::world) struct UserTreeLock(Arc<Mutex<UserTreeState>>);

/// State of the user's trees, shared by the commands of one agent.
#[derive(Debug, Default)]
pub(in crate::world) struct UserTreeState {
    /// Files that were already reported as left in an overlay.
    pub(in crate::world) reported_files: BTreeSet<RealPath>,
    /// The overlay that the agent's container shows while a command works on it.
    pub(in crate::world) visible_overlay: WeakWriteOverlay,
}

impl UserTreeLock {
    /// Waits until no other command inspects the trees or applies changes to them.
    pub(in crate::world) fn lock(&self) -> MutexGuard<'_, UserTreeState> {
        self.0.lock()
    }
}

/// What the execution environment of an agent is made from.
#[derive(Debug)]
pub struct ExecEnvironmentConfig<'a> {
    /// The config of the command line.
    pub config: &'a CommandLineConfig,
    /// Runs the processes.
    pub backend: ExecBackend,
    /// massgen's executable, which is started as the fork server of overlays.
    pub executable: &'a AbsPath,
    /// The private directories of the commands.
    pub directories: AgentDirectories,
    /// massgen's own environment.
    pub env: &'a BTreeMap<String, String>,
    /// The variables of the config.
    pub config_env: BTreeMap<String, String>,
    /// The user's home directory.
    pub home: Option<&'a AbsPath>,
}

/// One command to run.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// Its working directory.
    pub dir: AbsPath,
    /// The Python virtual environment in the directory, if there is one.
    pub venv: Option<AbsPath>,
}

impl ExecEnvironmentInner {
    /// Returns an environment with the same limits and other private directories, so that nothing
    /// that commands leave there reaches commands of this one.
    fn with_directories(&self, directories: AgentDirectories) -> Self {
        Self {
            rules: self.rules.clone(),
            config: self.config.clone(),
            process_env: self.process_env.clone(),
            config_env: self.config_env.clone(),
            toolchains: self.toolchains.clone(),
            venv: self.venv.clone(),
            backend: self.backend.clone(),
            executable: self.executable.clone(),
            directories,
            background: BackgroundCommands::default(),
            user_tree_lock: UserTreeLock::default(),
            late_changes: LateChanges::default(),
        }
    }
}

impl ExecEnvironment {
    /// Creates the environment that all commands of an agent share.
    pub fn new(environment_config: ExecEnvironmentConfig<'_>) -> Self {
        let ExecEnvironmentConfig {
            config,
            backend,
            executable,
            directories,
            env,
            config_env,
            home,
        } = environment_config;
        Self(Arc::new(ExecEnvironmentInner {
            rules: config.rules(backend.sandbox_level()),
            config_env,
            toolchains: UserToolchains::from_environment(env, home),
            process_env: env.clone(),
            config: config.clone(),
            venv: VenvChoice::Local,
            background: BackgroundCommands::default(),
            backend,
            executable: executable.clone(),
            directories,
            user_tree_lock: UserTreeLock::default(),
            late_changes: LateChanges::default(),
        }))
    }

    /// Returns an environment for a subagent of the agent, with its own private directories. `None` if the sandbox that is used does not enforce grants for each command: a
    /// container shows what its agent may use, and without a sandbox nothing is enforced.
    ///
    /// # Errors
    /// The directories cannot be created.
    pub(in crate::world) fn for_subagent(&self) -> Result<Option<Self>> {
        let enforces_grants = match self.sandbox_level() {
            SandboxLevel::Overlay | SandboxLevel::Namespaces | SandboxLevel::Landlock => true,
            SandboxLevel::Unavailable | SandboxLevel::Off => false,
        };
        if !enforces_grants || self.0.backend.local_sandbox().is_err() {
            return Ok(None);
        }
        let directories = self.0.directories.for_subagent()?;
        Ok(Some(Self(Arc::new(self.0.with_directories(directories)))))
    }

    /// Returns an environment for one check, with private directories that end with it. Nothing
    /// that `is_work` says the checked work may contain is in its `PATH` or named by the variables
    /// of its toolchains. `venv` is the user's Python virtual environment, if there is one.
    ///
    /// # Errors
    /// The directories cannot be created.
    pub fn for_check(
        &self,
        venv: Option<&AbsPath>,
        is_work: impl Fn(&AbsPath) -> bool,
    ) -> Result<Self> {
        let mut inner = self.0.with_directories(self.0.directories.for_check()?);
        exclude_directories(&mut inner.process_env, &is_work);
        exclude_directories(&mut inner.config_env, &is_work);
        let variables = &mut inner.toolchains.variables;
        variables.retain(|_, value| AbsPath::new(value).is_some_and(|path| !is_work(&path)));
        inner.venv = VenvChoice::Only(venv.cloned());
        Ok(Self(Arc::new(inner)))
    }

    /// Returns an environment for one command on an answer, with private directories that end with
    /// it.
    ///
    /// # Errors
    /// The directories cannot be created.
    pub(in crate::world) fn for_trial(&self) -> Result<Self> {
        let directories = self.0.directories.for_check()?;
        Ok(Self(Arc::new(self.0.with_directories(directories))))
    }

    /// Returns an environment for a command of the user's config, to which the lists of commands for
    /// agents do not apply. Its private directories are in `root`, or those of this one.
    ///
    /// # Errors
    /// The directories cannot be created.
    pub fn for_setup(&self, root: Option<&AbsPath>) -> Result<Self> {
        let directories = match root {
            Some(root) => {
                dir::create_all(root, DirectoryAudience::User)?;
                AgentDirectories::prepare(root)?
            }
            None => self.0.directories.clone(),
        };
        let mut inner = self.0.with_directories(directories);
        inner.rules.allowed = None;
        inner.rules.blocked.clear();
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the home directory of the commands.
    pub fn home(&self) -> AbsPath {
        self.0.directories.home()
    }

    /// Returns the rules for command lines.
    pub fn rules(&self) -> &CommandRules {
        &self.0.rules
    }

    /// Returns the config of the command line.
    pub fn config(&self) -> &CommandLineConfig {
        &self.0.config
    }

    /// Returns how the commands are isolated, for people.
    pub fn isolation(&self) -> ExecutionIsolation {
        self.0.backend.isolation()
    }

    /// Returns what the backend cannot provide of the config, and what it exposes.
    pub fn notes(&self) -> &[String] {
        self.0.backend.notes()
    }

    /// Returns the sandbox level. A container gives access to what a sandbox of level `namespaces`
    /// would.
    pub fn sandbox_level(&self) -> SandboxLevel {
        self.0.backend.sandbox_level()
    }

    /// Returns how commands see an overlay.
    pub fn overlay_audience(&self) -> OverlayAudience {
        self.0.backend.overlay_audience()
    }

    /// Returns whether massgen's sandbox can show commands an overlay, at level `landlock` as copies at
    /// other paths.
    pub(in crate::world) fn shows_changes(&self) -> bool {
        self.shows_overlays() || (self.0.backend.overlay_audience() == OverlayAudience::Landlock)
    }

    /// Returns whether commands see any overlay in massgen's sandbox.
    pub(in crate::world) fn shows_overlays(&self) -> bool {
        let level = self.sandbox_level();
        self.0.backend.local_sandbox().is_ok()
            && matches!(level, SandboxLevel::Overlay | SandboxLevel::Namespaces)
    }

    /// Returns what runs the processes.
    pub(in crate::world) fn backend(&self) -> &ExecBackend {
        &self.0.backend
    }

    /// Returns where the fork server of an overlay for them comes from.
    pub fn overlay_origin(&self) -> OverlayOrigin<'_> {
        let fallback = OverlayOrigin::Executable(&self.0.executable);
        let sandbox = self.0.backend.local_sandbox();
        sandbox.map_or(fallback, OverlayOrigin::Sandbox)
    }

    /// Returns the private directories of the commands.
    pub(in crate::world) fn directories(&self) -> &AgentDirectories {
        &self.0.directories
    }

    /// Returns the background commands.
    pub(in crate::world) fn background(&self) -> &BackgroundCommands {
        &self.0.background
    }

    /// Returns the lock on the user's trees.
    pub(in crate::world) fn user_tree_lock(&self) -> &UserTreeLock {
        &self.0.user_tree_lock
    }

    /// Returns the changes made by background commands.
    pub(in crate::world) fn late_changes(&self) -> &LateChanges {
        &self.0.late_changes
    }

    /// Kills the background commands, and returns the late changes, theirs and those of earlier
    /// ones. Blocks.
    pub fn end_background(&self) -> Vec<FileChange> {
        self.0.background.stop_all();
        self.0.late_changes.take()
    }

    /// Returns the timeout of a command that requests `seconds`.
    pub(in crate::world) fn time_max(&self, seconds: Option<u64>) -> Duration {
        let default_seconds = self.0.config.bounds.timeout_seconds;
        // A config with a longer default also permits longer requests.
        let seconds_max = default_seconds.max(TIMEOUT_SECONDS_MAX);
        Duration::from_secs(seconds.map_or(default_seconds, |seconds| seconds.min(seconds_max)))
    }

    /// Returns the limit on each captured output stream of a command, in bytes.
    pub(in crate::world) fn output_bytes_max(&self) -> usize {
        usize::try_from(self.0.config.bounds.output_bytes_max).unwrap_or(usize::MAX)
    }

    /// Returns the network access of one command and the proxy for it, unless the access is fixed.
    pub(in crate::world) fn network(
        &self,
    ) -> io::Result<(NetworkAccess, Option<Arc<NetworkProxy>>)> {
        self.network_for_policy(&self.0.config.network)
    }

    /// Like [`ExecEnvironment::network`], for this network policy instead of that of the commands.
    pub(in crate::world) fn network_for_policy(
        &self,
        network: &NetworkPolicy,
    ) -> io::Result<(NetworkAccess, Option<Arc<NetworkProxy>>)> {
        if self.0.backend.has_fixed_network() {
            return Ok((NetworkAccess::None, None));
        }
        let domains = match network {
            NetworkPolicy::Off => return Ok((NetworkAccess::None, None)),
            NetworkPolicy::On => return Ok((NetworkAccess::Host, None)),
            NetworkPolicy::Domains(domains) => domains,
        };
        let proxy = NetworkProxy::new(domains)?;
        let port = match self.sandbox_level() {
            SandboxLevel::Overlay | SandboxLevel::Namespaces => PROXY_PORT,
            SandboxLevel::Landlock | SandboxLevel::Unavailable | SandboxLevel::Off => {
                proxy.serve_on_loopback()?
            }
        };
        Ok((NetworkAccess::Proxy { port }, Some(Arc::new(proxy))))
    }

    /// Returns the context of a command without its grants; masks and overlay layers are still
    /// empty.
    pub(in crate::world) fn command_context(
        &self,
        spec: CommandSpec,
        network_access: NetworkAccess,
    ) -> CommandContext {
        let (home, scratch) = (self.0.directories.home(), self.0.directories.scratch());
        let env = command_environment(&EnvironmentInputs {
            process_env: &self.0.process_env,
            toolchains: &self.0.toolchains,
            config_env: &self.0.config_env,
            home: &home,
            scratch: &scratch,
            venv: match &self.0.venv {
                VenvChoice::Local => spec.venv.as_ref(),
                VenvChoice::Only(venv) => venv.as_ref(),
            },
            level: self.sandbox_level(),
            network: network_access,
        });
        CommandContext {
            dir: spec.dir,
            home,
            scratch,
            toolchains: self.0.toolchains.paths.clone(),
            env,
            limits: self.0.config.limits,
            network: network_access,
            write_target: WriteTarget::Layers(Vec::new()),
            identities: BTreeMap::new(),
            masked: Vec::new(),
            hidden: Vec::new(),
            program: spec.program,
        }
    }
}
