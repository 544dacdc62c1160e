//! Tools that delete. A tree is listed and every name in it is checked before the first one is
//! removed; names that appear in the meantime stay, because only listed names are removed.

use serde_json::json;

use crate::path::{RealPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::history::FileFingerprint;
use crate::tools::call::{DeleteRecursion, FileSelection};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::list::CompiledSelection;
use crate::world::exec::tool_result::{
    Observation, ToolError, ToolResult, display_path, json_done, json_names,
};
use crate::world::exec::write_block::{WriteBlock, WriteIntent, write_block};
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::sys::conditional_replace::remove_if_unchanged;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry, TreeListing};

/// The most names that a refusal gives as examples.
const EXAMPLES_MAX: usize = 3;

/// Implements `delete_file`.
pub(super) fn delete_file(
    gate: &Gate,
    path: &ResolvedPath,
    recursion: DeleteRecursion,
) -> ToolResult {
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "delete", path, error);
    let meta = path.meta().map_err(tool_error)?;
    let shown_path = display_path(gate, path.real());
    let (kind, changes) = match (meta.kind, recursion) {
        (FileKind::Directory, DeleteRecursion::EmptyOnly) => {
            let rel = path.below();
            let (parent, name) = path.dir().parent_of(&rel).map_err(tool_error)?;
            parent.remove_dir(name).map_err(tool_error)?;
            // Changes are those of files; no file was removed.
            ("directory", Vec::new())
        }
        (FileKind::Directory, DeleteRecursion::Whole) => {
            let pending_deletes = plan_removal(gate, path, WriteIntent::Delete)?;
            ("directory", remove_tree(gate, path, &pending_deletes)?)
        }
        _ => {
            if let Some(block) = write_block(gate, path.real(), &meta, WriteIntent::Delete) {
                return Err(ToolError::denied(gate, path.real(), block));
            }
            ("file", vec![remove_name(gate, path, &meta.version)?])
        }
    };
    let details = json!({"type": kind, "path": shown_path, "file_count": changes.len()});
    Ok(Observation::done(json_done("delete_file", &details)).with_changes(changes))
}

/// Implements `delete_files_batch`: skips protected names; a single unread file stops the whole
/// call.
pub(super) fn delete_files_batch(
    gate: &Gate,
    path: &ResolvedPath,
    selection: &FileSelection,
) -> ToolResult {
    let compiled_selection = CompiledSelection::new(selection)?;
    let mut skipped = Vec::new();
    let listing = list_entries(gate, path, &mut |entry| {
        let is_selected =
            entry.kind == FileKind::Directory || compiled_selection.matches(&entry.rel);
        if !is_selected {
            EntrySelection::Excluded
        } else if gate.allows(path.join(&entry.rel).real(), Permission::Write) {
            EntrySelection::Deep
        } else {
            skipped.push(entry.rel.clone());
            EntrySelection::Excluded
        }
    })?;
    let mut deletes = pending_deletes(path, listing.entries);
    let mut unread = Vec::new();
    deletes.retain(|name| {
        let block = name.write_block(gate, path, WriteIntent::Delete);
        match block {
            // Directories stay, even if they are empty afterwards.
            None => return name.meta.kind != FileKind::Directory,
            Some(WriteBlock::Unread) => unread.push(name.rel.clone()),
            Some(WriteBlock::Conflict | WriteBlock::HardLinked | WriteBlock::MarkedReadOnly) => {
                skipped.push(name.rel.clone());
            }
        }
        false
    });
    if !unread.is_empty() {
        return Err(denied_error(gate, path.real(), WriteBlock::Unread, &unread));
    }
    let mut changes = Vec::new();
    for name in &deletes {
        match remove_name(gate, &path.join(&name.rel), &name.meta.version) {
            Ok(change) => changes.push(change),
            Err(tool_error) => return Err(tool_error.with_changes(changes)),
        }
    }
    let content = json!({
        "success": true,
        "operation": "delete_files_batch",
        "summary": {"deleted": changes.len(), "skipped": skipped.len(), "errors": 0},
        "details": {
            "deleted_files": json_names(deletes.iter().map(|name| &name.rel)),
            "skipped": json_names(&skipped),
        },
    });
    Ok(Observation::done(content.to_string()).with_changes(changes))
}

/// A name that will be removed, and its metadata when that was decided.
#[derive(Clone, Debug)]
pub(super) struct PendingDelete {
    /// Its path relative to the start.
    pub(super) rel: RelPath,
    /// Its metadata.
    pub(super) meta: FileMetadata,
}

impl PendingDelete {
    fn write_block(
        &self,
        gate: &Gate,
        path: &ResolvedPath,
        intent: WriteIntent,
    ) -> Option<WriteBlock> {
        write_block(gate, path.join(&self.rel).real(), &self.meta, intent)
    }
}

/// Returns the current metadata of the listed names; those that have vanished are skipped.
fn pending_deletes(path: &ResolvedPath, entries: Vec<ListedEntry>) -> Vec<PendingDelete> {
    let pending_delete = |entry: ListedEntry| {
        let meta = path.dir().meta(&path.join(&entry.rel).below()).ok()?;
        let rel = entry.rel;
        Some(PendingDelete { rel, meta })
    };
    entries.into_iter().filter_map(pending_delete).collect()
}

/// Returns everything below `path`, if all of it may be removed or moved away.
pub(super) fn plan_removal(
    gate: &Gate,
    path: &ResolvedPath,
    intent: WriteIntent,
) -> Result<Vec<PendingDelete>, ToolError> {
    let mut closed_rels = Vec::new();
    let listing = list_entries(gate, path, &mut |entry| {
        if !gate.allows(path.join(&entry.rel).real(), Permission::Write) {
            closed_rels.push(entry.rel.clone());
        }
        EntrySelection::Deep
    })?;
    if let Some((rel, error)) = listing.unreadable.first() {
        return Err(ToolError::failed_at(gate, "read", &path.join(rel), *error));
    }
    if !closed_rels.is_empty() {
        // A name that the agent may not even read is no example.
        let is_readable = |rel: &RelPath| gate.allows(path.join(rel).real(), Permission::Read);
        closed_rels.retain(is_readable);
        let reason = "it holds names that you may not change";
        return Err(denied_error(gate, path.real(), reason, &closed_rels));
    }
    let deletes = pending_deletes(path, listing.entries);
    // If a file has several hard links, only one of them is removed, so that does not block.
    for block in [
        WriteBlock::Conflict,
        WriteBlock::Unread,
        WriteBlock::MarkedReadOnly,
    ] {
        let is_blocked =
            |name: &&PendingDelete| name.write_block(gate, path, intent) == Some(block);
        let blocked_deletes = deletes.iter().filter(is_blocked);
        let blocked_rels: Vec<RelPath> = blocked_deletes.map(|name| name.rel.clone()).collect();
        if !blocked_rels.is_empty() {
            return Err(denied_error(gate, path.real(), block, &blocked_rels));
        }
    }
    Ok(deletes)
}

/// Removes the names in `pending_deletes`, last first, so that each directory is empty when it is
/// removed, and then `path` itself.
pub(super) fn remove_tree(
    gate: &Gate,
    path: &ResolvedPath,
    pending_deletes: &[PendingDelete],
) -> Result<Vec<FileChange>, ToolError> {
    let mut changes = Vec::new();
    for name in pending_deletes.iter().rev() {
        let path_below = path.join(&name.rel);
        let removal = match name.meta.kind {
            FileKind::Directory => remove_dir(gate, &path_below).map(|()| None),
            FileKind::File
            | FileKind::Link
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::Device => remove_name(gate, &path_below, &name.meta.version).map(Some),
        };
        match removal {
            Ok(change) => changes.extend(change),
            Err(tool_error) => return Err(tool_error.with_changes(changes)),
        }
    }
    match remove_dir(gate, path) {
        Ok(()) => Ok(changes),
        Err(tool_error) => Err(tool_error.with_changes(changes)),
    }
}

/// Removes a name that is not a directory, unless it has another fingerprint than when it was
/// inspected.
pub(super) fn remove_name(
    gate: &Gate,
    path: &ResolvedPath,
    fingerprint: &FileFingerprint,
) -> Result<FileChange, ToolError> {
    let rel = path.below();
    let removal = path.dir().parent_of(&rel).and_then(|(parent, name)| {
        let staging_dir = gate.staging_dir().unwrap_or(&parent);
        remove_if_unchanged(&parent, staging_dir, name, fingerprint)
    });
    removal.map_err(|error| ToolError::failed_at(gate, "delete", path, error))?;
    gate.history().record_removal(path.real());
    Ok(FileChange::new(path.real().clone(), ChangeKind::Deleted))
}

fn remove_dir(gate: &Gate, path: &ResolvedPath) -> Result<(), ToolError> {
    let rel = path.below();
    let removal = path
        .dir()
        .parent_of(&rel)
        .and_then(|(parent, name)| parent.remove_dir(name));
    removal.map_err(|error| ToolError::failed_at(gate, "delete", path, error))
}

fn list_entries(
    gate: &Gate,
    path: &ResolvedPath,
    select: &mut dyn FnMut(&ListedEntry) -> EntrySelection,
) -> Result<TreeListing, ToolError> {
    let start = path
        .open_dir()
        .map_err(|error| ToolError::failed_at(gate, "list", path, error))?;
    let listing = TreeListing::list(&start, select);
    match listing.reached_limit {
        Some(limit) => Err(ToolError::failed_at(gate, "delete", path, limit)),
        None => Ok(listing),
    }
}

fn denied_error(
    gate: &Gate,
    path: &RealPath,
    reason: impl std::fmt::Display,
    rels: &[RelPath],
) -> ToolError {
    let examples: Vec<String> = rels
        .iter()
        .take(EXAMPLES_MAX)
        .map(|rel| display_path(gate, &path.join(rel)))
        .collect();
    let remainder = match rels.len().saturating_sub(EXAMPLES_MAX) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    ToolError::denied(
        gate,
        path,
        format!("{reason} ({}{remainder})", examples.join(", ")),
    )
}
