//! Client side of the Agent Client Protocol: JSON-RPC in lines; and the launch options of programs
//! that speak it. External agents work with their own
//! tools; the gate answers their permission requests, and massgen reads and writes the files that
//! they request through the gate. <https://agentclientprotocol.com/protocol/overview>

use serde_json::{Value, json};

use crate::backend::external_agent::announced_calls::AnnouncedCalls;
use crate::backend::external_agent::permission::parse_permission_request;
use crate::backend::external_agent::protocol::{
    AgentEvent, AgentProtocol, AgentRequest, ExternalAgentError, FileRequestError, LaunchContext,
    LaunchOptions, ProcessLifetime, SERVER, parse_line, reported_plan, text_at,
};
use crate::spending::money::Money;
use crate::spending::{TokenUsage, token_count};

/// The supported version of the protocol.
const VERSION: u64 = 1;
/// JSON-RPC error codes of massgen's responses: unknown method; no such file; any other error.
const METHOD_NOT_FOUND: i64 = -32601;
const RESOURCE_NOT_FOUND: i64 = -32002;
const REQUEST_FAILED: i64 = -32000;
/// The error code of an agent whose user has to sign in first.
const AUTH_REQUIRED: i64 = -32000;
/// The ids of requests to the agent.
const INITIALIZE: u64 = 0;
const NEW_SESSION: u64 = 1;
const FIRST_PROMPT: u64 = 2;

/// A conversation with an agent over this protocol.
#[derive(Debug)]
pub(super) struct AcpProtocol {
    /// Returns the launch options of the vendor's own program, in addition to its command.
    launch: fn(&LaunchContext) -> LaunchOptions,
    state: AcpState,
}

#[derive(Debug, Default)]
struct AcpState {
    session: String,
    /// The parameters of `session/new`.
    session_parameters: Value,
    /// The first prompt, which waits until the session exists.
    first_prompt: Option<String>,
    prompt_id: u64,
    /// The calls that the agent has announced in this turn.
    calls: AnnouncedCalls,
    /// The cost of all turns of the session that has already been charged.
    charged: Money,
    /// The cost of all turns so far, if the agent reported it in this turn.
    reported_cost: Option<Money>,
}

impl AcpProtocol {
    /// Creates the protocol for an agent that starts with the options that `launch` returns.
    pub(super) fn new(launch: fn(&LaunchContext) -> LaunchOptions) -> Self {
        Self {
            launch,
            state: AcpState::default(),
        }
    }

    fn decode_update(&mut self, update: &Value) -> Vec<AgentEvent> {
        let text = || text_at(update, "/content/text").to_owned();
        match text_at(update, "/sessionUpdate") {
            "agent_message_chunk" => vec![AgentEvent::Text(text())],
            "agent_thought_chunk" => vec![AgentEvent::Reasoning(text())],
            "plan" => {
                let status = |entry| text_at(entry, "/status");
                let plan = reported_plan(update.get("entries"), "content", status);
                plan.map(AgentEvent::Plan).into_iter().collect()
            }
            "tool_call" | "tool_call_update" => self.state.calls.update(update),
            "usage_update" => {
                self.state.reported_cost = cost(update).or(self.state.reported_cost);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Decodes the end of a turn.
    fn decode_turn_end(&mut self, result: &Value) -> Vec<AgentEvent> {
        let usage = usage(result);
        let usage_event = (usage != TokenUsage::default()).then_some(AgentEvent::Usage(usage));
        let cost = self.state.reported_cost.take().map(|total| {
            let charged = std::mem::replace(&mut self.state.charged, total);
            AgentEvent::Cost(total.saturating_sub(charged))
        });
        let events = self.state.calls.clear().into_iter().chain(usage_event);
        events.chain(cost).chain([AgentEvent::TurnEnded]).collect()
    }

    /// Decodes the response to one of massgen's requests.
    fn decode_response(
        &mut self,
        id: u64,
        message: &Value,
    ) -> Result<Vec<AgentEvent>, ExternalAgentError> {
        if let Some(error) = message.get("error") {
            let reason = text_at(error, "/message");
            let details = error.pointer("/data/details").and_then(Value::as_str);
            let reason = format!("{reason} {}", details.unwrap_or_default());
            let message = format!("the program reported an error: {}", reason.trim());
            let is_signed_out = error.get("code").and_then(Value::as_i64) == Some(AUTH_REQUIRED);
            return if id >= FIRST_PROMPT && !is_signed_out {
                Ok(vec![AgentEvent::Failed(ExternalAgentError::from_message(
                    message,
                ))])
            } else {
                Err(ExternalAgentError::Permanent(message))
            };
        }
        let result = message.get("result").unwrap_or(&Value::Null);
        match id {
            INITIALIZE if result.get("protocolVersion") != Some(&json!(VERSION)) => {
                let reason = "the program uses another version of the Agent Client Protocol";
                Err(ExternalAgentError::Permanent(reason.to_owned()))
            }
            INITIALIZE => {
                let new_session =
                    encode_request(NEW_SESSION, "session/new", &self.state.session_parameters);
                Ok(vec![AgentEvent::Send(new_session)])
            }
            NEW_SESSION => {
                text_at(result, "/sessionId").clone_into(&mut self.state.session);
                let first_prompt = self.state.first_prompt.take().unwrap_or_default();
                Ok(self
                    .encode_turn(first_prompt)
                    .into_iter()
                    .map(AgentEvent::Send)
                    .collect())
            }
            id if id == self.state.prompt_id => Ok(self.decode_turn_end(result)),
            _ => Ok(Vec::new()),
        }
    }
}

/// Returns the token usage of a turn, as far as its end reports it.
fn usage(result: &Value) -> TokenUsage {
    let at = |pointer: &str| result.pointer(pointer).and_then(token_count);
    let count = |name: &str| at(&format!("/usage/{name}")).unwrap_or_default();
    let (cache_read, cache_write) = (count("cachedReadTokens"), count("cachedWriteTokens"));
    let (input, output, thought) = (
        count("inputTokens"),
        count("outputTokens"),
        count("thoughtTokens"),
    );
    if input == 0 && output == 0 {
        // Google's program reports it in another place.
        let quota = |name: &str| at(&format!("/_meta/quota/token_count/{name}"));
        return TokenUsage {
            input_tokens: quota("input_tokens").unwrap_or_default(),
            output_tokens: quota("output_tokens").unwrap_or_default(),
            ..TokenUsage::default()
        };
    }
    // The specification does not settle whether the parts are included in the whole; the sum, where
    // there is one, decides.
    let cache = cache_read.saturating_add(cache_write);
    let not_included = count("totalTokens").saturating_sub(input.saturating_add(output));
    let is_missing =
        |part: u64, other: u64| not_included == part || not_included == part.saturating_add(other);
    let part_if_missing = |part: u64, is_missing: bool| if is_missing { part } else { 0 };
    TokenUsage {
        input_tokens: input.saturating_add(part_if_missing(
            cache,
            cache > input || is_missing(cache, thought),
        )),
        cached_tokens: cache_read,
        cache_write_tokens: cache_write,
        output_tokens: output.saturating_add(part_if_missing(thought, is_missing(thought, cache))),
        reasoning_tokens: thought,
    }
}

/// Returns the cost of the session so far, if the agent reports it in the currency that massgen
/// uses.
fn cost(update: &Value) -> Option<Money> {
    let dollars = update
        .pointer("/cost/amount")
        .and_then(Value::as_f64)
        .filter(|_| text_at(update, "/cost/currency") == "USD");
    Money::from_dollars(&format!("{:.9}", dollars?))
}

impl AgentProtocol for AcpProtocol {
    fn launch(&self, context: &LaunchContext) -> LaunchOptions {
        (self.launch)(context)
    }

    fn encode_first_turn(&mut self, context: &LaunchContext, text: String) -> Vec<String> {
        let server = json!({
            "name": SERVER, "command": context.massgen.to_string(), "args": context.forwarder_arguments(), "env": [],
        });
        self.state = AcpState {
            session_parameters: json!({"cwd": context.dir.to_string(), "mcpServers": [server]}),
            first_prompt: Some(text),
            ..AcpState::default()
        };
        let capabilities = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {
                "fs": {"readTextFile": true, "writeTextFile": true},
                "terminal": false,
            },
            "clientInfo": {"name": SERVER, "version": env!("CARGO_PKG_VERSION")},
        });
        vec![encode_request(INITIALIZE, "initialize", &capabilities)]
    }

    fn encode_turn(&mut self, text: String) -> Vec<String> {
        // The calls of an interrupted turn no longer matter.
        self.state.calls = AnnouncedCalls::default();
        self.state.prompt_id = FIRST_PROMPT.max(self.state.prompt_id.saturating_add(1));
        let params = json!({
            "sessionId": self.state.session, "prompt": [{"type": "text", "text": text}],
        });
        vec![encode_request(
            self.state.prompt_id,
            "session/prompt",
            &params,
        )]
    }

    fn decode_line(&mut self, line: &str) -> Result<Vec<AgentEvent>, ExternalAgentError> {
        // Programs print greetings for people on the same stream.
        let Some(message) = parse_line(line) else {
            return Ok(Vec::new());
        };
        let params = message.get("params").unwrap_or(&Value::Null);
        let method = message.get("method").and_then(Value::as_str);
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        match (method, id) {
            (None, Some(id)) => match id.as_u64() {
                Some(id) => self.decode_response(id, &message),
                None => Ok(Vec::new()),
            },
            (Some("session/update"), None) => {
                let update = params.get("update").unwrap_or(&Value::Null);
                Ok(self.decode_update(update))
            }
            (Some(_) | None, None) => Ok(Vec::new()),
            (Some("session/request_permission"), Some(id)) => {
                let call = text_at(params, "/toolCall/toolCallId");
                let announcement = self.state.calls.announcement(call);
                let request =
                    parse_permission_request(params, &announcement, &self.state.session_parameters);
                let request = AgentRequest::Permission(Box::new(request));
                Ok(vec![AgentEvent::Request(id, Box::new(request))])
            }
            (Some("fs/read_text_file"), Some(id)) => {
                let number = |name: &str| params.get(name).and_then(Value::as_u64);
                let path = text_at(params, "/path").to_owned();
                let request = AgentRequest::Read(path, number("line"), number("limit"));
                Ok(vec![AgentEvent::Request(id, Box::new(request))])
            }
            (Some("fs/write_text_file"), Some(id)) => {
                let (path, text) = (text_at(params, "/path"), text_at(params, "/content"));
                let request = AgentRequest::Write(path.to_owned(), text.to_owned());
                Ok(vec![AgentEvent::Request(id, Box::new(request))])
            }
            (Some(_), Some(id)) => {
                let rejection =
                    encode_failure(&id, METHOD_NOT_FOUND, "massgen does not offer this");
                Ok(vec![AgentEvent::Send(rejection)])
            }
        }
    }

    fn encode_cancel(&self) -> Vec<String> {
        if self.state.session.is_empty() {
            return Vec::new();
        }
        let params = json!({"sessionId": self.state.session});
        let notification = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
        vec![notification.to_string()]
    }

    fn encode_permission_response(&self, id: &Value, option: Option<&str>) -> Option<String> {
        let outcome = match option {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        };
        Some(encode_success(id, &json!({ "outcome": outcome })))
    }

    fn encode_fs_response(
        &self,
        id: &Value,
        result: Result<Value, FileRequestError>,
    ) -> Option<String> {
        Some(match result {
            Ok(value) => encode_success(id, &value),
            Err(FileRequestError::Missing(reason)) => {
                // Some programs read the message instead of the code.
                encode_failure(
                    id,
                    RESOURCE_NOT_FOUND,
                    &format!("Resource not found: {reason}"),
                )
            }
            Err(error) => encode_failure(id, REQUEST_FAILED, error.reason()),
        })
    }

    fn process_lifetime(&self) -> ProcessLifetime {
        ProcessLifetime::Session
    }
}

fn encode_request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn encode_success(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn encode_failure(id: &Value, code: i64, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

/// Returns the launch options of Google's program: it authenticates with an API key, neither
/// updates itself nor reports its usage, and may use all open directories.
pub(super) fn gemini_launch(context: &LaunchContext) -> LaunchOptions {
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
        "general": {"disableAutoUpdate": true, "enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
    });
    let model = context
        .model
        .iter()
        .flat_map(|model| ["--model".to_owned(), model.clone()]);
    // Its own tools refuse everything outside of its workspace. A comma in a path would separate
    // two directories.
    let directory_paths = context
        .directories
        .iter()
        .map(ToString::to_string)
        .filter(|path| !path.contains(','));
    let directories = directory_paths.flat_map(|path| ["--include-directories".to_owned(), path]);
    LaunchOptions {
        arguments: model.chain(directories).collect(),
        files: vec![(".gemini/settings.json", settings.to_string())],
    }
}

/// Returns the launch options of a program that massgen knows nothing about.
pub(super) fn plain_launch(_context: &LaunchContext) -> LaunchOptions {
    LaunchOptions::default()
}
