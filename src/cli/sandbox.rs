//! Owns `massgen sandbox`: one command, run as an agent would run it, whose streams lead to the
//! user's.

use std::io::{self, stderr, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;

use crate::cli::interrupts::{ended, listen};
use crate::cli::output::Output;
use crate::cli::run::runtime;
use crate::cli::usage::usage;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Hangup;
use crate::tools::call::{ToolCall, UserPath};
use crate::world::exec::pass_through::Passed;
use crate::world::exec::run_on;
use crate::world::gate::{Action, Gate, Permitted};
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::passage::Passage;
use crate::world::sandbox::{Ended, Streams};
use crate::world::verdict::Denial;

/// What is added to the number of a signal that ended a command, as shells do.
const SIGNALLED: i32 = 128;

/// Runs a program and its arguments for whoever `gate` is of, and gives the exit status that it
/// ended with.
pub(crate) fn run(
    gate: &Gate,
    words: &[String],
    hangup: Hangup,
    output: &mut Output<'_>,
) -> Result<u8> {
    let workspace = UserPath::parse(".").map_err(|error| Error::bug(error.to_string()))?;
    let call = ToolCall::ExecuteCommand {
        command: line(words),
        timeout_seconds: None,
        dir: workspace,
    };
    let permitted = gate.check(call);
    let permitted = permitted.map_err(|denial| denied(&denial))?;
    let passed = runtime()?.block_on(follow(permitted, hangup))?;
    if let Some(delivered) = &passed.delivered {
        output.note(delivered);
    }
    for note in &passed.notes {
        output.warning(note);
    }
    status(&passed.ended)
}

/// What was refused, with the way out as a hint.
fn denied(denial: &Denial) -> Error {
    let told = denial.to_string();
    let mut lines = told.lines();
    let error = Error::new(ErrorKind::Denied, lines.next().unwrap_or_default());
    lines.fold(error, Error::hint)
}

/// Waits for the command; a signal that would end massgen ends the command first.
async fn follow(permitted: Permitted<Action>, hangup: Hangup) -> Result<Passed> {
    let failed = |error: io::Error| Error::io("cannot run a command", error);
    let interrupt = Interrupt::new().map_err(failed)?;
    let stop = listen(hangup)?;
    let mut resized = signal(SignalKind::window_change()).map_err(failed)?;
    let (mut passage, streams) = passage()?;
    let raised = interrupt.clone();
    let running = spawn_blocking(move || run_on(permitted, streams, &raised));
    let mut ended = pin!(ended(running, &stop, &interrupt));
    let ended = loop {
        tokio::select! {
            ended = &mut ended => break ended,
            _ = resized.recv() => passage.resize(),
        }
    };
    tokio::select! {
        () = passage.copied() => {}
        () = stop.at_once.cancelled() => {}
    }
    ended?.map_err(|why| Error::new(ErrorKind::Environment, why))
}

/// A way to the standard streams of massgen itself, and what the command has in their place.
fn passage() -> Result<(Passage, Streams)> {
    let opened = || {
        Passage::open(Streams {
            stdin: Some(own(stdin())?),
            stdout: own(stdout())?,
            stderr: own(stderr())?,
        })
    };
    opened().map_err(|error| {
        if error.kind() == io::ErrorKind::IsADirectory {
            usage("a directory is standard input, output or error")
                .hint("give the command a file, a pipe or a terminal")
        } else {
            Error::io("cannot pass the standard streams on", error)
        }
    })
}

fn own(stream: impl AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// The exit status that tells how the command ended.
fn status(ended: &Ended) -> Result<u8> {
    let status = match ended {
        Ended::Exited(status) => *status,
        Ended::Signalled(signal) => SIGNALLED.saturating_add(*signal),
        Ended::Interrupted => return Ok(ExitStatus::Interrupted.code()),
        Ended::OutOfTime | Ended::DiskFull(_) | Ended::Refused { .. } => {
            let message = format!("the command did not end by itself: {ended}");
            return Err(Error::new(ErrorKind::Environment, message)
                .hint("see what `massgen doctor` says about the sandbox and the disk"));
        }
    };
    Ok(u8::try_from(status & 0xff).unwrap_or(u8::MAX))
}

/// The words as a line for the shell, which takes each of them as it stands.
fn line(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+./:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::sandbox::disk_watch::Shortage;

    #[track_caller]
    fn check(words: &[&str], expected: &str) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(line(&words), expected);
    }

    #[test]
    fn the_shell_takes_every_word_as_it_stands() {
        check(&["ls", "-la", "./src/a_b.rs"], "ls -la ./src/a_b.rs");
        check(&["echo", "", "a b", "$HOME;"], "echo '' 'a b' '$HOME;'");
        check(&["echo", "it's", "*"], r"echo 'it'\''s' '*'");
        check(&["VAR=1", "~"], "'VAR=1' '~'");
    }

    #[test]
    fn the_end_of_the_command_is_the_exit_status() {
        let status = |ended: &Ended| status(ended).ok();
        assert_eq!(status(&Ended::Exited(0)), Some(0));
        assert_eq!(status(&Ended::Exited(3)), Some(3));
        assert_eq!(status(&Ended::Signalled(9)), Some(137));
        assert_eq!(status(&Ended::Interrupted), Some(130));
        assert_eq!(status(&Ended::DiskFull(Shortage::Files)), None);
    }
}
