//! Answers requests that an external agent makes during its turn: for permission to use one of its
//! own tools, and for files that massgen reads and writes for it. The gate decides about each.

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::backend::NativeToolCall;
use crate::backend::external_agent::agent_session::external_caller;
use crate::backend::external_agent::protocol::{
    AgentProtocol, AgentRequest, ToolPermissionRequest, absolute_path, native_tool_call,
};
use crate::prompts::external_agents::NOBODY_WAITS;
use crate::tools::call::{LineRange, ToolCall, UserPath};
use crate::world::access::external_call::ExternalCaller;
use crate::world::exec::agent_launcher::AgentLauncher;
use crate::world::exec::{self, ActionOutcome};

/// Returns the line that answers a request, if there is one, and the tool call to show to the user.
pub(super) async fn handle_agent_request(
    protocol: &dyn AgentProtocol,
    launcher: AgentLauncher,
    id: &Value,
    request: AgentRequest,
) -> (Option<String>, Option<NativeToolCall>) {
    match request {
        AgentRequest::Permission(asked) => {
            let (asked, decision) = decide_permission(external_caller(&launcher), asked).await;
            let option = if decision.is_ok() {
                &asked.yes
            } else {
                &asked.no
            };
            let answer = protocol.encode_permission_response(id, option.as_deref());
            // The agent itself reports the calls that it may make.
            let told = decision.err().map(|why| NativeToolCall {
                denied: Some(why),
                ..native_tool_call(&asked.tool, &Value::Null)
            });
            (answer, told)
        }
        AgentRequest::Read(path, line, limit) => {
            let lines = requested_lines(line, limit);
            let read = |path| ToolCall::ReadTextFile { path, lines };
            let (given, told) = execute_through_gate(launcher, "read", &path, read).await;
            let given = given.map(|text| json!({ "content": text }));
            (protocol.encode_fs_response(id, given), Some(told))
        }
        AgentRequest::Write(path, content) => {
            let write = |path| ToolCall::WriteFile { path, content };
            let (given, told) = execute_through_gate(launcher, "write", &path, write).await;
            let given = given.map(|_| json!({}));
            (protocol.encode_fs_response(id, given), Some(told))
        }
    }
}

/// Returns the line that refuses a request because the turn ends, if there is one.
pub(super) fn encode_rejection(
    protocol: &dyn AgentProtocol,
    id: &Value,
    request: &AgentRequest,
) -> Option<String> {
    match request {
        AgentRequest::Permission(_) => protocol.encode_permission_response(id, None),
        AgentRequest::Read(..) | AgentRequest::Write(..) => {
            protocol.encode_fs_response(id, Err(NOBODY_WAITS.to_owned()))
        }
    }
}

/// Performs the file operation that the agent requests, if the gate permits it.
async fn execute_through_gate(
    launcher: AgentLauncher,
    tool: &str,
    path: &str,
    make: impl FnOnce(UserPath) -> ToolCall,
) -> (Result<String, String>, NativeToolCall) {
    let path = absolute_path(&launcher.dir(), path);
    let mut told = native_tool_call(tool, &Value::from(path.as_str()));
    let call = UserPath::parse(path).map(make);
    let done = match call.map_err(|why| why.to_string()) {
        Ok(call) => execute_call(launcher, call).await,
        Err(why) => Err(why),
    };
    told.denied = done.clone().err();
    (done, told)
}

/// Returns the gate's decision about a permission request.
async fn decide_permission(
    caller: ExternalCaller,
    asked: ToolPermissionRequest,
) -> (ToolPermissionRequest, Result<(), String>) {
    let foreign = match &asked.action {
        Ok(foreign) => foreign.clone(),
        Err(why) => {
            let why = format!("denied: {why}");
            return (asked, Err(why));
        }
    };
    let tool = asked.tool.clone();
    let decided = spawn_blocking(move || caller.decide(&tool, foreign)).await;
    let decision = decided.unwrap_or_else(|_| Err("denied: massgen has a bug".to_owned()));
    (asked, decision)
}

async fn execute_call(launcher: AgentLauncher, call: ToolCall) -> Result<String, String> {
    let carry_out = move || match launcher.gate.check(call) {
        Err(denial) => Err(denial.to_string()),
        Ok(permitted) => {
            let observed = exec::run(permitted);
            match observed.outcome {
                ActionOutcome::Done => Ok(observed.content),
                ActionOutcome::Failed | ActionOutcome::Denied => Err(observed.content),
            }
        }
    };
    let done = spawn_blocking(carry_out).await;
    done.unwrap_or_else(|_| Err("massgen has a bug".to_owned()))
}

fn requested_lines(first: Option<u64>, count: Option<u64>) -> LineRange {
    match (first, count) {
        (None, None) => LineRange::All,
        (first, count) => {
            let first = first.unwrap_or(1).max(1);
            let last = count.map(|count| first.saturating_add(count).saturating_sub(1));
            LineRange::Range { first, last }
        }
    }
}
