//! Implements `massgen tool`: carries out one call as an agent would, through the same gate.

use serde::Serialize;
use tokio::task::spawn_blocking;

use crate::cli::interrupts::{listen, single_thread_runtime, wait_or_interrupt};
use crate::error::{Error, ExitStatus, Result};
use crate::host::HangupAction;
use crate::tools::error::CallParseError;
use crate::tools::parse::parse;
use crate::tools::served::ToolCatalogue;
use crate::world::access::gate::{Action, Gate, Permitted};
use crate::world::exec;
use crate::world::exec::tool_result::{ActionOutcome, Observation};
use crate::world::sandbox::interrupt::CommandInterrupt;

/// The line of JSON that is printed.
#[derive(Debug, Serialize)]
struct ToolCallReport<'a> {
    ok: bool,
    output: &'a str,
    /// The exit status of a command; file tools have none.
    exit: Option<i32>,
    decision: &'static str,
}

/// Carries out the call of the tool `name` with `arguments` (JSON). Returns the report and the exit
/// status: success if it was carried out, denied if it was refused or the tool is unknown, 1 if it
/// failed, and 2 if the arguments do not fit the tool.
pub(crate) fn execute(
    gate: &Gate,
    name: &str,
    arguments: &str,
    hangup: HangupAction,
) -> (String, ExitStatus) {
    let call = match parse(name, arguments, &ToolCatalogue::default()) {
        Ok(call) => call,
        Err(error @ CallParseError::UnknownTool { .. }) => {
            return denial_report(&error.to_string());
        }
        Err(error) => return rejection_report(&error.to_string(), "invalid", ExitStatus::Usage),
    };
    let is_long_running = call.is_long_running();
    let observation = match gate.check(call) {
        Ok(permitted) if is_long_running => {
            let result = single_thread_runtime()
                .and_then(|runtime| runtime.block_on(wait_for_result(permitted, hangup)));
            result
                .unwrap_or_else(|error| Observation::new(ActionOutcome::Failed, error.to_string()))
        }
        Ok(permitted) => exec::run(permitted),
        Err(error) => error.into(),
    };
    let (decision, status) = match observation.outcome {
        ActionOutcome::Done => ("allow", ExitStatus::Success),
        ActionOutcome::Failed => ("allow", ExitStatus::Failure),
        ActionOutcome::Denied => ("deny", ExitStatus::Denied),
    };
    let report = ToolCallReport {
        ok: status == ExitStatus::Success,
        output: &observation.content,
        exit: observation.exit_code,
        decision,
    };
    (report.to_json(), status)
}

/// Waits for a command; a signal that would end massgen ends the command first, so that its changes
/// to the user's trees are still processed.
async fn wait_for_result(
    permitted: Permitted<Action>,
    hangup: HangupAction,
) -> Result<Observation> {
    let interrupt =
        CommandInterrupt::new().map_err(|error| Error::io("cannot run a command", error))?;
    let stop = listen(hangup)?;
    let task_interrupt = interrupt.clone();
    let task = spawn_blocking(move || exec::run_until(permitted, Some(&task_interrupt)));
    wait_or_interrupt(task, &stop, &interrupt).await
}

fn denial_report(reason: &str) -> (String, ExitStatus) {
    rejection_report(reason, "deny", ExitStatus::Denied)
}

fn rejection_report(
    reason: &str,
    decision: &'static str,
    status: ExitStatus,
) -> (String, ExitStatus) {
    let report = ToolCallReport {
        ok: false,
        output: reason,
        exit: None,
        decision,
    };
    (report.to_json(), status)
}

impl ToolCallReport<'_> {
    /// Strings, a flag and a number can always be serialized to JSON.
    fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
