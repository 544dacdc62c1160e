//! Applies each name of a layer to the user's tree: creates a file, symlink or directory there, or
//! removes what exists. An existing name of a different kind is removed first.

use std::collections::BTreeSet;

use crate::path::RelPath;
use crate::tools::call::ExistingTarget;
use crate::world::access::gate::ResolvedPath;
use crate::world::exec::commit::LayerCommit;
use crate::world::exec::compare::has_same_bytes;
use crate::world::exec::delete::{plan_removal, remove_name, remove_tree};
use crate::world::exec::put::{FileSource, WriteOptions, put};
use crate::world::exec::tool_result::ToolError;
use crate::world::exec::write_block::write_block;
use crate::world::io::file_change::ChangeKind;
use crate::world::sys::conditional_replace::replace_link;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::upper_layer::{UpperEntry, make_readable, read_upper_entry};

/// What a directory of the layer does to the contents of the directory below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectoryOpacity {
    /// They show through.
    Transparent,
    /// They are removed.
    Opaque,
}

/// What exists at the path where something is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetOccupancy {
    /// Nothing.
    Free,
    /// Something of the same kind.
    Taken,
}

impl LayerCommit<'_> {
    /// Applies one name and records the result.
    pub(super) fn commit_name(&mut self, rel: &RelPath) {
        let path = self.root.join(rel);
        if let Err(tool_error) = self.apply_name(rel, &path) {
            self.command_changes.record_error(path.real(), tool_error);
        }
    }

    fn apply_name(&mut self, rel: &RelPath, path: &ResolvedPath) -> Result<(), ToolError> {
        let tool_error = |error: FileSystemError| {
            ToolError::failed_at(self.gate, "apply the change to", path, error)
        };
        let entry = make_readable(self.upper, rel).and_then(|()| read_upper_entry(self.upper, rel));
        match entry.map_err(tool_error)? {
            UpperEntry::Removed => self.remove(path),
            // Its contents follow, name by name.
            UpperEntry::MergedDirectory(_) => Ok(()),
            UpperEntry::NewDirectory(meta) => {
                self.make_dir(rel, path, &meta, DirectoryOpacity::Transparent)
            }
            UpperEntry::OpaqueDirectory(meta) => {
                self.make_dir(rel, path, &meta, DirectoryOpacity::Opaque)
            }
            UpperEntry::File(meta) => self.put_file(rel, path, &meta),
            UpperEntry::Link => self.put_link(rel, path),
            UpperEntry::Special(kind) => {
                self.command_changes
                    .record_omission(path.real(), format!("it is {kind}"));
                Ok(())
            }
        }
    }

    /// Creates the directory and removes what it hides. Its contents follow later, name by name.
    fn make_dir(
        &mut self,
        rel: &RelPath,
        path: &ResolvedPath,
        meta: &FileMetadata,
        opacity: DirectoryOpacity,
    ) -> Result<(), ToolError> {
        let tool_error =
            |error: FileSystemError| ToolError::failed_at(self.gate, "create", path, error);
        let parent = rel.parent().unwrap_or_default();
        // A directory in an opaque one need not be marked itself to hide what the user has there.
        let is_opaque = opacity == DirectoryOpacity::Opaque || self.opaque_dirs.contains(&parent);
        if is_opaque {
            self.opaque_dirs.insert(rel.clone());
        }
        if self.clear_target(path, FileKind::Directory)? == TargetOccupancy::Free {
            let rel = path.below();
            let (dir, name) = path.dir().make_parent_of(&rel).map_err(tool_error)?;
            return dir.make_dir(name, meta).map_err(tool_error);
        }
        if is_opaque {
            self.remove_hidden(rel, path)?;
        }
        Ok(())
    }

    /// Removes what is in the user's directory and not in the one that hides it.
    fn remove_hidden(&mut self, rel: &RelPath, path: &ResolvedPath) -> Result<(), ToolError> {
        let tool_error =
            |error: FileSystemError| ToolError::failed_at(self.gate, "list", path, error);
        let entries_of =
            |dir: &DirectoryHandle, rel: &RelPath| dir.dir(rel).and_then(|dir| dir.entries());
        let upper_entries = entries_of(self.upper, rel).map_err(tool_error)?;
        let upper_names: BTreeSet<_> = upper_entries.into_iter().map(|entry| entry.name).collect();
        for entry in entries_of(path.dir(), &path.below()).map_err(tool_error)? {
            let Some(rel) = rel.child(&entry.name) else {
                continue;
            };
            let path = self.root.join(&rel);
            if upper_names.contains(&entry.name) {
                continue;
            }
            if let Some(reason) = self.closed_reason(&rel) {
                self.record_denial(&rel, reason);
            } else if let Err(tool_error) = self.remove(&path) {
                self.command_changes.record_error(path.real(), tool_error);
            }
        }
        Ok(())
    }

    fn put_file(
        &mut self,
        rel: &RelPath,
        path: &ResolvedPath,
        meta: &FileMetadata,
    ) -> Result<(), ToolError> {
        let tool_error = |error: FileSystemError| {
            ToolError::failed_at(self.gate, "apply the change to", path, error)
        };
        // A file that is too large or cannot be read must not cost the user what it would replace:
        // both are found out before the removal.
        // Neither the holes of a sparse file count nor the unused end of its last block.
        let needed_bytes = meta.allocated_bytes.min(meta.version.size_bytes);
        let too_much = FileSystemError::Limit("one command changed more than 4 GiB");
        self.bytes_left = self
            .bytes_left
            .checked_sub(needed_bytes)
            .ok_or_else(|| tool_error(too_much))?;
        let (content, meta) = self.upper.open_file(rel).map_err(tool_error)?;
        let occupancy = self.clear_target(path, FileKind::File)?;
        if occupancy == TargetOccupancy::Taken
            && self.has_same_content(rel, path).map_err(tool_error)?
        {
            return Ok(());
        }
        let options = WriteOptions {
            intent: self.intent,
            existing: ExistingTarget::Overwrite,
        };
        let change = put(
            self.gate,
            path,
            &FileSource::Layer(&content, &meta),
            options,
        )?;
        self.command_changes.changes.push(change);
        Ok(())
    }

    /// Returns whether the file of the layer has the content and the permission bits of the user's,
    /// as when a command only opened or touched it.
    fn has_same_content(
        &self,
        rel: &RelPath,
        path: &ResolvedPath,
    ) -> Result<bool, FileSystemError> {
        let (layer_content, layer_meta) = self.upper.open_file(rel)?;
        let (user_content, user_meta) = path.open_file()?;
        let size_bytes = layer_meta.version.size_bytes;
        let looks_same = size_bytes == user_meta.version.size_bytes
            && layer_meta.permission_bits() == user_meta.permission_bits();
        Ok(looks_same && has_same_bytes(layer_content, user_content, size_bytes)?)
    }

    fn put_link(&mut self, rel: &RelPath, path: &ResolvedPath) -> Result<(), ToolError> {
        let tool_error = |error: FileSystemError| {
            ToolError::failed_at(self.gate, "apply the change to", path, error)
        };
        let target = self.upper.link_target(rel).map_err(tool_error)?;
        let occupancy = self.clear_target(path, FileKind::Link)?;
        let rel_below = path.below();
        let (dir, name) = path.dir().make_parent_of(&rel_below).map_err(tool_error)?;
        let kind = match occupancy {
            TargetOccupancy::Free => {
                dir.symlink(name, &target).map_err(tool_error)?;
                ChangeKind::Created
            }
            TargetOccupancy::Taken => {
                if path.dir().link_target(&rel_below).map_err(tool_error)? == target {
                    return Ok(());
                }
                let old_meta = path.dir().meta(&rel_below).map_err(tool_error)?;
                if let Some(block) = write_block(self.gate, path.real(), &old_meta, self.intent) {
                    return Err(ToolError::denied(self.gate, path.real(), block));
                }
                replace_link(&dir, name, &target, &old_meta.version).map_err(tool_error)?;
                ChangeKind::Changed
            }
        };
        self.command_changes.record_change(path.real(), kind);
        Ok(())
    }

    /// Removes what exists at `path` unless it is of this kind.
    fn clear_target(
        &mut self,
        path: &ResolvedPath,
        kind: FileKind,
    ) -> Result<TargetOccupancy, ToolError> {
        match path.meta() {
            Ok(meta) if meta.kind == kind => Ok(TargetOccupancy::Taken),
            Err(FileSystemError::Missing) => Ok(TargetOccupancy::Free),
            Ok(_) => self.remove(path).map(|()| TargetOccupancy::Free),
            Err(error) => Err(ToolError::failed_at(self.gate, "look at", path, error)),
        }
    }

    /// Removes what exists at `path`; a directory is removed with all its contents, or not at all.
    fn remove(&mut self, path: &ResolvedPath) -> Result<(), ToolError> {
        let gate = self.gate;
        let meta = match path.meta() {
            Ok(meta) => meta,
            Err(FileSystemError::Missing) => return Ok(()),
            Err(error) => return Err(ToolError::failed_at(gate, "delete", path, error)),
        };
        if meta.kind == FileKind::Directory {
            if gate.manager().contains_grant_root(path.real()) {
                let reason = "it holds a directory that was opened to you as a whole";
                return Err(ToolError::denied(gate, path.real(), reason));
            }
            let pending_deletes = plan_removal(gate, path, self.intent)?;
            self.command_changes
                .changes
                .extend(remove_tree(gate, path, &pending_deletes)?);
            return Ok(());
        }
        if let Some(block) = write_block(gate, path.real(), &meta, self.intent) {
            return Err(ToolError::denied(gate, path.real(), block));
        }
        self.command_changes
            .changes
            .push(remove_name(gate, path, &meta.version)?);
        Ok(())
    }
}
