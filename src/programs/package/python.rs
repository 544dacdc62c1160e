//! Owns the package as Python: the fixed part is `workspace_tools.py`, the program is run by
//! `run.py`, and the rest is one function for each tool.

use std::fmt::Write as _;

use serde_json::json;

use crate::permissions::grant::Permission;
use crate::programs::frame::FRAME_BYTES_MAX;
use crate::programs::package::{Checks, Function, Kind, Parameter, Parents, Roots, SourceFile};

/// What every package holds.
const FIXED: &str = include_str!("workspace_tools.py");
/// What runs the program.
const RUN: &str = include_str!("run.py");

/// The files of a program with its package.
pub(super) fn files(program: &str, functions: &[Function], roots: &Roots) -> Vec<SourceFile> {
    let mut package = String::from(FIXED);
    let checks = roots.checks == Checks::Made;
    let parents = roots.parents == Parents::Taken;
    let _ = writeln!(package, "\n\n_BASE = {}", json!(roots.base));
    let _ = writeln!(package, "_READ = {}", json!(roots.read));
    let _ = writeln!(package, "_WRITE = {}", json!(roots.write));
    let _ = writeln!(package, "_PARENTS = {}", truth(parents));
    let _ = writeln!(package, "_CHECKS = {}", truth(checks));
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
        file("run.py", RUN),
        file("program.py", program),
    ]
}

fn truth(flag: bool) -> &'static str {
    if flag { "True" } else { "False" }
}

/// A function as a model is told about it.
pub(super) fn signature(function: &Function) -> String {
    let Function {
        name,
        purpose,
        parameters,
        ..
    } = function;
    let parameters: Vec<String> = parameters
        .iter()
        .map(|parameter| {
            let Parameter { name, kind, .. } = parameter;
            let note = match parameter.note.as_str() {
                "" => String::new(),
                note => format!(" ({note})"),
            };
            let default = if parameter.is_required { "" } else { "=None" };
            format!("{name}: {}{default}{note}", type_name(*kind))
        })
        .collect();
    format!("- {name}({}): {purpose}", parameters.join(", "))
}

fn definition(function: &Function) -> String {
    let Function {
        name,
        tool,
        purpose,
        parameters,
    } = function;
    let taken: Vec<String> = parameters
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
        .map(|parameter| format!("{}: {}", json!(parameter.wire), parameter.name));
    let paths = parameters.iter().filter_map(|parameter| {
        let writes = truth(parameter.path? == Permission::Write);
        Some(format!("({}, {writes})", json!(parameter.wire)))
    });
    format!(
        "def {name}({}) -> str:\n    {}\n    return _call({}, {{{}}}, [{}])\n",
        taken.join(", "),
        json!(purpose),
        json!(tool),
        arguments.collect::<Vec<_>>().join(", "),
        paths.collect::<Vec<_>>().join(", "),
    )
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "str",
        Kind::Integer => "int",
        Kind::Number => "float",
        Kind::Flag => "bool",
        Kind::Texts => "list[str]",
        Kind::Objects => "list[dict]",
        Kind::Any => "object",
    }
}
