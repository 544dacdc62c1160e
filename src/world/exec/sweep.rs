//! Owns the sweep: closed names that appeared in the user's trees while a command ran there directly
//! are taken out of the way. Nobody can say who made them, so that nothing is deleted: they are
//! moved to a directory of massgen's, and links and pipes that are gone are made again. One name that
//! cannot be moved or looked at keeps no other from being swept.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::path::AbsPath;
use crate::permissions::history::{Version, is_generated};
use crate::world::change::ChangeKind;
use crate::world::exec::aftermath::Aftermath;
use crate::world::exec::answer::{Stop, shown};
use crate::world::exec::masks::{Identity, Standing, Stood};
use crate::world::exec::rounds::{Class, Inspector, Name, go_round, users_trees};
use crate::world::gate::{Gate, Place};
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Kind;
use crate::world::sys::patrol::Turn;
use crate::world::sys::quarantine::Quarantine;
use crate::world::sys::unlock::{CLOSED, unlock, unlocked};

/// How many names are told each for itself of those that were swept.
const TOLD_MAX: usize = 1_000;

/// Compares the closed names of the user's trees with what stood there `before` the command. What
/// appeared is moved below `quarantine`. Gives the files that stand there now beside what was done.
pub(super) fn sweep(gate: &Gate, before: &Standing, quarantine: &AbsPath) -> (Standing, Aftermath) {
    let mut sweep = Sweep {
        gate,
        before,
        known: before.names().values().map(Stood::identity).collect(),
        present: BTreeSet::new(),
        replaced: Vec::new(),
        quarantine: Quarantine::below(quarantine),
        now: Standing::default(),
        aftermath: Aftermath::default(),
        told: 0,
    };
    go_round(gate, &mut sweep);
    sweep.settle_replaced();
    sweep.restore();
    sweep.sum_up();
    (sweep.now, sweep.aftermath)
}

struct Sweep<'s> {
    gate: &'s Gate,
    before: &'s Standing,
    /// What stood at closed names before.
    known: BTreeSet<Identity>,
    /// What of it stands somewhere still.
    present: BTreeSet<Identity>,
    /// Masked names at which something else stands now.
    replaced: Vec<(Place, Version)>,
    quarantine: Quarantine,
    now: Standing,
    aftermath: Aftermath,
    told: usize,
}

impl Inspector for Sweep<'_> {
    fn see(&mut self, name: Name<'_>, class: Class) -> Turn {
        match class {
            Class::Closed => self.judge(&name),
            Class::TooLong => {
                let reason = "its path is too long to be looked at";
                self.take_out(
                    (name.dir, name.called),
                    name.place,
                    &name.meta.version,
                    reason,
                );
            }
            Class::Directory => {
                if self.before.is_all_read() || !self.is_known(&name) {
                    return Turn::Inside;
                }
                self.judge(&name);
            }
            Class::File => self.now.add_file(&name),
        }
        Turn::Past
    }

    fn barred(&mut self, place: &Place, dir: Option<&Dir>, fault: Fault) -> Turn {
        let path = place.real();
        let is_opened = |dir| fault == CLOSED && unlock(dir).is_ok();
        if dir.is_some_and(is_opened) {
            let reason = "it was closed to its owner; it is open again, for protected names in it";
            self.aftermath.leave_out(path, reason);
            return Turn::Inside;
        }
        self.now.add_unread(path);
        let reason = format!("nobody knows what is in it, because it cannot be read: {fault}");
        self.aftermath.deny(path, reason);
        Turn::Past
    }
}

impl Sweep<'_> {
    fn is_known(&self, name: &Name<'_>) -> bool {
        let stood = Stood::of(name.dir, name.called, name.meta);
        stood.is_ok_and(|stood| self.known.contains(&stood.identity()))
    }

    /// Decides about what stands at a closed name.
    fn judge(&mut self, name: &Name<'_>) {
        let path = name.place.real();
        let now = match Stood::of(name.dir, name.called, name.meta) {
            Ok(now) => now,
            Err(Fault::Missing | Fault::NotDirectory) => return,
            Err(fault) => return self.failed("look at", name.place, fault),
        };
        let identity = now.identity();
        match self.before.names().get(path) {
            Some(old) if old.identity() == identity => {
                self.present.insert(identity);
                if self.before.is_unread(path) {
                    self.now.add_unread(path);
                }
            }
            Some(old) if old.can_be_masked() => {
                let place = name.place.clone();
                self.replaced.push((place, now.version));
            }
            // A link or a pipe that was moved is made again where it was.
            None if self.known.contains(&identity) && now.can_be_masked() => {
                self.present.insert(identity);
                let reason = "it was moved here, and it is protected: move it back";
                self.aftermath.leave_out(path, reason);
            }
            _ => {
                let reason = "the name is protected";
                self.take_out((name.dir, name.called), name.place, &now.version, reason);
            }
        }
    }

    fn take_out(
        &mut self,
        (dir, name): (&Dir, &OsStr),
        place: &Place,
        seen: &Version,
        reason: &str,
    ) {
        let path = place.real();
        match self.quarantine.take(dir, name, seen, path) {
            Ok(kept) => {
                let kept = shown(kept.as_path().as_os_str(), "/");
                self.tell(
                    place,
                    format!("{reason}; what stood there is kept in {kept}"),
                );
            }
            Err(Fault::Missing) => {}
            Err(fault) => self.failed("take out of the way", place, fault),
        }
    }

    /// Tells of one that was taken out. What tools generate is not missed in the user's tree.
    fn tell(&mut self, place: &Place, reason: String) {
        let path = place.real();
        let rel = path.below(&place.grant().root);
        self.told = self.told.saturating_add(1);
        if self.told > TOLD_MAX {
            return;
        }
        if rel.is_some_and(|rel| is_generated(&rel)) {
            self.aftermath.leave_out(path, reason);
        } else {
            self.aftermath.deny(path, reason);
        }
    }

    /// A mask goes when the user replaces what is below it, and only then.
    fn settle_replaced(&mut self) {
        for (place, seen) in std::mem::take(&mut self.replaced) {
            let old = self.before.names().get(place.real());
            if !old.is_some_and(|old| self.present.contains(&old.identity())) {
                let reason = "somebody replaced it while the command ran: look at it";
                self.aftermath.deny(place.real(), reason);
                continue;
            }
            let below = place.below();
            match place.dir().parent_of(&below) {
                Ok((dir, name)) => {
                    self.take_out((&dir, name), &place, &seen, "the name is protected");
                }
                Err(fault) => self.failed("take out of the way", &place, fault),
            }
        }
    }

    /// Makes links and pipes again that are gone, with the directories around them.
    fn restore(&mut self) {
        let before = self.before;
        let roots = users_trees(self.gate);
        for (path, old) in before.names() {
            if old.can_be_masked() || self.present.contains(&old.identity()) {
                continue;
            }
            let within = |root: &Place| path.below(root.real()).map(|rel| root.at(&rel));
            let Some(place) = roots.iter().find_map(within) else {
                continue;
            };
            match make_again(&place, old) {
                Ok(()) => {
                    let reason = "the name is protected; it was made again as it was";
                    self.aftermath.deny(path, reason);
                }
                // What could not be taken out or looked at was told.
                Err(Fault::Exists) => {}
                Err(fault) => self.failed("make again", &place, fault),
            }
        }
    }

    fn failed(&mut self, what: &str, place: &Place, fault: Fault) {
        let stop = Stop::at(self.gate, what, place, fault);
        self.aftermath.stopped(place.real(), stop);
    }

    /// Puts what is told in order, and says how much more there is.
    fn sum_up(&mut self) {
        let Aftermath {
            changes, left_out, ..
        } = &mut self.aftermath;
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        left_out.sort_by(|one, other| one.path.cmp(&other.path));
        let untold = self.told.saturating_sub(TOLD_MAX);
        if untold > 0 {
            for root in users_trees(self.gate) {
                let reason = format!("{untold} more protected names were taken out of the way");
                self.aftermath
                    .changed(root.real(), ChangeKind::Unlisted { reason });
            }
        }
    }
}

/// Makes what cannot be masked again.
fn make_again(place: &Place, old: &Stood) -> Result<(), Fault> {
    let below = place.below();
    let (dir, name) = place.dir().make_parent_of(&below)?;
    unlocked(&dir, || match (old.kind, &old.target) {
        (Kind::Link, Some(target)) => dir.symlink(name, Path::new(OsStr::from_bytes(target))),
        (Kind::Fifo, _) => dir.make_pipe(name, old.mode_bits),
        _ => Err(Fault::Limit("nobody can make it but who made it")),
    })
}
