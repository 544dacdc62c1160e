//! Owns the one way in which a file comes to be at a place: what stands there is looked at with
//! care, the new file is staged beside it, and a rename puts it there.

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
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::{FileKind, FileMetadata};
use crate::world::sys::staged_file::{PlacementDurability, ReplacePolicy, StagedFile};

/// What a file is filled with.
#[derive(Debug)]
pub(super) enum FileSource<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// What another file holds; a new file takes over that one's permission bits.
    File(&'a FileContent, &'a FileMetadata),
    /// What a command made of a file: its content, its permission bits, and when it last changed,
    /// so that what was built stays newer than what it was built from.
    Layer(&'a FileContent, &'a FileMetadata),
}

/// How a file is put at a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteOptions {
    /// What the caller means to do to a file that stands there.
    pub(super) intent: WriteIntent,
    /// Whether it may be replaced at all.
    pub(super) existing: ExistingTarget,
}

/// Puts a file at `place`. A place that the user changed meanwhile is left alone, and our version
/// is kept where the policy says.
pub(super) fn put(
    gate: &Gate,
    place: &ResolvedPath,
    source: &FileSource<'_>,
    manner: WriteOptions,
) -> Result<FileChange, ToolError> {
    let stop = |fault: FileSystemError| ToolError::failed_at(gate, "write", place, fault);
    let below = place.below();
    let old = existing_file(place).map_err(stop)?;
    if let Some(old) = &old {
        if manner.existing == ExistingTarget::Keep {
            return Err(stop(FileSystemError::Exists));
        }
        if let Some(why) = write_block(gate, place.real(), old, manner.intent) {
            return Err(write_refusal(gate, place, source, manner.intent, why));
        }
        let occasion = match manner.intent {
            WriteIntent::Edit(_) => FileAccessReason::Read,
            WriteIntent::Overwrite
            | WriteIntent::Delete
            | WriteIntent::Move
            | WriteIntent::Commit { .. } => FileAccessReason::Change,
        };
        gate.record_base(place, &old.version, occasion);
    }
    let seen = match manner.intent {
        WriteIntent::Edit(version) => Some(version),
        WriteIntent::Overwrite
        | WriteIntent::Delete
        | WriteIntent::Move
        | WriteIntent::Commit { .. } => old.map(|old| old.version),
    };
    if old.map(|old| old.version) != seen {
        return Err(stop(FileSystemError::Changed));
    }
    let (dir, name) = place.dir().make_parent_of(&below).map_err(stop)?;
    let mut staged = stage_file(&dir, source, old.as_ref()).map_err(stop)?;
    if let Some(aside) = gate.staging_dir() {
        staged = staged.with_waiting_directory(aside);
    }
    let (over, kind) = match &seen {
        Some(version) => (ReplacePolicy::Only(version), ChangeKind::Changed),
        None => (ReplacePolicy::Nothing, ChangeKind::Created),
    };
    let durability = durability(place, manner.intent);
    let users = gate
        .overlay()
        .and_then(|stage| stage.user_metadata(place.real()));
    let new = match staged.place_at(name, over, durability) {
        Ok(new) => new,
        Err(FileSystemError::Changed | FileSystemError::Exists)
            if place.grant().kind == GrantKind::Context =>
        {
            let why = WriteBlock::Conflict;
            return Err(write_refusal(gate, place, source, manner.intent, why));
        }
        Err(fault) => return Err(stop(fault)),
    };
    let mut history = gate.history();
    if let (WriteIntent::Edit(seen), Some(users)) = (manner.intent, users)
        && users.version.size_bytes == seen.size_bytes
        && users.version.modified_ns == seen.modified_ns
    {
        history.record_base(place.real().clone(), users.version);
    }
    history.record_write(place.real().clone(), new.version);
    Ok(FileChange {
        path: place.real().clone(),
        kind,
    })
}

/// What the user gets is on the disk before the call returns; of a commit, all together at its end.
fn durability(place: &ResolvedPath, intent: WriteIntent) -> PlacementDurability {
    let is_users = place.grant().kind == GrantKind::Context;
    if is_users && !matches!(intent, WriteIntent::Commit { .. }) {
        PlacementDurability::Synced
    } else {
        PlacementDurability::Lazy
    }
}

/// The regular file at `place`, if one is there. Anything else that is there is a fault.
fn existing_file(place: &ResolvedPath) -> Result<Option<FileMetadata>, FileSystemError> {
    match place.dir().meta(&place.below()) {
        Ok(meta) => match meta.kind {
            FileKind::File => Ok(Some(meta)),
            FileKind::Directory => Err(FileSystemError::IsDirectory),
            kind @ (FileKind::Link | FileKind::Fifo | FileKind::Socket | FileKind::Device) => {
                Err(FileSystemError::NotRegular(kind))
            }
        },
        Err(FileSystemError::Missing) => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn stage_file<'d>(
    dir: &'d DirectoryHandle,
    source: &FileSource<'_>,
    replaced: Option<&FileMetadata>,
) -> Result<StagedFile<'d>, FileSystemError> {
    let mut staged = match (source, replaced) {
        (FileSource::Bytes(_), None) => StagedFile::new(dir)?,
        (FileSource::Bytes(_) | FileSource::File(..) | FileSource::Layer(..), _) => {
            StagedFile::new_private(dir)?
        }
    };
    match source {
        FileSource::Bytes(bytes) => staged.write(bytes)?,
        FileSource::File(content, meta) | FileSource::Layer(content, meta) => {
            staged.copy(content, meta.version.size_bytes)?;
        }
    }
    if let Some(old) = replaced {
        staged.copy_ownership(old)?;
    }
    match (source, replaced) {
        (FileSource::File(_, meta), None) => staged.set_mode(meta.permission_bits())?,
        (FileSource::Bytes(_), _) | (FileSource::File(..), Some(_)) => {}
        (FileSource::Layer(_, meta), _) => {
            let bits = meta.permission_bits();
            if replaced.is_none_or(|old| old.permission_bits() != bits) {
                staged.set_mode(bits)?;
            }
            staged.set_modified(meta.version.modified_ns)?;
        }
    }
    Ok(staged)
}

fn write_refusal(
    gate: &Gate,
    place: &ResolvedPath,
    source: &FileSource<'_>,
    intent: WriteIntent,
    why: WriteBlock,
) -> ToolError {
    let stop = ToolError::denied(gate, place.real(), why);
    let is_whole = matches!(intent, WriteIntent::Overwrite | WriteIntent::Commit { .. });
    if !is_whole || why != WriteBlock::Conflict {
        return stop;
    }
    match keep_ours(gate, place, source) {
        Ok(Some(change)) => stop.with_changes(vec![change]),
        Ok(None) => stop,
        Err(fault) => ToolError::failed_at(gate, "keep our version of", place, fault),
    }
}

/// Keeps what could not be written, under its whole path below the directory of the policy.
fn keep_ours(
    gate: &Gate,
    place: &ResolvedPath,
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
    let kept_in = root.make_dirs(&below_root(&conflicts.kept_in)?)?;
    let rel = below_root(place.real())?;
    let (dir, name): (DirectoryHandle, &OsStr) = kept_in.make_parent_of(&rel)?;
    let staged = stage_file(&dir, source, None)?;
    let _placed = staged.place_at(name, ReplacePolicy::Anything, PlacementDurability::Synced)?;
    Ok(Some(FileChange {
        path: place.real().clone(),
        kind: ChangeKind::Conflict {
            kept: conflicts.kept_in.join(&rel),
        },
    }))
}
