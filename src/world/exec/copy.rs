//! Tools that copy a file or a tree. In a tree, symlinks are copied as symlinks; pipes, sockets and
//! devices are skipped; and every name is checked at both ends.

use serde_json::{Value, json};

use crate::path::RelPath;
use crate::permissions::grant::Permission;
use crate::permissions::history::is_generated;
use crate::tools::call::{ExistingTarget, FileSelection};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::list::{CompiledSelection, list_readable};
use crate::world::exec::put::{FileSource, WriteOptions, put};
use crate::world::exec::tool_result::{
    ActionOutcome, Observation, ToolError, ToolResult, display_path, display_rel, json_done,
};
use crate::world::exec::write_block::WriteIntent;
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::sys::conditional_replace::replace_link;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry};

/// The most bytes that one call copies; holes of sparse files do not count.
const COPY_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// The most names with reasons that an observation lists.
const LISTED_NAMES_MAX: usize = 50;

/// The source and destination of a copy, and what happens to existing files.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyRoute<'a> {
    /// The gate for both ends.
    pub(super) gate: &'a Gate,
    /// The path to copy.
    pub(super) source: &'a ResolvedPath,
    /// The path to copy to.
    pub(super) destination: &'a ResolvedPath,
    /// What happens to an existing file.
    pub(super) existing: ExistingTarget,
}

impl<'a> CopyRoute<'a> {
    /// Creates a route.
    pub(super) fn new(
        gate: &'a Gate,
        source: &'a ResolvedPath,
        destination: &'a ResolvedPath,
        existing: ExistingTarget,
    ) -> Self {
        Self {
            gate,
            source,
            destination,
            existing,
        }
    }
}

/// Implements `copy_file`.
pub(super) fn copy_file(route: CopyRoute<'_>) -> ToolResult {
    let (gate, source, destination) = (route.gate, route.source, route.destination);
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "copy", source, error);
    let meta = source.meta().map_err(tool_error)?;
    match meta.kind {
        FileKind::File => {
            let mut bytes_left = COPY_BYTES_MAX;
            let change = copy_content(route, &mut bytes_left)?;
            let size = meta.version.size_bytes;
            let details = route.details(json!({"type": "file", "size": size}));
            Ok(Observation::done(json_done("copy_file", &details)).with_changes(vec![change]))
        }
        FileKind::Directory => {
            let exists = destination.meta().is_ok();
            if route.existing == ExistingTarget::Keep && exists {
                let error = FileSystemError::Exists;
                return Err(ToolError::failed_at(gate, "write", destination, error));
            }
            let all_files = None;
            let report = copy_tree(route, all_files)?;
            Ok(report.observation(route, "copy_file"))
        }
        kind @ (FileKind::Link | FileKind::Fifo | FileKind::Socket | FileKind::Device) => {
            Err(tool_error(FileSystemError::NotRegular(kind)))
        }
    }
}

/// Implements `copy_files_batch`.
pub(super) fn copy_files_batch(route: CopyRoute<'_>, selection: &FileSelection) -> ToolResult {
    let compiled_selection = CompiledSelection::new(selection)?;
    let report = copy_tree(route, Some(&compiled_selection))?;
    Ok(report.observation(route, "copy_files_batch"))
}

/// The result of copying a tree.
#[derive(Debug, Default)]
pub(super) struct TreeCopyReport {
    /// The files and symlinks that were copied, and the names that were denied or could not be
    /// copied.
    pub(super) changes: Vec<FileChange>,
    /// Names that were skipped, and why: they are closed at the destination, exist there and are to
    /// be kept, or are pipes, sockets or devices.
    pub(super) skipped: Vec<(RelPath, String)>,
    /// Names that could not be copied, and why.
    pub(super) errors: Vec<(RelPath, String)>,
}

/// Copies the tree below the source to the destination: the selected files, or all of it without a
/// selection.
pub(super) fn copy_tree(
    route: CopyRoute<'_>,
    selection: Option<&CompiledSelection>,
) -> Result<TreeCopyReport, ToolError> {
    let (gate, source, destination) = (route.gate, route.source, route.destination);
    if destination.real().is_within(source.real()) {
        let reason = "the destination is inside it";
        return Err(ToolError::failed_at(gate, "copy", source, reason));
    }
    let mut report = TreeCopyReport::default();
    let listing = list_readable(gate, source, &mut |entry| {
        let is_selected = |selection: &CompiledSelection| {
            entry.kind == FileKind::Directory || selection.matches(&entry.rel)
        };
        if !selection.is_none_or(is_selected) {
            return EntrySelection::Excluded;
        }
        match gate.check_access(destination.join(&entry.rel).real(), Permission::Write) {
            Ok(_) => EntrySelection::Deep,
            Err(refusal) => {
                report.record_denial(destination, &entry.rel, refusal.reason);
                EntrySelection::Excluded
            }
        }
    })
    .map_err(|error| ToolError::failed_at(gate, "copy", source, error))?;
    if let Some(limit) = listing.reached_limit {
        return Err(ToolError::failed_at(gate, "copy", source, limit));
    }
    for (rel, error) in listing.unreadable {
        report.errors.push((rel, error.to_string()));
    }
    // Selected files are copied with the directories that they need, and no others.
    if selection.is_none() {
        make_dir(gate, destination)?;
    }
    let mut bytes_left = COPY_BYTES_MAX;
    for entry in listing.entries {
        if entry.kind != FileKind::Directory || selection.is_none() {
            report.copy_name(route, entry, &mut bytes_left);
        }
    }
    Ok(report)
}

impl TreeCopyReport {
    /// Records a name that is closed at the destination. A generated file is only skipped: the
    /// destination does not need it.
    fn record_denial(&mut self, destination: &ResolvedPath, rel: &RelPath, reason: String) {
        if !is_generated(rel) {
            let kind = ChangeKind::Denied {
                reason: reason.clone(),
            };
            let path = destination.join(rel).real().clone();
            self.changes.push(FileChange::new(path, kind));
        }
        self.skipped.push((rel.clone(), reason));
    }

    /// Copies one name and records the result.
    fn copy_name(&mut self, route: CopyRoute<'_>, entry: ListedEntry, bytes_left: &mut u64) {
        let (source, destination) = (
            route.source.join(&entry.rel),
            route.destination.join(&entry.rel),
        );
        let name_route = CopyRoute {
            source: &source,
            destination: &destination,
            ..route
        };
        let exists = || destination.meta().is_ok();
        let copy_result = match entry.kind {
            FileKind::Directory => make_dir(route.gate, &destination).map(|()| None),
            _ if route.existing == ExistingTarget::Keep && exists() => {
                return self
                    .skipped
                    .push((entry.rel, FileSystemError::Exists.to_string()));
            }
            FileKind::File => copy_content(name_route, bytes_left).map(Some),
            FileKind::Link => copy_link(name_route).map(Some),
            kind @ (FileKind::Fifo | FileKind::Socket | FileKind::Device) => {
                return self.skipped.push((entry.rel, format!("it is {kind}")));
            }
        };
        match copy_result {
            Ok(change) => self.changes.extend(change),
            Err(tool_error) => {
                // The changes of an error say what became of the name.
                if tool_error.changes.is_empty() {
                    self.changes
                        .push(uncopied_change(&destination, &tool_error));
                }
                self.changes.extend(tool_error.changes);
                self.errors.push((entry.rel, tool_error.message));
            }
        }
    }

    fn observation(self, route: CopyRoute<'_>, operation: &str) -> Observation {
        let is_copied =
            |change: &&FileChange| matches!(change.kind, ChangeKind::Created | ChangeKind::Changed);
        let copied_count = self.changes.iter().filter(is_copied).count();
        let content = json!({
            "success": self.errors.is_empty(),
            "operation": operation,
            "summary": {
                "copied": copied_count,
                "skipped": self.skipped.len(),
                "errors": self.errors.len(),
            },
            "details": route.details(json!({
                "type": "directory",
                "file_count": copied_count,
                "skipped": json_reasons(&self.skipped),
                "errors": json_reasons(&self.errors),
            })),
        });
        let outcome = if self.errors.is_empty() {
            ActionOutcome::Done
        } else {
            ActionOutcome::Failed
        };
        Observation::new(outcome, content.to_string()).with_changes(self.changes)
    }
}

/// Returns the change that reports a name that was not copied because of `tool_error`.
fn uncopied_change(destination: &ResolvedPath, tool_error: &ToolError) -> FileChange {
    let reason = tool_error.message.clone();
    let kind = match tool_error.outcome {
        ActionOutcome::Denied => ChangeKind::Denied { reason },
        ActionOutcome::Done | ActionOutcome::Failed => ChangeKind::Failed { reason },
    };
    FileChange::new(destination.real().clone(), kind)
}

impl CopyRoute<'_> {
    /// Returns `extra_fields` with both ends of the route added.
    fn details(self, extra_fields: Value) -> Value {
        let mut details = json!({
            "source": display_path(self.gate, self.source.real()),
            "destination": display_path(self.gate, self.destination.real()),
        });
        if let (Some(details), Value::Object(extra_fields)) =
            (details.as_object_mut(), extra_fields)
        {
            details.extend(extra_fields);
        }
        details
    }
}

/// Copies one regular file.
pub(super) fn copy_content(
    route: CopyRoute<'_>,
    bytes_left: &mut u64,
) -> Result<FileChange, ToolError> {
    let (gate, source, destination) = (route.gate, route.source, route.destination);
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "copy", source, error);
    let (content, meta) = source.open_file().map_err(tool_error)?;
    let needed_bytes = meta.allocated_bytes.min(meta.version.size_bytes);
    let too_much = FileSystemError::Limit("more than 4 GiB would be copied by one call");
    *bytes_left = bytes_left
        .checked_sub(needed_bytes)
        .ok_or_else(|| tool_error(too_much))?;
    let options = WriteOptions {
        intent: WriteIntent::Overwrite,
        existing: route.existing,
    };
    put(
        gate,
        destination,
        &FileSource::File(&content, &meta),
        options,
    )
}

/// Creates a symlink with the same target. Only a symlink is replaced by it.
pub(super) fn copy_link(route: CopyRoute<'_>) -> Result<FileChange, ToolError> {
    let (gate, source, destination) = (route.gate, route.source, route.destination);
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "copy", source, error);
    let target = source.link_target().map_err(tool_error)?;
    let rel = destination.below();
    let reserve = &gate.policy().disk_reserve;
    reserve
        .expect_room(destination.dir(), 0)
        .map_err(tool_error)?;
    let (dir, name) = destination.dir().make_parent_of(&rel).map_err(tool_error)?;
    let (result, kind) = match (destination.meta(), route.existing) {
        (Err(FileSystemError::Missing), _) => (dir.symlink(name, &target), ChangeKind::Created),
        (Ok(old_meta), ExistingTarget::Overwrite) if old_meta.kind == FileKind::Link => {
            let replacement = replace_link(&dir, name, &target, &old_meta.version);
            (replacement, ChangeKind::Changed)
        }
        (Ok(_), _) => return Err(tool_error(FileSystemError::Exists)),
        (Err(error), _) => return Err(tool_error(error)),
    };
    result.map_err(tool_error)?;
    Ok(FileChange::new(destination.real().clone(), kind))
}

fn make_dir(gate: &Gate, path: &ResolvedPath) -> Result<(), ToolError> {
    let reserve = &gate.policy().disk_reserve;
    let room = reserve.expect_room(path.dir(), 0);
    match room.and_then(|()| path.dir().make_dirs(&path.below())) {
        Ok(_) => Ok(()),
        Err(error) => Err(ToolError::failed_at(gate, "create", path, error)),
    }
}

/// Returns the beginning of a list of names with their reasons.
fn json_reasons(names: &[(RelPath, String)]) -> Value {
    let listed_names = names.iter().take(LISTED_NAMES_MAX).map(|(rel, reason)| {
        let path = display_rel(rel);
        json!({"path": path, "reason": reason})
    });
    listed_names.collect()
}
