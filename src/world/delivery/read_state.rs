//! Reads the state of a path in the user's tree.

use std::ffi::OsStr;

use crate::delivery::path_state::{PathState, RegularFileState};
use crate::path::RelPath;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;

/// Returns what exists at `name` in `dir`. A pipe, a socket or a device is an error.
pub(super) fn read_state(
    dir: &DirectoryHandle,
    name: &OsStr,
) -> Result<(PathState, Option<FileMetadata>), FileSystemError> {
    let meta = match FileMetadata::from_name(dir, name) {
        Ok(meta) => meta,
        Err(FileSystemError::Missing) => return Ok((PathState::Nothing, None)),
        Err(error) => return Err(error),
    };
    let state = match meta.kind {
        FileKind::File => file_state(&meta),
        FileKind::Directory => PathState::Directory {
            mode: mode_bits(&meta),
        },
        FileKind::Link => {
            let rel = RelPath::default()
                .child(name)
                .ok_or(FileSystemError::Missing)?;
            PathState::Link {
                target: dir.link_target(&rel)?,
            }
        }
        kind @ (FileKind::Fifo | FileKind::Socket | FileKind::Device) => {
            return Err(FileSystemError::NotRegular(kind));
        }
    };
    Ok((state, Some(meta)))
}

/// Returns the state of a regular file.
pub(super) fn file_state(meta: &FileMetadata) -> PathState {
    PathState::File(RegularFileState {
        inode: Some(meta.version.inode),
        size_bytes: meta.version.size_bytes,
        modified_ns: i64::try_from(meta.version.modified_ns).unwrap_or(i64::MAX),
        mode: mode_bits(meta),
    })
}

/// Returns all permission bits.
pub(super) fn mode_bits(meta: &FileMetadata) -> u32 {
    meta.mode.as_raw_mode() & 0o7777
}
