//! One process of an external agent: its input and output lines, each bounded in size and time.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::backend::external_agent::protocol::{
    AgentProtocol, ExternalAgentError, LaunchContext, ProcessLifetime,
};
use crate::text::json_value_count::{JSON_VALUES_MAX, JsonValueCounter};
use crate::text::{escape_line, single_line};
use crate::world::exec::agent_launcher::{AgentLauncher, AgentProcess};
use crate::world::exec::agent_socket::AgentSocket;

/// Maximum length of a line, in bytes.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum time that the process may take to read its input.
const WRITE_TIME_MAX: Duration = Duration::from_mins(1);
/// Maximum length of the last output that is quoted in an error, in characters.
const LAST_OUTPUT_CHARS_MAX: usize = 600;

/// A running process.
#[derive(Debug)]
pub(super) struct AgentConnection {
    process: Option<AgentProcess>,
    input: Option<pipe::Sender>,
    output: BufReader<pipe::Receiver>,
    /// The part of the next line that has been read.
    line: Vec<u8>,
    /// Whether a message has come, and not only greetings for people.
    has_sent_message: bool,
    /// Counts the JSON values of `line`.
    values: JsonValueCounter,
}

/// Writes the agent's files and starts its process.
pub(super) async fn start_process(
    launcher: &AgentLauncher,
    command: &[String],
    protocol: &dyn AgentProtocol,
    context: &LaunchContext,
    socket: &Arc<AgentSocket>,
) -> Result<AgentConnection, ExternalAgentError> {
    let launch = protocol.launch(context);
    let start_error = |reason: String| {
        ExternalAgentError::Permanent(format!("cannot start the program: {reason}"))
    };
    for (path, text) in &launch.files {
        let write_result = launcher.write_home_file(path, text);
        write_result.map_err(|error| start_error(error.to_string()))?;
    }
    let program: Vec<String> = command.iter().cloned().chain(launch.arguments).collect();
    let (launcher, socket) = (launcher.clone(), Arc::clone(socket));
    let start_result = spawn_blocking(move || launcher.start(program, &socket)).await;
    let started = start_result.map_err(|_| start_error("bug in massgen".to_owned()))?;
    AgentConnection::new(started.map_err(start_error)?)
        .map_err(|error| start_error(error.to_string()))
}

impl AgentConnection {
    fn new(mut agent: AgentProcess) -> std::io::Result<Self> {
        let missing_pipes = || std::io::Error::other("its pipes are missing");
        let input = agent.input.take().ok_or_else(missing_pipes)?;
        let output = agent.output.take().ok_or_else(missing_pipes)?;
        Ok(Self {
            input: Some(pipe::Sender::from_owned_fd(input)?),
            output: BufReader::new(pipe::Receiver::from_owned_fd(output)?),
            process: Some(agent),
            line: Vec::new(),
            has_sent_message: false,
            values: JsonValueCounter::default(),
        })
    }

    /// Writes lines. The input of a process that lasts one turn is closed after them.
    pub(super) async fn write_lines(
        &mut self,
        lines: &[String],
        lifetime: ProcessLifetime,
    ) -> Result<(), ExternalAgentError> {
        for line in lines {
            let Some(input) = &mut self.input else {
                return Err(self.exit_error().await);
            };
            let bytes = format!("{line}\n");
            match timeout(WRITE_TIME_MAX, input.write_all(bytes.as_bytes())).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(self.exit_error().await),
                Err(_) => {
                    let reason = "the program does not read its input";
                    return Err(ExternalAgentError::Transient(reason.to_owned()));
                }
            }
        }
        if lifetime == ProcessLifetime::SingleTurn {
            self.input = None;
        }
        Ok(())
    }

    /// Reads the next line. Cancel-safe: what has been read of the line is kept.
    pub(super) async fn read_line(&mut self) -> Result<String, ExternalAgentError> {
        loop {
            let piece = match self.output.fill_buf().await {
                Ok([]) | Err(_) => return Err(self.exit_error().await),
                Ok(piece) => piece,
            };
            let end = piece.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(piece.len(), |end| end.saturating_add(1));
            let piece = piece.get(..length).unwrap_or_default();
            for byte in piece {
                self.values.push(*byte);
            }
            self.line.extend_from_slice(piece);
            self.output.consume(length);
            if self.values.is_over() {
                let reason =
                    format!("the program wrote a line of more than {JSON_VALUES_MAX} values");
                return Err(ExternalAgentError::Permanent(reason));
            }
            if self.line.len() > LINE_BYTES_MAX {
                let reason =
                    format!("the program wrote a line of more than {LINE_BYTES_MAX} bytes");
                return Err(ExternalAgentError::Permanent(reason));
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.has_sent_message |= line.first() == Some(&b'{');
                self.values = JsonValueCounter::default();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
        }
    }

    /// Returns an error that says that the process has exited, with its exit status and its last
    /// output.
    async fn exit_error(&mut self) -> ExternalAgentError {
        self.input = None;
        let (exit_reason, stderr) = match &self.process {
            Some(agent) => agent.exit_report().await,
            None => (None, String::new()),
        };
        let process = self.process.take();
        // Ending the process takes a moment.
        let _ended = spawn_blocking(move || drop(process)).await;
        let chars = stderr.chars().count();
        let last_output: String = stderr
            .chars()
            .skip(chars.saturating_sub(LAST_OUTPUT_CHARS_MAX))
            .collect();
        let last_line = escape_line(&single_line(&last_output, LAST_OUTPUT_CHARS_MAX));
        let exit_reason = exit_reason.map_or_else(String::new, |reason| format!("; {reason}"));
        let last_output = if last_line.is_empty() {
            String::new()
        } else {
            format!("; it wrote: {last_line}")
        };
        let reason = format!("the program has exited{exit_reason}{last_output}");
        if self.has_sent_message {
            ExternalAgentError::Transient(reason)
        } else {
            ExternalAgentError::StartFailed(reason)
        }
    }
}
