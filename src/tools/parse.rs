//! Parses a model's request into a [`ToolCall`]. An unknown tool or parameter is an error that says
//! what is expected; nothing is guessed, and no file is touched.

use crate::id::AnswerLabel;
use crate::tools::arguments::ToolCallArguments;
use crate::tools::call::{
    BackgroundCommandId, CaseSensitivity, ContentDiff, DeleteRecursion, EditMode, ExistingTarget,
    FileEdit, FileSelection, GrepQuery, LineRange, ReadForm, SUBAGENTS_DIRECTORY, SubagentTask,
    ToolCall, UserPath,
};
use crate::tools::error::{CallParseError, excerpt};
use crate::tools::media::{MediaKind, MediaOrder};
use crate::tools::page_url::PageUrl;
use crate::tools::patch::{parse_patch, unified_diff_to_patch};
use crate::tools::served::ToolCatalogue;
use crate::tools::spec::{
    ANSWER, APPLY_PATCH, READ_MEDIA_FILE, TEXT_EDITOR, TEXT_EDITOR_COMMANDS, ToolSpec, WORK_TABLES,
};
use crate::tools::vendor_tool::VendorTool;

/// The default number of context lines around each difference.
const COMPARE_CONTEXT_LINES_DEFAULT: u32 = 3;

/// The maximum number of context lines around a match or a difference; a greater number is lowered
/// to this.
pub const CONTEXT_LINES_MAX: u32 = 100;

/// The default number of matching lines that a search shows.
pub const GREP_RESULTS_DEFAULT: u32 = 200;

/// The default number of matching lines that a ranked search shows.
const RANKED_RESULTS_DEFAULT: u32 = 20;

/// The maximum number of matching lines that a search shows; a greater number is lowered to this.
pub const GREP_RESULTS_MAX: u32 = 2000;

/// The longest command line, in bytes: Linux accepts no longer argument (`MAX_ARG_STRLEN`).
pub const COMMAND_BYTES_MAX: usize = 128 * 1024 - 1;

/// The longest query or task for a tool of a vendor, in bytes.
pub const VENDOR_REQUEST_BYTES_MAX: usize = 16 * 1024;

/// The longest description of an image or text to speak, in bytes.
pub const MEDIA_PROMPT_BYTES_MAX: usize = 32_000;
/// The longest name of a voice or description of a style, in bytes.
pub const MEDIA_STYLE_BYTES_MAX: usize = 2_000;

/// The similarity (0 to 1, Jaro-Winkler) from which a name counts as a mistyped tool name.
const SIMILARITY_MIN: f64 = 0.8;

/// Parses a call of a file tool, of a tool that runs commands or programs, or of a server's tool in
/// `served`; `arguments` is the model's JSON text.
pub fn parse(
    name: &str,
    arguments: &str,
    served: &ToolCatalogue,
) -> Result<ToolCall, CallParseError> {
    if let Some(tool) = served.find(name) {
        return tool.parse_call(arguments);
    }
    let tool = find_tool(name, &WORK_TABLES)?;
    let mut arguments = ToolCallArguments::read(tool, arguments)?;
    build_call(tool, &mut arguments)
}

/// Finds the tool called `name`, also by an earlier name.
pub(crate) fn find_tool(
    name: &str,
    tables: &[&'static [ToolSpec]],
) -> Result<&'static ToolSpec, CallParseError> {
    let name = canonical_name(name);
    tables
        .iter()
        .copied()
        .flatten()
        .find(|tool| tool.name == name)
        .ok_or_else(|| CallParseError::UnknownTool {
            name: excerpt(name),
            nearest: nearest(name, tables),
        })
}

/// Returns the current name of a renamed tool, also if the name has the prefix that some models
/// give to all functions.
pub(crate) fn canonical_name(name: &str) -> &str {
    match without_function_prefix(name) {
        "read_file" => "read_text_file",
        "read_files" => "read_multiple_files",
        "read_image" => READ_MEDIA_FILE,
        name => name,
    }
}

/// Returns `name` without the prefix of functions in OpenAI's `harmony` format.
pub(crate) fn without_function_prefix(name: &str) -> &str {
    name.strip_prefix("functions.").unwrap_or(name)
}

/// Returns the tool with the most similar name, ignoring a server's prefix in `name`, if any is
/// similar enough.
fn nearest(name: &str, tables: &[&'static [ToolSpec]]) -> Option<&'static str> {
    let name = name.rsplit("__").next().unwrap_or(name);
    let name = excerpt(canonical_name(name));
    tables
        .iter()
        .copied()
        .flatten()
        .map(|tool| (strsim::jaro_winkler(&name, tool.name), tool.name))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, name)| name)
}

/// Builds the call of `tool`: of a tool that reads here, and of all others in the functions below.
pub(crate) fn build_call(
    tool: &'static ToolSpec,
    arguments: &mut ToolCallArguments,
) -> Result<ToolCall, CallParseError> {
    match tool.name {
        "read_text_file" => Ok(ToolCall::ReadTextFile {
            path: arguments.path("path")?,
            lines: line_range(arguments)?,
            form: ReadForm::Plain,
        }),
        "read_multiple_files" => Ok(ToolCall::ReadMultipleFiles {
            paths: arguments.paths("paths")?,
        }),
        "list_directory" => Ok(ToolCall::ListDirectory {
            path: arguments.path_or_workspace("path")?,
        }),
        "directory_tree" => Ok(ToolCall::DirectoryTree {
            path: arguments.path_or_workspace("path")?,
            exclude: arguments.globs("excludePatterns")?.unwrap_or_default(),
        }),
        "search_files" => Ok(ToolCall::SearchFiles {
            path: arguments.path_or_workspace("path")?,
            pattern: arguments.glob("pattern")?,
            exclude: arguments.globs("excludePatterns")?.unwrap_or_default(),
        }),
        "grep_files" => Ok(ToolCall::GrepFiles {
            path: arguments.path_or_workspace("path")?,
            grep: grep_query(arguments)?,
        }),
        "read_media_file" => Ok(ToolCall::ReadMediaFile {
            path: arguments.path("path")?,
        }),
        "get_file_info" => Ok(ToolCall::GetFileInfo {
            path: arguments.path("path")?,
        }),
        "list_allowed_directories" => Ok(ToolCall::ListAllowedDirectories),
        "compare_files" => Ok(ToolCall::CompareFiles {
            first: arguments.path("file1")?,
            second: arguments.path("file2")?,
            context_lines: context_lines(arguments)?.unwrap_or(COMPARE_CONTEXT_LINES_DEFAULT),
        }),
        "compare_directories" => Ok(ToolCall::CompareDirectories {
            first: arguments.path("dir1")?,
            second: arguments.path("dir2")?,
            content: match arguments.flag("show_content_diff")? {
                Some(true) => ContentDiff::Lines,
                Some(false) | None => ContentDiff::Names,
            },
        }),
        _ => build_writing_call(tool, arguments),
    }
}

fn build_writing_call(
    tool: &'static ToolSpec,
    arguments: &mut ToolCallArguments,
) -> Result<ToolCall, CallParseError> {
    match tool.name {
        "write_file" => Ok(ToolCall::WriteFile {
            path: arguments.path("path")?,
            content: arguments.text("content")?,
        }),
        "edit_file" => Ok(ToolCall::EditFile {
            path: arguments.path("path")?,
            edits: arguments.edits("edits")?,
            mode: match arguments.flag("dryRun")? {
                Some(true) => EditMode::DryRun,
                Some(false) | None => EditMode::Apply,
            },
        }),
        APPLY_PATCH => patch_call(arguments.text("input")?),
        "create_directory" => Ok(ToolCall::CreateDirectory {
            path: arguments.path("path")?,
        }),
        "move_file" => Ok(ToolCall::MoveFile {
            source: arguments.path("source")?,
            destination: arguments.path("destination")?,
        }),
        "copy_file" => Ok(ToolCall::CopyFile {
            source: arguments.path("source_path")?,
            destination: arguments.path("destination_path")?,
            existing: existing_target(arguments)?,
        }),
        "copy_files_batch" => Ok(ToolCall::CopyFilesBatch {
            source: arguments.path("source_base_path")?,
            destination: arguments.path("destination_base_path")?,
            selection: file_selection(arguments)?,
            existing: existing_target(arguments)?,
        }),
        "delete_file" => Ok(ToolCall::DeleteFile {
            path: arguments.path("path")?,
            // Models mean the whole directory.
            recursion: match arguments.flag("recursive")? {
                Some(false) => DeleteRecursion::EmptyOnly,
                Some(true) | None => DeleteRecursion::Whole,
            },
        }),
        "delete_files_batch" => Ok(ToolCall::DeleteFilesBatch {
            path: arguments.path("base_path")?,
            selection: file_selection(arguments)?,
        }),
        TEXT_EDITOR => text_editor_call(arguments),
        "diff_patch_workspace_file" => {
            let path = arguments.path("filepath")?;
            let diff = arguments.text("diff")?;
            patch_call(unified_diff_to_patch(path.as_str(), &diff))
        }
        "semantic_search_workspace_files" => Ok(ToolCall::GrepFiles {
            path: arguments.path_or_workspace("folder")?,
            grep: ranked_query(arguments)?,
        }),
        _ => build_other_call(tool, arguments),
    }
}

fn patch_call(text: String) -> Result<ToolCall, CallParseError> {
    let parse_path = |path: &str| UserPath::parse(path).map_err(|error| error.to_string());
    Ok(ToolCall::ApplyPatch {
        files: parse_patch(&text, parse_path).map_err(CallParseError::Patch)?,
        text,
    })
}

/// Reads a command of the text editor, whose parameters are those of Anthropic's tool of this name.
fn text_editor_call(arguments: &mut ToolCallArguments) -> Result<ToolCall, CallParseError> {
    let (command, path) = (arguments.text("command")?, arguments.path("path")?);
    let edit = |path, edit| ToolCall::EditFile {
        path,
        edits: vec![edit],
        mode: EditMode::Apply,
    };
    match command.as_str() {
        "view" => Ok(ToolCall::ReadTextFile {
            path,
            lines: arguments.line_numbers("view_range")?,
            form: ReadForm::Numbered,
        }),
        "create" => Ok(ToolCall::WriteFile {
            path,
            content: arguments.text("file_text")?,
        }),
        "str_replace" => {
            let old = arguments.text("old_str")?;
            if old.is_empty() {
                return Err(arguments.invalid_value("old_str", "", "the text to replace"));
            }
            let new = arguments.optional_text("new_str")?.unwrap_or_default();
            Ok(edit(path, FileEdit::Replacement { old, new }))
        }
        "insert" => {
            let line = arguments.count("insert_line")?;
            let line = line.ok_or_else(|| arguments.missing_parameter("insert_line"))?;
            let text = arguments.text("insert_text")?;
            Ok(edit(path, FileEdit::Insertion { line, text }))
        }
        _ => Err(arguments.invalid_value("command", &command, TEXT_EDITOR_COMMANDS)),
    }
}

fn build_other_call(
    tool: &'static ToolSpec,
    arguments: &mut ToolCallArguments,
) -> Result<ToolCall, CallParseError> {
    match tool.name {
        "execute_command" => Ok(ToolCall::ExecuteCommand {
            command: command_line(arguments)?,
            timeout_seconds: arguments.positive_count("timeout")?,
            dir: arguments.path_or_workspace("work_dir")?,
            answer: answer_label(arguments)?,
        }),
        "start_background_command" => Ok(ToolCall::StartBackgroundCommand {
            command: command_line(arguments)?,
            dir: arguments.path_or_workspace("work_dir")?,
        }),
        "get_background_output" => Ok(ToolCall::GetBackgroundOutput {
            id: background_id(arguments)?,
            offset: arguments.count("offset")?.unwrap_or_default(),
        }),
        "get_background_status" => Ok(ToolCall::GetBackgroundStatus {
            id: background_id(arguments)?,
        }),
        "stop_background_command" => Ok(ToolCall::StopBackgroundCommand {
            id: background_id(arguments)?,
        }),
        "list_background_commands" => Ok(ToolCall::ListBackgroundCommands),
        "execute_code" => Ok(ToolCall::ExecuteCode {
            code: arguments.text("code")?,
            timeout_seconds: arguments.positive_count("timeout")?,
        }),
        "fetch_url" => Ok(ToolCall::FetchUrl {
            url: page_url(arguments)?,
        }),
        "web_search" => vendor_call(arguments, VendorTool::WebSearch),
        "vendor_code_execution" => vendor_call(arguments, VendorTool::CodeExecution),
        "generate_media" => media_call(arguments),
        "update_plan" => Ok(ToolCall::UpdatePlan {
            plan: arguments.plan("entries")?,
        }),
        "spawn_subagents" => {
            let tasks = arguments.subagent_tasks("tasks")?;
            let dirs = tasks
                .iter()
                .map(|task| arguments.checked_path("tasks", subagent_directory(task)));
            Ok(ToolCall::SpawnSubagents {
                dirs: dirs.collect::<Result<_, _>>()?,
                tasks,
            })
        }
        name => Err(CallParseError::UnknownTool {
            name: name.to_owned(),
            nearest: None,
        }),
    }
}

/// Reads the label of the answer on which a command runs.
fn answer_label(arguments: &mut ToolCallArguments) -> Result<Option<AnswerLabel>, CallParseError> {
    let label = arguments.optional_text(ANSWER)?.map(|text| {
        AnswerLabel::try_from(text.clone()).map_err(|_| {
            arguments.invalid_value(ANSWER, &text, "the label of an answer, such as agent2.1")
        })
    });
    label.transpose()
}

/// Returns the directory of the subagent with this task, relative to its parent's workspace.
fn subagent_directory(task: &SubagentTask) -> String {
    format!("{SUBAGENTS_DIRECTORY}/{}", task.id)
}

/// Reads a command line that the shell can be given.
fn command_line(arguments: &mut ToolCallArguments) -> Result<String, CallParseError> {
    let command = arguments.text("command")?;
    if command.trim().is_empty() {
        return Err(arguments.invalid_value("command", &command, "a command: this one is empty"));
    }
    if command.contains('\0') {
        return Err(arguments.invalid_value("command", &command, "a command without NUL bytes"));
    }
    if command.len() > COMMAND_BYTES_MAX {
        let expected = format!("at most {COMMAND_BYTES_MAX} bytes; write a script file instead");
        return Err(arguments.invalid_value("command", &command, expected));
    }
    Ok(command)
}

/// Reads a call of a vendor's tool.
fn vendor_call(
    arguments: &mut ToolCallArguments,
    tool: VendorTool,
) -> Result<ToolCall, CallParseError> {
    let request = bounded_text(arguments, tool.parameter(), VENDOR_REQUEST_BYTES_MAX)?;
    Ok(ToolCall::AskVendor { tool, request })
}

/// Reads a text that is not empty and has at most `bytes_max` bytes.
fn bounded_text(
    arguments: &mut ToolCallArguments,
    name: &'static str,
    bytes_max: usize,
) -> Result<String, CallParseError> {
    let text = arguments.text(name)?;
    if text.trim().is_empty() {
        return Err(arguments.invalid_value(name, &text, "a text: this one is empty"));
    }
    if text.len() > bytes_max {
        let expected = format!("at most {bytes_max} bytes");
        return Err(arguments.invalid_value(name, &text, expected));
    }
    Ok(text)
}

fn media_call(arguments: &mut ToolCallArguments) -> Result<ToolCall, CallParseError> {
    let mode = arguments.text("mode")?;
    let Some(kind) = MediaKind::ALL.into_iter().find(|kind| kind.name() == mode) else {
        return Err(arguments.invalid_value("mode", &mode, "`image` or `audio`"));
    };
    let prompt = bounded_text(arguments, "prompt", MEDIA_PROMPT_BYTES_MAX)?;
    let path = arguments.path("path")?;
    let Some(format) = kind.format(path.as_str()) else {
        let extensions = kind.describe_formats();
        let expected = format!("a name that ends in one of {extensions}");
        return Err(arguments.invalid_value("path", path.as_str(), expected));
    };
    let mut style_text = |name: &'static str| match arguments.optional_text(name)? {
        Some(text) if text.len() > MEDIA_STYLE_BYTES_MAX => {
            let expected = format!("at most {MEDIA_STYLE_BYTES_MAX} bytes");
            Err(arguments.invalid_value(name, &text, expected))
        }
        text => Ok(text.filter(|text| !text.trim().is_empty())),
    };
    let (voice, style) = (style_text("voice")?, style_text("style")?);
    let order = MediaOrder {
        kind,
        prompt,
        format,
        voice,
        style,
    };
    Ok(ToolCall::GenerateMedia { path, order })
}

fn page_url(arguments: &mut ToolCallArguments) -> Result<PageUrl, CallParseError> {
    let text = arguments.text("url")?;
    PageUrl::parse(&text).map_err(|reason| {
        let expected = format!("the address of a page: this one {reason}");
        arguments.invalid_value("url", &text, expected)
    })
}

fn background_id(arguments: &mut ToolCallArguments) -> Result<BackgroundCommandId, CallParseError> {
    let id = arguments.positive_count("command_id")?;
    id.map(BackgroundCommandId)
        .ok_or_else(|| arguments.missing_parameter("command_id"))
}

fn line_range(arguments: &mut ToolCallArguments) -> Result<LineRange, CallParseError> {
    let head = arguments.positive_count("head")?;
    let tail = arguments.positive_count("tail")?;
    let first = arguments.positive_count("start_line")?;
    let last = arguments.positive_count("end_line")?;
    // Small models set each parameter that there is: numbers of lines say the most.
    match (first, last) {
        (None, None) => Ok(match (head, tail) {
            (Some(lines), None) => LineRange::Head(lines),
            (None, Some(lines)) => LineRange::Tail(lines),
            (None, None) | (Some(_), Some(_)) => LineRange::All,
        }),
        (first, Some(last)) if last < first.unwrap_or(1) => Err(arguments.invalid_value(
            "end_line",
            &last.to_string(),
            "a line not before `start_line`",
        )),
        (first, last) => Ok(LineRange::Range {
            first: first.unwrap_or(1),
            last,
        }),
    }
}

fn grep_query(arguments: &mut ToolCallArguments) -> Result<GrepQuery, CallParseError> {
    Ok(GrepQuery {
        pattern: arguments.pattern("pattern")?,
        case: match arguments.flag("ignore_case")? {
            Some(true) => CaseSensitivity::Insensitive,
            Some(false) | None => CaseSensitivity::Sensitive,
        },
        context_lines: context_lines(arguments)?.unwrap_or(0),
        selection: file_selection(arguments)?,
        results_max: results_max(arguments, "max_results", GREP_RESULTS_DEFAULT)?,
        ranking: Vec::new(),
    })
}

fn results_max(
    arguments: &mut ToolCallArguments,
    name: &'static str,
    default: u32,
) -> Result<u32, CallParseError> {
    let results = arguments.positive_count(name)?;
    Ok(results.map_or(default, |results| at_most(results, GREP_RESULTS_MAX)))
}

/// Reads a search that ranks files by the words of a query.
fn ranked_query(arguments: &mut ToolCallArguments) -> Result<GrepQuery, CallParseError> {
    let query = arguments.pattern("query")?;
    let mut words: Vec<String> = query
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.sort_unstable();
    words.dedup();
    if words.is_empty() {
        return Err(arguments.invalid_value("query", &query, "words"));
    }
    Ok(GrepQuery {
        pattern: words.join("|"),
        case: CaseSensitivity::Insensitive,
        context_lines: 0,
        selection: file_selection(arguments)?,
        results_max: results_max(arguments, "limit", RANKED_RESULTS_DEFAULT)?,
        ranking: words,
    })
}

fn context_lines(arguments: &mut ToolCallArguments) -> Result<Option<u32>, CallParseError> {
    let lines = arguments.count("context_lines")?;
    Ok(lines.map(|lines| at_most(lines, CONTEXT_LINES_MAX)))
}

fn at_most(number: u64, max: u32) -> u32 {
    u32::try_from(number).map_or(max, |number| number.min(max))
}

/// Reads a file selection. An empty list of patterns is rejected, because in a deletion it could
/// mean all files or none.
fn file_selection(arguments: &mut ToolCallArguments) -> Result<FileSelection, CallParseError> {
    let include = match arguments.globs("include_patterns")? {
        None => vec!["*".to_owned()],
        Some(globs) if globs.is_empty() => {
            let expected = "at least one glob; leave it out for all files";
            return Err(arguments.invalid_value("include_patterns", "[]", expected));
        }
        Some(globs) => globs,
    };
    Ok(FileSelection {
        include,
        exclude: arguments.globs("exclude_patterns")?.unwrap_or_default(),
    })
}

fn existing_target(arguments: &mut ToolCallArguments) -> Result<ExistingTarget, CallParseError> {
    Ok(match arguments.flag("overwrite")? {
        Some(true) => ExistingTarget::Overwrite,
        Some(false) | None => ExistingTarget::Keep,
    })
}
