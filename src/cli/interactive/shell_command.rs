//! Runs `!COMMAND` of a session in the user's own shell, as if it had been typed there: outside the
//! sandbox of the agents, who see neither the command nor its output.

use std::time::Duration;

use crate::cli::command_line::usage_error;
use crate::cli::interactive::{InteractiveSession, next_signal};
use crate::world::io::user_terminal;

impl InteractiveSession {
    /// Runs `command`, unless the `!` before it came into the line by other means than typing.
    pub(super) async fn run_shell_command(&mut self, command: &str, pasted: &[String]) {
        let is_foreign = |text: &String| text.trim_start().starts_with('!');
        if pasted.iter().any(is_foreign) {
            let error = usage_error("the pasted text starts a shell command");
            self.output
                .error(&error.with_hint("to run it, type `!` yourself before you paste the rest"));
            return;
        }
        self.keyboard.restore();
        let env = &self.state.host.env;
        let ended = tokio::task::block_in_place(|| user_terminal::run_shell_command(command, env));
        self.keyboard.disable_echo();
        // Ctrl-C was meant for the command.
        while let Ok(_signal) =
            tokio::time::timeout(Duration::ZERO, next_signal(&self.interrupts)).await
        {}
        match ended {
            Ok(Some(0)) => {}
            Ok(Some(status)) => self.output.note(&format!("exit status {status}")),
            Ok(None) => self.output.note("ended by a signal"),
            Err(error) => self.output.error(&error),
        }
        self.browser.refresh();
    }
}
