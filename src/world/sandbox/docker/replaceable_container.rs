//! A container that may be replaced by another with the same changes in it: its lock keeps it in
//! place while a caller relies on it. It knows which commands run in it.

use std::collections::BTreeMap;
use std::time::Duration;

use bollard::errors::Error as EngineError;
use bollard::query_parameters::{RestartContainerOptionsBuilder, StartContainerOptions};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::timeout;

use crate::config::docker::RootAccess;
use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sandbox::disk_watch::DiskWatch;
use crate::world::sandbox::docker::command::{ContainerCommand, ContainerExec};
use crate::world::sandbox::docker::container_spec::ContainerSpec;
use crate::world::sandbox::docker::engine::{ContainerEngine, ContainerUser};
use crate::world::sandbox::docker::engine_error::is_stopped;
use crate::world::sandbox::docker::instance::{ContainerChanges, ContainerInstance, kill};
use crate::world::sandbox::docker::mounts::MountPlan;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::running_commands::{
    ContainerCommandId, RunningCommand, RunningCommands,
};

/// Timeout for killing what a command left behind.
const SWEEP_TIME_MAX: Duration = Duration::from_secs(5);
/// Timeout for an engine to start a command.
const START_TIME_MAX: Duration = Duration::from_mins(1);

/// A container whose instance can be replaced. It is removed on drop.
#[derive(Debug)]
pub(super) struct ReplaceableContainer {
    pub(super) engine: ContainerEngine,
    pub(super) spec: ContainerSpec,
    /// Environment variables of every command.
    env: BTreeMap<String, String>,
    /// The agent's workspace.
    pub(super) workspace: AbsPath,
    pub(super) running_commands: Mutex<RunningCommands>,
    /// `None` once the container is closed.
    instance: RwLock<Option<ContainerInstance>>,
}

impl ReplaceableContainer {
    /// Creates and starts a container that can access `reachable`, with these environment variables
    /// for every command.
    pub(super) fn start_new(
        engine: &ContainerEngine,
        spec: ContainerSpec,
        env: BTreeMap<String, String>,
        workspace: &AbsPath,
        reachable: &ReachablePaths,
    ) -> Result<Self> {
        let mounts = spec.plan_mounts(engine, reachable)?;
        let instance = engine.block_on(ContainerInstance::start(engine, &spec, mounts))?;
        Ok(Self {
            engine: engine.clone(),
            spec,
            env,
            workspace: workspace.clone(),
            running_commands: Mutex::default(),
            instance: RwLock::new(Some(instance)),
        })
    }

    /// Continues it for the next turn of a session: ends what runs in it, and mounts `reachable`.
    /// Removes it if `spec` has other properties than the names, or if the engine fails.
    pub(super) fn continue_as(
        mut self,
        spec: &ContainerSpec,
        env: &BTreeMap<String, String>,
        workspace: &AbsPath,
        reachable: &ReachablePaths,
    ) -> Option<Self> {
        let is_same = self.spec.config == spec.config
            && self.spec.limits == spec.limits
            && self.spec.files == spec.files;
        is_same.then_some(())?;
        self.env.clone_from(env);
        self.workspace.clone_from(workspace);
        self.end_all(&self.lock()).ok()?;
        drop(
            self.lock_with_mounts(reachable, ContainerChanges::Kept)
                .ok()?,
        );
        Some(self)
    }

    /// Kills everything that runs in it, where an event loop must not be blocked on.
    pub(super) fn end_all_detached(&self) {
        let (engine, id) = (self.engine.clone(), self.lock().id().to_owned());
        // If it fails, it is tried again before the container is continued.
        let work = async move { kill(&engine, &id).await.unwrap_or_default() };
        self.engine.finish_detached(work);
    }

    /// Mounts other directories, or the same ones with other permissions, and locks the container:
    /// replaces it if that changes anything, or if `changes` in it are discarded. Waits for running
    /// commands.
    pub(super) fn lock_with_mounts(
        &self,
        reachable: &ReachablePaths,
        changes: ContainerChanges,
    ) -> Result<ContainerGuard<'_>> {
        let mounts = self.spec.plan_mounts(&self.engine, reachable)?;
        let mut instance = self.lock_instance();
        if let Some(current) = instance.as_mut()
            && (current.mounts != mounts || changes == ContainerChanges::Discarded)
        {
            let replacement = current.replace(&self.engine, &self.spec, mounts, changes);
            self.engine.block_on(replacement)?;
        }
        // A downgrade leaves no gap in which another command could mount something else.
        Ok(ContainerGuard(RwLockWriteGuard::downgrade(instance)))
    }

    /// Makes what was changed in it until now part of all containers that replace it.
    pub(super) fn save(&self) -> Result<()> {
        match self.lock_instance().as_mut() {
            Some(instance) => self.engine.block_on(instance.save(&self.engine)),
            None => Ok(()),
        }
    }

    /// Stops and removes it. A second call has no effect.
    pub(super) fn close(&self) -> Result<()> {
        let mut instance = self.lock_instance();
        match instance.take() {
            Some(instance) => self.engine.block_on(instance.remove(&self.engine)),
            None => Ok(()),
        }
    }

    /// Returns a command with the environment variables and the user that all commands share.
    pub(super) fn base_command(&self) -> ContainerCommand {
        ContainerCommand {
            program: Vec::new(),
            env: self.env.clone(),
            dir: None,
            user: self.engine.container_user(),
            has_input: false,
        }
    }

    /// Returns an agent's command in the directory `dir`.
    pub(super) fn agent_command(
        &self,
        command: &str,
        dir: &AbsPath,
        running_command: &RunningCommand,
    ) -> ContainerCommand {
        let container_command = ContainerCommand {
            dir: Some(dir.clone()),
            ..self.base_command()
        };
        container_command.with_agent_command(command, &running_command.id)
    }

    /// Returns whether the agent may become root in it.
    pub(super) fn has_root(&self) -> bool {
        self.spec.config.root == RootAccess::BySudo
    }

    /// Locks the container, whose id stays the same while the lock is held.
    pub(super) fn lock(&self) -> ContainerGuard<'_> {
        let instance = self.instance.read();
        ContainerGuard(instance)
    }

    /// Kills everything that runs in it, including other commands: the kernel leaves no process in
    /// a container whose first process is gone. The next command starts it again.
    pub(super) fn end_all(
        &self,
        guard: &ContainerGuard<'_>,
    ) -> std::result::Result<(), EngineError> {
        self.engine.block_on(kill(&self.engine, guard.id()))
    }

    /// Kills everything that runs in it, like [`Self::end_all`], but waits for at most `time_max`
    /// until an engine has done it. Whether it has shows in the end of what ran.
    pub(super) fn end_all_in_time(&self, time_max: Duration) {
        let guard = self.lock();
        let kill_request = kill(&self.engine, guard.id());
        let kill_result = self
            .engine
            .block_on(async { timeout(time_max, kill_request).await });
        drop(kill_result);
    }

    /// Kills everything that runs in it, including other commands, and starts it again.
    pub(super) fn restart(
        &self,
        guard: &ContainerGuard<'_>,
    ) -> std::result::Result<(), EngineError> {
        let options = RestartContainerOptionsBuilder::default().t(0).build();
        let api = &self.engine.api;
        self.engine
            .block_on(api.restart_container(guard.id(), Some(options)))
    }

    /// Replaces a container that was removed from outside.
    pub(super) fn recreate(&self) -> Result<()> {
        let mut instance = self.lock_instance();
        let Some(removed_instance) = instance.as_mut() else {
            return Ok(());
        };
        let replacement = removed_instance.recreate(&self.engine, &self.spec);
        self.engine.block_on(replacement)
    }

    /// Locks the container to replace it; `None` in it is a closed one. Waits for running commands.
    pub(super) fn lock_instance(&self) -> RwLockWriteGuard<'_, Option<ContainerInstance>> {
        self.instance.write()
    }

    /// Registers a command.
    pub(super) fn register_command(&self) -> RunningCommand {
        self.running_commands.lock().register()
    }

    /// Starts a command. A container that was stopped from outside, or by its own memory limit, is
    /// started again first.
    pub(super) fn start(
        &self,
        guard: &ContainerGuard<'_>,
        container_command: ContainerCommand,
    ) -> std::result::Result<ContainerExec, EngineError> {
        let engine = &self.engine;
        let start = async {
            match ContainerExec::start(engine, guard.id(), container_command.clone()).await {
                Err(error) if is_stopped(&error) => {
                    let start = engine
                        .api
                        .start_container(guard.id(), None::<StartContainerOptions>);
                    start.await?;
                    ContainerExec::start(engine, guard.id(), container_command).await
                }
                started => started,
            }
        };
        let start_result = self
            .engine
            .block_on(async { timeout(START_TIME_MAX, start).await });
        start_result.unwrap_or(Err(EngineError::RequestTimeoutError))
    }

    /// Kills what a command has left behind if it may write to more than the workspace, so that
    /// nothing changes while its effects are inspected. As long as another command runs in the
    /// container, whose effects are inspected later, only what cannot hide among its processes is
    /// killed.
    pub(super) fn end_leftovers(
        &self,
        guard: &ContainerGuard<'_>,
        ending_id: &ContainerCommandId,
    ) -> std::result::Result<(), EngineError> {
        if !guard.can_write_outside(&self.workspace) {
            return Ok(());
        }
        // Prevents new commands from starting meanwhile.
        let running_commands = self.running_commands.lock();
        if running_commands.ids_except(ending_id).is_empty() {
            return self.end_all(guard);
        }
        drop(running_commands);
        self.sweep(guard, ending_id);
        Ok(())
    }

    /// Kills everything in the container that belongs to no running command other than `ending_id`.
    pub(super) fn sweep(&self, guard: &ContainerGuard<'_>, ending_id: &ContainerCommandId) {
        // Prevents new commands from starting meanwhile: they would not be known yet.
        let running_commands = self.running_commands.lock();
        let kept_ids = running_commands.ids_except(ending_id);
        let own_user = self.engine.container_user();
        let root = self.has_root().then_some(ContainerUser::ROOT);
        for user in [own_user].into_iter().chain(root) {
            let Ok(sweep) = self.start(guard, ContainerCommand::sweep(user, &kept_ids)) else {
                continue;
            };
            // Whether it has helped shows in the command's own end.
            self.engine.block_on(sweep.drain_output(SWEEP_TIME_MAX));
        }
    }
}

/// A lock on a container, which is not replaced while it is held.
pub(super) struct ContainerGuard<'a>(RwLockReadGuard<'a, Option<ContainerInstance>>);

impl ContainerGuard<'_> {
    /// Watches the disks that commands may fill: those of the mounted directories and of the
    /// container itself.
    pub(super) fn disk_watch(&self, container: &ReplaceableContainer) -> DiskWatch {
        let storage = container.engine.properties.storage.clone();
        let watched_paths = self.writable_directories().into_iter().chain(storage);
        DiskWatch::new(watched_paths.collect(), &container.spec.limits)
    }

    /// Returns whether commands may write to directories of the machine outside `workspace`.
    pub(super) fn can_write_outside(&self, workspace: &AbsPath) -> bool {
        let mut paths = self.writable_directories().into_iter();
        paths.any(|path| !path.is_within(workspace))
    }

    /// Returns every mounted directory of the machine that commands may write to.
    fn writable_directories(&self) -> Vec<AbsPath> {
        let mounts = self.0.as_ref().map(|instance| &instance.mounts);
        mounts.map_or_else(Vec::new, MountPlan::writable_directories)
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

impl Drop for ReplaceableContainer {
    fn drop(&mut self) {
        let instance = self.instance.get_mut();
        if let Some(instance) = instance.take() {
            let engine = self.engine.clone();
            // If it cannot be removed now, the next run removes it.
            let removal = async move { instance.remove(&engine).await.unwrap_or_default() };
            self.engine.finish_detached(removal);
        }
    }
}
