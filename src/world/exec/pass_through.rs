//! Owns the running of one command on streams that somebody else reads and writes.

use crate::world::commands::Place;
use crate::world::exec::answer::Stop;
use crate::world::exec::command::{
    Asked, LEFT_OUT_TOLD_MAX, cannot_run, carried, commands, facts, on_stage,
};
use crate::world::gate::Gate;
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::{Ended, Streams};

/// A command that ran on other streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// How it ended.
    pub ended: Ended,
    /// How much came to the user's files, if anything did.
    pub delivered: Option<String>,
    /// What the user should know beside that: what was left out, what ended it.
    pub notes: Vec<String>,
}

/// Runs a command on `streams` until it ends or `interrupt` is raised.
pub(super) fn pass_through(
    gate: &Gate,
    asked: Asked<'_>,
    streams: Streams,
    interrupt: &Interrupt,
) -> Result<Passed, Stop> {
    let commands = commands(gate)?;
    let Place::Sandbox(sandbox) = commands.place() else {
        return Err(cannot_run(&"the agent's commands run in a container"));
    };
    let (facts, network) = facts(gate, commands, asked)?;
    let ((ended, mut notes), mut aftermath) =
        carried(gate, commands, facts, |gate, confinement| {
            let ended =
                on_stage(gate, sandbox).run_on(confinement, streams, interrupt, network.as_deref());
            ended.map_err(|error| cannot_run(&error))
        })?;
    if let Some(proxy) = &network {
        aftermath.refused_hosts(&proxy.visits());
    }
    notes.extend(aftermath.warnings(gate, LEFT_OUT_TOLD_MAX));
    Ok(Passed {
        ended,
        delivered: aftermath.delivered(),
        notes,
    })
}
