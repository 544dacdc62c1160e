//! Owns massgen's side of the sandboxes that everything runs in which agents start: what the machine
//! can enforce, the start of a process under it, and its end. It must never weaken a
//! [`SandboxPolicy`]: what cannot be enforced as it stands is refused.

use std::fmt;
use std::io::{self, pipe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::world::sandbox::disk_watch::{DiskShortage, DiskWatch};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::obstacles::{SandboxObstacle, find_obstacles, overlay_obstacle};
use crate::world::sandbox::output::{CapturedStream, HeadAndTail};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::running::{ProcessBounds, ProcessOutput, SandboxProcess};
use crate::world::sys;
use crate::world::sys::cgroup::Cgroups;
use crate::world::sys::launch::spawner::HelperSpawner;

pub mod interrupt;
mod readable;
pub mod output;
pub mod disk_watch;
pub mod proxy;
pub mod running;
pub mod obstacles;
mod level_check;
pub mod background;
pub mod home;
mod terminal;
pub mod stdio_proxy;
pub(in crate::world) mod stdio_process;
pub mod overlay;
pub mod docker;
pub mod exec_environment;
pub mod program_environment;

/// The whole of the process that builds a sandbox around one program (`massgen __sandbox`). It is
/// told what to do on the socket that is its standard input, and returns its exit status.
pub fn helper_main() -> u8 {
    sys::sandbox::helper_main()
}

/// The whole of the process that those are split off from (`massgen __stem`), and of each of them.
pub fn fork_server_main() -> u8 {
    sys::sandbox::fork_server_main()
}

/// The same in a staged world (`massgen __stage`).
pub fn overlay_fork_server_main() -> u8 {
    sys::sandbox::overlay_fork_server_main()
}

/// What holds commands on this machine, found out once. Clones are one and the same.
#[derive(Clone, Debug)]
pub struct Sandbox(Arc<SandboxInner>);

#[derive(Debug)]
struct SandboxInner {
    tier: SandboxLevel,
    reasons: Vec<String>,
    spawner: HelperSpawner,
    cgroups: Arc<Cgroups>,
}

/// What may end a command before it ends by itself, and how much of its output is kept.
#[derive(Clone, Copy, Debug)]
pub struct CommandWaitLimits<'a> {
    /// How long it may take, the building of its sandbox included.
    pub time_max: Duration,
    /// How much is kept of each of its two streams, in bytes as the command wrote them.
    pub output_bytes_max: usize,
    /// What ends it at once.
    pub interrupt: &'a CommandInterrupt,
    /// What answers at the listener of its sandbox, if it reaches some domains only.
    pub network: Option<&'a NetworkProxy>,
}

/// A command that has ended. Nothing that it started is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// How.
    pub ended: ExitReason,
    /// What it wrote on its standard output.
    pub stdout: CapturedStream,
    /// What it wrote on its standard error.
    pub stderr: CapturedStream,
    /// How long it took, the building of its sandbox included.
    pub elapsed: Duration,
    /// What else is to be said about its end.
    pub notes: Vec<String>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// By itself, with this status.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It took too long and was killed.
    TimedOut,
    /// It was interrupted and killed.
    Interrupted,
    /// It left too little of this free on a disk and was killed.
    DiskFull(DiskShortage),
    /// Its sandbox could not be built; it never ran.
    Refused {
        /// What was being done.
        step: String,
        /// What the system said.
        why: String,
    },
}

/// How the last step of a sandbox begins, which is the start of what it was built for.
const STARTING: &str = "starting ";
/// What the system says of a program that is not there.
const NOT_THERE: &str = "No such file or directory";

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
            ExitReason::Refused { step, why } => match step.strip_prefix(STARTING) {
                Some(program) if why.starts_with(NOT_THERE) => {
                    write!(
                        f,
                        "there is no program {program}, or none that is open to it"
                    )
                }
                Some(program) => write!(f, "{program} could not be started: {why}"),
                None => write!(f, "its sandbox could not be built: {step}: {why}"),
            },
        }
    }
}

/// The streams of a process that is started and not waited for.
#[derive(Debug)]
pub struct ProcessStreams {
    /// What it reads; nothing without it.
    pub stdin: Option<OwnedFd>,
    /// Where its standard output goes.
    pub stdout: OwnedFd,
    /// Where its standard error goes.
    pub stderr: OwnedFd,
}

/// The tiers that enforce, strongest first.
pub const ENFORCING: &[SandboxLevel] = &[SandboxLevel::A, SandboxLevel::B, SandboxLevel::C];

impl Sandbox {
    /// Finds out what holds commands here, by setting it to work: a command tries to get out of a
    /// directory in `place`, where the layers of agents will lie, and nothing of it stays. What the
    /// user chose is never replaced by something weaker; where nothing can enforce, the tier is D.
    ///
    /// # Errors
    /// What the user chose cannot be had, with the cause and the remedy.
    pub fn open(choice: SandboxLevelChoice, executable: &AbsPath, place: &AbsPath) -> Result<Self> {
        Self::open_over(choice, executable, place, &[])
    }

    /// As [`Sandbox::open`]; where tier A is in force, layers can be laid over all of `trees`.
    ///
    /// # Errors
    /// What the user chose cannot be had, with the cause and the remedy.
    pub fn open_over(
        choice: SandboxLevelChoice,
        executable: &AbsPath,
        place: &AbsPath,
        trees: &[AbsPath],
    ) -> Result<Self> {
        let spawner = HelperSpawner::new(executable);
        let spawner =
            spawner.map_err(|error| Error::io("cannot start the thread for commands", error))?;
        let cgroups = Arc::new(Cgroups::find());
        let of = |tier, reasons| {
            Self(Arc::new(SandboxInner {
                tier,
                reasons,
                spawner: spawner.clone(),
                cgroups: Arc::clone(&cgroups),
            }))
        };
        let mut reasons = Vec::new();
        let candidates = match choice {
            SandboxLevelChoice::Auto => ENFORCING.to_vec(),
            SandboxLevelChoice::Only(tier @ (SandboxLevel::D | SandboxLevel::Off)) => {
                return Ok(of(tier, reasons));
            }
            SandboxLevelChoice::Only(tier) => vec![tier],
        };
        for tier in candidates {
            let obstacle = match tier {
                SandboxLevel::A => overlay_obstacle(trees),
                SandboxLevel::B | SandboxLevel::C | SandboxLevel::D | SandboxLevel::Off => Ok(None),
            };
            let obstacle = obstacle.map_err(|error| {
                Error::io("cannot find out what layers can be laid over", error)
            })?;
            let fault = match obstacle {
                None => level_check::find_deviation(&of(tier, Vec::new()), place)?,
                obstacle => obstacle,
            };
            match fault {
                None => return Ok(of(tier, reasons)),
                Some(fault) => reasons.push(format!("tier {tier}: {fault}")),
            }
        }
        reasons.extend(find_obstacles().iter().map(SandboxObstacle::to_string));
        match choice {
            SandboxLevelChoice::Auto => Ok(of(SandboxLevel::D, reasons)),
            SandboxLevelChoice::Only(tier) => Err(unavailable_error(tier, &reasons)),
        }
    }

    /// How commands are held.
    pub fn level(&self) -> SandboxLevel {
        self.0.tier
    }

    /// Why no stronger tier is in force.
    pub fn reasons(&self) -> &[String] {
        &self.0.reasons
    }

    /// Runs a command to its end. It blocks: call it where that is no harm.
    ///
    /// # Errors
    /// No process could be started or spoken with.
    pub fn run(
        &self,
        confinement: &SandboxPolicy,
        wait: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        self.run_with_input(confinement, None, wait)
    }

    /// As [`Sandbox::run`], with a standard input.
    ///
    /// # Errors
    /// No process could be started or spoken with.
    pub fn run_with_input(
        &self,
        confinement: &SandboxPolicy,
        stdin: Option<OwnedFd>,
        wait: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        let begun = Instant::now();
        if wait.interrupt.is_raised() {
            return Ok(CommandOutput {
                ended: ExitReason::Interrupted,
                stdout: CapturedStream::default(),
                stderr: CapturedStream::default(),
                elapsed: begun.elapsed(),
                notes: Vec::new(),
            });
        }
        let (out, stdout) = pipe()?;
        let (err, stderr) = pipe()?;
        let streams = ProcessStreams {
            stdin,
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        let disk = DiskWatch::for_policy(confinement);
        let bounds = ProcessBounds {
            until: begun.checked_add(wait.time_max),
            interrupt: Some(wait.interrupt),
            disk: Some(&disk),
            network: wait.network,
        };
        let mut running = self.begin(confinement, streams)?;
        let mut stdout = HeadAndTail::new(wait.output_bytes_max);
        let mut stderr = HeadAndTail::new(wait.output_bytes_max);
        let ended = running.run_to_end(
            &mut [
                ProcessOutput::new(out, &mut |bytes| stdout.add(bytes)),
                ProcessOutput::new(err, &mut |bytes| stderr.add(bytes)),
            ],
            &bounds,
        )?;
        Ok(CommandOutput {
            ended,
            stdout: stdout.finish(),
            stderr: stderr.finish(),
            elapsed: begun.elapsed(),
            notes: running.notes(),
        })
    }

    /// Runs a command on streams that somebody else reads and writes, to its end or until
    /// `interrupt` is raised; says how it ended, and what else is to be said about that. It blocks.
    ///
    /// # Errors
    /// No process could be started or spoken with.
    pub fn run_on_streams(
        &self,
        confinement: &SandboxPolicy,
        streams: ProcessStreams,
        interrupt: &CommandInterrupt,
        network: Option<&NetworkProxy>,
    ) -> io::Result<(ExitReason, Vec<String>)> {
        let disk = DiskWatch::for_policy(confinement);
        let bounds = ProcessBounds {
            interrupt: Some(interrupt),
            disk: Some(&disk),
            network,
            ..ProcessBounds::default()
        };
        let mut running = self.begin(confinement, streams)?;
        let ended = running.run_to_end(&mut [], &bounds)?;
        Ok((ended, running.notes()))
    }

    /// Starts a process that goes on by itself, and waits until it runs.
    ///
    /// # Errors
    /// It could not be started, or its sandbox could not be built.
    pub fn start(
        &self,
        confinement: &SandboxPolicy,
        streams: ProcessStreams,
        network: Option<&NetworkProxy>,
    ) -> io::Result<SandboxProcess> {
        let mut running = self.begin(confinement, streams)?;
        match running.wait_until_started(network)? {
            None => Ok(running),
            Some(ended) => Err(io::Error::other(ended.to_string())),
        }
    }

    /// The same, for commands that live in the world of a stage.
    pub(in crate::world) fn in_overlay_of(&self, stem: &HelperSpawner) -> Self {
        Self(Arc::new(SandboxInner {
            tier: self.0.tier,
            reasons: self.0.reasons.clone(),
            spawner: stem.clone(),
            cgroups: Arc::clone(&self.0.cgroups),
        }))
    }

    fn begin(
        &self,
        confinement: &SandboxPolicy,
        streams: ProcessStreams,
    ) -> io::Result<SandboxProcess> {
        let SandboxInner {
            tier,
            spawner,
            cgroups,
            ..
        } = &*self.0;
        if confinement.tier != *tier {
            let wanted = confinement.tier;
            let message = format!("tier {wanted} was compiled, and tier {tier} is in force");
            return Err(io::Error::other(message));
        }
        let group = cgroups.create_group(&confinement.limits)?;
        if group.limits_memory() {
            let mut confinement = confinement.clone();
            confinement.limits.memory_bytes = None;
            return SandboxProcess::start(spawner, &confinement, (streams, group));
        }
        SandboxProcess::start(spawner, confinement, (streams, group))
    }
}

fn unavailable_error(tier: SandboxLevel, reasons: &[String]) -> Error {
    let reasons = reasons.join("; ");
    let message = format!("the sandbox of `command_line_sandbox: {tier}` cannot be had: {reasons}");
    let error = Error::new(ErrorKind::Environment, message)
        .with_hint("see `massgen doctor` for what this machine can enforce, or choose `auto`");
    let remedies = find_obstacles().into_iter().map(|obstacle| obstacle.remedy);
    remedies.fold(error, Error::with_hint)
}
