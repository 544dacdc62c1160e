//! Owns the running of commands of which only the end counts, and what they wrote for people.

use crate::tools::call::ToolCall;
use crate::world::exec::command::finished;
use crate::world::gate::{Action, Permitted};
use crate::world::sandbox::Ended;
use crate::world::sandbox::interrupt::Interrupt;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With status 0.
    Well,
    /// Otherwise.
    Badly {
        /// How, as the end of a sentence.
        how: String,
        /// What it wrote, its errors last.
        output: String,
    },
}

/// Carries out a permitted `execute_command` until `interrupt` is raised.
///
/// # Errors
/// It could not be run, for this reason.
pub fn try_out(permitted: Permitted<Action>, interrupt: &Interrupt) -> Result<Ending, String> {
    let (action, gate) = permitted.into_action();
    let ToolCall::ExecuteCommand {
        command,
        timeout_seconds,
        dir,
    } = action
    else {
        return Err("it is no command".to_owned());
    };
    let ended = finished(&gate, (&command, &dir), timeout_seconds, Some(interrupt));
    let (finished, _) = ended.map_err(|stop| stop.message)?;
    match &finished.ended {
        Ended::Exited(0) => Ok(Ending::Well),
        ended @ (Ended::Refused { .. } | Ended::Interrupted) => Err(ended.to_string()),
        ended
        @ (Ended::Exited(_) | Ended::Signalled(_) | Ended::OutOfTime | Ended::DiskFull(_)) => {
            Ok(Ending::Badly {
                how: ended.to_string(),
                output: format!("{}\n{}", finished.stdout.text, finished.stderr.text),
            })
        }
    }
}
