//! Runs one command on the user's trees as an answer would leave them. What it writes is discarded,
//! and the attempt of the agent that runs it is neither visible in there nor changed.

use crate::answer_changes::{ChangeLayer, ChangeLayers};
use crate::id::AnswerLabel;
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, Permission};
use crate::world::access::gate::Gate;
use crate::world::access::policy::GatePolicy;
use crate::world::exec::command::{self, ShellInvocation, commands};
use crate::world::exec::command_sync::open_overlay;
use crate::world::exec::tool_result::{ToolError, ToolResult, cannot_run};
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sys::state_files::clear;

/// Implements `execute_command`, on `answer` if there is one.
pub(super) fn execute_command(
    gate: &Gate,
    answer: Option<AnswerLabel>,
    invocation: ShellInvocation<'_>,
    timeout_seconds: Option<u64>,
    interrupt: Option<&CommandInterrupt>,
) -> ToolResult {
    let find = |label| {
        let trial_answers = gate.trial_answers();
        let changes = trial_answers.and_then(|answers| answers.find(label).ok());
        changes.ok_or_else(|| cannot_run(&format_args!("{label} was not shown")))
    };
    let changes = answer.map(find).transpose()?;
    run_on_answer(gate, changes.as_ref(), invocation, |gate, invocation| {
        command::execute_command(gate, invocation, timeout_seconds, interrupt)
    })
}

/// Runs a command with `run`: on the user's trees with `changes`, if there are some. Then its home
/// directory and temporary files are its own, and it only reads the agent's other directories.
pub(super) fn run_on_answer<T>(
    gate: &Gate,
    changes: Option<&ChangeLayers>,
    invocation: ShellInvocation<'_>,
    run: impl FnOnce(&Gate, ShellInvocation<'_>) -> Result<T, ToolError>,
) -> Result<T, ToolError> {
    let Some(changes) = changes else {
        return run(gate, invocation);
    };
    let environment = commands(gate)?.for_trial();
    let environment = environment.map_err(|error| cannot_run(&error))?;
    let directory = environment.directories().new_overlay_directory();
    let result = open_gate(gate, &environment, &directory, changes).and_then(|trial_gate| {
        let dir = trial_gate.resolve_again(invocation.dir.real());
        let dir = dir.map_err(|refusal| cannot_run(&refusal.reason))?;
        run(&trial_gate, ShellInvocation::new(invocation.line, &dir))
    });
    // Otherwise, it is removed with the directories of the agent.
    let _removed = clear::remove(&directory);
    result
}

/// Opens a gate like `gate` on a new overlay in `directory`, which shows `changes`.
fn open_gate(
    gate: &Gate,
    environment: &ExecEnvironment,
    directory: &AbsPath,
    changes: &ChangeLayers,
) -> Result<Gate, ToolError> {
    if !environment.shows_changes() {
        return Err(cannot_run(
            &"a command on an answer needs massgen's sandbox",
        ));
    }
    let overlay = match gate.overlay() {
        Some(attempt) => attempt
            .open_again(environment.overlay_origin(), directory, changes)
            .map_err(|error| cannot_run(&error))?,
        None => open_overlay(gate, environment, directory, changes)?,
    };
    let is_closed = |layer: &&ChangeLayer| {
        let mut trees = overlay.trees();
        !trees.any(|tree| tree.root.to_abs() == layer.root)
    };
    if let Some(layer) = changes.0.iter().find(is_closed) {
        let reason = format!(
            "the answer changes `{}`, which may not be written here",
            layer.root
        );
        return Err(cannot_run(&reason));
    }
    // What it wrote elsewhere would stay.
    let read_only = |grant: &Grant| Grant {
        permission: if overlay.contains(&grant.root) {
            grant.permission
        } else {
            Permission::Read
        },
        ..grant.clone()
    };
    let grants = gate.manager().grants().iter().map(read_only).collect();
    let manager = PathPermissionManager::new(grants, gate.phase());
    let policy = GatePolicy {
        commands: Some(environment.clone()),
        servers: None,
        answers: None,
        overlay: Some(overlay),
        ..gate.policy().clone()
    };
    Gate::open(manager, policy).map_err(|error| cannot_run(&error))
}
