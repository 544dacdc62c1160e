//! Owns the running of a permitted command: what it may do is compiled from the gate's grants, and
//! what it changed in the user's trees is carried there through the gate afterwards.

use serde_json::{Map, Value, json};

use crate::confinement::compile::{Facts, compile};
use crate::confinement::network::{Network, Reach};
use crate::confinement::tier::Tier;
use crate::confinement::{Confinement, Layer};
use crate::path::RelPath;
use crate::permissions::grant::{Grant, GrantKind, Permission, Scope};
use crate::world::commands::{Commands, Order};
use crate::world::exec::answer::{Answer, Stop, shown_path};
use crate::world::exec::commit::{Carried, LeftOut, commit};
use crate::world::exec::{Change, Observation, Outcome};
use crate::world::gate::{Gate, Place};
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::{Ended, Finished, Wait};
use crate::world::sys::meta::Kind;

/// The shell that takes a command, and its switch for one in an argument.
pub(super) const SHELL: [&str; 2] = ["bash", "-c"];

/// The directory of a Python environment that commands in its parent use.
const VENV: &str = ".venv";

/// The most names in one note.
const NAMES_NOTED_MAX: usize = 20;

/// A command as it was permitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// For the shell.
    pub(super) line: &'a str,
    /// How long it may take, in seconds.
    pub(super) timeout_seconds: Option<u64>,
    /// The directory that it begins in.
    pub(super) dir: &'a Place,
}

/// `execute_command`
pub(super) fn execute_command(gate: &Gate, asked: Asked<'_>, interrupt: &Interrupt) -> Answer {
    let commands = commands(gate)?;
    let wait = Wait {
        time_max: commands.time_max(asked.timeout_seconds),
        output_bytes_max: commands.output_bytes_max(),
        interrupt,
        network: None,
    };
    let facts = facts(gate, commands, asked)?;
    let roots = written_roots(gate, commands.tier());
    if roots.is_empty() {
        let finished = run(gate, commands, facts, wait)?;
        return Ok(observation(gate, asked, &finished, Carried::default()));
    }
    let mut told = commands.alone();
    let layers = layers(commands, &roots)?;
    let facts = Facts {
        layers: layers.clone(),
        ..facts
    };
    let finished = run(gate, commands, facts, wait)?;
    let mut all = Carried::default();
    for layer in &layers {
        let carried = commit(gate, layer, &mut told)?;
        all.changes.extend(carried.changes);
        all.left_out.extend(carried.left_out);
    }
    Ok(observation(gate, asked, &finished, all))
}
