//! Owns the program that shows long texts on the user's terminal, as `git` starts it: `$PAGER`, or
//! `less`, which ends by itself where all fits on the screen.
#![expect(
    clippy::disallowed_methods,
    reason = "the user's own program, on the user's own terminal"
)]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Command, Stdio};

/// The pager where the user names none.
const PAGER: &str = "less";
/// What `less` is told unless the user says otherwise: to end where all fits, to show colours, and to
/// leave the screen as it is.
const LESS: &str = "FRX";
/// A pager that is none.
const NONE: &str = "cat";

/// A pager that shows what is written to it.
#[derive(Debug)]
pub struct Pager(Child);

impl Pager {
    /// Starts the pager that `env` names. `None` if there is none.
    pub fn start(env: &BTreeMap<String, String>) -> Option<(Self, impl Write + Send + use<>)> {
        let named = env.get("PAGER").map(String::as_str);
        let pager = named.unwrap_or(PAGER).trim();
        if pager.is_empty() || pager == NONE {
            return None;
        }
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("exec {pager}"))
            .stdin(Stdio::piped());
        command.env_clear().envs(env);
        if !env.contains_key("LESS") {
            command.env("LESS", LESS);
        }
        let mut child = command.spawn().ok()?;
        let input = child.stdin.take()?;
        Some((Self(child), input))
    }

    /// Waits until the user has seen enough.
    pub fn wait(mut self) {
        // Whatever the pager says at its end, the text was shown or the user left.
        drop(self.0.wait());
    }
}
