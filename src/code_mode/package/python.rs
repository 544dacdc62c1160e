//! The package for Python: a fixed part, `workspace_tools.py`, the launcher `run.py`, and one
//! function for each tool.

use std::fmt::Write as _;

use serde_json::json;

use crate::code_mode::package::{
    FRAME_BYTES_MAX, FunctionParameter, FunctionParameterType, PackageFunction, PackageRoots,
    ParentPaths, PathChecks, SourceFile,
};
use crate::permissions::grant::Permission;

/// The part that all packages have in common.
const COMMON_SOURCE: &str = include_str!("workspace_tools.py");
/// The launcher of the program.
const LAUNCHER_SOURCE: &str = include_str!("run.py");

/// Returns the files of a program and its package.
pub(super) fn files(
    program: &str,
    functions: &[PackageFunction],
    roots: &PackageRoots,
) -> Vec<SourceFile> {
    let mut package = String::from(COMMON_SOURCE);
    let checks_paths = roots.checks == PathChecks::Enabled;
    let allows_parents = roots.parents == ParentPaths::Allowed;
    let _ = writeln!(package, "\n\n_BASE = {}", json!(roots.base));
    let _ = writeln!(package, "_READ = {}", json!(roots.read));
    let _ = writeln!(package, "_WRITE = {}", json!(roots.write));
    let _ = writeln!(package, "_ALLOWS_PARENTS = {}", python_bool(allows_parents));
    let _ = writeln!(package, "_CHECKS_PATHS = {}", python_bool(checks_paths));
    let _ = writeln!(package, "_FRAME_BYTES_MAX = {FRAME_BYTES_MAX}");
    for function in functions {
        package.push_str("\n\n");
        package.push_str(&definition(function));
    }
    let file = |path, content: &str| SourceFile {
        path,
        content: content.to_owned(),
    };
    vec![
        file("workspace_tools.py", &package),
        file("run.py", LAUNCHER_SOURCE),
        file("program.py", program),
    ]
}

fn python_bool(flag: bool) -> &'static str {
    if flag { "True" } else { "False" }
}

/// Returns the signature of a function, as shown to a model.
pub(super) fn signature(function: &PackageFunction) -> String {
    let PackageFunction {
        name,
        purpose,
        parameters,
        ..
    } = function;
    let parameters: Vec<String> = parameters
        .iter()
        .map(|parameter| {
            let FunctionParameter { name, kind, .. } = parameter;
            let note = parameter.note_in_signature();
            let default = if parameter.is_required { "" } else { "=None" };
            format!("{name}: {}{default}{note}", type_name(*kind))
        })
        .collect();
    format!("- {name}({}): {purpose}", parameters.join(", "))
}

/// Returns the definition of a function.
fn definition(function: &PackageFunction) -> String {
    let PackageFunction {
        name,
        tool,
        purpose,
        parameters,
    } = function;
    let parameter_list: Vec<String> = parameters
        .iter()
        .map(|parameter| {
            let (name, kind) = (&parameter.name, type_name(parameter.kind));
            if parameter.is_required {
                format!("{name}: {kind}")
            } else {
                format!("{name}: {kind} | None = None")
            }
        })
        .collect();
    let arguments = parameters
        .iter()
        .map(|parameter| format!("{}: {}", json!(parameter.wire_name), parameter.name));
    let paths = parameters.iter().filter_map(|parameter| {
        let is_write = python_bool(parameter.path_permission? == Permission::Write);
        Some(format!("({}, {is_write})", json!(parameter.wire_name)))
    });
    format!(
        "def {name}({}) -> str:\n    {}\n    return _call({}, {{{}}}, [{}])\n",
        parameter_list.join(", "),
        json!(purpose),
        json!(tool),
        arguments.collect::<Vec<_>>().join(", "),
        paths.collect::<Vec<_>>().join(", "),
    )
}

fn type_name(kind: FunctionParameterType) -> &'static str {
    match kind {
        FunctionParameterType::Text => "str",
        FunctionParameterType::Integer => "int",
        FunctionParameterType::Number => "float",
        FunctionParameterType::Flag => "bool",
        FunctionParameterType::Texts => "list[str]",
        FunctionParameterType::Objects => "list[dict]",
        FunctionParameterType::Any => "object",
    }
}
