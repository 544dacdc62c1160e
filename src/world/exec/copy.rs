//! Owns the tools that copy. Links are copied as links, pipes, sockets and devices are left out, and
//! every name is asked about at both ends.

use serde_json::{Value, json};

use crate::path::RelPath;
use crate::permissions::grant::Permission;
use crate::permissions::history::is_generated;
use crate::tools::call::{Existing, Selection};
use crate::world::change::{Change, ChangeKind};
use crate::world::exec::answer::{Answer, Stop, json_done, shown, shown_path};
use crate::world::exec::care::Intent;
use crate::world::exec::list::readable;
use crate::world::exec::put::{Manner, Source, put};
use crate::world::exec::selection::Chosen;
use crate::world::exec::{Observation, Outcome};
use crate::world::gate::{Gate, Place};
use crate::world::sys::displace::replace_link;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Kind;
use crate::world::sys::survey::{Found, Keep};

/// How many bytes one call copies, at most; holes do not count.
const COPY_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// How many names with reasons an answer lists.
const NOTES_MAX: usize = 50;

/// Between which places a copy goes, and what it does with what it finds there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route<'a> {
    /// The gate of both ends.
    pub(super) gate: &'a Gate,
    /// What is copied.
    pub(super) source: &'a Place,
    /// Where it will be.
    pub(super) destination: &'a Place,
    /// What happens to a file that is there.
    pub(super) existing: Existing,
}

/// `copy_file`
pub(super) fn copy_file(route: Route<'_>) -> Answer {
    let Route {
        gate,
        source,
        destination,
        existing,
    } = route;
    let stop = |fault: Fault| Stop::at(gate, "copy", source, fault);
    let meta = source.dir().meta(&source.below()).map_err(stop)?;
    match meta.kind {
        Kind::File => {
            let mut bytes_left = COPY_BYTES_MAX;
            let change = copy_content(route, &mut bytes_left)?;
            let size = meta.version.size_bytes;
            let details = route.details(json!({"type": "file", "size": size}));
            Ok(Observation::done(json_done("copy_file", &details)).with(vec![change]))
        }
        Kind::Directory => {
            let is_there = destination.dir().meta(&destination.below()).is_ok();
            if existing == Existing::Keep && is_there {
                return Err(Stop::at(gate, "write", destination, Fault::Exists));
            }
            let transfer = copy_tree(route, None)?;
            Ok(transfer.observation(route, "copy_file"))
        }
        kind @ (Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device) => {
            Err(stop(Fault::NotRegular(kind)))
        }
    }
}

/// `copy_files_batch`
pub(super) fn copy_files_batch(route: Route<'_>, selection: &Selection) -> Answer {
    let chosen = Chosen::new(selection)?;
    let transfer = copy_tree(route, Some(&chosen))?;
    Ok(transfer.observation(route, "copy_files_batch"))
}

/// What came of copying a tree.
#[derive(Debug, Default)]
pub(super) struct Transfer {
    /// The files and links that were copied, and those that were left alone for the user's sake.
    pub(super) changes: Vec<Change>,
    /// Names that were left out by rule, and why.
    pub(super) skipped: Vec<(RelPath, String)>,
    /// Names that could not be copied, and why.
    pub(super) errors: Vec<(RelPath, String)>,
}

/// Copies what is below the source to below the destination: all of it, or the chosen files.
pub(super) fn copy_tree(route: Route<'_>, chosen: Option<&Chosen>) -> Result<Transfer, Stop> {
    let Route {
        gate,
        source,
        destination,
        ..
    } = route;
    if destination.real().is_within(source.real()) {
        return Err(Stop::at(
            gate,
            "copy",
            source,
            "the destination is inside it",
        ));
    }
    let mut transfer = Transfer::default();
    let survey = readable(gate, source, &mut |found| {
        let meant = |chosen: &Chosen| found.kind == Kind::Directory || chosen.takes(&found.rel);
        if !chosen.is_none_or(meant) {
            return Keep::Not;
        }
        match gate.ask(destination.at(&found.rel).real(), Permission::Write) {
            Ok(_) => Keep::Deep,
            Err(refusal) => {
                transfer.leave_out(destination, &found.rel, refusal.reason);
                Keep::Not
            }
        }
    });
    let survey = survey.map_err(|fault| Stop::at(gate, "copy", source, fault))?;
    if let Some(cut) = survey.cut {
        return Err(Stop::at(gate, "copy", source, cut));
    }
    for (rel, fault) in survey.unreadable {
        transfer.errors.push((rel, fault.to_string()));
    }
    if chosen.is_none() {
        make_dir(gate, destination)?;
    }
    let mut bytes_left = COPY_BYTES_MAX;
    for found in survey.found {
        if found.kind != Kind::Directory || chosen.is_none() {
            transfer.take(route, found, &mut bytes_left);
        }
    }
    Ok(transfer)
}

impl Transfer {
    /// Notes a name that is closed at the destination. What tools generate is not missed there.
    fn leave_out(&mut self, destination: &Place, rel: &RelPath, reason: String) {
        if !is_generated(rel) {
            self.changes.push(Change {
                path: destination.at(rel).real().clone(),
                kind: ChangeKind::Denied {
                    reason: reason.clone(),
                },
            });
        }
        self.skipped.push((rel.clone(), reason));
    }

    /// Copies one name and notes what came of it.
    fn take(&mut self, route: Route<'_>, found: Found, bytes_left: &mut u64) {
        let (source, destination) = (
            route.source.at(&found.rel),
            route.destination.at(&found.rel),
        );
        let one = Route {
            source: &source,
            destination: &destination,
            ..route
        };
        let is_there = || destination.dir().meta(&destination.below()).is_ok();
        let copied = match found.kind {
            Kind::Directory => make_dir(route.gate, &destination).map(|()| None),
            _ if route.existing == Existing::Keep && is_there() => {
                return self.skipped.push((found.rel, Fault::Exists.to_string()));
            }
            Kind::File => copy_content(one, bytes_left).map(Some),
            Kind::Link => copy_link(one).map(Some),
            kind @ (Kind::Fifo | Kind::Socket | Kind::Device) => {
                return self.skipped.push((found.rel, format!("it is {kind}")));
            }
        };
        match copied {
            Ok(change) => self.changes.extend(change),
            Err(stop) => {
                if stop.changes.is_empty() {
                    self.changes.push(left(&destination, &stop));
                }
                self.changes.extend(stop.changes);
                self.errors.push((found.rel, stop.message));
            }
        }
    }

    fn observation(self, route: Route<'_>, operation: &str) -> Observation {
        let is_copied = |change: &&Change| {
            use ChangeKind::{Changed, Created, Deleted};
            matches!(change.kind, Created | Changed | Deleted)
        };
        let copied = self.changes.iter().filter(is_copied).count();
        let content = json!({
            "success": self.errors.is_empty(),
            "operation": operation,
            "summary": {
                "copied": copied,
                "skipped": self.skipped.len(),
                "errors": self.errors.len(),
            },
            "details": route.details(json!({
                "type": "directory",
                "file_count": copied,
                "skipped": json_notes(&self.skipped),
                "errors": json_notes(&self.errors),
            })),
        });
        let outcome = if self.errors.is_empty() {
            Outcome::Done
        } else {
            Outcome::Failed
        };
        Observation::told(outcome, content.to_string()).with(self.changes)
    }
}

/// What became of a file that stayed as it was because of `stop`.
fn left(destination: &Place, stop: &Stop) -> Change {
    let reason = stop.message.clone();
    Change {
        path: destination.real().clone(),
        kind: match stop.outcome {
            Outcome::Denied => ChangeKind::Denied { reason },
            Outcome::Done | Outcome::Failed => ChangeKind::Failed { reason },
        },
    }
}

impl Route<'_> {
    /// `more`, after both ends of the route.
    fn details(self, more: Value) -> Value {
        let mut details = json!({
            "source": shown_path(self.gate, self.source.real()),
            "destination": shown_path(self.gate, self.destination.real()),
        });
        if let (Some(details), Value::Object(more)) = (details.as_object_mut(), more) {
            details.extend(more);
        }
        details
    }
}

/// Copies one regular file.
pub(super) fn copy_content(route: Route<'_>, bytes_left: &mut u64) -> Result<Change, Stop> {
    let Route {
        gate,
        source,
        destination,
        existing,
    } = route;
    let stop = |fault: Fault| Stop::at(gate, "copy", source, fault);
    let (content, meta) = source.dir().open_file(&source.below()).map_err(stop)?;
    let needed = meta.allocated_bytes.min(meta.version.size_bytes);
    let too_much = Fault::Limit("more than 4 GiB would be copied by one call");
    *bytes_left = bytes_left
        .checked_sub(needed)
        .ok_or_else(|| stop(too_much))?;
    let manner = Manner {
        intent: Intent::Overwrite,
        existing,
    };
    put(gate, destination, &Source::File(&content, &meta), manner)
}

/// Makes a link with the same text. Only a link is replaced by it.
pub(super) fn copy_link(route: Route<'_>) -> Result<Change, Stop> {
    let Route {
        gate,
        source,
        destination,
        existing,
    } = route;
    let stop = |fault: Fault| Stop::at(gate, "copy", source, fault);
    let target = source.dir().link_target(&source.below()).map_err(stop)?;
    let below = destination.below();
    let (dir, name) = destination.dir().make_parent_of(&below).map_err(stop)?;
    let (made, kind) = match (destination.dir().meta(&below), existing) {
        (Err(Fault::Missing), _) => (dir.symlink(name, &target), ChangeKind::Created),
        (Ok(old), Existing::Overwrite) if old.kind == Kind::Link => {
            let replaced = replace_link(&dir, name, &target, &old.version);
            (replaced, ChangeKind::Changed)
        }
        (Ok(_), _) => return Err(stop(Fault::Exists)),
        (Err(fault), _) => return Err(stop(fault)),
    };
    made.map_err(stop)?;
    Ok(Change {
        path: destination.real().clone(),
        kind,
    })
}

fn make_dir(gate: &Gate, place: &Place) -> Result<(), Stop> {
    match place.dir().make_dirs(&place.below()) {
        Ok(_) => Ok(()),
        Err(fault) => Err(Stop::at(gate, "create", place, fault)),
    }
}

fn json_notes(notes: &[(RelPath, String)]) -> Value {
    let shown = notes.iter().take(NOTES_MAX).map(|(rel, why)| {
        let path = shown(rel.as_path().as_os_str(), ".");
        json!({"path": path, "reason": why})
    });
    shown.collect()
}
