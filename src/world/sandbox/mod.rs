//! Parent side of the sandboxes for everything that agents start: determines what the machine can
//! enforce, and starts and ends processes under it. It must never weaken a [`SandboxPolicy`]: a
//! policy that cannot be enforced in full is refused.

use std::fmt;
use std::io::{self, Write, pipe};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;

use crate::config::machine_policy::{MACHINE_POLICY_PATH, MachinePolicy};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::sandbox_policy::SETTINGS_DIRECTORY;
use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::world::sandbox::command_run::{CommandRun, OutputPipes, ProcessBounds};
use crate::world::sandbox::disk_watch::{DiskShortage, DiskWatch};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::level_record::LevelRecord;
use crate::world::sandbox::obstacles::{SandboxObstacle, find_obstacles, overlay_obstacle};
use crate::world::sandbox::output::CapturedStream;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::sandbox_process::SandboxProcess;
use crate::world::sys;
use crate::world::sys::cgroup::Cgroups;
use crate::world::sys::launch::spawner::HelperSpawner;
use crate::world::sys::restricted_search::RestrictedFilesSearch;

pub mod interrupt;
pub mod output;
pub mod disk_watch;
pub mod proxy;
pub(in crate::world) mod command_run;
mod sandbox_process;
pub mod obstacles;
mod level_check;
pub mod level_record;
pub mod background;
pub mod home;
pub mod stdio_proxy;
pub(in crate::world) mod stdio_process;
pub mod overlay;
pub mod container_owner;
pub mod reachable_paths;
mod running_commands;
pub mod docker;
pub mod exec_backend;
pub mod exec_environment;
pub mod program_environment;

/// Runs the sandbox helper (`massgen __sandbox`), which builds a sandbox around one program. It
/// gets its request on the socket that is its standard input, and returns its exit status.
pub fn helper_main() -> u8 {
    sys::sandbox::helper_main()
}

/// Runs the fork server (`massgen __fork_server`) and each helper that is forked from it.
pub fn fork_server_main() -> u8 {
    sys::sandbox::fork_server_main()
}

/// The sandbox that this machine can enforce, determined once. Clones share it.
#[derive(Clone, Debug)]
pub struct Sandbox(Arc<SandboxInner>);

#[derive(Clone, Debug)]
struct SandboxInner {
    level: SandboxLevel,
    reasons: Vec<String>,
    spawner: HelperSpawner,
    restricted_search: Arc<RestrictedFilesSearch>,
    cgroups: Arc<Cgroups>,
}

/// Parameters of [`Sandbox::open_with`].
#[derive(Clone, Copy, Debug)]
pub struct SandboxSpec<'a> {
    /// The level that the user chose.
    pub choice: SandboxLevelChoice,
    /// massgen's executable, which is started as the sandbox helper.
    pub executable: &'a AbsPath,
    /// Directory that will hold the upper layers of overlays.
    pub overlay_directory: &'a AbsPath,
    /// The user's trees: level `overlay` is used only if overlays can be mounted over all of them.
    pub trees: &'a [AbsPath],
    /// Levels that held before; without it every level is checked.
    pub record: Option<&'a LevelRecord>,
    /// The policy of the machine.
    pub policy: &'a MachinePolicy,
}

/// Limits of a command's run, and of how much of its output is kept.
#[derive(Clone, Copy, Debug)]
pub struct CommandWaitLimits<'a> {
    /// Timeout, including the time to build its sandbox.
    pub time_max: Duration,
    /// Limit on what is kept of each of its two streams, in bytes as the command wrote them.
    pub output_bytes_max: usize,
    /// Kills it immediately when it is raised.
    pub interrupt: Option<&'a CommandInterrupt>,
    /// Proxy that serves the listener of its sandbox, if it may reach some domains only.
    pub network: Option<&'a NetworkProxy>,
}

/// Result of a command that has ended. Nothing that it started is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// How it ended.
    pub exit_reason: ExitReason,
    /// What it wrote on its standard output.
    pub stdout: CapturedStream,
    /// What it wrote on its standard error.
    pub stderr: CapturedStream,
    /// Its running time, including the time to build its sandbox.
    pub elapsed: Duration,
    /// Notes about its end.
    pub notes: Vec<String>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// By itself, with this status.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It timed out and was killed.
    TimedOut,
    /// It was interrupted and killed.
    Interrupted,
    /// It left too little of this free on a disk and was killed.
    DiskFull(DiskShortage),
    /// Its sandbox could not be built; it never ran.
    Refused {
        /// The step that failed.
        step: String,
        /// The error that the system reported.
        reason: String,
    },
}

/// Prefix of the last step of building a sandbox, which starts its program: the program follows in
/// backticks.
const START_STEP_PREFIX: &str = "starting ";
/// The system's error message for a program that does not exist.
const MISSING_PROGRAM_MESSAGE: &str = "No such file or directory";

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitReason::Exited(status) => write!(f, "it ended with status {status}"),
            ExitReason::Signalled(libc::SIGXCPU) => {
                f.write_str("its limit on processor time ended it")
            }
            ExitReason::Signalled(libc::SIGXFSZ) => {
                f.write_str("its limit on the size of files ended it")
            }
            ExitReason::Signalled(signal) => write!(f, "signal {signal} ended it"),
            ExitReason::TimedOut => f.write_str("it took too long and was killed"),
            ExitReason::Interrupted => f.write_str("it was interrupted"),
            ExitReason::DiskFull(shortage) => write!(f, "it was killed because {shortage}"),
            ExitReason::Refused { step, reason } => match unstarted_program(step) {
                Some(program) if reason.starts_with(MISSING_PROGRAM_MESSAGE) => {
                    write!(
                        f,
                        "there is no program {program}, or none that is open to it"
                    )
                }
                Some(program) => write!(f, "{program} could not be started: {reason}"),
                None => write!(f, "its sandbox could not be built: {step}: {reason}"),
            },
        }
    }
}

impl std::error::Error for ExitReason {}

impl ExitReason {
    /// Returns the exit status of a process that ended by itself.
    pub fn exit_code(&self) -> Option<i32> {
        if let ExitReason::Exited(status) = self {
            Some(*status)
        } else {
            None
        }
    }

    /// Returns whether the program failed by itself, inside a sandbox that was built in full.
    pub(in crate::world) fn is_failure_of_program(&self) -> bool {
        match self {
            ExitReason::Exited(_) | ExitReason::Signalled(_) | ExitReason::DiskFull(_) => true,
            ExitReason::TimedOut | ExitReason::Interrupted => false,
            ExitReason::Refused { step, .. } => unstarted_program(step).is_some(),
        }
    }
}

/// Returns the program, in backticks, if `step` is the one that starts it; `None` for a step that
/// builds its sandbox, such as starting a thread.
fn unstarted_program(step: &str) -> Option<&str> {
    step.strip_prefix(START_STEP_PREFIX)
        .filter(|program| program.starts_with('`'))
}

/// The streams of a process that is started without waiting for its end.
#[derive(Debug)]
pub struct ProcessStreams {
    /// Its standard input; without it, an empty one.
    pub stdin: Option<OwnedFd>,
    /// Its standard output.
    pub stdout: OwnedFd,
    /// Its standard error.
    pub stderr: OwnedFd,
}

/// The sandbox levels that enforce something, strongest first.
pub const ENFORCING_LEVELS: &[SandboxLevel] = &[
    SandboxLevel::Overlay,
    SandboxLevel::Namespaces,
    SandboxLevel::Landlock,
];

/// Returns the levels that enforce something and that `policy` allows, strongest first.
fn allowed_levels(policy: &MachinePolicy) -> Vec<SandboxLevel> {
    let refusal = |level: SandboxLevel| policy.refuse_level(SandboxLevelChoice::Only(level));
    let levels = ENFORCING_LEVELS.iter().copied();
    levels.filter(|level| refusal(*level).is_none()).collect()
}

impl Sandbox {
    /// Determines the sandbox level of this machine with a test: a command tries to get out of a
    /// directory in `overlay_directory`, where the overlay layers of agents will be, and everything
    /// is cleaned up. The user's choice is never replaced by a weaker level; if `auto` finds none
    /// that can be enforced, the level is `unavailable`.
    ///
    /// # Errors
    /// The level that the user chose is not available, with the cause and the remedy.
    pub fn open(
        choice: SandboxLevelChoice,
        executable: &AbsPath,
        overlay_directory: &AbsPath,
    ) -> Result<Self> {
        Self::open_with(SandboxSpec {
            choice,
            executable,
            overlay_directory,
            trees: &[],
            record: None,
            policy: &MachinePolicy::default(),
        })
    }

    /// Like [`Sandbox::open`], with more parameters.
    ///
    /// # Errors
    /// The level that the user chose is not available, with the cause and the remedy.
    pub fn open_with(spec: SandboxSpec<'_>) -> Result<Self> {
        let SandboxSpec {
            choice,
            executable,
            overlay_directory,
            trees,
            record,
            policy,
        } = spec;
        if let Some(refusal) = policy.refuse_level(choice) {
            return Err(refusal);
        }
        let spawner = HelperSpawner::new(executable)
            .map_err(|error| Error::io("cannot start the thread for commands", error))?;
        let restricted_search = Arc::new(RestrictedFilesSearch::default());
        let cgroups = Arc::new(Cgroups::find());
        let sandbox_with = |level, reasons| {
            Self(Arc::new(SandboxInner {
                level,
                reasons,
                spawner: spawner.clone(),
                restricted_search: Arc::clone(&restricted_search),
                cgroups: Arc::clone(&cgroups),
            }))
        };
        let mut reasons = Vec::new();
        let candidates = match choice {
            SandboxLevelChoice::Auto => allowed_levels(policy),
            SandboxLevelChoice::Only(level @ (SandboxLevel::Unavailable | SandboxLevel::Off)) => {
                return Ok(sandbox_with(level, reasons));
            }
            SandboxLevelChoice::Only(level) => vec![level],
        };
        if candidates.iter().any(|level| hides_settings(*level)) {
            restricted_search.start();
        }
        for level in candidates {
            let obstacle = match level {
                SandboxLevel::Overlay => overlay_obstacle(trees),
                SandboxLevel::Namespaces
                | SandboxLevel::Landlock
                | SandboxLevel::Unavailable
                | SandboxLevel::Off => Ok(None),
            };
            let obstacle = obstacle.map_err(|error| {
                Error::io("cannot determine where overlays can be mounted", error)
            })?;
            let obstacle = obstacle.map(|reason| match choice {
                SandboxLevelChoice::Only(_) => format!("{reason}, or use level `namespaces`"),
                SandboxLevelChoice::Auto => reason,
            });
            if obstacle.is_none()
                && record
                    .is_some_and(|record| record.contains(level, executable, overlay_directory))
            {
                return Ok(sandbox_with(level, reasons));
            }
            let deviation = match obstacle {
                None => sandbox_with(level, Vec::new()).find_deviation(overlay_directory)?,
                obstacle => obstacle,
            };
            match deviation {
                None => {
                    if let Some(record) = record {
                        record.add(level, executable, overlay_directory);
                    }
                    return Ok(sandbox_with(level, reasons));
                }
                Some(deviation) => reasons.push(format!("level `{level}`: {deviation}")),
            }
        }
        let min = policy.min_sandbox_level;
        reasons.extend(min.map(|min| {
            format!("`{MACHINE_POLICY_PATH}` allows no level that is weaker than `{min}`")
        }));
        reasons.extend(find_obstacles().iter().map(SandboxObstacle::to_string));
        match choice {
            SandboxLevelChoice::Auto => Ok(sandbox_with(SandboxLevel::Unavailable, reasons)),
            SandboxLevelChoice::Only(level) => Err(unavailable_error(level, &reasons)),
        }
    }

    /// Returns the sandbox level.
    pub fn level(&self) -> SandboxLevel {
        self.0.level
    }

    /// Returns why no stronger level is used.
    pub fn reasons(&self) -> &[String] {
        &self.0.reasons
    }

    /// Runs a command to its end. Blocks.
    ///
    /// # Errors
    /// No process could be started, or communication with it failed.
    pub fn run(
        &self,
        policy: &SandboxPolicy,
        limits: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        self.run_with_input(policy, None, limits)
    }

    /// Like [`Sandbox::run`], with a standard input.
    ///
    /// # Errors
    /// No process could be started, or communication with it failed.
    pub fn run_with_input(
        &self,
        policy: &SandboxPolicy,
        stdin: Option<OwnedFd>,
        limits: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        let start_time = Instant::now();
        if limits.interrupt.is_some_and(CommandInterrupt::is_raised) {
            return Ok(CommandOutput::from_interrupt(start_time.elapsed()));
        }
        let (outputs, [stdout, stderr]) = OutputPipes::open()?;
        let streams = ProcessStreams {
            stdin,
            stdout,
            stderr,
        };
        let disk = DiskWatch::for_policy(policy);
        let bounds = ProcessBounds {
            deadline: start_time.checked_add(limits.time_max),
            interrupt: limits.interrupt,
            disk: Some(&disk),
            network: limits.network,
        };
        let mut command_run = self.begin(policy, streams)?;
        command_run.capture(outputs, &bounds, limits.output_bytes_max, start_time)
    }

    /// Like [`Sandbox::run`], with these bytes as the standard input.
    ///
    /// # Errors
    /// No process could be started, or communication with it failed.
    pub fn run_with_bytes(
        &self,
        policy: &SandboxPolicy,
        bytes: &[u8],
        limits: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        let (stdin, mut writer) = pipe()?;
        thread::scope(|scope| {
            // A command may exit without reading all of it.
            let write = move || writer.write_all(bytes).unwrap_or_default();
            thread::Builder::new().spawn_scoped(scope, write)?;
            self.run_with_input(policy, Some(stdin.into()), limits)
        })
    }

    /// Runs a command on streams that the caller reads and writes, to its end or until `interrupt`
    /// is raised. Returns how it ended, and notes about its end. Blocks.
    ///
    /// # Errors
    /// No process could be started, or communication with it failed.
    pub fn run_on_streams(
        &self,
        policy: &SandboxPolicy,
        streams: ProcessStreams,
        interrupt: &CommandInterrupt,
        network: Option<&NetworkProxy>,
    ) -> io::Result<(ExitReason, Vec<String>)> {
        let disk = DiskWatch::for_policy(policy);
        let bounds = ProcessBounds {
            interrupt: Some(interrupt),
            disk: Some(&disk),
            network,
            ..ProcessBounds::default()
        };
        let mut command_run = self.begin(policy, streams)?;
        let exit_reason = command_run.run_to_end(&mut [], &bounds)?;
        Ok((exit_reason, command_run.notes()))
    }

    /// Starts a process without waiting for its end, and waits until it runs.
    ///
    /// # Errors
    /// It could not be started, or its sandbox could not be built: the error contains an
    /// [`ExitReason`] if the sandbox helper has reported one.
    pub(in crate::world) fn start(
        &self,
        policy: &SandboxPolicy,
        streams: ProcessStreams,
        network: Option<&NetworkProxy>,
    ) -> io::Result<CommandRun<SandboxProcess>> {
        let mut command_run = self.begin(policy, streams)?;
        match command_run.wait_until_started(network)? {
            None => Ok(command_run),
            Some(exit_reason) => Err(io::Error::other(exit_reason)),
        }
    }

    /// Returns the spawner of its helpers.
    pub(in crate::world) fn helper_spawner(&self) -> &HelperSpawner {
        &self.0.spawner
    }

    /// Returns the sandbox that processes on `overlay` run in: one inside the overlay, if there is
    /// one.
    pub(in crate::world) fn on_overlay(&self, overlay: Option<&WriteOverlay>) -> Self {
        let Some(fork_server) = overlay.and_then(WriteOverlay::fork_server) else {
            return self.clone();
        };
        Self(Arc::new(SandboxInner {
            spawner: fork_server.clone(),
            ..(*self.0).clone()
        }))
    }

    /// Returns how it deviates from what its level must enforce; `None` if it does not.
    ///
    /// # Errors
    /// The check cannot be prepared in `directory`.
    fn find_deviation(&self, directory: &AbsPath) -> Result<Option<String>> {
        // The script of the check is massgen's own: nothing has to be hidden from it, and it runs
        // while the settings are still searched.
        let check_sandbox = Self(Arc::new(SandboxInner {
            restricted_search: Arc::new(RestrictedFilesSearch::without_search()),
            ..(*self.0).clone()
        }));
        let deviation = level_check::find_deviation(&check_sandbox, directory)?;
        Ok(deviation.or_else(|| {
            let search = hides_settings(self.0.level).then_some(&self.0.restricted_search)?;
            let error = search.wait().error()?;
            Some(format!("looking through `{SETTINGS_DIRECTORY}`: {error}"))
        }))
    }

    fn begin(
        &self,
        policy: &SandboxPolicy,
        streams: ProcessStreams,
    ) -> io::Result<CommandRun<SandboxProcess>> {
        let SandboxInner {
            level,
            spawner,
            restricted_search,
            cgroups,
            ..
        } = &*self.0;
        if policy.level != *level {
            let policy_level = policy.level;
            let message = format!(
                "policy was compiled for sandbox level `{policy_level}`, but `{level}` is in force"
            );
            return Err(io::Error::other(message));
        }
        let search = hides_settings(*level).then_some(restricted_search.as_ref());
        let group = cgroups.create_group(&policy.limits)?;
        if group.limits_memory() {
            let mut policy = policy.clone();
            policy.limits.memory_bytes = None;
            return SandboxProcess::start(spawner, &policy, search, streams, group);
        }
        SandboxProcess::start(spawner, policy, search, streams, group)
    }
}

/// Returns whether commands at this level see the machine's settings without the restricted ones;
/// at the others, they see none or all.
fn hides_settings(level: SandboxLevel) -> bool {
    matches!(level, SandboxLevel::Overlay | SandboxLevel::Namespaces)
}

fn unavailable_error(level: SandboxLevel, reasons: &[String]) -> Error {
    let reasons = reasons.join("; ");
    let message =
        format!("sandbox level `{level}` (`command_line_sandbox`) is not available: {reasons}");
    let error = Error::new(ErrorKind::Environment, message)
        .with_hint("see `massgen doctor` for available levels, or use `auto`");
    let remedies = find_obstacles().into_iter().map(|obstacle| obstacle.remedy);
    remedies.fold(error, Error::with_hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_fails_in_a_sandbox_that_was_built() {
        let refusal = |step: &str| ExitReason::Refused {
            step: step.to_owned(),
            reason: "Resource temporarily unavailable".to_owned(),
        };
        let of_program = [
            ExitReason::Exited(1),
            ExitReason::Signalled(libc::SIGKILL),
            refusal("starting `a`"),
        ];
        for exit_reason in of_program {
            assert!(exit_reason.is_failure_of_program(), "{exit_reason}");
        }
        let of_sandbox = [
            refusal("starting a thread"),
            refusal("starting"),
            refusal("start the command in its container"),
            refusal("confining itself with Landlock"),
        ];
        for exit_reason in of_sandbox {
            assert!(!exit_reason.is_failure_of_program(), "{exit_reason}");
            let text = exit_reason.to_string();
            assert!(text.starts_with("its sandbox could not be built"), "{text}");
        }
    }
}
