//! Owns `massgen hook pre-tool-use`: another program asks before each call of its tools, in the JSON
//! contract of Claude Code's hooks, and the gate answers: one of a config or of grants, or that of the
//! run which the program is an agent of. Whatever goes wrong is a denial.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cli::args::HookArguments;
use crate::cli::gates::external_caller;
use crate::cli::output::CliOutput;
use crate::host::Host;
use crate::path::AbsPath;
use crate::tools::pre_tool_use::{PreToolUseRequest, encode_response};
use crate::world::exec::agent_socket;

/// The longest request, in bytes.
const REQUEST_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The word of the command line.
pub(crate) const WORD: &str = "hook";
/// The exit status that denies, in the contract: standard error is the reason.
pub(crate) const DENIED: u8 = 2;

/// Answers the request on standard input, and gives the exit status. What cannot be answered is denied
/// by the status alone.
pub(crate) fn pre_tool_use(host: &Host, asked: &HookArguments, output: &mut CliOutput<'_>) -> u8 {
    // A bug must not let a call through.
    let answered = catch_unwind(AssertUnwindSafe(|| hook_answer(host, asked, output)));
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
fn hook_answer(
    host: &Host,
    asked: &HookArguments,
    output: &mut CliOutput<'_>,
) -> Result<String, String> {
    let mut text = String::new();
    let mut input = io::stdin().lock().take(REQUEST_BYTES_MAX);
    let unread = |error: io::Error| format!("the request cannot be read: {error}");
    input.read_to_string(&mut text).map_err(unread)?;
    let request = PreToolUseRequest::parse(&text)?;
    if let Some(socket) = &asked.socket {
        return agent_socket::query(&AbsPath::resolve(&host.cwd, socket), &text);
    }
    let foreign = request.tool_action()?;
    let found = external_caller(host, asked, output).map_err(|error| error.to_string())?;
    let (caller, _team) = found;
    Ok(encode_response(caller.decide(&request.tool, foreign)).to_string())
}
