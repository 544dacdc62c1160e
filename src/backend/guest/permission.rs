//! Owns what a permission request of the Agent Client Protocol says that a tool would do. Kinds and
//! places are the guest's own words, so that whatever is not clear is not known.
//! <https://agentclientprotocol.com/protocol/tool-calls>

use serde_json::Value;

use crate::backend::guest::tongue::{Asked, is_relayed, text_at, whole};
use crate::path::AbsPath;
use crate::tools::call::{Lines, Recursion, ToolCall, UserPath};
use crate::tools::foreign::Foreign;
use crate::wording::one_line;

/// The longest name of a tool that is told, in characters.
const NAME_CHARS_MAX: usize = 100;
/// What the id of a call begins with that goes to the relay, where the id names its tool.
const BEFORE_STAMP: char = '-';

/// What is asked, in a session that was begun with `place`.
pub(super) fn asked(request: &Value, place: &Value) -> Asked {
    let call = request.get("toolCall").unwrap_or(&Value::Null);
    let kind = text_at(call, "/kind");
    let dir = AbsPath::new(text_at(place, "/cwd")).unwrap_or_else(AbsPath::top);
    Asked {
        tool: one_line(if kind.is_empty() { "tool" } else { kind }, NAME_CHARS_MAX),
        foreign: foreign(call, kind, &dir),
        yes: option(request, "allow_once"),
        no: option(request, "reject_once"),
    }
}

/// The option of this kind.
fn option(request: &Value, kind: &str) -> Option<String> {
    let options = request.get("options")?.as_array()?;
    let option = options
        .iter()
        .find(|option| text_at(option, "/kind") == kind)?;
    Some(text_at(option, "/optionId").to_owned())
}

/// What a call would do.
fn foreign(call: &Value, kind: &str, dir: &AbsPath) -> Result<Foreign, String> {
    let id = text_at(call, "/toolCallId");
    if is_relayed(id.split(BEFORE_STAMP).next().unwrap_or_default()) {
        return Ok(Foreign::Nothing);
    }
    match kind {
        "think" => Ok(Foreign::Nothing),
        "execute" => {
            let line = text_at(call, "/rawInput/command");
            let line = if line.is_empty() {
                text_at(call, "/title")
            } else {
                line
            };
            if line.trim().is_empty() {
                return Err("it does not say which command".to_owned());
            }
            let dir = path(dir, "")?;
            let line = line.to_owned();
            Ok(Foreign::Command { line, dir })
        }
        "read" | "search" => one_call(call, dir, |path| ToolCall::ReadTextFile {
            path,
            lines: Lines::All,
        }),
        "edit" => one_call(call, dir, |path| ToolCall::WriteFile {
            path,
            content: String::new(),
        }),
        "delete" => one_call(call, dir, |path| ToolCall::DeleteFile {
            path,
            recursion: Recursion::Whole,
        }),
        _ => Err("it does not say what it would do".to_owned()),
    }
}

/// A call about the one path that the guest names.
fn one_call(
    call: &Value,
    dir: &AbsPath,
    make: impl Fn(UserPath) -> ToolCall,
) -> Result<Foreign, String> {
    let list = |name: &str| call.get(name).and_then(Value::as_array);
    let places = list("locations").into_iter().flatten();
    let diffs = list("content").into_iter().flatten();
    let diffs = diffs.filter(|piece| text_at(piece, "/type") == "diff");
    let mut paths: Vec<&str> = places
        .chain(diffs)
        .map(|place| text_at(place, "/path"))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    match paths.as_slice() {
        [only] if !only.is_empty() => path(dir, only).map(|path| Foreign::Call(make(path))),
        [] | [_] => Err("it does not say at which path".to_owned()),
        [_, _, ..] => Err("it names several paths: ask for one at a time".to_owned()),
    }
}

fn path(dir: &AbsPath, text: &str) -> Result<UserPath, String> {
    UserPath::parse(whole(dir, text)).map_err(|why| why.to_string())
}
