//! Runs commands of which only the exit status and the output for people matter.

use crate::tools::call::ToolCall;
use crate::world::access::gate::{Action, Permitted};
use crate::world::exec::command::{ShellInvocation, run_to_completion};
use crate::world::sandbox::ExitReason;
use crate::world::sandbox::interrupt::CommandInterrupt;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckCommandOutcome {
    /// It exited with status 0.
    Passed,
    /// It ended in any other way.
    Failed {
        /// How it ended, as the end of a sentence.
        failure: String,
        /// Its output, standard error last.
        output: String,
    },
}

/// Runs a permitted `execute_command` until it ends or `interrupt` is raised.
///
/// # Errors
/// The command could not be run; the string says why.
pub fn run_check(
    permitted: Permitted<Action>,
    interrupt: &CommandInterrupt,
) -> Result<CheckCommandOutcome, String> {
    let (action, gate) = permitted.into_action();
    let ToolCall::ExecuteCommand {
        command,
        timeout_seconds,
        dir,
        ..
    } = action
    else {
        return Err("it is not a command".to_owned());
    };
    let invocation = ShellInvocation::new(&command, &dir);
    let result = run_to_completion(&gate, invocation, timeout_seconds, Some(interrupt));
    let (output, _) = result.map_err(|tool_error| tool_error.message)?;
    match &output.exit_reason {
        ExitReason::Exited(0) => Ok(CheckCommandOutcome::Passed),
        exit_reason @ (ExitReason::Refused { .. } | ExitReason::Interrupted) => {
            Err(exit_reason.to_string())
        }
        exit_reason @ (ExitReason::Exited(_)
        | ExitReason::Signalled(_)
        | ExitReason::TimedOut
        | ExitReason::DiskFull(_)) => Ok(CheckCommandOutcome::Failed {
            failure: exit_reason.to_string(),
            output: format!(
                "{}\n{}",
                output.stdout.for_model(),
                output.stderr.for_model()
            ),
        }),
    }
}
