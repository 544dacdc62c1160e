//! Owns `massgen tool`: one call, carried out as an agent would, through the same gate.

use serde::Serialize;
use tokio::task::spawn_blocking;

use crate::cli::interrupts::{ended, listen};
use crate::cli::run::runtime;
use crate::error::{Error, ExitStatus, Result};
use crate::host::Hangup;
use crate::tools::error::ParseError;
use crate::tools::parse::parse;
use crate::tools::served::Catalogue;
use crate::world::exec::{self, Observation, Outcome};
use crate::world::gate::{Action, Gate, Permitted};
use crate::world::sandbox::interrupt::Interrupt;

/// The one line of JSON that is printed.
#[derive(Debug, Serialize)]
struct Report<'a> {
    ok: bool,
    output: &'a str,
    /// The exit status of a command; file tools have none.
    exit: Option<i32>,
    decision: &'static str,
}

/// Carries out the call of the tool `name` with `arguments` (JSON), and says how the process ends:
/// well if it was carried out, denied if it was refused or is unknown, with 1 if it failed, with 2 if
/// the arguments are none of the tool's.
pub(crate) fn carry_out(
    gate: &Gate,
    name: &str,
    arguments: &str,
    hangup: Hangup,
) -> (String, ExitStatus) {
    let call = match parse(name, arguments, &Catalogue::default()) {
        Ok(call) => call,
        Err(error @ ParseError::UnknownTool { .. }) => return denied(&error.to_string()),
        Err(error) => return not_carried_out(&error.to_string(), "invalid", ExitStatus::Usage),
    };
    let takes_time = call.takes_time();
    let permitted = match gate.check(call) {
        Ok(permitted) => permitted,
        Err(denial) => return denied(&denial.to_string()),
    };
    let observation = if takes_time {
        let followed = runtime().and_then(|runtime| runtime.block_on(follow(permitted, hangup)));
        followed.unwrap_or_else(|error| Observation::told(Outcome::Failed, error.to_string()))
    } else {
        exec::run(permitted)
    };
    let (decision, status) = match observation.outcome {
        Outcome::Done => ("allow", ExitStatus::Delivered),
        Outcome::Failed => ("allow", ExitStatus::NoAnswer),
        Outcome::Denied => ("deny", ExitStatus::Denied),
    };
    let report = Report {
        ok: status == ExitStatus::Delivered,
        output: &observation.content,
        exit: observation.exit_code,
        decision,
    };
    (report.to_json(), status)
}

/// Waits for a command; a signal that would end massgen ends the command first, so that what it
/// left in the user's trees is looked at.
async fn follow(permitted: Permitted<Action>, hangup: Hangup) -> Result<Observation> {
    let interrupt = Interrupt::new().map_err(|error| Error::io("cannot run a command", error))?;
    let stop = listen(hangup)?;
    let raised = interrupt.clone();
    let running = spawn_blocking(move || exec::run_until(permitted, Some(&raised)));
    ended(running, &stop, &interrupt).await
}

fn denied(why: &str) -> (String, ExitStatus) {
    not_carried_out(why, "deny", ExitStatus::Denied)
}

fn not_carried_out(why: &str, decision: &'static str, status: ExitStatus) -> (String, ExitStatus) {
    let report = Report {
        ok: false,
        output: why,
        exit: None,
        decision,
    };
    (report.to_json(), status)
}

impl Report<'_> {
    /// Texts, a flag and a number always have a form in JSON.
    fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
