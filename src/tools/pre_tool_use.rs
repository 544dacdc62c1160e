//! The JSON contract of Claude Code's `PreToolUse` hook: the request that another program sends
//! before it calls one of its own tools, and the response.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::external_tools::{ExternalToolAction, parse_external_tool};

/// The event of the request and the response.
const EVENT: &str = "PreToolUse";

/// The request. Other fields are ignored.
#[derive(Debug, Deserialize)]
struct PreToolUsePayload {
    hook_event_name: String,
    cwd: String,
    tool_name: String,
    tool_input: Value,
}

/// A call that another program asks about.
#[derive(Clone, Debug, PartialEq)]
pub struct PreToolUseRequest {
    /// The tool's name in that program.
    pub tool: String,
    /// Its input.
    pub input: Value,
    /// The absolute directory in which the program calls it.
    pub cwd: String,
}

impl PreToolUseRequest {
    /// Parses a request. The error gives the reason why it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let request: PreToolUsePayload = serde_json::from_str(text)
            .map_err(|error| format!("the request is not what was expected: {error}"))?;
        if request.hook_event_name != EVENT {
            let event = request.hook_event_name.escape_debug();
            return Err(format!("the event is `{event}`: expected `{EVENT}`"));
        }
        if !Path::new(&request.cwd).is_absolute() {
            return Err("`cwd` is not an absolute path".to_owned());
        }
        Ok(Self {
            tool: request.tool_name,
            input: request.tool_input,
            cwd: request.cwd,
        })
    }

    /// Returns what the call would do. If that is unknown, the error gives the reason.
    pub fn tool_action(&self) -> Result<ExternalToolAction, String> {
        parse_external_tool(&self.tool, &self.input, Path::new(&self.cwd))
    }
}

/// Encodes the response; an error in `decision` is the reason for a denial.
pub fn encode_response(decision: Result<(), String>) -> Value {
    let (decision, reason) = match decision {
        Ok(()) => ("allow", "the grants allow it".to_owned()),
        Err(reason) => ("deny", reason),
    };
    json!({
        "hookSpecificOutput": {
            "hookEventName": EVENT,
            "permissionDecision": decision,
            "permissionDecisionReason": reason,
        }
    })
}
