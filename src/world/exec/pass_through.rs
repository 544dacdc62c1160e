//! Runs a command on streams that the caller provides and another process reads and writes.

use crate::world::access::gate::Gate;
use crate::world::exec::command::{
    OMISSIONS_SHOWN_MAX, ShellInvocation, command_context, commands, run_and_sync,
};
use crate::world::exec::tool_result::{ToolError, cannot_complete, cannot_run};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::{ExitReason, ProcessStreams};

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
