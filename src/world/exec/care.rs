//! Owns the care for what exists: nothing unread is destroyed, nothing that the user changed during
//! the run is touched, and no write reaches a file through one of several names.

use std::fmt;

use crate::path::RealPath;
use crate::permissions::grant::GrantKind;
use crate::permissions::history::{ReadBeforeDelete, Version, is_generated};
use crate::world::gate::Gate;
use crate::world::sys::meta::{Kind, Meta};

/// What is about to happen to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// All of its content is replaced.
    Overwrite,
    /// A part of this version, which the caller quoted, is replaced.
    Edit(Version),
    /// It is removed.
    Delete,
    /// It gets another place and keeps its content.
    Move,
    /// A command has replaced or removed it in a layer of its own, which began at this time, in
    /// nanoseconds since 1970.
    Commit {
        /// When the layer was laid over the file.
        began_ns: i128,
    },
}

/// Why a file has to stay as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hindrance {
    /// The agent has neither read nor made it.
    Unread,
    /// The user changed it since the run began.
    Conflict,
    /// It is one of several names of the same file.
    ManyNames,
    /// Its owner may not write to it. A rename would not ask, but the user said so.
    MarkedReadOnly,
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hindrance::Unread => "it must be read before it is deleted or overwritten",
            Hindrance::Conflict => {
                "the user changed it since the run began; read it and change it with edit_file"
            }
            Hindrance::MarkedReadOnly => "its permission bits say that it is read-only",
            Hindrance::ManyNames => {
                "it is one of several names (hard links) of the same file; write to a new name"
            }
        })
    }
}

/// Why `path`, which is what `meta` says, has to stay as it is.
pub(super) fn hindrance(
    gate: &Gate,
    path: &RealPath,
    meta: &Meta,
    intent: Intent,
) -> Option<Hindrance> {
    if meta.kind != Kind::File {
        // Links, pipes and sockets hold nothing that an agent must have read. The user may have made
        // one while the command ran.
        let may_clash = matches!(intent, Intent::Commit { .. }) && meta.kind != Kind::Directory;
        let clashes = may_clash && is_conflict(gate, path, meta, intent);
        return clashes.then_some(Hindrance::Conflict);
    }
    let replaces = matches!(
        intent,
        Intent::Overwrite | Intent::Edit(_) | Intent::Commit { .. }
    );
    if replaces && meta.names > 1 {
        return Some(Hindrance::ManyNames);
    }
    if !meta.is_writable_for_owner() && is_users(gate, path) {
        return Some(Hindrance::MarkedReadOnly);
    }
    if is_conflict(gate, path, meta, intent) {
        return Some(Hindrance::Conflict);
    }
    let destroys = matches!(intent, Intent::Overwrite | Intent::Delete);
    (destroys && is_unread(gate, path, meta)).then_some(Hindrance::Unread)
}

/// Whether a context path's grant speaks for `path`.
fn is_users(gate: &Gate, path: &RealPath) -> bool {
    let grant = gate.speaking_for(path);
    grant.is_some_and(|grant| grant.kind == GrantKind::Context)
}

fn is_conflict(gate: &Gate, path: &RealPath, meta: &Meta, intent: Intent) -> bool {
    let run = gate.policy().conflicts.as_ref();
    let since_ns = match (run, intent) {
        (Some(run), _) => run.run_started_ns,
        (None, Intent::Commit { began_ns }) => began_ns,
        (None, _) => return false,
    };
    if !is_users(gate, path) {
        return false;
    }
    let Some(users) = users_version(gate, path, meta) else {
        return false;
    };
    let history = gate.history();
    let now = Some(meta.version);
    let made = history.made(path);
    let is_ours = made == now || made == Some(users);
    let is_known = match intent {
        Intent::Edit(_) => history.known(path) == now,
        Intent::Commit { .. } => history.base(path) == Some(users),
        Intent::Overwrite | Intent::Delete | Intent::Move => false,
    };
    users.changed_ns >= since_ns && !is_ours && !is_known
}

/// The version of `path` that is the user's: on a stage, what stands in the tree that is staged.
fn users_version(gate: &Gate, path: &RealPath, meta: &Meta) -> Option<Version> {
    match gate.stage().filter(|stage| stage.holds(path)) {
        Some(stage) => stage.users(path).map(|users| users.version),
        None => Some(meta.version),
    }
}

fn is_unread(gate: &Gate, path: &RealPath, meta: &Meta) -> bool {
    let below = |root: &RealPath| path.below(root).unwrap_or_default();
    let generated = gate
        .speaking_for(path)
        .is_some_and(|grant| is_generated(&below(&grant.root)));
    gate.policy().read_before_delete == ReadBeforeDelete::Enforced
        && meta.version.size_bytes > 0
        && !generated
        && !gate.history().may_destroy(path)
}
