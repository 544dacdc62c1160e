//! Owns the rounds through the user's trees: every name that a command may have written to is looked
//! at, and the rules say of each what it is. It changes nothing; the inspector may.

use std::ffi::OsStr;

use crate::path::RelPath;
use crate::permissions::grant::{Grant, GrantKind, Permission};
use crate::world::gate::{Gate, Place};
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::{Kind, Meta};
use crate::world::sys::patrol::{Sight, Turn, Watch, patrol};

/// The longest path that is looked at, in bytes; the kernel takes none that is longer than 4095
/// (`PATH_MAX`), and a copy lies below a directory with a number.
pub(super) const PATH_BYTES_MAX: usize = 4000;

/// One name of a user's tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'r> {
    /// The tree.
    pub(super) root: &'r Place,
    /// Where it is.
    pub(super) place: &'r Place,
    /// The directory that holds it.
    pub(super) dir: &'r Dir,
    /// What it is called there.
    pub(super) called: &'r OsStr,
    /// What the kernel says about it.
    pub(super) meta: &'r Meta,
}

/// What the rules say of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It may not be written to.
    Closed,
    /// It is a directory for which paths are too short, or nearly.
    TooLong,
    /// It is a directory that may be written to.
    Directory,
    /// It is something else that may be written to.
    File,
}

/// Who looks at the names.
pub(super) trait Inspector {
    /// Looks at a name. The round can go into a directory only, and not into a closed one.
    fn see(&mut self, name: Name<'_>, class: Class) -> Turn;

    /// Learns that the directory at `place` of the tree `root` cannot be looked into. `dir` is a
    /// handle on it, if it could be had; it is tried once more after [`Turn::Inside`].
    fn barred(&mut self, place: &Place, dir: Option<&Dir>, fault: Fault) -> Turn;
}

/// The roots of the user's trees that may be written to.
pub(super) fn users_trees(gate: &Gate) -> Vec<Place> {
    let is_users = |grant: &&Grant| matches!(grant.kind, GrantKind::Context | GrantKind::BuiltIn);
    let users = gate.manager().grants().iter().filter(is_users);
    users
        .filter_map(|grant| gate.writable_tree(&grant.root.to_abs()))
        .collect()
}

/// Shows all names of the user's trees. What is behind a closed name is not looked at, and neither
/// is what other grants speak for.
pub(super) fn go_round(gate: &Gate, inspector: &mut dyn Inspector) {
    for root in &users_trees(gate) {
        let mut round = Round {
            gate,
            root,
            inspector: &mut *inspector,
        };
        if let Err(fault) = patrol(root.dir(), &mut round) {
            let _turn = round.inspector.barred(root, None, fault);
        }
    }
}

struct Round<'r> {
    gate: &'r Gate,
    root: &'r Place,
    inspector: &'r mut dyn Inspector,
}

impl Watch for Round<'_> {
    fn see(&mut self, sight: Sight<'_>) -> Turn {
        let Sight {
            dir,
            name,
            rel,
            kind,
        } = sight;
        let place = self.root.at(rel);
        let path = place.real();
        if self.gate.speaking_for(path) != Some(self.root.grant()) {
            return Turn::Past;
        }
        let class = if !self.gate.allows(path, Permission::Write) {
            Class::Closed
        } else if kind != Kind::Directory {
            Class::File
        } else if path.as_path().as_os_str().len() > PATH_BYTES_MAX {
            Class::TooLong
        } else {
            Class::Directory
        };
        let meta = match Meta::named(dir, name) {
            Ok(meta) => meta,
            Err(Fault::Missing | Fault::NotDirectory) => return Turn::Past,
            Err(fault) => return self.inspector.barred(&place, None, fault),
        };
        let name = Name {
            root: self.root,
            place: &place,
            dir,
            called: name,
            meta: &meta,
        };
        self.inspector.see(name, class)
    }

    fn barred(&mut self, rel: &RelPath, dir: Option<&Dir>, fault: Fault) -> Turn {
        self.inspector.barred(&self.root.at(rel), dir, fault)
    }
}
