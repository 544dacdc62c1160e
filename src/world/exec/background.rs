//! Runs background commands, which keep running while their agent works. They have the same rights
//! as other commands. What one changes in the user's trees is applied there or detected when it has
//! ended; until then it has a private overlay that nothing else writes to, except in a container,
//! whose commands share one.

use serde_json::{Map, Value, json};

use crate::prompts::untrusted_text::program_output;
use crate::tools::call::BackgroundCommandId;
use crate::world::access::gate::Gate;
use crate::world::exec::command::{
    OMISSIONS_SHOWN_MAX, ShellInvocation, command_context, commands, compile_command_policy,
};
use crate::world::exec::command_sync::{
    OverlayRetention, PostCommandSync, reopen_gate, writes_user_trees,
};
use crate::world::exec::tool_result::{Observation, ToolError, ToolResult, cannot_run};
use crate::world::sandbox::ExitReason;
use crate::world::sandbox::background::{BackgroundStatus, CompletionHook};
use crate::world::sandbox::exec_backend::ExecCommand;
use crate::world::sandbox::exec_environment::ExecEnvironment;

/// The most output of a command that one call returns, in bytes.
const PART_BYTES_MAX: usize = 64 * 1024;

/// Implements `start_background_command`.
pub(super) fn start(gate: &Gate, invocation: ShellInvocation<'_>) -> ToolResult {
    let commands = commands(gate)?;
    let (command_context, network) = command_context(gate, commands, invocation)?;
    let no_hook: CompletionHook = Box::new(Vec::new);
    let (gate, completion_hook) = if writes_user_trees(gate, commands) {
        prepare(gate, commands)?
    } else {
        (gate.clone(), no_hook)
    };
    let policy = compile_command_policy(&gate, commands, command_context)?;
    let background = commands.background();
    let command = ExecCommand {
        line: invocation.line,
        policy: &policy,
        overlay: gate.overlay(),
    };
    let start = || commands.backend().start(&command, network);
    let id = background
        .start_with(invocation.line, start, completion_hook)
        .map_err(|error| cannot_run(&error))?;
    status_observation(id, background.status(id))
}

/// Returns the gate for a command that may write to the user's trees, and the hook that runs when
/// the command has ended.
fn prepare(gate: &Gate, commands: &ExecEnvironment) -> Result<(Gate, CompletionHook), ToolError> {
    let retention = OverlayRetention::UntilCommandEnds;
    let mut tree_state = commands.user_tree_lock().lock();
    let sync = PostCommandSync::open(gate, commands, retention, &mut tree_state)?;
    drop(tree_state);
    // The hook, which a background command holds, must not keep these alive by its gate.
    let own_gate = reopen_gate(gate, gate.overlay()).map_err(|error| cannot_run(&error))?;
    let (trees, late_changes) = (
        commands.user_tree_lock().clone(),
        commands.late_changes().clone(),
    );
    let command_gate = sync.gate().clone();
    let finish_sync = move || {
        let sync_result = sync.finish(&own_gate, &mut trees.lock());
        let (changes, notes) = match sync_result {
            Ok(command_changes) => {
                let notes = command_changes.notes(&own_gate, OMISSIONS_SHOWN_MAX);
                (command_changes.changes, notes)
            }
            Err(tool_error) => (tool_error.changes, vec![tool_error.message]),
        };
        late_changes.add(changes);
        notes
    };
    Ok((command_gate, Box::new(finish_sync)))
}

/// Implements `get_background_output`.
pub(super) fn output(gate: &Gate, id: BackgroundCommandId, offset: u64) -> ToolResult {
    let background = commands(gate)?.background();
    let part = background.output(id, offset, PART_BYTES_MAX);
    let (Some(part), Some(status)) = (part, background.status(id)) else {
        return Err(unknown_command(id));
    };
    let mut answer = fields(&status);
    answer.insert("output".to_owned(), program_output(&part.text).into());
    if part.offset > offset {
        let note = format!(
            "the output from {offset} to {} is no longer kept",
            part.offset
        );
        answer.insert("note".to_owned(), note.into());
    }
    answer.insert("next_offset".to_owned(), part.next_offset.into());
    Ok(Observation {
        summary: Some(summary(&status)),
        ..Observation::done(Value::Object(answer).to_string())
    })
}

/// Implements `get_background_status`.
pub(super) fn status(gate: &Gate, id: BackgroundCommandId) -> ToolResult {
    let status = commands(gate)?.background().status(id);
    status_observation(id, status)
}

/// Implements `stop_background_command`.
pub(super) fn stop(gate: &Gate, id: BackgroundCommandId) -> ToolResult {
    let status = commands(gate)?.background().stop(id);
    status_observation(id, status)
}

/// Implements `list_background_commands`.
pub(super) fn list(gate: &Gate) -> ToolResult {
    let statuses = commands(gate)?.background().list();
    let row = |status: &BackgroundStatus| {
        let mut row = fields(status);
        row.insert("command".to_owned(), status.command.clone().into());
        Value::Object(row)
    };
    let rows: Vec<Value> = statuses.iter().map(row).collect();
    Ok(Observation::done(json!({"commands": rows}).to_string()))
}

fn unknown_command(id: BackgroundCommandId) -> ToolError {
    ToolError::failed(format!(
        "there is no background command {id}: call list_background_commands"
    ))
}

fn status_observation(id: BackgroundCommandId, status: Option<BackgroundStatus>) -> ToolResult {
    let status = status.ok_or_else(|| unknown_command(id))?;
    Ok(Observation {
        summary: Some(summary(&status)),
        ..Observation::done(Value::Object(fields(&status)).to_string())
    })
}

/// Returns one line about the state of a command, for people.
fn summary(status: &BackgroundStatus) -> String {
    let exit_reason = status.exit_reason.as_ref();
    let state = exit_reason.map_or_else(|| "still running".to_owned(), ExitReason::to_string);
    format!("command {}: {state}", status.id)
}

/// Returns the state of a command as JSON fields.
fn fields(status: &BackgroundStatus) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    add("command_id", status.id.0.into());
    let (word, code) = match &status.exit_reason {
        None => ("running", None),
        Some(ExitReason::Exited(code)) => ("exited", Some(*code)),
        Some(ExitReason::Interrupted) => ("stopped", None),
        Some(_) => ("killed", None),
    };
    add("status", word.into());
    if let Some(code) = code {
        add("exit_code", code.into());
    }
    add("running_seconds", status.elapsed.as_secs().into());
    add("output_bytes", status.output_bytes.into());
    let mut notes = status.notes.clone();
    if let (Some(exit_reason), None) = (&status.exit_reason, code) {
        notes.insert(0, exit_reason.to_string());
    }
    if !notes.is_empty() {
        add("notes", notes.into());
    }
    fields
}
