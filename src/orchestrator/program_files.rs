//! The files of the user's programs that have a verdict, the user's variables or a network. An agent
//! that could rewrite such a program could decide what the agent wants, or use them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::config::custom_tools::{NamedFile, ProgramInterface};
use crate::config::servers::{
    CWD_PLACEHOLDER, ProgramPlace, ServerDirectory, ServerProgram, ServerTransport,
};
use crate::error::{Error, ErrorKind, Result};
use crate::orchestrator::environments::{Privilege, SubagentProgramSpec};
use crate::orchestrator::grants::permission_manager;
use crate::orchestrator::team::TeamMember;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::world::io::files::{find_in_search_path, first_file};
use crate::world::io::locate::{LocatedPath, locate, resolve_path, symlinks_on_path};

/// The variable with the directories in which programs are looked up.
const SEARCH_PATH: &str = "PATH";
/// Extensions of programs that an interpreter reads.
const SCRIPT_EXTENSIONS: &[&str] = &[
    "cjs", "js", "lua", "mjs", "php", "pl", "py", "rb", "sh", "ts",
];
/// Extensions of those among them that find modules in their own directory first.
const IMPORTING_EXTENSIONS: &[&str] = &["cjs", "js", "mjs", "py", "rb", "ts"];

/// Rejects a server or a tool whose program an agent may rewrite, if the program has variables or a
/// network of its own. Relative names start in the directory that the config names, or else in the
/// agent's workspace, or in `base` if the agent has none; names without a slash are looked up in
/// `PATH` of `env`.
///
/// # Errors
/// There is such a program.
pub(super) fn reject_agent_writable_programs(
    members: &[TeamMember],
    base: &AbsPath,
    env: &BTreeMap<String, String>,
) -> Result<()> {
    for member in members {
        for server in &member.config.servers {
            let ServerTransport::Program(program) = &server.transport else {
                continue;
            };
            if !program.is_privileged() {
                continue;
            }
            let name = server.name().as_str();
            let workspace = member.workspace.as_ref().unwrap_or(base);
            let mut files = program_files(program, workspace);
            if program.run_in == ProgramPlace::Sandbox {
                files.extend(program_in_search_path(&program.command, env, members));
            }
            for path in files {
                reject_writable(name, &path, members)?;
            }
            let mut read_paths = existing_files(program, workspace);
            if let ServerDirectory::Named(directory) = &program.directory {
                read_paths.push(directory.clone());
            }
            for path in read_paths {
                reject_in_workspace(name, &path, members)?;
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
    env: &BTreeMap<String, String>,
) -> Result<()> {
    if spec.environment.privilege() == Privilege::Ordinary {
        return Ok(());
    }
    let command = &spec.program.command;
    let files = command_files(command, spec.environment.workspace).into_iter();
    files
        .chain(program_in_search_path(command, env, members))
        .try_for_each(|path| reject_writable(spec.program.vendor, &path, members))
}

/// Returns the first of `members` that may write to `path` in the final phase, in which an agent
/// may write the most, or that has a copy of what agents wrote there.
pub(super) fn find_writer<'m>(
    members: &'m [TeamMember],
    path: &RealPath,
) -> Option<&'m TeamMember> {
    members
        .iter()
        .find(|member| may_write(member, path, Phase::Final))
}

fn may_write(member: &TeamMember, path: &RealPath, phase: Phase) -> bool {
    let holds_copies = |grant: &Grant| {
        matches!(
            grant.kind,
            GrantKind::TempWorkspace | GrantKind::PreviousTurn
        )
    };
    let mut copies = member.grants.iter().filter(|grant| holds_copies(grant));
    copies.any(|grant| path.is_within(&grant.root))
        || permission_manager(&member.grants, phase).allows(path, Permission::Write)
}

/// Returns the first of `members` that may write to what `path` leads to, or to a symlink on the
/// way, and what that is. Nothing may exist there yet.
///
/// # Errors
/// The path leads through too many symlinks.
pub(super) fn find_writer_on_way<'m>(
    members: &'m [TeamMember],
    path: &AbsPath,
) -> Result<Option<(&'m TeamMember, RealPath)>> {
    let real = locate(path).map(LocatedPath::into_real).ok();
    let mut places = symlinks_on_path(path)?.into_iter().chain(real);
    Ok(places.find_map(|place| Some((find_writer(members, &place)?, place))))
}

/// Returns the variables `env` without what leads to where `members` may write: directories in
/// `PATH`, and variables that name such a path.
pub(super) fn without_agent_paths(
    env: &BTreeMap<String, String>,
    members: &[TeamMember],
) -> BTreeMap<String, String> {
    let without_agents = |(name, value): (&String, &String)| {
        let value = if name == SEARCH_PATH {
            without_agent_directories(value, members)
        } else {
            Some(value.clone()).filter(|value| !leads_to_agents(value, members))?
        };
        Some((name.clone(), value))
    };
    env.iter().filter_map(without_agents).collect()
}

/// Returns the directories of `search_path` to which `members` may not write.
fn without_agent_directories(search_path: &str, members: &[TeamMember]) -> String {
    let directories = search_path.split(':');
    let safe_directories = directories.filter(|directory| !leads_to_agents(directory, members));
    safe_directories.collect::<Vec<_>>().join(":")
}

/// Returns whether `text` is an absolute path that leads to where `members` may write.
fn leads_to_agents(text: &str, members: &[TeamMember]) -> bool {
    let path = AbsPath::new(text);
    path.is_some_and(|path| !matches!(find_writer_on_way(members, &path), Ok(None)))
}

/// Returns the program that a privileged `command` starts, if it is looked up in `PATH` of `env`:
/// where no agent may write, or else where one may.
pub(super) fn program_in_search_path(
    command: &[String],
    env: &BTreeMap<String, String>,
    members: &[TeamMember],
) -> Option<AbsPath> {
    let name = command.first().filter(|name| !name.contains('/'))?;
    let search_path = env.get(SEARCH_PATH).map_or("", String::as_str);
    find_in_search_path(name, &without_agent_directories(search_path, members))
        .or_else(|| find_in_search_path(name, search_path))
}

/// Rejects a file in a workspace, or a program's directory there: nothing but what agents write can
/// be read from it.
fn reject_in_workspace(program: &str, path: &AbsPath, members: &[TeamMember]) -> Result<()> {
    let Ok(located) = locate(path) else {
        return Ok(());
    };
    let real = located.into_real();
    let mut members = members.iter();
    match members.find(|member| may_write(member, &real, Phase::Coordination)) {
        Some(member) => Err(writable_program_error(program, member, &real)),
        None => Ok(()),
    }
}

/// Protects the files that the command of a privileged server names: what an agent made of them would
/// be part of the server in a later run.
pub(super) fn protect_named_files(members: &mut [TeamMember], base: &AbsPath) {
    let named_files = members.iter().flat_map(|member| {
        let workspace = member.workspace.as_ref().unwrap_or(base);
        let programs = member.config.servers.iter().filter_map(|server| {
            let ServerTransport::Program(program) = &server.transport else {
                return None;
            };
            let is_server = program.interface == ProgramInterface::Mcp;
            (is_server && program.is_privileged()).then_some(program)
        });
        programs.flat_map(|program| {
            let mut files = existing_files(program, workspace);
            // Scripts that an agent may rewrite are rejected.
            files.retain(|path| !has_extension(path.as_path(), SCRIPT_EXTENSIONS));
            files
        })
    });
    let places = named_files.flat_map(|path| {
        let links = symlinks_on_path(&path).unwrap_or_default();
        links.into_iter().chain(resolve_path(&path))
    });
    let places: BTreeSet<RealPath> = places.collect();
    for grant in members.iter_mut().flat_map(|member| &mut member.grants) {
        let is_context = grant.kind == GrantKind::Context;
        let inside = places.iter().filter_map(|place| grant.relative_path(place));
        let inside: Vec<RelPath> = inside.filter(|rel| is_context && !rel.is_root()).collect();
        grant.protected.extend(inside);
    }
}

/// Returns the directory in which relative words of the command of `program` start.
fn start_of_words<'a>(program: &'a ServerProgram, workspace: &'a AbsPath) -> &'a AbsPath {
    match &program.directory {
        ServerDirectory::Named(directory) => directory,
        ServerDirectory::Workspace | ServerDirectory::Private => workspace,
    }
}

/// Returns the existing files that words of the command of `program` name.
fn existing_files(program: &ServerProgram, workspace: &AbsPath) -> Vec<AbsPath> {
    let start = start_of_words(program, workspace);
    let paths = program.command.iter().flat_map(|word| {
        let word = word.replace(CWD_PLACEHOLDER, &start.to_string());
        let parts: Vec<AbsPath> = path_parts(&word)
            .map(|part| AbsPath::resolve(start, part))
            .collect();
        parts
    });
    paths
        .filter(|path| matches!(locate(path), Ok(LocatedPath::File(_))))
        .collect()
}

/// Returns the parts of `word` that may name a file: the value of an option or an assignment, and
/// the whole of what is not an option.
fn path_parts(word: &str) -> impl Iterator<Item = &str> {
    let value = word.split_once('=').map(|(_, value)| value);
    let is_option = word.starts_with('-');
    let whole = Some(word).filter(|_| !is_option);
    whole.into_iter().chain(value)
}

/// Rejects a file of `program` that an agent may rewrite, or beside which it may put modules that
/// the program would import. Accepts a path at which there is no file.
fn reject_writable(program: &str, path: &AbsPath, members: &[TeamMember]) -> Result<()> {
    // A server is started again when it has exited: by then an agent may have created the file.
    let Ok(LocatedPath::File(file) | LocatedPath::Missing(file)) = locate(path) else {
        return Ok(());
    };
    let writer_of_directory = || {
        let directory = file.parent()?;
        Some((find_writer(members, &directory)?, directory))
    };
    let is_importing = has_extension(path.as_path(), IMPORTING_EXTENSIONS);
    let writer = match find_writer_on_way(members, path)? {
        None if is_importing => writer_of_directory(),
        writer => writer,
    };
    match writer {
        Some((member, path)) => Err(writable_program_error(program, member, &path)),
        None => Ok(()),
    }
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
            let directory = start_of_words(program, workspace);
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
    let Some((program, arguments)) = command.split_first() else {
        return Vec::new();
    };
    // A first word without a slash is looked up in `PATH`.
    let program = Some(program.as_str()).filter(|program| program.contains('/'));
    let scripts = arguments
        .iter()
        .flat_map(|word| path_parts(word))
        .filter(|part| has_extension(Path::new(part), SCRIPT_EXTENSIONS));
    program
        .into_iter()
        .chain(scripts)
        .map(|word| AbsPath::resolve(directory, word))
        .collect()
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(|name| name.to_str());
    extension.is_some_and(|extension| extensions.contains(&extension))
}
