//! Generates the source of the package `workspace_tools`: a typed function for each tool that the
//! agent would be offered, with its current directories; and the protocol of its calls. The package
//! checks paths before it makes a call. That only saves calls: the gate decides about each of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::code_mode::ProgramLanguage;
use crate::code_mode::package::names::{go_function_name, go_name, make_unique, python_name};
use crate::permissions::grant::Permission;
use crate::tools::spec::{COMMANDS, TOOLS, ToolOffer};

mod go;
mod names;
mod python;

/// A file that is written before a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path relative to the package's directory.
    pub path: &'static str,
    /// Its content.
    pub content: String,
}

/// The directories that a package restricts paths to, and whether it checks paths at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageRoots {
    /// The base of relative paths.
    pub base: String,
    /// Readable directories.
    pub read: Vec<String>,
    /// Writable directories.
    pub write: Vec<String>,
    /// Whether paths may contain `..`.
    pub parents: ParentPaths,
    /// Whether functions check paths at all.
    pub checks: PathChecks,
}

/// Whether paths may contain `..`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParentPaths {
    /// Paths may contain `..`.
    Allowed,
    /// Paths with `..` are refused.
    #[default]
    Refused,
}

/// Whether the functions of a package check paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathChecks {
    /// Functions check paths.
    #[default]
    Enabled,
    /// They do not, so that tests reach the gate and the sandbox.
    Disabled,
}

/// The name of a tool in other systems.
struct ToolAlias {
    alias: &'static str,
    /// massgen's name for it.
    tool: &'static str,
    parameters: &'static [ParameterAlias],
}

/// The name of a parameter in other systems.
struct ParameterAlias {
    /// massgen's name for it.
    wire_name: &'static str,
    alias: &'static str,
}

/// The path of a file, under the name that other systems give it.
const FILE_PATH_ALIAS: &[ParameterAlias] = &[ParameterAlias {
    wire_name: "path",
    alias: "filepath",
}];

/// The tools for which the package has functions under other names too, so that a model that has
/// learned those names can use them.
const ALIASES: &[ToolAlias] = &[
    ToolAlias::new("delete_workspace_file", "delete_file", FILE_PATH_ALIAS),
    ToolAlias::new("execute_shell_command", "execute_command", &[]),
    ToolAlias::new("list_workspace_files", "list_directory", &[]),
    ToolAlias::new("move_workspace_file", "move_file", &[]),
    ToolAlias::new("read_workspace_file", "read_text_file", FILE_PATH_ALIAS),
    ToolAlias::new("regex_search_workspace_files", "grep_files", &[]),
    ToolAlias::new("update_workspace_file", "write_file", FILE_PATH_ALIAS),
    ToolAlias::new("write_workspace_file", "write_file", FILE_PATH_ALIAS),
];

impl ToolAlias {
    const fn new(
        alias: &'static str,
        tool: &'static str,
        parameters: &'static [ParameterAlias],
    ) -> Self {
        Self {
            alias,
            tool,
            parameters,
        }
    }
}

/// A function of the package.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PackageFunction {
    /// Its name in programs.
    name: String,
    /// The tool that it calls.
    tool: String,
    /// The description of the tool as the agent is offered it.
    purpose: String,
    /// The parameters, required ones first.
    parameters: Vec<FunctionParameter>,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FunctionParameter {
    /// Its name in programs.
    name: String,
    /// Its name in the tool's arguments.
    wire_name: String,
    kind: FunctionParameterType,
    is_required: bool,
    /// Its description in the schema of the tool; may be empty.
    note: String,
    /// The access that the tool needs to the path in this parameter, if it is a path.
    path_permission: Option<Permission>,
}

impl FunctionParameter {
    /// Returns its note in parentheses, for the end of its part of a signature.
    fn note_in_signature(&self) -> String {
        match self.note.as_str() {
            "" => String::new(),
            note => format!(" ({note})"),
        }
    }
}

/// The type of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FunctionParameterType {
    Text,
    Integer,
    Number,
    Flag,
    Texts,
    Objects,
    Any,
}

/// Returns the files of a program and its package, for an agent that is offered `tools`.
pub fn files(
    language: ProgramLanguage,
    program: &str,
    tools: &[ToolOffer],
    roots: &PackageRoots,
) -> Vec<SourceFile> {
    // The tools come first: if two names are equal, the later one is changed.
    let mut functions = tool_functions(language, tools);
    functions.extend(alias_functions(language, tools));
    make_unique(functions.iter_mut().map(|function| &mut function.name));
    match language {
        ProgramLanguage::Python => python::files(program, &functions, roots),
        ProgramLanguage::Go => go::files(program, &functions, roots),
    }
}

/// Returns the signatures of the functions, as shown to a model: one per line. Aliases are left
/// out: they are for models that know those names already.
pub fn signatures(language: ProgramLanguage, tools: &[ToolOffer]) -> String {
    let mut functions = tool_functions(language, tools);
    make_unique(functions.iter_mut().map(|function| &mut function.name));
    let lines = functions.iter().map(|function| match language {
        ProgramLanguage::Python => python::signature(function),
        ProgramLanguage::Go => go::signature(function),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a function for each tool.
fn tool_functions(language: ProgramLanguage, tools: &[ToolOffer]) -> Vec<PackageFunction> {
    let tools = tools.iter();
    tools
        .map(|tool| function(language, &tool.name, tool, &[]))
        .collect()
}

/// Returns a function for each alias of a tool.
fn alias_functions(language: ProgramLanguage, tools: &[ToolOffer]) -> Vec<PackageFunction> {
    let functions = ALIASES.iter().filter_map(|alias| {
        let tool = tools.iter().find(|tool| tool.name == alias.tool)?;
        Some(function(language, alias.alias, tool, alias.parameters))
    });
    functions.collect()
}

/// Returns the function `name` for a tool.
fn function(
    language: ProgramLanguage,
    name: &str,
    tool: &ToolOffer,
    parameter_aliases: &[ParameterAlias],
) -> PackageFunction {
    let name_in_language = |name: &str| match language {
        ProgramLanguage::Python => python_name(name),
        ProgramLanguage::Go => go_name(name),
    };
    let schema = &tool.parameters;
    let required_list = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| {
        let mut required_names = required_list.into_iter().flatten();
        required_names.any(|listed| listed.as_str() == Some(name))
    };
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    // A Go function cannot pass a parameter that no struct tag can name.
    let is_expressible = |wire_name: &str| match language {
        ProgramLanguage::Python => true,
        ProgramLanguage::Go => go::is_valid_tag(wire_name),
    };
    let mut parameters: Vec<FunctionParameter> = properties
        .filter(|(wire_name, _)| is_expressible(wire_name))
        .map(|(wire_name, schema)| {
            let alias = parameter_aliases
                .iter()
                .find(|alias| alias.wire_name == wire_name);
            let note = schema.get("description").and_then(Value::as_str);
            FunctionParameter {
                name: name_in_language(alias.map_or(wire_name.as_str(), |alias| alias.alias)),
                wire_name: wire_name.clone(),
                kind: parameter_type(schema),
                is_required: is_required(wire_name),
                note: note.unwrap_or_default().to_owned(),
                path_permission: path_permission(&tool.name, wire_name),
            }
        })
        .collect();
    parameters.sort_by_key(|parameter| !parameter.is_required);
    make_unique(parameters.iter_mut().map(|parameter| &mut parameter.name));
    PackageFunction {
        name: match language {
            ProgramLanguage::Python => python_name(name),
            ProgramLanguage::Go => go_function_name(name),
        },
        tool: tool.name.clone().into_owned(),
        purpose: tool.description.clone(),
        parameters,
    }
}

/// Returns the type of the values that a schema describes.
fn parameter_type(schema: &Value) -> FunctionParameterType {
    let type_name = |schema: &Value| {
        let name = schema.get("type").and_then(Value::as_str);
        name.map(str::to_owned)
    };
    let item_type = schema.get("items").and_then(type_name);
    match (type_name(schema).as_deref(), item_type.as_deref()) {
        (Some("string"), _) => FunctionParameterType::Text,
        (Some("integer"), _) => FunctionParameterType::Integer,
        (Some("number"), _) => FunctionParameterType::Number,
        (Some("boolean"), _) => FunctionParameterType::Flag,
        (Some("array"), Some("string")) => FunctionParameterType::Texts,
        (Some("array"), Some("object")) => FunctionParameterType::Objects,
        _ => FunctionParameterType::Any,
    }
}

/// The longest line in either direction, in bytes: the arguments of a call may have 4 MiB, and grow
/// when they are encoded as JSON.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A tool call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallFrame {
    /// Identifies the call within the program.
    pub id: u64,
    /// The tool.
    pub tool: String,
    /// Its arguments, as written.
    pub arguments: Box<RawValue>,
}

/// The result of a call.
#[derive(Debug, Serialize)]
pub struct AnswerFrame<'a> {
    /// The id of the call.
    pub id: u64,
    /// The outcome: `done`, `failed` or `denied`.
    pub outcome: &'a str,
    /// What a model would read.
    pub content: &'a str,
}

/// Path parameters that a tool only reads from, even if it writes elsewhere.
const READ_PATH_PARAMETERS: &[&str] = &[
    "source_path",
    "source_base_path",
    "file1",
    "file2",
    "dir1",
    "dir2",
    "work_dir",
];
/// Path parameters that need the tool's own permission.
const PATH_PARAMETERS: &[&str] = &[
    "path",
    "paths",
    "base_path",
    "source",
    "destination",
    "destination_path",
    "destination_base_path",
];

/// Returns the access that a tool needs to the path in `parameter`; `None` if it is not a path, or
/// not known to be one.
pub(super) fn path_permission(tool: &str, parameter: &str) -> Option<Permission> {
    let tool = TOOLS
        .iter()
        .chain(COMMANDS)
        .find(|spec| spec.name == tool)?;
    if READ_PATH_PARAMETERS.contains(&parameter) {
        Some(Permission::Read)
    } else {
        PATH_PARAMETERS
            .contains(&parameter)
            .then_some(tool.permission)
    }
}

#[cfg(test)]
mod tests;
