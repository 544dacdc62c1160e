//! Owns the JSON contract of Claude Code's `PreToolUse` hook: what another program asks before it calls
//! a tool of its own, and the answer. It decides nothing.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::external_tools::{ExternalToolAction, parse_external_tool};

/// The event that is answered.
const EVENT: &str = "PreToolUse";

/// What is asked. There may be more in it.
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
    /// The tool, as the program calls it.
    pub tool: String,
    /// What it is given.
    pub input: Value,
    /// The absolute directory in which the program calls it.
    pub cwd: String,
}

impl PreToolUseRequest {
    /// Reads a request. The error says why it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let request: PreToolUsePayload = serde_json::from_str(text)
            .map_err(|error| format!("the request is not what was expected: {error}"))?;
        if request.hook_event_name != EVENT {
            let event = request.hook_event_name.escape_debug();
            return Err(format!("the event is `{event}`: expected `{EVENT}`"));
        }
        if !Path::new(&request.cwd).is_absolute() {
            return Err("`cwd` is no absolute path".to_owned());
        }
        Ok(Self {
            tool: request.tool_name,
            input: request.tool_input,
            cwd: request.cwd,
        })
    }

    /// What the call would do. The error says why that is not known.
    pub fn tool_action(&self) -> Result<ExternalToolAction, String> {
        parse_external_tool(&self.tool, &self.input, Path::new(&self.cwd))
    }
}

/// The answer, as the contract has it: the error of `decision` is why the call is denied.
pub fn encode_response(decision: Result<(), String>) -> Value {
    let (decision, reason) = match decision {
        Ok(()) => ("allow", "the grants allow it".to_owned()),
        Err(why) => ("deny", why),
    };
    json!({
        "hookSpecificOutput": {
            "hookEventName": EVENT,
            "permissionDecision": decision,
            "permissionDecisionReason": reason,
        }
    })
}
