//! Owns `massgen hook pre-tool-use`: another program asks before each call of its tools, in the JSON
//! contract of Claude Code's hooks, and the gate answers. Whatever goes wrong is a denial.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::args::HookArguments;
use crate::cli::gates::{Foreigner, Held, foreigner};
use crate::cli::output::Output;
use crate::commands::judge::judge;
use crate::host::Host;
use crate::tools::call::ToolCall;
use crate::tools::foreign::{Foreign, read};
use crate::world::gate::Gate;
use crate::world::verdict::Denial;

/// The longest request, in bytes.
const REQUEST_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The event that is answered.
const EVENT: &str = "PreToolUse";
/// The word of the command line.
pub(crate) const WORD: &str = "hook";
/// The exit status that denies, in the contract: standard error is the reason.
pub(crate) const DENIED: u8 = 2;

/// Why a search is denied to a program that nothing keeps from what it finds.
const CLOSED_BELOW: &str = "denied: something below is closed to you; search a directory that holds \
                            nothing that is closed";

/// Why a command is denied to it.
const UNHELD: &str = "denied: you may not run commands here; start the hook with `--in-sandbox` if the \
                      program that asks runs in a sandbox with these grants";
/// The rule that only another phase lifts.
const NOT_YET: &str = "coordination-phase";

/// What is asked. There may be more in it.
#[derive(Debug, Deserialize)]
struct Request {
    hook_event_name: String,
    cwd: String,
    tool_name: String,
    tool_input: Value,
}

/// Answers the request on standard input, and gives the exit status. What cannot be answered is denied
/// by the status alone.
pub(crate) fn pre_tool_use(host: &Host, asked: &HookArguments, output: &mut Output<'_>) -> u8 {
    // A bug must not let a call through.
    let answered = catch_unwind(AssertUnwindSafe(|| answer(host, asked, output)));
    let why = match answered {
        Ok(Ok(answer)) => match output.result(&format!("{answer}\n")) {
            Ok(()) => return 0,
            Err(error) => error.to_string(),
        },
        Ok(Err(why)) => why,
        Err(_) => "massgen has a bug".to_owned(),
    };
    output.note(&format!("denied: {why}"));
    DENIED
}

/// The answer, as the contract has it. The error says why there is none.
fn answer(host: &Host, asked: &HookArguments, output: &mut Output<'_>) -> Result<Value, String> {
    let mut text = String::new();
    let mut input = io::stdin().lock().take(REQUEST_BYTES_MAX);
    let unread = |error: io::Error| format!("the request cannot be read: {error}");
    input.read_to_string(&mut text).map_err(unread)?;
    let request: Request = serde_json::from_str(&text)
        .map_err(|error| format!("the request is not what was expected: {error}"))?;
    if request.hook_event_name != EVENT {
        let event = request.hook_event_name.escape_debug();
        return Err(format!("the event is `{event}`: expected `{EVENT}`"));
    }
    let cwd = Path::new(&request.cwd);
    if !cwd.is_absolute() {
        return Err("`cwd` is no absolute path".to_owned());
    }
    let foreign = read(&request.tool_name, &request.tool_input, cwd)?;
    let caller = foreigner(host, asked, output).map_err(|error| error.to_string())?;
    let (decision, reason) = match decide(&caller, &request.tool_name, foreign) {
        Ok(()) => ("allow", "the grants allow it".to_owned()),
        Err(why) => ("deny", why),
    };
    Ok(json!({
        "hookSpecificOutput": {
            "hookEventName": EVENT,
            "permissionDecision": decision,
            "permissionDecisionReason": reason,
        }
    }))
}

/// Asks the gate, and nobody else. The error says why the call is denied.
fn decide(caller: &Foreigner, tool: &str, foreign: Foreign) -> Result<(), String> {
    let gate = &caller.gate;
    match foreign {
        Foreign::Nothing => ruled(gate, tool, None),
        Foreign::Call(call) => {
            ruled(gate, tool, None)?;
            if caller.held == Held::ByNothing && gate.goes_past_closed(&call) {
                return Err(CLOSED_BELOW.to_owned());
            }
            permitted(gate.check(call))
        }
        Foreign::Command { line, dir } => {
            let Some(texts) = &caller.commands else {
                return Err(match caller.held {
                    Held::ByNothing => UNHELD.to_owned(),
                    Held::BySandbox => "denied: you may not run commands here".to_owned(),
                });
            };
            judge(texts, &line).map_err(|refused| {
                let (command, reason) = (refused.command, refused.reason);
                format!("denied: command `{command}`: {reason}\n{}", refused.way_out)
            })?;
            ruled(gate, tool, Some(&line))?;
            permitted(
                gate.past_hooks()
                    .check(ToolCall::ListDirectory { path: dir }),
            )
        }
    }
}

/// Asks the rules of the config alone.
fn ruled(gate: &Gate, tool: &str, command: Option<&str>) -> Result<(), String> {
    let checked = gate.check_foreign(tool, command);
    checked.map_err(|denial| denial.to_string())
}

/// The permit is not used: the other program carries the call out itself.
fn permitted<P>(checked: Result<P, Denial>) -> Result<(), String> {
    checked.map(drop).map_err(|denial| match denial.rule {
        NOT_YET => format!("{denial}; start the hook with `--phase final`"),
        _ => denial.to_string(),
    })
}
