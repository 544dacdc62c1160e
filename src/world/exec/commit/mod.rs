//! Commits a layer: applies what a command changed in the layer over a write path to the user's
//! tree, name by name and under the same rules as the file tools. Changes that are not allowed
//! there stay in the layer, private to the agent, so that its next command sees them.
//!
//! The layer was written by an agent. Nothing in it is followed or trusted: names are opened
//! beneath its root, symlinks are copied as symlinks, and a name with a mark that massgen's
//! overlays never make is refused.

mod apply;

use std::collections::BTreeSet;

use crate::path::{RealPath, RelPath};
use crate::permissions::grant::{GrantKind, Permission};
use crate::permissions::history::is_generated;
use crate::sandbox_policy::OverlayLayer;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::command_changes::CommandChanges;
use crate::world::exec::tool_result::ToolError;
use crate::world::exec::write_block::WriteIntent;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::state_files::clear;
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry, TreeListing};
use crate::world::sys::upper_layer::{make_readable, mark_applied};

/// The most bytes that one commit applies; holes of sparse files do not count.
const COMMIT_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Applies what commands changed in `layer` to the tree below it, and empties the layer except for
/// names that may not be applied. No process may write to the layer meanwhile.
///
/// Closed paths in `reported` were reported earlier and are not reported again; new ones are added.
/// The error says why the commit is incomplete, and holds the changes that were made all the
/// same.
pub(super) fn commit(
    gate: &Gate,
    layer: &OverlayLayer,
    reported: &mut BTreeSet<RealPath>,
) -> Result<CommandChanges, ToolError> {
    commit_up_to(COMMIT_BYTES_MAX, gate, layer, reported)
}

/// Does what [`commit`] does, with this limit of bytes.
pub(super) fn commit_up_to(
    bytes_max: u64,
    gate: &Gate,
    layer: &OverlayLayer,
    reported: &mut BTreeSet<RealPath>,
) -> Result<CommandChanges, ToolError> {
    let root = gate
        .writable_tree(&layer.root)
        .ok_or_else(|| ToolError::failed("its directory is not open for writing"))?;
    let tool_error =
        |error: FileSystemError| ToolError::failed_at(gate, "apply the changes to", &root, error);
    let upper = DirectoryHandle::open_own(&layer.upper).map_err(tool_error)?;
    let mut commit = LayerCommit::new(gate, &root, layer, &upper, bytes_max, reported)?;
    let listing = commit.list_layer();
    if let Some(limit) = listing.reached_limit {
        // Otherwise each later commit of the layer would reach the limit too.
        clear::empty(&upper).map_err(tool_error)?;
        return Err(tool_error(FileSystemError::Limit(limit)));
    }
    commit.commit_all(&listing);
    let command_changes = commit.command_changes;
    // Names that were applied must not be applied once more by the next commit.
    if prune(&upper, &listing.entries).is_err() {
        clear::empty(&upper).map_err(tool_error)?;
    }
    sync_to_disk(gate, &root, command_changes)
}

/// Returns once the changes that were applied to a tree of the user are on disk.
fn sync_to_disk(
    gate: &Gate,
    root: &ResolvedPath,
    command_changes: CommandChanges,
) -> Result<CommandChanges, ToolError> {
    if root.grant().kind == GrantKind::Context
        && !command_changes.changes.is_empty()
        && let Err(error) = root.dir().sync_file_system()
    {
        let tool_error = ToolError::failed_at(gate, "apply the changes to", root, error);
        return Err(tool_error.with_changes(command_changes.changes));
    }
    Ok(command_changes)
}

/// The commit of one layer.
struct LayerCommit<'a> {
    gate: &'a Gate,
    /// The root of the user's tree.
    root: &'a ResolvedPath,
    /// The root of the layer.
    upper: &'a DirectoryHandle,
    intent: WriteIntent,
    /// The opaque directories of the layer, which hide what the user has below them.
    opaque_dirs: BTreeSet<RelPath>,
    /// How many more bytes may be applied.
    bytes_left: u64,
    command_changes: CommandChanges,
    /// The closed paths that were reported.
    reported: &'a mut BTreeSet<RealPath>,
}

impl<'a> LayerCommit<'a> {
    /// Creates a commit of at most `bytes_max` bytes of `layer`, whose root is `upper`, to the tree
    /// `root`.
    fn new(
        gate: &'a Gate,
        root: &'a ResolvedPath,
        layer: &OverlayLayer,
        upper: &'a DirectoryHandle,
        bytes_max: u64,
        reported: &'a mut BTreeSet<RealPath>,
    ) -> Result<Self, ToolError> {
        let work_meta = DirectoryHandle::open_own(&layer.work)
            .and_then(FileMetadata::from_handle)
            .map_err(|error| ToolError::failed_at(gate, "apply the changes to", root, error))?;
        Ok(Self {
            gate,
            root,
            upper,
            // The kernel creates a directory in there when it mounts the overlay, which sets its
            // change time.
            intent: WriteIntent::Commit {
                began_ns: work_meta.version.changed_ns,
            },
            opaque_dirs: BTreeSet::new(),
            bytes_left: bytes_max,
            command_changes: CommandChanges::default(),
            reported,
        })
    }

    /// Applies all names of `listing`, and records those that could not be read.
    fn commit_all(&mut self, listing: &TreeListing) {
        for (rel, error) in &listing.unreadable {
            let path = self.root.join(rel);
            let tool_error = ToolError::failed_at(self.gate, "apply the change to", &path, error);
            self.command_changes.record_error(path.real(), tool_error);
        }
        for entry in &listing.entries {
            self.commit_name(&entry.rel);
        }
    }

    /// Lists all names of the layer that may be applied, parents first. The others are recorded.
    fn list_layer(&mut self) -> TreeListing {
        let upper = self.upper;
        TreeListing::list(upper, &mut |entry: &ListedEntry| {
            if let Some(reason) = self.closed_reason(&entry.rel) {
                self.record_denial(&entry.rel, reason);
                return EntrySelection::Excluded;
            }
            if entry.kind == FileKind::Directory {
                // If this fails, the listing reports the directory as unreadable.
                let _opened = make_readable(upper, &entry.rel);
            }
            EntrySelection::Deep
        })
    }

    /// Returns why nothing may be written at `rel`; `None` if it may.
    fn closed_reason(&self, rel: &RelPath) -> Option<String> {
        match self
            .gate
            .check_access(self.root.join(rel).real(), Permission::Write)
        {
            Ok(grant) if grant == self.root.grant() => None,
            Ok(_) => Some("it lies in another directory that was opened to you".to_owned()),
            Err(refusal) => Some(refusal.reason),
        }
    }

    /// Records a closed name once. A generated file is only left out: the user does not need it.
    fn record_denial(&mut self, rel: &RelPath, reason: String) {
        let path = self.root.join(rel).real().clone();
        if !self.reported.insert(path.clone()) {
            return;
        }
        if is_generated(rel) {
            self.command_changes.record_omission(&path, reason);
        } else {
            self.command_changes.record_denial(&path, reason);
        }
    }
}

/// Removes the names in `entries` from the layer. A directory that is not empty stays.
fn prune(upper: &DirectoryHandle, entries: &[ListedEntry]) -> Result<(), FileSystemError> {
    for entry in entries.iter().rev() {
        let (dir, name) = upper.parent_of(&entry.rel)?;
        match entry.kind {
            FileKind::Directory => match dir.remove_dir(name) {
                Err(FileSystemError::NotEmpty) => mark_applied(upper, &entry.rel)?,
                result => result?,
            },
            FileKind::File
            | FileKind::Link
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::Device => {
                dir.unlink(name)?;
            }
        }
    }
    Ok(())
}
