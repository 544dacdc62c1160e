//! Owns what the protocols of guests have in common: what is asked of one, and what one can say. A
//! protocol is a state machine over lines; it reads and writes nothing itself.

use std::path::Path;

use serde_json::Value;

use crate::backend::NativeToolCall;
use crate::path::AbsPath;
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::text::{single_line, truncate};
use crate::tools::external_tools::ExternalToolAction;

/// The name of the server by which guests reach the workflow tools.
pub(super) const SERVER: &str = "massgen";
/// Characters of what a guest gives its own tools that events carry.
const SHOWN_CHARS_MAX: usize = 500;
/// The longest name of a tool that events carry, in characters.
const NAME_CHARS_MAX: usize = 100;

/// What a guest is started among.
#[derive(Clone, Debug)]
pub(super) struct LaunchContext {
    /// The directory that it begins in.
    pub(super) dir: AbsPath,
    /// massgen's own program, as the guest finds it.
    pub(super) massgen: AbsPath,
    /// The socket of the run.
    pub(super) socket: AbsPath,
    /// The model that it is told to ask, if any.
    pub(super) model: Option<String>,
}

impl LaunchContext {
    /// The arguments with which massgen passes on between a guest and the run.
    pub(super) fn relay_arguments(&self) -> Vec<String> {
        let words = ["mcp", "workflow", "--socket"];
        let words = words.iter().map(|word| (*word).to_owned());
        words.chain([self.socket.to_string()]).collect()
    }
}

/// How a guest's process is started.
#[derive(Debug, Default)]
pub(super) struct LaunchOptions {
    /// The arguments after its command.
    pub(super) arguments: Vec<String>,
    /// What it finds in its home.
    pub(super) files: Vec<(&'static str, String)>,
}

/// One thing that a guest says.
#[derive(Debug, PartialEq)]
pub(super) enum AgentEvent {
    /// More of its text.
    Text(String),
    /// More of its reasoning.
    Reasoning(String),
    /// It uses a tool of its own.
    NativeToolCall(NativeToolCall),
    /// What the turn has used so far.
    Usage(TokenUsage),
    /// What the turn has cost, as the guest reckons.
    Cost(Money),
    /// A line to write to it.
    Send(String),
    /// It has ended its turn without having done what it was asked.
    Failed(ExternalAgentError),
    /// It asks for something, by this id.
    Request(Value, Box<AgentRequest>),
    /// Its turn has ended.
    TurnEnded,
}

/// What a guest may ask for.
#[derive(Debug, PartialEq)]
pub(super) enum AgentRequest {
    /// Whether it may use a tool of its own.
    Permission(ToolPermissionRequest),
    /// The text of a file: its path, the first line from 1, and how many lines.
    Read(String, Option<u64>, Option<u64>),
    /// That a file gets this text.
    Write(String, String),
}

/// A guest's question whether it may use a tool of its own.
#[derive(Debug, PartialEq)]
pub(super) struct ToolPermissionRequest {
    /// The tool, for people and rules.
    pub(super) tool: String,
    /// What it would do; the error says why that is not known.
    pub(super) action: Result<ExternalToolAction, String>,
    /// How to say yes once, if it can be said.
    pub(super) yes: Option<String>,
    /// How to say no once, if it can be said.
    pub(super) no: Option<String>,
}

/// Why a guest cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExternalAgentError {
    /// It may heal.
    Transient(String),
    /// It will be the same again.
    Permanent(String),
}

/// A protocol.
pub(super) trait AgentProtocol: Send + Sync + std::fmt::Debug {
    /// How the process is started.
    fn launch(&self, around: &LaunchContext) -> LaunchOptions;
    /// The lines that begin with a new process, whose first turn is about `text`.
    fn encode_first_turn(&mut self, around: &LaunchContext, text: String) -> Vec<String>;
    /// The lines that begin another turn.
    fn encode_turn(&mut self, text: String) -> Vec<String>;
    /// What a line says.
    fn decode_line(&mut self, line: &str) -> Result<Vec<AgentEvent>, ExternalAgentError>;
    /// The lines that ask it to end its turn; none where the protocol has no word for that.
    fn encode_cancel(&self) -> Vec<String> {
        Vec::new()
    }
    /// The line that answers a question whether a tool may be used with one of its options, or says that
    /// nobody chooses any more; none where nobody asks so.
    fn encode_permission_response(&self, _id: &Value, _option: Option<&str>) -> Option<String> {
        None
    }
    /// The line that answers another wish; none where there are none.
    fn encode_fs_response(&self, _id: &Value, _given: Result<Value, String>) -> Option<String> {
        None
    }
    /// How long its process lives.
    fn process_lifetime(&self) -> ProcessLifetime;
}

/// How long the process of a guest lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessLifetime {
    /// Over all turns.
    Session,
    /// One turn, which begins when it can read no more; the next one goes on where this one was.
    SingleTurn,
}

/// A tool of a guest's own as people see it.
pub(super) fn native_tool_call(tool: &str, input: &Value) -> NativeToolCall {
    let told = ["command", "file_path", "path", "pattern", "url", "title"];
    let told = told.iter().find_map(|key| input.get(key)?.as_str());
    let detail = match (told, input) {
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

/// Whether a tool is one of the relay's, which the run sees when it is called.
pub(super) fn is_massgen_tool(tool: &str) -> bool {
    let rest = tool.strip_prefix("mcp__").or(tool.strip_prefix("mcp_"));
    let rest = rest.and_then(|rest| rest.strip_prefix(SERVER));
    rest.is_some_and(|rest| rest.starts_with('_'))
}

/// A path that a guest gives; relative ones begin at `dir`.
pub(super) fn absolute_path(dir: &AbsPath, path: &str) -> String {
    let whole = dir.as_path().join(Path::new(path));
    whole.to_string_lossy().into_owned()
}

/// A line of JSON that a guest says.
pub(super) fn parse_line(line: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(line).ok()?;
    value.is_object().then_some(value)
}

/// A text in a message.
pub(super) fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}
