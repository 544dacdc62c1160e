//! The table of tools: the name, parameters, purpose and result of each. What models are offered,
//! what the parser accepts and what the documentation lists all come from it.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value, json};

use crate::permissions::grant::Permission;
use crate::tools::task_plan::PlanEntryStatus;
use crate::tools::vendor_tool::VendorTool;

/// A tool.
#[derive(Debug)]
pub struct ToolSpec {
    /// The name in calls.
    pub name: &'static str,
    /// Its purpose, for models: every byte is sent with every request.
    pub purpose: &'static str,
    /// The permission it needs: a tool that writes is useless where nothing is writable.
    pub permission: Permission,
    /// Its parameters, in the order in which they are offered.
    pub parameters: &'static [ToolParameter],
    /// Its result, for people.
    pub result: &'static str,
}

/// A parameter of a tool.
#[derive(Debug)]
pub struct ToolParameter {
    /// Its name.
    pub name: &'static str,
    /// The type of its value.
    pub kind: ParameterType,
    /// Whether it is required.
    pub need: ParameterNeed,
    /// What the name does not say; may be empty.
    pub note: &'static str,
}

/// The offer of a tool to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOffer {
    /// The name in calls.
    pub name: Cow<'static, str>,
    /// Its purpose, for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

impl ToolOffer {
    /// Returns the offer without one of its optional parameters.
    #[must_use]
    pub(super) fn without_parameter(mut self, name: &str) -> Self {
        let properties = self.parameters.pointer_mut("/properties");
        if let Some(properties) = properties.and_then(Value::as_object_mut) {
            properties.shift_remove(name);
        }
        self
    }
}

/// The type of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterType {
    /// A string.
    Text,
    /// A non-negative integer.
    Count,
    /// A boolean.
    Flag,
    /// A list of strings.
    Texts,
    /// A list of replacements.
    Edits,
    /// The first and the last of several lines.
    Lines,
    /// A list of scores.
    Scores,
    /// The entries of a plan.
    PlanEntries,
    /// A list of tasks.
    Tasks,
}

/// The highest score of a criterion.
pub const CRITERION_SCORE_MAX: u8 = 10;

/// Whether a parameter is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterNeed {
    /// Required.
    Required,
    /// Optional.
    Optional,
}

impl ParameterType {
    fn schema(self) -> Value {
        match self {
            ParameterType::Text => json!({"type": "string"}),
            ParameterType::Count => json!({"type": "integer"}),
            ParameterType::Flag => json!({"type": "boolean"}),
            ParameterType::Texts => json!({"type": "array", "items": {"type": "string"}}),
            ParameterType::Lines | ParameterType::Scores => {
                json!({"type": "array", "items": {"type": "integer"}})
            }
            ParameterType::Edits => json!({"type": "array", "items": {
                "type": "object",
                "properties": {"oldText": {"type": "string"}, "newText": {"type": "string"}},
                "required": ["oldText", "newText"],
            }}),
            ParameterType::PlanEntries => json!({"type": "array", "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string"},
                    "status": {"type": "string", "enum": PlanEntryStatus::ALL},
                },
                "required": ["content", "status"],
            }}),
            ParameterType::Tasks => json!({"type": "array", "items": {
                "type": "object",
                "properties": {"id": {"type": "string"}, "task": {"type": "string"}},
                "required": ["id", "task"],
            }}),
        }
    }

    /// Describes to a model what to send.
    pub fn describe_expected(self) -> &'static str {
        match self {
            ParameterType::Text => "a text",
            ParameterType::Count => "a whole number",
            ParameterType::Flag => "true or false",
            ParameterType::Texts => "a list of texts",
            ParameterType::Lines => {
                "a list of two line numbers, the first from 1, the last not before it, or -1 for \
                 the end"
            }
            ParameterType::Scores => "a list of whole numbers from 0 to 10",
            ParameterType::Edits => r#"a list of {"oldText": text, "newText": text}"#,
            ParameterType::PlanEntries => {
                r#"a list of {"content": text, "status": pending, in_progress or completed}"#
            }
            ParameterType::Tasks => r#"a list of {"id": text, "task": text}"#,
        }
    }
}

impl ToolSpec {
    /// Returns the parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&ToolParameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.name == name)
    }

    /// Returns the offer of the tool to a model.
    pub fn offer(&self) -> ToolOffer {
        ToolOffer {
            name: Cow::Borrowed(self.name),
            description: self.purpose.to_owned(),
            parameters: self.schema(),
        }
    }

    /// Returns the JSON Schema of the arguments, without keywords that repeat a default.
    fn schema(&self) -> Value {
        let properties: Map<String, Value> = self
            .parameters
            .iter()
            .map(|parameter| (parameter.name.to_owned(), parameter.schema()))
            .collect();
        let required_names: Vec<&str> = self
            .parameters
            .iter()
            .filter(|parameter| parameter.need == ParameterNeed::Required)
            .map(|parameter| parameter.name)
            .collect();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        if !required_names.is_empty() {
            schema.insert("required".to_owned(), json!(required_names));
        }
        Value::Object(schema)
    }
}

impl ToolParameter {
    fn schema(&self) -> Value {
        let mut schema = self.kind.schema();
        if let (Some(fields), false) = (schema.as_object_mut(), self.note.is_empty()) {
            fields.insert("description".to_owned(), json!(self.note));
        }
        schema
    }
}

impl fmt::Display for ToolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Declares a table of tools: of each the permission that it needs, its name, purpose, result and
/// parameters.
macro_rules! tool_table {
    ($(
        $permission:ident $name:expr => $purpose:expr, $result:expr, {
            $($need:ident $kind:ident $parameter:expr $(=> $note:expr)?;)*
        }
    )+) => {
        &[$($crate::tools::spec::ToolSpec {
            name: $name,
            purpose: $purpose,
            permission: $crate::permissions::grant::Permission::$permission,
            parameters: &[$($crate::tools::spec::ToolParameter {
                name: $parameter,
                kind: $crate::tools::spec::ParameterType::$kind,
                need: $crate::tools::spec::ParameterNeed::$need,
                note: $crate::tools::spec::tool_note!($($note)?),
            }),*],
            result: $result,
        }),+]
    };
}

/// The note of a parameter, which may have none.
macro_rules! tool_note {
    () => {
        ""
    };
    ($note:expr) => {
        $note
    };
}

pub(crate) use {tool_note, tool_table};

/// The name of the tool that reads images. It is offered only to models that accept images.
pub(crate) const READ_MEDIA_FILE: &str = "read_media_file";

/// The tool that replaces parts of a file. Models that were trained on [`APPLY_PATCH`] are offered
/// that one in its place.
pub(crate) const EDIT_FILE: &str = "edit_file";

/// The tool that applies a patch to several files.
pub(crate) const APPLY_PATCH: &str = "apply_patch";

/// The tool with which Anthropic's models are trained to read and change files.
pub(crate) const TEXT_EDITOR: &str = "str_replace_based_edit_tool";

/// The commands of [`TEXT_EDITOR`].
pub(crate) const TEXT_EDITOR_COMMANDS: &str = "view, create, str_replace or insert";

/// The parameter that names the answer on which a command runs. It is offered only to agents that
/// see answers of others and can be shown their changes.
pub(crate) const ANSWER: &str = "answer";

/// The file tools, in the order in which they are offered.
pub const TOOLS: &[ToolSpec] = tool_table! {
    Read "read_text_file" => "Read a text file or some of its lines.", "the text", {
        Required Text "path";
        Optional Count "head" => "first lines";
        Optional Count "tail" => "last lines";
        Optional Count "start_line" => "from 1";
        Optional Count "end_line" => "included";
    }
    Read "read_multiple_files" => "Read several text files.",
        "each text under a line with its path, or why it cannot be read", {
        Required Texts "paths";
    }
    Read "list_directory" => "List a directory.", "one line for each entry, with its kind", {
        Optional Text "path";
    }
    Read "directory_tree" => "List a directory and all below it.",
        "one line for each entry, indented by its depth", {
        Optional Text "path";
        Optional Texts "excludePatterns" => "globs";
    }
    Read "search_files" => "Find files and directories by name.", "one path a line", {
        Optional Text "path";
        Required Text "pattern" => "glob; * crosses /";
        Optional Texts "excludePatterns" => "globs";
    }
    Read "grep_files" => "Find lines in files by regular expression.",
        "the matching lines, each after its path and number", {
        Optional Text "path";
        Required Text "pattern";
        Optional Flag "ignore_case";
        Optional Count "context_lines";
        Optional Texts "include_patterns" => "globs";
        Optional Texts "exclude_patterns" => "globs";
        Optional Count "max_results";
    }
    Read "get_file_info" => "Tell size, type, times and mode of a path.", "one property a line", {
        Required Text "path";
    }
    Read READ_MEDIA_FILE => "Look at a PNG, JPEG, GIF or WebP image.", "the image", {
        Required Text "path";
    }
    Read "compare_files" => "Compare two text files.", "that they are identical, or the diff", {
        Required Text "file1";
        Required Text "file2";
        Optional Count "context_lines" => "default 3";
    }
    Read "compare_directories" => "Compare two directories.",
        "which names are in one only, which differ and which are the same", {
        Required Text "dir1";
        Required Text "dir2";
        Optional Flag "show_content_diff";
    }
    Read "list_allowed_directories" => "List what you may read and write.",
        "one path a line, after its permission", {}
    Write "write_file" => "Create or replace a file.", "how many bytes were written", {
        Required Text "path";
        Required Text "content";
    }
    Write EDIT_FILE => "Replace parts of a text file; each oldText must occur exactly once.",
        "the diff", {
        Required Text "path";
        Required Edits "edits";
        Optional Flag "dryRun" => "only show the diff";
    }
    Write APPLY_PATCH => "Add, change, move and delete text files, as `apply_patch` does \
        elsewhere: from `*** Begin Patch` to `*** End Patch`, with `*** Update File: PATH`, `*** \
        Move to: PATH`, `@@ HEAD OF FUNCTION` and lines marked ` `, `-` or `+`, with `*** Add \
        File: PATH` and `+` lines, or with `*** Delete File: PATH`.", "the changed files", {
        Required Text "input";
    }
    Write "create_directory" => "Create a directory and its parents.",
        "that it was created, or already existed", {
        Required Text "path";
    }
    Write "move_file" => "Move or rename a file or directory; the destination must not exist.",
        "that it was moved", {
        Required Text "source";
        Required Text "destination";
    }
    Write "copy_file" => "Copy a file or directory.", "how much was copied", {
        Required Text "source_path";
        Required Text "destination_path";
        Optional Flag "overwrite";
    }
    Write "copy_files_batch" => "Copy the files of a directory that match globs; without \
        overwrite, existing ones are skipped.",
        "how many files were copied, skipped and refused, and which", {
        Required Text "source_base_path";
        Required Text "destination_base_path";
        Optional Texts "include_patterns" => "default all";
        Optional Texts "exclude_patterns";
        Optional Flag "overwrite";
    }
    Write "delete_file" => "Delete a file or directory.", "how much was deleted", {
        Required Text "path";
        Optional Flag "recursive" => "false: only an empty directory";
    }
    Write "delete_files_batch" => "Delete the files of a directory that match globs.",
        "how many files were deleted and refused, and which", {
        Required Text "base_path";
        Optional Texts "include_patterns" => "default all";
        Optional Texts "exclude_patterns";
    }
};

/// The tools that run commands, in the order in which they are offered.
pub const COMMANDS: &[ToolSpec] = tool_table! {
    Read "execute_command" => "Run a shell command (bash) in a sandbox with your permissions, and \
        wait for it. What it leaves running ends with it.",
        "JSON: `success`, `exit_code`, `stdout`, `stderr`, `execution_time` in seconds, `command`, \
        `work_dir`, and `notes` if there is more to say", {
        Required Text "command";
        Optional Count "timeout" => "seconds, default 60, at most 3600";
        Optional Text "work_dir" => "default your workspace";
        Optional Text ANSWER
            => "label: run on the project with that answer's changes; what it writes is discarded";
    }
    Read "start_background_command" => "Start a shell command that runs while you do other things. \
        No other command of a sandbox can connect to it.", "JSON: `command_id` and `status`", {
        Required Text "command";
        Optional Text "work_dir";
    }
    Read "get_background_output" => "Read what a background command has printed.",
        "JSON: `output`, `next_offset` for the next call, `status`", {
        Required Count "command_id";
        Optional Count "offset" => "bytes that you have read";
    }
    Read "get_background_status" => "Tell whether a background command still runs.",
        "JSON: `status`, `exit_code`, `running_seconds`, `output_bytes`", {
        Required Count "command_id";
    }
    Read "stop_background_command" => "End a background command and all that it started.",
        "JSON: `status`", {
        Required Count "command_id";
    }
    Read "list_background_commands" => "List your background commands.",
        "JSON: `commands`, each with `command_id`, `command` and `status`", {}
};

/// Tools in the formats of other systems, whose calls become calls of [`TOOLS`].
pub const TRANSLATED_TOOLS: &[ToolSpec] = tool_table! {
    Write TEXT_EDITOR => "View a file with line numbers or a directory, create or replace a file, \
        replace a text that occurs exactly once, or insert lines below a line.",
        "the lines or entries, how many bytes were written, or the diff", {
        Required Text "command" => TEXT_EDITOR_COMMANDS;
        Required Text "path";
        Optional Lines "view_range" => "first and last line; -1: the end";
        Optional Text "file_text" => "of create";
        Optional Text "old_str" => "of str_replace";
        Optional Text "new_str" => "of str_replace";
        Optional Count "insert_line" => "0: the beginning";
        Optional Text "insert_text";
    }
    Write "diff_patch_workspace_file" => "Change a text file by a unified diff.",
        "the changed file", {
        Required Text "filepath";
        Required Text "diff";
    }
    Read "semantic_search_workspace_files" => "Find the files that contain the most words of a \
        query, and their best lines.", "the lines, each after its path and number", {
        Required Text "query";
        Optional Text "folder";
        Optional Count "limit" => "lines, default 20";
    }
};

/// The tool for agents that write programs instead of single calls.
pub const PROGRAMS: &[ToolSpec] = tool_table! {
    Read "execute_code" => "Run a program that works by the functions of `workspace_tools`, and \
        wait for it.",
        "JSON: `success`, `exit_code`, `stdout`, `stderr`, `execution_time` in seconds, `calls` \
        with the calls that it made, and `notes` if there is more to say", {
        Required Text "code" => "the whole program";
        Optional Count "timeout" => "seconds, default 60, at most 3600";
    }
};

/// The tool that reads pages of the Web.
pub const PAGES: &[ToolSpec] = tool_table! {
    Read "fetch_url" => "Read a page of the Web: HTML as Markdown, JSON and text as they are.",
        "the text of the page in a frame, or the address that it redirects to", {
        Required Text "url";
    }
};

/// The tools that an agent's vendor runs, where the vendor does not combine them with others.
pub const VENDOR_TOOLS: &[ToolSpec] = tool_table! {
    Read VendorTool::WebSearch.name() => "Search the Web.",
        "what was found, with the addresses of the pages, in a frame", {
        Required Text VendorTool::WebSearch.parameter() => "what you want to know";
    }
    Read VendorTool::CodeExecution
        .name() => "Have something computed by a program, far from your files.",
        "the result and the program, in a frame", {
        Required Text VendorTool::CodeExecution.parameter() => "what to compute, with all the data";
    }
};

/// The tool by which an agent has its vendor make files.
pub const MEDIA: &[ToolSpec] = tool_table! {
    Write "generate_media" => "Generate an image, or speech from text, as a new file.",
        "the size of the file", {
        Required Text "mode" => "image or audio";
        Required Text "prompt" => "what the image shows, or the text to speak";
        Required Text "path" => "ends in .png, .jpg or .webp; or in .mp3, .wav, .opus, .aac or .flac";
        Optional Text "voice" => "of speech";
        Optional Text "style" => "how to speak";
    }
};

/// The tool with which an agent keeps its plan.
pub const PLANNING: &[ToolSpec] = tool_table! {
    Read "update_plan" => "Write down or update your plan, which people see. Send all steps each \
        time, in order. Plan work of several steps first, keep one step in_progress, and complete \
        each when it is done.", "how many steps are done", {
        Required PlanEntries "entries";
    }
};

/// The tool by which an agent gives parts of its work to subagents.
pub const SUBAGENTS: &[ToolSpec] = tool_table! {
    Write "spawn_subagents" => "Give independent parts of your work to subagents, which work in \
        parallel, and wait for their results. Each starts with an empty directory `.subagents/ID` \
        in your workspace, reads what you may read, writes only there, and knows only its task.",
        "JSON: `success`, and `results` with `id`, `status`, `answer`, `error`, `workspace`, \
        `files` and `execution_time` in seconds of each subagent", {
        Required Tasks "tasks"
            => "id: a new short name, in lower case; task: all that it has to know";
    }
};

/// The tables of the tools with which agents work.
pub const WORK_TABLES: [&[ToolSpec]; 9] = [
    TOOLS,
    TRANSLATED_TOOLS,
    COMMANDS,
    PROGRAMS,
    PLANNING,
    PAGES,
    VENDOR_TOOLS,
    MEDIA,
    SUBAGENTS,
];
