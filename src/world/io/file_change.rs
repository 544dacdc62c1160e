//! Owns what becomes of files, as a value: what was created, changed and deleted, and what was left
//! alone. Nothing here touches the disk.

use std::sync::{Arc, Mutex, PoisonError};

use crate::path::RealPath;

/// What became of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: RealPath,
    /// What became of it.
    pub kind: ChangeKind,
}

/// What became of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It did not exist before.
    Created,
    /// It existed and was replaced.
    Changed,
    /// It was removed.
    Deleted,
    /// It is a directory that got other permission bits, or a new one that everybody may write to.
    Mode {
        /// The bits before; nothing of a new one.
        before: Option<u32>,
        /// The bits now.
        after: u32,
    },
    /// The user changed it during the run, so it was left alone.
    Conflict {
        /// Where our version is kept.
        kept: RealPath,
    },
    /// The user did not want it.
    Declined,
    /// It was to be copied, and a rule that is known only on the disk forbids it.
    Denied {
        /// Why.
        reason: String,
    },
    /// It was to be copied and could not be.
    Failed {
        /// Why.
        reason: String,
    },
    /// It was delivered and taken back.
    Reverted {
        /// Why.
        reason: String,
    },
    /// It is a directory in which more may have changed than is listed.
    Unlisted {
        /// Why.
        reason: String,
    },
}

/// Changes that nobody waited for: those of commands that went on while their agent worked. A clone
/// is the same list.
#[derive(Clone, Debug, Default)]
pub struct LateChanges(Arc<Mutex<Vec<FileChange>>>);

impl LateChanges {
    /// Adds what a command changed.
    pub(in crate::world) fn add(&self, changes: Vec<FileChange>) {
        let mut late = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        late.extend(changes);
    }

    /// Takes all that were added since the last time.
    pub(in crate::world) fn take(&self) -> Vec<FileChange> {
        let mut late = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *late)
    }
}
