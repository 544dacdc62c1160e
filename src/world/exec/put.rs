//! The only way in which a file is written: the existing file is checked, the new one is staged
//! next to it, and a rename puts it in place.

use std::ffi::OsStr;

use crate::path::RealPath;
use crate::permissions::grant::GrantKind;
use crate::tools::call::ExistingTarget;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::access::merge_bases::FileAccessReason;
use crate::world::exec::tool_result::ToolError;
use crate::world::exec::write_block::{WriteBlock, WriteIntent, write_block};
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::sys::content::FileContent;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::staged_file::{PlacementDurability, ReplacePolicy, StagedFile};

/// The content of the new file.
#[derive(Debug)]
pub(super) enum FileSource<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// The content of another file; a newly created file gets its permission bits too.
    File(&'a FileContent, &'a FileMetadata),
    /// A file as a command left it: its content, permission bits and modification time, so that
    /// build products stay newer than their sources.
    Layer(&'a FileContent, &'a FileMetadata),
}

impl FileSource<'_> {
    /// Returns the bytes that it takes on the disk, at most.
    fn bytes(&self) -> u64 {
        match self {
            FileSource::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            FileSource::File(_, meta) | FileSource::Layer(_, meta) => {
                meta.allocated_bytes.min(meta.version.size_bytes)
            }
        }
    }
}

/// Options for writing a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteOptions {
    /// What the caller intends to do with an existing file.
    pub(super) intent: WriteIntent,
    /// Whether an existing file may be replaced at all.
    pub(super) existing: ExistingTarget,
}

/// Writes a file to `path`. A file that the user changed in the meantime is left alone, and the
/// agent's version is kept where the policy says.
pub(super) fn put(
    gate: &Gate,
    path: &ResolvedPath,
    source: &FileSource<'_>,
    options: WriteOptions,
) -> Result<FileChange, ToolError> {
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "write", path, error);
    let rel = path.below();
    // What a command wrote is on the disk already, and was watched.
    if !matches!(options.intent, WriteIntent::Commit { .. }) {
        let reserve = &gate.policy().disk_reserve;
        let expect_room = reserve.expect_room(path.dir(), source.bytes());
        expect_room.map_err(tool_error)?;
    }
    let old_meta = existing_file(path).map_err(tool_error)?;
    if let Some(old_meta) = &old_meta {
        if options.existing == ExistingTarget::Keep {
            return Err(tool_error(FileSystemError::Exists));
        }
        if let Some(block) = write_block(gate, path.real(), old_meta, options.intent) {
            return Err(write_refusal(gate, path, source, options.intent, block));
        }
        let reason = match options.intent {
            WriteIntent::Edit(_) => FileAccessReason::Read,
            WriteIntent::Overwrite
            | WriteIntent::Delete
            | WriteIntent::Move
            | WriteIntent::Commit { .. } => FileAccessReason::Change,
        };
        gate.record_base(path, &old_meta.version, reason);
    }
    let seen_version = match options.intent {
        WriteIntent::Edit(version) => Some(version),
        WriteIntent::Overwrite
        | WriteIntent::Delete
        | WriteIntent::Move
        | WriteIntent::Commit { .. } => old_meta.map(|old| old.version),
    };
    if old_meta.map(|old| old.version) != seen_version {
        return Err(tool_error(FileSystemError::Changed));
    }
    let (dir, name) = path.dir().make_parent_of(&rel).map_err(tool_error)?;
    let mut staged_file = stage_file(&dir, source, old_meta.as_ref()).map_err(tool_error)?;
    if let Some(staging_dir) = gate.staging_dir() {
        staged_file = staged_file.with_staging_dir(staging_dir);
    }
    let (replace_policy, kind) = match &seen_version {
        Some(version) => (ReplacePolicy::Only(version), ChangeKind::Changed),
        None => (ReplacePolicy::Nothing, ChangeKind::Created),
    };
    let durability = durability(path, options.intent);
    let user_meta = gate
        .overlay()
        .and_then(|overlay| overlay.user_metadata(path.real()));
    let new_meta = match staged_file.place_at(name, replace_policy, durability) {
        Ok(new_meta) => new_meta,
        Err(FileSystemError::Changed | FileSystemError::Exists)
            if path.grant().kind == GrantKind::Context =>
        {
            let block = WriteBlock::Conflict;
            return Err(write_refusal(gate, path, source, options.intent, block));
        }
        Err(error) => return Err(tool_error(error)),
    };
    let mut history = gate.history();
    // If the user's file looks like the edited one, the agent's version started from it.
    if let (WriteIntent::Edit(seen_version), Some(user_meta)) = (options.intent, user_meta)
        && user_meta.version.size_bytes == seen_version.size_bytes
        && user_meta.version.modified_ns == seen_version.modified_ns
    {
        history.record_base(path.real().clone(), user_meta.version);
    }
    history.record_write(path.real().clone(), new_meta.version);
    Ok(FileChange::new(path.real().clone(), kind))
}

/// Returns the durability of a write: the user's files are on disk before the call returns, except
/// in a commit, which syncs all of them at its end.
fn durability(path: &ResolvedPath, intent: WriteIntent) -> PlacementDurability {
    let is_user_file = path.grant().kind == GrantKind::Context;
    if is_user_file && !matches!(intent, WriteIntent::Commit { .. }) {
        PlacementDurability::Synced
    } else {
        PlacementDurability::Lazy
    }
}

/// Returns the regular file at `path`, if there is one. Anything else there is an error.
fn existing_file(path: &ResolvedPath) -> Result<Option<FileMetadata>, FileSystemError> {
    match path.meta() {
        Ok(meta) => match meta.kind {
            FileKind::File => Ok(Some(meta)),
            FileKind::Directory => Err(FileSystemError::IsDirectory),
            kind @ (FileKind::Link | FileKind::Fifo | FileKind::Socket | FileKind::Device) => {
                Err(FileSystemError::NotRegular(kind))
            }
        },
        Err(FileSystemError::Missing) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stages the new file, with the ownership of the file that it replaces.
fn stage_file<'d>(
    dir: &'d DirectoryHandle,
    source: &FileSource<'_>,
    old_meta: Option<&FileMetadata>,
) -> Result<StagedFile<'d>, FileSystemError> {
    let mut staged_file = match (source, old_meta) {
        (FileSource::Bytes(_), None) => StagedFile::new(dir)?,
        (FileSource::Bytes(_) | FileSource::File(..) | FileSource::Layer(..), _) => {
            StagedFile::new_private(dir)?
        }
    };
    match source {
        FileSource::Bytes(bytes) => staged_file.write(bytes)?,
        FileSource::File(content, meta) | FileSource::Layer(content, meta) => {
            staged_file.copy(content, meta.version.size_bytes)?;
        }
    }
    if let Some(old_meta) = old_meta {
        staged_file.copy_ownership(old_meta)?;
    }
    match (source, old_meta) {
        (FileSource::File(_, meta), None) => staged_file.set_mode(meta.permission_bits())?,
        (FileSource::Bytes(_), _) | (FileSource::File(..), Some(_)) => {}
        (FileSource::Layer(_, meta), _) => {
            let bits = meta.permission_bits();
            if old_meta.is_none_or(|old_meta| old_meta.permission_bits() != bits) {
                staged_file.set_mode(bits)?;
            }
            staged_file.set_modified(meta.version.modified_ns)?;
        }
    }
    Ok(staged_file)
}

/// Returns the error for a write that `block` prevents. If a conflict prevents a new version of a
/// whole file, that version is kept first; of an edit or a removal there is none.
fn write_refusal(
    gate: &Gate,
    path: &ResolvedPath,
    source: &FileSource<'_>,
    intent: WriteIntent,
    block: WriteBlock,
) -> ToolError {
    let tool_error = ToolError::denied(gate, path.real(), block);
    let is_whole_file = matches!(intent, WriteIntent::Overwrite | WriteIntent::Commit { .. });
    if !is_whole_file || block != WriteBlock::Conflict {
        return tool_error;
    }
    match keep_agents_version(gate, path, source) {
        Ok(Some(change)) => tool_error.with_changes(vec![change]),
        Ok(None) => tool_error,
        Err(error) => ToolError::failed_at(gate, "keep our version of", path, error),
    }
}

/// Keeps a version that could not be written, under its full path below the policy's directory.
fn keep_agents_version(
    gate: &Gate,
    target: &ResolvedPath,
    source: &FileSource<'_>,
) -> Result<Option<FileChange>, FileSystemError> {
    let Some(conflicts) = &gate.policy().conflicts else {
        return Ok(None);
    };
    let root = DirectoryHandle::open_root()?;
    let below_root = |path: &RealPath| {
        let top = root.real_path()?;
        path.below(&top).ok_or(FileSystemError::Missing)
    };
    let conflicts_dir = root.make_dirs(&below_root(&conflicts.dir)?)?;
    let rel = below_root(target.real())?;
    let (dir, name): (DirectoryHandle, &OsStr) = conflicts_dir.make_parent_of(&rel)?;
    let staged_file = stage_file(&dir, source, None)?;
    let _placed =
        staged_file.place_at(name, ReplacePolicy::Anything, PlacementDurability::Synced)?;
    Ok(Some(FileChange::new(
        target.real().clone(),
        ChangeKind::Conflict {
            kept: conflicts.dir.join(&rel),
        },
    )))
}
