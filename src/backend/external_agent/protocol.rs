//! Common parts of the protocols of external agents: the requests to an agent and its messages. A
//! protocol is a state machine over lines; it reads and writes nothing itself.

use std::path::Path;

use serde_json::Value;

use crate::backend::NativeToolCall;
use crate::config::external_agents::{AgentReasoning, SIGN_IN_HINT};
use crate::path::AbsPath;
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::text::{single_line, truncate};
use crate::tools::call::UserPath;
use crate::tools::external_tools::ExternalToolAction;
use crate::tools::task_plan::TaskPlan;

/// The name of the MCP server through which external agents reach massgen's tools.
pub(super) const SERVER: &str = "massgen";
/// Maximum length of a native tool's input in events, in characters.
const SHOWN_CHARS_MAX: usize = 500;
/// Maximum length of a tool's name in events, in characters.
const NAME_CHARS_MAX: usize = 100;

/// Parts of the messages, in lower case, of programs that are not signed in.
const SIGNED_OUT_PHRASES: &[&str] = &[
    "/login",
    "401 unauthorized",
    "403 forbidden",
    "api key not valid",
    "authentication required",
    "invalid api key",
    "invalid_api_key",
    "not logged in",
    "please log in",
    "please sign in",
    "please set an auth method",
];

/// The environment in which an external agent is started.
#[derive(Clone, Debug)]
pub(super) struct LaunchContext {
    /// Its working directory.
    pub(super) dir: AbsPath,
    /// massgen's executable, at the path where the agent finds it.
    pub(super) massgen: AbsPath,
    /// The agent socket.
    pub(super) socket: AbsPath,
    /// The directories that it reaches in addition to its working directory.
    pub(super) directories: Vec<AbsPath>,
    /// The model that it is to use, if any.
    pub(super) model: Option<String>,
    /// Reasoning effort of that model.
    pub(super) reasoning: AgentReasoning,
}

impl LaunchContext {
    /// Returns the arguments with which massgen forwards an agent's calls to the run.
    pub(super) fn forwarder_arguments(&self) -> Vec<String> {
        let words = ["mcp", "workflow", "--socket"];
        let words = words.iter().map(|word| (*word).to_owned());
        words.chain([self.socket.to_string()]).collect()
    }
}

/// Options with which an external agent's process is started.
#[derive(Debug, Default)]
pub(super) struct LaunchOptions {
    /// The arguments after its command.
    pub(super) arguments: Vec<String>,
    /// The files in its home directory.
    pub(super) files: Vec<(&'static str, String)>,
}

/// One message of an external agent.
#[derive(Debug, PartialEq)]
pub(super) enum AgentEvent {
    /// More of its text.
    Text(String),
    /// More of its reasoning.
    Reasoning(String),
    /// A call of one of its own tools.
    NativeToolCall(NativeToolCall),
    /// Its plan, which replaces the previous one.
    Plan(TaskPlan),
    /// The usage of the turn so far.
    Usage(TokenUsage),
    /// The cost of the turn, as the agent computes it.
    Cost(Money),
    /// A line to write to the agent.
    Send(String),
    /// The turn ended, and failed.
    Failed(ExternalAgentError),
    /// One of its own tools has completed a call.
    ToolCallCompleted,
    /// A request with this id.
    Request(Value, Box<AgentRequest>),
    /// Its turn has ended.
    TurnEnded,
}

/// A request of an external agent.
#[derive(Debug, PartialEq)]
pub(super) enum AgentRequest {
    /// For permission to use one of its own tools.
    Permission(Box<ToolPermissionRequest>),
    /// For the text of a file: its path, the first line from 1, and how many lines.
    Read(String, Option<u64>, Option<u64>),
    /// To write this text to a file.
    Write(String, String),
}

/// An external agent's request for permission to use one of its own tools.
#[derive(Debug, PartialEq)]
pub(super) struct ToolPermissionRequest {
    /// The tool, for the user and for rules.
    pub(super) tool: String,
    /// The agent's description of the call for the user; may be empty.
    pub(super) detail: String,
    /// The requested action; the error says why it is unknown.
    pub(super) action: Result<RequestedToolAction, String>,
    /// The option that allows it once, if there is one.
    pub(super) allow_option: Option<String>,
    /// The option that rejects it once, if there is one.
    pub(super) reject_option: Option<String>,
}

/// What a call for which an agent requests permission would do.
#[derive(Debug, PartialEq)]
pub(super) struct RequestedToolAction {
    pub(super) action: ExternalToolAction,
    /// Directories above its path that the agent names too: they may be listed.
    pub(super) directories: Vec<UserPath>,
}

/// Why a file request of an agent fails.
#[derive(Debug, PartialEq)]
pub(super) enum FileRequestError {
    /// There is no such file.
    Missing(String),
    /// The gate denies it.
    Denied(String),
    /// Anything else.
    Failed(String),
}

impl FileRequestError {
    /// Returns the reason, for the agent and the user.
    pub(super) fn reason(&self) -> &str {
        match self {
            FileRequestError::Missing(reason)
            | FileRequestError::Denied(reason)
            | FileRequestError::Failed(reason) => reason,
        }
    }
}

/// Error because of which an external agent cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExternalAgentError {
    /// A retry may help.
    Transient(String),
    /// A retry will fail in the same way.
    Permanent(String),
    /// The process exited before it wrote anything: it may lack a setting.
    StartFailed(String),
}

impl ExternalAgentError {
    /// Classifies an error of a turn by the program's message: a retry does not sign in.
    pub(super) fn from_message(message: String) -> Self {
        if reports_signed_out(&message) {
            ExternalAgentError::Permanent(message)
        } else {
            ExternalAgentError::Transient(message)
        }
    }
}

fn reports_signed_out(message: &str) -> bool {
    let lower = message.to_lowercase();
    SIGNED_OUT_PHRASES
        .iter()
        .any(|phrase| lower.contains(phrase))
}

/// Returns the last message of a program, with what to do if it is not signed in.
pub(super) fn with_sign_in_hint(message: String) -> String {
    if reports_signed_out(&message) {
        format!("{message} (hint: {SIGN_IN_HINT})")
    } else {
        message
    }
}

/// Protocol of an external agent.
pub(super) trait AgentProtocol: Send + Sync + std::fmt::Debug {
    /// Returns how the process is started.
    fn launch(&self, context: &LaunchContext) -> LaunchOptions;
    /// Returns the lines that begin the first turn of a new process, with `text` as its prompt.
    fn encode_first_turn(&mut self, context: &LaunchContext, text: String) -> Vec<String>;
    /// Returns the lines that begin another turn.
    fn encode_turn(&mut self, text: String) -> Vec<String>;
    /// Decodes a line.
    fn decode_line(&mut self, line: &str) -> Result<Vec<AgentEvent>, ExternalAgentError>;
    /// Returns the lines that cancel the turn; none if the protocol does not support that.
    fn encode_cancel(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the line that answers a permission request with one of its options, or cancels it;
    /// none if the protocol has no such requests.
    fn encode_permission_response(&self, _id: &Value, _option: Option<&str>) -> Option<String> {
        None
    }
    /// Returns the line that answers a file request; none if the protocol has no such requests.
    fn encode_fs_response(
        &self,
        _id: &Value,
        _result: Result<Value, FileRequestError>,
    ) -> Option<String> {
        None
    }
    /// Returns how long its process lives.
    fn process_lifetime(&self) -> ProcessLifetime;
}

/// Lifetime of an external agent's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessLifetime {
    /// All turns of a session.
    Session,
    /// One turn, which begins at the end of its input; the next process resumes where this one
    /// ended.
    SingleTurn,
}

/// Returns an external agent's tool call as it is shown to the user.
pub(super) fn native_tool_call(tool: &str, input: &Value) -> NativeToolCall {
    let keys = ["command", "file_path", "path", "pattern", "url", "title"];
    let shown = keys.iter().find_map(|key| input.get(key)?.as_str());
    let detail = match (shown, input) {
        (Some(text), _) => single_line(text, SHOWN_CHARS_MAX),
        (None, Value::Null) => String::new(),
        (None, Value::String(text)) => single_line(text, SHOWN_CHARS_MAX),
        (None, input) => truncate(&input.to_string(), SHOWN_CHARS_MAX),
    };
    NativeToolCall {
        tool: single_line(tool, NAME_CHARS_MAX),
        detail,
        denied: None,
    }
}

/// Returns the plan in a list of entries, each with its content in the field `content` and its
/// status as `status` returns it; `None` if there is no list.
pub(super) fn reported_plan<'e>(
    entries: Option<&'e Value>,
    content: &str,
    status: impl Fn(&'e Value) -> &'e str,
) -> Option<TaskPlan> {
    let entries = entries?.as_array()?.iter().map(|entry| {
        let text = entry.get(content).and_then(Value::as_str);
        (text.unwrap_or_default(), status(entry))
    });
    Some(TaskPlan::from_reported(entries))
}

/// Returns whether a tool is one that `massgen mcp workflow` offers; the run sees each call of it.
pub(super) fn is_massgen_tool(tool: &str) -> bool {
    let rest = tool
        .strip_prefix("mcp__")
        .or(tool.strip_prefix("mcp_"))
        .and_then(|rest| rest.strip_prefix(SERVER));
    rest.is_some_and(|rest| rest.starts_with('_'))
}

/// Returns a path that an agent gives as an absolute one; relative paths start at `dir`.
pub(super) fn absolute_path(dir: &AbsPath, path: &str) -> String {
    let joined_path = dir.as_path().join(Path::new(path));
    joined_path.to_string_lossy().into_owned()
}

/// Parses a line of an agent; `None` if it is not a JSON object.
pub(super) fn parse_line(line: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(line).ok()?;
    value.is_object().then_some(value)
}

/// Returns the string at `pointer` in a message; empty if there is none.
pub(super) fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}
