//! Finds the paths that are closed to a command before it runs: names in all trees that
//! `permissions:` rules or `hidden_paths` make unreadable, and names in the agent's own workspace
//! that are read-only.

use std::collections::BTreeSet;

use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::{GrantKind, Permission, Phase};
use crate::permissions::path_rules::PathRule;
use crate::permissions::protected::{fold_name, protected_name};
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::inventory::user_trees;
use crate::world::exec::tool_result::{ToolError, cannot_run};
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::untrusted_walk::{TreeVisitor, WalkAction, WalkEntry, walk_untrusted};

/// How many names are visited before a command; visiting that many takes about a second.
const NAMES_MAX: usize = 1_000_000;

/// The paths that are closed to a command in addition to those that its grants close.
#[derive(Debug, Default)]
pub(super) struct ClosedPaths {
    /// Paths that it may not read.
    pub(super) hidden: BTreeSet<AbsPath>,
    /// Paths in its agent's workspace that it may not change.
    pub(super) read_only: BTreeSet<AbsPath>,
}

/// Returns the existing paths in the trees of `gate` that rules close. The error says why no
/// command can be run.
pub(super) fn closed_paths(gate: &Gate, level: SandboxLevel) -> Result<ClosedPaths, ToolError> {
    let mut closed_paths = ClosedPaths::default();
    let rules = gate.path_rules();
    let hides = |rule: &PathRule| rule.blocks(Permission::Read);
    // At sandbox level `landlock` nothing inside a writable directory can be kept read-only.
    let makes_read_only =
        |rule: &PathRule| level != SandboxLevel::Landlock && rule.blocks(Permission::Write);
    let has_hiding_rule = rules.iter().any(hides);
    let has_read_only_rule = rules.iter().any(makes_read_only);
    let mut visited_names = 0_usize;
    for root in gate.trees() {
        for rel in &root.grant().hidden {
            let unreadable = spellings(&root, rel)?
                .into_iter()
                .map(|rel| root.join(&rel))
                .filter(|path| !gate.allows(path.real(), Permission::Read));
            closed_paths
                .hidden
                .extend(unreadable.map(|path| path.real().to_abs()));
        }
        let is_workspace = root.grant().kind == GrantKind::Workspace;
        let finds_read_only = has_read_only_rule && is_workspace;
        if !has_hiding_rule && !finds_read_only {
            continue;
        }
        let mut visitor = ClosedPathVisitor {
            gate,
            root: &root,
            finds_read_only,
            visited_names: &mut visited_names,
            closed_paths: &mut closed_paths,
        };
        walk_untrusted(root.dir(), &mut visitor).map_err(|error| cannot_run(&error))?;
    }
    if visited_names > NAMES_MAX {
        let reason = format!("`permissions` has globs, and there are more than {NAMES_MAX} names");
        return Err(cannot_run(&reason));
    }
    Ok(closed_paths)
}

/// Returns the paths in the tree `root` that match `rel` after case folding; the rules hide all of
/// them. Symlinks do not count.
fn spellings(root: &ResolvedPath, rel: &RelPath) -> Result<Vec<RelPath>, ToolError> {
    let mut matches = vec![RelPath::default()];
    for name in rel.names() {
        let folded_name = fold_name(name);
        let mut children = Vec::new();
        for parent in matches {
            let path = root.join(&parent);
            let entries = match path.open_dir().and_then(|dir| dir.entries()) {
                Ok(entries) => entries,
                Err(FileSystemError::Missing | FileSystemError::NotDirectory) => continue,
                Err(error) => {
                    let dir = path.real();
                    let reason =
                        format!("`{dir}` cannot be listed, and `{rel}` is hidden: {error}");
                    return Err(cannot_run(&reason));
                }
            };
            let matching_entries = entries.into_iter().filter(|entry| {
                entry.kind != FileKind::Link && fold_name(&entry.name) == folded_name
            });
            children.extend(matching_entries.filter_map(|entry| parent.child(&entry.name)));
        }
        matches = children;
    }
    Ok(matches)
}

/// Visits the names of one tree.
struct ClosedPathVisitor<'l> {
    gate: &'l Gate,
    root: &'l ResolvedPath,
    /// Whether read-only paths are recorded too.
    finds_read_only: bool,
    visited_names: &'l mut usize,
    closed_paths: &'l mut ClosedPaths,
}

impl TreeVisitor for ClosedPathVisitor<'_> {
    fn visit(&mut self, entry: WalkEntry<'_>) -> WalkAction {
        *self.visited_names = self.visited_names.saturating_add(1);
        if *self.visited_names > NAMES_MAX {
            return WalkAction::Stop;
        }
        let name_path = self.root.join(entry.rel);
        let path = name_path.real();
        if self.gate.most_specific_grant(path) != Some(self.root.grant()) {
            // A more specific grant: its tree is walked for itself.
            return WalkAction::Skip;
        }
        // A symlink cannot be covered by a mount, and what it points to is closed by itself if need
        // be.
        let can_be_covered = matches!(entry.kind, FileKind::File | FileKind::Directory);
        if !self.gate.allows(path, Permission::Read) {
            if can_be_covered {
                self.closed_paths.hidden.insert(path.to_abs());
            }
            return WalkAction::Skip;
        }
        if self.finds_read_only && can_be_covered && !self.gate.allows(path, Permission::Write) {
            self.closed_paths.read_only.insert(path.to_abs());
        }
        match entry.kind {
            FileKind::Directory => WalkAction::Descend,
            FileKind::File
            | FileKind::Link
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::Device => WalkAction::Skip,
        }
    }

    /// Hides the directory: its content is unknown, and a command might be able to open it.
    fn visit_unreadable(&mut self, rel: &RelPath, _error: FileSystemError) -> WalkAction {
        self.closed_paths
            .hidden
            .insert(self.root.join(rel).real().to_abs());
        WalkAction::Skip
    }
}

/// The protected names that are masked. Names that tools generate stay writable on an overlay, and
/// stay there.
const MASKED_NAMES: &[&str] = &[GIT_DIR, ".env", ".massgen"];

/// The directory of a repository. In an attempt, an agent may commit to its copy.
const GIT_DIR: &str = ".git";

/// Returns the paths to mask for a command: existing ones with these names at the roots of the
/// trees, and those that the config protects. Only a file or directory that is readable and not
/// writable is masked; if a grant opens such a path explicitly, it is not.
pub(super) fn masks(gate: &Gate) -> Vec<AbsPath> {
    let mut masks = Vec::new();
    for root in user_trees(gate) {
        let grant = root.grant();
        let entries = root.open_dir().and_then(|dir| dir.entries());
        let masked_names = entries.unwrap_or_default().into_iter().filter_map(|entry| {
            let rel = RelPath::default().child(&entry.name)?;
            let protected_name = protected_name(&rel, &grant.unprotected)?;
            let is_own_repository = gate.phase() == Phase::Attempt && protected_name == GIT_DIR;
            let is_masked = MASKED_NAMES.contains(&protected_name) && !is_own_repository;
            is_masked.then_some(rel)
        });
        for rel in masked_names.chain(grant.protected.iter().cloned()) {
            let path = root.join(&rel);
            let metadata = path.meta();
            let can_be_masked = metadata
                .is_ok_and(|meta| matches!(meta.kind, FileKind::File | FileKind::Directory));
            let is_read_only = gate.allows(path.real(), Permission::Read)
                && !gate.allows(path.real(), Permission::Write);
            if can_be_masked && is_read_only {
                masks.push(path.real().to_abs());
            }
        }
    }
    masks
}
