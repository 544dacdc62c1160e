//! Implements `massgen sandbox`: runs one command as an agent would, on the user's own standard
//! streams.

use std::io::{self, stderr, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;

use crate::answer_changes::ChangeLayers;
use crate::cli::command_line::usage_error;
use crate::cli::deliveries::tried_answer::TriedAnswer;
use crate::cli::interrupts::{listen, single_thread_runtime, wait_or_interrupt};
use crate::cli::output::CliOutput;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::{HangupAction, Host};
use crate::text::shell_line;
use crate::tools::call::{ToolCall, UserPath, WORKSPACE};
use crate::world::access::gate::{Action, Gate, Permitted};
use crate::world::access::verdict::PermitError;
use crate::world::exec::command::PassthroughResult;
use crate::world::exec::run_on_streams;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::stdio_proxy::StdioProxy;
use crate::world::sandbox::{ExitReason, ProcessStreams};

/// Added to the number of the signal that ended a command, as shells do.
const SIGNAL_STATUS_BASE: i32 = 128;

/// Runs a program and its arguments through `gate` and returns its exit status: on the user's trees
/// as `answer` would leave them, if there is one, so that what it writes is discarded.
pub(crate) fn run(
    gate: &Gate,
    words: &[String],
    answer: Option<TriedAnswer>,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<u8> {
    let dir = match &answer {
        Some(answer) => answer.start_directory(&host.cwd).to_string(),
        None => WORKSPACE.to_owned(),
    };
    let dir = UserPath::parse(dir).map_err(|error| Error::bug(error.to_string()))?;
    let changes = answer.map(|answer| answer.layers);
    let call = ToolCall::ExecuteCommand {
        command: shell_line(words),
        timeout_seconds: None,
        dir,
        answer: None,
    };
    let permitted = gate.check(call).map_err(|error| permit_error(&error))?;
    let command = wait_for_command(permitted, changes, host.hangup);
    let result = single_thread_runtime()?.block_on(command)?;
    if let Some(delivered) = &result.delivered {
        output.note(delivered);
    }
    for note in &result.notes {
        output.warning(note);
    }
    exit_code(&result.exit_reason)
}

/// Converts a denial to an error, with its advice as hints.
fn permit_error(error: &PermitError) -> Error {
    let kind = match error {
        PermitError::Denied(_) => ErrorKind::Denied,
        PermitError::Exhausted(_) => ErrorKind::Environment,
    };
    let message = error.to_string();
    let mut lines = message.lines();
    let error = Error::new(kind, lines.next().unwrap_or_default());
    lines.fold(error, Error::with_hint)
}

/// Waits for the command; a signal that would end massgen ends the command first.
async fn wait_for_command(
    permitted: Permitted<Action>,
    changes: Option<ChangeLayers>,
    hangup: HangupAction,
) -> Result<PassthroughResult> {
    let start_error = |error: io::Error| Error::io("cannot run a command", error);
    let interrupt = CommandInterrupt::new().map_err(start_error)?;
    let stop = listen(hangup)?;
    let mut resize_signal = signal(SignalKind::window_change()).map_err(start_error)?;
    let (mut proxy, streams) = proxy_streams()?;
    let task_interrupt = interrupt.clone();
    let run = move || run_on_streams(permitted, changes.as_ref(), streams, &task_interrupt);
    let task = spawn_blocking(run);
    let mut command_end = pin!(wait_or_interrupt(task, &stop, &interrupt));
    let result = loop {
        tokio::select! {
            result = &mut command_end => break result,
            _ = resize_signal.recv() => proxy.resize(),
        }
    };
    tokio::select! {
        () = proxy.wait_for_output() => {}
        () = stop.immediate.cancelled() => {}
    }
    result?.map_err(|reason| Error::new(ErrorKind::Environment, reason))
}

/// Opens a proxy to massgen's standard streams, and the streams that the command gets instead.
fn proxy_streams() -> Result<(StdioProxy, ProcessStreams)> {
    let open_proxy = || {
        StdioProxy::open(ProcessStreams {
            stdin: Some(owned_stream(stdin())?),
            stdout: owned_stream(stdout())?,
            stderr: owned_stream(stderr())?,
        })
    };
    open_proxy().map_err(|error| {
        if error.kind() == io::ErrorKind::IsADirectory {
            usage_error("a directory is standard input, output or error")
                .with_hint("use a file, a pipe or a terminal")
        } else {
            Error::io("cannot pass on the standard streams", error)
        }
    })
}

fn owned_stream(stream: impl AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// Returns the exit status that reports how the command ended.
fn exit_code(exit_reason: &ExitReason) -> Result<u8> {
    let status = match exit_reason {
        ExitReason::Exited(status) => *status,
        ExitReason::Signalled(signal) => SIGNAL_STATUS_BASE.saturating_add(*signal),
        ExitReason::Interrupted => return Ok(ExitStatus::Interrupted.code()),
        ExitReason::TimedOut | ExitReason::DiskFull(_) | ExitReason::Refused { .. } => {
            let message = format!("the command was stopped: {exit_reason}");
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("see the sandbox and disk sections of `massgen doctor`"));
        }
    };
    Ok(u8::try_from(status & 0xff).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::sandbox::disk_watch::DiskShortage;

    #[test]
    fn the_end_of_the_command_is_the_exit_status() {
        let status = |exit_reason: &ExitReason| exit_code(exit_reason).ok();
        assert_eq!(status(&ExitReason::Exited(0)), Some(0));
        assert_eq!(status(&ExitReason::Exited(3)), Some(3));
        assert_eq!(status(&ExitReason::Signalled(9)), Some(137));
        assert_eq!(status(&ExitReason::Interrupted), Some(130));
        assert_eq!(status(&ExitReason::DiskFull(DiskShortage::Files)), None);
    }
}
