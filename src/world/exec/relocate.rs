//! Owns `move_file`. A rename never looks at what it carries, so it is used only inside one
//! workspace; everywhere else a move is a copy, name by name, and then a removal.

use crate::path::RelPath;
use crate::permissions::grant::{GrantKind, Permission};
use crate::tools::call::Existing;
use crate::world::change::{Change, ChangeKind};
use crate::world::exec::Observation;
use crate::world::exec::answer::{Answer, Stop, shown_path};
use crate::world::exec::care::{Intent, hindrance};
use crate::world::exec::copy::{Route, copy_content, copy_link, copy_tree};
use crate::world::exec::delete::{Doomed, removable, remove_name, remove_tree};
use crate::world::gate::{Gate, Place};
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::{Kind, Meta};

/// `move_file`
pub(super) fn move_file(gate: &Gate, source: &Place, destination: &Place) -> Answer {
    let stop = |fault: Fault| Stop::at(gate, "move", source, fault);
    let meta = source.dir().meta(&source.below()).map_err(stop)?;
    if destination.real().is_within(source.real()) {
        return Err(Stop::at(
            gate,
            "move",
            source,
            "the destination is inside it",
        ));
    }
    match destination.dir().meta(&destination.below()) {
        Err(Fault::Missing) => {}
        Err(fault) => return Err(Stop::at(gate, "write", destination, fault)),
        Ok(_) => return Err(Stop::at(gate, "write", destination, Fault::Exists)),
    }
    if let Some(why) = hindrance(gate, source.real(), &meta, Intent::Move) {
        return Err(Stop::denied(gate, source.real(), why));
    }
    let changes = if is_within_one_workspace(gate, source, destination) {
        rename(source, destination).map_err(stop)?
    } else {
        carry(gate, source, destination, &meta)?
    };
    gate.history().moved(source.real(), destination.real());
    let (from, to) = (source.real(), destination.real());
    let (from, to) = (shown_path(gate, from), shown_path(gate, to));
    Ok(Observation::done(format!("moved {from} to {to}\n")).with(changes))
}

/// Whether nothing inside can be closed to the agent: one workspace, no exceptions in it, and no
/// other grant below it.
fn is_within_one_workspace(gate: &Gate, source: &Place, destination: &Place) -> bool {
    let grant = source.grant();
    grant.kind == GrantKind::Workspace
        && grant == destination.grant()
        && grant.hidden.is_empty()
        && grant.protected.is_empty()
        && grant.ruled.is_empty()
        && !gate.manager().holds_a_root(&grant.root)
}

fn rename(source: &Place, destination: &Place) -> Result<Vec<Change>, Fault> {
    let (from, to) = (source.below(), destination.below());
    let (from_dir, from_name) = source.dir().parent_of(&from)?;
    let (to_dir, to_name) = destination.dir().make_parent_of(&to)?;
    from_dir.rename_new(from_name, &to_dir, to_name)?;
    let change = |place: &Place, kind| Change {
        path: place.real().clone(),
        kind,
    };
    Ok(vec![
        change(destination, ChangeKind::Created),
        change(source, ChangeKind::Deleted),
    ])
}

/// Copies and then removes. Nothing is removed unless all of it was copied.
fn carry(
    gate: &Gate,
    source: &Place,
    destination: &Place,
    meta: &Meta,
) -> Result<Vec<Change>, Stop> {
    let route = Route {
        gate,
        source,
        destination,
        existing: Existing::Keep,
    };
    match meta.kind {
        Kind::File => {
            let mut bytes_left = u64::MAX;
            let is_unread = !gate.history().may_destroy(source.real());
            let change = copy_content(route, &mut bytes_left)?;
            if is_unread {
                gate.history().moved_unread(destination.real().clone());
            }
            Ok(vec![change, remove_name(gate, source, &meta.version)?])
        }
        Kind::Link => {
            let change = copy_link(route)?;
            Ok(vec![change, remove_name(gate, source, &meta.version)?])
        }
        Kind::Directory => carry_tree(route),
        kind @ (Kind::Fifo | Kind::Socket | Kind::Device) => {
            Err(Stop::at(gate, "move", source, Fault::NotRegular(kind)))
        }
    }
}

fn carry_tree(route: Route<'_>) -> Result<Vec<Change>, Stop> {
    let Route {
        gate,
        source,
        destination,
        ..
    } = route;
    let doomed = removable(gate, source, Intent::Move)?;
    for found in &doomed {
        let to = destination.at(&found.rel);
        if let Err(refusal) = gate.ask(to.real(), Permission::Write) {
            return Err(Stop::denied(gate, to.real(), refusal.reason));
        }
        let kind = found.meta.kind;
        if matches!(kind, Kind::Fifo | Kind::Socket | Kind::Device) {
            let fault = Fault::NotRegular(kind);
            return Err(Stop::at(gate, "move", &source.at(&found.rel), fault));
        }
    }
    let unread = unread(gate, source, &doomed);
    let transfer = copy_tree(route, None)?;
    for rel in unread {
        let to = destination.at(&rel).real().clone();
        gate.history().moved_unread(to);
    }
    let left_behind = transfer.errors.first().or(transfer.skipped.first());
    if let Some((rel, why)) = left_behind {
        let from = source.at(rel);
        return Err(Stop::at(gate, "move", &from, why).with(transfer.changes));
    }
    let mut changes = transfer.changes;
    match remove_tree(gate, source, &doomed) {
        Ok(removed) => {
            changes.extend(removed);
            Ok(changes)
        }
        Err(mut stop) => {
            changes.append(&mut stop.changes);
            Err(stop.with(changes))
        }
    }
}

/// The files of `doomed` that the agent has neither made nor read.
fn unread(gate: &Gate, source: &Place, doomed: &[Doomed]) -> Vec<RelPath> {
    let history = gate.history();
    let files = doomed.iter().filter(|name| name.meta.kind == Kind::File);
    let unread = files.filter(|name| !history.may_destroy(source.at(&name.rel).real()));
    unread.map(|name| name.rel.clone()).collect()
}
