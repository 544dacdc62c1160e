//! Directories that a process locks as long as it uses them, and that a later process removes.

use crate::path::AbsPath;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{DirLockAttempt, is_owned_by_user, try_lock};

/// Locks the directory `path`, which the caller has just created. It is `Taken` if another process
/// took it for an abandoned one meanwhile: then the caller creates another.
pub(crate) fn lock_new(path: &AbsPath) -> DirLockAttempt {
    match try_lock(path) {
        Ok(DirLockAttempt::Acquired(lock)) if !lock.is_for(path) => DirLockAttempt::Taken,
        Ok(attempt) => attempt,
        Err(_) => DirLockAttempt::Taken,
    }
}

/// Removes the directory `path` if it is the user's, no process has locked it, and `is_used` does
/// not know of another use. What cannot be removed stays for the next caller.
pub(crate) fn remove_abandoned(path: &AbsPath, is_used: impl FnOnce(&AbsPath) -> bool) {
    if is_owned_by_user(path)
        && let Ok(DirLockAttempt::Acquired(lock)) = try_lock(path)
        && lock.is_for(path)
        && !is_used(path)
    {
        clear::remove(path).unwrap_or_default();
    }
}
