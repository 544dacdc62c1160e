//! Owns the look at the files of the user's trees before and after a command that writes there
//! directly: what it did shows in what the kernel says about each file, and no file is opened. What
//! the user changed meanwhile cannot be told from it.

use std::collections::{BTreeMap, BTreeSet};

use crate::path::RealPath;
use crate::permissions::history::{History, Version};
use crate::world::change::{Change, ChangeKind};

/// How many files are looked at; that takes about half a second.
const FILES_MAX: usize = 200_000;

/// What stands in the user's trees.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// Everything that is no directory, and may be written to.
    files: BTreeMap<RealPath, Version>,
    /// Trees of which not all was looked at.
    partial: BTreeSet<RealPath>,
}

impl Inventory {
    /// Adds a file of the tree `root` as it stands. Once there are too many, none is added.
    pub(super) fn add(&mut self, root: &RealPath, path: &RealPath, version: Version) {
        if self.files.len() < FILES_MAX {
            self.files.insert(path.clone(), version);
        } else if !self.partial.contains(root) {
            self.add_partial(root);
        }
    }

    /// Notes that not all of the tree `root` was looked at.
    pub(super) fn add_partial(&mut self, root: &RealPath) {
        self.partial.insert(root.clone());
    }

    /// What became of the files until `now`. Below `unread` nobody knows. What `history` knows as
    /// the agent's own was told before; what came to be meanwhile is its own from here on.
    pub(super) fn changes(
        &self,
        now: &Self,
        unread: &BTreeSet<RealPath>,
        history: &mut History,
    ) -> Vec<Change> {
        let is_known = |path: &RealPath, inventory: &Self| {
            let mut dark = inventory.partial.iter().chain(unread);
            !dark.any(|dir| path.is_within(dir))
        };
        let mut changes = Vec::new();
        let mut tell = |path: &RealPath, kind| {
            let path = path.clone();
            changes.push(Change { path, kind });
        };
        for (path, version) in &now.files {
            let old = self.files.get(path);
            if old == Some(version) || history.made(path) == Some(*version) {
                continue;
            }
            match old {
                // The user may have changed it meanwhile. Only what was the agent's own before is
                // replaced again without a question.
                Some(old) => {
                    if history.made(path) == Some(*old) {
                        history.wrote(path.clone(), *version);
                    }
                    tell(path, ChangeKind::Changed);
                }
                None if is_known(path, self) => {
                    history.wrote(path.clone(), *version);
                    tell(path, ChangeKind::Created);
                }
                None => {}
            }
        }
        for path in self.files.keys() {
            if !now.files.contains_key(path) && is_known(path, now) {
                history.removed(path);
                tell(path, ChangeKind::Deleted);
            }
        }
        for root in self.partial.union(&now.partial) {
            let reason = format!("it holds more than {FILES_MAX} files");
            tell(root, ChangeKind::Unlisted { reason });
        }
        changes
    }
}
