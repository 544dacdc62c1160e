//! Owns the program that shows long texts on the user's terminal, as `git` starts it: `$PAGER`, or
//! `less`, which ends by itself where all fits on the screen.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Child;

use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, UserProgramStreams};

/// The program that splits the words of `$PAGER`.
const SHELL: &str = "sh";
/// The pager where the user names none.
const PAGER: &str = "less";
/// What `less` is told unless the user says otherwise: to end where all fits, to show colours, and to
/// leave the screen as it is.
const LESS: &str = "FRX";
/// A pager that is none.
const NONE: &str = "cat";

/// A pager that shows what is written to it.
#[derive(Debug)]
pub struct PagerProcess(Child);

impl PagerProcess {
    /// Starts the pager that `env`, the environment of the process, names. `None` if there is none.
    pub fn start(env: &BTreeMap<String, String>) -> Option<(Self, impl Write + Send + use<>)> {
        let named = env.get("PAGER").map(String::as_str);
        let pager = named.unwrap_or(PAGER).trim();
        if pager.is_empty() || pager == NONE {
            return None;
        }
        let shell = process::find(SHELL, env.get("PATH").map_or("", String::as_str))?;
        let mut of_user = ProcessEnvironment::inherit_except(env, &[]);
        if of_user.get("LESS").is_none() {
            of_user = of_user.with("LESS", LESS);
        }
        let arguments = ["-c", &format!("exec {pager}")];
        let started =
            process::start_for_user(&shell, &arguments, &of_user, UserProgramStreams::Fed);
        let mut child = started.ok()?;
        let input = child.stdin.take()?;
        Some((Self(child), input))
    }

    /// Waits until the user has seen enough.
    pub fn wait(mut self) {
        // Whatever the pager says at its end, the text was shown or the user left.
        drop(self.0.wait());
    }
}
