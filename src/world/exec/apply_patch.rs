//! `apply_patch`: changes of several files in one call. Each file is read and its new text is known
//! before the first one is changed.

use std::collections::BTreeSet;

use crate::tools::call::{DeleteRecursion, ExistingTarget};
use crate::tools::patch::{FilePatch, apply_hunks};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::delete::delete_file;
use crate::world::exec::put::{FileSource, WriteOptions, put};
use crate::world::exec::relocate::move_file;
use crate::world::exec::text;
use crate::world::exec::tool_result::{Observation, ToolError, ToolResult, display_path};
use crate::world::exec::write::EDIT_BYTES_MAX;
use crate::world::exec::write_block::{WriteIntent, write_block};
use crate::world::sys::file_system_error::FileSystemError;

/// Maximum size of all new texts of a patch, in bytes: they are in memory until the first file is
/// changed.
const PATCH_BYTES_MAX: usize = 8 * EDIT_BYTES_MAX;

/// A change that is ready to be made.
enum PatchStep<'p> {
    Put(&'p ResolvedPath, String, WriteOptions),
    Delete(&'p ResolvedPath),
    Move(&'p ResolvedPath, &'p ResolvedPath),
}

/// Implements `apply_patch`.
pub(super) fn apply_patch(gate: &Gate, files: &[FilePatch<ResolvedPath>]) -> ToolResult {
    let (mut steps, mut patched, mut bytes) = (Vec::new(), BTreeSet::new(), 0_usize);
    for file in files {
        let (FilePatch::Add { path, .. }
        | FilePatch::Delete { path }
        | FilePatch::Update { path, .. }) = file;
        if !patched.insert(path.real()) {
            let reason = "the patch names it twice: write its changes below one header";
            return Err(ToolError::failed_at(gate, "patch", path, reason));
        }
        let planned = steps.len();
        plan(gate, file, &mut steps)?;
        for step in steps.iter().skip(planned) {
            if let PatchStep::Put(_, text, _) = step {
                bytes = bytes.saturating_add(text.len());
            }
        }
        if bytes > PATCH_BYTES_MAX {
            let reason = "the files of the patch are too large together: use several patches";
            return Err(ToolError::failed_at(gate, "patch", path, reason));
        }
    }
    let (mut content, mut changes) = (String::new(), Vec::new());
    for step in &steps {
        match carry_out(gate, step) {
            Ok(observation) => {
                content.push_str(&observation.content);
                changes.extend(observation.changes);
            }
            Err(error) => return Err(error.with_changes(changes)),
        }
    }
    Ok(Observation::done(content).with_changes(changes))
}

/// Adds the steps of the patch of one file.
fn plan<'p>(
    gate: &Gate,
    file: &'p FilePatch<ResolvedPath>,
    steps: &mut Vec<PatchStep<'p>>,
) -> Result<(), ToolError> {
    match file {
        FilePatch::Add { path, content } => {
            if path.meta().is_ok() {
                let error = FileSystemError::Exists;
                return Err(ToolError::failed_at(gate, "add", path, error));
            }
            let options = WriteOptions {
                intent: WriteIntent::Overwrite,
                existing: ExistingTarget::Keep,
            };
            steps.push(PatchStep::Put(path, content.clone(), options));
        }
        FilePatch::Delete { path } => {
            expect_removable(gate, path, WriteIntent::Delete)?;
            steps.push(PatchStep::Delete(path));
        }
        FilePatch::Update {
            path,
            destination,
            hunks,
        } => {
            let (old, meta) = text::open_whole(gate, "patch", path, EDIT_BYTES_MAX)?;
            let new = apply_hunks(&old, hunks)
                .map_err(|reason| ToolError::failed_at(gate, "patch", path, reason))?;
            if new != old {
                let options = WriteOptions {
                    intent: WriteIntent::Edit(meta.version),
                    existing: ExistingTarget::Overwrite,
                };
                steps.push(PatchStep::Put(path, new, options));
            }
            if let Some(destination) = destination {
                expect_removable(gate, path, WriteIntent::Move)?;
                steps.push(PatchStep::Move(path, destination));
            }
        }
    }
    Ok(())
}

/// Refuses a file that may not be removed from its place.
fn expect_removable(
    gate: &Gate,
    path: &ResolvedPath,
    intent: WriteIntent,
) -> Result<(), ToolError> {
    let meta = path.meta();
    let meta = meta.map_err(|error| ToolError::failed_at(gate, "patch", path, error))?;
    match write_block(gate, path.real(), &meta, intent) {
        Some(block) => Err(ToolError::denied(gate, path.real(), block)),
        None => Ok(()),
    }
}

fn carry_out(gate: &Gate, step: &PatchStep<'_>) -> ToolResult {
    match step {
        PatchStep::Put(path, content, options) => {
            let change = put(gate, path, &FileSource::Bytes(content.as_bytes()), *options)?;
            let line = format!("wrote {}\n", display_path(gate, path.real()));
            Ok(Observation::done(line).with_changes(vec![change]))
        }
        PatchStep::Delete(path) => {
            let changes = delete_file(gate, path, DeleteRecursion::EmptyOnly)?.changes;
            let line = format!("deleted {}\n", display_path(gate, path.real()));
            Ok(Observation::done(line).with_changes(changes))
        }
        PatchStep::Move(from, to) => move_file(gate, from, to),
    }
}
