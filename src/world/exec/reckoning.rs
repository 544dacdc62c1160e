//! Owns what a command leaves to be done about the user's trees: before it runs, what stands there
//! is looked at; when it has ended, its changes are carried there, or found, and told.

use std::collections::BTreeSet;

use crate::confinement::Layer;
use crate::confinement::compile::{Facts, Written};
use crate::confinement::tier::Tier;
use crate::error::Result as Made;
use crate::path::{AbsPath, RealPath};
use crate::world::commands::Commands;
use crate::world::exec::aftermath::Aftermath;
use crate::world::exec::answer::Stop;
use crate::world::exec::command::cannot_run;
use crate::world::exec::commit::commit;
use crate::world::exec::masks::{self, Standing};
use crate::world::exec::rounds::users_trees;
use crate::world::exec::sweep::sweep;
use crate::world::exec::unswept::Note;
use crate::world::gate::Gate;
use crate::world::sandbox::obstacles::mounted_inside;

/// What is to be done when a command has ended.
#[derive(Debug)]
pub(super) struct Reckoning {
    tier: Tier,
    standing: Standing,
    layers: Vec<Layer>,
    quarantine: AbsPath,
    /// What is left to the next run if this one ends before the sweep.
    note: Option<Note>,
}

/// Whether commands may write to what is the user's. In tier C, and where that is staged, they may
/// not.
pub(super) fn writes_to_the_users(gate: &Gate, commands: &Commands) -> bool {
    let is_staged = gate.stage().is_some();
    commands.tier() != Tier::C && !is_staged && !users_trees(gate).is_empty()
}

impl Reckoning {
    /// Looks at the trees before a command. `layer` gives what its changes to one of them go to. The
    /// error says why it may not be run.
    pub(super) fn open(
        gate: &Gate,
        commands: &Commands,
        layer: impl Fn(&RealPath) -> Made<Layer>,
    ) -> Result<Self, Stop> {
        let tier = commands.tier();
        let standing = masks::look(gate, tier)?;
        let trees = users_trees(gate);
        if tier == Tier::A {
            let roots: Vec<AbsPath> = trees.iter().map(|tree| tree.real().to_abs()).collect();
            let obstacle = mounted_inside(&roots).map_err(|error| cannot_run(&error))?;
            obstacle.map_or(Ok(()), |why| Err(cannot_run(&why)))?;
        }
        let trees = trees.into_iter();
        let layers = match tier {
            Tier::A => trees.map(|tree| layer(tree.real())).collect(),
            Tier::B | Tier::C | Tier::D | Tier::Off => Ok(Vec::new()),
        };
        let layers = layers.map_err(|error| cannot_run(&error))?;
        let note = match tier {
            Tier::B => {
                let made = commands.room().note();
                let made = made.and_then(|path| Note::write(path, gate, &standing));
                Some(made.map_err(|error| cannot_run(&error))?)
            }
            Tier::A | Tier::C | Tier::D | Tier::Off => None,
        };
        Ok(Self {
            tier,
            standing,
            note,
            layers,
            quarantine: commands.room().quarantine(),
        })
    }

    /// What the command is held to besides.
    pub(super) fn hold(&self, gate: &Gate, facts: Facts) -> Facts {
        Facts {
            masked: self.standing.masks(gate),
            written: Written::ToLayers(self.layers.clone()),
            ..facts
        }
    }

    /// Does what is to be done now that the command has ended. What is in `told` was reported before
    /// and is not again; what is reported is added to it.
    pub(super) fn settle(
        &self,
        gate: &Gate,
        told: &mut BTreeSet<RealPath>,
    ) -> Result<Aftermath, Stop> {
        let mut aftermath = Aftermath::default();
        for layer in &self.layers {
            aftermath.add(commit(gate, layer, told)?);
        }
        let now = match self.tier {
            Tier::B => {
                let (now, swept) = sweep(gate, &self.standing, &self.quarantine);
                aftermath.add(swept);
                if let Some(note) = &self.note {
                    note.remove();
                }
                now
            }
            Tier::Off => masks::look_again(gate),
            Tier::A | Tier::C | Tier::D => return Ok(aftermath),
        };
        let changes = self.standing.changes(&now, &mut gate.history());
        aftermath.changes.splice(0..0, changes);
        Ok(aftermath)
    }
}
