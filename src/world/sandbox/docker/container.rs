//! Container of one agent, from before the first model request until the end of the run. It is
//! reused for all commands, and recreated with all changes that were made in it when other
//! directories must be mounted.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use bollard::errors::Error as EngineError;
use bollard::query_parameters::RestartContainerOptionsBuilder;

use crate::config::docker::{CONTAINER_HOME, DockerConfig, RootAccess};
use crate::config::engine_host::SshEngineHost;
use crate::error::{Error, ErrorKind, Result};
use crate::id::AgentId;
use crate::layout::RunName;
use crate::path::AbsPath;
use crate::sandbox_policy::limits::ResourceLimits;
use crate::world::sandbox::disk_watch::DiskWatch;
use crate::world::sandbox::docker::command::ContainerCommand;
use crate::world::sandbox::docker::container_spec::ContainerSpec;
use crate::world::sandbox::docker::credentials::{ContainerCredentials, HostUser};
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::instance::{ContainerInstance, kill};
use crate::world::sandbox::docker::labels::ContainerOrigin;
use crate::world::sandbox::docker::mounts::ReachablePaths;
use crate::world::sandbox::docker::packages::DependencyHashes;
use crate::world::sandbox::docker::run::RunningCommands;
use crate::world::sandbox::docker::sent_files::{SentFiles, expect_available_over_ssh};
use crate::world::sandbox::interrupt::CommandInterrupt;

/// Environment variables of every command: no colours, no pager, no prompts. Debian's `pip` refuses
/// to install into the system's packages unless it is told that this is intended.
const FIXED: &[(&str, &str)] = &[
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("HOME", CONTAINER_HOME),
    ("LC_ALL", "C.UTF-8"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("PIP_BREAK_SYSTEM_PACKAGES", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_NO_INPUT", "1"),
    ("TERM", "dumb"),
];
/// Number of attempts to remount a container for a command while others mount something else.
const SHOWN_ANEW_MAX: usize = 4;
/// Directory of programs that are installed for one user, below the home directory.
const OWN_PROGRAMS: &str = ".local/bin";

/// What runs in a container. Each has a container of its own, so that what an agent's commands install or
/// change in theirs decides about no check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerWork {
    /// The agent's commands.
    Commands,
    /// The checks on the agent's work.
    Checks,
}

/// Owner and parameters of a container.
#[derive(Clone, Copy, Debug)]
pub struct ContainerOwner<'a> {
    /// The agent.
    pub agent: &'a AgentId,
    /// What runs in it.
    pub work: ContainerWork,
    /// The run.
    pub run: RunName,
    /// The directory of the run's state.
    pub state: &'a AbsPath,
    /// The container config.
    pub config: &'a DockerConfig,
    /// Limits of all commands together.
    pub limits: &'a ResourceLimits,
    /// The agent's workspace.
    pub workspace: &'a AbsPath,
    /// Variables that the user sets in the config (`env`).
    pub added: &'a BTreeMap<String, String>,
    /// The user whose credentials are passed.
    pub user: HostUser<'a>,
}

/// The container of one agent. It is removed on drop.
#[derive(Debug)]
pub struct AgentContainer {
    pub(super) engine: ContainerEngine,
    pub(super) config: DockerConfig,
    recipe: ContainerSpec,
    env: BTreeMap<String, String>,
    notes: Vec<String>,
    pub(super) live: Mutex<RunningCommands>,
    pub(super) seen: Mutex<DependencyHashes>,
    pub(super) workspace: AbsPath,
    /// What is in it, if its engine is on another machine.
    pub(super) sent: Mutex<SentFiles>,
    /// Whether commands may still run there whose connection was lost.
    pub(super) has_lost_commands: AtomicBool,
    /// Directory for temporary files with what is fetched from there.
    pub(super) spool_place: AbsPath,
    /// `None` once the container is closed.
    instance: RwLock<Option<ContainerInstance>>,
}

impl AgentContainer {
    /// Creates and starts the container of an agent, and then installs the packages that the config
    /// lists. Anything that is missing is an error here.
    pub fn open(
        engine: &ContainerEngine,
        purpose: ContainerOwner<'_>,
        reachable: &ReachablePaths,
    ) -> Result<Self> {
        let config = purpose.config;
        if let Some(host) = engine.client.host() {
            expect_available_over_ssh(config, host)?;
        }
        let credentials = ContainerCredentials::gather(&config.credentials, purpose.user)?;
        let image = engine.block_on(engine.client.expect_image(&config.image))?;
        let mut env: BTreeMap<String, String> = credentials.env;
        let fixed = FIXED.iter();
        env.extend(fixed.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let path = format!("{CONTAINER_HOME}/{OWN_PROGRAMS}:{}", image.path);
        env.insert("PATH".to_owned(), path);
        env.extend(purpose.added.clone());
        let origin = ContainerOrigin {
            run: purpose.run,
            state: purpose.state,
        };
        let recipe = ContainerSpec {
            name: container_name(purpose),
            labels: origin.labels().into(),
            config: config.clone(),
            limits: *purpose.limits,
            files: credentials.files,
        };
        let mounts = recipe.plan_mounts(&engine.client, reachable)?;
        let instance =
            engine.block_on(ContainerInstance::start(&engine.client, &recipe, mounts))?;
        let mut container = Self {
            engine: engine.clone(),
            config: config.clone(),
            recipe,
            env,
            notes: credentials.missing,
            live: Mutex::default(),
            seen: Mutex::default(),
            workspace: purpose.workspace.clone(),
            sent: Mutex::default(),
            has_lost_commands: AtomicBool::new(false),
            spool_place: purpose.state.clone(),
            instance: RwLock::new(Some(instance)),
        };
        let notes = container.install();
        container.notes.extend(notes);
        let note = container.movable_trees_note(reachable);
        container.notes.extend(note);
        Ok(container)
    }

    /// Returns its name, as the engine lists it.
    pub fn name(&self) -> &str {
        &self.recipe.name
    }

    /// Returns the image that it is created from.
    pub fn image(&self) -> &str {
        &self.config.image
    }

    /// Returns the machine of its engine, if it is another one.
    pub fn host(&self) -> Option<&SshEngineHost> {
        self.engine.client.host()
    }

    /// Returns which parts of the config could not be provided: packages, variables.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Mounts other directories, or the same ones with other permissions. Background commands end.
    /// Changes made in the container are kept, except in memory and in mounted directories. Waits
    /// for running commands. If the engine is on another machine, the files are sent there instead.
    pub fn remount(&self, reachable: &ReachablePaths) -> Result<()> {
        self.remount_until(reachable, None)
    }

    /// Like [`AgentContainer::remount`], but stops sending files at an interrupt.
    pub(in crate::world::sandbox) fn remount_until(
        &self,
        reachable: &ReachablePaths,
        interrupt: Option<&CommandInterrupt>,
    ) -> Result<()> {
        if self.engine.is_elsewhere() {
            return self.send_files(reachable, interrupt);
        }
        let mounts = self.recipe.plan_mounts(&self.engine.client, reachable)?;
        let mut instance = self
            .instance
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match instance.as_mut() {
            Some(instance) if instance.mounts != mounts => {
                let client = &self.engine.client;
                self.engine
                    .block_on(instance.replace(client, &self.recipe, mounts))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Stops and removes it. A second call has no effect.
    pub fn close(&self) -> Result<()> {
        let mut instance = self
            .instance
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match instance.take() {
            Some(instance) => self.engine.block_on(instance.remove(&self.engine.client)),
            None => Ok(()),
        }
    }

    /// Returns a command with the environment variables and the user that all commands share.
    pub(super) fn base_command(&self) -> ContainerCommand {
        ContainerCommand {
            program: Vec::new(),
            env: self.env.clone(),
            dir: None,
            user: self.engine.client.container_user(),
        }
    }

    /// Returns the limits of its commands.
    pub(super) fn limits(&self) -> ResourceLimits {
        self.recipe.limits
    }

    /// Returns whether the agent may become root in it.
    pub(super) fn has_root(&self) -> bool {
        self.config.root == RootAccess::BySudo
    }

    /// Locks the container, whose id stays the same while the lock is held.
    pub(super) fn lock(&self) -> ContainerGuard<'_> {
        let instance = self.instance.read();
        ContainerGuard(instance.unwrap_or_else(PoisonError::into_inner))
    }

    /// Like [`AgentContainer::lock`], but mounts `reachable` first. Another thread may mount other
    /// directories at any time before the lock is taken.
    pub(super) fn lock_with_paths(
        &self,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
    ) -> Result<ContainerGuard<'_>> {
        for _ in 0..SHOWN_ANEW_MAX {
            self.remount_until(reachable, Some(interrupt))?;
            let mounts = self.recipe.plan_mounts(&self.engine.client, reachable)?;
            let guard = self.lock();
            if guard
                .0
                .as_ref()
                .is_none_or(|instance| instance.mounts == mounts)
            {
                return Ok(guard);
            }
        }
        let message = "other commands of the agent use the container with different directories";
        Err(Error::new(ErrorKind::Environment, message).with_hint("wait until they end"))
    }

    /// Kills everything that runs in it, including other commands: the kernel leaves no process in
    /// a container whose first process is gone. The next command starts it again.
    pub(super) fn end_all(
        &self,
        guard: &ContainerGuard<'_>,
    ) -> std::result::Result<(), EngineError> {
        self.engine.block_on(kill(&self.engine.client, guard.id()))
    }

    /// Kills everything that runs in it, including other commands, and starts it again.
    pub(super) fn restart(
        &self,
        guard: &ContainerGuard<'_>,
    ) -> std::result::Result<(), EngineError> {
        let options = RestartContainerOptionsBuilder::default().t(0).build();
        let api = &self.engine.client.api;
        self.engine
            .block_on(api.restart_container(guard.id(), Some(options)))
    }

    /// Replaces a container that was removed from outside.
    pub(super) fn recreate(&self) -> Result<()> {
        let mut instance = self
            .instance
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(removed) = instance.as_mut() else {
            return Ok(());
        };
        let client = &self.engine.client;
        let recreated = self.engine.block_on(removed.recreate(client, &self.recipe));
        drop(instance);
        self.forget_sent_files();
        recreated
    }
}

/// Returns the name of a container, which no other one of the engine has. The checks of all pipelines have
/// the same run.
fn container_name(owner: ContainerOwner<'_>) -> String {
    let ContainerOwner { agent, run, .. } = owner;
    match owner.work {
        ContainerWork::Commands => format!("massgen-{agent}-{run}"),
        ContainerWork::Checks => format!("massgen-{agent}-{run}-checks-{}", std::process::id()),
    }
}

/// A lock on a container, which is not replaced while it is held.
pub(super) struct ContainerGuard<'a>(RwLockReadGuard<'a, Option<ContainerInstance>>);

impl ContainerGuard<'_> {
    /// Watches the disks that commands may fill: those of the mounted directories and of the
    /// container itself.
    pub(super) fn disk_watch(&self, container: &AgentContainer) -> DiskWatch {
        let mounted = self
            .0
            .as_ref()
            .map(|instance| instance.mounts.writable_directories());
        let storage = container.engine.client.manner.storage.clone();
        let places = mounted.into_iter().flatten().chain(storage);
        DiskWatch::new(places.collect(), &container.recipe.limits)
    }

    /// Returns whether commands may write to directories of the machine outside `workspace`.
    pub(super) fn can_write_outside(&self, workspace: &AbsPath) -> bool {
        let mounted = self
            .0
            .as_ref()
            .map(|instance| instance.mounts.writable_directories());
        let mut mounted = mounted.into_iter().flatten();
        mounted.any(|path| !path.is_within(workspace))
    }

    /// Returns whether the container is not closed.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Returns its id; for a closed one, a name that no container has.
    pub(super) fn id(&self) -> &str {
        self.0.as_ref().map_or("closed", ContainerInstance::id)
    }
}

impl Drop for AgentContainer {
    fn drop(&mut self) {
        let instance = self
            .instance
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(instance) = instance.take() {
            let client = self.engine.client.clone();
            // If it cannot be removed now, the next run removes it.
            let removal = async move { instance.remove(&client).await.unwrap_or_default() };
            self.engine.finish_detached(removal);
        }
    }
}
