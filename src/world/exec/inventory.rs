//! Owns the look at the files of the user's trees before and after a command that nothing holds and
//! that writes there directly: what it did shows in what the kernel says about each file, and no file
//! is opened. What the user changed meanwhile cannot be told from it.

use std::collections::{BTreeMap, BTreeSet};

use crate::path::{RealPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::history::{AccessHistory, FileFingerprint};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::command_sync::user_trees;
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::{FileKind, FileMetadata};
use crate::world::sys::untrusted_walk::{TreeVisitor, WalkAction, WalkEntry, walk_untrusted};

/// How many files are looked at; that takes about half a second.
const FILES_MAX: usize = 200_000;

/// How many names of a tree are looked at before a command; looking takes about a second then.
pub(super) const NAMES_BEFORE_MAX: usize = 1_000_000;
/// How many names of a tree are looked at after a command, which may have made many.
pub(super) const NAMES_AFTER_MAX: usize = 4_000_000;

/// What stands in the user's trees.
#[derive(Debug, Default)]
pub(super) struct TreeInventory {
    /// Everything that is no directory, and may be written to.
    files: BTreeMap<RealPath, FileFingerprint>,
    /// Trees of which not all was looked at.
    partial: BTreeSet<RealPath>,
    /// Directories that could not be looked into.
    unread: BTreeSet<RealPath>,
}

impl TreeInventory {
    /// Looks at the files of the user's trees that may be written to, at most at so many names of each
    /// tree. What other grants speak for is left to them.
    pub(super) fn scan(gate: &Gate, names_max: usize) -> Self {
        let mut inventory = Self::default();
        for root in &user_trees(gate) {
            let mut look = InventoryVisitor {
                gate,
                root,
                names_left: names_max,
                inventory: &mut inventory,
            };
            if walk_untrusted(root.dir(), &mut look).is_err() {
                inventory.add_partial(root.real());
            }
        }
        inventory
    }

    /// Adds a file of the tree `root` as it stands. Once there are too many, none is added.
    pub(super) fn add(&mut self, root: &RealPath, path: &RealPath, version: FileFingerprint) {
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

    /// What became of the files until `now`. Where nobody could look, nobody knows. What `history`
    /// knows as the agent's own was told before; what came to be meanwhile is its own from here on.
    pub(super) fn changes(&self, now: &Self, history: &mut AccessHistory) -> Vec<FileChange> {
        let unread: BTreeSet<&RealPath> = self.unread.union(&now.unread).collect();
        let is_known = |path: &RealPath, inventory: &Self| {
            let mut dark = inventory.partial.iter().chain(unread.iter().copied());
            !dark.any(|dir| path.is_within(dir))
        };
        let mut changes = Vec::new();
        let mut tell = |path: &RealPath, kind| {
            let path = path.clone();
            changes.push(FileChange { path, kind });
        };
        for (path, version) in &now.files {
            let old = self.files.get(path);
            if old == Some(version) || history.made_version(path) == Some(*version) {
                continue;
            }
            match old {
                // The user may have changed it meanwhile. Only what was the agent's own before is
                // replaced again without a question.
                Some(old) => {
                    if history.made_version(path) == Some(*old) {
                        history.record_write(path.clone(), *version);
                    }
                    tell(path, ChangeKind::Changed);
                }
                None if is_known(path, self) => {
                    history.record_write(path.clone(), *version);
                    tell(path, ChangeKind::Created);
                }
                None => {}
            }
        }
        for path in self.files.keys() {
            if !now.files.contains_key(path) && is_known(path, now) {
                history.record_removal(path);
                tell(path, ChangeKind::Deleted);
            }
        }
        for root in self.partial.union(&now.partial) {
            let reason = format!("it holds more than {FILES_MAX} files");
            tell(root, ChangeKind::Unlisted { reason });
        }
        for dir in self.unread.symmetric_difference(&now.unread) {
            let reason = "it could not be read all the time".to_owned();
            tell(dir, ChangeKind::Unlisted { reason });
        }
        changes
    }
}

/// The look at one tree.
struct InventoryVisitor<'l> {
    gate: &'l Gate,
    root: &'l ResolvedPath,
    names_left: usize,
    inventory: &'l mut TreeInventory,
}

impl TreeVisitor for InventoryVisitor<'_> {
    fn visit(&mut self, sight: WalkEntry<'_>) -> WalkAction {
        let Some(names_left) = self.names_left.checked_sub(1) else {
            self.inventory.add_partial(self.root.real());
            return WalkAction::Stop;
        };
        self.names_left = names_left;
        let place = self.root.join(sight.rel);
        let path = place.real();
        let is_other_grants = self.gate.most_specific_grant(path) != Some(self.root.grant());
        if is_other_grants || !self.gate.allows(path, Permission::Write) {
            return WalkAction::Skip;
        }
        if sight.kind == FileKind::Directory {
            return WalkAction::Descend;
        }
        // What went while it was looked at is not there.
        if let Ok(meta) = FileMetadata::from_name(sight.dir, sight.name) {
            self.inventory.add(self.root.real(), path, meta.version);
        }
        WalkAction::Skip
    }

    fn visit_unreadable(&mut self, rel: &RelPath, _fault: FileSystemError) -> WalkAction {
        let path = self.root.join(rel).real().clone();
        self.inventory.unread.insert(path);
        WalkAction::Skip
    }
}
