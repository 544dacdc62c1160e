//! Plans a delivery: compares each name of a layer with what exists in the user's tree. The
//! permission rules for agents apply to every name, and nothing in the layer is followed or
//! trusted.

use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::Mode;

use crate::delivery::path_state::{PathState, RegularFileState};
use crate::delivery::plan::{
    ContentSource, DeliveryConflict, DeliveryEntry, DeliveryPlan, DeliveryRefusal, NeededConsent,
    RefusalSource,
};
use crate::error::Result;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission};
use crate::permissions::history::is_generated;
use crate::permissions::{DenyReason, PathPermissionManager, PermissionDecision};
use crate::world::access::merge_bases::MergeBases;
use crate::world::delivery::delivery_dir::{delivery_error, open_root};
use crate::world::delivery::outgoing_links::PlannedTree;
use crate::world::delivery::read_state::{mode_bits, read_state};
use crate::world::delivery::store::{DeliverySource, OpenDelivery, SourceDirectory, SourceLayout};
use crate::world::exec::compare::has_same_bytes;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::slot::is_same_mount;
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry, TreeListing};
use crate::world::sys::upper_layer::{
    UpperEntry, is_copied_up, is_new, make_readable, read_upper_entry,
};

/// The permission bits for reading, writing and executing.
const RWX_BITS: u32 = 0o777;

/// The most names that a refusal gives as examples.
const EXAMPLES_MAX: usize = 3;

/// How changes of the user during a run are detected.
#[derive(Clone, Debug)]
pub struct ConflictBaseline {
    /// When the run began, by the clock of file timestamps, in nanoseconds since 1970.
    pub began_ns: i128,
    /// The versions of files that the agent has read since.
    pub merge_bases: Option<MergeBases>,
    /// Files that are unchanged since an earlier part of the same delivery wrote them.
    pub partial: PartialFiles,
    /// Files that other deliveries of the same run changed.
    pub earlier: EarlierFiles,
}

/// The files that deliveries of a run changed, as far as nothing else has changed them since.
#[derive(Clone, Debug, Default)]
pub struct EarlierFiles {
    /// Those that are as they were delivered.
    pub applied: BTreeSet<AbsPath>,
    /// Those that are as they were before a delivery, because it was undone.
    pub restored: BTreeSet<AbsPath>,
}

/// The files of which some hunks were delivered and that are unchanged since, each with the number
/// of its root.
#[derive(Clone, Debug, Default)]
pub struct PartialFiles(pub(super) BTreeSet<RootedFile>);

impl PartialFiles {
    /// Returns the files below the root with this number.
    pub fn below(&self, root: usize) -> impl Iterator<Item = &RelPath> {
        let files = self.0.iter().filter(move |(number, _)| *number == root);
        files.map(|(_, file)| file)
    }
}

/// A file below one of the roots of a delivery.
pub(super) type RootedFile = (usize, RelPath);

/// Returns what `delivery` would change now.
pub fn plan(
    delivery: &OpenDelivery,
    source: &DeliverySource,
    baseline: Option<&ConflictBaseline>,
) -> Result<DeliveryPlan> {
    let mut plan = DeliveryPlan {
        roots: source.roots(),
        ..DeliveryPlan::default()
    };
    let manager = source.manager();
    for (root_number, root) in source.roots().iter().enumerate() {
        let source_dir = delivery.source_dir(source, root_number)?;
        plan.source_dirs.push(
            source_dir
                .as_ref()
                .map(|source_dir| source_dir.path.clone()),
        );
        if let Some(source_dir) = source_dir {
            plan_root(
                &mut plan,
                (root_number, root),
                (source_dir, None),
                &manager,
                baseline,
            )?;
        }
    }
    sort_entries(&mut plan);
    Ok(plan)
}

/// Returns what a delivery of the changes on `overlay` by an agent with the permissions of `manager`
/// would change now, without regard to what the user has changed.
pub fn plan_overlay(
    overlay: &WriteOverlay,
    manager: &PathPermissionManager,
) -> Result<DeliveryPlan> {
    let mut plan = DeliveryPlan::default();
    for (root_number, tree) in overlay.trees().enumerate() {
        let root = tree.root.to_abs();
        let layer = SourceDirectory {
            path: tree.upper.clone(),
            layout: SourceLayout::OverlayLayer,
            left_out: Vec::new(),
        };
        plan.source_dirs.push(Some(tree.upper.clone()));
        let layer = (layer, tree.between);
        plan_root(&mut plan, (root_number, &root), layer, manager, None)?;
        plan.roots.push(root);
    }
    sort_entries(&mut plan);
    Ok(plan)
}

/// Adds the changes of one layer to the tree `root`, the one with this number; `between` is a layer
/// that lies below it and is not delivered.
fn plan_root(
    plan: &mut DeliveryPlan,
    (root_number, root): (usize, &AbsPath),
    (layer, between): (SourceDirectory, Option<&AbsPath>),
    manager: &PathPermissionManager,
    baseline: Option<&ConflictBaseline>,
) -> Result<()> {
    let SourceDirectory {
        path,
        layout,
        left_out,
    } = layer;
    let layer = open_root(&path)?;
    let (tree, between) = (open_root(root)?, between.map(open_root).transpose()?);
    let tree_path = tree
        .real_path()
        .map_err(|error| delivery_error("open", root, error))?;
    let planner = LayerPlanner {
        manager,
        baseline,
        layout,
        left_out,
        root_number,
        tree_path,
        tree,
        layer,
        between,
        opaque_dirs: BTreeSet::new(),
        closed_paths: BTreeSet::new(),
        plan,
    };
    planner.plan_layer()
}

/// Sorts the entries by root and path. Of two for one name, the one that was planned first counts.
fn sort_entries(plan: &mut DeliveryPlan) {
    plan.entries
        .sort_by(|a, b| (a.root, &a.rel).cmp(&(b.root, &b.rel)));
    plan.entries
        .dedup_by(|b, a| (a.root, &a.rel) == (b.root, &b.rel));
}

/// Plans the changes that one layer makes to its tree.
struct LayerPlanner<'a> {
    manager: &'a PathPermissionManager,
    baseline: Option<&'a ConflictBaseline>,
    layout: SourceLayout,
    /// The subdirectories of the layer that are not delivered.
    left_out: Vec<RelPath>,
    /// The number of the root.
    root_number: usize,
    /// The path of the user's tree.
    tree_path: RealPath,
    /// The user's tree.
    tree: DirectoryHandle,
    layer: DirectoryHandle,
    /// A layer between the two that is not delivered, if there is one.
    between: Option<DirectoryHandle>,
    /// The opaque directories of the layer, which hide what the user has below them.
    opaque_dirs: BTreeSet<RelPath>,
    /// Paths below which nothing is changed, because they were refused.
    closed_paths: BTreeSet<RelPath>,
    plan: &'a mut DeliveryPlan,
}

/// Why a name is not part of a plan.
enum EntryRejection {
    Refused(String),
    FileSystem(FileSystemError),
}

impl From<FileSystemError> for EntryRejection {
    fn from(error: FileSystemError) -> Self {
        Self::FileSystem(error)
    }
}

type PlanningResult = std::result::Result<(), EntryRejection>;

impl LayerPlanner<'_> {
    fn plan_layer(mut self) -> Result<()> {
        let path = self.tree_path.to_abs();
        let plan_error = |error| delivery_error("plan the delivery to", &path, error);
        let listing = self.list_layer().map_err(plan_error)?;
        if let Some(limit) = listing.reached_limit {
            return Err(plan_error(FileSystemError::Limit(limit)));
        }
        for (rel, error) in &listing.unreadable {
            self.record_refusal(
                rel,
                RefusalSource::Disk,
                format!("its layer cannot be read: {error}"),
            );
        }
        for entry in &listing.entries {
            let parent = entry.rel.parent().unwrap_or_default();
            if self.closed_paths.contains(&parent) {
                self.closed_paths.insert(entry.rel.clone());
                continue;
            }
            match self.plan_name(&entry.rel) {
                Ok(()) => {}
                Err(rejection) => self.refuse_all(&entry.rel, rejection),
            }
        }
        self.find_outgoing_links();
        Ok(())
    }

    /// Finds the symlinks that lead out of the tree.
    fn find_outgoing_links(&mut self) {
        let is_of_this_root = |entry: &&DeliveryEntry| entry.root == self.root_number;
        let entries = self.plan.entries.iter().filter(is_of_this_root);
        let is_link = |entry: &DeliveryEntry| matches!(entry.ours, PathState::Link { .. });
        if !entries.clone().any(is_link) {
            return;
        }
        let mut changes = BTreeMap::new();
        for entry in entries {
            // Of two entries for one name, the one that was planned first counts.
            let state = || entry.ours.clone();
            changes.entry(entry.rel.clone()).or_insert_with(state);
        }
        let planned_tree = PlannedTree {
            tree: &self.tree,
            path: &self.tree_path,
            changes,
            is_closed: &|rel| self.forbidden_reason(rel).is_some(),
        };
        let is_outgoing = |entry: &DeliveryEntry| match &entry.ours {
            PathState::Link { target } => {
                entry.root == self.root_number && planned_tree.leads_out(&entry.rel, target)
            }
            PathState::Nothing | PathState::File(_) | PathState::Directory { .. } => false,
        };
        let outgoing: Vec<bool> = self.plan.entries.iter().map(is_outgoing).collect();
        for (entry, is_outgoing) in self.plan.entries.iter_mut().zip(outgoing) {
            if is_outgoing {
                entry.consent = Some(NeededConsent::OutgoingLink);
            }
        }
    }

    /// Lists all names of the layer that may be changed, parents first. The others are recorded,
    /// once.
    fn list_layer(&mut self) -> std::result::Result<TreeListing, FileSystemError> {
        let layer = self.layer.try_clone()?;
        Ok(TreeListing::list(&layer, &mut |entry: &ListedEntry| {
            let is_left_out = self.left_out.contains(&entry.rel);
            if is_left_out && entry.kind == FileKind::Directory {
                return EntrySelection::Excluded;
            }
            if let Some(reason) = self.forbidden_reason(&entry.rel) {
                self.record_refusal(&entry.rel, RefusalSource::Rule, reason);
                return EntrySelection::Excluded;
            }
            if entry.kind == FileKind::Directory {
                // If this fails, the listing reports the directory as unreadable.
                let _opened = make_readable(&layer, &entry.rel);
            }
            EntrySelection::Deep
        }))
    }

    /// Returns why nothing may be changed at `rel`; `None` if it may.
    fn forbidden_reason(&self, rel: &RelPath) -> Option<String> {
        // The tree of a granted file is the directory that contains it.
        let is_of_this_tree = |grant: &Grant| {
            let is_tree_or_file = grant.root == self.tree_path || grant.scope == GrantScope::File;
            grant.kind == GrantKind::Context && is_tree_or_file
        };
        match self
            .manager
            .decide(&self.tree_path.join(rel), Permission::Write)
        {
            PermissionDecision::Allow { grant } if is_of_this_tree(grant) => None,
            PermissionDecision::Allow { .. } => {
                Some("it lies in another directory that was opened".to_owned())
            }
            PermissionDecision::Deny(DenyReason::OutsideGrants) => {
                Some("it is not among the files that were opened".to_owned())
            }
            PermissionDecision::Deny(DenyReason::Lowered { rule, .. }) => {
                Some(rule.because.to_owned())
            }
        }
    }

    fn record_refusal(&mut self, rel: &RelPath, source: RefusalSource, reason: String) {
        let path = self.tree_path.join(rel);
        let refusal = DeliveryRefusal {
            path,
            reason,
            by: source,
        };
        if is_generated(rel) {
            self.plan.left_out.push(refusal);
        } else {
            self.plan.refused.push(refusal);
        }
    }

    /// Refuses a name and everything below it.
    fn refuse_all(&mut self, rel: &RelPath, rejection: EntryRejection) {
        self.closed_paths.insert(rel.clone());
        match rejection {
            EntryRejection::Refused(reason) => {
                self.record_refusal(rel, RefusalSource::Rule, reason);
            }
            EntryRejection::FileSystem(error) => {
                self.record_refusal(rel, RefusalSource::Disk, error.to_string());
            }
        }
    }

    fn plan_name(&mut self, rel: &RelPath) -> PlanningResult {
        make_readable(&self.layer, rel)?;
        let hides_parent = rel
            .parent()
            .is_some_and(|parent| self.opaque_dirs.contains(&parent));
        match read_upper_entry(&self.layer, rel)? {
            UpperEntry::Removed => self.remove(rel),
            UpperEntry::MergedDirectory(meta) => self.merge_dir(rel, &meta),
            UpperEntry::NewDirectory(meta) if hides_parent => self.replace_dir(rel, &meta),
            UpperEntry::NewDirectory(meta) => self.make_dir(rel, &meta),
            UpperEntry::OpaqueDirectory(meta) => self.replace_dir(rel, &meta),
            UpperEntry::File(meta) => self.plan_file(rel, &meta),
            UpperEntry::Link => {
                let target = self.layer.link_target(rel)?;
                self.plan_link(rel, PathState::Link { target })
            }
            UpperEntry::Special(kind) => {
                self.record_refusal(rel, RefusalSource::Rule, format!("it is {kind}"));
                Ok(())
            }
        }
    }

    /// Returns what exists at `rel` in the user's tree, opened beneath its root: nothing, if its
    /// directory does not exist.
    fn user_state(
        &self,
        rel: &RelPath,
    ) -> std::result::Result<(PathState, Option<FileMetadata>), EntryRejection> {
        let name = rel.name().ok_or(FileSystemError::IsDirectory)?;
        let parent = rel.parent().unwrap_or_default();
        match self.tree.dir(&parent) {
            Ok(dir) => {
                if !is_same_mount(&dir, &self.tree)? {
                    let reason = "another file system is mounted there";
                    return Err(EntryRejection::Refused(reason.to_owned()));
                }
                match read_state(&dir, name) {
                    Err(FileSystemError::NotRegular(kind)) => {
                        Err(EntryRejection::Refused(format!("{kind} exists there")))
                    }
                    other => Ok(other?),
                }
            }
            Err(FileSystemError::Missing) => Ok((PathState::Nothing, None)),
            // What exists there is replaced by the new directory.
            Err(FileSystemError::NotDirectory | FileSystemError::Replaced)
                if self.opaque_dirs.contains(&parent) =>
            {
                Ok((PathState::Nothing, None))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Plans a directory that existed in the user's tree when the agent began.
    fn merge_dir(&mut self, rel: &RelPath, meta: &FileMetadata) -> PlanningResult {
        let (theirs, _) = self.user_state(rel)?;
        match theirs {
            PathState::Directory { mode } => {
                let ours = PathState::Directory {
                    mode: mode_bits(meta),
                };
                if self.layout == SourceLayout::OverlayLayer && mode != mode_bits(meta) {
                    self.add_entry(rel, theirs, ours, None);
                }
                Ok(())
            }
            // Whether its removal matters depends on its contents.
            PathState::Nothing => {
                if self
                    .between
                    .as_ref()
                    .is_some_and(|layer| is_new(layer, rel))
                {
                    return self.make_dir(rel, meta);
                }
                let ours = PathState::Directory {
                    mode: mode_bits(meta),
                };
                self.add_entry(rel, theirs, ours, Some(DeliveryConflict::Removed));
                Ok(())
            }
            PathState::File(_) | PathState::Link { .. } => Err(not_a_directory(&theirs)),
        }
    }

    fn make_dir(&mut self, rel: &RelPath, meta: &FileMetadata) -> PlanningResult {
        let (theirs, _) = self.user_state(rel)?;
        match theirs {
            PathState::Directory { .. } => Ok(()),
            PathState::Nothing => {
                let ours = PathState::Directory {
                    mode: mode_bits(meta) | Mode::RWXU.as_raw_mode(),
                };
                self.add_entry(rel, theirs, ours, None);
                Ok(())
            }
            PathState::File(_) | PathState::Link { .. } => Err(not_a_directory(&theirs)),
        }
    }

    /// Plans a directory that replaces what existed: everything that is not in it is removed.
    fn replace_dir(&mut self, rel: &RelPath, meta: &FileMetadata) -> PlanningResult {
        self.opaque_dirs.insert(rel.clone());
        let (theirs, user_meta) = self.user_state(rel)?;
        let ours = PathState::Directory {
            mode: mode_bits(meta) | Mode::RWXU.as_raw_mode(),
        };
        match theirs {
            PathState::Nothing => self.add_entry(rel, theirs, ours, None),
            PathState::Directory { .. } => {
                if theirs != ours {
                    self.add_entry(rel, theirs, ours, None);
                }
                self.remove_hidden(rel)?;
            }
            PathState::File(_) | PathState::Link { .. } => {
                let conflict = self.conflict(rel, user_meta.as_ref());
                self.add_entry(rel, theirs, ours, conflict);
            }
        }
        Ok(())
    }

    /// Plans the removal of what is in the user's directory and not in the one that hides it.
    fn remove_hidden(&mut self, rel: &RelPath) -> PlanningResult {
        let layer_entries = self.layer.dir(rel).and_then(|dir| dir.entries())?;
        let layer_names: BTreeSet<_> = layer_entries.into_iter().map(|entry| entry.name).collect();
        for entry in self.tree.dir(rel).and_then(|dir| dir.entries())? {
            let Some(rel) = rel.child(&entry.name) else {
                continue;
            };
            if layer_names.contains(&entry.name) {
                continue;
            }
            if let Some(reason) = self.forbidden_reason(&rel) {
                self.record_refusal(&rel, RefusalSource::Rule, reason);
            } else if let Err(rejection) = self.remove(&rel) {
                self.refuse_all(&rel, rejection);
            }
        }
        Ok(())
    }

    fn plan_file(&mut self, rel: &RelPath, meta: &FileMetadata) -> PlanningResult {
        let (theirs, user_meta) = self.user_state(rel)?;
        let new_bits = (meta.bits_without_setid() | Mode::WUSR).as_raw_mode();
        // The owner's write bit is always set, so a file without it keeps its mode too.
        let kept_mode = match (&theirs, self.layout) {
            (PathState::File(old), SourceLayout::SeparateDirectory) => Some(old.mode),
            (PathState::File(old), SourceLayout::OverlayLayer)
                if old.mode & RWX_BITS | Mode::WUSR.as_raw_mode() == new_bits =>
            {
                Some(old.mode)
            }
            _ => None,
        };
        // Setuid and setgid bits are never kept on a file with content from an agent.
        let mode = kept_mode.map_or(new_bits, |mode| mode & RWX_BITS);
        let ours = PathState::File(RegularFileState {
            inode: None,
            size_bytes: meta.version.size_bytes,
            modified_ns: i64::try_from(meta.version.modified_ns).unwrap_or(i64::MAX),
            mode,
        });
        if let (PathState::File(old), Some(old_meta)) = (&theirs, &user_meta) {
            if kept_mode == Some(old.mode) && self.has_same_content(rel, old_meta)? {
                return Ok(());
            }
            if old_meta.link_count > 1 {
                let reason = "it is one of several names (hard links) of the same file";
                return Err(EntryRejection::Refused(reason.to_owned()));
            }
            if !old_meta.is_writable_for_owner() {
                let reason = "its permission bits say that it is read-only";
                return Err(EntryRejection::Refused(reason.to_owned()));
            }
        }
        self.replace_file(rel, theirs, user_meta.as_ref(), ours)
    }

    /// Returns whether the layer's file has the same content as the user's, as when a command only
    /// opened or touched it.
    fn has_same_content(
        &self,
        rel: &RelPath,
        user_meta: &FileMetadata,
    ) -> std::result::Result<bool, FileSystemError> {
        let (ours, layer_meta) = self.layer.open_file(rel)?;
        let size_bytes = layer_meta.version.size_bytes;
        if size_bytes != user_meta.version.size_bytes {
            return Ok(false);
        }
        let (theirs, _) = self.tree.open_file(rel)?;
        has_same_bytes(ours, theirs, size_bytes)
    }

    fn plan_link(&mut self, rel: &RelPath, ours: PathState) -> PlanningResult {
        let (theirs, user_meta) = self.user_state(rel)?;
        if theirs == ours {
            return Ok(());
        }
        self.replace_file(rel, theirs, user_meta.as_ref(), ours)
    }

    /// Plans a file or a symlink in place of `theirs`; a directory there is removed first, with all
    /// its contents, or the name is refused.
    fn replace_file(
        &mut self,
        rel: &RelPath,
        theirs: PathState,
        user_meta: Option<&FileMetadata>,
        ours: PathState,
    ) -> PlanningResult {
        if theirs.is_directory() {
            if self.layout == SourceLayout::SeparateDirectory {
                return Err(EntryRejection::FileSystem(FileSystemError::IsDirectory));
            }
            self.remove_below(rel)?;
        }
        let conflict = match user_meta {
            Some(_) => self.conflict(rel, user_meta),
            None => self.removed_by_user(rel),
        };
        self.add_entry(rel, theirs, ours, conflict);
        Ok(())
    }

    /// Plans the removal of what exists at `rel`; a directory is removed with all its contents, or
    /// not at all.
    fn remove(&mut self, rel: &RelPath) -> PlanningResult {
        let (theirs, user_meta) = self.user_state(rel)?;
        if theirs.is_absent() {
            return Ok(());
        }
        if theirs.is_directory() {
            self.remove_below(rel)?;
            self.add_entry(rel, theirs, PathState::Nothing, None);
            return Ok(());
        }
        if user_meta
            .as_ref()
            .is_some_and(|meta| meta.kind == FileKind::File && !meta.is_writable_for_owner())
        {
            let reason = "its permission bits say that it is read-only";
            return Err(EntryRejection::Refused(reason.to_owned()));
        }
        let conflict = self.conflict(rel, user_meta.as_ref());
        self.add_entry(rel, theirs, PathState::Nothing, conflict);
        Ok(())
    }

    /// Plans the removal of everything below the user's directory `rel`, if all of it may be
    /// removed.
    fn remove_below(&mut self, rel: &RelPath) -> PlanningResult {
        if self.manager.contains_grant_root(&self.tree_path.join(rel)) {
            let reason = "it holds a directory that was opened as a whole";
            return Err(EntryRejection::Refused(reason.to_owned()));
        }
        let start = self.tree.dir(rel)?;
        let listing = TreeListing::list(&start, &mut |_: &ListedEntry| EntrySelection::Deep);
        if let Some(limit) = listing.reached_limit {
            return Err(EntryRejection::FileSystem(FileSystemError::Limit(limit)));
        }
        if let Some((_, error)) = listing.unreadable.first() {
            return Err(EntryRejection::FileSystem(*error));
        }
        let rels_below: Vec<RelPath> = listing
            .entries
            .iter()
            .map(|entry| rel.join(&entry.rel))
            .collect();
        let closed_rels: Vec<&RelPath> = rels_below
            .iter()
            .filter(|rel| self.forbidden_reason(rel).is_some())
            .collect();
        if !closed_rels.is_empty() {
            return Err(EntryRejection::Refused(closed_names_reason(&closed_rels)));
        }
        for rel in &rels_below {
            let (_, user_meta) = self.user_state(rel)?;
            if user_meta
                .is_some_and(|meta| meta.kind == FileKind::File && !meta.is_writable_for_owner())
            {
                let reason =
                    format!("it holds `{rel}`, whose permission bits say that it is read-only");
                return Err(EntryRejection::Refused(reason));
            }
        }
        for rel in rels_below {
            let (theirs, user_meta) = self.user_state(&rel)?;
            let conflict = match theirs {
                PathState::Directory { .. } | PathState::Nothing => None,
                PathState::File(_) | PathState::Link { .. } => {
                    self.conflict(&rel, user_meta.as_ref())
                }
            };
            self.add_entry(&rel, theirs, PathState::Nothing, conflict);
        }
        Ok(())
    }

    fn add_entry(
        &mut self,
        rel: &RelPath,
        theirs: PathState,
        ours: PathState,
        conflict: Option<DeliveryConflict>,
    ) {
        self.plan.entries.push(DeliveryEntry {
            root: self.root_number,
            rel: rel.clone(),
            theirs,
            ours,
            source: ContentSource::SourceDirectory,
            conflict,
            consent: None,
        });
    }

    /// Returns the conflict if the user, or another delivery, has changed `rel` since the run
    /// began, unless the agent has read its current version.
    fn conflict(
        &self,
        rel: &RelPath,
        user_meta: Option<&FileMetadata>,
    ) -> Option<DeliveryConflict> {
        let (baseline, user_meta) = (self.baseline?, user_meta?);
        let is_partial = || {
            baseline
                .partial
                .0
                .contains(&(self.root_number, rel.clone()))
        };
        if user_meta.version.changed_ns < baseline.began_ns || is_partial() {
            return None;
        }
        let root = self.plan.roots.get(self.root_number);
        let path = root.map(|root| root.join(rel.as_path()));
        let is_in = |files: &BTreeSet<AbsPath>| path.as_ref().is_some_and(|p| files.contains(p));
        // The undo moved the user's file back, which changes no more than the time of its status.
        if user_meta.version.modified_ns < baseline.began_ns && is_in(&baseline.earlier.restored) {
            return None;
        }
        let base = baseline
            .merge_bases
            .as_ref()
            .and_then(|bases| bases.get(&self.tree_path.join(rel)));
        match base {
            Some(base) if base.matches_version(&user_meta.version) => None,
            Some(_) | None if is_in(&baseline.earlier.applied) => Some(DeliveryConflict::Delivered),
            Some(_) | None => Some(DeliveryConflict::Changed),
        }
    }

    /// Returns the conflict if the user has removed a file that the agent changed. That the file
    /// was copied up from the tree proves this only if its directory has changed since the run
    /// began, because an agent can also have moved the file here.
    fn removed_by_user(&self, rel: &RelPath) -> Option<DeliveryConflict> {
        let baseline = self.baseline?;
        let bases = baseline.merge_bases.as_ref();
        let was_read = bases.is_some_and(|bases| bases.get(&self.tree_path.join(rel)).is_some());
        let has_dir_changed = || {
            let parent = self.tree.meta(&rel.parent().unwrap_or_default());
            parent.is_ok_and(|meta| meta.version.changed_ns >= baseline.began_ns)
        };
        let is_removed = was_read || (is_copied_up(&self.layer, rel) && has_dir_changed());
        is_removed.then_some(DeliveryConflict::Removed)
    }
}

fn not_a_directory(theirs: &PathState) -> EntryRejection {
    let kind = match theirs {
        PathState::Link { .. } => "a symbolic link",
        PathState::File(_) => "a file",
        PathState::Directory { .. } | PathState::Nothing => "something else",
    };
    EntryRejection::Refused(format!(
        "{kind} exists where a directory is expected, and is not followed"
    ))
}

fn closed_names_reason(closed_rels: &[&RelPath]) -> String {
    let examples: Vec<String> = closed_rels
        .iter()
        .take(EXAMPLES_MAX)
        .map(ToString::to_string)
        .collect();
    let remainder = match closed_rels.len().saturating_sub(EXAMPLES_MAX) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let examples = examples.join("`, `");
    format!("it holds names that may not be changed (`{examples}`{remainder})")
}
