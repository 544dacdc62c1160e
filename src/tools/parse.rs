//! Parses what a model wrote into a [`ToolCall`]. Anything unknown is an error that lists what is
//! known; nothing is guessed or looked up.

use crate::tools::arguments::ToolCallArguments;
use crate::tools::call::{
    BackgroundCommandId, CaseSensitivity, ContentDiff, DeleteRecursion, EditMode, ExistingTarget,
    FileSelection, GrepQuery, LineRange, SUBAGENTS_DIRECTORY, SubagentTask, ToolCall,
};
use crate::tools::error::{CallParseError, excerpt};
use crate::tools::media::{MediaKind, MediaOrder};
use crate::tools::page_url::PageUrl;
use crate::tools::served::ToolCatalogue;
use crate::tools::spec::{ToolSpec, WORK_TABLES};
use crate::tools::vendor_tool::VendorTool;

/// The default number of context lines around each difference.
const COMPARE_CONTEXT_LINES_DEFAULT: u32 = 3;

/// The maximum number of context lines around a match or a difference; a greater number is lowered
/// to this.
pub const CONTEXT_LINES_MAX: u32 = 100;

/// The default number of matching lines that a search shows.
pub const GREP_RESULTS_DEFAULT: u32 = 200;

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
        return tool.read(arguments);
    }
    let tool = find_tool(name, &WORK_TABLES)?;
    let mut arguments = ToolCallArguments::read(tool, arguments)?;
    build_call(tool, &mut arguments)
}

/// Finds the tool called `name`.
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

/// Returns the current name of a renamed tool.
pub(crate) fn canonical_name(name: &str) -> &str {
    match name {
        "read_file" => "read_text_file",
        name => name,
    }
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

/// Builds the call of a file tool. A row of the table without an arm here is unknown.
pub(crate) fn build_call(
    tool: &'static ToolSpec,
    take: &mut ToolCallArguments,
) -> Result<ToolCall, CallParseError> {
    match tool.name {
        "read_text_file" => Ok(ToolCall::ReadTextFile {
            path: take.path("path")?,
            lines: lines(take)?,
        }),
        "read_multiple_files" => Ok(ToolCall::ReadMultipleFiles {
            paths: take.paths("paths")?,
        }),
        "list_directory" => Ok(ToolCall::ListDirectory {
            path: take.path_or_workspace("path")?,
        }),
        "directory_tree" => Ok(ToolCall::DirectoryTree {
            path: take.path_or_workspace("path")?,
            exclude: take.globs("excludePatterns")?.unwrap_or_default(),
        }),
        "search_files" => Ok(ToolCall::SearchFiles {
            path: take.path_or_workspace("path")?,
            pattern: take.glob("pattern")?,
            exclude: take.globs("excludePatterns")?.unwrap_or_default(),
        }),
        "grep_files" => Ok(ToolCall::GrepFiles {
            path: take.path_or_workspace("path")?,
            grep: grep(take)?,
        }),
        "read_media_file" => Ok(ToolCall::ReadMediaFile {
            path: take.path("path")?,
        }),
        "get_file_info" => Ok(ToolCall::GetFileInfo {
            path: take.path("path")?,
        }),
        "list_allowed_directories" => Ok(ToolCall::ListAllowedDirectories),
        "compare_files" => Ok(ToolCall::CompareFiles {
            first: take.path("file1")?,
            second: take.path("file2")?,
            context_lines: context_lines(take)?.unwrap_or(COMPARE_CONTEXT_LINES_DEFAULT),
        }),
        "compare_directories" => Ok(ToolCall::CompareDirectories {
            first: take.path("dir1")?,
            second: take.path("dir2")?,
            content: match take.flag("show_content_diff")? {
                Some(true) => ContentDiff::Lines,
                Some(false) | None => ContentDiff::Names,
            },
        }),
        _ => build_writing(tool, take),
    }
}

fn build_writing(
    tool: &'static ToolSpec,
    take: &mut ToolCallArguments,
) -> Result<ToolCall, CallParseError> {
    match tool.name {
        "write_file" => Ok(ToolCall::WriteFile {
            path: take.path("path")?,
            content: take.text("content")?,
        }),
        "edit_file" => Ok(ToolCall::EditFile {
            path: take.path("path")?,
            edits: take.edits("edits")?,
            mode: match take.flag("dryRun")? {
                Some(true) => EditMode::DryRun,
                Some(false) | None => EditMode::Apply,
            },
        }),
        "create_directory" => Ok(ToolCall::CreateDirectory {
            path: take.path("path")?,
        }),
        "move_file" => Ok(ToolCall::MoveFile {
            source: take.path("source")?,
            destination: take.path("destination")?,
        }),
        "copy_file" => Ok(ToolCall::CopyFile {
            source: take.path("source_path")?,
            destination: take.path("destination_path")?,
            existing: existing_target(take)?,
        }),
        "copy_files_batch" => Ok(ToolCall::CopyFilesBatch {
            source: take.path("source_base_path")?,
            destination: take.path("destination_base_path")?,
            selection: selection(take)?,
            existing: existing_target(take)?,
        }),
        "delete_file" => Ok(ToolCall::DeleteFile {
            path: take.path("path")?,
            recursion: match take.flag("recursive")? {
                Some(false) => DeleteRecursion::EmptyOnly,
                Some(true) | None => DeleteRecursion::Whole,
            },
        }),
        "delete_files_batch" => Ok(ToolCall::DeleteFilesBatch {
            path: take.path("base_path")?,
            selection: selection(take)?,
        }),
        _ => build_command(tool, take),
    }
}

fn build_command(
    tool: &'static ToolSpec,
    take: &mut ToolCallArguments,
) -> Result<ToolCall, CallParseError> {
    match tool.name {
        "execute_command" => Ok(ToolCall::ExecuteCommand {
            command: command(take)?,
            timeout_seconds: take.lines("timeout")?,
            dir: take.path_or_workspace("work_dir")?,
        }),
        "start_background_command" => Ok(ToolCall::StartBackgroundCommand {
            command: command(take)?,
            dir: take.path_or_workspace("work_dir")?,
        }),
        "get_background_output" => Ok(ToolCall::GetBackgroundOutput {
            id: background_id(take)?,
            offset: take.count("offset")?.unwrap_or_default(),
        }),
        "get_background_status" => Ok(ToolCall::GetBackgroundStatus {
            id: background_id(take)?,
        }),
        "stop_background_command" => Ok(ToolCall::StopBackgroundCommand {
            id: background_id(take)?,
        }),
        "list_background_commands" => Ok(ToolCall::ListBackgroundCommands),
        "execute_code" => Ok(ToolCall::ExecuteCode {
            code: take.text("code")?,
            timeout_seconds: take.lines("timeout")?,
        }),
        "fetch_url" => Ok(ToolCall::FetchUrl {
            url: page_url(take)?,
        }),
        "web_search" => vendor_request(take, VendorTool::WebSearch),
        "vendor_code_execution" => vendor_request(take, VendorTool::CodeExecution),
        "generate_media" => media(take),
        "update_plan" => Ok(ToolCall::UpdatePlan {
            plan: take.plan("entries")?,
        }),
        "spawn_subagents" => {
            let tasks = take.subagent_tasks("tasks")?;
            let dirs = tasks
                .iter()
                .map(|task| take.checked_path("tasks", subagent_directory(task)));
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

/// Returns the directory of the subagent with this task, relative to its parent's workspace.
fn subagent_directory(task: &SubagentTask) -> String {
    format!("{SUBAGENTS_DIRECTORY}/{}", task.id)
}

/// Reads a command line that the shell can be given.
fn command(take: &mut ToolCallArguments) -> Result<String, CallParseError> {
    let command = take.text("command")?;
    if command.trim().is_empty() {
        return Err(take.invalid_value("command", &command, "a command: this one is empty"));
    }
    if command.contains('\0') {
        return Err(take.invalid_value("command", &command, "a command without NUL bytes"));
    }
    if command.len() > COMMAND_BYTES_MAX {
        let expected = format!("at most {COMMAND_BYTES_MAX} bytes; write a script file instead");
        return Err(take.invalid_value("command", &command, expected));
    }
    Ok(command)
}

/// Reads a call of a vendor's tool.
fn vendor_request(
    take: &mut ToolCallArguments,
    tool: VendorTool,
) -> Result<ToolCall, CallParseError> {
    let request = bounded_text(take, tool.parameter(), VENDOR_REQUEST_BYTES_MAX)?;
    Ok(ToolCall::AskVendor { tool, request })
}

/// Reads a text that is not empty and has at most `bytes_max` bytes.
fn bounded_text(
    take: &mut ToolCallArguments,
    name: &'static str,
    bytes_max: usize,
) -> Result<String, CallParseError> {
    let text = take.text(name)?;
    if text.trim().is_empty() {
        return Err(take.invalid_value(name, &text, "a text: this one is empty"));
    }
    if text.len() > bytes_max {
        let expected = format!("at most {bytes_max} bytes");
        return Err(take.invalid_value(name, &text, expected));
    }
    Ok(text)
}

fn media(take: &mut ToolCallArguments) -> Result<ToolCall, CallParseError> {
    let mode = take.text("mode")?;
    let Some(kind) = MediaKind::ALL.into_iter().find(|kind| kind.name() == mode) else {
        return Err(take.invalid_value("mode", &mode, "`image` or `audio`"));
    };
    let prompt = bounded_text(take, "prompt", MEDIA_PROMPT_BYTES_MAX)?;
    let path = take.path("path")?;
    let Some(format) = kind.format(path.as_str()) else {
        let ends = kind.describe_formats();
        let expected = format!("a name that ends in one of {ends}");
        return Err(take.invalid_value("path", path.as_str(), expected));
    };
    let mut words = |name: &'static str| match take.optional_text(name)? {
        Some(text) if text.len() > MEDIA_STYLE_BYTES_MAX => {
            let expected = format!("at most {MEDIA_STYLE_BYTES_MAX} bytes");
            Err(take.invalid_value(name, &text, expected))
        }
        text => Ok(text.filter(|text| !text.trim().is_empty())),
    };
    let (voice, style) = (words("voice")?, words("style")?);
    let order = MediaOrder {
        kind,
        prompt,
        format,
        voice,
        style,
    };
    Ok(ToolCall::GenerateMedia { path, order })
}

fn page_url(take: &mut ToolCallArguments) -> Result<PageUrl, CallParseError> {
    let text = take.text("url")?;
    PageUrl::parse(&text).map_err(|why| {
        let expected = format!("the address of a page: this one {why}");
        take.invalid_value("url", &text, expected)
    })
}

fn background_id(take: &mut ToolCallArguments) -> Result<BackgroundCommandId, CallParseError> {
    let id = take.lines("command_id")?;
    id.map(BackgroundCommandId)
        .ok_or_else(|| take.missing_parameter("command_id"))
}

fn lines(take: &mut ToolCallArguments) -> Result<LineRange, CallParseError> {
    let head = take.lines("head")?;
    let tail = take.lines("tail")?;
    let first = take.lines("start_line")?;
    let last = take.lines("end_line")?;
    match (head, tail, first, last) {
        (None, None, None, None) => Ok(LineRange::All),
        (Some(lines), None, None, None) => Ok(LineRange::Head(lines)),
        (None, Some(lines), None, None) => Ok(LineRange::Tail(lines)),
        (None, None, first, Some(last)) if last < first.unwrap_or(1) => Err(take.invalid_value(
            "end_line",
            &last.to_string(),
            "a line not before `start_line`",
        )),
        (None, None, first, last) => Ok(LineRange::Range {
            first: first.unwrap_or(1),
            last,
        }),
        (Some(_), Some(_), _, _) => Err(take.conflicting_parameters("head", "tail")),
        (Some(_), None, Some(_), _) => Err(take.conflicting_parameters("head", "start_line")),
        (Some(_), None, None, Some(_)) => Err(take.conflicting_parameters("head", "end_line")),
        (None, Some(_), Some(_), _) => Err(take.conflicting_parameters("tail", "start_line")),
        (None, Some(_), None, Some(_)) => Err(take.conflicting_parameters("tail", "end_line")),
    }
}

fn grep(take: &mut ToolCallArguments) -> Result<GrepQuery, CallParseError> {
    Ok(GrepQuery {
        pattern: take.pattern("pattern")?,
        case: match take.flag("ignore_case")? {
            Some(true) => CaseSensitivity::Insensitive,
            Some(false) | None => CaseSensitivity::Sensitive,
        },
        context_lines: context_lines(take)?.unwrap_or(0),
        selection: selection(take)?,
        results_max: take
            .lines("max_results")?
            .map_or(GREP_RESULTS_DEFAULT, |results| {
                at_most(results, GREP_RESULTS_MAX)
            }),
    })
}

fn context_lines(take: &mut ToolCallArguments) -> Result<Option<u32>, CallParseError> {
    let lines = take.count("context_lines")?;
    Ok(lines.map(|lines| at_most(lines, CONTEXT_LINES_MAX)))
}

fn at_most(number: u64, most: u32) -> u32 {
    u32::try_from(number).map_or(most, |number| number.min(most))
}

/// Reads a file selection. An empty list of patterns is refused: a deletion must not confuse
/// nothing with everything.
fn selection(take: &mut ToolCallArguments) -> Result<FileSelection, CallParseError> {
    let include = match take.globs("include_patterns")? {
        None => vec!["*".to_owned()],
        Some(globs) if globs.is_empty() => {
            let expected = "at least one glob; leave it out for all files";
            return Err(take.invalid_value("include_patterns", "[]", expected));
        }
        Some(globs) => globs,
    };
    Ok(FileSelection {
        include,
        exclude: take.globs("exclude_patterns")?.unwrap_or_default(),
    })
}

fn existing_target(take: &mut ToolCallArguments) -> Result<ExistingTarget, CallParseError> {
    Ok(match take.flag("overwrite")? {
        Some(true) => ExistingTarget::Overwrite,
        Some(false) | None => ExistingTarget::Keep,
    })
}
