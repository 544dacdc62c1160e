//! Owns one command in a container from its start to its end, as the engine sees it: what it writes,
//! what it ends with. Whatever is to end it is done inside, because an engine kills nothing when
//! nobody listens any more.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error as EngineError;
use bollard::exec::{CreateExecOptions, StartExecResults};
use futures_util::{Stream, StreamExt};
use rustix::fd::AsFd;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, sleep, timeout_at};

use crate::path::AbsPath;
use crate::world::sandbox::ExitReason;
use crate::world::sandbox::disk_watch::{DiskShortage, DiskStatus, DiskWatch};
use crate::world::sandbox::docker::client::EngineClient;
use crate::world::sandbox::interrupt::CommandInterrupt;

/// Runs a command, and ends what it leaves behind.
const COMMAND: &str = include_str!("command.sh");
/// Ends what runs.
const SWEEP: &str = include_str!("sweep.sh");
/// The variable that a command and all that it starts are known by.
const MARK: &str = "MASSGEN_COMMAND";
/// How much of what a command writes is taken at once, in bytes.
const OUTPUT_BYTES: usize = 64 * 1024;
/// How long a command may take to be gone once it was ended inside the container.
const END_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the end of a command may take to be told after its output has ended.
const STATUS_TIME_MAX: Duration = Duration::from_secs(10);
/// The time between two questions for it.
const STATUS_WAIT: Duration = Duration::from_millis(2);
/// What an engine answers if a container does not run.
const CONFLICT: u16 = 409;
/// What Podman says instead, as an error of its own.
const NOT_RUNNING: &str = "container state improper";

/// What is run in a container.
#[derive(Clone, Debug)]
pub(super) struct ContainerCommand {
    /// The program and its arguments.
    pub(super) program: Vec<String>,
    /// All of its environment besides that of the image.
    pub(super) env: BTreeMap<String, String>,
    /// The directory that it begins in; the container's own without one.
    pub(super) dir: Option<AbsPath>,
    /// Who it runs as.
    pub(super) user: (u32, u32),
}

/// How a command is told from others in its container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ContainerCommandId(u64);

impl ContainerCommandId {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }

    fn text(&self) -> String {
        format!("{:08}", self.0)
    }
}

impl ContainerCommand {
    /// An agent's command, which carries `mark`.
    pub(super) fn agent_command(mut self, command: &str, mark: &ContainerCommandId) -> Self {
        self.program = script(COMMAND, [command.to_owned()]);
        self.env.insert(MARK.to_owned(), mark.text());
        self
    }

    /// The end of everything but the commands with these marks.
    pub(super) fn sweep(user: (u32, u32), kept: &[ContainerCommandId]) -> Self {
        Self {
            program: script(SWEEP, kept.iter().map(ContainerCommandId::text)),
            env: BTreeMap::new(),
            dir: None,
            user,
        }
    }
}

/// A shell that runs `text` with these arguments.
fn script(text: &str, arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let shell = ["/bin/sh", "-c", text, "massgen"].map(str::to_owned);
    shell.into_iter().chain(arguments).collect()
}

/// A part of what a command has written.
#[derive(Debug)]
pub(super) enum OutputChunk<'a> {
    /// To its standard output.
    Out(&'a [u8]),
    /// To its standard error.
    Errors(&'a [u8]),
}

/// A command that runs in a container.
pub(super) struct ContainerProcess {
    exec: String,
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, EngineError>> + Send>>,
}

/// Why the output of a command is not read any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputEnd {
    /// There is no more.
    EndOfStream,
    /// Its time is out.
    TimedOut,
    /// Somebody wants it to end.
    Interrupted,
    /// A disk is full.
    DiskFull(DiskShortage),
}

/// What makes a command end before it does so itself.
pub(super) struct ContainerWaitLimits<'a> {
    /// When its time is out.
    pub(super) until: Instant,
    /// What interrupts it.
    pub(super) interrupt: Option<&'a CommandInterrupt>,
    /// The disks that it must not fill.
    pub(super) disks: Option<&'a DiskWatch>,
}

impl ContainerWaitLimits<'_> {
    /// For what was ended inside the container and has to be gone.
    pub(super) fn for_cleanup() -> Self {
        Self {
            until: Instant::now() + END_TIME_MAX,
            interrupt: None,
            disks: None,
        }
    }
}

impl OutputEnd {
    /// How a command ended that did not do so itself.
    pub(super) fn exit_reason(self) -> Option<ExitReason> {
        match self {
            OutputEnd::EndOfStream => None,
            OutputEnd::TimedOut => Some(ExitReason::TimedOut),
            OutputEnd::Interrupted => Some(ExitReason::Interrupted),
            OutputEnd::DiskFull(shortage) => Some(ExitReason::DiskFull(shortage)),
        }
    }
}

impl ContainerProcess {
    /// Starts a command in a container that runs.
    pub(super) async fn start(
        client: &EngineClient,
        container: &str,
        call: ContainerCommand,
    ) -> Result<Self, EngineError> {
        let (user, group) = call.user;
        let env = call.env.into_iter();
        let options = CreateExecOptions {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            env: Some(env.map(|(name, value)| format!("{name}={value}")).collect()),
            cmd: Some(call.program),
            user: Some(format!("{user}:{group}")),
            working_dir: call.dir.map(|dir| dir.to_string()),
            ..CreateExecOptions::default()
        };
        let exec = client.api.create_exec(container, options).await?.id;
        let start = bollard::exec::StartExecOptions {
            output_capacity: Some(OUTPUT_BYTES),
            ..bollard::exec::StartExecOptions::default()
        };
        match client.api.start_exec(&exec, Some(start)).await? {
            StartExecResults::Attached { output, .. } => Ok(Self { exec, output }),
            StartExecResults::Detached => {
                let error = io::Error::other("the engine gave no output");
                Err(EngineError::IOError { err: error })
            }
        }
    }

    /// Hands on what it writes until there is no more, or patience is at an end.
    pub(super) async fn forward_output(
        &mut self,
        patience: &ContainerWaitLimits<'_>,
        mut take: impl FnMut(OutputChunk<'_>),
    ) -> Result<OutputEnd, EngineError> {
        let interrupt = patience.interrupt.map(watch_interrupt).transpose()?;
        let mut next_look = match patience.disks {
            Some(_) => Instant::now(),
            None => patience.until,
        };
        loop {
            if Instant::now() >= next_look {
                match patience.disks.map(DiskWatch::check) {
                    Some(DiskStatus::Full(shortage)) => return Ok(OutputEnd::DiskFull(shortage)),
                    Some(DiskStatus::Free(wait)) => next_look = Instant::now() + wait,
                    None => {}
                }
            }
            tokio::select! {
                biased;
                () = wait_for_interrupt(interrupt.as_ref()) => return Ok(OutputEnd::Interrupted),
                written = timeout_at(patience.until.min(next_look), self.output.next()) => {
                    match written {
                        Ok(Some(written)) => forward_chunk(&written?, &mut take),
                        Ok(None) => return Ok(OutputEnd::EndOfStream),
                        Err(_) if Instant::now() >= patience.until => return Ok(OutputEnd::TimedOut),
                        Err(_) => {}
                    }
                }
            }
        }
    }

    /// What it has ended with. The engine may tell it a little later than the end of its output.
    pub(super) async fn exit_status(
        &self,
        client: &EngineClient,
    ) -> Result<ExitReason, EngineError> {
        let until = Instant::now() + STATUS_TIME_MAX;
        loop {
            let found = client.api.inspect_exec(&self.exec).await?;
            let code = found.exit_code.filter(|_| found.running != Some(true));
            match code.and_then(|code| i32::try_from(code).ok()) {
                Some(code) => return Ok(ExitReason::Exited(code)),
                None if Instant::now() < until => sleep(STATUS_WAIT).await,
                None => return Err(EngineError::RequestTimeoutError),
            }
        }
    }
}

fn forward_chunk(written: &LogOutput, take: &mut impl FnMut(OutputChunk<'_>)) {
    match written {
        LogOutput::StdOut { message } | LogOutput::Console { message } => {
            take(OutputChunk::Out(message));
        }
        LogOutput::StdErr { message } => take(OutputChunk::Errors(message)),
        LogOutput::StdIn { .. } => {}
    }
}

/// An interrupt as the event loop watches it: like a pipe, it can be read from once it is raised.
fn watch_interrupt(interrupt: &CommandInterrupt) -> io::Result<Receiver> {
    Receiver::from_owned_fd_unchecked(interrupt.as_fd().try_clone_to_owned()?)
}

/// Waits until an interrupt is raised; for ever if there is none.
async fn wait_for_interrupt(interrupt: Option<&Receiver>) {
    match interrupt {
        Some(interrupt) => interrupt.readable().await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

/// Whether an engine says that a container does not run.
pub(super) fn is_stopped(error: &EngineError) -> bool {
    let EngineError::DockerResponseServerError {
        status_code,
        message,
    } = error
    else {
        return false;
    };
    *status_code == CONFLICT || message.contains(NOT_RUNNING)
}
