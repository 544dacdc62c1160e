//! The host of an agent's Python tools: the program that is started, and what it is sent first. The
//! user's files are read here and sent along, so that the sandbox needs no access to them.

use serde_json::{Value, json};

use crate::config::custom_tools::{NamedFile, PythonFunctions};
use crate::error::Error;
use crate::path::AbsPath;
use crate::world::io::files;

/// Largest file with tools, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The source code of the host.
const HOST_SOURCE: &str = include_str!("host.py");

/// Starts the host: reads the first line of standard input, and runs the code in it. Modules of the
/// working directory, which the agent may write to, are not imported. What tools start gets an
/// empty standard input.
const BOOTSTRAP: &str = "\
import sys
sys.path[:] = [place for place in sys.path if place]
import json, os
INPUT = os.fdopen(os.dup(0), 'rb')
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
SETUP = json.loads(INPUT.readline())
exec(compile(SETUP['host'], 'custom tools', 'exec'))
";

/// The context that tools receive about their agent.
#[derive(Clone, Debug)]
pub(in crate::world) struct ToolContext {
    /// The agent's id.
    pub(in crate::world) agent: String,
    /// The directory that they start in.
    pub(in crate::world) directory: AbsPath,
    /// The agent's directories.
    pub(in crate::world) roots: Vec<AbsPath>,
}

/// Returns the arguments with which Python becomes the host.
pub(in crate::world) fn arguments() -> [String; 4] {
    ["-X", "utf8", "-c", BOOTSTRAP].map(str::to_owned)
}

/// Returns the first line that the host is sent: itself, and the tools with their files. A file
/// that does not exist may be in MassGen's package, which only the host can see.
///
/// # Errors
/// A file cannot be read, is too large, or is not text.
pub(in crate::world) fn setup_line(
    python: &PythonFunctions,
    context: &ToolContext,
) -> Result<Vec<u8>, String> {
    let mut tools = Vec::new();
    let mut sources: Vec<(&NamedFile, (Value, Value))> = Vec::new();
    for function in &python.functions {
        let (path, source) = match &function.file {
            None => (Value::Null, Value::Null),
            Some(file) => {
                if let Some((_, loaded)) = sources.iter().find(|(loaded, _)| *loaded == file) {
                    loaded.clone()
                } else {
                    let path_and_text = path_and_source(file)?;
                    sources.push((file, path_and_text.clone()));
                    path_and_text
                }
            }
        };
        tools.push(json!({
            "name": function.name,
            "function": function.function,
            "path": path,
            "source": source,
            "description": function.description,
            "preset_args": function.preset_args,
        }));
    }
    let roots: Vec<String> = context.roots.iter().map(ToString::to_string).collect();
    let setup = json!({
        "host": HOST_SOURCE,
        "tools": tools,
        "discover": python.discovery_exclusions,
        "context": {
            "agent_id": context.agent,
            "agent_cwd": context.directory.to_string(),
            "allowed_paths": roots,
        },
    });
    Ok(format!("{setup}\n").into_bytes())
}

/// Returns the path of a file and its text, or the path as written if it does not exist.
fn path_and_source(file: &NamedFile) -> Result<(Value, Value), String> {
    if file.is_python_file() {
        for path in &file.candidates {
            let content = files::read_regular_file(path, FILE_BYTES_MAX);
            let read_failure = |error: Error| {
                let message = std::iter::once(format!("{error:#}"));
                let parts: Vec<String> = message.chain(error.hints().to_vec()).collect();
                parts.join("; ")
            };
            let Some(bytes) = content.map_err(read_failure)? else {
                continue;
            };
            let text =
                String::from_utf8(bytes).map_err(|_| format!("`{path}` is not UTF-8 text"))?;
            return Ok((path.to_string().into(), text.into()));
        }
    }
    Ok((file.config_path.as_str().into(), Value::Null))
}
