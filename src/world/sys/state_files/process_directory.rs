//! Directories that a process locks as long as it uses them, and that a later process removes, with
//! whatever else killed processes left unfinished.

use std::time::Duration;

use crate::path::AbsPath;
use crate::world::sys::state_files::dir::{
    DirLockAttempt, UNFINISHED_PREFIX, first_names, is_owned_by_user, try_lock,
};
use crate::world::sys::state_files::disk_usage::unchanged_for;
use crate::world::sys::state_files::{clear, file};

/// How long an unfinished file has not been written to when it is known to be abandoned: massgen
/// writes each within moments.
pub(crate) const ABANDONED_AFTER: Duration = Duration::from_mins(1);
/// Maximum number of names in a directory that are inspected.
const NAMES_MAX: usize = 100_000;

/// Removes the directory `path` if it is the user's and no process has locked it. What cannot be
/// removed stays for the next caller.
pub(crate) fn remove_abandoned(path: &AbsPath) {
    if matches!(is_owned_by_user(path), Ok(true))
        && let Ok(DirLockAttempt::Acquired(lock)) = try_lock(path)
        && lock.is_for(path)
    {
        clear::remove(path).unwrap_or_default();
    }
}

/// Removes the files and directories in `directory` that killed processes left unfinished. What
/// cannot be removed stays for the next caller.
pub(crate) fn sweep(directory: &AbsPath) {
    if !matches!(file::is_directory(directory), Ok(true)) {
        return;
    }
    let names = first_names(directory, NAMES_MAX).unwrap_or_default();
    for name in names {
        let path = directory.join(&name);
        if !name.starts_with(UNFINISHED_PREFIX) {
            continue;
        }
        let Ok(is_directory) = file::is_directory(&path) else {
            continue;
        };
        if is_directory {
            remove_abandoned(&path);
        } else if unchanged_for(&path) > Some(ABANDONED_AFTER) {
            clear::remove(&path).unwrap_or_default();
        }
    }
}
