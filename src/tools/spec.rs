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

const fn required_parameter(
    name: &'static str,
    kind: ParameterType,
    note: &'static str,
) -> ToolParameter {
    ToolParameter {
        name,
        kind,
        need: ParameterNeed::Required,
        note,
    }
}

const fn optional(name: &'static str, kind: ParameterType, note: &'static str) -> ToolParameter {
    ToolParameter {
        name,
        kind,
        need: ParameterNeed::Optional,
        note,
    }
}

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
pub const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "read_text_file",
        purpose: "Read a text file or some of its lines.",
        permission: Permission::Read,
        parameters: &[
            required_parameter("path", ParameterType::Text, ""),
            optional("head", ParameterType::Count, "first lines"),
            optional("tail", ParameterType::Count, "last lines"),
            optional("start_line", ParameterType::Count, "from 1"),
            optional("end_line", ParameterType::Count, "included"),
        ],
        result: "the text",
    },
    ToolSpec {
        name: "read_multiple_files",
        purpose: "Read several text files.",
        permission: Permission::Read,
        parameters: &[required_parameter("paths", ParameterType::Texts, "")],
        result: "each text under a line with its path, or why it cannot be read",
    },
    ToolSpec {
        name: "list_directory",
        purpose: "List a directory.",
        permission: Permission::Read,
        parameters: &[optional("path", ParameterType::Text, "")],
        result: "one line for each entry, with its kind",
    },
    ToolSpec {
        name: "directory_tree",
        purpose: "List a directory and all below it.",
        permission: Permission::Read,
        parameters: &[
            optional("path", ParameterType::Text, ""),
            optional("excludePatterns", ParameterType::Texts, "globs"),
        ],
        result: "one line for each entry, indented by its depth",
    },
    ToolSpec {
        name: "search_files",
        purpose: "Find files and directories by name.",
        permission: Permission::Read,
        parameters: &[
            optional("path", ParameterType::Text, ""),
            required_parameter("pattern", ParameterType::Text, "glob; * crosses /"),
            optional("excludePatterns", ParameterType::Texts, "globs"),
        ],
        result: "one path a line",
    },
    ToolSpec {
        name: "grep_files",
        purpose: "Find lines in files by regular expression.",
        permission: Permission::Read,
        parameters: &[
            optional("path", ParameterType::Text, ""),
            required_parameter("pattern", ParameterType::Text, ""),
            optional("ignore_case", ParameterType::Flag, ""),
            optional("context_lines", ParameterType::Count, ""),
            optional("include_patterns", ParameterType::Texts, "globs"),
            optional("exclude_patterns", ParameterType::Texts, "globs"),
            optional("max_results", ParameterType::Count, ""),
        ],
        result: "the matching lines, each after its path and number",
    },
    ToolSpec {
        name: "get_file_info",
        purpose: "Tell size, type, times and mode of a path.",
        permission: Permission::Read,
        parameters: &[required_parameter("path", ParameterType::Text, "")],
        result: "one property a line",
    },
    ToolSpec {
        name: READ_MEDIA_FILE,
        purpose: "Look at a PNG, JPEG, GIF or WebP image.",
        permission: Permission::Read,
        parameters: &[required_parameter("path", ParameterType::Text, "")],
        result: "the image",
    },
    ToolSpec {
        name: "compare_files",
        purpose: "Compare two text files.",
        permission: Permission::Read,
        parameters: &[
            required_parameter("file1", ParameterType::Text, ""),
            required_parameter("file2", ParameterType::Text, ""),
            optional("context_lines", ParameterType::Count, "default 3"),
        ],
        result: "that they are identical, or the diff",
    },
    ToolSpec {
        name: "compare_directories",
        purpose: "Compare two directories.",
        permission: Permission::Read,
        parameters: &[
            required_parameter("dir1", ParameterType::Text, ""),
            required_parameter("dir2", ParameterType::Text, ""),
            optional("show_content_diff", ParameterType::Flag, ""),
        ],
        result: "which names are in one only, which differ and which are the same",
    },
    ToolSpec {
        name: "list_allowed_directories",
        purpose: "List what you may read and write.",
        permission: Permission::Read,
        parameters: &[],
        result: "one path a line, after its permission",
    },
    ToolSpec {
        name: "write_file",
        purpose: "Create or replace a file.",
        permission: Permission::Write,
        parameters: &[
            required_parameter("path", ParameterType::Text, ""),
            required_parameter("content", ParameterType::Text, ""),
        ],
        result: "how many bytes were written",
    },
    ToolSpec {
        name: EDIT_FILE,
        purpose: "Replace parts of a text file; each oldText must occur exactly once.",
        permission: Permission::Write,
        parameters: &[
            required_parameter("path", ParameterType::Text, ""),
            required_parameter("edits", ParameterType::Edits, ""),
            optional("dryRun", ParameterType::Flag, "only show the diff"),
        ],
        result: "the diff",
    },
    ToolSpec {
        name: APPLY_PATCH,
        purpose: "Add, change, move and delete text files, as `apply_patch` does elsewhere: from `*** \
                  Begin Patch` to `*** End Patch`, with `*** Update File: PATH`, `*** Move to: PATH`, \
                  `@@ HEAD OF FUNCTION` and lines marked ` `, `-` or `+`, with `*** Add File: PATH` \
                  and `+` lines, or with `*** Delete File: PATH`.",
        permission: Permission::Write,
        parameters: &[required_parameter("input", ParameterType::Text, "")],
        result: "the changed files",
    },
    ToolSpec {
        name: "create_directory",
        purpose: "Create a directory and its parents.",
        permission: Permission::Write,
        parameters: &[required_parameter("path", ParameterType::Text, "")],
        result: "that it was created, or already existed",
    },
    ToolSpec {
        name: "move_file",
        purpose: "Move or rename a file or directory; the destination must not exist.",
        permission: Permission::Write,
        parameters: &[
            required_parameter("source", ParameterType::Text, ""),
            required_parameter("destination", ParameterType::Text, ""),
        ],
        result: "that it was moved",
    },
    ToolSpec {
        name: "copy_file",
        purpose: "Copy a file or directory.",
        permission: Permission::Write,
        parameters: &[
            required_parameter("source_path", ParameterType::Text, ""),
            required_parameter("destination_path", ParameterType::Text, ""),
            optional("overwrite", ParameterType::Flag, ""),
        ],
        result: "how much was copied",
    },
    ToolSpec {
        name: "copy_files_batch",
        purpose: "Copy the files of a directory that match globs; without overwrite, existing ones are skipped.",
        permission: Permission::Write,
        parameters: &[
            required_parameter("source_base_path", ParameterType::Text, ""),
            required_parameter("destination_base_path", ParameterType::Text, ""),
            optional("include_patterns", ParameterType::Texts, "default all"),
            optional("exclude_patterns", ParameterType::Texts, ""),
            optional("overwrite", ParameterType::Flag, ""),
        ],
        result: "how many files were copied, skipped and refused, and which",
    },
    ToolSpec {
        name: "delete_file",
        purpose: "Delete a file or directory.",
        permission: Permission::Write,
        parameters: &[
            required_parameter("path", ParameterType::Text, ""),
            optional(
                "recursive",
                ParameterType::Flag,
                "false: only an empty directory",
            ),
        ],
        result: "how much was deleted",
    },
    ToolSpec {
        name: "delete_files_batch",
        purpose: "Delete the files of a directory that match globs.",
        permission: Permission::Write,
        parameters: &[
            required_parameter("base_path", ParameterType::Text, ""),
            optional("include_patterns", ParameterType::Texts, "default all"),
            optional("exclude_patterns", ParameterType::Texts, ""),
        ],
        result: "how many files were deleted and refused, and which",
    },
];

/// The tools that run commands, in the order in which they are offered.
pub const COMMANDS: &[ToolSpec] = &[
    ToolSpec {
        name: "execute_command",
        purpose: "Run a shell command (bash) in a sandbox with your permissions, and wait for it. \
                  What it leaves running ends with it.",
        permission: Permission::Read,
        parameters: &[
            required_parameter("command", ParameterType::Text, ""),
            optional(
                "timeout",
                ParameterType::Count,
                "seconds, default 60, at most 3600",
            ),
            optional("work_dir", ParameterType::Text, "default your workspace"),
            optional(
                ANSWER,
                ParameterType::Text,
                "label: run on the project with that answer's changes; what it writes is discarded",
            ),
        ],
        result: "JSON: `success`, `exit_code`, `stdout`, `stderr`, `execution_time` in seconds, \
                 `command`, `work_dir`, and `notes` if there is more to say",
    },
    ToolSpec {
        name: "start_background_command",
        purpose: "Start a shell command that runs while you do other things. No other \
                  command of a sandbox can connect to it.",
        permission: Permission::Read,
        parameters: &[
            required_parameter("command", ParameterType::Text, ""),
            optional("work_dir", ParameterType::Text, ""),
        ],
        result: "JSON: `command_id` and `status`",
    },
    ToolSpec {
        name: "get_background_output",
        purpose: "Read what a background command has printed.",
        permission: Permission::Read,
        parameters: &[
            required_parameter("command_id", ParameterType::Count, ""),
            optional("offset", ParameterType::Count, "bytes that you have read"),
        ],
        result: "JSON: `output`, `next_offset` for the next call, `status`",
    },
    ToolSpec {
        name: "get_background_status",
        purpose: "Tell whether a background command still runs.",
        permission: Permission::Read,
        parameters: &[required_parameter("command_id", ParameterType::Count, "")],
        result: "JSON: `status`, `exit_code`, `running_seconds`, `output_bytes`",
    },
    ToolSpec {
        name: "stop_background_command",
        purpose: "End a background command and all that it started.",
        permission: Permission::Read,
        parameters: &[required_parameter("command_id", ParameterType::Count, "")],
        result: "JSON: `status`",
    },
    ToolSpec {
        name: "list_background_commands",
        purpose: "List your background commands.",
        permission: Permission::Read,
        parameters: &[],
        result: "JSON: `commands`, each with `command_id`, `command` and `status`",
    },
];

/// Tools in the formats of other systems, whose calls become calls of [`TOOLS`].
pub const TRANSLATED_TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: TEXT_EDITOR,
        purpose: "View a file with line numbers or a directory, create or replace a file, replace \
                  a text that occurs exactly once, or insert lines below a line.",
        permission: Permission::Write,
        parameters: &[
            required_parameter("command", ParameterType::Text, TEXT_EDITOR_COMMANDS),
            required_parameter("path", ParameterType::Text, ""),
            optional(
                "view_range",
                ParameterType::Lines,
                "first and last line; -1: the end",
            ),
            optional("file_text", ParameterType::Text, "of create"),
            optional("old_str", ParameterType::Text, "of str_replace"),
            optional("new_str", ParameterType::Text, "of str_replace"),
            optional("insert_line", ParameterType::Count, "0: the beginning"),
            optional("insert_text", ParameterType::Text, ""),
        ],
        result: "the lines or entries, how many bytes were written, or the diff",
    },
    ToolSpec {
        name: "diff_patch_workspace_file",
        purpose: "Change a text file by a unified diff.",
        permission: Permission::Write,
        parameters: &[
            required_parameter("filepath", ParameterType::Text, ""),
            required_parameter("diff", ParameterType::Text, ""),
        ],
        result: "the changed file",
    },
    ToolSpec {
        name: "semantic_search_workspace_files",
        purpose: "Find the files that contain the most words of a query, and their best lines.",
        permission: Permission::Read,
        parameters: &[
            required_parameter("query", ParameterType::Text, ""),
            optional("folder", ParameterType::Text, ""),
            optional("limit", ParameterType::Count, "lines, default 20"),
        ],
        result: "the lines, each after its path and number",
    },
];

/// The tool for agents that write programs instead of single calls.
pub const PROGRAMS: &[ToolSpec] = &[ToolSpec {
    name: "execute_code",
    purpose: "Run a program that works by the functions of `workspace_tools`, and wait for it.",
    permission: Permission::Read,
    parameters: &[
        required_parameter("code", ParameterType::Text, "the whole program"),
        optional(
            "timeout",
            ParameterType::Count,
            "seconds, default 60, at most 3600",
        ),
    ],
    result: "JSON: `success`, `exit_code`, `stdout`, `stderr`, `execution_time` in seconds, `calls` \
             with the calls that it made, and `notes` if there is more to say",
}];

/// The tool that reads pages of the Web.
pub const PAGES: &[ToolSpec] = &[ToolSpec {
    name: "fetch_url",
    purpose: "Read a page of the Web: HTML as Markdown, JSON and text as they are.",
    permission: Permission::Read,
    parameters: &[required_parameter("url", ParameterType::Text, "")],
    result: "the text of the page in a frame, or the address that it redirects to",
}];

/// The tools that an agent's vendor runs, where the vendor does not combine them with others.
pub const VENDOR_TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: VendorTool::WebSearch.name(),
        purpose: "Search the Web.",
        permission: Permission::Read,
        parameters: &[required_parameter(
            VendorTool::WebSearch.parameter(),
            ParameterType::Text,
            "what you want to know",
        )],
        result: "what was found, with the addresses of the pages, in a frame",
    },
    ToolSpec {
        name: VendorTool::CodeExecution.name(),
        purpose: "Have something computed by a program, far from your files.",
        permission: Permission::Read,
        parameters: &[required_parameter(
            VendorTool::CodeExecution.parameter(),
            ParameterType::Text,
            "what to compute, with all the data",
        )],
        result: "the result and the program, in a frame",
    },
];

/// The tool by which an agent has its vendor make files.
pub const MEDIA: &[ToolSpec] = &[ToolSpec {
    name: "generate_media",
    purpose: "Generate an image, or speech from text, as a new file.",
    permission: Permission::Write,
    parameters: &[
        required_parameter("mode", ParameterType::Text, "image or audio"),
        required_parameter(
            "prompt",
            ParameterType::Text,
            "what the image shows, or the text to speak",
        ),
        required_parameter(
            "path",
            ParameterType::Text,
            "ends in .png, .jpg or .webp; or in .mp3, .wav, .opus, .aac or .flac",
        ),
        optional("voice", ParameterType::Text, "of speech"),
        optional("style", ParameterType::Text, "how to speak"),
    ],
    result: "the size of the file",
}];

/// The tool with which an agent keeps its plan.
pub const PLANNING: &[ToolSpec] = &[ToolSpec {
    name: "update_plan",
    purpose: "Write down or update your plan, which people see. Send all steps each time, in \
              order. Plan work of several steps first, keep one step in_progress, and complete \
              each when it is done.",
    permission: Permission::Read,
    parameters: &[required_parameter(
        "entries",
        ParameterType::PlanEntries,
        "",
    )],
    result: "how many steps are done",
}];

/// The tool by which an agent gives parts of its work to subagents.
pub const SUBAGENTS: &[ToolSpec] = &[ToolSpec {
    name: "spawn_subagents",
    purpose: "Give independent parts of your work to subagents, which work in parallel, and wait \
              for their results. Each starts with an empty directory `.subagents/ID` in your \
              workspace, reads what you may read, writes only there, and knows only its task.",
    permission: Permission::Write,
    parameters: &[required_parameter(
        "tasks",
        ParameterType::Tasks,
        "id: a new short name, in lower case; task: all that it has to know",
    )],
    result: "JSON: `success`, and `results` with `id`, `status`, `answer`, `error`, `workspace`, \
             `files` and `execution_time` in seconds of each subagent",
}];

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
