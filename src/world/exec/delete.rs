//! Owns the tools that delete. A tree is listed and every name in it asked about before the first is
//! removed; names that appear meanwhile stay, because only listed ones are removed.

use serde_json::json;

use crate::path::{RealPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::history::Version;
use crate::tools::call::{Recursion, Selection};
use crate::world::change::{Change, ChangeKind};
use crate::world::exec::Observation;
use crate::world::exec::answer::{Answer, Stop, json_done, json_names, shown_path};
use crate::world::exec::care::{Hindrance, Intent, hindrance};
use crate::world::exec::selection::Chosen;
use crate::world::gate::{Gate, Place};
use crate::world::sys::displace::remove_only;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::{Kind, Meta};
use crate::world::sys::survey::{Found, Keep, Survey};

/// How many names a refusal gives as examples.
const EXAMPLES_MAX: usize = 3;

/// `delete_file`
pub(super) fn delete_file(gate: &Gate, place: &Place, recursion: Recursion) -> Answer {
    let stop = |fault: Fault| Stop::at(gate, "delete", place, fault);
    let meta = place.dir().meta(&place.below()).map_err(stop)?;
    let path = shown_path(gate, place.real());
    let (kind, changes) = match (meta.kind, recursion) {
        (Kind::Directory, Recursion::EmptyOnly) => {
            let below = place.below();
            let (parent, name) = place.dir().parent_of(&below).map_err(stop)?;
            parent.remove_dir(name).map_err(stop)?;
            ("directory", Vec::new())
        }
        (Kind::Directory, Recursion::Whole) => {
            let found = removable(gate, place, Intent::Delete)?;
            ("directory", remove_tree(gate, place, &found)?)
        }
        _ => {
            if let Some(why) = hindrance(gate, place.real(), &meta, Intent::Delete) {
                return Err(Stop::denied(gate, place.real(), why));
            }
            ("file", vec![remove_name(gate, place, &meta.version)?])
        }
    };
    let details = json!({"type": kind, "path": path, "file_count": changes.len()});
    Ok(Observation::done(json_done("delete_file", &details)).with(changes))
}

/// `delete_files_batch`: protected names are left out, and one unread file stops all.
pub(super) fn delete_files_batch(gate: &Gate, place: &Place, selection: &Selection) -> Answer {
    let chosen = Chosen::new(selection)?;
    let mut skipped = Vec::new();
    let survey = survey(gate, place, &mut |found| {
        let is_meant = found.kind == Kind::Directory || chosen.takes(&found.rel);
        if !is_meant {
            Keep::Not
        } else if gate.allows(place.at(&found.rel).real(), Permission::Write) {
            Keep::Deep
        } else {
            skipped.push(found.rel.clone());
            Keep::Not
        }
    })?;
    let mut doomed = doomed(place, survey.found);
    let mut unread = Vec::new();
    doomed.retain(|name| {
        let hindrance = name.hindrance(gate, place, Intent::Delete);
        match hindrance {
            None => return name.meta.kind != Kind::Directory,
            Some(Hindrance::Unread) => unread.push(name.rel.clone()),
            Some(Hindrance::Conflict | Hindrance::ManyNames | Hindrance::MarkedReadOnly) => {
                skipped.push(name.rel.clone());
            }
        }
        false
    });
    if !unread.is_empty() {
        return Err(refuse(gate, place.real(), Hindrance::Unread, &unread));
    }
    let mut changes = Vec::new();
    for name in &doomed {
        match remove_name(gate, &place.at(&name.rel), &name.meta.version) {
            Ok(change) => changes.push(change),
            Err(stop) => return Err(stop.with(changes)),
        }
    }
    let content = json!({
        "success": true,
        "operation": "delete_files_batch",
        "summary": {"deleted": changes.len(), "skipped": skipped.len(), "errors": 0},
        "details": {
            "deleted_files": json_names(doomed.iter().map(|name| &name.rel)),
            "skipped": json_names(&skipped),
        },
    });
    Ok(Observation::done(content.to_string()).with(changes))
}

/// A name that is to go, and what stood there when that was decided.
#[derive(Clone, Debug)]
pub(super) struct Doomed {
    /// Where it is, seen from the start.
    pub(super) rel: RelPath,
    /// What it is.
    pub(super) meta: Meta,
}

impl Doomed {
    fn hindrance(&self, gate: &Gate, place: &Place, intent: Intent) -> Option<Hindrance> {
        hindrance(gate, place.at(&self.rel).real(), &self.meta, intent)
    }
}

/// What was found, as it is now; what has vanished is left out.
fn doomed(place: &Place, found: Vec<Found>) -> Vec<Doomed> {
    let look = |found: Found| {
        let meta = place.dir().meta(&place.at(&found.rel).below()).ok()?;
        let rel = found.rel;
        Some(Doomed { rel, meta })
    };
    found.into_iter().filter_map(look).collect()
}

/// Everything below `place`, if all of it may be removed or moved away.
pub(super) fn removable(gate: &Gate, place: &Place, intent: Intent) -> Result<Vec<Doomed>, Stop> {
    let mut closed = Vec::new();
    let survey = survey(gate, place, &mut |found| {
        if !gate.allows(place.at(&found.rel).real(), Permission::Write) {
            closed.push(found.rel.clone());
        }
        Keep::Deep
    })?;
    if let Some((rel, fault)) = survey.unreadable.first() {
        return Err(Stop::at(gate, "read", &place.at(rel), *fault));
    }
    if !closed.is_empty() {
        let readable = |rel: &RelPath| gate.allows(place.at(rel).real(), Permission::Read);
        closed.retain(readable);
        let why = "it holds names that you may not change";
        return Err(refuse(gate, place.real(), why, &closed));
    }
    let doomed = doomed(place, survey.found);
    // Of a file with several names, only one goes.
    for why in [
        Hindrance::Conflict,
        Hindrance::Unread,
        Hindrance::MarkedReadOnly,
    ] {
        let is_hindered = |name: &&Doomed| name.hindrance(gate, place, intent) == Some(why);
        let hindered = doomed.iter().filter(is_hindered);
        let hindered: Vec<RelPath> = hindered.map(|name| name.rel.clone()).collect();
        if !hindered.is_empty() {
            return Err(refuse(gate, place.real(), why, &hindered));
        }
    }
    Ok(doomed)
}

/// Removes the names of `doomed`, last first, and then `place` itself.
pub(super) fn remove_tree(
    gate: &Gate,
    place: &Place,
    doomed: &[Doomed],
) -> Result<Vec<Change>, Stop> {
    let mut changes = Vec::new();
    for name in doomed.iter().rev() {
        let below = place.at(&name.rel);
        let removed = match name.meta.kind {
            Kind::Directory => remove_dir(gate, &below).map(|()| None),
            Kind::File | Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device => {
                remove_name(gate, &below, &name.meta.version).map(Some)
            }
        };
        match removed {
            Ok(change) => changes.extend(change),
            Err(stop) => return Err(stop.with(changes)),
        }
    }
    match remove_dir(gate, place) {
        Ok(()) => Ok(changes),
        Err(stop) => Err(stop.with(changes)),
    }
}

/// Removes a name that is no directory, unless it changed since it was looked at.
pub(super) fn remove_name(gate: &Gate, place: &Place, seen: &Version) -> Result<Change, Stop> {
    let below = place.below();
    let removed = place.dir().parent_of(&below).and_then(|(parent, name)| {
        let aside = gate.aside().unwrap_or(&parent);
        remove_only(&parent, aside, name, seen)
    });
    removed.map_err(|fault| Stop::at(gate, "delete", place, fault))?;
    gate.history().removed(place.real());
    Ok(Change {
        path: place.real().clone(),
        kind: ChangeKind::Deleted,
    })
}

fn remove_dir(gate: &Gate, place: &Place) -> Result<(), Stop> {
    let below = place.below();
    let removed = place
        .dir()
        .parent_of(&below)
        .and_then(|(parent, name)| parent.remove_dir(name));
    removed.map_err(|fault| Stop::at(gate, "delete", place, fault))
}

fn survey(
    gate: &Gate,
    place: &Place,
    keep: &mut dyn FnMut(&Found) -> Keep,
) -> Result<Survey, Stop> {
    let start = place.dir().dir(&place.below());
    let start = start.map_err(|fault| Stop::at(gate, "list", place, fault))?;
    let survey = Survey::of(&start, keep);
    match survey.cut {
        Some(cut) => Err(Stop::at(gate, "delete", place, cut)),
        None => Ok(survey),
    }
}

fn refuse(gate: &Gate, path: &RealPath, why: impl std::fmt::Display, rels: &[RelPath]) -> Stop {
    let examples = rels.iter().take(EXAMPLES_MAX);
    let examples: Vec<String> = examples
        .map(|rel| shown_path(gate, &path.join(rel)))
        .collect();
    let more = match rels.len().saturating_sub(EXAMPLES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Stop::denied(gate, path, format!("{why} ({}{more})", examples.join(", ")))
}
