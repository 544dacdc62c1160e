//! Inventory of the user's trees before and after an unsandboxed command, which writes to them
//! directly: its changes are detected from the metadata of each file, and no file is opened.
//! Changes by the user in the meantime cannot be distinguished from the command's.

use std::collections::{BTreeMap, BTreeSet};

use crate::path::{RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, Permission};
use crate::permissions::history::{AccessHistory, FileFingerprint};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::untrusted_walk::{TreeVisitor, WalkAction, WalkEntry, walk_untrusted};

/// The most files that are recorded; that takes about half a second.
const FILES_MAX: usize = 200_000;

/// The most names of a tree that are visited before a command; that takes about a second.
pub(super) const NAMES_BEFORE_MAX: usize = 1_000_000;
/// The most names of a tree that are visited after a command, which may have created many.
pub(super) const NAMES_AFTER_MAX: usize = 4_000_000;

/// The state of the user's trees.
#[derive(Debug, Default)]
pub(super) struct TreeInventory {
    /// Every writable name that is not a directory.
    files: BTreeMap<RealPath, FileFingerprint>,
    /// Trees that were not visited in full, each with the reason.
    partial_trees: BTreeMap<RealPath, String>,
    /// Directories that could not be read.
    unreadable_dirs: BTreeSet<RealPath>,
}

impl TreeInventory {
    /// Records the writable files of the user's trees, visiting at most `names_max` names in each
    /// tree. Files that another grant covers are left to that grant.
    pub(super) fn scan(gate: &Gate, names_max: usize) -> Self {
        let mut inventory = Self::default();
        for root in &user_trees(gate) {
            let mut visitor = InventoryVisitor {
                gate,
                root,
                names_max,
                names_left: names_max,
                inventory: &mut inventory,
            };
            if let Err(error) = walk_untrusted(root.dir(), &mut visitor) {
                inventory.add_partial(root.real(), format!("it could not be read: {error}"));
            }
        }
        inventory
    }

    /// Adds the current version of a file of the tree `root`. Past the limit, none are added.
    pub(super) fn add(&mut self, root: &RealPath, path: &RealPath, version: FileFingerprint) {
        if self.files.len() < FILES_MAX {
            self.files.insert(path.clone(), version);
        } else if !self.partial_trees.contains_key(root) {
            let reason = format!("the open trees together hold more than {FILES_MAX} files");
            self.add_partial(root, reason);
        }
    }

    /// Records that the tree `root` was not visited in full, for this reason.
    pub(super) fn add_partial(&mut self, root: &RealPath, reason: String) {
        self.partial_trees.insert(root.clone(), reason);
    }

    /// Returns the changes between this inventory and a `later` one; for what could not be read,
    /// nothing is claimed. Versions that `history` knows as the agent's own were reported before;
    /// files created since are recorded as the agent's own.
    pub(super) fn changes(&self, later: &Self, history: &mut AccessHistory) -> Vec<FileChange> {
        let unreadable_dirs: BTreeSet<&RealPath> =
            self.unreadable_dirs.union(&later.unreadable_dirs).collect();
        let is_known = |path: &RealPath, inventory: &Self| {
            let mut unseen_dirs = inventory
                .partial_trees
                .keys()
                .chain(unreadable_dirs.iter().copied());
            !unseen_dirs.any(|dir| path.is_within(dir))
        };
        let mut changes = Vec::new();
        let mut add_change = |path: &RealPath, kind| {
            let path = path.clone();
            changes.push(FileChange::new(path, kind));
        };
        for (path, version) in &later.files {
            let old = self.files.get(path);
            if old == Some(version) || history.own_version(path) == Some(*version) {
                continue;
            }
            match old {
                // The user may have changed it meanwhile. Only a file that was the agent's own
                // before stays so and may be overwritten again without a conflict.
                Some(old) => {
                    if history.own_version(path) == Some(*old) {
                        history.record_write(path.clone(), *version);
                    }
                    add_change(path, ChangeKind::Changed);
                }
                None if is_known(path, self) => {
                    history.record_write(path.clone(), *version);
                    add_change(path, ChangeKind::Created);
                }
                None => {}
            }
        }
        for path in self.files.keys() {
            if !later.files.contains_key(path) && is_known(path, later) {
                history.record_removal(path);
                add_change(path, ChangeKind::Deleted);
            }
        }
        let partial_trees = self.partial_trees.iter().chain(&later.partial_trees);
        for (root, reason) in partial_trees.collect::<BTreeMap<_, _>>() {
            let reason = reason.clone();
            add_change(root, ChangeKind::Unlisted { reason });
        }
        for dir in self
            .unreadable_dirs
            .symmetric_difference(&later.unreadable_dirs)
        {
            let reason = "it could not be read all the time".to_owned();
            add_change(dir, ChangeKind::Unlisted { reason });
        }
        changes
    }
}

/// Visits the names of one tree.
struct InventoryVisitor<'l> {
    gate: &'l Gate,
    root: &'l ResolvedPath,
    names_max: usize,
    names_left: usize,
    inventory: &'l mut TreeInventory,
}

impl TreeVisitor for InventoryVisitor<'_> {
    fn visit(&mut self, entry: WalkEntry<'_>) -> WalkAction {
        let Some(names_left) = self.names_left.checked_sub(1) else {
            let reason = format!("it holds more than {} names", self.names_max);
            self.inventory.add_partial(self.root.real(), reason);
            return WalkAction::Stop;
        };
        self.names_left = names_left;
        let name_path = self.root.join(entry.rel);
        let path = name_path.real();
        let is_of_other_grant = self.gate.most_specific_grant(path) != Some(self.root.grant());
        if is_of_other_grant || !self.gate.allows(path, Permission::Write) {
            return WalkAction::Skip;
        }
        if entry.kind == FileKind::Directory {
            return WalkAction::Descend;
        }
        // A file that vanished during the visit does not exist.
        if let Ok(meta) = FileMetadata::from_name(entry.dir, entry.name) {
            self.inventory.add(self.root.real(), path, meta.version);
        }
        WalkAction::Skip
    }

    fn visit_unreadable(&mut self, rel: &RelPath, _error: FileSystemError) -> WalkAction {
        let path = self.root.join(rel).real().clone();
        self.inventory.unreadable_dirs.insert(path);
        WalkAction::Skip
    }
}

/// Returns the writable roots of the user's trees.
pub(super) fn user_trees(gate: &Gate) -> Vec<ResolvedPath> {
    let is_user_grant =
        |grant: &&Grant| matches!(grant.kind, GrantKind::Context | GrantKind::BuiltIn);
    let user_grants = gate.manager().grants().iter().filter(is_user_grant);
    user_grants
        .filter_map(|grant| gate.writable_tree(&grant.root.to_abs()))
        .collect()
}
