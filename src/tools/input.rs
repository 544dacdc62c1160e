//! Converts a [`ToolCall`] back to what a model would have written: the inverse of `tools::parse`,
//! so that a call of any origin can be shown to people and programs.

use serde_json::{Map, Value, json};

use crate::tools::call::{
    CaseSensitivity, ContentDiff, DeleteRecursion, EditMode, ExistingTarget, FileEdit,
    FileSelection, GrepQuery, LineRange, SubagentTask, ToolCall, UserPath,
};
use crate::tools::spec::ANSWER;

impl ToolCall {
    /// Returns the arguments under the names of the tool's parameters, with paths as written.
    pub fn input(&self) -> Value {
        match self {
            ToolCall::ReadTextFile { path, lines, .. } => read_text_file_input(path, *lines),
            ToolCall::ReadMultipleFiles { paths } => {
                let paths: Vec<&str> = paths.iter().map(UserPath::as_str).collect();
                json!({ "paths": paths })
            }
            ToolCall::ListDirectory { path }
            | ToolCall::ReadMediaFile { path }
            | ToolCall::GetFileInfo { path }
            | ToolCall::CreateDirectory { path } => json!({ "path": path.as_str() }),
            ToolCall::DirectoryTree { path, exclude } => {
                json!({ "path": path.as_str(), "excludePatterns": exclude })
            }
            ToolCall::SearchFiles {
                path,
                pattern,
                exclude,
            } => json!({
                "path": path.as_str(), "pattern": pattern, "excludePatterns": exclude,
            }),
            ToolCall::GrepFiles { path, grep } => grep_files_input(path, grep),
            ToolCall::CompareFiles {
                first,
                second,
                context_lines,
            } => json!({
                "file1": first.as_str(), "file2": second.as_str(), "context_lines": context_lines,
            }),
            ToolCall::CompareDirectories {
                first,
                second,
                content,
            } => json!({
                "dir1": first.as_str(), "dir2": second.as_str(),
                "show_content_diff": *content == ContentDiff::Lines,
            }),
            ToolCall::ListAllowedDirectories | ToolCall::ListBackgroundCommands => json!({}),
            ToolCall::FetchUrl { url } => json!({ "url": url.as_str() }),
            ToolCall::AskVendor { tool, request } => json!({ tool.parameter(): request }),
            ToolCall::GenerateMedia { path, order } => json!({
                "mode": order.kind.name(), "prompt": order.prompt, "path": path.as_str(),
                "voice": order.voice, "style": order.style,
            }),
            ToolCall::ApplyPatch { text, .. } => json!({ "input": text }),
            ToolCall::UpdatePlan { plan } => json!({ "entries": plan }),
            ToolCall::CallServer(call) => Value::Object(call.arguments.clone()),
            ToolCall::SpawnSubagents { tasks, .. } => {
                let tasks: Vec<Value> = tasks.iter().map(task_input).collect();
                json!({ "tasks": tasks })
            }
            ToolCall::ExecuteCommand { .. }
            | ToolCall::StartBackgroundCommand { .. }
            | ToolCall::GetBackgroundOutput { .. }
            | ToolCall::GetBackgroundStatus { .. }
            | ToolCall::StopBackgroundCommand { .. }
            | ToolCall::ExecuteCode { .. } => self.command_input(),
            ToolCall::WriteFile { .. }
            | ToolCall::EditFile { .. }
            | ToolCall::MoveFile { .. }
            | ToolCall::CopyFile { .. }
            | ToolCall::CopyFilesBatch { .. }
            | ToolCall::DeleteFile { .. }
            | ToolCall::DeleteFilesBatch { .. } => self.writing_input(),
        }
    }

    /// Returns the arguments of a tool that changes files.
    fn writing_input(&self) -> Value {
        if let ToolCall::WriteFile { path, content } = self {
            json!({ "path": path.as_str(), "content": content })
        } else if let ToolCall::EditFile { path, edits, mode } = self {
            let edits: Vec<Value> = edits.iter().map(edit_input).collect();
            json!({ "path": path.as_str(), "edits": edits, "dryRun": *mode == EditMode::DryRun })
        } else if let ToolCall::MoveFile {
            source,
            destination,
        } = self
        {
            json!({ "source": source.as_str(), "destination": destination.as_str() })
        } else if let ToolCall::CopyFile {
            source,
            destination,
            existing,
        } = self
        {
            json!({
                "source_path": source.as_str(), "destination_path": destination.as_str(),
                "overwrite": *existing == ExistingTarget::Overwrite,
            })
        } else if let ToolCall::CopyFilesBatch {
            source,
            destination,
            selection,
            existing,
        } = self
        {
            let input = json!({
                "source_base_path": source.as_str(),
                "destination_base_path": destination.as_str(),
                "overwrite": *existing == ExistingTarget::Overwrite,
            });
            with_selection(input, selection)
        } else if let ToolCall::DeleteFile { path, recursion } = self {
            json!({ "path": path.as_str(), "recursive": *recursion == DeleteRecursion::Whole })
        } else if let ToolCall::DeleteFilesBatch { path, selection } = self {
            with_selection(json!({ "base_path": path.as_str() }), selection)
        } else {
            // `input` passes only the calls above.
            json!({})
        }
    }

    /// Returns the arguments of a tool that runs commands or programs.
    fn command_input(&self) -> Value {
        if let ToolCall::ExecuteCommand {
            command,
            timeout_seconds,
            dir,
            answer,
        } = self
        {
            let mut input = json!({ "command": command, "work_dir": dir.as_str() });
            if let (Some(label), Value::Object(fields)) = (answer, &mut input) {
                fields.insert(ANSWER.to_owned(), json!(label));
            }
            with_timeout(input, *timeout_seconds)
        } else if let ToolCall::ExecuteCode {
            code,
            timeout_seconds,
        } = self
        {
            with_timeout(json!({ "code": code }), *timeout_seconds)
        } else if let ToolCall::StartBackgroundCommand { command, dir } = self {
            json!({ "command": command, "work_dir": dir.as_str() })
        } else if let ToolCall::GetBackgroundOutput { id, offset } = self {
            json!({ "command_id": id.0, "offset": offset })
        } else if let ToolCall::GetBackgroundStatus { id }
        | ToolCall::StopBackgroundCommand { id } = self
        {
            json!({ "command_id": id.0 })
        } else {
            // `input` passes only the calls above.
            json!({})
        }
    }
}

fn read_text_file_input(path: &UserPath, lines: LineRange) -> Value {
    let mut fields = Map::new();
    fields.insert("path".to_owned(), json!(path.as_str()));
    let mut add = |name: &str, number: u64| drop(fields.insert(name.to_owned(), json!(number)));
    match lines {
        LineRange::All => {}
        LineRange::Head(number) => add("head", number),
        LineRange::Tail(number) => add("tail", number),
        LineRange::Range { first, last } => {
            add("start_line", first);
            if let Some(last_line) = last {
                add("end_line", last_line);
            }
        }
    }
    Value::Object(fields)
}

fn edit_input(edit: &FileEdit) -> Value {
    match edit {
        FileEdit::Replacement { old, new } => json!({ "oldText": old, "newText": new }),
        FileEdit::Insertion { line, text } => json!({ "insertLine": line, "newText": text }),
    }
}

fn grep_files_input(path: &UserPath, grep: &GrepQuery) -> Value {
    let input = json!({
        "path": path.as_str(), "pattern": grep.pattern,
        "ignore_case": grep.case == CaseSensitivity::Insensitive,
        "context_lines": grep.context_lines, "max_results": grep.results_max,
    });
    with_selection(input, &grep.selection)
}

fn with_timeout(mut input: Value, seconds: Option<u64>) -> Value {
    if let (Some(seconds), Value::Object(fields)) = (seconds, &mut input) {
        fields.insert("timeout".to_owned(), json!(seconds));
    }
    input
}

fn with_selection(mut input: Value, selection: &FileSelection) -> Value {
    if let Value::Object(fields) = &mut input {
        fields.insert("include_patterns".to_owned(), json!(selection.include));
        fields.insert("exclude_patterns".to_owned(), json!(selection.exclude));
    }
    input
}

/// Returns the fields of the task of a subagent.
fn task_input(task: &SubagentTask) -> Value {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), json!(task.id.as_str()));
    fields.insert("task".to_owned(), json!(task.task));
    let choices = [
        ("subagent_type", &task.subagent_type),
        ("agent", &task.agent),
    ];
    for (name, choice) in choices {
        if let Some(choice) = choice {
            fields.insert(name.to_owned(), json!(choice));
        }
    }
    Value::Object(fields)
}
