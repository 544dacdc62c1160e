//! The pager for long output on the user's terminal, started as `git` does: `$PAGER`, or `less`,
//! which exits by itself if everything fits on the screen.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Child;

use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, UserProgramStreams};

/// Shell that splits the words of `$PAGER`.
const SHELL: &str = "sh";
/// Default pager.
const PAGER: &str = "less";
/// Default options for `less`: exit if everything fits, show colours, and leave the screen as it
/// is.
const LESS: &str = "FRX";
/// The value of `$PAGER` that means no pager.
const NO_PAGER: &str = "cat";

/// A pager that shows what is written to it.
#[derive(Debug)]
pub struct PagerProcess(Child);

impl PagerProcess {
    /// Starts the pager that the process environment `env` names. `None` if there is none.
    pub fn start(env: &BTreeMap<String, String>) -> Option<(Self, impl Write + Send + use<>)> {
        let pager_variable = env.get("PAGER").map(String::as_str);
        let pager = pager_variable.unwrap_or(PAGER).trim();
        if pager.is_empty() || pager == NO_PAGER {
            return None;
        }
        let shell = process::find(SHELL, env.get("PATH").map_or("", String::as_str))?;
        let mut user_env = ProcessEnvironment::inherit_except(env, &[]);
        if user_env.get("LESS").is_none() {
            user_env = user_env.with("LESS", LESS);
        }
        let arguments = ["-c", &format!("exec {pager}")];
        let start_result =
            process::start_for_user(&shell, &arguments, &user_env, UserProgramStreams::InputPipe);
        let mut child = start_result.ok()?;
        let input = child.stdin.take()?;
        Some((Self(child), input))
    }

    /// Waits until the user quits the pager.
    pub fn wait(mut self) {
        // The exit status is ignored: the output was shown or the user quit.
        drop(self.0.wait());
    }
}
