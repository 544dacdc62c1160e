//! The pod of an agent, which may be replaced by another: after it was evicted or deleted, or
//! because other directories must be in it. It knows which commands run in it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::permissions::grant::GrantScope;
use crate::text::to_hex;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::pod::cluster::{PodCluster, cluster_error};
use crate::world::sandbox::pod::pod_instance::{NetworkCheck, PodError, PodInstance};
use crate::world::sandbox::pod::pod_manifest::{PodContainer, PodPlan};
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::running_commands::{RunningCommand, RunningCommands, sweep_program};

/// The largest answer of the script that kills processes, in bytes.
const ANSWER_BYTES_MAX: u64 = 4096;
/// How many bytes of a random number are in a name.
const RANDOM_BYTES: usize = 4;

/// A pod whose instance can be replaced. It is deleted on drop.
#[derive(Debug)]
pub(super) struct ReplaceablePod {
    pub(super) cluster: PodCluster,
    pub(super) plan: PodPlan,
    /// `None` if there is none yet, or the last one is gone.
    instance: Mutex<Option<Arc<PodInstance>>>,
    running_commands: Mutex<RunningCommands>,
    is_closed: AtomicBool,
    /// Whether commands that are over here may still run there.
    pub(super) has_lost_commands: AtomicBool,
}

/// A pod after it was waited for.
#[derive(Debug)]
pub(super) enum AwaitedPod {
    /// It is ready for commands.
    Ready(Arc<PodInstance>, NetworkCheck),
    /// It still waits for the cluster; why, if the cluster says so.
    Waiting(Option<String>),
}

impl ReplaceablePod {
    /// Plans a pod, which is created when it is needed.
    pub(super) fn new(cluster: &PodCluster, plan: PodPlan) -> Self {
        Self {
            cluster: cluster.clone(),
            plan,
            instance: Mutex::default(),
            running_commands: Mutex::default(),
            is_closed: AtomicBool::new(false),
            has_lost_commands: AtomicBool::new(false),
        }
    }

    /// Registers a command.
    pub(super) fn register_command(&self) -> RunningCommand {
        let mut running_commands = self
            .running_commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        running_commands.register()
    }

    /// Returns the pod with directories for all of `reachable`, created if necessary. It may not
    /// run yet.
    pub(super) fn ensure_created(&self, reachable: &ReachablePaths) -> Result<Arc<PodInstance>> {
        let mut instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Environment, "the pod is closed"));
        }
        let needed_mounts = mount_points(reachable)?;
        let mut mounts = needed_mounts.clone();
        if let Some(current) = instance.as_ref() {
            let is_mounted =
                |path: &AbsPath| current.mounts.iter().any(|mount| path.is_within(mount));
            if needed_mounts.iter().all(is_mounted) {
                return Ok(Arc::clone(current));
            }
            mounts = outermost(needed_mounts.iter().chain(&current.mounts));
            self.delete(current);
            *instance = None;
        }
        let name = self.new_name();
        let creation = PodInstance::create(&self.cluster, &self.plan, name, mounts);
        let create_result = self.cluster.block_on(creation);
        let new_instance =
            create_result.map_err(|reason| cluster_error("the pod cannot be created", &reason))?;
        let new_pod = Arc::new(new_instance);
        *instance = Some(Arc::clone(&new_pod));
        Ok(new_pod)
    }

    /// Returns the pod when it runs. A pod that waits for the cluster is waited for until an
    /// interrupt or for `time_max`.
    pub(super) fn ensure_ready(
        &self,
        reachable: &ReachablePaths,
        interrupt: Option<&CommandInterrupt>,
        time_max: Duration,
    ) -> Result<AwaitedPod> {
        let instance = self.ensure_created(reachable)?;
        let deadline = Instant::now().checked_add(time_max);
        let last_reason: Mutex<Option<String>> = Mutex::default();
        let keep_waiting = |reason: Option<String>| {
            *last_reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
            let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            !is_late && !interrupt.is_some_and(CommandInterrupt::is_raised)
        };
        let readiness = instance.wait_until_ready(&self.cluster, &keep_waiting);
        match self.cluster.block_on(readiness) {
            Ok(Some(network)) => Ok(AwaitedPod::Ready(instance, network)),
            Ok(None) => {
                let reason = last_reason
                    .into_inner()
                    .unwrap_or_else(PoisonError::into_inner);
                Ok(AwaitedPod::Waiting(reason))
            }
            Err(PodError::PodGone(reason)) => {
                self.discard(&instance);
                let message = format!("the pod cannot be used: {reason}");
                Err(Error::new(ErrorKind::Environment, message))
            }
            Err(PodError::RemoteFailure(reason)) => {
                Err(cluster_error("the cluster does not answer", &reason))
            }
        }
    }

    /// Returns the pod, if there is one.
    pub(super) fn current(&self) -> Option<Arc<PodInstance>> {
        let instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        instance.clone()
    }

    /// Deletes a pod that is of no use any more; the next command has another.
    pub(super) fn discard(&self, lost: &Arc<PodInstance>) {
        if self.forget(lost) {
            self.delete(lost);
        }
    }

    /// Deletes a pod in which processes cannot be killed, and returns whether that was possible. If
    /// not, they are killed before the next command.
    pub(super) fn end_processes(&self, instance: &Arc<PodInstance>) -> bool {
        let deletion = self.cluster.delete_pod(&instance.name);
        let is_deleted = self.cluster.block_on(deletion).is_ok();
        if is_deleted {
            self.forget(instance);
        } else {
            self.has_lost_commands.store(true, Ordering::Release);
        }
        is_deleted
    }

    /// Makes the next command create another pod. Returns whether `lost` was the current one.
    fn forget(&self, lost: &Arc<PodInstance>) -> bool {
        let mut instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        let forgotten_instance = instance.take_if(|current| Arc::ptr_eq(current, lost));
        forgotten_instance.is_some()
    }

    fn delete(&self, instance: &PodInstance) {
        let deletion = self.cluster.delete_pod(&instance.name);
        // If it cannot be deleted now, the next run deletes it.
        self.cluster.block_on(deletion).unwrap_or_default();
    }

    /// Deletes the pod. A second call has no effect.
    pub(super) fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        let mut instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(instance) = instance.take() else {
            return Ok(());
        };
        let delete_result = self
            .cluster
            .block_on(self.cluster.delete_pod(&instance.name));
        delete_result.map_err(|reason| cluster_error("the pod cannot be deleted", &reason))
    }

    /// Kills everything in a container that belongs to no running command other than
    /// `ending_command`, and waits until that is done.
    pub(super) fn sweep(
        &self,
        instance: &PodInstance,
        container: PodContainer,
        ending_command: Option<&RunningCommand>,
    ) -> std::result::Result<(), PodError> {
        // Prevents new commands from starting meanwhile: they would not be known yet.
        let running_commands = self
            .running_commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let kept_ids = match (container, ending_command) {
            (PodContainer::Commands, Some(ending_command)) => {
                running_commands.ids_except(&ending_command.id)
            }
            (PodContainer::Commands, None) => running_commands.ids(),
            // No command runs there.
            (PodContainer::Files, _) => Vec::new(),
        };
        let program = sweep_program(&kept_ids);
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        let sweep = instance.exec(&self.cluster, container, &program, b"", ANSWER_BYTES_MAX);
        self.cluster.block_on(sweep).map(drop)
    }

    /// Returns a name that no other pod of the namespace has.
    fn new_name(&self) -> String {
        let random = Uuid::new_v4();
        let random = random.as_bytes().get(..RANDOM_BYTES).unwrap_or_default();
        format!("{}-{}", self.plan.name, to_hex(random))
    }
}

impl Drop for ReplaceablePod {
    fn drop(&mut self) {
        let instance = self
            .instance
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(instance) = instance.take() {
            self.cluster.delete_detached(instance.name.clone());
        }
    }
}

/// Returns the directories that are mounted in a pod: all accessible paths are in one of them.
fn mount_points(reachable: &ReachablePaths) -> Result<Vec<AbsPath>> {
    let trees = reachable
        .open
        .iter()
        .filter(|open_path| open_path.scope == GrantScope::Tree);
    let mounts = outermost(trees.map(|open_path| &open_path.path));
    let is_inside = |path: &AbsPath| mounts.iter().any(|mount| path.is_within(mount));
    let mut single_files = reachable
        .open
        .iter()
        .filter(|open_path| !is_inside(&open_path.path));
    if let Some(file) = single_files.next() {
        let message = format!("`{}` is a single file, which no pod can have", file.path);
        return Err(Error::new(ErrorKind::Config, message).with_hint("grant its directory"));
    }
    if mounts.contains(&AbsPath::root()) {
        let message = "`/` cannot be a directory of a pod";
        return Err(Error::new(ErrorKind::Config, message).with_hint("grant a smaller directory"));
    }
    Ok(mounts)
}

/// Returns those paths that are inside no other.
fn outermost<'a>(paths: impl Iterator<Item = &'a AbsPath>) -> Vec<AbsPath> {
    let paths: BTreeSet<&AbsPath> = paths.collect();
    let is_inside = |path: &AbsPath| {
        paths
            .iter()
            .any(|other| *other != path && path.is_within(other))
    };
    let outer_paths = paths.iter().filter(|path| !is_inside(path));
    outer_paths.map(|path| AbsPath::clone(path)).collect()
}
