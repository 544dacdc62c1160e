//! massgen's own directories: creates them, publishes them atomically, and locks one for a run. It
//! must never remove anything but an empty directory, or a staging directory that was never
//! published.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "only world::sys touches files"
)]

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::path::{AbsPath, RealPath};
use crate::world::sys::state_files::exclusive_lock::{CHECKS_TIME_MAX, try_lock_exclusive};
use crate::world::sys::state_files::sync::{sync_directory, sync_tree};
use crate::world::sys::state_files::{file_error, found, random_digits};

/// How often a random name is tried before giving up.
const UNIQUE_TRIES_MAX: u32 = 16;

/// Who may access a directory that is created.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DirectoryAudience {
    /// The user alone.
    User,
    /// Everyone whom the user's umask admits.
    Umask,
}

/// Returns whether every user may create files in the directory `path`.
pub(crate) fn is_writable_by_everyone(path: &AbsPath) -> bool {
    const EVERYBODY_WRITES: u32 = 0o002;
    let metadata = fs::metadata(path.as_path());
    metadata.is_ok_and(|metadata| metadata.permissions().mode() & EVERYBODY_WRITES != 0)
}

/// Creates `path` and every missing directory above it.
pub(crate) fn create_all(path: &AbsPath, audience: DirectoryAudience) -> Result<()> {
    let mode = match audience {
        DirectoryAudience::User => 0o700,
        DirectoryAudience::Umask => 0o777,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path.as_path())
        .map_err(|error| file_error("create the directory", path.as_path(), error))
}

/// Whether a directory was created or existed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryCreation {
    /// It is new and ours.
    Created,
    /// Another process created it before.
    Existed,
}

/// Creates the directory `path`, whose parent exists, for the user alone.
pub(crate) fn create(path: &AbsPath) -> Result<DirectoryCreation> {
    match DirBuilder::new().mode(0o700).create(path.as_path()) {
        Ok(()) => Ok(DirectoryCreation::Created),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(DirectoryCreation::Existed),
        Err(error) => Err(file_error("create the directory", path.as_path(), error)),
    }
}

/// Creates a directory with a unique name in `parent`: `stem` and random digits.
pub(crate) fn create_unique(parent: &AbsPath, stem: &str, digits: usize) -> Result<AbsPath> {
    create_all(parent, DirectoryAudience::User)?;
    for _ in 0..UNIQUE_TRIES_MAX {
        let path = parent.join(format!("{stem}{}", random_digits(digits)));
        if create(&path)? == DirectoryCreation::Created {
            return Ok(path);
        }
    }
    Err(no_free_name_error(parent, stem))
}

/// Returns a path in `parent` where nothing exists: its name is `stem` and random digits.
pub(crate) fn unused_path(parent: &AbsPath, stem: &str, digits: usize) -> Result<AbsPath> {
    let mut paths =
        (0..UNIQUE_TRIES_MAX).map(|_| parent.join(format!("{stem}{}", random_digits(digits))));
    let unused_path = paths.find(|path| fs::symlink_metadata(path.as_path()).is_err());
    unused_path.ok_or_else(|| no_free_name_error(parent, stem))
}

fn no_free_name_error(parent: &AbsPath, stem: &str) -> Error {
    Error::io(
        format!("cannot find a free name for `{stem}` in `{parent}`"),
        io::Error::from(ErrorKind::AlreadyExists),
    )
    .with_hint("remove files that are no longer needed there")
}

/// Returns the canonical path of the directory `path`.
pub(crate) fn resolve(path: &AbsPath) -> Result<RealPath> {
    fs::canonicalize(path.as_path())
        .map(RealPath::vouch)
        .map_err(|error| file_error("follow", path.as_path(), error))
}

/// Moves `from` to `to` atomically; the only thing it can replace is an empty directory.
fn move_to(from: &AbsPath, to: &AbsPath) -> Result<()> {
    fs::rename(from.as_path(), to.as_path())
        .map_err(|error| file_error("move into place", to.as_path(), error))
}

/// Moves `from` to `to` atomically, if `from` exists.
pub(crate) fn move_if_exists(from: &AbsPath, to: &AbsPath) -> Result<()> {
    match fs::symlink_metadata(from.as_path()) {
        Ok(_) => move_to(from, to),
        Err(_) => Ok(()),
    }
}

/// Removes `path` if it is an empty directory; anything else stays.
pub(crate) fn remove_empty(path: &AbsPath) {
    drop(fs::remove_dir(path.as_path()));
}

/// Returns the names in the directory `path` that are valid UTF-8, in no particular order.
pub(crate) fn names(path: &AbsPath) -> Result<Vec<String>> {
    first_names(path, usize::MAX)
}

/// Like [`names`], but reads only the first `count_max` entries.
pub(crate) fn first_names(path: &AbsPath, count_max: usize) -> Result<Vec<String>> {
    let read_error = |error| file_error("read", path.as_path(), error);
    let entries = fs::read_dir(path.as_path()).map_err(read_error)?;
    let mut names = Vec::new();
    for entry in entries.take(count_max) {
        names.extend(entry.map_err(read_error)?.file_name().into_string());
    }
    Ok(names)
}

/// Like [`names`], but empty if `path` does not exist. A directory that cannot be inspected is an
/// error: that is not the same as a missing one.
pub(crate) fn names_if_exists(path: &AbsPath) -> Result<Vec<String>> {
    match fs::metadata(path.as_path()) {
        Ok(_) => names(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(file_error("read", path.as_path(), error)),
    }
}

/// Returns whether `path` is a directory, and not a symlink to one, that belongs to the user.
pub(crate) fn is_owned_by_user(path: &AbsPath) -> Result<bool> {
    let metadata = found(path, fs::symlink_metadata(path.as_path()))?;
    let is_own = |metadata: fs::Metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw();
    Ok(metadata.is_some_and(is_own))
}

/// Returns whether nobody else owns the directory `path`. For root, who often works in the directory
/// of another user, as in a container, that is always so.
pub(crate) fn has_trusted_owner(path: &AbsPath) -> Result<bool> {
    let metadata = found(path, fs::symlink_metadata(path.as_path()))?;
    let user = geteuid();
    Ok(metadata.is_none_or(|metadata| user.is_root() || metadata.uid() == user.as_raw()))
}

/// The prefix of the names of unfinished files and directories, and of those being removed.
pub(crate) const UNFINISHED_PREFIX: &str = ".massgen-";

/// A directory under construction. On drop it is removed with everything in it, unless it was
/// published. It is locked meanwhile: what a killed process left is not.
#[derive(Debug)]
pub(crate) struct StagingDirectory {
    dir: TempDir,
    path: AbsPath,
    _lock: Option<DirLock>,
}

impl StagingDirectory {
    /// Creates an empty directory in `parent`, with a hidden, unpredictable name.
    pub(crate) fn new(parent: &AbsPath) -> Result<Self> {
        Self::with_prefix(parent, UNFINISHED_PREFIX)
    }

    /// Creates an empty directory in `parent`, whose name begins with `prefix`.
    pub(crate) fn with_prefix(parent: &AbsPath, prefix: &str) -> Result<Self> {
        let failed = |error| file_error("create a directory in", parent.as_path(), error);
        for _ in 0..UNIQUE_TRIES_MAX {
            let dir = tempfile::Builder::new()
                .prefix(prefix)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(parent.as_path())
                .map_err(failed)?;
            let path = parent.join(dir.path());
            let lock = match lock_new(&path) {
                DirLockAttempt::Acquired(lock) => Some(lock),
                DirLockAttempt::Unsupported => None,
                DirLockAttempt::Taken => continue,
            };
            return Ok(Self {
                dir,
                path,
                _lock: lock,
            });
        }
        Err(no_free_name_error(parent, prefix))
    }

    /// Returns its path while it is under construction.
    pub(crate) fn path(&self) -> &AbsPath {
        &self.path
    }

    /// Keeps it where it is.
    pub(crate) fn keep(mut self) -> AbsPath {
        self.dir.disable_cleanup(true);
        self.path.clone()
    }

    /// Publishes it as `to` atomically. An existing `to` is an error, unless it is an empty
    /// directory. When this returns, all of it survives a power failure.
    pub(crate) fn publish(mut self, to: &AbsPath) -> Result<()> {
        sync_tree(&self.path)?;
        move_to(&self.path, to)?;
        self.dir.disable_cleanup(true);
        to.parent().map_or(Ok(()), |parent| sync_directory(&parent))
    }
}

/// A lock on a directory against other runs of massgen; released on drop.
#[derive(Debug)]
pub(crate) struct DirLock {
    file: File,
}

impl DirLock {
    /// Returns whether the locked directory still is the one at `path`.
    pub(crate) fn is_for(&self, path: &AbsPath) -> bool {
        let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let locked = self.file.metadata().map(identity);
        let current = fs::symlink_metadata(path.as_path()).map(identity);
        matches!((locked, current), (Ok(locked), Ok(current)) if locked == current)
    }
}

/// The result of an attempt to lock a directory.
#[derive(Debug)]
pub(crate) enum DirLockAttempt {
    /// The lock was acquired.
    Acquired(DirLock),
    /// Another run, or another agent of this one, holds it.
    Taken,
    /// The file system does not support locks.
    Unsupported,
}

/// Tries to lock the directory `path`; nothing is written into it. It waits for other processes
/// that check whether it [is locked](is_locked), and for no others.
pub(crate) fn try_lock(path: &AbsPath) -> Result<DirLockAttempt> {
    try_lock_with(path, |file| try_lock_exclusive(file, CHECKS_TIME_MAX))
}

/// Locks the directory `path`, which the caller has just created. It is `Taken` if another process
/// took it for an abandoned one meanwhile: then the caller creates another.
pub(crate) fn lock_new(path: &AbsPath) -> DirLockAttempt {
    match try_lock(path) {
        Ok(DirLockAttempt::Acquired(lock)) if !lock.is_for(path) => DirLockAttempt::Taken,
        Ok(attempt) => attempt,
        Err(_) => DirLockAttempt::Taken,
    }
}

/// Like [`try_lock`], where processes hold shared locks for long: it waits for none.
pub(crate) fn try_lock_at_once(path: &AbsPath) -> Result<DirLockAttempt> {
    try_lock_with(path, File::try_lock)
}

/// Returns whether a process has locked the directory `path` with [`try_lock`]. Processes that lock
/// or check it meanwhile are not affected. A missing directory is not locked.
pub(crate) fn is_locked(path: &AbsPath) -> Result<bool> {
    let file = found(path, File::open(path.as_path()))?;
    let lock_result = file.map(|file| file.try_lock_shared());
    Ok(matches!(lock_result, Some(Err(TryLockError::WouldBlock))))
}

/// Tries to lock the directory `path` in shared mode; [`try_lock`] waits for it.
pub(crate) fn try_lock_shared(path: &AbsPath) -> Result<DirLockAttempt> {
    try_lock_with(path, File::try_lock_shared)
}

/// Waits until the lock on the directory `path` is free, and acquires it; `None` where the file
/// system does not support locks.
pub(crate) fn lock(path: &AbsPath) -> Result<Option<DirLock>> {
    let file =
        File::open(path.as_path()).map_err(|error| file_error("open", path.as_path(), error))?;
    Ok(file.lock().is_ok().then_some(DirLock { file }))
}

/// Locks the directory of the file `path` like [`lock`], after creating it. It guards changes of the
/// file, which is replaced with each.
pub(crate) fn lock_directory_of(path: &AbsPath) -> Result<Option<DirLock>> {
    let Some(parent) = path.parent() else {
        return Ok(None);
    };
    create_all(&parent, DirectoryAudience::User)?;
    lock(&parent)
}

fn try_lock_with(
    path: &AbsPath,
    lock: impl FnOnce(&File) -> std::result::Result<(), TryLockError>,
) -> Result<DirLockAttempt> {
    let file =
        File::open(path.as_path()).map_err(|error| file_error("open", path.as_path(), error))?;
    Ok(match lock(&file) {
        Ok(()) => DirLockAttempt::Acquired(DirLock { file }),
        Err(TryLockError::WouldBlock) => DirLockAttempt::Taken,
        Err(TryLockError::Error(_)) => DirLockAttempt::Unsupported,
    })
}
