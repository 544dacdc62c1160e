//! Parses permission requests of the Agent Client Protocol: what a tool would do. Kinds and
//! locations are the agent's own words, so that anything unclear is treated as unknown, and so is a
//! request whose parts contradict each other. <https://agentclientprotocol.com/protocol/tool-calls>

use std::path::Path;

use serde_json::{Map, Value};

use crate::backend::external_agent::protocol::{
    RequestedToolAction, SERVER, ToolPermissionRequest, absolute_path, is_massgen_tool, text_at,
};
use crate::path::AbsPath;
use crate::text::single_line;
use crate::tools::call::{DeleteRecursion, LineRange, ReadForm, ToolCall, UserPath};
use crate::tools::external_tools::{ExternalToolAction, command_options};

/// Maximum length of a tool's name in events, in characters.
const NAME_CHARS_MAX: usize = 100;
/// The character that ends the tool's name in the id of a call of one of massgen's tools.
const ID_SEPARATOR: char = '-';
/// What agents write before the name of one of massgen's tools in the title of a call.
const TITLE_PREFIXES: &[&str] = &["mcp__massgen__", "massgen_", "Tool: massgen/"];
/// The prefix of the title that Codex gives to calls of servers. Its arguments name the server.
const CODEX_TITLE_PREFIX: &str = "Tool: ";
/// The argument name that agents use for a command line.
const COMMAND_KEY: &str = "command";
/// Argument names that agents use for the directory in which a command starts.
const DIRECTORY_KEYS: &[&str] = &["cwd", "workdir", "dir_path", "directory"];
/// Argument names that agents use for the path of a tool.
const PATH_KEYS: &[&str] = &[
    "path",
    "file_path",
    "filePath",
    "filepath",
    "abs_path",
    "absolute_path",
    "notebook_path",
    "dir_path",
];
/// Argument names that show that a tool does more than reach the paths that it names.
const FURTHER_ACTION_KEYS: &[&str] = &[COMMAND_KEY, "cmd", "script", "code", "url"];
/// Argument names that Codex uses for the server and the tool of a call.
const SERVER_KEYS: &[&str] = &["server", "tool"];
/// The reason for a call that names more than one path.
const SEVERAL_PATHS: &str = "it names several paths: ask for one at a time";
/// The argument names on which decisions depend.
pub(super) const INPUT_KEYS: &[&[&str]] =
    &[DIRECTORY_KEYS, PATH_KEYS, FURTHER_ACTION_KEYS, SERVER_KEYS];

/// Parses a permission request, in a session that was created with `session_parameters`.
/// `announced` is what the agent has reported about the call before.
pub(super) fn parse_permission_request(
    request: &Value,
    announced: &Value,
    session_parameters: &Value,
) -> ToolPermissionRequest {
    let requested = request.get("toolCall").unwrap_or(&Value::Null);
    let dir = AbsPath::new(text_at(session_parameters, "/cwd")).unwrap_or_else(AbsPath::root);
    let call = DescribedCall {
        requested,
        announced,
        dir,
    };
    let kind = call.kind();
    let tool = match kind.as_deref() {
        Ok("") | Err(_) => "tool",
        Ok(kind) => kind,
    };
    ToolPermissionRequest {
        tool: single_line(tool, NAME_CHARS_MAX),
        detail: call.title().to_owned(),
        action: kind.clone().and_then(|kind| call.action(&kind)),
        // Only for this call: the gate decides about each one.
        allow_option: option_of_kind(request, "allow_once"),
        reject_option: option_of_kind(request, "reject_once"),
    }
}

/// Returns the id of the option of this kind.
fn option_of_kind(request: &Value, kind: &str) -> Option<String> {
    let options = request.get("options")?.as_array()?;
    let option = options
        .iter()
        .find(|option| text_at(option, "/kind") == kind)?;
    Some(text_at(option, "/optionId").to_owned())
}

/// A call as the agent describes it: in the request, and when it announced it.
struct DescribedCall<'v> {
    requested: &'v Value,
    announced: &'v Value,
    /// The directory at which relative paths start.
    dir: AbsPath,
}

impl<'v> DescribedCall<'v> {
    fn descriptions(&self) -> [&'v Value; 2] {
        [self.requested, self.announced]
    }

    fn inputs(&self) -> impl Iterator<Item = &'v Value> {
        let input = |description: &'v Value| description.get("rawInput");
        self.descriptions().into_iter().filter_map(input)
    }

    /// Returns all values that the arguments have under one of `names`.
    fn arguments(&self, names: &'static [&'static str]) -> impl Iterator<Item = &'v Value> {
        self.inputs()
            .flat_map(move |input| names.iter().filter_map(|name| input.get(*name)))
    }

    fn title(&self) -> &'v str {
        match text_at(self.requested, "/title") {
            "" => text_at(self.announced, "/title"),
            title => title,
        }
    }

    /// Returns the kind of the call. `other` is what the protocol assumes without a kind, so any
    /// other kind counts more.
    fn kind(&self) -> Result<String, String> {
        let [requested, announced] = self.descriptions().map(|call| text_at(call, "/kind"));
        let is_vague = |kind: &str| matches!(kind, "" | "other");
        match (is_vague(requested), is_vague(announced)) {
            (false, false) if requested != announced => {
                Err("it was announced as something else".to_owned())
            }
            (true, false) => Ok(announced.to_owned()),
            (true, true) if requested.is_empty() => Ok(announced.to_owned()),
            (..) => Ok(requested.to_owned()),
        }
    }

    /// Returns what the call would do.
    fn action(&self, kind: &str) -> Result<RequestedToolAction, String> {
        let without_directories = |action| RequestedToolAction {
            action,
            directories: Vec::new(),
        };
        if matches!(kind, "" | "other") && self.is_forwarded() {
            return Ok(without_directories(ExternalToolAction::Nothing));
        }
        match kind {
            "think" if !self.does_more() && self.paths().next().is_none() => {
                Ok(without_directories(ExternalToolAction::Nothing))
            }
            "execute" => {
                let line = self.command()?.to_owned();
                let dir = absolute_user_path(&self.dir, self.start_directory()?)?;
                Ok(without_directories(ExternalToolAction::Command {
                    line,
                    dir,
                    options: self.command_options(),
                }))
            }
            "read" | "search" => self.call_on_path(|path| ToolCall::ReadTextFile {
                path,
                lines: LineRange::All,
                form: ReadForm::Plain,
            }),
            "edit" => self.call_on_path(write_call),
            "other" if self.paths().next().is_some() && !self.does_more() => {
                // What it would do there is unknown: it may write.
                self.call_on_path(write_call)
            }
            "delete" => {
                let requested_action = self.call_on_path(|path| ToolCall::DeleteFile {
                    path,
                    recursion: DeleteRecursion::Whole,
                })?;
                if requested_action.directories.is_empty() {
                    Ok(requested_action)
                } else {
                    Err(SEVERAL_PATHS.to_owned())
                }
            }
            _ => Err("it does not say what it would do".to_owned()),
        }
    }

    /// Returns whether this is a call of one of massgen's tools, which the gate sees when it
    /// arrives over the agent socket. Only an agent itself writes the id and the title of such a
    /// call; the title of a tool that takes paths or commands may contain its model's words.
    fn is_forwarded(&self) -> bool {
        let id = text_at(self.requested, "/toolCallId");
        if is_massgen_tool(id.split(ID_SEPARATOR).next().unwrap_or_default()) {
            return true;
        }
        if self.does_more() || self.paths().next().is_some() {
            return false;
        }
        let announced = text_at(self.announced, "/title");
        let tool = |title: &'v str| {
            let mut names = TITLE_PREFIXES
                .iter()
                .filter_map(|prefix| title.strip_prefix(prefix));
            names.find(|name| is_tool_name(name))
        };
        if announced.starts_with(CODEX_TITLE_PREFIX) {
            let announced_text = |name| text_at(self.announced, name);
            return announced_text("/rawInput/server") == SERVER
                && tool(announced).is_some_and(|tool| announced_text("/rawInput/tool") == tool);
        }
        tool(announced).or(tool(self.title())).is_some()
    }

    /// Returns whether its arguments name something that it does in addition to reaching paths.
    fn does_more(&self) -> bool {
        self.arguments(FURTHER_ACTION_KEYS).next().is_some()
    }

    /// Returns the command line. It is in the title, which is for people, only if the agent gives
    /// no arguments at all.
    fn command(&self) -> Result<&'v str, String> {
        let is_nothing = |input: &Value| input.as_object().map_or(input.is_null(), Map::is_empty);
        let mut lines = self.arguments(&[COMMAND_KEY]).map(Value::as_str);
        let line = match lines.next() {
            Some(None) => return Err("its command is not text".to_owned()),
            Some(line) if lines.any(|other| other != line) => {
                return Err("it names two commands".to_owned());
            }
            Some(Some(line)) => line,
            None if self.inputs().all(is_nothing) => self.title(),
            None => "",
        };
        if line.trim().is_empty() {
            return Err("it does not say which command".to_owned());
        }
        Ok(line)
    }

    /// Returns the other arguments of a command. Of two descriptions, the request counts.
    fn command_options(&self) -> Map<String, Value> {
        let known_keys = [&[COMMAND_KEY], DIRECTORY_KEYS].concat();
        let mut inputs = self.inputs().collect::<Vec<_>>();
        inputs.reverse();
        let options = |input| command_options(input, &known_keys);
        inputs.into_iter().flat_map(options).collect()
    }

    /// Returns the directory in which a command starts, as the agent names it; empty for that of
    /// the session.
    fn start_directory(&self) -> Result<&'v str, String> {
        let mut directories = self
            .arguments(DIRECTORY_KEYS)
            .filter(|value| !value.is_null());
        let unclear = || Err("it does not say in which directory".to_owned());
        match directories.next() {
            None => Ok(""),
            Some(Value::String(dir)) if directories.all(|other| other == dir) => Ok(dir),
            Some(_) => unclear(),
        }
    }

    /// Returns all paths that the agent names.
    fn paths(&self) -> impl Iterator<Item = &'v str> {
        let list = |call: &'v Value, name: &str| call.get(name).and_then(Value::as_array);
        let locations = move |call: &'v Value| {
            let listed = list(call, "locations").into_iter().flatten();
            let diffs = list(call, "content")
                .into_iter()
                .flatten()
                .filter(|piece| text_at(piece, "/type") == "diff");
            listed
                .chain(diffs)
                .map(|location| text_at(location, "/path"))
        };
        let locations_named = self.descriptions().into_iter().flat_map(locations);
        locations_named.chain(self.arguments(PATH_KEYS).filter_map(Value::as_str))
    }

    /// Returns a call about the one path that the agent names. Directories above it may be named
    /// with it.
    fn call_on_path(
        &self,
        make: impl Fn(UserPath) -> ToolCall,
    ) -> Result<RequestedToolAction, String> {
        let paths: Vec<&str> = self.paths().collect();
        if paths.is_empty() || paths.contains(&"") {
            return Err("it does not say at which path".to_owned());
        }
        if paths.iter().any(|path| path.contains("://")) {
            return Err("it names an address instead of a path".to_owned());
        }
        let mut absolute_paths: Vec<String> = paths
            .iter()
            .map(|path| absolute_path(&self.dir, path))
            .collect();
        absolute_paths.sort_unstable();
        absolute_paths.dedup();
        // A directory sorts before what is in it.
        let Some((path, directories)) = absolute_paths.split_last() else {
            return Err("it does not say at which path".to_owned());
        };
        if !directories
            .iter()
            .all(|dir| Path::new(path).starts_with(dir))
        {
            return Err(SEVERAL_PATHS.to_owned());
        }
        let user_path = |text: &String| absolute_user_path(&self.dir, text);
        let directories: Result<Vec<_>, _> = directories.iter().map(user_path).collect();
        Ok(RequestedToolAction {
            action: ExternalToolAction::Call(make(user_path(path)?)),
            directories: directories?,
        })
    }
}

/// Returns the call that writes to `path`; its content does not matter for a decision.
fn write_call(path: UserPath) -> ToolCall {
    ToolCall::WriteFile {
        path,
        content: String::new(),
    }
}

/// Returns whether `name` is nothing but the name of a tool.
fn is_tool_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    !name.is_empty() && name.chars().all(is_letter)
}

fn absolute_user_path(dir: &AbsPath, text: &str) -> Result<UserPath, String> {
    UserPath::parse(absolute_path(dir, text)).map_err(|error| error.to_string())
}
