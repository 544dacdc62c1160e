//! Owns the commit: what a command changed in the layer over a write path is carried into the
//! user's tree, name by name and through the same rules as the file tools. What may not be written
//! there stays in the layer, private to the agent, so that its next command finds it.
//!
//! The layer was written by an agent. Nothing in it is followed or trusted: names are opened
//! beneath its root, links are carried as links, and marks that massgen's overlays never make stop
//! the name that bears them.

mod carry;

use std::collections::BTreeSet;

use crate::confinement::Layer;
use crate::path::{RealPath, RelPath};
use crate::permissions::grant::{GrantKind, Permission};
use crate::permissions::history::is_generated;
use crate::world::exec::aftermath::Aftermath;
use crate::world::exec::answer::Stop;
use crate::world::exec::care::Intent;
use crate::world::gate::{Gate, Place};
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::layer::{open_up, settle};
use crate::world::sys::meta::{Kind, Meta};
use crate::world::sys::own::clear;
use crate::world::sys::survey::{Found, Keep, Survey};

/// How many bytes one commit carries, at most; holes do not count.
const COMMIT_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Carries what commands changed in `layer` into the tree below it, and empties the layer but for
/// the names that may not be carried. No process may write to the layer meanwhile.
///
/// What is in `told` was reported before and is not again; what is reported is added to it. The
/// error says why the commit is not whole, and holds what it changed all the same.
pub(super) fn commit(
    gate: &Gate,
    layer: &Layer,
    told: &mut BTreeSet<RealPath>,
) -> Result<Aftermath, Stop> {
    let root = gate.writable_tree(&layer.root);
    let root = root.ok_or_else(|| Stop::failed("its directory is not open for writing"))?;
    let stop = |fault: Fault| Stop::at(gate, "carry what changed into", &root, fault);
    let upper = Dir::own(&layer.upper).map_err(stop)?;
    let mut commit = Commit::of(gate, &root, layer, &upper, told)?;
    let survey = commit.survey();
    if let Some(cut) = survey.cut {
        clear::empty(&upper).map_err(stop)?;
        return Err(stop(Fault::Limit(cut)));
    }
    commit.take_all(&survey);
    let aftermath = commit.aftermath;
    if prune(&upper, &survey.found).is_err() {
        clear::empty(&upper).map_err(stop)?;
    }
    on_the_disk(gate, &root, aftermath)
}

/// Returns once what was carried is on the disk.
fn on_the_disk(gate: &Gate, root: &Place, aftermath: Aftermath) -> Result<Aftermath, Stop> {
    if root.grant().kind == GrantKind::Context
        && !aftermath.changes.is_empty()
        && let Err(fault) = root.dir().sync_file_system()
    {
        let stop = Stop::at(gate, "carry what changed into", root, fault);
        return Err(stop.with(aftermath.changes));
    }
    Ok(aftermath)
}

struct Commit<'a> {
    gate: &'a Gate,
    /// The root of the user's tree.
    root: &'a Place,
    /// The root of the layer.
    upper: &'a Dir,
    intent: Intent,
    /// Directories of the layer through which nothing shows.
    hiding: BTreeSet<RelPath>,
    bytes_left: u64,
    aftermath: Aftermath,
    told: &'a mut BTreeSet<RealPath>,
}

impl<'a> Commit<'a> {
    /// A commit of `layer`, whose root is `upper`, to the tree `root`.
    fn of(
        gate: &'a Gate,
        root: &'a Place,
        layer: &Layer,
        upper: &'a Dir,
        told: &'a mut BTreeSet<RealPath>,
    ) -> Result<Self, Stop> {
        let began = Dir::own(&layer.work).and_then(Meta::of);
        let began =
            began.map_err(|fault| Stop::at(gate, "carry what changed into", root, fault))?;
        Ok(Self {
            gate,
            root,
            upper,
            // The kernel makes a directory of its own in there when it lays the layer over the tree.
            intent: Intent::Commit {
                began_ns: began.version.changed_ns,
            },
            hiding: BTreeSet::new(),
            bytes_left: COMMIT_BYTES_MAX,
            aftermath: Aftermath::default(),
            told,
        })
    }

    /// Carries all names of `survey`.
    fn take_all(&mut self, survey: &Survey) {
        for (rel, fault) in &survey.unreadable {
            let place = self.root.at(rel);
            let stop = Stop::at(self.gate, "carry", &place, fault);
            self.aftermath.stopped(place.real(), stop);
        }
        for found in &survey.found {
            self.take(&found.rel);
        }
    }

    /// All names of the layer that may be carried, parents first. The others are noted.
    fn survey(&mut self) -> Survey {
        let upper = self.upper;
        Survey::of(upper, &mut |found: &Found| {
            if let Some(reason) = self.closed(&found.rel) {
                self.denied(&found.rel, reason);
                return Keep::Not;
            }
            if found.kind == Kind::Directory {
                // If it cannot be read, the survey says so.
                let _opened = open_up(upper, &found.rel);
            }
            Keep::Deep
        })
    }

    /// Why nothing may be written at `rel`, if so.
    fn closed(&self, rel: &RelPath) -> Option<String> {
        match self.gate.ask(self.root.at(rel).real(), Permission::Write) {
            Ok(grant) if grant == self.root.grant() => None,
            Ok(_) => Some("it lies in another directory that was opened to you".to_owned()),
            Err(refusal) => Some(refusal.reason),
        }
    }

    /// Notes a name that is closed, once. What tools generate is not missed in the user's tree.
    fn denied(&mut self, rel: &RelPath, reason: String) {
        let path = self.root.at(rel).real().clone();
        if !self.told.insert(path.clone()) {
            return;
        }
        if is_generated(rel) {
            self.aftermath.leave_out(&path, reason);
        } else {
            self.aftermath.deny(&path, reason);
        }
    }
}

/// Removes the names of `found` from the layer. A directory that still holds something stays.
fn prune(upper: &Dir, found: &[Found]) -> Result<(), Fault> {
    for found in found.iter().rev() {
        let (dir, name) = upper.parent_of(&found.rel)?;
        match found.kind {
            Kind::Directory => match dir.remove_dir(name) {
                Err(Fault::NotEmpty) => settle(upper, &found.rel)?,
                removed => removed?,
            },
            Kind::File | Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device => {
                dir.unlink(name)?;
            }
        }
    }
    Ok(())
}
