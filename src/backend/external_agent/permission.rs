//! Parses permission requests of the Agent Client Protocol: what a tool would do. Kinds and
//! locations are the agent's own words, so that anything unclear is treated as unknown, and so is a
//! request whose parts contradict each other. <https://agentclientprotocol.com/protocol/tool-calls>

use serde_json::{Map, Value};

use crate::backend::external_agent::protocol::{
    ToolPermissionRequest, absolute_path, is_massgen_tool, text_at,
};
use crate::path::AbsPath;
use crate::text::single_line;
use crate::tools::call::{DeleteRecursion, LineRange, ToolCall, UserPath};
use crate::tools::external_tools::ExternalToolAction;

/// Maximum length of a tool's name in events, in characters.
const NAME_CHARS_MAX: usize = 100;
/// The character that ends the tool's name in the id of a call to the relay.
const BEFORE_STAMP: char = '-';
/// Argument names that agents use for the directory in which a command starts.
const DIRECTORIES: &[&str] = &["cwd", "workdir", "dir_path", "directory"];
/// Argument names that agents use for the path of a tool.
const PATHS: &[&str] = &[
    "path",
    "file_path",
    "filePath",
    "abs_path",
    "absolute_path",
    "notebook_path",
    "dir_path",
];

/// Parses a permission request, in a session that was begun with `place`.
pub(super) fn parse_permission_request(request: &Value, place: &Value) -> ToolPermissionRequest {
    let call = request.get("toolCall").unwrap_or(&Value::Null);
    let kind = text_at(call, "/kind");
    let dir = AbsPath::new(text_at(place, "/cwd")).unwrap_or_else(AbsPath::top);
    ToolPermissionRequest {
        tool: single_line(if kind.is_empty() { "tool" } else { kind }, NAME_CHARS_MAX),
        action: parse_tool_action(call, kind, &dir),
        yes: option_of_kind(request, "allow_once"),
        no: option_of_kind(request, "reject_once"),
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

/// Returns what a call would do.
fn parse_tool_action(
    call: &Value,
    kind: &str,
    dir: &AbsPath,
) -> Result<ExternalToolAction, String> {
    let id = text_at(call, "/toolCallId");
    let is_relayed = is_massgen_tool(id.split(BEFORE_STAMP).next().unwrap_or_default());
    if is_relayed && matches!(kind, "" | "other") {
        return Ok(ExternalToolAction::Nothing);
    }
    let given = call.get("rawInput").unwrap_or(&Value::Null);
    match kind {
        "think" if given.get("command").is_none() => Ok(ExternalToolAction::Nothing),
        "execute" => {
            let line = command(call, given)?.to_owned();
            let dir = absolute_user_path(dir, begins_in(given)?)?;
            Ok(ExternalToolAction::Command { line, dir })
        }
        "read" | "search" => single_path_call(call, dir, |path| ToolCall::ReadTextFile {
            path,
            lines: LineRange::All,
        }),
        "edit" => single_path_call(call, dir, |path| ToolCall::WriteFile {
            path,
            content: String::new(),
        }),
        "delete" => single_path_call(call, dir, |path| ToolCall::DeleteFile {
            path,
            recursion: DeleteRecursion::Whole,
        }),
        _ => Err("it does not say what it would do".to_owned()),
    }
}

/// Returns the command line. It is in the title, which is for people, only if the agent gives no
/// arguments at all.
fn command<'v>(call: &'v Value, given: &'v Value) -> Result<&'v str, String> {
    let gives_nothing = given.is_null() || given.as_object().is_some_and(Map::is_empty);
    let line = match given.get("command") {
        Some(Value::String(line)) => line,
        Some(_) => return Err("its command is no text".to_owned()),
        None if gives_nothing => text_at(call, "/title"),
        None => "",
    };
    if line.trim().is_empty() {
        return Err("it does not say which command".to_owned());
    }
    Ok(line)
}

/// Returns the directory in which a command starts, as the agent names it; empty for that of the
/// session.
fn begins_in(given: &Value) -> Result<&str, String> {
    let named = DIRECTORIES.iter().filter_map(|name| given.get(*name));
    let mut named = named.filter(|value| !value.is_null());
    match (named.next(), named.next()) {
        (None, _) => Ok(""),
        (Some(Value::String(dir)), None) => Ok(dir),
        _ => Err("it does not say in which directory".to_owned()),
    }
}

/// Returns a call about the one path that the agent names.
fn single_path_call(
    call: &Value,
    dir: &AbsPath,
    make: impl Fn(UserPath) -> ToolCall,
) -> Result<ExternalToolAction, String> {
    let list = |name: &str| call.get(name).and_then(Value::as_array);
    let places = list("locations").into_iter().flatten();
    let diffs = list("content").into_iter().flatten();
    let diffs = diffs.filter(|piece| text_at(piece, "/type") == "diff");
    let places = places.chain(diffs).map(|place| text_at(place, "/path"));
    let given = call.get("rawInput").unwrap_or(&Value::Null);
    let given = PATHS.iter().filter_map(|name| given.get(*name)?.as_str());
    let named: Vec<&str> = places.chain(given).collect();
    if named.contains(&"") {
        return Err("it does not say at which path".to_owned());
    }
    if named.iter().any(|path| path.contains("://")) {
        return Err("it names an address in the place of a path".to_owned());
    }
    let mut paths: Vec<String> = named.iter().map(|path| absolute_path(dir, path)).collect();
    paths.sort_unstable();
    paths.dedup();
    match paths.as_slice() {
        [only] => absolute_user_path(dir, only).map(|path| ExternalToolAction::Call(make(path))),
        [] => Err("it does not say at which path".to_owned()),
        [_, _, ..] => Err("it names several paths: ask for one at a time".to_owned()),
    }
}

fn absolute_user_path(dir: &AbsPath, text: &str) -> Result<UserPath, String> {
    UserPath::parse(absolute_path(dir, text)).map_err(|why| why.to_string())
}
