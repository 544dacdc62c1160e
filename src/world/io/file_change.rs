//! Changes to files, as values: what was created, changed or deleted, and what was left alone.
//! Nothing here accesses the disk.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::event::HunkCount;
use crate::path::RealPath;

/// Change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: RealPath,
    /// The kind of change.
    pub kind: ChangeKind,
    /// What a delivery changes there in addition to the content, for people; `None` if that is
    /// nothing, or for changes that are not those of a delivery.
    pub details: Option<String>,
}

impl FileChange {
    /// Creates a change without details.
    pub fn new(path: RealPath, kind: ChangeKind) -> Self {
        Self {
            path,
            kind,
            details: None,
        }
    }
}

/// Kind of change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It did not exist before.
    Created,
    /// It existed and was replaced.
    Changed,
    /// It existed, and the user took some hunks of the change.
    PartlyChanged {
        /// How many.
        hunks: HunkCount,
    },
    /// It was removed.
    Deleted,
    /// A directory whose permission bits changed, or a new one that is world-writable.
    Mode {
        /// The bits before; `None` for a new directory.
        before: Option<u32>,
        /// The bits now.
        after: u32,
    },
    /// The user changed it during the run, so it was left alone.
    Conflict {
        /// Where massgen's version is kept.
        kept: RealPath,
    },
    /// The user declined it.
    Declined,
    /// It was to be copied, but a rule that is known only on the disk forbids it.
    Denied {
        /// The reason.
        reason: String,
    },
    /// It was to be copied, but that failed.
    Failed {
        /// The reason.
        reason: String,
    },
    /// It was delivered and then reverted.
    Reverted {
        /// The reason.
        reason: String,
    },
    /// A directory in which more may have changed than is listed.
    Unlisted {
        /// The reason.
        reason: String,
    },
}

/// Changes made by background commands, which went on while their agent worked. A clone is the same
/// list.
#[derive(Clone, Debug, Default)]
pub struct LateChanges(Arc<Mutex<Vec<FileChange>>>);

impl LateChanges {
    /// Adds the changes of a command.
    pub(in crate::world) fn add(&self, changes: Vec<FileChange>) {
        let mut late_changes = self.0.lock();
        late_changes.extend(changes);
    }

    /// Drains the changes that were added since the last call.
    pub(in crate::world) fn take(&self) -> Vec<FileChange> {
        let mut late_changes = self.0.lock();
        std::mem::take(&mut *late_changes)
    }
}
