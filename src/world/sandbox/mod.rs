//! Owns massgen's side of the sandboxes that everything runs in which agents start: what the machine
//! can enforce, the start of a process under it, and its end. It must never weaken a
//! [`Confinement`]: what cannot be enforced as it stands is refused.

use std::fmt;
use std::io::{self, pipe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;

use crate::confinement::Confinement;
use crate::confinement::tier::{Tier, TierChoice};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::sandbox::disk_watch::{DiskWatch, Shortage};
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::obstacles::{Obstacle, no_layers_over, obstacles};
use crate::world::sandbox::output::{Captured, HeadAndTail};
use crate::world::sandbox::proxy::Proxy;
use crate::world::sandbox::running::{Bounds, Running, Stream};
use crate::world::sys;
use crate::world::sys::cgroup::Cgroups;
use crate::world::sys::launch::spawner::Spawner;

pub mod interrupt;
mod readable;
pub mod output;
pub mod disk_watch;
pub mod proxy;
pub mod running;
pub mod obstacles;
mod trial;
pub mod background;
pub mod home;
mod terminal;
pub mod passage;
pub(in crate::world) mod server;

/// The whole of the process that builds a sandbox around one program (`massgen __sandbox`). It is
/// told what to do on the socket that is its standard input, and returns its exit status.
pub fn helper() -> u8 {
    sys::sandbox::helper()
}

/// The whole of the process that those are split off from (`massgen __stem`), and of each of them.
pub fn stem() -> u8 {
    sys::sandbox::stem()
}

/// The same in a staged world (`massgen __stage`).
pub fn stage() -> u8 {
    sys::sandbox::stage()
}

/// What holds commands on this machine, found out once. Clones are one and the same.
#[derive(Clone, Debug)]
pub struct Sandbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tier: Tier,
    reasons: Vec<String>,
    spawner: Spawner,
    cgroups: Arc<Cgroups>,
}

/// What may end a command before it ends by itself, and how much of its output is kept.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// How long it may take, the building of its sandbox included.
    pub time_max: Duration,
    /// How much is kept of each of its two streams, in bytes as the command wrote them.
    pub output_bytes_max: usize,
    /// What ends it at once.
    pub interrupt: &'a Interrupt,
    /// What answers at the listener of its sandbox, if it reaches some domains only.
    pub network: Option<&'a Proxy>,
}

/// A command that has ended. Nothing that it started is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub ended: Ended,
    /// What it wrote on its standard output.
    pub stdout: Captured,
    /// What it wrote on its standard error.
    pub stderr: Captured,
    /// How long it took, the building of its sandbox included.
    pub elapsed: Duration,
    /// What else is to be said about its end.
    pub notes: Vec<String>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It took too long and was killed.
    OutOfTime,
    /// It was interrupted and killed.
    Interrupted,
    /// It left too little of this free on a disk and was killed.
    DiskFull(Shortage),
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

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exited(status) => write!(f, "it ended with status {status}"),
            Ended::Signalled(libc::SIGXCPU) => f.write_str("its limit on processor time ended it"),
            Ended::Signalled(libc::SIGXFSZ) => {
                f.write_str("its limit on the size of files ended it")
            }
            Ended::Signalled(signal) => write!(f, "signal {signal} ended it"),
            Ended::OutOfTime => f.write_str("it took too long and was killed"),
            Ended::Interrupted => f.write_str("it was interrupted"),
            Ended::DiskFull(shortage) => write!(f, "it was killed because {shortage}"),
            Ended::Refused { step, why } => match step.strip_prefix(STARTING) {
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
pub struct Streams {
    /// What it reads; nothing without it.
    pub stdin: Option<OwnedFd>,
    /// Where its standard output goes.
    pub stdout: OwnedFd,
    /// Where its standard error goes.
    pub stderr: OwnedFd,
}

/// The tiers that enforce, strongest first.
pub const ENFORCING: &[Tier] = &[Tier::A, Tier::B, Tier::C];

impl Sandbox {
    /// Finds out what holds commands here, by setting it to work: a command tries to get out of a
    /// directory in `place`, where the layers of agents will lie, and nothing of it stays. What the
    /// user chose is never replaced by something weaker; where nothing can enforce, the tier is D.
    ///
    /// # Errors
    /// What the user chose cannot be had, with the cause and the remedy.
    pub fn open(choice: TierChoice, executable: &AbsPath, place: &AbsPath) -> Result<Self> {
        Self::open_over(choice, executable, place, &[])
    }

    /// As [`Sandbox::open`]; where tier A is in force, layers can be laid over all of `trees`.
    ///
    /// # Errors
    /// What the user chose cannot be had, with the cause and the remedy.
    pub fn open_over(
        choice: TierChoice,
        executable: &AbsPath,
        place: &AbsPath,
        trees: &[AbsPath],
    ) -> Result<Self> {
        let spawner = Spawner::new(executable);
        let spawner =
            spawner.map_err(|error| Error::io("cannot start the thread for commands", error))?;
        let cgroups = Arc::new(Cgroups::find());
        let of = |tier, reasons| {
            Self(Arc::new(Inner {
                tier,
                reasons,
                spawner: spawner.clone(),
                cgroups: Arc::clone(&cgroups),
            }))
        };
        let mut reasons = Vec::new();
        let candidates = match choice {
            TierChoice::Auto => ENFORCING.to_vec(),
            TierChoice::Only(tier @ (Tier::D | Tier::Off)) => return Ok(of(tier, reasons)),
            TierChoice::Only(tier) => vec![tier],
        };
        for tier in candidates {
            let obstacle = match tier {
                Tier::A => no_layers_over(trees),
                Tier::B | Tier::C | Tier::D | Tier::Off => Ok(None),
            };
            let obstacle = obstacle.map_err(|error| {
                Error::io("cannot find out what layers can be laid over", error)
            })?;
            let fault = match obstacle {
                None => trial::fault(&of(tier, Vec::new()), place)?,
                obstacle => obstacle,
            };
            match fault {
                None => return Ok(of(tier, reasons)),
                Some(fault) => reasons.push(format!("tier {tier}: {fault}")),
            }
        }
        reasons.extend(obstacles().iter().map(Obstacle::to_string));
        match choice {
            TierChoice::Auto => Ok(of(Tier::D, reasons)),
            TierChoice::Only(tier) => Err(unavailable(tier, &reasons)),
        }
    }

    /// How commands are held.
    pub fn tier(&self) -> Tier {
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
    pub fn run(&self, confinement: &Confinement, wait: Wait<'_>) -> io::Result<Finished> {
        self.run_fed(confinement, None, wait)
    }

    /// As [`Sandbox::run`], with a standard input.
    ///
    /// # Errors
    /// No process could be started or spoken with.
    pub fn run_fed(
        &self,
        confinement: &Confinement,
        stdin: Option<OwnedFd>,
        wait: Wait<'_>,
    ) -> io::Result<Finished> {
        let begun = Instant::now();
        if wait.interrupt.is_raised() {
            return Ok(Finished {
                ended: Ended::Interrupted,
                stdout: Captured::default(),
                stderr: Captured::default(),
                elapsed: begun.elapsed(),
                notes: Vec::new(),
            });
        }
        let (out, stdout) = pipe()?;
        let (err, stderr) = pipe()?;
        let streams = Streams {
            stdin,
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        let disk = DiskWatch::over(confinement);
        let bounds = Bounds {
            until: begun.checked_add(wait.time_max),
            interrupt: Some(wait.interrupt),
            disk: Some(&disk),
            network: wait.network,
        };
        let mut running = self.begin(confinement, streams)?;
        let mut stdout = HeadAndTail::new(wait.output_bytes_max);
        let mut stderr = HeadAndTail::new(wait.output_bytes_max);
        let ended = running.conduct(
            &mut [
                Stream::new(out, &mut |bytes| stdout.add(bytes)),
                Stream::new(err, &mut |bytes| stderr.add(bytes)),
            ],
            &bounds,
        )?;
        Ok(Finished {
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
    pub fn run_on(
        &self,
        confinement: &Confinement,
        streams: Streams,
        interrupt: &Interrupt,
        network: Option<&Proxy>,
    ) -> io::Result<(Ended, Vec<String>)> {
        let disk = DiskWatch::over(confinement);
        let bounds = Bounds {
            interrupt: Some(interrupt),
            disk: Some(&disk),
            network,
            ..Bounds::default()
        };
        let mut running = self.begin(confinement, streams)?;
        let ended = running.conduct(&mut [], &bounds)?;
        Ok((ended, running.notes()))
    }

    /// Starts a process that goes on by itself, and waits until it runs.
    ///
    /// # Errors
    /// It could not be started, or its sandbox could not be built.
    pub fn start(
        &self,
        confinement: &Confinement,
        streams: Streams,
        network: Option<&Proxy>,
    ) -> io::Result<Running> {
        let mut running = self.begin(confinement, streams)?;
        match running.begin(network)? {
            None => Ok(running),
            Some(ended) => Err(io::Error::other(ended.to_string())),
        }
    }

    /// The same, for commands that live in the world of a stage.
    pub(in crate::world) fn in_world_of(&self, stem: &Spawner) -> Self {
        Self(Arc::new(Inner {
            tier: self.0.tier,
            reasons: self.0.reasons.clone(),
            spawner: stem.clone(),
            cgroups: Arc::clone(&self.0.cgroups),
        }))
    }

    fn begin(&self, confinement: &Confinement, streams: Streams) -> io::Result<Running> {
        let Inner {
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
        let group = cgroups.make(&confinement.limits)?;
        if group.limits_memory() {
            let mut confinement = confinement.clone();
            confinement.limits.memory_bytes = None;
            return Running::start(spawner, &confinement, (streams, group));
        }
        Running::start(spawner, confinement, (streams, group))
    }
}

fn unavailable(tier: Tier, reasons: &[String]) -> Error {
    let reasons = reasons.join("; ");
    let message = format!("the sandbox of `command_line_sandbox: {tier}` cannot be had: {reasons}");
    let error = Error::new(ErrorKind::Environment, message)
        .hint("see `massgen doctor` for what this machine can enforce, or choose `auto`");
    let remedies = obstacles().into_iter().map(|obstacle| obstacle.remedy);
    remedies.fold(error, Error::hint)
}
