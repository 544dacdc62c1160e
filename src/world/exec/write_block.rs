//! Rules that protect existing files: no unread file is destroyed, no file that the user changed
//! during the run or marked read-only is touched, and no write reaches a file through one of
//! several hard links.

use std::fmt;

use crate::path::RealPath;
use crate::permissions::grant::GrantKind;
use crate::permissions::history::{FileFingerprint, ReadBeforeDelete, is_generated};
use crate::world::access::gate::Gate;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::meta::FileMetadata;

/// The intended change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteIntent {
    /// All of its content is replaced.
    Overwrite,
    /// A part of this version, quoted by the caller, is replaced.
    Edit(FileFingerprint),
    /// It is removed.
    Delete,
    /// It is moved and keeps its content.
    Move,
    /// A command has replaced or removed it in an overlay layer that was created at this time, in
    /// nanoseconds since 1970.
    Commit {
        /// When the layer was mounted over the file.
        began_ns: i128,
    },
}

/// Why a file must stay as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteBlock {
    /// The agent has neither read nor created it.
    Unread,
    /// The user changed it since the run began.
    Conflict,
    /// It has several hard links.
    HardLinked,
    /// Its owner may not write to it. A rename would ignore that, but the user marked it so.
    MarkedReadOnly,
}

impl fmt::Display for WriteBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteBlock::Unread => "it must be read before it is deleted or overwritten",
            WriteBlock::Conflict => {
                "the user changed it since the run began; read it and change it with edit_file"
            }
            WriteBlock::MarkedReadOnly => "its permission bits say that it is read-only",
            WriteBlock::HardLinked => {
                "it is one of several names (hard links) of the same file; write to a new name"
            }
        })
    }
}

/// Returns why `path`, whose metadata is `meta`, must stay as it is; `None` if it may be changed.
pub(super) fn write_block(
    gate: &Gate,
    path: &RealPath,
    meta: &FileMetadata,
    intent: WriteIntent,
) -> Option<WriteBlock> {
    if meta.kind != FileKind::File {
        // Links, pipes and sockets have no content that an agent must have read. But the user may
        // have created one while the command ran.
        let may_conflict =
            matches!(intent, WriteIntent::Commit { .. }) && meta.kind != FileKind::Directory;
        let has_conflict = may_conflict && is_conflict(gate, path, meta, intent);
        return has_conflict.then_some(WriteBlock::Conflict);
    }
    let replaces = matches!(
        intent,
        WriteIntent::Overwrite | WriteIntent::Edit(_) | WriteIntent::Commit { .. }
    );
    if replaces && meta.link_count > 1 {
        return Some(WriteBlock::HardLinked);
    }
    if !meta.is_writable_for_owner() && is_user_file(gate, path) {
        return Some(WriteBlock::MarkedReadOnly);
    }
    if is_conflict(gate, path, meta, intent) {
        return Some(WriteBlock::Conflict);
    }
    let destroys = matches!(intent, WriteIntent::Overwrite | WriteIntent::Delete);
    (destroys && is_unread(gate, path, meta)).then_some(WriteBlock::Unread)
}

/// Returns whether the grant that applies to `path` is a context path.
fn is_user_file(gate: &Gate, path: &RealPath) -> bool {
    let grant = gate.most_specific_grant(path);
    grant.is_some_and(|grant| grant.kind == GrantKind::Context)
}

/// Returns whether the user has changed `path` since the run, or the command, began, and the agent
/// does not know that version.
fn is_conflict(gate: &Gate, path: &RealPath, meta: &FileMetadata, intent: WriteIntent) -> bool {
    let conflict_policy = gate.policy().conflicts.as_ref();
    let since_ns = match (conflict_policy, intent) {
        (Some(conflict_policy), _) => conflict_policy.run_started_ns,
        (None, WriteIntent::Commit { began_ns }) => began_ns,
        (None, _) => return false,
    };
    if !is_user_file(gate, path) {
        return false;
    }
    let Some(user_version) = user_version(gate, path, meta) else {
        return false;
    };
    let history = gate.history();
    let current_version = Some(meta.version);
    let own_version = history.own_version(path);
    let is_own = own_version == current_version || own_version == Some(user_version);
    let is_known = match intent {
        WriteIntent::Edit(_) => history.known_version(path) == current_version,
        WriteIntent::Commit { .. } => history.base_version(path) == Some(user_version),
        WriteIntent::Overwrite | WriteIntent::Delete | WriteIntent::Move => false,
    };
    user_version.changed_ns >= since_ns && !is_own && !is_known
}

/// Returns the user's version of `path`: with an overlay, that of the underlying tree.
fn user_version(gate: &Gate, path: &RealPath, meta: &FileMetadata) -> Option<FileFingerprint> {
    match gate.overlay().filter(|overlay| overlay.contains(path)) {
        Some(overlay) => overlay.user_metadata(path).map(|meta| meta.version),
        None => Some(meta.version),
    }
}

fn is_unread(gate: &Gate, path: &RealPath, meta: &FileMetadata) -> bool {
    let rel_below = |root: &RealPath| path.below(root).unwrap_or_default();
    let is_generated = gate
        .most_specific_grant(path)
        .is_some_and(|grant| is_generated(&rel_below(&grant.root)));
    gate.policy().read_before_delete == ReadBeforeDelete::Enforced
        && meta.version.size_bytes > 0
        && !is_generated
        && !gate.history().knows_content(path)
}
