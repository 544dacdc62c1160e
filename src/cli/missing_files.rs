//! Finds files and programs that the servers and tools of a config name and that do not exist.
//! Nothing is started.

use std::path::Path;
use std::ptr;

use crate::config::Config;
use crate::config::custom_tools::{NamedFile, ProgramInterface};
use crate::config::servers::{
    InstanceSharing, ProgramPlace, ServerConfig, ServerDirectory, ServerProgram, ServerTransport,
};
use crate::config::storage_path::StoragePath;
use crate::mentions::LookupResult;
use crate::path::AbsPath;
use crate::world::exec::agent_launcher::{MISSING_PROGRAM_HINT, find_program};
use crate::world::io::files::{first_file, inspect};

/// What the paths of files in MassGen's package begin with.
const PACKAGE: &str = "massgen/";
/// The extensions of arguments that are the script of a server.
const SCRIPT_EXTENSIONS: &[&str] = &["py", "js", "mjs", "cjs", "ts", "mts", "sh"];
/// Characters of arguments that are not plain paths: placeholders, URLs and command lines.
const NOT_IN_PATHS: &[char] = &['$', '{', ':', ' ', '\n', '@'];

/// A file or program that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingFile {
    /// What it is.
    pub(crate) kind: MissingFileKind,
    /// The tools or the server that need it.
    pub(crate) subject: String,
    /// Its path or name as written.
    pub(crate) file: String,
    /// What to do.
    pub(crate) hint: &'static str,
}

/// What a missing file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingFileKind {
    /// A file that a tool consists of, or the script of a server.
    File,
    /// The program of a server.
    Program,
}

impl MissingFileKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 2] = [Self::File, Self::Program];

    /// Returns its noun.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Program => "program",
        }
    }
}

/// Returns the missing files of all servers of `config`, and their missing programs, which are
/// looked up in the directories of `path` and of the system; each once.
pub(crate) fn missing_files(config: &Config, path: &str) -> Vec<MissingFile> {
    let mut missing_files: Vec<MissingFile> = Vec::new();
    for server in config.agents.iter().flat_map(|agent| &agent.servers) {
        let server_file = missing_file(server, config).into_iter();
        for file in server_file.chain(missing_program(server, path)) {
            if !missing_files.contains(&file) {
                missing_files.push(file);
            }
        }
    }
    missing_files
}

/// Returns the program of an MCP server, unless a run will find it. Programs in containers, those
/// of packages that massgen installs, and those in directories that a run determines are not looked
/// up.
fn missing_program(server: &ServerConfig, path: &str) -> Option<MissingFile> {
    let ServerTransport::Program(program) = &server.transport else {
        return None;
    };
    let name = program.command.first()?;
    let is_relative_path = name.contains('/') && !name.starts_with('/');
    let is_looked_up = program.interface == ProgramInterface::Mcp
        && program.run_in == ProgramPlace::Sandbox
        && program.package.is_none()
        && !program.env.contains_key(SEARCH_PATH)
        && !is_relative_path;
    (is_looked_up && find_program(&program.command, path, None).is_err()).then(|| MissingFile {
        kind: MissingFileKind::Program,
        subject: subject(server),
        file: name.clone(),
        hint: MISSING_PROGRAM_HINT,
    })
}

/// Returns the first file of a server of `config`, or of the user's own tools, that does not exist.
pub(crate) fn missing_file(server: &ServerConfig, config: &Config) -> Option<MissingFile> {
    let ServerTransport::Program(program) = &server.transport else {
        return None;
    };
    let (file, hint) = match &program.interface {
        ProgramInterface::Mcp => {
            missing_script(program, |script| has_in_workspaces(server, config, script))?
        }
        ProgramInterface::PythonFunctions(python) => {
            let files = python
                .functions
                .iter()
                .filter_map(|function| function.file.as_ref());
            // Only the Python host can see the files in MassGen's package.
            let is_own =
                |file: &&NamedFile| file.is_python_file() && !file.config_path.starts_with(PACKAGE);
            let mut files = files.filter(is_own);
            (
                files.find(|file| is_missing(file))?.config_path.as_str(),
                TOOL_HINT,
            )
        }
        ProgramInterface::SingleTool(tool) => {
            let mut files = tool.files.iter();
            let (_, file) = files.find(|(index, _)| *index == 0)?;
            is_missing(file).then_some((file.config_path.as_str(), TOOL_HINT))?
        }
    };
    Some(MissingFile {
        kind: MissingFileKind::File,
        subject: subject(server),
        file: file.to_owned(),
        hint,
    })
}

/// The variable with the directories of programs.
const SEARCH_PATH: &str = "PATH";
/// What to do about a missing file of a tool.
const TOOL_HINT: &str = "correct the path; a relative one starts in the directory of the config";

/// Returns the name of a server, or of the user's own tools that it consists of.
pub(crate) fn subject(server: &ServerConfig) -> String {
    match server.custom_tools().as_slice() {
        [] => server.name().to_string(),
        tools => tools.join(", "),
    }
}

fn is_missing(file: &NamedFile) -> bool {
    first_file(&file.candidates).is_none()
}

/// Returns the first argument that names a script which is not where the program would look for it.
/// `is_in_workspaces` tells whether a file is in the workspaces of all its agents.
fn missing_script(
    program: &ServerProgram,
    is_in_workspaces: impl Fn(&str) -> bool,
) -> Option<(&str, &'static str)> {
    if program.run_in != ProgramPlace::Sandbox || program.package.is_some() {
        return None;
    }
    let arguments = program.command.iter().skip(1).map(String::as_str);
    let mut scripts = arguments.filter(|argument| is_script(argument));
    scripts.find_map(|script| {
        if script.starts_with('/') {
            return is_absent(&AbsPath::new(script)?).then_some((script, "correct the path"));
        }
        match &program.directory {
            ServerDirectory::Named(directory) => {
                is_absent(&directory.join(script)).then_some((
                    script,
                    "correct the path; a relative one starts in the `cwd` of the server",
                ))
            }
            ServerDirectory::Workspace
                if program.instances == InstanceSharing::PerAgent && is_in_workspaces(script) =>
            {
                None
            }
            ServerDirectory::Workspace | ServerDirectory::Private => Some((
                script,
                "write the absolute path: a relative one starts in the workspace of the agent, or in \
                 the `cwd` of the server",
            )),
        }
    })
}

/// Returns whether the workspaces of all agents that have a server are directories of the user's with
/// this file. Other workspaces are created by massgen, and hold no file of the user's.
fn has_in_workspaces(server: &ServerConfig, config: &Config, script: &str) -> bool {
    let mut agents = config.agents.iter().filter(|agent| {
        let mut servers = agent.servers.iter();
        servers.any(|known| ptr::eq(known.as_ref(), server))
    });
    agents.all(|agent| {
        let workspace = agent.cwd.as_ref().and_then(StoragePath::absolute);
        workspace.is_some_and(|workspace| !is_absent(&workspace.join(script)))
    })
}

fn is_absent(path: &AbsPath) -> bool {
    inspect(path) == LookupResult::Missing
}

fn is_script(argument: &str) -> bool {
    let extension = Path::new(argument).extension();
    let extension = extension.and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| SCRIPT_EXTENSIONS.contains(&extension))
        && !argument.starts_with(['-', '~'])
        && !argument.contains(NOT_IN_PATHS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_paths_with_a_known_extension() {
        for argument in ["./server.py", "server.js", "/opt/a/run.sh"] {
            assert!(is_script(argument), "{argument}");
        }
        for argument in [
            "-m",
            "server",
            "--file=a.py",
            "${cwd}/a.py",
            "~/a.py",
            "https://example.org/a.py",
            "@scope/a.js",
            "print('a.py')\n",
        ] {
            assert!(!is_script(argument), "{argument}");
        }
    }
}
