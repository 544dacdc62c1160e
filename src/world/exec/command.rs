//! Runs permitted commands: the sandbox policy is compiled from the gate's grants, and what a
//! command changed in the user's trees is applied there through the gate afterwards.

use std::sync::Arc;

use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::{GrantKind, GrantScope, Permission};
use crate::sandbox_policy::compile::{CommandContext, WriteTarget, compile, deepest_accessible};
use crate::sandbox_policy::environment::{VENV, VIRTUAL_ENV};
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::sandbox_policy::{AccessiblePath, SandboxPolicy};
use crate::tools::call::ToolCall;
use crate::world::access::gate::{Action, Gate, Permitted, ResolvedPath};
use crate::world::exec::closed_paths::{self, masks};
use crate::world::exec::command_changes::CommandChanges;
use crate::world::exec::command_sync::{OverlayRetention, PostCommandSync, writes_user_trees};
use crate::world::exec::folding::expect_one_spelling;
use crate::world::exec::process_report::{hidden_env_note, process_observation};
use crate::world::exec::tool_result::{
    Observation, ToolError, ToolResult, cannot_complete, cannot_run, display_path,
};
use crate::world::sandbox::exec_backend::ExecCommand;
use crate::world::sandbox::exec_environment::{CommandSpec, ExecEnvironment};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason, ProcessStreams};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::meta::FileMetadata;

/// The shell; it takes the command as its last argument.
const SHELL: [&str; 2] = ["bash", "-c"];

/// The most names of omitted changes that are reported.
pub(super) const OMISSIONS_SHOWN_MAX: usize = 20;

/// A command line for the shell, and its working directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShellInvocation<'a> {
    pub(super) line: &'a str,
    pub(super) dir: &'a ResolvedPath,
}

impl<'a> ShellInvocation<'a> {
    /// Creates an invocation of `line` in `dir`.
    pub(super) fn new(line: &'a str, dir: &'a ResolvedPath) -> Self {
        Self { line, dir }
    }
}

/// Implements `execute_command`.
pub(super) fn execute_command(
    gate: &Gate,
    invocation: ShellInvocation<'_>,
    timeout_seconds: Option<u64>,
    interrupt: Option<&CommandInterrupt>,
) -> ToolResult {
    let (output, command_changes) =
        run_to_completion(gate, invocation, timeout_seconds, interrupt)?;
    let mut observation = observation(gate, invocation, &output, command_changes);
    // Changes of background commands that ended meanwhile were applied before this command's.
    let late_changes = commands(gate)?.late_changes().take();
    observation.changes.splice(0..0, late_changes);
    Ok(observation)
}

/// Runs a command until it exits, is interrupted or reaches a limit, and applies what it changed.
pub(super) fn run_to_completion(
    gate: &Gate,
    invocation: ShellInvocation<'_>,
    timeout_seconds: Option<u64>,
    interrupt: Option<&CommandInterrupt>,
) -> Result<(CommandOutput, CommandChanges), ToolError> {
    let commands = commands(gate)?;
    let (command_context, network) = command_context(gate, commands, invocation)?;
    let wait = CommandWaitLimits {
        time_max: commands.time_max(timeout_seconds),
        output_bytes_max: commands.output_bytes_max(),
        interrupt,
        network: network.as_deref(),
    };
    let (output, mut command_changes) =
        run_and_sync(gate, commands, command_context, |gate, policy| {
            let command = ExecCommand {
                line: invocation.line,
                policy,
                overlay: gate.overlay(),
            };
            let result = commands.backend().run(&command, wait);
            result.map_err(|error| cannot_complete(&error))
        })?;
    if let Some(proxy) = &network {
        command_changes.note_refused_hosts(&proxy.visits());
    }
    let excess = gate.overlay().map(WriteOverlay::excess_after_command);
    // What cannot be measured is an error when the answer is captured.
    command_changes
        .notes
        .extend(excess.and_then(Result::ok).flatten());
    Ok((output, command_changes))
}

/// Runs a command with `run` and applies what it changed in the user's trees.
pub(super) fn run_and_sync<T>(
    gate: &Gate,
    commands: &ExecEnvironment,
    context: CommandContext,
    run: impl FnOnce(&Gate, &SandboxPolicy) -> Result<T, ToolError>,
) -> Result<(T, CommandChanges), ToolError> {
    if !writes_user_trees(gate, commands) {
        let policy = compile_command_policy(gate, commands, context)?;
        return Ok((run(gate, &policy)?, CommandChanges::default()));
    }
    // Only one command at a time may write to the user's trees.
    let mut trees = commands.user_tree_lock().lock();
    let retention = OverlayRetention::UntilAgentEnds;
    let sync = PostCommandSync::open(gate, commands, retention, &mut trees)?;
    let policy = compile_policy(sync.gate(), commands, context)?;
    match run(sync.gate(), &policy) {
        Ok(output) => Ok((output, sync.finish(gate, &mut trees)?)),
        // It may have run nevertheless, for example if the container engine died.
        Err(tool_error) => {
            let command_changes = sync.finish(gate, &mut trees)?;
            Err(tool_error.with_changes(command_changes.changes))
        }
    }
}

/// Compiles the sandbox policy of a command of the agent itself.
pub(super) fn compile_command_policy(
    gate: &Gate,
    commands: &ExecEnvironment,
    context: CommandContext,
) -> Result<SandboxPolicy, ToolError> {
    let mut policy = compile_policy(gate, commands, context)?;
    show_copies(gate, &mut policy)?;
    Ok(policy)
}

/// Compiles the sandbox policy of a process.
pub(super) fn compile_policy(
    gate: &Gate,
    commands: &ExecEnvironment,
    context: CommandContext,
) -> Result<SandboxPolicy, ToolError> {
    let identities = gate.identities().map_err(|error| cannot_run(&error))?;
    let closed_paths = closed_paths::closed_paths(gate, commands.sandbox_level())?;
    let masked_paths = gate.overlay().map_or_else(Vec::new, |_| masks(gate));
    let context = CommandContext {
        identities,
        write_target: WriteTarget::Overlay,
        masked: masked_paths
            .into_iter()
            .chain(closed_paths.read_only)
            .collect(),
        hidden: context
            .hidden
            .into_iter()
            .chain(closed_paths.hidden)
            .collect(),
        ..context
    };
    let mut policy = compile(gate.manager(), commands.sandbox_level(), context)
        .map_err(|error| cannot_run(&error))?;
    for open_path in &mut policy.open {
        if !is_changed_directly(gate, commands, &open_path.path) {
            open_path.permission = Permission::Read;
        }
    }
    expect_one_spelling(gate, &policy)?;
    Ok(policy)
}

/// Returns whether a process may change what it sees at `path` if the grants allow it. With an
/// overlay, that is what the overlay shows; otherwise it is everything outside the user's trees, or
/// everything if there is no sandbox.
fn is_changed_directly(gate: &Gate, commands: &ExecEnvironment, path: &AbsPath) -> bool {
    if let Some(overlay) = gate.overlay() {
        return overlay.shows_changes(path, commands.overlay_audience());
    }
    let is_user_tree = |tree: &ResolvedPath| tree.grant().kind == GrantKind::Context;
    let tree = gate.writable_tree(path).filter(is_user_tree);
    tree.is_none() || commands.sandbox_level() == SandboxLevel::Off
}

/// Returns the environment of the agent's commands.
pub(super) fn commands(gate: &Gate) -> Result<&ExecEnvironment, ToolError> {
    let commands = gate.policy().commands.as_ref();
    commands.ok_or_else(|| ToolError::failed("no commands are run here"))
}

/// Returns what a command's policy depends on in addition to the grants, and the proxy for its
/// network access.
pub(super) fn command_context(
    gate: &Gate,
    commands: &ExecEnvironment,
    invocation: ShellInvocation<'_>,
) -> Result<(CommandContext, Option<Arc<NetworkProxy>>), ToolError> {
    let ShellInvocation { line, dir } = invocation;
    let metadata = dir
        .meta()
        .map_err(|error| ToolError::failed_at(gate, "run a command in", dir, error))?;
    if metadata.kind != FileKind::Directory {
        let reason = format!("it is {}: expected a directory", metadata.kind);
        return Err(ToolError::failed_at(gate, "run a command in", dir, reason));
    }
    let [shell, switch] = SHELL;
    let spec = CommandSpec {
        program: vec![shell.to_owned(), switch.to_owned(), line.to_owned()],
        dir: dir.real().to_abs(),
        venv: venv(dir),
    };
    let (network_access, network) = commands.network().map_err(|error| cannot_run(&error))?;
    Ok((commands.command_context(spec, network_access), network))
}

/// Returns the Python virtual environment in `dir`, if there is one.
fn venv(dir: &ResolvedPath) -> Option<AbsPath> {
    let venv = dir.join(&RelPath::new(VENV)?);
    let bin = venv.join(&RelPath::new("bin")?);
    let metadata = bin.meta().ok()?;
    (metadata.kind == FileKind::Directory).then(|| venv.real().to_abs())
}

fn observation(
    gate: &Gate,
    invocation: ShellInvocation<'_>,
    output: &CommandOutput,
    command_changes: CommandChanges,
) -> Observation {
    let call_fields = [
        ("command", invocation.line.into()),
        ("work_dir", display_path(gate, invocation.dir.real()).into()),
    ];
    let mut notes = command_changes.notes(gate, OMISSIONS_SHOWN_MAX);
    notes.extend(relocation_note(gate, invocation.line));
    notes.extend(hidden_env_note(output, gate));
    Observation {
        changes: command_changes.changes,
        ..process_observation(output, call_fields, notes)
    }
}

/// The result of a command that ran on the caller's streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassthroughResult {
    /// How it ended.
    pub exit_reason: ExitReason,
    /// How many of the user's files changed, if any did.
    pub delivered: Option<String>,
    /// Further notes for the user, such as omitted changes and why the command ended.
    pub notes: Vec<String>,
}

/// Runs a command on `streams` until it ends or `interrupt` is raised.
pub(super) fn pass_through(
    gate: &Gate,
    invocation: ShellInvocation<'_>,
    streams: ProcessStreams,
    interrupt: &CommandInterrupt,
) -> Result<PassthroughResult, ToolError> {
    let commands = commands(gate)?;
    let sandbox = commands.backend().local_sandbox().map_err(|reason| {
        cannot_run(&format_args!("commands on the streams of others {reason}"))
    })?;
    let (context, network) = command_context(gate, commands, invocation)?;
    let ((exit_reason, mut notes), mut command_changes) =
        run_and_sync(gate, commands, context, |gate, policy| {
            let result = sandbox.on_overlay(gate.overlay()).run_on_streams(
                policy,
                streams,
                interrupt,
                network.as_deref(),
            );
            result.map_err(|error| cannot_complete(&error))
        })?;
    if let Some(proxy) = &network {
        command_changes.note_refused_hosts(&proxy.visits());
    }
    notes.extend(command_changes.warnings(gate, OMISSIONS_SHOWN_MAX));
    Ok(PassthroughResult {
        exit_reason,
        delivered: command_changes.delivery_summary(),
        notes,
    })
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckCommandOutcome {
    /// It exited with status 0.
    Passed,
    /// It ended in any other way.
    Failed {
        /// How it ended, as the end of a sentence.
        failure: String,
        /// Its output, standard error last.
        output: String,
    },
}

/// Runs a permitted `execute_command` until it ends or `interrupt` is raised.
///
/// # Errors
/// The command could not be run; the string says why.
pub fn run_check(
    permitted: Permitted<Action>,
    interrupt: &CommandInterrupt,
) -> Result<CheckCommandOutcome, String> {
    let (action, gate) = permitted.into_action();
    let ToolCall::ExecuteCommand {
        command,
        timeout_seconds,
        dir,
        ..
    } = action
    else {
        return Err("it is not a command".to_owned());
    };
    let invocation = ShellInvocation::new(&command, &dir);
    let result = run_to_completion(&gate, invocation, timeout_seconds, Some(interrupt));
    let (output, _) = result.map_err(|tool_error| tool_error.message)?;
    match &output.exit_reason {
        ExitReason::Exited(0) => Ok(CheckCommandOutcome::Passed),
        exit_reason @ (ExitReason::Refused { .. } | ExitReason::Interrupted) => {
            Err(exit_reason.to_string())
        }
        exit_reason @ (ExitReason::Exited(_)
        | ExitReason::Signalled(_)
        | ExitReason::TimedOut
        | ExitReason::DiskFull(_)) => Ok(CheckCommandOutcome::Failed {
            failure: exit_reason.to_string(),
            output: format!(
                "{}\n{}\n{}",
                output.stdout.for_model(),
                output.stderr.for_model(),
                hidden_env_note(&output, &gate).unwrap_or_default()
            ),
        }),
    }
}

/// Opens in `policy` the copies that the agent of `gate` works on, in the place of the user's trees.
/// Everything in a copy may be changed: what may not be delivered is found when the changes are read.
pub(super) fn show_copies(gate: &Gate, policy: &mut SandboxPolicy) -> Result<(), ToolError> {
    let Some(overlay) = gate.overlay() else {
        return Ok(());
    };
    let start =
        deepest_accessible(&policy.dir, &policy.open).map(|open_path| open_path.path.clone());
    for (tree, copy) in overlay.relocations() {
        let root = tree.to_abs();
        let mut open_paths = policy.open.iter_mut();
        let open_path = open_paths.find(|open_path| open_path.path == root);
        let Some(open_path) = open_path.filter(|_| gate.allows(tree, Permission::Write)) else {
            continue;
        };
        open_path.path = copy.clone();
        open_path.permission = Permission::Write;
        let directory = DirectoryHandle::open_own(&copy);
        let meta = directory.and_then(|directory| FileMetadata::from_handle(&directory));
        let meta = meta.map_err(|error| cannot_run(&error))?;
        policy.identities.insert(copy.clone(), meta.identity());
        if let Some(below) = policy
            .dir
            .below(&root)
            .filter(|_| start.as_ref() == Some(&root))
        {
            policy.dir = copy.join(below.as_path());
        }
        // The programs of a virtual environment name it by its path.
        let venv = policy.env.get(VIRTUAL_ENV).and_then(AbsPath::new);
        let users_venv = venv.filter(|venv| {
            let below = venv.below(&root);
            let meta = below.and_then(|below| overlay.user_metadata(&tree.join(&below)));
            meta.is_some_and(|meta| meta.kind == FileKind::Directory)
        });
        policy.open.extend(users_venv.map(|path| AccessiblePath {
            path,
            permission: Permission::Read,
            scope: GrantScope::Tree,
        }));
    }
    policy.open.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(())
}

/// Returns the note for the model about a command line that names a tree by the path at which commands
/// do not find it.
pub(super) fn relocation_note(gate: &Gate, line: &str) -> Option<String> {
    let mut trees = gate.overlay()?.relocations();
    let (tree, copy) = trees.find(|(tree, _)| line.contains(&tree.to_string()))?;
    Some(format!(
        "commands find `{tree}` at `{copy}`: use relative paths, which start there"
    ))
}
