//! Owns the carrying out of permitted actions. It is the only folder that opens a [`Permitted`].
//! Every place is opened beneath its grant's handle; every name found below it is asked about again.

use crate::path::RealPath;
use crate::world::gate::{Action, Permitted};

/// What came of an action: what the model reads, and what changed on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Whether it did what was asked.
    pub outcome: Outcome,
    /// What the model reads; bounded.
    pub content: String,
    /// Every file that the action created, changed or deleted, or left alone for the user's sake.
    pub changes: Vec<Change>,
}

/// Whether an action did what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did.
    Done,
    /// It could not; the content says why.
    Failed,
    /// A rule that is known only on the disk forbids it: an unread file, a conflict, a name inside.
    Denied,
}

/// What became of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
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
    /// The user changed it during the run, so it was left alone.
    Conflict {
        /// Where our version is kept.
        kept: RealPath,
    },
}

/// Carries out a permitted action. It blocks on the disk, so that async callers run it in a
/// blocking pool.
pub fn run(permitted: Permitted<Action>) -> Observation {
    let (_action, _gate) = permitted.into_parts();
    Observation {
        outcome: Outcome::Failed,
        content: String::new(),
        changes: Vec::new(),
    }
}
