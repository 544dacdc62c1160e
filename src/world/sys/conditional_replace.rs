//! Replaces and removes a name only while it still is the version that was inspected. The kernel
//! has no call for that, so the name is moved aside atomically, inspected there, and moved back if
//! it turns out to be what another process has just saved. No content is removed uninspected.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rustix::io::Errno;
use uuid::Uuid;

use crate::path::RelPath;
use crate::permissions::history::FileFingerprint;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;

/// Returns a unique name for a file that is not placed yet or is about to be removed.
pub(crate) fn temporary_name() -> OsString {
    OsString::from(format!(".massgen-{}.tmp", Uuid::new_v4().simple()))
}

/// Moves `temporary` in the directory `staging_dir` to `name` if `expected` is there, and removes
/// `expected`. If anything else is at `name`, both names stay as they are. On a file system that
/// cannot exchange names, there is a short window between the check and the rename.
pub(crate) fn replace_if_unchanged(
    staging_dir: &DirectoryHandle,
    temporary: &OsStr,
    dir: &DirectoryHandle,
    name: &OsStr,
    expected: &FileFingerprint,
) -> Result<(), FileSystemError> {
    match staging_dir.exchange_names(temporary, dir, name) {
        Ok(()) => {}
        Err(FileSystemError::Missing) => return Err(FileSystemError::Changed),
        Err(FileSystemError::System(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)) => {
            return if is_unchanged(dir, name, expected)? {
                staging_dir.rename_over(temporary, dir, name)
            } else {
                Err(FileSystemError::Changed)
            };
        }
        Err(error) => return Err(error),
    }
    if is_unchanged(staging_dir, temporary, expected)? {
        return staging_dir.unlink(temporary);
    }
    staging_dir.exchange_names(temporary, dir, name)?;
    Err(FileSystemError::Changed)
}

/// Replaces the symlink `expected` at `name` with a symlink to `target`.
pub(crate) fn replace_link(
    dir: &DirectoryHandle,
    name: &OsStr,
    target: &Path,
    expected: &FileFingerprint,
) -> Result<(), FileSystemError> {
    let temporary = temporary_name();
    dir.symlink(&temporary, target)?;
    let temporary_version = version(dir, &temporary)?;
    let result = replace_if_unchanged(dir, &temporary, dir, name, expected);
    if result.is_err() {
        remove_if_unchanged(dir, dir, &temporary, &temporary_version)?;
    }
    result
}

/// Removes `name`, which is not a directory, if it still is `expected`. Meanwhile the file is in
/// `staging_dir`, where a killed process leaves it, or in `dir` itself if `staging_dir` is on
/// another file system.
pub(crate) fn remove_if_unchanged(
    dir: &DirectoryHandle,
    staging_dir: &DirectoryHandle,
    name: &OsStr,
    expected: &FileFingerprint,
) -> Result<(), FileSystemError> {
    let temporary = temporary_name();
    let staging_dir = match dir.rename_new(name, staging_dir, &temporary) {
        Err(FileSystemError::Replaced) => {
            dir.rename_new(name, dir, &temporary)?;
            dir
        }
        result => result.map(|()| staging_dir)?,
    };
    if is_unchanged(staging_dir, &temporary, expected)? {
        return staging_dir.unlink(&temporary);
    }
    // If another process has created the name again meanwhile, both files stay.
    let _rename_result = staging_dir.rename_new(&temporary, dir, name);
    Err(FileSystemError::Changed)
}

fn is_unchanged(
    dir: &DirectoryHandle,
    name: &OsStr,
    expected: &FileFingerprint,
) -> Result<bool, FileSystemError> {
    Ok(version(dir, name)?.has_content_of(expected))
}

fn version(dir: &DirectoryHandle, name: &OsStr) -> Result<FileFingerprint, FileSystemError> {
    let rel = RelPath::default()
        .child(name)
        .ok_or(FileSystemError::Missing)?;
    Ok(dir.meta(&rel)?.version)
}
