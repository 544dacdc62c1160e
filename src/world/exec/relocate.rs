//! `move_file`. A rename does not check what it moves, so it is used only within one workspace;
//! everywhere else a move is a copy, name by name, followed by a removal.

use crate::path::RelPath;
use crate::permissions::grant::{GrantKind, Permission};
use crate::tools::call::ExistingTarget;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::copy::{CopyRoute, copy_content, copy_link, copy_tree};
use crate::world::exec::delete::{PendingDelete, plan_removal, remove_name, remove_tree};
use crate::world::exec::tool_result::{Observation, ToolError, ToolResult, display_path};
use crate::world::exec::write_block::{WriteIntent, write_block};
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;

/// Implements `move_file`.
pub(super) fn move_file(
    gate: &Gate,
    source: &ResolvedPath,
    destination: &ResolvedPath,
) -> ToolResult {
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "move", source, error);
    let meta = source.meta().map_err(tool_error)?;
    if destination.real().is_within(source.real()) {
        let reason = "the destination is inside it";
        return Err(ToolError::failed_at(gate, "move", source, reason));
    }
    match destination.meta() {
        Err(FileSystemError::Missing) => {}
        Err(error) => return Err(ToolError::failed_at(gate, "write", destination, error)),
        Ok(_) => {
            let error = FileSystemError::Exists;
            return Err(ToolError::failed_at(gate, "write", destination, error));
        }
    }
    if let Some(block) = write_block(gate, source.real(), &meta, WriteIntent::Move) {
        return Err(ToolError::denied(gate, source.real(), block));
    }
    let changes = if is_within_one_workspace(gate, source, destination) {
        rename(source, destination).map_err(tool_error)?
    } else {
        copy_and_remove(gate, source, destination, &meta)?
    };
    gate.history()
        .record_move(source.real(), destination.real());
    let (from, to) = (source.real(), destination.real());
    let (from, to) = (display_path(gate, from), display_path(gate, to));
    Ok(Observation::done(format!("moved {from} to {to}\n")).with_changes(changes))
}

/// Returns whether both lie in one workspace that has no exceptions and no other grant below it, so
/// that nothing inside can be closed to the agent.
fn is_within_one_workspace(gate: &Gate, source: &ResolvedPath, destination: &ResolvedPath) -> bool {
    let grant = source.grant();
    grant.kind == GrantKind::Workspace
        && grant == destination.grant()
        && grant.hidden.is_empty()
        && grant.protected.is_empty()
        && grant.path_rules.is_empty()
        && !gate.manager().contains_grant_root(&grant.root)
}

fn rename(
    source: &ResolvedPath,
    destination: &ResolvedPath,
) -> Result<Vec<FileChange>, FileSystemError> {
    let (from, to) = (source.below(), destination.below());
    let (from_dir, from_name) = source.dir().parent_of(&from)?;
    let (to_dir, to_name) = destination.dir().make_parent_of(&to)?;
    from_dir.rename_new(from_name, &to_dir, to_name)?;
    let change = |path: &ResolvedPath, kind| FileChange::new(path.real().clone(), kind);
    Ok(vec![
        change(destination, ChangeKind::Created),
        change(source, ChangeKind::Deleted),
    ])
}

/// Copies and then removes. Nothing is removed unless everything was copied.
fn copy_and_remove(
    gate: &Gate,
    source: &ResolvedPath,
    destination: &ResolvedPath,
    meta: &FileMetadata,
) -> Result<Vec<FileChange>, ToolError> {
    let route = CopyRoute {
        gate,
        source,
        destination,
        existing: ExistingTarget::Keep,
    };
    match meta.kind {
        FileKind::File => {
            // Unlike a copy, the move of a single file has no limit.
            let mut bytes_left = u64::MAX;
            let is_unread = !gate.history().knows_content(source.real());
            let change = copy_content(route, &mut bytes_left)?;
            // The copy is the agent's own file, which does not mean that it has read the content.
            if is_unread {
                gate.history()
                    .record_unread_move(destination.real().clone());
            }
            Ok(vec![change, remove_name(gate, source, &meta.version)?])
        }
        FileKind::Link => {
            let change = copy_link(route)?;
            Ok(vec![change, remove_name(gate, source, &meta.version)?])
        }
        FileKind::Directory => copy_and_remove_tree(route),
        kind @ (FileKind::Fifo | FileKind::Socket | FileKind::Device) => {
            let error = FileSystemError::NotRegular(kind);
            Err(ToolError::failed_at(gate, "move", source, error))
        }
    }
}

/// Copies a tree and then removes it, unless a name of it may not be moved or was not copied.
fn copy_and_remove_tree(route: CopyRoute<'_>) -> Result<Vec<FileChange>, ToolError> {
    let (gate, source, destination) = (route.gate, route.source, route.destination);
    let pending_deletes = plan_removal(gate, source, WriteIntent::Move)?;
    for pending_delete in &pending_deletes {
        let target = destination.join(&pending_delete.rel);
        if let Err(refusal) = gate.check_access(target.real(), Permission::Write) {
            return Err(ToolError::denied(gate, target.real(), refusal.reason));
        }
        let kind = pending_delete.meta.kind;
        if matches!(kind, FileKind::Fifo | FileKind::Socket | FileKind::Device) {
            let error = FileSystemError::NotRegular(kind);
            let path = source.join(&pending_delete.rel);
            return Err(ToolError::failed_at(gate, "move", &path, error));
        }
    }
    let unread_rels = unread_files(gate, source, &pending_deletes);
    let all_files = None;
    let report = copy_tree(route, all_files)?;
    for rel in unread_rels {
        let target = destination.join(&rel).real().clone();
        gate.history().record_unread_move(target);
    }
    let uncopied_name = report.errors.first().or(report.skipped.first());
    if let Some((rel, reason)) = uncopied_name {
        let path = source.join(rel);
        return Err(ToolError::failed_at(gate, "move", &path, reason).with_changes(report.changes));
    }
    let mut changes = report.changes;
    match remove_tree(gate, source, &pending_deletes) {
        Ok(removals) => {
            changes.extend(removals);
            Ok(changes)
        }
        Err(mut tool_error) => {
            changes.append(&mut tool_error.changes);
            Err(tool_error.with_changes(changes))
        }
    }
}

/// Returns the files of `pending_deletes` that the agent has neither created nor read.
fn unread_files(
    gate: &Gate,
    source: &ResolvedPath,
    pending_deletes: &[PendingDelete],
) -> Vec<RelPath> {
    let history = gate.history();
    let files = pending_deletes
        .iter()
        .filter(|pending_delete| pending_delete.meta.kind == FileKind::File);
    let rels = files.map(|pending_delete| &pending_delete.rel);
    rels.filter(|rel| !history.knows_content(source.join(rel).real()))
        .cloned()
        .collect()
}
