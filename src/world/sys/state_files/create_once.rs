//! Files that exactly one process creates or moves, also on a network file system. Nothing is ever
//! replaced here.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "only world::sys touches files"
)]

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sys::state_files::dir::UNFINISHED_PREFIX;
use crate::world::sys::state_files::file_error;
use crate::world::sys::state_files::sync::sync_name_of;

/// A file that this process has created, and locks until the value is dropped.
#[derive(Debug)]
pub(crate) struct LockedFile {
    _file: File,
}

/// Creates the file `path` with all of `bytes` and locks it; `None` if it exists already. Others
/// never see it in part or unlocked. When this returns, it survives a power failure.
pub(crate) fn create_once(path: &AbsPath, bytes: &[u8]) -> Result<Option<LockedFile>> {
    create(path, bytes).map_err(|error| file_error("write", path.as_path(), error))
}

fn create(path: &AbsPath, bytes: &[u8]) -> io::Result<Option<LockedFile>> {
    let parent = path.as_path().parent();
    let parent = parent.ok_or(ErrorKind::InvalidInput)?;
    let mut temp = tempfile::Builder::new()
        .prefix(UNFINISHED_PREFIX)
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(parent)?;
    temp.write_all(bytes)?;
    temp.as_file().sync_all()?;
    let (file, temp) = temp.into_parts();
    // On a file system without locks, callers know the owner of the file by other means.
    let _is_locked = file.try_lock().is_ok();
    match fs::hard_link(&temp, path.as_path()) {
        Ok(()) => {}
        // The reply to a successful request may have been lost on the network.
        Err(_) if file.metadata()?.nlink() > 1 => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    }
    sync_name_of(path.as_path())?;
    Ok(Some(LockedFile { _file: file }))
}

/// Moves the file `from` to the free name `to`. Of several processes that move it, exactly one gets
/// `true`; for the others it is not there any more.
pub(crate) fn move_exclusively(from: &AbsPath, to: &AbsPath) -> Result<bool> {
    match fs::rename(from.as_path(), to.as_path()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(file_error("move", from.as_path(), error)),
    }
}
