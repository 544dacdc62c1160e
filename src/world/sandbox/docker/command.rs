//! One command in a container through the engine's exec API: its start, its output, and its exit
//! status.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error as EngineError;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use rustix::fd::OwnedFd;
use tokio::io::{AsyncWrite, AsyncWriteExt as _, copy};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::{sleep, timeout};

use crate::path::AbsPath;
use crate::world::sandbox::ExitReason;
use crate::world::sandbox::docker::engine::{ContainerEngine, ContainerUser};
use crate::world::sandbox::running_commands::{ContainerCommandId, shell_script, sweep_program};

/// Script that runs a command and kills what it leaves behind.
const COMMAND_SCRIPT: &str = concat!(include_str!("command.sh"), "exit $status\n");
/// Beginning of what an engine writes instead of a command's output if it cannot start it.
pub(super) const START_FAILURE_PREFIX: &str = "OCI runtime exec failed";
/// The size of the buffer for the output, in bytes.
const OUTPUT_BUFFER_BYTES: usize = 64 * 1024;
/// Timeout for the engine to report the exit status after the end of the output.
const STATUS_TIME_MAX: Duration = Duration::from_mins(1);
/// Interval between two polls of the exit status.
const STATUS_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A command to run in a container.
#[derive(Clone, Debug)]
pub(super) struct ContainerCommand {
    /// The program and its arguments.
    pub(super) program: Vec<String>,
    /// Its environment in addition to that of the image.
    pub(super) env: BTreeMap<String, String>,
    /// Its working directory; the container's default if `None`.
    pub(super) dir: Option<AbsPath>,
    /// The user that it runs as.
    pub(super) user: ContainerUser,
    /// Whether it has a standard input.
    pub(super) has_input: bool,
}

impl ContainerCommand {
    /// Turns it into an agent's command. All its processes have `id` in their environment.
    pub(super) fn with_agent_command(mut self, command: &str, id: &ContainerCommandId) -> Self {
        self.program = shell_script(COMMAND_SCRIPT, [command.to_owned()]);
        self.env.extend([id.variable()]);
        self
    }

    /// Turns it into a program that reads requests from its standard input and writes replies to
    /// its standard output. All its processes have `id` in their environment.
    pub(super) fn with_server_program(
        mut self,
        program: Vec<String>,
        env: BTreeMap<String, String>,
        id: &ContainerCommandId,
    ) -> Self {
        self.program = program;
        self.env.extend(env);
        self.env.extend([id.variable()]);
        self.has_input = true;
        self
    }

    /// Creates a command that kills everything that `user` may kill, except the commands with these
    /// ids.
    pub(super) fn sweep(user: ContainerUser, spared: &[ContainerCommandId]) -> Self {
        Self {
            program: sweep_program(spared),
            env: BTreeMap::new(),
            dir: None,
            user,
            has_input: false,
        }
    }
}

/// The standard input of a command in a container. Nothing ends on drop.
pub(super) type ExecInput = Pin<Box<dyn AsyncWrite + Send>>;

/// A command that was started in a container.
pub(super) struct ContainerExec {
    id: String,
    output: BoxStream<'static, Result<LogOutput, EngineError>>,
    has_input: bool,
    /// Its standard input, if it has one that was not taken.
    input: Option<ExecInput>,
}

impl ContainerExec {
    /// Starts a command in a running container.
    pub(super) async fn start(
        engine: &ContainerEngine,
        container: &str,
        container_command: ContainerCommand,
    ) -> Result<Self, EngineError> {
        let env = container_command.env.into_iter();
        let options = CreateExecOptions {
            attach_stdin: Some(container_command.has_input),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            env: Some(env.map(|(name, value)| format!("{name}={value}")).collect()),
            cmd: Some(container_command.program),
            user: Some(container_command.user.to_string()),
            working_dir: container_command.dir.map(|dir| dir.to_string()),
            ..CreateExecOptions::default()
        };
        let id = engine.api.create_exec(container, options).await?.id;
        let options = Some(StartExecOptions {
            output_capacity: Some(OUTPUT_BUFFER_BYTES),
            ..StartExecOptions::default()
        });
        let StartExecResults::Attached { output, input } =
            engine.api.start_exec(&id, options).await?
        else {
            return Err(io::Error::other("the engine detached a command").into());
        };
        Ok(Self {
            id,
            output,
            has_input: container_command.has_input,
            input: Some(input).filter(|_| container_command.has_input),
        })
    }

    /// Returns the engine's id of the command.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns its standard input, if it has one that was not taken before.
    pub(super) fn take_input(&mut self) -> Option<ExecInput> {
        self.input.take()
    }

    /// Copies its standard output and error to the two `streams` until they end. An engine writes
    /// to the standard output that it cannot start a program; if that is where replies are
    /// expected, the message goes to the second stream.
    pub(super) async fn forward_output(mut self, streams: [OwnedFd; 2]) -> Result<(), EngineError> {
        let [stdout, stderr] = streams;
        let mut stdout = Sender::from_owned_fd(stdout)?;
        let mut stderr = Sender::from_owned_fd(stderr)?;
        let mut is_first_part = true;
        while let Some(part) = self.output.next().await {
            let part = part?;
            let is_start_failure = self.has_input
                && is_first_part
                && part.as_ref().starts_with(START_FAILURE_PREFIX.as_bytes());
            is_first_part = false;
            match part {
                LogOutput::StdIn { .. } => {}
                LogOutput::StdErr { message } => stderr.write_all(&message).await?,
                LogOutput::StdOut { message } | LogOutput::Console { message } => {
                    let stream = if is_start_failure {
                        &mut stderr
                    } else {
                        &mut stdout
                    };
                    stream.write_all(&message).await?;
                }
            }
        }
        Ok(())
    }

    /// Reads and discards its output until it ends, for at most `time_max`.
    pub(super) async fn drain_output(mut self, time_max: Duration) {
        let drain = async { while let Some(Ok(_)) = self.output.next().await {} };
        timeout(time_max, drain).await.unwrap_or_default();
    }
}

/// Copies what is written to `pipe` to the standard input of a command, until the pipe or the
/// command ends.
pub(super) async fn forward_input(mut input: ExecInput, pipe: OwnedFd) -> io::Result<()> {
    let mut pipe = Receiver::from_owned_fd(pipe)?;
    copy(&mut pipe, &mut input).await?;
    input.shutdown().await
}

/// Returns the exit status. The engine may report it a little later than the end of the output.
pub(super) async fn exit_status(
    engine: &ContainerEngine,
    exec: &str,
) -> Result<ExitReason, EngineError> {
    let status = timeout(STATUS_TIME_MAX, poll_exit_status(engine, exec)).await;
    status.unwrap_or(Err(EngineError::RequestTimeoutError))
}

async fn poll_exit_status(engine: &ContainerEngine, exec: &str) -> Result<ExitReason, EngineError> {
    loop {
        let state = engine.api.inspect_exec(exec).await?;
        let code = state.exit_code.filter(|_| state.running != Some(true));
        if let Some(code) = code.and_then(|code| i32::try_from(code).ok()) {
            return Ok(ExitReason::Exited(code));
        }
        sleep(STATUS_POLL_INTERVAL).await;
    }
}
