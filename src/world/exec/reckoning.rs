//! Owns what a command leaves to be done about the user's trees. A command that may write there works
//! on a stage of its own, and what it changed is carried to the trees when it has ended. One that
//! nothing holds writes there itself, and what it changed is found out.

use std::collections::BTreeSet;

use crate::confinement::tier::Tier;
use crate::error::Error;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Grant, GrantKind, Permission, Scope};
use crate::world::commands::{Commands, Place as CommandPlace, TreesState};
use crate::world::exec::aftermath::Aftermath;
use crate::world::exec::answer::Stop;
use crate::world::exec::command::cannot_run;
use crate::world::exec::commit::commit;
use crate::world::exec::inventory::{Inventory, NAMES_AFTER_MAX, NAMES_BEFORE_MAX};
use crate::world::gate::{Gate, Place};
use crate::world::policy::GatePolicy;
use crate::world::stage::{Audience, Kind, Order, Stage};
use crate::world::sys::own::clear;

/// Said beside the output of a command in a container that shares its stage with another one.
const SHARED_STAGE: &str = "a background command goes on, so this one saw your write paths as they \
                            were when that began, with what commands have changed since";

/// What is to be done when a command has ended.
#[derive(Debug)]
pub(super) enum Reckoning {
    /// It works on a stage.
    Staged(StagedCommand),
    /// It writes to the user's trees, in which this stood before.
    Direct(Gate, Inventory),
}

/// A command that works on a stage.
#[derive(Debug)]
pub(super) struct StagedCommand {
    stage: Stage,
    /// What the command finds is seen through this.
    gate: Gate,
    /// Where the stage lies.
    place: AbsPath,
    lasting: Lasting,
    audience: Audience,
    /// Whether another command works on it too.
    is_shared: bool,
}

/// How long what stays private on a stage is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasting {
    /// The next command that is waited for finds it.
    UntilTheAgentEnds,
    /// It goes with the command.
    UntilTheCommandEnds,
}

/// The roots of the user's trees that may be written to.
pub(super) fn users_trees(gate: &Gate) -> Vec<Place> {
    let is_users = |grant: &&Grant| matches!(grant.kind, GrantKind::Context | GrantKind::BuiltIn);
    let users = gate.manager().grants().iter().filter(is_users);
    users
        .filter_map(|grant| gate.writable_tree(&grant.root.to_abs()))
        .collect()
}

/// Whether what commands change in the user's trees is to be carried there or found out. In tier C,
/// and where the whole agent works on a stage, it is not.
pub(super) fn writes_to_the_users(gate: &Gate, commands: &Commands) -> bool {
    let is_staged = gate.stage().is_some();
    commands.tier() != Tier::C && !is_staged && !users_trees(gate).is_empty()
}

impl Reckoning {
    /// Prepares for a command. The error says why it may not be run.
    pub(super) fn open(
        gate: &Gate,
        commands: &Commands,
        lasting: Lasting,
        trees: &mut TreesState,
    ) -> Result<Self, Stop> {
        if commands.tier() == Tier::Off {
            let before = Inventory::of(gate, NAMES_BEFORE_MAX);
            return Ok(Self::Direct(gate.clone(), before));
        }
        let audience = match commands.place() {
            CommandPlace::Sandbox(_) => Audience::Sandbox,
            CommandPlace::Container(_) => Audience::Container,
        };
        let room = commands.room();
        let place = match (lasting, audience) {
            (Lasting::UntilTheCommandEnds, Audience::Sandbox) => room.new_stage(),
            (Lasting::UntilTheAgentEnds, _) | (_, Audience::Container) => {
                let roots = users_trees(gate);
                room.stage(roots.iter().map(|root| root.real().clone()).collect())
            }
        };
        // A container shows one stage at a time.
        let shown = trees.shown.upgrade();
        let is_shared = shown.is_some();
        let stage = match shown {
            Some(stage) => stage,
            None => open_stage(gate, commands, &place, audience)?,
        };
        if audience == Audience::Container {
            trees.shown = stage.downgrade();
        }
        Ok(Self::Staged(StagedCommand {
            gate: gate_on(&stage, gate)?,
            stage,
            place,
            lasting,
            audience,
            is_shared,
        }))
    }

    /// The gate that the command is run by: what it finds is seen through that.
    pub(super) fn gate(&self) -> &Gate {
        match self {
            Self::Staged(command) => &command.gate,
            Self::Direct(gate, _) => gate,
        }
    }

    /// Does what is to be done now that the command has ended, through `gate`, which leads to the
    /// user's trees.
    pub(super) fn settle(self, gate: &Gate, trees: &mut TreesState) -> Result<Aftermath, Stop> {
        match self {
            Self::Staged(command) => command.settle(gate, trees),
            Self::Direct(_, before) => {
                let now = Inventory::of(gate, NAMES_AFTER_MAX);
                Ok(Aftermath {
                    changes: before.changes(&now, &mut gate.history()),
                    ..Aftermath::default()
                })
            }
        }
    }
}

/// Stages the user's trees for a command.
fn open_stage(
    gate: &Gate,
    commands: &Commands,
    place: &AbsPath,
    audience: Audience,
) -> Result<Stage, Stop> {
    let stage = Stage::open(Order {
        executable: commands.executable(),
        place,
        grants: &as_staged(gate),
        state: commands.room().root(),
        audience,
    });
    let stage = stage.map_err(|error| cannot_run(&error))?;
    let stage = stage.ok_or_else(|| cannot_run(&"there is nothing to stage"))?;
    if !stage.is_shown() {
        return Err(cannot_run(&stage.notes(audience).join("; ")));
    }
    Ok(stage)
}

/// The same gate as `gate`, on a stage.
fn gate_on(stage: &Stage, gate: &Gate) -> Result<Gate, Stop> {
    let policy = GatePolicy {
        // They last as long as somebody holds them.
        commands: None,
        servers: None,
        stage: Some(stage.clone()),
        ..gate.policy().clone()
    };
    let manager = gate.manager().in_phase(gate.phase());
    Gate::open(manager, policy).map_err(|error| cannot_run(&error))
}

impl StagedCommand {
    /// Carries what was changed on the stage to the user's trees. Where something cannot be carried,
    /// all else is.
    fn settle(self, gate: &Gate, trees: &mut TreesState) -> Result<Aftermath, Stop> {
        let Self {
            stage,
            gate: on_stage,
            place,
            lasting,
            audience,
            is_shared,
        } = self;
        stage
            .write_down_next()
            .map_err(|error| not_carried(&error))?;
        let layers = stage.layers();
        // Nobody sees the layers of overlays while they are carried.
        drop((on_stage, stage));
        let mut aftermath = Aftermath::default();
        let mut broken = None;
        for (layer, kind) in &layers {
            // What stays private on a copy goes with it each time, and is told each time.
            let mut told_now = BTreeSet::new();
            let told = match kind {
                Kind::Overlay => &mut trees.told,
                Kind::Copy => &mut told_now,
            };
            match commit(gate, layer, told) {
                Ok(carried) => aftermath.add(carried),
                Err(mut stop) => {
                    aftermath.changes.append(&mut stop.changes);
                    broken.get_or_insert(stop);
                }
            }
        }
        if is_shared {
            aftermath.notes.push(SHARED_STAGE.to_owned());
        }
        if (lasting, audience) == (Lasting::UntilTheCommandEnds, Audience::Sandbox) {
            // What cannot be removed now goes with the agent's other directories.
            let _removed = clear::remove(&place);
        }
        match broken {
            None => Ok(aftermath),
            Some(stop) => Err(stop.with(aftermath.changes)),
        }
    }
}

fn not_carried(why: &Error) -> Stop {
    Stop::failed(format!(
        "what the command changed in your paths was not carried there: {why}"
    ))
}

/// The grants as a stage for commands takes them: the trees that commands may write to, and all other
/// trees as what stays as it is.
fn as_staged(gate: &Gate) -> Vec<Grant> {
    let written: BTreeSet<RealPath> = users_trees(gate)
        .iter()
        .map(|tree| tree.real().clone())
        .collect();
    let trees = gate.manager().grants().iter();
    let trees = trees.filter(|grant| grant.scope == Scope::Tree);
    let taken = trees.map(|grant| {
        let (kind, permission) = if written.contains(&grant.root) {
            (GrantKind::Context, Permission::Write)
        } else {
            (grant.kind, Permission::Read)
        };
        Grant {
            kind,
            permission,
            ..grant.clone()
        }
    });
    taken.collect()
}
