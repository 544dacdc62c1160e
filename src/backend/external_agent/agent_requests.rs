//! Answers requests that an external agent makes during its turn: for permission to use one of its
//! own tools, and for files that massgen reads and writes for it. The gate decides about each.

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::backend::NativeToolCall;
use crate::backend::external_agent::agent_session::external_caller;
use crate::backend::external_agent::protocol::{
    AgentProtocol, AgentRequest, FileRequestError, ToolPermissionRequest, absolute_path,
    native_tool_call,
};
use crate::prompts::external_agents::RUN_NOT_WAITING;
use crate::tools::call::{LineRange, ReadForm, ToolCall, UserPath};
use crate::world::access::external_call::ExternalCaller;
use crate::world::access::verdict::PermitError;
use crate::world::exec;
use crate::world::exec::agent_launcher::AgentLauncher;
use crate::world::exec::tool_result::ActionOutcome;

/// How a request was answered.
pub(super) struct AgentRequestAnswer {
    /// The line that answers it, if there is one.
    pub(super) line: Option<String>,
    /// The tool call to show to the user.
    pub(super) native_call: Option<NativeToolCall>,
    /// Why the gate denied it, if it did.
    pub(super) denied: Option<String>,
}

/// Decides about a request, and executes it if massgen is to do that.
pub(super) async fn handle_agent_request(
    protocol: &dyn AgentProtocol,
    launcher: AgentLauncher,
    id: &Value,
    request: AgentRequest,
) -> AgentRequestAnswer {
    match request {
        AgentRequest::Permission(request) => {
            let (request, decision) = decide_permission(external_caller(&launcher), *request).await;
            let option = if decision.is_ok() {
                &request.allow_option
            } else {
                &request.reject_option
            };
            let line = protocol.encode_permission_response(id, option.as_deref());
            let denial = decision.err();
            // The agent itself reports the calls that it may make.
            let native_call = denial.clone().map(|reason| NativeToolCall {
                denied: Some(reason),
                ..native_tool_call(&request.tool, &Value::from(request.detail))
            });
            AgentRequestAnswer {
                line,
                native_call,
                denied: denial,
            }
        }
        AgentRequest::Read(path, line, limit) => {
            let lines = requested_lines(line, limit);
            let read_call = |path| ToolCall::ReadTextFile {
                path,
                lines,
                form: ReadForm::Plain,
            };
            let (result, native_call) =
                execute_through_gate(launcher, "read", &path, read_call).await;
            let result = result.map(|text| json!({ "content": text }));
            answer_file_request(protocol, id, result, native_call)
        }
        AgentRequest::Write(path, content) => {
            let write = |path| ToolCall::WriteFile { path, content };
            let (result, native_call) = execute_through_gate(launcher, "write", &path, write).await;
            let result = result.map(|_| json!({}));
            answer_file_request(protocol, id, result, native_call)
        }
    }
}

fn answer_file_request(
    protocol: &dyn AgentProtocol,
    id: &Value,
    result: Result<Value, FileRequestError>,
    native_call: NativeToolCall,
) -> AgentRequestAnswer {
    let denial = match &result {
        Err(FileRequestError::Denied(reason)) => Some(reason.clone()),
        Ok(_) | Err(FileRequestError::Missing(_) | FileRequestError::Failed(_)) => None,
    };
    AgentRequestAnswer {
        line: protocol.encode_fs_response(id, result),
        native_call: Some(native_call),
        denied: denial,
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
            let reason = FileRequestError::Failed(RUN_NOT_WAITING.to_owned());
            protocol.encode_fs_response(id, Err(reason))
        }
    }
}

/// Performs the file operation that the agent requests, if the gate permits it.
async fn execute_through_gate(
    launcher: AgentLauncher,
    tool: &str,
    path: &str,
    build_call: impl FnOnce(UserPath) -> ToolCall,
) -> (Result<String, FileRequestError>, NativeToolCall) {
    let path = absolute_path(&launcher.dir(), path);
    let mut native_call = native_tool_call(tool, &Value::from(path.as_str()));
    let call = UserPath::parse(path).map(build_call);
    let result = match call {
        Ok(call) => execute_call(launcher, call).await,
        Err(reason) => Err(FileRequestError::Denied(reason.to_string())),
    };
    if let Err(FileRequestError::Denied(reason)) = &result {
        native_call.denied = Some(reason.clone());
    }
    (result, native_call)
}

/// Returns the gate's decision about a permission request.
async fn decide_permission(
    caller: ExternalCaller,
    request: ToolPermissionRequest,
) -> (ToolPermissionRequest, Result<(), String>) {
    let (action, directories) = match &request.action {
        Ok(requested_action) => (
            requested_action.action.clone(),
            requested_action.directories.clone(),
        ),
        Err(reason) => {
            let reason = format!("denied: {reason}");
            return (request, Err(reason));
        }
    };
    let tool = request.tool.clone();
    let decide = move || {
        for directory in directories {
            caller.check_directory(directory)?;
        }
        caller.decide(&tool, action)
    };
    let decision_result = spawn_blocking(decide).await;
    let decision = decision_result.unwrap_or_else(|_| Err("denied: massgen has a bug".to_owned()));
    (request, decision)
}

async fn execute_call(launcher: AgentLauncher, call: ToolCall) -> Result<String, FileRequestError> {
    let execute = move || match launcher.gate.check(call) {
        Err(PermitError::Denied(denial)) => Err(FileRequestError::Denied(denial.to_string())),
        Err(error @ PermitError::Exhausted(_)) => Err(FileRequestError::Failed(error.to_string())),
        Ok(permitted) => {
            let observation = exec::run(permitted);
            let is_missing = observation.is_missing_file();
            let content = observation.content;
            match observation.outcome {
                ActionOutcome::Done => Ok(content),
                ActionOutcome::Denied => Err(FileRequestError::Denied(content)),
                ActionOutcome::Failed if is_missing => Err(FileRequestError::Missing(content)),
                ActionOutcome::Failed => Err(FileRequestError::Failed(content)),
            }
        }
    };
    let result = spawn_blocking(execute).await;
    result.unwrap_or_else(|_| Err(FileRequestError::Failed("massgen has a bug".to_owned())))
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
