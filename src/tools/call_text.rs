//! Tool calls and their results in a few words for people: `read src/main.rs`, `$ cargo test`,
//! `120 lines`.

use serde_json::{Map, Value};

use crate::permissions::grant::Permission;
use crate::text::count_noun;
use crate::tools::external_tools::names_of;
use crate::tools::parse::canonical_name;
use crate::tools::spec::{APPLY_PATCH, COMMANDS, PROGRAMS, TEXT_EDITOR, TOOLS, ToolSpec};

/// What a call of each tool does. A part after `|` is left out if its argument is missing.
const PHRASES: &[(&str, &str)] = &[
    ("read_text_file", "read {path}"),
    ("read_multiple_files", "read {paths}"),
    ("list_directory", "list {path}"),
    ("directory_tree", "list all of {path}"),
    ("search_files", "find {pattern}| in {path}"),
    ("grep_files", "search \"{pattern}\"| in {path}"),
    (
        "semantic_search_workspace_files",
        "search \"{query}\"| in {folder}",
    ),
    ("get_file_info", "look at {path}"),
    ("read_media_file", "look at {path}"),
    ("compare_files", "compare {file1} with {file2}"),
    ("compare_directories", "compare {dir1} with {dir2}"),
    ("list_allowed_directories", "list the open paths"),
    ("write_file", "write {path}"),
    ("edit_file", "edit {path}"),
    ("diff_patch_workspace_file", "edit {filepath}"),
    ("create_directory", "create {path}"),
    ("move_file", "move {source} to {destination}"),
    ("copy_file", "copy {source_path} to {destination_path}"),
    (
        "copy_files_batch",
        "copy files of {source_base_path} to {destination_base_path}",
    ),
    ("delete_file", "delete {path}"),
    ("delete_files_batch", "delete files of {base_path}"),
    ("execute_command", "$ {command}"),
    ("start_background_command", "$ {command} &"),
    (
        "get_background_output",
        "read the output of command {command_id}",
    ),
    ("get_background_status", "look at command {command_id}"),
    ("stop_background_command", "stop command {command_id}"),
    ("list_background_commands", "list the background commands"),
    ("execute_code", "run a program"),
    ("fetch_url", "read {url}"),
    ("generate_media", "generate {path}"),
    ("update_plan", "update the plan"),
];
/// What a call of the text editor does, by its command.
const EDITOR_PHRASES: &[(&str, &str)] = &[
    ("view", "read {path}"),
    ("create", "write {path}"),
    ("str_replace", "edit {path}"),
    ("insert", "edit {path}"),
];
/// How other programs name an argument that massgen's tools have, too.
const OTHER_NAMES: &[(&str, &str)] = &[("path", "file_path")];
/// Before each file of a patch.
const PATCH_HEADINGS: &[&str] = &["*** Update File: ", "*** Add File: ", "*** Delete File: "];
/// Where the server and the tool stand in the name of a tool of an MCP server.
const SERVER_PREFIX: &str = "mcp__";
/// Maximum number of elements of a list that are named.
const LIST_SHOWN_MAX: usize = 3;
/// What may be missing after arguments that are cut off within a text.
const CUT_ENDS: &[&str] = &["\"}", "\"]}", "\"}]}"];

/// Returns what a call does, such as `read src/main.rs`. The arguments are JSON, or what another
/// program says in their place, and may be cut off. Paths below `project` are shown relative to it.
pub fn describe_call(tool: &str, arguments: &str, project: Option<&str>) -> String {
    let tool = canonical_name(tool);
    let Some(fields) = parse_fields(arguments) else {
        return if is_command(tool) && !arguments.starts_with('{') {
            format!("$ {arguments}")
        } else {
            format!("{tool} {arguments}").trim_end().to_owned()
        };
    };
    let described = match (tool, text_field(&fields, "command")) {
        (TEXT_EDITOR, Some(command)) => phrase_of(EDITOR_PHRASES, command, &fields, project),
        _ => names_of(tool).find_map(|name| phrase_of(PHRASES, name, &fields, project)),
    };
    described
        .or_else(|| describe_patch(text_field(&fields, "input")?, project))
        .unwrap_or_else(|| describe_other_call(tool, &fields))
}

/// Returns whether the words for a call of `tool` say what it does; of other tools, such as those of
/// a server, only the result tells.
pub fn is_described(tool: &str) -> bool {
    let tool = canonical_name(tool);
    let is_named = |(known, _): &(&str, &str)| names_of(tool).any(|name| name == *known);
    tool == TEXT_EDITOR || tool == APPLY_PATCH || PHRASES.iter().any(is_named)
}

/// Returns whether `tool` runs a command or a program, whose end and duration people want to know.
pub fn is_command(tool: &str) -> bool {
    let is_named = |spec: &ToolSpec| names_of(tool).any(|name| name == spec.name);
    COMMANDS.iter().chain(PROGRAMS).any(is_named)
}

/// Returns whether `tool` changes files.
pub fn is_change(tool: &str) -> bool {
    let is_named = |spec: &ToolSpec| names_of(canonical_name(tool)).any(|name| name == spec.name);
    let mut changing_tools = TOOLS
        .iter()
        .filter(|spec| spec.permission == Permission::Write);
    changing_tools.any(is_named)
}

/// Returns the result of a call that succeeded, in one to three words; `None` if its size says
/// nothing.
pub fn measure_result(tool: &str, result: &str) -> Option<String> {
    let lines = || result.lines().filter(|line| !line.trim().is_empty());
    let starts_with = |mark: char, heading: &str| {
        let marked = lines().filter(|line| line.starts_with(mark) && !line.starts_with(heading));
        marked.count()
    };
    let (count, noun) = match canonical_name(tool) {
        "read_text_file" => (result.lines().count(), "line"),
        "list_directory" | "directory_tree" => (lines().count(), "entry"),
        "search_files" => (lines().count(), "file"),
        "grep_files" | "semantic_search_workspace_files" => (lines().count(), "hit"),
        "edit_file" => {
            let (added, removed) = (starts_with('+', "+++"), starts_with('-', "---"));
            return Some(format!("+{added} −{removed}"));
        }
        _ => return None,
    };
    Some(count_noun(count, noun))
}

fn phrase_of(
    phrases: &[(&str, &str)],
    name: &str,
    fields: &Map<String, Value>,
    project: Option<&str>,
) -> Option<String> {
    let (_, phrase) = phrases.iter().find(|(known, _)| *known == name)?;
    let mut parts = phrase.split('|').map(|part| fill(part, fields, project));
    let first_part = parts.next()??;
    Some(parts.flatten().fold(first_part, |text, part| text + &part))
}

/// Puts arguments in the place of their names; `None` if one is missing.
fn fill(phrase: &str, fields: &Map<String, Value>, project: Option<&str>) -> Option<String> {
    let mut text = String::new();
    let mut rest = phrase;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, tail) = after.split_once('}')?;
        text.push_str(before);
        text.push_str(&shown_field(fields, name, project)?);
        rest = tail;
    }
    Some(text + rest)
}

fn shown_field(fields: &Map<String, Value>, name: &str, project: Option<&str>) -> Option<String> {
    let other_name = OTHER_NAMES.iter().find(|(own, _)| *own == name);
    let value = fields
        .get(name)
        .or_else(|| fields.get(other_name?.1))
        .filter(|value| !value.is_null());
    match value {
        Some(Value::String(text)) => Some(below_project(text, project).to_owned()),
        Some(Value::Array(list)) => {
            let shown = list.iter().take(LIST_SHOWN_MAX).filter_map(Value::as_str);
            let names: Vec<&str> = shown.map(|text| below_project(text, project)).collect();
            let more = list.len().saturating_sub(names.len());
            let suffix = (more > 0).then(|| format!(" and {more} more"));
            Some(names.join(", ") + &suffix.unwrap_or_default())
        }
        Some(other) => Some(other.to_string()),
        // A tool that works on a directory works in the workspace without one.
        None => (name == "path").then(|| ".".to_owned()),
    }
}

/// Returns `path` relative to the directory `project`, if it is in there.
fn below_project<'p>(path: &'p str, project: Option<&str>) -> &'p str {
    let below = project.and_then(|project| path.strip_prefix(project));
    match below {
        Some("" | "/") => ".",
        Some(rest) => rest.strip_prefix('/').unwrap_or(path),
        None => path,
    }
}

fn describe_patch(patch: &str, project: Option<&str>) -> Option<String> {
    let named_file = |line: &str| {
        let mut headings = PATCH_HEADINGS.iter();
        let name = headings.find_map(|heading| line.strip_prefix(heading))?;
        Some(below_project(name.trim(), project).to_owned())
    };
    let files: Vec<String> = patch.lines().filter_map(named_file).collect();
    (!files.is_empty()).then(|| format!("edit {}", files.join(", ")))
}

/// Describes a call of a tool that is not massgen's: `server: tool name: value, …`.
fn describe_other_call(tool: &str, fields: &Map<String, Value>) -> String {
    let named_server = tool
        .strip_prefix(SERVER_PREFIX)
        .and_then(|name| name.split_once("__"));
    let name = named_server.map_or_else(
        || tool.to_owned(),
        |(server, tool)| format!("{server}: {tool}"),
    );
    let value_text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
    let arguments = fields
        .iter()
        .map(|(name, value)| format!("{name}: {}", value_text(value)));
    let arguments: Vec<String> = arguments.collect();
    format!("{name} {}", arguments.join(", "))
        .trim_end()
        .to_owned()
}

fn text_field<'f>(fields: &'f Map<String, Value>, name: &str) -> Option<&'f str> {
    fields.get(name)?.as_str()
}

/// Parses arguments as a JSON object; of one that is cut off within a text, all before the cut.
fn parse_fields(arguments: &str) -> Option<Map<String, Value>> {
    if let Ok(fields) = serde_json::from_str(arguments) {
        return Some(fields);
    }
    let cut = arguments.strip_suffix('…')?;
    // The cut may have split an escape.
    let end = cut
        .rfind('\\')
        .filter(|at| cut.len() - at < "\\u0000".len());
    let texts = [Some(cut), end.and_then(|end| cut.get(..end))];
    texts.into_iter().flatten().find_map(|text| {
        let mut ends = CUT_ENDS.iter();
        ends.find_map(|end| serde_json::from_str(&format!("{text}…{end}")).ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_said_in_words() {
        #[track_caller]
        fn check(tool: &str, arguments: &str, expected: &str) {
            assert_eq!(describe_call(tool, arguments, Some("/home/me/p")), expected);
        }
        check(
            "read_text_file",
            r#"{"path": "/home/me/p/src/a.rs"}"#,
            "read src/a.rs",
        );
        check(
            "read_text_file",
            r#"{"path":"/home/me/pp"}"#,
            "read /home/me/pp",
        );
        check(
            "read_multiple_files",
            r#"{"paths":["a","b","c","d"]}"#,
            "read a, b, c and 1 more",
        );
        check("list_directory", "{}", "list .");
        check("grep_files", r#"{"pattern":"foo"}"#, "search \"foo\" in .");
        check(
            "execute_command",
            r#"{"command":"cargo \"x\""}"#,
            "$ cargo \"x\"",
        );
        check(
            "execute_command",
            r#"{"command":"echo \"abc\u00e…"#,
            "$ echo \"abc…",
        );
        check(
            "edit_file",
            r#"{"path":"a.rs","edits":[{"oldText":"x","newText":"y…"#,
            "edit a.rs",
        );
        check("Bash", "ls -l", "$ ls -l");
        check("Read", r#"{"file_path":"a"}"#, "read a");
        check(
            TEXT_EDITOR,
            r#"{"command":"str_replace","path":"a"}"#,
            "edit a",
        );
        check(
            "apply_patch",
            r#"{"input":"*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n*** Add File: b.rs\n+y"}"#,
            "edit a.rs, b.rs",
        );
        check(
            "mcp__git__log",
            r#"{"max":3,"path":"x"}"#,
            "git: log max: 3, path: x",
        );
        check("read_text_file", "no json", "read_text_file no json");
    }

    #[test]
    fn a_result_is_measured_by_what_people_count() {
        #[track_caller]
        fn check(tool: &str, result: &str, expected: Option<&str>) {
            assert_eq!(measure_result(tool, result).as_deref(), expected, "{tool}");
        }
        check("read_text_file", "a\n\nb\n", Some("3 lines"));
        check("grep_files", "a:1: x\n", Some("1 hit"));
        check(
            "edit_file",
            "edited a:\n--- a\n+++ a\n@@ -1 +1,2 @@\n-x\n+y\n+z\n",
            Some("+2 −1"),
        );
        check("execute_command", "{}", None);
    }
}
