//! Owns the running of permitted commands: what one may do is compiled from the gate's grants, and
//! what it changed in the user's trees is carried there through the gate afterwards.

use std::sync::Arc;

use crate::confinement::Confinement;
use crate::confinement::compile::{Facts, Written, compile};
use crate::confinement::tier::Tier;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::{GrantKind, Permission};
use crate::world::commands::{Commands, Order, Place as CommandPlace};
use crate::world::docker::container::Container;
use crate::world::docker::mounts::Reachable;
use crate::world::exec::Observation;
use crate::world::exec::aftermath::Aftermath;
use crate::world::exec::answer::{Answer, Stop, shown_path};
use crate::world::exec::ended::told;
use crate::world::exec::folding::expect_one_spelling;
use crate::world::exec::masks::masks;
use crate::world::exec::reckoning::{Lasting, Reckoning, writes_to_the_users};
use crate::world::exec::ruled;
use crate::world::gate::{Gate, Place};
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::proxy::Proxy;
use crate::world::sandbox::{Finished, Sandbox, Wait};
use crate::world::stage::Stage;
use crate::world::sys::meta::Kind;

/// The shell that takes a command as its last argument.
const SHELL: [&str; 2] = ["bash", "-c"];

/// The directory of a Python environment that commands in its parent use.
const VENV: &str = ".venv";

/// The most names that are told as not changed.
pub(super) const LEFT_OUT_TOLD_MAX: usize = 20;

/// A line for the shell, and the directory that it begins in.
pub(super) type Asked<'a> = (&'a str, &'a Place);

/// `execute_command`
pub(super) fn execute_command(
    gate: &Gate,
    asked: Asked<'_>,
    timeout_seconds: Option<u64>,
    interrupt: Option<&Interrupt>,
) -> Answer {
    let (finished, aftermath) = finished(gate, asked, timeout_seconds, interrupt)?;
    let mut observation = observation(gate, asked, &finished, aftermath);
    // What ended in the background meanwhile was carried before.
    let late = commands(gate)?.late().take();
    observation.changes.splice(0..0, late);
    Ok(observation)
}

/// Runs a command to its end.
pub(super) fn finished(
    gate: &Gate,
    asked: Asked<'_>,
    timeout_seconds: Option<u64>,
    interrupt: Option<&Interrupt>,
) -> Result<(Finished, Aftermath), Stop> {
    let commands = commands(gate)?;
    let (facts, network) = facts(gate, commands, asked)?;
    let never = Interrupt::new().map_err(|error| cannot_run(&error))?;
    let wait = Wait {
        time_max: commands.time_max(timeout_seconds),
        output_bytes_max: commands.output_bytes_max(),
        interrupt: interrupt.unwrap_or(&never),
        network: network.as_deref(),
    };
    let (finished, mut aftermath) = carried(gate, commands, facts, |gate, confinement| {
        let finished = match commands.place() {
            CommandPlace::Sandbox(sandbox) => on_stage(gate, sandbox).run(confinement, wait),
            CommandPlace::Container(container) => {
                show(gate, container, confinement)?;
                container.run(asked.0, &confinement.dir, wait)
            }
        };
        finished.map_err(|error| cannot_run(&error))
    })?;
    if let Some(proxy) = &network {
        aftermath.refused_hosts(&proxy.visits());
    }
    Ok((finished, aftermath))
}

/// Lets `run` run a command by a gate, and carries what it changed in the user's trees there.
pub(super) fn carried<T>(
    gate: &Gate,
    commands: &Commands,
    facts: Facts,
    run: impl FnOnce(&Gate, &Confinement) -> Result<T, Stop>,
) -> Result<(T, Aftermath), Stop> {
    if !writes_to_the_users(gate, commands) {
        let confinement = compiled(gate, commands, facts)?;
        return Ok((run(gate, &confinement)?, Aftermath::default()));
    }
    // One command at a time does.
    let mut trees = commands.trees().alone();
    let lasting = Lasting::UntilTheAgentEnds;
    let reckoning = Reckoning::open(gate, commands, lasting, &mut trees)?;
    let confinement = compiled(reckoning.gate(), commands, facts)?;
    match run(reckoning.gate(), &confinement) {
        Ok(finished) => Ok((finished, reckoning.settle(gate, &mut trees)?)),
        // It may have run all the same, as when the engine of a container ends.
        Err(stop) => {
            let aftermath = reckoning.settle(gate, &mut trees)?;
            Err(stop.with(aftermath.changes))
        }
    }
}

/// What a command may do.
pub(super) fn compiled(
    gate: &Gate,
    commands: &Commands,
    facts: Facts,
) -> Result<Confinement, Stop> {
    let identities = gate.identities().map_err(|fault| cannot_run(&fault))?;
    let closed = ruled::closed(gate, commands.tier())?;
    let masked = gate.stage().map_or_else(Vec::new, |_| masks(gate));
    let facts = Facts {
        identities,
        written: Written::ToStage,
        masked: masked.into_iter().chain(closed.masked).collect(),
        hidden: facts.hidden.into_iter().chain(closed.hidden).collect(),
        ..facts
    };
    let confinement = compile(gate.manager(), commands.tier(), facts);
    let mut confinement = confinement.map_err(|why| cannot_run(&why))?;
    for opening in &mut confinement.open {
        if !is_changed_directly(gate, commands, &opening.path) {
            opening.permission = Permission::Read;
        }
    }
    expect_one_spelling(gate, &confinement)?;
    Ok(confinement)
}

/// Whether a process may change what it finds at `path`, if the grants say so: on a stage what that
/// shows, and elsewhere what is no tree of the user's, unless nothing holds processes.
fn is_changed_directly(gate: &Gate, commands: &Commands, path: &AbsPath) -> bool {
    if let Some(stage) = gate.stage() {
        return commands.place().shows(stage, path);
    }
    let is_users = |tree: &Place| tree.grant().kind == GrantKind::Context;
    let tree = gate.writable_tree(path).filter(is_users);
    tree.is_none() || commands.tier() == Tier::Off
}

/// What runs commands: where there is a stage, so that they find it.
pub(super) fn on_stage(gate: &Gate, sandbox: &Sandbox) -> Sandbox {
    match gate.stage().and_then(Stage::stem) {
        Some(stem) => sandbox.in_world_of(stem),
        None => sandbox.clone(),
    }
}

/// What holds the agent's commands.
pub(super) fn commands(gate: &Gate) -> Result<&Commands, Stop> {
    let commands = gate.policy().commands.as_ref();
    commands.ok_or_else(|| Stop::failed("no commands are run here"))
}

/// That a command could not be run, with the way out.
pub(super) fn cannot_run(why: &dyn std::fmt::Display) -> Stop {
    Stop::failed(format!("the command was not run: {why}"))
}

/// Lets the container see what the confinement opens.
pub(super) fn show(
    gate: &Gate,
    container: &Container,
    confinement: &Confinement,
) -> Result<(), Stop> {
    let mounted = container.remount(&reachable(gate, confinement));
    mounted.map_err(|error| cannot_run(&error))
}

/// What commands in a container reach.
pub(super) fn reachable(gate: &Gate, confinement: &Confinement) -> Reachable {
    Reachable {
        copies: gate.stage().map(Stage::copies).unwrap_or_default(),
        ..Reachable::from(confinement)
    }
}

/// What the command is besides the grants, and what answers it on the network.
pub(super) fn facts(
    gate: &Gate,
    commands: &Commands,
    asked: Asked<'_>,
) -> Result<(Facts, Option<Arc<Proxy>>), Stop> {
    let (line, dir) = asked;
    let found = dir.dir().meta(&dir.below());
    let found = found.map_err(|fault| Stop::at(gate, "run a command in", dir, fault))?;
    if found.kind != Kind::Directory {
        let why = format!("it is {}: expected a directory", found.kind);
        return Err(Stop::at(gate, "run a command in", dir, why));
    }
    let [shell, switch] = SHELL;
    let order = Order {
        program: vec![shell.to_owned(), switch.to_owned(), line.to_owned()],
        dir: dir.real().to_abs(),
        venv: venv(dir),
    };
    let (reach, network) = commands.network().map_err(|error| cannot_run(&error))?;
    Ok((commands.facts(order, reach), network))
}

/// The Python environment in `dir`, if there is one.
fn venv(dir: &Place) -> Option<AbsPath> {
    let venv = dir.at(&RelPath::new(VENV)?);
    let bin = venv.at(&RelPath::new("bin")?);
    let found = bin.dir().meta(&bin.below()).ok()?;
    (found.kind == Kind::Directory).then(|| venv.real().to_abs())
}

fn observation(
    gate: &Gate,
    asked: Asked<'_>,
    finished: &Finished,
    aftermath: Aftermath,
) -> Observation {
    let more = [
        ("command", asked.0.into()),
        ("work_dir", shown_path(gate, asked.1.real()).into()),
    ];
    let notes = aftermath.notes(gate, LEFT_OUT_TOLD_MAX);
    Observation {
        changes: aftermath.changes,
        ..told(finished, more, notes)
    }
}
