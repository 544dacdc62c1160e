//! Owns one command in a container as the engine sees it: its start, what it writes, what it ends with.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error as EngineError;
use bollard::exec::{CreateExecOptions, StartExecResults};
use futures_util::{Stream, StreamExt};
use rustix::fd::OwnedFd;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::time::{Instant, sleep, timeout};

use crate::path::AbsPath;
use crate::world::docker::client::EngineClient;
use crate::world::sandbox::ExitReason;

/// Runs a command, and ends what it leaves behind.
const COMMAND: &str = include_str!("command.sh");
/// Ends what runs.
const SWEEP: &str = include_str!("sweep.sh");
/// The variable that a command and all that it starts are known by.
const MARK: &str = "MASSGEN_COMMAND";
/// How much of what a command writes is taken at once, in bytes.
const OUTPUT_BYTES: usize = 64 * 1024;
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

/// A command that was started in a container.
pub(super) struct ContainerExec {
    id: String,
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, EngineError>> + Send>>,
}

impl ContainerExec {
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
            StartExecResults::Attached { output, .. } => Ok(Self { id: exec, output }),
            StartExecResults::Detached => {
                let error = io::Error::other("the engine gave no output");
                Err(EngineError::IOError { err: error })
            }
        }
    }

    /// Its name with the engine.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Writes what it writes to its standard output and error to the two `streams`, until there is no
    /// more.
    pub(super) async fn forward_output(mut self, streams: [OwnedFd; 2]) -> Result<(), EngineError> {
        let [stdout, stderr] = streams;
        let mut stdout = Sender::from_owned_fd(stdout)?;
        let mut stderr = Sender::from_owned_fd(stderr)?;
        while let Some(written) = self.output.next().await {
            match written? {
                LogOutput::StdOut { message } | LogOutput::Console { message } => {
                    stdout.write_all(&message).await?;
                }
                LogOutput::StdErr { message } => stderr.write_all(&message).await?,
                LogOutput::StdIn { .. } => {}
            }
        }
        Ok(())
    }

    /// Reads what it writes until there is no more, for a while.
    pub(super) async fn drain_output(mut self, time_max: Duration) {
        let draining = async { while let Some(Ok(_)) = self.output.next().await {} };
        timeout(time_max, draining).await.unwrap_or_default();
    }
}

/// What a command has ended with. The engine may tell it a little later than the end of its output.
pub(super) async fn exit_status(
    client: &EngineClient,
    exec: &str,
) -> Result<ExitReason, EngineError> {
    let until = Instant::now() + STATUS_TIME_MAX;
    loop {
        let found = client.api.inspect_exec(exec).await?;
        let code = found.exit_code.filter(|_| found.running != Some(true));
        match code.and_then(|code| i32::try_from(code).ok()) {
            Some(code) => return Ok(ExitReason::Exited(code)),
            None if Instant::now() < until => sleep(STATUS_WAIT).await,
            None => return Err(EngineError::RequestTimeoutError),
        }
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
