//! Owns what came of a command in the user's tree once it has ended: what changed there, and what
//! was kept from it.

use crate::path::RealPath;
use crate::world::exec::answer::Stop;
use crate::world::exec::{Change, ChangeKind, Outcome};

/// What came of a command in the user's tree.
#[derive(Debug, Default)]
pub(super) struct Aftermath {
    /// What became of the user's files.
    pub(super) changes: Vec<Change>,
    /// Names that the command changed and that did not come to be so, and why: for the model.
    pub(super) left_out: Vec<LeftOut>,
}

/// A name that is not in the user's tree as a command made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Where it is or would be in the user's tree.
    pub(super) path: RealPath,
    /// Why it is not so.
    pub(super) reason: String,
}

impl Aftermath {
    /// Notes what became of a file.
    pub(super) fn changed(&mut self, path: &RealPath, kind: ChangeKind) {
        let path = path.clone();
        self.changes.push(Change { path, kind });
    }

    /// Notes for the model that a name is not as the command made it.
    pub(super) fn leave_out(&mut self, path: &RealPath, reason: impl Into<String>) {
        let (path, reason) = (path.clone(), reason.into());
        self.left_out.push(LeftOut { path, reason });
    }

    /// As [`Aftermath::leave_out`], and notes it among the changes too.
    pub(super) fn deny(&mut self, path: &RealPath, reason: impl Into<String>) {
        let reason = reason.into();
        self.leave_out(path, reason.clone());
        self.changed(path, ChangeKind::Denied { reason });
    }

    /// Notes that `path` stayed as it was because of `stop`, and what had happened before.
    pub(super) fn stopped(&mut self, path: &RealPath, stop: Stop) {
        let reason = stop.message;
        self.leave_out(path, reason.clone());
        if stop.changes.is_empty() {
            let kind = match stop.outcome {
                Outcome::Denied => ChangeKind::Denied { reason },
                Outcome::Done | Outcome::Failed => ChangeKind::Failed { reason },
            };
            self.changed(path, kind);
        }
        self.changes.extend(stop.changes);
    }
}
