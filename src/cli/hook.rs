//! Implements `massgen hook pre-tool-use`: another program asks before each call of its tools, in
//! the JSON contract of Claude Code's hooks, and a gate answers: the gate of a config or of grants,
//! or that of the run of which the program is an agent. Every error is a denial.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cli::args::gate_calls::HookArguments;
use crate::cli::gates::external_caller;
use crate::cli::output::CliOutput;
use crate::host::Host;
use crate::path::AbsPath;
use crate::tools::pre_tool_use::{PreToolUseRequest, encode_response};
use crate::world::exec::agent_socket;

/// Maximum size of a request, in bytes.
const REQUEST_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Name of the subcommand.
pub(crate) const COMMAND_NAME: &str = "hook";
/// Exit status that denies in this contract; standard error is the reason.
pub(crate) const DENIAL_STATUS: u8 = 2;

/// Answers the request on standard input and returns the exit status. A request that cannot be
/// answered is denied by the exit status alone.
pub(crate) fn pre_tool_use(
    host: &Host,
    arguments: &HookArguments,
    output: &mut CliOutput<'_>,
) -> u8 {
    // A bug must not allow a call.
    let result = catch_unwind(AssertUnwindSafe(|| hook_answer(host, arguments, output)));
    let reason = match result {
        Ok(Ok(answer)) => match output.result(&format!("{answer}\n")) {
            Ok(()) => return 0,
            Err(error) => error.to_string(),
        },
        Ok(Err(reason)) => reason,
        Err(_) => "bug in massgen".to_owned(),
    };
    output.note(&format!("denied: {reason}"));
    DENIAL_STATUS
}

/// Returns the answer in the contract's format, or the reason why there is none.
fn hook_answer(
    host: &Host,
    arguments: &HookArguments,
    output: &mut CliOutput<'_>,
) -> Result<String, String> {
    let mut text = String::new();
    let mut input = io::stdin().lock().take(REQUEST_BYTES_MAX);
    let read_error = |error: io::Error| format!("the request cannot be read: {error}");
    input.read_to_string(&mut text).map_err(read_error)?;
    let request = PreToolUseRequest::parse(&text)?;
    if let Some(socket) = &arguments.socket {
        return agent_socket::query(&AbsPath::resolve(&host.cwd, socket), &text);
    }
    let action = request.tool_action()?;
    let (caller, _team) =
        external_caller(host, arguments, output).map_err(|error| error.to_string())?;
    Ok(encode_response(caller.decide(&request.tool, action)).to_string())
}
