//! Owns the one way in which a file comes to be at a place: what stands there is looked at with
//! care, the new file is staged beside it, and a rename puts it there.

use std::ffi::OsStr;

use crate::path::RealPath;
use crate::permissions::grant::GrantKind;
use crate::tools::call::Existing;
use crate::world::bases::Occasion;
use crate::world::change::{Change, ChangeKind};
use crate::world::exec::answer::Stop;
use crate::world::exec::care::{Hindrance, Intent, hindrance};
use crate::world::gate::{Gate, Place};
use crate::world::sys::content::Content;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::{Kind, Meta};
use crate::world::sys::staged::{Durability, Over, Staged};

/// What a file is filled with.
#[derive(Debug)]
pub(super) enum Source<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// What another file holds; a new file takes over that one's permission bits.
    File(&'a Content, &'a Meta),
    /// What a command made of a file: its content, its permission bits, and when it last changed,
    /// so that what was built stays newer than what it was built from.
    Layer(&'a Content, &'a Meta),
}

/// How a file is put at a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// What the caller means to do to a file that stands there.
    pub(super) intent: Intent,
    /// Whether it may be replaced at all.
    pub(super) existing: Existing,
}

/// Puts a file at `place`. A place that the user changed meanwhile is left alone, and our version
/// is kept where the policy says.
pub(super) fn put(
    gate: &Gate,
    place: &Place,
    source: &Source<'_>,
    manner: Manner,
) -> Result<Change, Stop> {
    let stop = |fault: Fault| Stop::at(gate, "write", place, fault);
    let below = place.below();
    let old = present(place).map_err(stop)?;
    if let Some(old) = &old {
        if manner.existing == Existing::Keep {
            return Err(stop(Fault::Exists));
        }
        if let Some(why) = hindrance(gate, place.real(), old, manner.intent) {
            return Err(refused(gate, place, source, manner.intent, why));
        }
        let occasion = match manner.intent {
            Intent::Edit(_) => Occasion::Read,
            Intent::Overwrite | Intent::Delete | Intent::Move | Intent::Commit { .. } => {
                Occasion::Change
            }
        };
        gate.note_base(place, &old.version, occasion);
    }
    let seen = match manner.intent {
        Intent::Edit(version) => Some(version),
        Intent::Overwrite | Intent::Delete | Intent::Move | Intent::Commit { .. } => {
            old.map(|old| old.version)
        }
    };
    if old.map(|old| old.version) != seen {
        return Err(stop(Fault::Changed));
    }
    let (dir, name) = place.dir().make_parent_of(&below).map_err(stop)?;
    let mut staged = stage(&dir, source, old.as_ref()).map_err(stop)?;
    if let Some(aside) = gate.aside() {
        staged = staged.waiting_in(aside);
    }
    let (over, kind) = match &seen {
        Some(version) => (Over::Only(version), ChangeKind::Changed),
        None => (Over::Nothing, ChangeKind::Created),
    };
    let durability = durability(place, manner.intent);
    let users = gate.stage().and_then(|stage| stage.users(place.real()));
    let new = match staged.place(name, over, durability) {
        Ok(new) => new,
        Err(Fault::Changed | Fault::Exists) if place.grant().kind == GrantKind::Context => {
            let why = Hindrance::Conflict;
            return Err(refused(gate, place, source, manner.intent, why));
        }
        Err(fault) => return Err(stop(fault)),
    };
    let mut history = gate.history();
    if let (Intent::Edit(seen), Some(users)) = (manner.intent, users)
        && users.version.size_bytes == seen.size_bytes
        && users.version.modified_ns == seen.modified_ns
    {
        history.builds_on(place.real().clone(), users.version);
    }
    history.wrote(place.real().clone(), new.version);
    Ok(Change {
        path: place.real().clone(),
        kind,
    })
}

/// What the user gets is on the disk before the call returns; of a commit, all together at its end.
fn durability(place: &Place, intent: Intent) -> Durability {
    let is_users = place.grant().kind == GrantKind::Context;
    if is_users && !matches!(intent, Intent::Commit { .. }) {
        Durability::Synced
    } else {
        Durability::Lazy
    }
}

/// The regular file at `place`, if one is there. Anything else that is there is a fault.
fn present(place: &Place) -> Result<Option<Meta>, Fault> {
    match place.dir().meta(&place.below()) {
        Ok(meta) => match meta.kind {
            Kind::File => Ok(Some(meta)),
            Kind::Directory => Err(Fault::IsDirectory),
            kind @ (Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device) => {
                Err(Fault::NotRegular(kind))
            }
        },
        Err(Fault::Missing) => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn stage<'d>(
    dir: &'d Dir,
    source: &Source<'_>,
    replaced: Option<&Meta>,
) -> Result<Staged<'d>, Fault> {
    let mut staged = match (source, replaced) {
        (Source::Bytes(_), None) => Staged::new(dir)?,
        (Source::Bytes(_) | Source::File(..) | Source::Layer(..), _) => Staged::private(dir)?,
    };
    match source {
        Source::Bytes(bytes) => staged.write(bytes)?,
        Source::File(content, meta) | Source::Layer(content, meta) => {
            staged.copy(content, meta.version.size_bytes)?;
        }
    }
    if let Some(old) = replaced {
        staged.take_over(old)?;
    }
    match (source, replaced) {
        (Source::File(_, meta), None) => staged.set_mode(meta.permission_bits())?,
        (Source::Bytes(_), _) | (Source::File(..), Some(_)) => {}
        (Source::Layer(_, meta), _) => {
            let bits = meta.permission_bits();
            if replaced.is_none_or(|old| old.permission_bits() != bits) {
                staged.set_mode(bits)?;
            }
            staged.set_modified(meta.version.modified_ns)?;
        }
    }
    Ok(staged)
}

fn refused(
    gate: &Gate,
    place: &Place,
    source: &Source<'_>,
    intent: Intent,
    why: Hindrance,
) -> Stop {
    let stop = Stop::denied(gate, place.real(), why);
    let is_whole = matches!(intent, Intent::Overwrite | Intent::Commit { .. });
    if !is_whole || why != Hindrance::Conflict {
        return stop;
    }
    match keep(gate, place, source) {
        Ok(Some(change)) => stop.with(vec![change]),
        Ok(None) => stop,
        Err(fault) => Stop::at(gate, "keep our version of", place, fault),
    }
}

/// Keeps what could not be written, under its whole path below the directory of the policy.
fn keep(gate: &Gate, place: &Place, source: &Source<'_>) -> Result<Option<Change>, Fault> {
    let Some(conflicts) = &gate.policy().conflicts else {
        return Ok(None);
    };
    let root = Dir::root()?;
    let below_root = |path: &RealPath| {
        let top = root.real_path()?;
        path.below(&top).ok_or(Fault::Missing)
    };
    let kept_in = root.make_dirs(&below_root(&conflicts.kept_in)?)?;
    let rel = below_root(place.real())?;
    let (dir, name): (Dir, &OsStr) = kept_in.make_parent_of(&rel)?;
    let staged = stage(&dir, source, None)?;
    let _placed = staged.place(name, Over::Anything, Durability::Synced)?;
    Ok(Some(Change {
        path: place.real().clone(),
        kind: ChangeKind::Conflict {
            kept: conflicts.kept_in.join(&rel),
        },
    }))
}
