//! Owns replacing and removing a name only while it is still what was looked at. The kernel has no
//! call for that, so the name is taken aside in one step, looked at there, and put back if it turns
//! out to be what somebody else has just saved. Nobody's bytes are removed unseen.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rustix::io::Errno;
use uuid::Uuid;

use crate::path::RelPath;
use crate::permissions::history::FileFingerprint;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;

/// A name that nobody else uses, for what has no place yet or is about to go.
pub(crate) fn temporary_name() -> OsString {
    OsString::from(format!(".massgen-{}.tmp", Uuid::new_v4().simple()))
}

/// Puts `temporary`, a name in a directory, at `name`, where `expected` stands, and removes that. If
/// something else stands there, it stays, and `temporary` too. A file system that cannot exchange
/// names leaves a short time between looking and renaming.
pub(crate) fn replace_if_unchanged(
    dir: &DirectoryHandle,
    temporary: (&DirectoryHandle, &OsStr),
    name: &OsStr,
    expected: &FileFingerprint,
) -> Result<(), FileSystemError> {
    let (aside, temporary) = temporary;
    match aside.exchange_names(temporary, dir, name) {
        Ok(()) => {}
        Err(FileSystemError::Missing) => return Err(FileSystemError::Changed),
        Err(FileSystemError::System(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)) => {
            return if is_unchanged(dir, name, expected)? {
                aside.rename_over(temporary, dir, name)
            } else {
                Err(FileSystemError::Changed)
            };
        }
        Err(fault) => return Err(fault),
    }
    if is_unchanged(aside, temporary, expected)? {
        return aside.unlink(temporary);
    }
    aside.exchange_names(temporary, dir, name)?;
    Err(FileSystemError::Changed)
}

/// Makes a link that holds `target` at `name`, in the place of the link `expected`.
pub(crate) fn replace_link(
    dir: &DirectoryHandle,
    name: &OsStr,
    target: &Path,
    expected: &FileFingerprint,
) -> Result<(), FileSystemError> {
    let temporary = temporary_name();
    dir.symlink(&temporary, target)?;
    let ours = version(dir, &temporary)?;
    let replaced = replace_if_unchanged(dir, (dir, &temporary), name, expected);
    if replaced.is_err() {
        remove_if_unchanged(dir, dir, &temporary, &ours)?;
    }
    replaced
}

/// Removes `name`, which is no directory, if `expected` still stands there. Meanwhile it is in
/// `aside`, where a process that is killed leaves it; in `dir` itself if that is elsewhere.
pub(crate) fn remove_if_unchanged(
    dir: &DirectoryHandle,
    aside: &DirectoryHandle,
    name: &OsStr,
    expected: &FileFingerprint,
) -> Result<(), FileSystemError> {
    let temporary = temporary_name();
    let aside = match dir.rename_new(name, aside, &temporary) {
        Err(FileSystemError::Replaced) => {
            dir.rename_new(name, dir, &temporary)?;
            dir
        }
        moved => moved.map(|()| aside)?,
    };
    if is_unchanged(aside, &temporary, expected)? {
        return aside.unlink(&temporary);
    }
    // If somebody has made the name anew by now, both stay.
    let _put_back = aside.rename_new(&temporary, dir, name);
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
