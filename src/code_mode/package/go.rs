//! The package for Go: a fixed part, `workspace_tools.go.in`, plus a function for each tool and a
//! struct for its parameters.

use std::fmt::Write as _;

use serde_json::json;

use crate::code_mode::package::{
    FRAME_BYTES_MAX, FunctionParameter, FunctionParameterType, PackageFunction, PackageRoots,
    ParentPaths, PathChecks, SourceFile,
};
use crate::permissions::grant::Permission;

/// The part that all packages have in common.
const COMMON_SOURCE: &str = include_str!("workspace_tools.go.in");

/// The module of the program, which finds the package next to it.
const PROGRAM_MODULE: &str = "module program\n\ngo 1.18\n\nrequire workspace_tools v0.0.0\n\n\
                              replace workspace_tools => ./workspace_tools\n";
/// The module of the package.
const PACKAGE_MODULE: &str = "module workspace_tools\n\ngo 1.18\n";

/// Returns the files of a program and its package.
pub(super) fn files(
    program: &str,
    functions: &[PackageFunction],
    roots: &PackageRoots,
) -> Vec<SourceFile> {
    let mut package = String::from(COMMON_SOURCE);
    let checks_paths = roots.checks == PathChecks::Enabled;
    let allows_parents = roots.parents == ParentPaths::Allowed;
    let _ = writeln!(package, "\nconst folderGuardBase = {}", json!(roots.base));
    let _ = writeln!(
        package,
        "\nvar folderGuardReadPaths = {}",
        string_slice(&roots.read)
    );
    let _ = writeln!(
        package,
        "\nvar folderGuardWritePaths = {}",
        string_slice(&roots.write)
    );
    let _ = writeln!(package, "\nconst allowsParents = {allows_parents}");
    let _ = writeln!(package, "\nconst checksPaths = {checks_paths}");
    let _ = writeln!(package, "\nconst frameBytesMax = {FRAME_BYTES_MAX}");
    for function in functions {
        package.push('\n');
        package.push_str(&definition(function));
    }
    let file = |path, content: &str| SourceFile {
        path,
        content: content.to_owned(),
    };
    vec![
        file("go.mod", PROGRAM_MODULE),
        file("workspace_tools/go.mod", PACKAGE_MODULE),
        file("workspace_tools/workspace_tools.go", &package),
        file("program.go", program),
    ]
}

/// Returns the Go literal of a slice of strings.
fn string_slice(items: &[String]) -> String {
    let items = items.iter().map(|item| json!(item).to_string());
    format!("[]string{{{}}}", items.collect::<Vec<_>>().join(", "))
}

/// Returns the signature of a function, as shown to a model.
pub(super) fn signature(function: &PackageFunction) -> String {
    let PackageFunction {
        name,
        purpose,
        parameters,
        ..
    } = function;
    let fields: Vec<String> = parameters
        .iter()
        .map(|parameter| {
            let note = parameter.note_in_signature();
            let optional_mark = if parameter.is_required { "" } else { "?" };
            format!(
                "{}{optional_mark} {}{note}",
                parameter.name,
                type_name(parameter)
            )
        })
        .collect();
    format!("- {name}({name}Params{{{}}}): {purpose}", fields.join(", "))
}

/// Returns the definition of a function and of the struct for its parameters.
fn definition(function: &PackageFunction) -> String {
    let PackageFunction {
        name,
        tool,
        purpose,
        parameters,
    } = function;
    let mut text = format!("// {name}Params are the parameters of {name}.\n");
    let _ = writeln!(text, "type {name}Params struct {{");
    for parameter in parameters {
        if !parameter.note.is_empty() {
            let _ = writeln!(text, "\t// {}", comment(&parameter.note));
        }
        let omit_option = if parameter.is_required {
            ""
        } else {
            ",omitempty"
        };
        let tag = json!(format!("{}{omit_option}", parameter.wire_name));
        let _ = writeln!(
            text,
            "\t{} {} `json:{tag}`",
            parameter.name,
            type_name(parameter)
        );
    }
    text.push_str("}\n\n");
    let _ = writeln!(text, "// {name}: {}", comment(purpose));
    let _ = writeln!(text, "func {name}(params {name}Params) (string, error) {{");
    for parameter in parameters {
        if let Some(permission) = parameter.path_permission {
            let is_write = permission == Permission::Write;
            let value = match parameter.kind {
                FunctionParameterType::Texts => format!("params.{}...", parameter.name),
                FunctionParameterType::Text
                | FunctionParameterType::Integer
                | FunctionParameterType::Number
                | FunctionParameterType::Flag
                | FunctionParameterType::Objects
                | FunctionParameterType::Any => format!("params.{}", parameter.name),
            };
            let _ = writeln!(
                text,
                "\tif err := validatePaths({is_write}, {}, {value}); err != nil {{\n\t\treturn \"\", err\n\t}}",
                !parameter.is_required
            );
        }
    }
    let _ = writeln!(text, "\treturn call({}, params)\n}}", json!(tool));
    text
}

/// Returns whether a struct tag can contain the name of a parameter: Go ignores names with other
/// characters, and a quote would end the tag (`isValidTag` of `encoding/json`).
pub(super) fn is_valid_tag(wire_name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:$@/ ".contains(c);
    !wire_name.is_empty() && wire_name != "-" && wire_name.chars().all(is_plain)
}

/// Returns text as the content of a comment, which it cannot end.
fn comment(text: &str) -> String {
    let lines = text.split(['\n', '\r', '\u{2028}', '\u{2029}']);
    lines.collect::<Vec<_>>().join("\n// ")
}

fn type_name(parameter: &FunctionParameter) -> &'static str {
    match (parameter.kind, parameter.is_required) {
        (FunctionParameterType::Text, _) => "string",
        (FunctionParameterType::Integer, _) => "int64",
        (FunctionParameterType::Number, _) => "float64",
        (FunctionParameterType::Flag, true) => "bool",
        // An omitted value differs from `false`.
        (FunctionParameterType::Flag, false) => "*bool",
        (FunctionParameterType::Texts, _) => "[]string",
        (FunctionParameterType::Objects, _) => "[]map[string]any",
        (FunctionParameterType::Any, _) => "any",
    }
}
