//! Runs `!COMMAND` of a session in the user's own shell, as if it had been typed there: outside the
//! sandbox of the agents, who see neither the command nor its output.

use std::time::Duration;

use crate::cli::command_line::usage_error;
use crate::cli::interactive::{InteractiveSession, next_signal};
use crate::cli::interrupts::SignalRequest;
use crate::world::io::user_terminal;

/// How a shell command of the session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShellCommandEnd {
    /// It was not run.
    Refused,
    /// It ran to its end.
    Ended,
    /// massgen was asked to end while it ran.
    Terminated,
}

impl InteractiveSession {
    /// Runs `command`, unless the `!` before it was pasted instead of typed. What is typed while it
    /// runs becomes the beginning of the next line, and counts as pasted.
    pub(super) async fn run_shell_command(
        &mut self,
        command: &str,
        pasted_texts: &[String],
    ) -> ShellCommandEnd {
        let begins_command = |text: &String| text.trim_start().starts_with('!');
        if pasted_texts.iter().any(begins_command) {
            let error = usage_error("the pasted text starts a shell command");
            self.output
                .error(&error.with_hint("to run it, type `!` yourself before you paste the rest"));
            return ShellCommandEnd::Refused;
        }
        self.keyboard.restore();
        let env = &self.state.host.env;
        let result = tokio::task::block_in_place(|| user_terminal::run_shell_command(command, env));
        self.keyboard.disable_echo();
        self.keep_typed_ahead();
        let mut end = ShellCommandEnd::Ended;
        while let Ok(signal) =
            tokio::time::timeout(Duration::ZERO, next_signal(&self.interrupts)).await
        {
            match signal {
                // Ctrl-C was meant for the command.
                SignalRequest::Interrupt => {}
                SignalRequest::End => end = ShellCommandEnd::Terminated,
            }
        }
        match result {
            Ok(Some(0)) => {}
            Ok(Some(status)) => self.output.note(&format!("exit status {status}")),
            Ok(None) => self.output.note("ended by a signal"),
            Err(error) => self.output.error(&error),
        }
        self.file_finder.refresh();
        end
    }
}
