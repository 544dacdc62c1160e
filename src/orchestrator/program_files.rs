//! The files of the user's programs that have a verdict, the user's variables or a network. An agent
//! that could rewrite such a program could decide what the agent wants, or use them. In the user's
//! paths these files are protected; elsewhere no agent may write to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::slice;

use crate::commands::parse::parse;
use crate::config::command_line::Privilege;
use crate::config::custom_tools::{NamedFile, ProgramInterface};
use crate::config::servers::{
    CWD_PLACEHOLDER, ProgramPlace, ServerDirectory, ServerProgram, ServerTransport,
};
use crate::config::{AgentConfig, Config};
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::{Hook, HookList};
use crate::mentions::LookupResult;
use crate::orchestrator::grants::permission_manager;
use crate::orchestrator::process_specs::{HostEnvironment, SubagentProgramSpec};
use crate::orchestrator::team::TeamMember;
use crate::path::{AbsPath, RealPath, possible_paths};
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::sandbox_policy::environment::exclude_directories;
use crate::text::single_line;
use crate::world::exec::agent_launcher::find_program;
use crate::world::io::files::{find_in_search_path, first_file, inspect};
use crate::world::io::locate::{LocatedPath, locate, places_on_way};

/// The variable with the directories in which programs are looked up.
const SEARCH_PATH: &str = "PATH";
/// Extensions of programs that an interpreter reads.
const SCRIPT_EXTENSIONS: &[&str] = &[
    "cjs", "js", "lua", "mjs", "php", "pl", "py", "rb", "sh", "ts",
];
/// Extensions of those among them that find modules in their own directory first.
const IMPORTING_EXTENSIONS: &[&str] = &["cjs", "js", "mjs", "py", "rb", "ts"];
/// Those of hooks: massgen tells Python from where they import.
pub(super) const IMPORTING_HOOK_EXTENSIONS: &[&str] = &["cjs", "js", "mjs", "rb", "ts"];
/// Interpreters that run a directory, such as `python3 tools`, without the digits of their versions.
const DIRECTORY_INTERPRETERS: &[&str] = &["bun", "node", "pypy", "python"];
/// Options that tell a runner, such as `uv` or `make`, in which directory it finds what to run.
const RUNNER_DIRECTORY_OPTIONS: &[&str] = &[
    "-C",
    "--cwd",
    "--dir",
    "--directory",
    "--from",
    "--prefix",
    "--project",
    "--spec",
];
/// Maximum number of directories in which the file names in the command of a hook are looked up.
const START_DIRECTORIES_MAX: usize = 16;

/// Returns the files that decide what the hooks and privileged programs of `agent` do, and directories
/// of such files, to the extent that the config names them. They are protected, as an agent that changed them would decide about
/// later runs, too.
pub(crate) fn privileged_files(
    agent: &AgentConfig,
    workspace: &AbsPath,
    base: &AbsPath,
) -> Vec<AbsPath> {
    let programs = agent.servers.iter().filter_map(|server| {
        let ServerTransport::Program(program) = &server.transport else {
            return None;
        };
        program.is_privileged().then_some(program)
    });
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for program in programs {
        files.extend(program_files(program, workspace));
        directories.extend(server_program_directories(program, workspace));
    }
    for hook in agent.hooks.iter() {
        files.extend(hook_files(&hook.command, base));
        directories.extend(hook_directories(&hook.command, base));
    }
    files.retain(|path| {
        matches!(
            locate(path),
            Ok(LocatedPath::File(_) | LocatedPath::Missing(_))
        )
    });
    files.into_iter().chain(directories).collect()
}

/// Returns the files that the command of a hook may name, and the missing scripts among them. Names
/// start at `base`, or at a directory that the command names. What the shell makes of patterns and
/// substitutions is not known; what follows the first slash may be a path below these directories.
pub(super) fn hook_files(command: &str, base: &AbsPath) -> Vec<AbsPath> {
    let line = parse(command);
    let words = line.commands.iter().flat_map(|command| {
        let inputs = command.redirections.iter().map(|input| &input.target);
        let words = command.words.iter().chain(&command.assignments);
        words.chain(inputs)
    });
    let words = words.map(|word| word.raw.replace(['"', '\'', '\\'], ""));
    let texts: Vec<String> = words.chain([command.to_owned()]).collect();
    let mut directories = vec![base.clone()];
    let mut files = Vec::new();
    for part in texts.iter().flat_map(|text| possible_paths(text)) {
        let is_plain = part
            .chars()
            .all(|c| c.is_alphanumeric() || "/._-+@".contains(c));
        let is_script = is_plain && has_extension(Path::new(part), SCRIPT_EXTENSIONS);
        let below = part.trim_start_matches('/');
        let places: Vec<AbsPath> = directories
            .iter()
            .flat_map(|start| [part, below].map(|name| AbsPath::resolve(start, name)))
            .collect();
        let mut found_files = Vec::new();
        for path in places {
            match locate(&path) {
                Ok(LocatedPath::File(_)) => found_files.push(path),
                Ok(LocatedPath::Directory(_)) if !directories.contains(&path) => {
                    directories.push(path);
                }
                Ok(LocatedPath::Missing(_) | LocatedPath::Directory(_)) | Err(_) => {}
            }
        }
        directories.truncate(START_DIRECTORIES_MAX);
        if found_files.is_empty() && is_script {
            found_files.push(AbsPath::resolve(base, part));
        }
        files.extend(found_files);
    }
    files.sort();
    files.dedup();
    files
}

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
                reject_writable(name, &path, members, IMPORTING_EXTENSIONS)?;
            }
            if let ServerDirectory::Named(directory) = &program.directory {
                reject_in_workspace(name, directory, members)?;
            }
            for directory in server_program_directories(program, workspace) {
                reject_in_workspace(name, &directory, members)?;
            }
        }
    }
    Ok(())
}

/// Rejects files that the run obeys and that an agent may rewrite: in its workspace, nothing is
/// protected.
///
/// # Errors
/// There is such a file.
pub(super) fn reject_agent_writable_files(files: &[AbsPath], members: &[TeamMember]) -> Result<()> {
    for file in files {
        if let Some((member, place)) = find_writer_on_way(members, file)? {
            let message = format!(
                "agent `{}` may write to `{place}`, which this run obeys: it would decide about \
                 later runs",
                member.id
            );
            return Err(Error::new(ErrorKind::Config, message)
                .with_hint("give the agent a `cwd` that does not contain it, or move the file"));
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
        .try_for_each(|path| {
            reject_writable(spec.program.vendor, &path, members, IMPORTING_EXTENSIONS)
        })
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
    let mut places = places_on_way(path)?.into_iter();
    Ok(places.find_map(|place| Some((find_writer(members, &place)?, place))))
}

/// Returns the variables `env` without what leads to where `members` may write: directories in
/// `PATH`, and variables that name such a path.
pub(super) fn without_agent_paths(
    env: &BTreeMap<String, String>,
    members: &[TeamMember],
) -> BTreeMap<String, String> {
    let mut env = env.clone();
    exclude_agent_directories(&mut env, members);
    env.retain(|name, value| name == SEARCH_PATH || !leads_to_agents(value, members));
    env
}

/// Leaves those directories out of the `PATH` in `env` that are relative, or to which `members` may
/// write.
pub(super) fn exclude_agent_directories(
    env: &mut BTreeMap<String, String>,
    members: &[TeamMember],
) {
    exclude_directories(env, |path| is_writable_way(path, members));
}

/// Returns whether `text` is an absolute path that leads to where `members` may write.
fn leads_to_agents(text: &str, members: &[TeamMember]) -> bool {
    AbsPath::new(text).is_some_and(|path| is_writable_way(&path, members))
}

fn is_writable_way(path: &AbsPath, members: &[TeamMember]) -> bool {
    !matches!(find_writer_on_way(members, path), Ok(None))
}

/// Returns the program that a privileged `command` starts, if it is looked up in `PATH` of `env`:
/// where no agent may write, or else where one may.
pub(super) fn program_in_search_path(
    command: &[String],
    env: &BTreeMap<String, String>,
    members: &[TeamMember],
) -> Option<AbsPath> {
    let name = command.first().filter(|name| !name.contains('/'))?;
    let find_in = |env: &BTreeMap<String, String>| {
        find_in_search_path(name, env.get(SEARCH_PATH).map_or("", String::as_str))
    };
    let mut safe_env = env.clone();
    exclude_agent_directories(&mut safe_env, members);
    find_in(&safe_env).or_else(|| find_in(env))
}

/// Rejects a program's directory in a workspace: nothing but what agents write can be read from it.
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

/// Returns the words of a command that may name the directory of what it runs: that of an
/// interpreter, and those at which a runner is pointed.
fn program_directories(words: &[String]) -> Vec<&str> {
    let name = words.first().and_then(|program| program.rsplit('/').next());
    let name = name.map(|name| name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'));
    let is_interpreter = name.is_some_and(|name| DIRECTORY_INTERPRETERS.contains(&name));
    let mut operands = words.iter().skip(1).filter(|word| !word.starts_with('-'));
    let interpreted = operands.next().filter(|_| is_interpreter);
    let pointed = words.iter().enumerate().filter_map(|(index, word)| {
        let attached = word.strip_prefix("-C").filter(|value| !value.is_empty());
        let (option, value) = match (attached, word.split_once('=')) {
            (Some(value), _) => return Some(value),
            (None, Some(pair)) => pair,
            (None, None) => (word.as_str(), words.get(index.saturating_add(1))?.as_str()),
        };
        RUNNER_DIRECTORY_OPTIONS.contains(&option).then_some(value)
    });
    let interpreted = interpreted.into_iter().map(String::as_str);
    interpreted.chain(pointed).collect()
}

/// Returns the directories of what `program` runs, to the extent that its command names them by
/// absolute paths: others start in its private directory.
fn server_program_directories(program: &ServerProgram, workspace: &AbsPath) -> Vec<AbsPath> {
    let words = expanded_words(program, start_of_words(program, workspace));
    let directories = program_directories(&words).into_iter();
    directories.filter_map(AbsPath::new).collect()
}

/// Returns the existing directories of what the command of a hook runs; names start at `base`.
fn hook_directories(command: &str, base: &AbsPath) -> Vec<AbsPath> {
    let mut directories = Vec::new();
    for command in parse(command).commands {
        let words: Vec<String> = command.words.into_iter().map(|word| word.raw).collect();
        let named = program_directories(&words).into_iter();
        directories.extend(named.map(|name| AbsPath::resolve(base, name)));
    }
    directories.retain(|path| matches!(locate(path), Ok(LocatedPath::Directory(_))));
    directories
}

/// Returns the words of the command of `program`, whose relative words start at `start`.
fn expanded_words(program: &ServerProgram, start: &AbsPath) -> Vec<String> {
    let words = program.command.iter();
    words
        .map(|word| word.replace(CWD_PLACEHOLDER, &start.to_string()))
        .collect()
}

/// Returns the directory in which relative words of the command of `program` start.
fn start_of_words<'a>(program: &'a ServerProgram, workspace: &'a AbsPath) -> &'a AbsPath {
    match &program.directory {
        ServerDirectory::Named(directory) => directory,
        ServerDirectory::Workspace | ServerDirectory::Private => workspace,
    }
}

/// Rejects a file of `program` that an agent may rewrite, or beside which it may put modules that
/// the program would import, with one of `importing_extensions`. Accepts a directory.
///
/// # Errors
/// An agent may do so.
pub(super) fn reject_writable(
    program: &str,
    path: &AbsPath,
    members: &[TeamMember],
    importing_extensions: &[&str],
) -> Result<()> {
    // A server is started again when it has exited: by then an agent may have created the file.
    let Ok(LocatedPath::File(file) | LocatedPath::Missing(file)) = locate(path) else {
        return Ok(());
    };
    let writer_of_directory = || {
        let directory = file.parent()?;
        Some((find_writer(members, &directory)?, directory))
    };
    let is_importing = has_extension(path.as_path(), importing_extensions);
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
        "agent `{}` may write to `{path}`, which is part of the program of `{program}`: it could \
         decide what that program does",
        member.id
    );
    Error::new(ErrorKind::Config, message)
        .with_hint("move it to a directory that no agent may write to, such as `.massgen/hooks`")
        .with_hint("or list its directory in `protected_paths` of the context path")
}

/// Returns the files that `program` may consist of, and the existing files that its command names.
fn program_files(program: &ServerProgram, workspace: &AbsPath) -> Vec<AbsPath> {
    let start = start_of_words(program, workspace);
    let words = expanded_words(program, start);
    let mut files: Vec<AbsPath> = match &program.interface {
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
        ProgramInterface::Mcp => command_files(&words, start),
    };
    let named_paths = words.iter().flat_map(|word| possible_paths(word));
    let named_paths = named_paths.map(|part| AbsPath::resolve(start, part));
    files.extend(named_paths.filter(|path| matches!(locate(path), Ok(LocatedPath::File(_)))));
    files
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
        .flat_map(|word| possible_paths(word))
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

/// Maximum length of commands of hooks in messages, in characters.
const COMMAND_CHARS_MAX: usize = 300;
/// The shell's builtins.
const BUILTINS: &[&str] = &[
    ".", ":", "[", "[[", "alias", "builtin", "cd", "command", "declare", "echo", "eval", "exec",
    "exit", "export", "false", "getopts", "hash", "kill", "let", "local", "mapfile", "printf",
    "pwd", "read", "readonly", "return", "set", "shift", "shopt", "source", "test", "times",
    "trap", "true", "type", "typeset", "ulimit", "umask", "unset", "wait",
];

/// The extension of Python scripts.
const PYTHON_EXTENSION: &str = "py";

/// Rejects hooks that cannot run or that an agent can write to, before any model is paid.
pub(crate) fn validate_hooks(
    members: &[TeamMember],
    base: &AbsPath,
    host: &HostEnvironment,
) -> Result<()> {
    let hooks = || members.iter().flat_map(|member| member.config.hooks.iter());
    let Some(first_hook) = hooks().next() else {
        return Ok(());
    };
    let is_broad = host.home.as_ref().is_some_and(|home| home.is_within(base));
    if is_broad || *base == AbsPath::root() {
        let message = format!(
            "hook `{}` would have access to all of `{base}`",
            single_line(&first_hook.command, COMMAND_CHARS_MAX)
        );
        return Err(Error::new(ErrorKind::Config, message)
            .with_hint("start massgen in a project directory"));
    }
    for hook in hooks() {
        require_program(hook, base, &host.env)?;
        let name = program_name(hook);
        let searched_program =
            name.and_then(|name| program_in_search_path(&[name], &host.env, members));
        let mut files = hook_files(&hook.command, base)
            .into_iter()
            .chain(searched_program);
        files.try_for_each(|path| {
            reject_writable(&hook.command, &path, members, IMPORTING_HOOK_EXTENSIONS)
        })?;
    }
    Ok(())
}

/// Rejects a config with a hook whose program is known and does not exist.
pub(crate) fn require_hook_programs(
    config: &Config,
    base: &AbsPath,
    env: &BTreeMap<String, String>,
) -> Result<()> {
    let mut hooks = config.agents.iter().flat_map(|agent| agent.hooks.iter());
    hooks.try_for_each(|hook| require_program(hook, base, env))
}

/// Returns the name of the program that a hook starts first, if it is known.
fn program_name(hook: &Hook) -> Option<String> {
    let line = parse(&hook.command);
    let name = line.commands.first()?.name()?;
    let is_program = line.unparsed_reason.is_none() && !BUILTINS.contains(&name.as_str());
    is_program.then_some(name)
}

fn require_program(hook: &Hook, base: &AbsPath, env: &BTreeMap<String, String>) -> Result<()> {
    let Some(name) = program_name(hook) else {
        return Ok(());
    };
    let is_installed = if name.contains('/') {
        let path = AbsPath::resolve(base, &name);
        matches!(
            inspect(&path),
            LookupResult::File | LookupResult::Unreadable
        )
    } else {
        let search_path = env.get("PATH").map(String::as_str).unwrap_or_default();
        find_program(slice::from_ref(&name), search_path, None).is_ok()
    };
    if is_installed {
        return Ok(());
    }
    let command = single_line(&hook.command, COMMAND_CHARS_MAX);
    let message = format!("program `{name}` of the hook `{command}` not found");
    Err(Error::new(ErrorKind::Config, message).with_hint(
        "install it, or correct `hooks`; relative paths start at the directory in which massgen is \
         started",
    ))
}

/// Returns the directories from which the Python scripts that `hooks` name may import modules: their
/// own, where no agent may write to them.
pub(crate) fn hook_import_directories(
    hooks: &HookList,
    base: &AbsPath,
    members: &[TeamMember],
) -> BTreeSet<AbsPath> {
    let files = hooks
        .iter()
        .flat_map(|hook| hook_files(&hook.command, base));
    let files = files.filter(|path| matches!(locate(path), Ok(LocatedPath::File(_))));
    let scripts =
        files.filter(|path| path.as_path().extension() == Some(PYTHON_EXTENSION.as_ref()));
    let directories = scripts.filter_map(|path| path.parent());
    let is_safe = |directory: &AbsPath| matches!(find_writer_on_way(members, directory), Ok(None));
    directories.filter(is_safe).collect()
}
