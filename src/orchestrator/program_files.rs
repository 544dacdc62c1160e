//! The files of programs that have more access than an agent's commands: the user's variables, or a
//! network of their own. An agent that could rewrite such a program could use them.

use std::iter;
use std::path::Path;

use crate::config::custom_tools::{NamedFile, ProgramInterface};
use crate::config::servers::{CWD_PLACEHOLDER, ServerDirectory, ServerProgram, ServerTransport};
use crate::error::{Error, ErrorKind, Result};
use crate::orchestrator::environments::{EnvironmentSpec, SubagentProgramSpec};
use crate::orchestrator::grants::permission_manager;
use crate::orchestrator::team::TeamMember;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Permission, Phase};
use crate::sandbox_policy::network::NetworkPolicy;
use crate::world::io::files::first_file;
use crate::world::io::locate::{LocatedPath, locate, symlinks_on_path};

/// Extensions of programs that an interpreter reads.
const SCRIPT_EXTENSIONS: &[&str] = &[
    "cjs", "js", "lua", "mjs", "php", "pl", "py", "rb", "sh", "ts",
];
/// Extensions of those among them that find modules in their own directory first.
const IMPORTING_EXTENSIONS: &[&str] = &["cjs", "js", "mjs", "py", "rb", "ts"];

/// Rejects a server or a tool whose program an agent may rewrite, if the program has variables or a
/// network of its own. Relative names start in the directory that the config names, or else in the
/// agent's workspace, or in `base` if the agent has none.
///
/// # Errors
/// There is such a program.
pub(super) fn reject_agent_writable_programs(members: &[TeamMember], base: &AbsPath) -> Result<()> {
    for member in members {
        for server in &member.config.servers {
            let ServerTransport::Program(program) = &server.transport else {
                continue;
            };
            if program.env.is_empty() && program.network == NetworkPolicy::Off {
                continue;
            }
            let workspace = member.workspace.as_ref().unwrap_or(base);
            for path in program_files(program, workspace) {
                reject_writable(server.name().as_str(), &path, members)?;
            }
        }
    }
    Ok(())
}

/// Rejects an external agent that works as subagents and whose program an agent may rewrite, if the
/// program has variables or a network of its own.
///
/// # Errors
/// An agent may rewrite it.
pub(super) fn reject_agent_writable_subagent(
    spec: &SubagentProgramSpec<'_>,
    members: &[TeamMember],
) -> Result<()> {
    let EnvironmentSpec {
        config, workspace, ..
    } = spec.environment;
    if config.env.is_empty() && config.network == NetworkPolicy::Off {
        return Ok(());
    }
    let files = command_files(&spec.program.command, workspace);
    files
        .iter()
        .try_for_each(|path| reject_writable(spec.program.vendor, path, members))
}

/// Returns the first of `members` that may write to `path` in the final phase, in which an agent
/// may write the most.
pub(super) fn find_writer<'m>(
    members: &'m [TeamMember],
    path: &RealPath,
) -> Option<&'m TeamMember> {
    let mut members = members.iter();
    members.find(|member| {
        permission_manager(&member.grants, Phase::Final).allows(path, Permission::Write)
    })
}

/// Rejects a file of `program` that an agent may rewrite, or beside which it may put modules that
/// the program would import. Accepts a path at which there is no file.
fn reject_writable(program: &str, path: &AbsPath, members: &[TeamMember]) -> Result<()> {
    // A server is started again when it has exited: by then an agent may have created the file.
    let Ok(LocatedPath::File(file) | LocatedPath::Missing(file)) = locate(path) else {
        return Ok(());
    };
    let parent = has_extension(path.as_path(), IMPORTING_EXTENSIONS)
        .then(|| file.parent())
        .flatten();
    let links = symlinks_on_path(path)?;
    for path in iter::once(file).chain(parent).chain(links) {
        if let Some(member) = find_writer(members, &path) {
            return Err(writable_program_error(program, member, &path));
        }
    }
    Ok(())
}

fn writable_program_error(program: &str, member: &TeamMember, path: &RealPath) -> Error {
    let message = format!(
        "agent `{}` may write to `{path}`, which is part of the program of `{program}`: it could use \
         the variables and the network of that program",
        member.id
    );
    Error::new(ErrorKind::Config, message)
        .with_hint("move the program to a directory that no agent may write to")
        .with_hint("or list its directory in `protected_paths` of the context path")
}

/// Returns the files that `program` may consist of, as far as its command names them.
fn program_files(program: &ServerProgram, workspace: &AbsPath) -> Vec<AbsPath> {
    match &program.interface {
        ProgramInterface::SingleTool(tool) => {
            let files = tool.files.iter().flat_map(|(index, file)| {
                if *index == 0 || has_extension(Path::new(&file.config_path), SCRIPT_EXTENSIONS) {
                    deciding_candidates(file)
                } else {
                    // It may be an argument that names no file.
                    first_file(&file.candidates).cloned().into_iter().collect()
                }
            });
            files.collect()
        }
        ProgramInterface::PythonFunctions(python) => {
            let functions = python.functions.iter();
            let files = functions.filter_map(|function| function.file.as_ref());
            files.flat_map(deciding_candidates).collect()
        }
        ProgramInterface::Mcp => {
            let directory = match &program.directory {
                ServerDirectory::Named(directory) => directory,
                ServerDirectory::Workspace | ServerDirectory::Private => workspace,
            };
            let directory_text = directory.to_string();
            let words: Vec<String> = program
                .command
                .iter()
                .map(|word| word.replace(CWD_PLACEHOLDER, &directory_text))
                .collect();
            command_files(&words, directory)
        }
    }
}

/// Returns the candidates that decide which file is used: the first that exists, and those before
/// it, which would take its place if they were created.
fn deciding_candidates(file: &NamedFile) -> Vec<AbsPath> {
    let existing = first_file(&file.candidates);
    let position = file
        .candidates
        .iter()
        .position(|path| Some(path) == existing);
    let count = position.map_or(file.candidates.len(), |index| index + 1);
    file.candidates.iter().take(count).cloned().collect()
}

/// Returns the files that the program of `command` may consist of, as far as the command names
/// them. Relative names start at `directory`.
fn command_files(command: &[String], directory: &AbsPath) -> Vec<AbsPath> {
    let numbered_words = command.iter().enumerate();
    // A first word without a slash is looked up in `PATH`.
    let words = numbered_words.filter(|(index, word)| match index {
        0 => word.contains('/'),
        _ => has_extension(Path::new(word), SCRIPT_EXTENSIONS),
    });
    words
        .map(|(_, word)| AbsPath::resolve(directory, word))
        .collect()
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(|name| name.to_str());
    extension.is_some_and(|extension| extensions.contains(&extension))
}
