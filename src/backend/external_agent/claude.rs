//! Claude Code's own protocol: one JSON object a line, in both directions, for the lifetime of the
//! process. A hook asks the gate about its native tool calls, over the agent socket.
//! <https://code.claude.com/docs/en/headless>

use serde_json::{Value, json};

use crate::backend::external_agent::protocol::{
    AgentEvent, AgentProtocol, ExternalAgentError, LaunchContext, LaunchOptions, ProcessLifetime,
    SERVER, native_tool_call, parse_line, reported_plan, text_at,
};
use crate::spending::money::Money;
use crate::spending::{TokenUsage, token_count};

/// Maximum time that the hook may take, in seconds: a person may be asked.
const HOOK_SECONDS_MAX: u64 = 600;
/// The tool with which it writes its plan.
const PLAN_TOOL: &str = "TodoWrite";
/// The id of the interrupt, the only request that is sent in addition to turns.
const INTERRUPT_ID: &str = "interrupt";

/// A conversation with Claude Code.
#[derive(Debug, Default)]
pub(super) struct ClaudeCodeProtocol {
    /// The cost of all turns of the process, as it reports it.
    reported_cost: Money,
}

impl AgentProtocol for ClaudeCodeProtocol {
    fn launch(&self, context: &LaunchContext) -> LaunchOptions {
        // Without `alwaysLoad`, a model would have to search for the tools before it sees them.
        let server = json!({
            "type": "stdio", "command": context.massgen.to_string(), "args": context.forwarder_arguments(),
            "alwaysLoad": true,
        });
        let servers = json!({"mcpServers": {SERVER: server}});
        let quote = |text: String| format!("'{}'", text.replace('\'', r"'\''"));
        let (massgen, socket) = (context.massgen.to_string(), context.socket.to_string());
        let hook_command = format!(
            "{} hook pre-tool-use --socket {}",
            quote(massgen),
            quote(socket)
        );
        let hook = json!({"type": "command", "command": hook_command, "timeout": HOOK_SECONDS_MAX});
        let settings = json!({
            "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]},
            "permissions": {"defaultMode": "default", "allow": [format!("mcp__{SERVER}")]},
            "includeCoAuthoredBy": false,
        });
        let mut arguments: Vec<String> = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--strict-mcp-config",
            "--setting-sources",
            "user",
            "--permission-mode",
            "default",
        ]
        .map(str::to_owned)
        .into();
        arguments.extend(["--mcp-config".to_owned(), servers.to_string()]);
        arguments.extend(["--settings".to_owned(), settings.to_string()]);
        if let Some(model) = &context.model {
            arguments.extend(["--model".to_owned(), model.clone()]);
        }
        LaunchOptions {
            arguments,
            files: Vec::new(),
        }
    }

    fn encode_first_turn(&mut self, _context: &LaunchContext, text: String) -> Vec<String> {
        self.reported_cost = Money::ZERO;
        self.encode_turn(text)
    }

    fn encode_turn(&mut self, text: String) -> Vec<String> {
        let message = json!({"role": "user", "content": text});
        vec![json!({"type": "user", "message": message}).to_string()]
    }

    fn decode_line(&mut self, line: &str) -> Result<Vec<AgentEvent>, ExternalAgentError> {
        let Some(message) = parse_line(line) else {
            return Ok(Vec::new());
        };
        match text_at(&message, "/type") {
            "assistant" => {
                // Messages of its subagents are not the agent's own.
                let is_from_subagent = message
                    .get("parent_tool_use_id")
                    .is_some_and(Value::is_string);
                let content_blocks = message
                    .pointer("/message/content")
                    .and_then(Value::as_array);
                let content = content_blocks
                    .into_iter()
                    .flatten()
                    .filter(|_| !is_from_subagent);
                Ok(content.flat_map(decode_block).collect())
            }
            "result" => Ok(self.decode_turn_end(&message)),
            _ => Ok(Vec::new()),
        }
    }

    fn encode_cancel(&self) -> Vec<String> {
        let interrupt = json!({"subtype": "interrupt"});
        let request =
            json!({"type": "control_request", "request_id": INTERRUPT_ID, "request": interrupt});
        vec![request.to_string()]
    }

    fn process_lifetime(&self) -> ProcessLifetime {
        ProcessLifetime::Session
    }
}

impl ClaudeCodeProtocol {
    /// Decodes the end of a turn. The reported cost is that of the whole process.
    fn decode_turn_end(&mut self, message: &Value) -> Vec<AgentEvent> {
        let usage = usage(message.get("usage").unwrap_or(&Value::Null));
        let process_cost = message
            .get("total_cost_usd")
            .and_then(Value::as_f64)
            .and_then(|dollars| Money::from_dollars(&format!("{dollars:.9}")));
        let cost = process_cost
            .map(|process_cost| AgentEvent::Cost(process_cost.saturating_sub(self.reported_cost)));
        self.reported_cost = process_cost.unwrap_or(self.reported_cost);
        let is_counted = usage != TokenUsage::default();
        let mut events: Vec<AgentEvent> = is_counted
            .then_some(AgentEvent::Usage(usage))
            .into_iter()
            .collect();
        events.extend(cost);
        events.push(match turn_error(message) {
            Some(error) => AgentEvent::Failed(error),
            None => AgentEvent::TurnEnded,
        });
        events
    }
}

/// Returns why a turn failed, if it did.
fn turn_error(message: &Value) -> Option<ExternalAgentError> {
    if message.get("is_error") != Some(&Value::Bool(true)) {
        return None;
    }
    let text = match text_at(message, "/result") {
        "" => text_at(message, "/subtype"),
        text => text,
    };
    let reason = format!("Claude Code: {text}");
    let status = message.get("api_error_status").and_then(Value::as_u64);
    let is_permanent =
        status.is_some_and(|status| matches!(status, 400..=499) && !matches!(status, 408 | 429));
    if is_permanent || text.contains("/login") || text.contains("API key") {
        Some(ExternalAgentError::Permanent(reason))
    } else {
        Some(ExternalAgentError::Transient(reason))
    }
}

fn decode_block(block: &Value) -> Vec<AgentEvent> {
    match text_at(block, "/type") {
        "text" => vec![AgentEvent::Text(text_at(block, "/text").to_owned())],
        "thinking" => vec![AgentEvent::Reasoning(
            text_at(block, "/thinking").to_owned(),
        )],
        "tool_use" => {
            let (tool, input) = (
                text_at(block, "/name"),
                block.get("input").unwrap_or(&Value::Null),
            );
            let call = AgentEvent::NativeToolCall(native_tool_call(tool, input));
            let status = |entry| text_at(entry, "/status");
            let plan = (tool == PLAN_TOOL)
                .then(|| reported_plan(input.get("todos"), "content", status))
                .flatten();
            [call]
                .into_iter()
                .chain(plan.map(AgentEvent::Plan))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn usage(usage_counts: &Value) -> TokenUsage {
    let count = |name: &str| {
        usage_counts
            .get(name)
            .and_then(token_count)
            .unwrap_or_default()
    };
    let (cache_read, cache_write) = (
        count("cache_read_input_tokens"),
        count("cache_creation_input_tokens"),
    );
    let uncached = count("input_tokens");
    TokenUsage {
        input_tokens: uncached
            .saturating_add(cache_read)
            .saturating_add(cache_write),
        cached_tokens: cache_read,
        cache_write_tokens: cache_write,
        output_tokens: count("output_tokens"),
        reasoning_tokens: 0,
    }
}
