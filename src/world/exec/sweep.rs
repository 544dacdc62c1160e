//! Owns the sweep: closed names that appeared in the user's trees while a command ran there directly
//! are taken out of the way. Nobody can say who made them, so that nothing is deleted: they are
//! moved to a directory of massgen's, and links that are gone are made again.

use std::collections::BTreeSet;

use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::history::is_generated;
use crate::world::exec::aftermath::Aftermath;
use crate::world::exec::answer::Stop;
use crate::world::exec::masks::{Identity, Standing, Stood, users_trees};
use crate::world::gate::{Gate, Place};
use crate::world::sys::fault::Fault;
use crate::world::sys::quarantine::Quarantine;

/// Compares the closed names of the user's trees `after` a command with what stood there `before`.
/// What appeared is moved below `quarantine`.
pub(super) fn sweep(
    gate: &Gate,
    (before, after): (&Standing, &Standing),
    quarantine: &AbsPath,
) -> Aftermath {
    let identities = |standing: &Standing| -> BTreeSet<Identity> {
        standing.names().values().map(Stood::identity).collect()
    };
    let (known, present) = (identities(before), identities(after));
    let mut sweep = Sweep {
        roots: users_trees(gate),
        quarantine: Quarantine::below(quarantine),
        aftermath: Aftermath::default(),
    };
    for (path, now) in after.names() {
        let old = before.names().get(path);
        match old {
            Some(old) if old.identity() == now.identity() => {}
            None if known.contains(&now.identity()) => {
                let reason = "it was moved here, and it is protected: move it back";
                sweep.aftermath.leave_out(path, reason);
            }
            // A mask goes when the user replaces what is below it, and only then.
            Some(old) if old.target.is_none() && !present.contains(&old.identity()) => {
                let reason = "somebody replaced it while the command ran: look at it";
                sweep.aftermath.deny(path, reason);
            }
            _ => sweep.take_out(gate, path, now),
        }
    }
    for path in after.closed_since(before) {
        let reason = "it can no longer be read, so that nobody knows what is in it";
        sweep.aftermath.deny(path, reason);
    }
    for (path, old) in before.names() {
        let is_there = present.contains(&old.identity());
        if let (Some(target), false) = (&old.target, is_there) {
            sweep.restore(gate, path, target);
        }
    }
    sweep.aftermath
}

struct Sweep {
    roots: Vec<Place>,
    quarantine: Quarantine,
    aftermath: Aftermath,
}

impl Sweep {
    /// Where `path` is below the tree that holds it.
    fn place(&self, path: &RealPath) -> Option<(Place, RelPath)> {
        let mut roots = self.roots.iter();
        roots.find_map(|root| {
            let rel = path.below(root.real())?;
            Some((root.at(&rel), rel))
        })
    }

    fn take_out(&mut self, gate: &Gate, path: &RealPath, now: &Stood) {
        let Some((place, rel)) = self.place(path) else {
            return;
        };
        let below = place.below();
        let moved = place
            .dir()
            .parent_of(&below)
            .and_then(|(dir, name)| self.quarantine.take(&dir, name, &now.meta.version, path));
        match moved {
            Ok(kept) => {
                let reason = format!("the name is protected; what stood there is kept in {kept}");
                if is_generated(&rel) {
                    self.aftermath.leave_out(path, reason);
                } else {
                    self.aftermath.deny(path, reason);
                }
            }
            Err(Fault::Missing) => {}
            Err(fault) => {
                let stop = Stop::at(gate, "take out of the way", &place, fault);
                self.aftermath.stopped(path, stop);
            }
        }
    }

    /// Makes a link again that is nowhere any more, if its directory is still there.
    fn restore(&mut self, gate: &Gate, path: &RealPath, target: &std::path::Path) {
        let Some((place, _)) = self.place(path) else {
            return;
        };
        let below = place.below();
        let made = place
            .dir()
            .parent_of(&below)
            .and_then(|(dir, name)| dir.symlink(name, target));
        match made {
            Ok(()) => self
                .aftermath
                .deny(path, "the name is protected; the link was made again"),
            Err(Fault::Missing) => {}
            Err(fault) => {
                let stop = Stop::at(gate, "make again", &place, fault);
                self.aftermath.stopped(path, stop);
            }
        }
    }
}
