//! Container of one agent, from before the first model request until the end of the run, or of the
//! interactive session. It is reused for all commands, and recreated with all changes that were made
//! in it when other directories must be mounted.

use std::collections::BTreeMap;
use std::io::{self, pipe};
use std::time::Instant;

use bollard::errors::Error as EngineError;
use parking_lot::Mutex;

use crate::config::docker::{CONTAINER_HOME, DependencyInstall, DockerConfig};
use crate::error::Result;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::world::sandbox::command_run::{ProcessBounds, ProcessOutput};
use crate::world::sandbox::container_owner::ContainerOwner;
use crate::world::sandbox::docker::container_spec::ContainerSpec;
use crate::world::sandbox::docker::credentials::{ContainerCredentials, HostUser};
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::engine_error::{command_error, is_missing};
use crate::world::sandbox::docker::instance::{ContainerChanges, REMOVED_MESSAGE};
use crate::world::sandbox::docker::packages::DependencyHashes;
use crate::world::sandbox::docker::process::ContainerProcess;
use crate::world::sandbox::docker::replaceable_container::{ContainerGuard, ReplaceableContainer};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};

/// Environment variables of every command: no colours, no pager, no prompts. Debian's `pip` refuses
/// to install into the system's packages unless a variable allows it.
pub(in crate::world::sandbox) const FIXED_VARIABLES: &[(&str, &str)] = &[
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
/// Directory of programs that are installed for one user, below the home directory.
const USER_PROGRAMS_DIR: &str = ".local/bin";

/// What runs in a container. Each has its own container, and each check a new one, so that what
/// agents' commands or another check install or change decides about no check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerWork {
    /// The agent's commands.
    Commands,
    /// The checks on the agent's work.
    Checks,
}

/// The container of one agent. It is removed on drop.
#[derive(Debug)]
pub struct AgentContainer {
    work: ContainerWork,
    container: ReplaceableContainer,
    notes: Vec<String>,
    dependency_hashes: Mutex<DependencyHashes>,
    is_continued: bool,
}

impl AgentContainer {
    /// Continues the container of the last turn, if `previous` is one with the same properties, or
    /// creates and starts a container of an agent, and then installs the packages that the config
    /// lists, for `work`. The credentials of `user` are passed. Anything that is missing is an
    /// error here.
    pub fn open(
        engine: &ContainerEngine,
        owner: ContainerOwner<'_>,
        work: ContainerWork,
        config: &DockerConfig,
        user: HostUser<'_>,
        reachable: &ReachablePaths,
        previous: Option<Self>,
    ) -> Result<Self> {
        let credentials = ContainerCredentials::gather(&config.credentials, user)?;
        let image_path = engine.expect_image(&config.image)?;
        let mut env = credentials.env;
        // Later ones replace earlier ones: those of the config replace all others.
        env.extend(fixed_variables(&image_path));
        env.extend(owner.config_env.clone());
        let mut config = config.clone();
        if work == ContainerWork::Checks {
            // The workspace's files name them, which the checked work contains.
            config.packages.dependencies = DependencyInstall::Manual;
        }
        let spec = ContainerSpec {
            name: container_name(owner, work),
            labels: owner.origin.labels().into(),
            config,
            limits: *owner.limits,
            files: credentials.files,
            unique_directory: owner.origin.unique_directory.clone(),
        };
        let continued = previous.and_then(|previous| {
            let AgentContainer {
                container,
                dependency_hashes,
                ..
            } = previous;
            let container = container.continue_as(&spec, &env, owner.workspace, reachable)?;
            Some(Self {
                work,
                container,
                notes: credentials.notes.clone(),
                dependency_hashes,
                is_continued: true,
            })
        });
        if let Some(continued) = continued {
            return Ok(continued);
        }
        let container =
            ReplaceableContainer::start_new(engine, spec, env, owner.workspace, reachable)?;
        let mut notes = credentials.notes;
        notes.extend(container.install_packages());
        if work == ContainerWork::Checks {
            container.save()?;
        }
        Ok(Self {
            work,
            container,
            notes,
            dependency_hashes: Mutex::default(),
            is_continued: false,
        })
    }

    /// Returns the isolation of the commands, for people.
    pub(in crate::world::sandbox) fn isolation(&self) -> ExecutionIsolation {
        ContainerEngine::isolation(&self.container.spec.config.image)
    }

    /// Returns what of the config is not available.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns whether it is that of the last turn, with what was changed in it.
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Ends what runs in it. The next command starts it again.
    pub fn end_processes(&self) {
        self.container.end_all_detached();
    }

    /// Returns its name, as the engine lists it.
    pub fn name(&self) -> &str {
        &self.container.spec.name
    }

    /// Mounts other directories, or the same ones with other permissions. Background commands end.
    /// Changes made in the container are kept, except in memory and in mounted directories. Waits
    /// for running commands.
    pub fn remount(&self, reachable: &ReachablePaths) -> Result<()> {
        self.lock_with_paths(reachable).map(drop)
    }

    /// Stops and removes it. A second call has no effect.
    pub fn close(&self) -> Result<()> {
        self.container.close()
    }

    /// Runs an agent's command in the directory `dir`, with access to what is mounted, and waits
    /// for its end. Blocks, and must not be called from an event loop.
    pub fn run(
        &self,
        command: &str,
        dir: &AbsPath,
        limits: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        self.run_locked(self.container.lock(), command, dir, limits)
    }

    /// Runs a command like [`AgentContainer::run`], with access to `reachable` only, whatever other
    /// commands mount meanwhile.
    pub fn run_with_paths(
        &self,
        command: &str,
        dir: &AbsPath,
        reachable: &ReachablePaths,
        limits: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        let guard = self.lock_with_paths(reachable);
        self.run_locked(guard.map_err(io::Error::other)?, command, dir, limits)
    }

    /// Runs an agent's command in the locked container and waits for its end.
    fn run_locked(
        &self,
        guard: ContainerGuard<'_>,
        command: &str,
        dir: &AbsPath,
        limits: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        let start_time = Instant::now();
        let container = &self.container;
        let install_failures = container.install_dependencies(&guard, &self.dependency_hashes);
        let running_command = container.register_command();
        let container_command = container.agent_command(command, dir, &running_command);
        let result = container.execute(&guard, container_command, &running_command, limits);
        let removal = container.end_leftovers(&guard, &running_command.id);
        // If its processes cannot be killed, that is the error, whatever the command returned.
        let output = self.handle_result(guard, removal.and(result))?;
        let mut timed_output = CommandOutput {
            elapsed: start_time.elapsed(),
            ..output
        };
        if !install_failures.is_empty() {
            timed_output.stderr.text.insert_str(0, &install_failures);
        }
        Ok(timed_output)
    }

    /// Mounts `reachable` and locks the container, for checks a new one. No other mounts replace
    /// these while the lock is held.
    fn lock_with_paths(&self, reachable: &ReachablePaths) -> Result<ContainerGuard<'_>> {
        let changes = match self.work {
            ContainerWork::Commands => ContainerChanges::Kept,
            ContainerWork::Checks => ContainerChanges::Discarded,
        };
        self.container.lock_with_mounts(reachable, changes)
    }

    /// Converts the result of a command. A container that was removed from outside is replaced by
    /// another.
    fn handle_result<T>(
        &self,
        guard: ContainerGuard<'_>,
        result: std::result::Result<T, EngineError>,
    ) -> io::Result<T> {
        match result {
            Err(error) if is_missing(&error) && guard.is_open() => {
                drop(guard);
                self.container.recreate().map_err(io::Error::other)?;
                Err(io::Error::other(REMOVED_MESSAGE))
            }
            result => result.map_err(command_error),
        }
    }

    /// Runs a command in a directory, alongside others, until it ends or is interrupted, and passes
    /// its output on both streams to `on_output`. It has access to `reachable` only. Blocks, and
    /// must not be called from an event loop.
    pub fn follow(
        &self,
        command: &str,
        dir: &AbsPath,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
        on_output: &mut (dyn FnMut(&[u8]) + Send),
    ) -> io::Result<ExitReason> {
        let container = &self.container;
        let running_command = container.register_command();
        let container_command = container.agent_command(command, dir, &running_command);
        let guard = self.lock_with_paths(reachable);
        let guard = guard.map_err(io::Error::other)?;
        let disks = guard.disk_watch(container);
        let exec = match container.start(&guard, container_command) {
            Ok(exec) => exec,
            Err(error) => return self.handle_result(guard, Err(error)),
        };
        // The container may be recreated from now on, which ends the command.
        drop(guard);
        // Standard output and error share one pipe: a background command has one output.
        let (output, stdout) = pipe()?;
        let streams = [stdout.try_clone()?.into(), stdout.into()];
        let mut command_run =
            ContainerProcess::follow(container, &running_command, None, exec, streams)?;
        let bounds = ProcessBounds {
            interrupt: Some(interrupt),
            disk: Some(&disks),
            ..ProcessBounds::default()
        };
        let exit_reason =
            command_run.run_to_end(&mut [ProcessOutput::new(output, on_output)], &bounds);
        let process = command_run.process_mut();
        let exit_reason =
            exit_reason.map_err(|error| command_error(process.take_failure(error)))?;
        if process.was_terminated() {
            let removal = container.end_leftovers(&container.lock(), &running_command.id);
            removal.map_err(command_error)?;
        }
        Ok(exit_reason)
    }
}

/// Returns the environment variables of everything that massgen runs in a container of an image
/// with this `PATH`.
pub(super) fn fixed_variables(image_path: &str) -> BTreeMap<String, String> {
    let path = format!("{CONTAINER_HOME}/{USER_PROGRAMS_DIR}:{image_path}");
    let to_owned_pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let fixed = FIXED_VARIABLES.iter().map(to_owned_pair);
    fixed.chain([("PATH".to_owned(), path)]).collect()
}

/// Returns the name of a container, which no other one of the engine has. The checks of all
/// pipelines have the same run, so their names also have the process id.
fn container_name(owner: ContainerOwner<'_>, work: ContainerWork) -> String {
    let (agent, run) = (owner.agent, owner.origin.run);
    match work {
        ContainerWork::Commands => format!("massgen-{agent}-{run}"),
        ContainerWork::Checks => format!("massgen-{agent}-{run}-checks-{}", std::process::id()),
    }
}
