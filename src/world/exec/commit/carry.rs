//! Owns what each name of a layer does to the user's tree: a file, link or directory comes to be, or
//! what stood there goes. What is not of the same kind is removed first.

use std::collections::BTreeSet;

use crate::path::RelPath;
use crate::tools::call::Existing;
use crate::world::change::ChangeKind;
use crate::world::exec::answer::Stop;
use crate::world::exec::care::hindrance;
use crate::world::exec::commit::Commit;
use crate::world::exec::compare::same_bytes;
use crate::world::exec::delete::{removable, remove_name, remove_tree};
use crate::world::exec::put::{Manner, Source, put};
use crate::world::gate::Place;
use crate::world::sys::dir::Dir;
use crate::world::sys::displace::replace_link;
use crate::world::sys::fault::Fault;
use crate::world::sys::layer::{Trace, open_up, trace};
use crate::world::sys::meta::{Kind, Meta};

/// What a directory of the layer does to what is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    /// It shows through.
    Kept,
    /// It is gone.
    Hidden,
}

/// What stands where something is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Nothing.
    Free,
    /// Something of the same kind.
    Taken,
}

impl Commit<'_> {
    /// Carries one name and notes what came of it.
    pub(super) fn take(&mut self, rel: &RelPath) {
        let place = self.root.at(rel);
        if let Err(stop) = self.carry(rel, &place) {
            self.aftermath.stopped(place.real(), stop);
        }
    }

    fn carry(&mut self, rel: &RelPath, place: &Place) -> Result<(), Stop> {
        let stop = |fault: Fault| Stop::at(self.gate, "carry", place, fault);
        let found = open_up(self.upper, rel).and_then(|()| trace(self.upper, rel));
        match found.map_err(stop)? {
            Trace::Removed => self.remove(place),
            Trace::Merged(_) => Ok(()),
            Trace::Made(meta) => self.make_dir(rel, place, &meta, Below::Kept),
            Trace::Replaced(meta) => self.make_dir(rel, place, &meta, Below::Hidden),
            Trace::File(meta) => self.put_file(rel, place, &meta),
            Trace::Link => self.put_link(rel, place),
            Trace::Special(kind) => {
                self.aftermath
                    .leave_out(place.real(), format!("it is {kind}"));
                Ok(())
            }
        }
    }

    /// Makes the directory and removes what it hides. What is in it comes later, name by name.
    fn make_dir(
        &mut self,
        rel: &RelPath,
        place: &Place,
        meta: &Meta,
        below: Below,
    ) -> Result<(), Stop> {
        let stop = |fault: Fault| Stop::at(self.gate, "create", place, fault);
        let parent = rel.parent().unwrap_or_default();
        let hides = below == Below::Hidden || self.hiding.contains(&parent);
        if hides {
            self.hiding.insert(rel.clone());
        }
        if self.make_way(place, Kind::Directory)? == Way::Free {
            let below = place.below();
            let (dir, name) = place.dir().make_parent_of(&below).map_err(stop)?;
            return dir.make_dir(name, meta).map_err(stop);
        }
        if hides {
            self.remove_hidden(rel, place)?;
        }
        Ok(())
    }

    /// Removes what is in a directory of the user's and not in the one that hides it.
    fn remove_hidden(&mut self, rel: &RelPath, place: &Place) -> Result<(), Stop> {
        let stop = |fault: Fault| Stop::at(self.gate, "list", place, fault);
        let listed = |dir: &Dir, rel: &RelPath| dir.dir(rel).and_then(|dir| dir.entries());
        let kept = listed(self.upper, rel).map_err(stop)?;
        let kept: BTreeSet<_> = kept.into_iter().map(|entry| entry.name).collect();
        for entry in listed(place.dir(), &place.below()).map_err(stop)? {
            let Some(rel) = rel.child(&entry.name) else {
                continue;
            };
            let place = self.root.at(&rel);
            if kept.contains(&entry.name) {
                continue;
            }
            if let Some(reason) = self.closed(&rel) {
                self.denied(&rel, reason);
            } else if let Err(stop) = self.remove(&place) {
                self.aftermath.stopped(place.real(), stop);
            }
        }
        Ok(())
    }

    fn put_file(&mut self, rel: &RelPath, place: &Place, meta: &Meta) -> Result<(), Stop> {
        let stop = |fault: Fault| Stop::at(self.gate, "carry", place, fault);
        let way = self.make_way(place, Kind::File)?;
        let needed = meta.allocated_bytes.min(meta.version.size_bytes);
        let too_much = Fault::Limit("more than 4 GiB would be carried after one command");
        self.bytes_left = self
            .bytes_left
            .checked_sub(needed)
            .ok_or_else(|| stop(too_much))?;
        if way == Way::Taken && self.is_same(rel, place).map_err(stop)? {
            return Ok(());
        }
        let (content, meta) = self.upper.open_file(rel).map_err(stop)?;
        let manner = Manner {
            intent: self.intent,
            existing: Existing::Overwrite,
        };
        let change = put(self.gate, place, &Source::Layer(&content, &meta), manner)?;
        self.aftermath.changes.push(change);
        Ok(())
    }

    /// Whether the file of the layer would change nothing: a command only opened or touched it.
    fn is_same(&self, rel: &RelPath, place: &Place) -> Result<bool, Fault> {
        let (ours, our) = self.upper.open_file(rel)?;
        let (theirs, their) = place.dir().open_file(&place.below())?;
        let size_bytes = our.version.size_bytes;
        let looks_same = size_bytes == their.version.size_bytes
            && our.permission_bits() == their.permission_bits();
        Ok(looks_same && same_bytes(ours, theirs, size_bytes)?)
    }

    fn put_link(&mut self, rel: &RelPath, place: &Place) -> Result<(), Stop> {
        let stop = |fault: Fault| Stop::at(self.gate, "carry", place, fault);
        let target = self.upper.link_target(rel).map_err(stop)?;
        let way = self.make_way(place, Kind::Link)?;
        let below = place.below();
        let (dir, name) = place.dir().make_parent_of(&below).map_err(stop)?;
        let kind = match way {
            Way::Free => {
                dir.symlink(name, &target).map_err(stop)?;
                ChangeKind::Created
            }
            Way::Taken => {
                if place.dir().link_target(&below).map_err(stop)? == target {
                    return Ok(());
                }
                let old = place.dir().meta(&below).map_err(stop)?;
                if let Some(why) = hindrance(self.gate, place.real(), &old, self.intent) {
                    return Err(Stop::denied(self.gate, place.real(), why));
                }
                replace_link(&dir, name, &target, &old.version).map_err(stop)?;
                ChangeKind::Changed
            }
        };
        self.aftermath.changed(place.real(), kind);
        Ok(())
    }

    /// Removes what stands at `place` unless it is of this kind.
    fn make_way(&mut self, place: &Place, kind: Kind) -> Result<Way, Stop> {
        match place.dir().meta(&place.below()) {
            Ok(meta) if meta.kind == kind => Ok(Way::Taken),
            Err(Fault::Missing) => Ok(Way::Free),
            Ok(_) => self.remove(place).map(|()| Way::Free),
            Err(fault) => Err(Stop::at(self.gate, "look at", place, fault)),
        }
    }

    /// Removes what stands at `place`; a directory with all that is in it, or not at all.
    fn remove(&mut self, place: &Place) -> Result<(), Stop> {
        let gate = self.gate;
        let meta = match place.dir().meta(&place.below()) {
            Ok(meta) => meta,
            Err(Fault::Missing) => return Ok(()),
            Err(fault) => return Err(Stop::at(gate, "delete", place, fault)),
        };
        if meta.kind == Kind::Directory {
            if gate.manager().holds_a_root(place.real()) {
                let why = "it holds a directory that was opened to you as a whole";
                return Err(Stop::denied(gate, place.real(), why));
            }
            let doomed = removable(gate, place, self.intent)?;
            self.aftermath
                .changes
                .extend(remove_tree(gate, place, &doomed)?);
            return Ok(());
        }
        if let Some(why) = hindrance(gate, place.real(), &meta, self.intent) {
            return Err(Stop::denied(gate, place.real(), why));
        }
        self.aftermath
            .changes
            .push(remove_name(gate, place, &meta.version)?);
        Ok(())
    }
}
