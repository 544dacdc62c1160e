//! Codex's own protocol: one process for each turn, which reads its prompt until end of file and
//! reports what it does in lines of JSON; the next turn resumes the same thread. Its own sandbox is
//! off: the agent's sandbox contains it. <https://developers.openai.com/codex/noninteractive>

use serde_json::{Value, json};

use crate::backend::external_agent::protocol::{
    AgentEvent, AgentProtocol, ExternalAgentError, LaunchContext, LaunchOptions, ProcessLifetime,
    SERVER, native_tool_call, parse_line, reported_plan, text_at,
};
use crate::spending::{TokenUsage, token_count};
use crate::tools::task_plan::PlanEntryStatus;

/// Maximum time that a call of one of massgen's tools may take, in seconds: longer than any call of
/// a server.
const TOOL_SECONDS_MAX: u64 = 3_600;

/// A conversation with Codex.
#[derive(Debug, Default)]
pub(super) struct CodexProtocol {
    /// The id of the thread that the next turn resumes.
    thread: Option<String>,
    /// The usage of all turns of the thread.
    reported_usage: TokenUsage,
}

impl AgentProtocol for CodexProtocol {
    fn launch(&self, context: &LaunchContext) -> LaunchOptions {
        let quote = |text: &str| Value::from(text).to_string();
        let forwarder_arguments = context.forwarder_arguments();
        let words: Vec<String> = forwarder_arguments.iter().map(|word| quote(word)).collect();
        let server = format!("mcp_servers.{SERVER}");
        let reasoning_keys = [
            ("model_reasoning_effort", &context.reasoning.effort),
            ("model_reasoning_summary", &context.reasoning.summary),
        ];
        let reasoning = reasoning_keys
            .into_iter()
            .filter_map(|(key, value)| Some(format!("{key}={}", quote(value.as_deref()?))));
        let settings = [
            format!("{server}.command={}", quote(&context.massgen.to_string())),
            format!("{server}.args=[{}]", words.join(",")),
            format!("{server}.tool_timeout_sec={TOOL_SECONDS_MAX}"),
            "check_for_update_on_startup=false".to_owned(),
        ];
        let mut arguments: Vec<String> = [
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
        ]
        .map(str::to_owned)
        .into();
        for setting in settings.into_iter().chain(reasoning) {
            arguments.extend(["-c".to_owned(), setting]);
        }
        if let Some(model) = &context.model {
            arguments.extend(["-m".to_owned(), model.clone()]);
        }
        if let Some(thread) = &self.thread {
            arguments.extend(["resume".to_owned(), thread.clone()]);
        }
        arguments.push("-".to_owned());
        LaunchOptions {
            arguments,
            files: Vec::new(),
        }
    }

    fn encode_first_turn(&mut self, _context: &LaunchContext, text: String) -> Vec<String> {
        self.thread = None;
        self.reported_usage = TokenUsage::default();
        vec![text]
    }

    fn encode_turn(&mut self, text: String) -> Vec<String> {
        vec![text]
    }

    fn decode_line(&mut self, line: &str) -> Result<Vec<AgentEvent>, ExternalAgentError> {
        let Some(message) = parse_line(line) else {
            return Ok(Vec::new());
        };
        match text_at(&message, "/type") {
            "thread.started" => {
                self.thread = Some(text_at(&message, "/thread_id").to_owned());
                Ok(Vec::new())
            }
            "item.started" | "item.updated" | "item.completed"
                if text_at(&message, "/item/type") == "todo_list" =>
            {
                // It reports which steps are done, not which one it works on.
                let status = |entry: &Value| {
                    if entry.get("completed") == Some(&Value::Bool(true)) {
                        PlanEntryStatus::Completed.word()
                    } else {
                        PlanEntryStatus::Pending.word()
                    }
                };
                let plan = reported_plan(message.pointer("/item/items"), "text", status);
                Ok(plan.map(AgentEvent::Plan).into_iter().collect())
            }
            "item.started" | "item.completed" => {
                let item = message.get("item").unwrap_or(&Value::Null);
                let is_completed = text_at(&message, "/type") == "item.completed";
                Ok(decode_item(item, is_completed).into_iter().collect())
            }
            "turn.completed" => {
                let total = usage(message.get("usage").unwrap_or(&Value::Null));
                let turn = total.added_since(std::mem::replace(&mut self.reported_usage, total));
                Ok(vec![AgentEvent::Usage(turn), AgentEvent::TurnEnded])
            }
            "turn.failed" => {
                let reason = format!("Codex: {}", text_at(&message, "/error/message"));
                Ok(vec![AgentEvent::Failed(ExternalAgentError::from_message(
                    reason,
                ))])
            }
            _ => Ok(Vec::new()),
        }
    }

    fn process_lifetime(&self) -> ProcessLifetime {
        ProcessLifetime::SingleTurn
    }
}

/// Decodes an item: texts when they are complete, actions when they begin.
fn decode_item(item: &Value, is_completed: bool) -> Option<AgentEvent> {
    let text = || text_at(item, "/text").to_owned();
    match (text_at(item, "/type"), is_completed) {
        ("agent_message", true) => Some(AgentEvent::Text(text())),
        ("reasoning", true) => Some(AgentEvent::Reasoning(text())),
        ("command_execution", false) => Some(AgentEvent::NativeToolCall(native_tool_call(
            "command", item,
        ))),
        ("file_change", true) => {
            let changes = item.pointer("/changes").and_then(Value::as_array);
            let paths: Vec<&str> = changes
                .into_iter()
                .flatten()
                .map(|change| text_at(change, "/path"))
                .collect();
            let input = json!({"path": paths.join(", ")});
            Some(AgentEvent::NativeToolCall(native_tool_call(
                "file_change",
                &input,
            )))
        }
        ("mcp_tool_call", false) => Some(AgentEvent::NativeToolCall(native_tool_call(
            text_at(item, "/tool"),
            &Value::Null,
        ))),
        ("web_search", true) => Some(AgentEvent::NativeToolCall(native_tool_call(
            "web_search",
            item,
        ))),
        _ => None,
    }
}

/// Returns the usage that a turn reports, which is the sum of its thread.
fn usage(counts: &Value) -> TokenUsage {
    let count = |name: &str| counts.get(name).and_then(token_count).unwrap_or_default();
    TokenUsage {
        input_tokens: count("input_tokens"),
        cached_tokens: count("cached_input_tokens"),
        cache_write_tokens: 0,
        output_tokens: count("output_tokens"),
        reasoning_tokens: count("reasoning_output_tokens"),
    }
}
