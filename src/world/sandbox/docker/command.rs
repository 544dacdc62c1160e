//! Runs one command in a container through the engine's exec API, from start to end: its output and
//! its exit status. A command that must end is killed from inside the container, because an engine
//! does not kill it when its client disconnects.

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

/// Script that runs a command and kills what it leaves behind.
const COMMAND: &str = include_str!("command.sh");
/// Script that kills running processes.
const SWEEP: &str = include_str!("sweep.sh");
/// Environment variable that identifies a command and all its descendants.
const MARK: &str = "MASSGEN_COMMAND";
/// Size of a chunk of output that is read, in bytes.
const OUTPUT_BYTES: usize = 64 * 1024;
/// Timeout for a command to be gone after it was killed inside the container.
const END_TIME_MAX: Duration = Duration::from_secs(5);
/// Timeout for the engine to report the exit status after the end of the output.
const STATUS_TIME_MAX: Duration = Duration::from_secs(10);
/// Interval between two polls of the exit status.
const STATUS_WAIT: Duration = Duration::from_millis(2);
/// HTTP status with which an engine reports that a container is not running.
const CONFLICT: u16 = 409;
/// Error message with which Podman reports the same.
const NOT_RUNNING: &str = "container state improper";

/// A command to run in a container.
#[derive(Clone, Debug)]
pub(super) struct ContainerCommand {
    /// The program and its arguments.
    pub(super) program: Vec<String>,
    /// Its environment in addition to that of the image.
    pub(super) env: BTreeMap<String, String>,
    /// Its working directory; the container's default if `None`.
    pub(super) dir: Option<AbsPath>,
    /// User id and group id that it runs as.
    pub(super) user: (u32, u32),
}

/// Identifies a command among the others in its container.
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
    /// Turns it into an agent's command, identified by `mark`.
    pub(super) fn agent_command(mut self, command: &str, mark: &ContainerCommandId) -> Self {
        self.program = script(COMMAND, [command.to_owned()]);
        self.env.insert(MARK.to_owned(), mark.text());
        self
    }

    /// Creates a command that kills everything but the commands with these ids.
    pub(super) fn sweep(user: (u32, u32), kept: &[ContainerCommandId]) -> Self {
        Self {
            program: script(SWEEP, kept.iter().map(ContainerCommandId::text)),
            env: BTreeMap::new(),
            dir: None,
            user,
        }
    }
}

/// Builds the arguments of a shell that runs `text` with these arguments.
fn script(text: &str, arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let shell = ["/bin/sh", "-c", text, "massgen"].map(str::to_owned);
    shell.into_iter().chain(arguments).collect()
}

/// A chunk of a command's output.
#[derive(Debug)]
pub(super) enum OutputChunk<'a> {
    /// From its standard output.
    Out(&'a [u8]),
    /// From its standard error.
    Errors(&'a [u8]),
}

/// A command that is running in a container.
pub(super) struct ContainerProcess {
    exec: String,
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, EngineError>> + Send>>,
}

/// Why the output of a command is no longer read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputEnd {
    /// It has ended.
    EndOfStream,
    /// The timeout was reached.
    TimedOut,
    /// The command was interrupted.
    Interrupted,
    /// A disk is full.
    DiskFull(DiskShortage),
}

/// Limits on waiting for a command.
pub(super) struct ContainerWaitLimits<'a> {
    /// Its deadline.
    pub(super) until: Instant,
    /// Its interrupt.
    pub(super) interrupt: Option<&'a CommandInterrupt>,
    /// The disks that it must not fill.
    pub(super) disks: Option<&'a DiskWatch>,
}

impl ContainerWaitLimits<'_> {
    /// Limits for a command that was killed inside the container and is about to end.
    pub(super) fn for_cleanup() -> Self {
        Self {
            until: Instant::now() + END_TIME_MAX,
            interrupt: None,
            disks: None,
        }
    }
}

impl OutputEnd {
    /// Returns the exit reason of a command that did not end by itself.
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
    /// Starts a command in a running container.
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

    /// Passes the output to `take` until it ends or a limit is reached.
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

    /// Returns the exit status. The engine may report it a little later than the end of the output.
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

/// Wraps an interrupt for the event loop: like a pipe, it becomes readable once it is raised.
fn watch_interrupt(interrupt: &CommandInterrupt) -> io::Result<Receiver> {
    Receiver::from_owned_fd_unchecked(interrupt.as_fd().try_clone_to_owned()?)
}

/// Waits until the interrupt is raised; forever if there is none.
async fn wait_for_interrupt(interrupt: Option<&Receiver>) {
    match interrupt {
        Some(interrupt) => interrupt.readable().await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

/// Returns whether an engine reports that a container is not running.
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
