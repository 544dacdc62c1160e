//! Owns the package `workspace_tools` as text: a typed function for each tool that the agent is
//! offered, made from what a model would be offered, with the directories of the moment. It looks at
//! paths before it asks; that spares a question and decides nothing.

mod go;
mod names;
mod paths;
mod python;

use serde_json::Value;

use crate::permissions::grant::Permission;
use crate::programs::Language;
use crate::programs::package::names::{go_function_name, go_name, python_name, unique};
use crate::programs::package::paths::touched;
use crate::tools::spec::ToolOffer;

/// A file that is written before a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path below the directory of the package.
    pub path: &'static str,
    /// All that is in it.
    pub content: String,
}

/// The directories that a package holds paths to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// Where relative paths begin.
    pub base: String,
    /// What may be read.
    pub read: Vec<String>,
    /// What may be written.
    pub write: Vec<String>,
    /// Whether `..` may stand in a path.
    pub parents: Parents,
    /// Whether functions look at paths at all.
    pub checks: Checks,
}

/// Whether `..` may stand in a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parents {
    /// It may.
    Taken,
    /// It may not.
    #[default]
    Refused,
}

/// Whether the functions of a package look at paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// They do.
    #[default]
    Made,
    /// They do not, so that the layers behind them can be seen at work.
    LeftOut,
}

/// Parameters that are called otherwise: our name, and the other.
type Renamed = &'static [(&'static str, &'static str)];

/// The names that other systems have for some of our tools: the name, ours, and parameters that are
/// called otherwise.
const ALIASES: &[(&str, &str, Renamed)] = &[
    (
        "delete_workspace_file",
        "delete_file",
        &[("path", "filepath")],
    ),
    ("execute_shell_command", "execute_command", &[]),
    ("list_workspace_files", "list_directory", &[]),
    ("move_workspace_file", "move_file", &[]),
    (
        "read_workspace_file",
        "read_text_file",
        &[("path", "filepath")],
    ),
    ("regex_search_workspace_files", "grep_files", &[]),
    (
        "update_workspace_file",
        "write_file",
        &[("path", "filepath")],
    ),
    (
        "write_workspace_file",
        "write_file",
        &[("path", "filepath")],
    ),
];

/// A function of the package.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    /// What programs call it.
    name: String,
    /// The tool that it stands for.
    tool: String,
    /// What it does, and where.
    purpose: String,
    /// Those that must be given come first.
    parameters: Vec<Parameter>,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parameter {
    /// What programs call it.
    name: String,
    /// What the tool calls it.
    wire: String,
    kind: Kind,
    is_required: bool,
    /// What the name leaves open; may be empty.
    note: String,
    /// What the tool does at the path that it holds, if it holds one.
    path: Option<Permission>,
}

/// What a parameter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Number,
    Flag,
    Texts,
    Objects,
    Any,
}

/// The files of a program with its package, for an agent that is offered `tools`.
pub fn files(
    language: Language,
    program: &str,
    tools: &[ToolOffer],
    roots: &Roots,
) -> Vec<SourceFile> {
    let functions = functions(language, tools, Aliases::Made);
    match language {
        Language::Python => python::files(program, &functions, roots),
        Language::Go => go::files(program, &functions, roots),
    }
}

/// The functions as a model is told about them: a line for each.
pub fn signatures(language: Language, tools: &[ToolOffer]) -> String {
    let functions = functions(language, tools, Aliases::LeftOut);
    let lines = functions.iter().map(|function| match language {
        Language::Python => python::signature(function),
        Language::Go => go::signature(function),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Aliases {
    Made,
    LeftOut,
}

fn functions(language: Language, tools: &[ToolOffer], aliases: Aliases) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    for tool in tools {
        functions.push(function(language, (&tool.name, tool, &[])));
    }
    if aliases == Aliases::Made {
        for (alias, ours, renamed) in ALIASES {
            let tool = tools.iter().find(|tool| tool.name == *ours);
            functions.extend(tool.map(|tool| function(language, (alias, tool, renamed))));
        }
    }
    unique(functions.iter_mut().map(|function| &mut function.name));
    functions
}

fn function(language: Language, (name, tool, renamed): (&str, &ToolOffer, Renamed)) -> Function {
    let named = |name: &str| match language {
        Language::Python => python_name(name),
        Language::Go => go_name(name),
    };
    let schema = &tool.parameters;
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| {
        let mut listed = required.into_iter().flatten();
        listed.any(|listed| listed.as_str() == Some(name))
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    let writable = |wire: &str| match language {
        Language::Python => true,
        Language::Go => go::is_tag(wire),
    };
    let mut parameters: Vec<Parameter> = properties
        .filter(|(wire, _)| writable(wire))
        .map(|(wire, schema)| {
            let other = renamed.iter().find(|(ours, _)| ours == wire);
            let note = schema.get("description").and_then(Value::as_str);
            Parameter {
                name: named(other.map_or(wire.as_str(), |(_, other)| other)),
                wire: wire.clone(),
                kind: kind(schema),
                is_required: is_required(wire),
                note: note.unwrap_or_default().to_owned(),
                path: touched(&tool.name, wire),
            }
        })
        .collect();
    parameters.sort_by_key(|parameter| !parameter.is_required);
    unique(parameters.iter_mut().map(|parameter| &mut parameter.name));
    Function {
        name: match language {
            Language::Python => python_name(name),
            Language::Go => go_function_name(name),
        },
        tool: tool.name.clone().into_owned(),
        purpose: tool.description.clone(),
        parameters,
    }
}

fn kind(schema: &Value) -> Kind {
    let named = |schema: &Value| {
        let name = schema.get("type").and_then(Value::as_str);
        name.map(str::to_owned)
    };
    let items = schema.get("items").and_then(named);
    match (named(schema).as_deref(), items.as_deref()) {
        (Some("string"), _) => Kind::Text,
        (Some("integer"), _) => Kind::Integer,
        (Some("number"), _) => Kind::Number,
        (Some("boolean"), _) => Kind::Flag,
        (Some("array"), Some("string")) => Kind::Texts,
        (Some("array"), Some("object")) => Kind::Objects,
        _ => Kind::Any,
    }
}

#[cfg(test)]
mod tests;
