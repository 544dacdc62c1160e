//! Owns massgen's own directories: making new ones, showing them whole, and holding one for a run.
//! Nothing but an empty directory, or a stage that was never shown, is ever removed.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is where the disk is"
)]

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::path::{AbsPath, RealPath};
use crate::world::sys::state_files::{file_error, random_digits};

/// How often a made-up name is tried before giving up.
const UNIQUE_TRIES_MAX: u32 = 16;

/// Who may enter a directory that is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DirectoryAudience {
    /// The user alone.
    User,
    /// Whoever the user's umask lets in.
    Umask,
}

/// Makes `path` and every directory above it that is missing.
pub(crate) fn create_all(path: &AbsPath, audience: DirectoryAudience) -> Result<()> {
    let mode = match audience {
        DirectoryAudience::User => 0o700,
        DirectoryAudience::Umask => 0o777,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path.as_path())
        .map_err(|error| file_error("make the directory", path.as_path(), error))
}

/// Whether a directory was made or stood there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryCreation {
    /// It is new and ours.
    Created,
    /// Someone made it before.
    Existed,
}

/// Makes the directory `path`, whose parent exists, for the user alone.
pub(crate) fn create(path: &AbsPath) -> Result<DirectoryCreation> {
    match DirBuilder::new().mode(0o700).create(path.as_path()) {
        Ok(()) => Ok(DirectoryCreation::Created),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(DirectoryCreation::Existed),
        Err(error) => Err(file_error("make the directory", path.as_path(), error)),
    }
}

/// Makes a directory that nobody else has: `stem` and random digits, inside `parent`.
pub(crate) fn create_unique(parent: &AbsPath, stem: &str, digits: usize) -> Result<AbsPath> {
    create_all(parent, DirectoryAudience::User)?;
    for _ in 0..UNIQUE_TRIES_MAX {
        let path = parent.join(format!("{stem}{}", random_digits(digits)));
        if create(&path)? == DirectoryCreation::Created {
            return Ok(path);
        }
    }
    Err(Error::io(
        format!("cannot find a free name for `{stem}` in `{parent}`"),
        io::Error::from(ErrorKind::AlreadyExists),
    )
    .with_hint("remove what is no longer needed there"))
}

/// The directory `path` as the kernel knows it.
pub(crate) fn resolve(path: &AbsPath) -> Result<RealPath> {
    fs::canonicalize(path.as_path())
        .map(RealPath::vouch)
        .map_err(|error| file_error("follow", path.as_path(), error))
}

/// Moves `from` to `to` in one step; the only thing it can replace is an empty directory.
pub(crate) fn move_to(from: &AbsPath, to: &AbsPath) -> Result<()> {
    fs::rename(from.as_path(), to.as_path())
        .map_err(|error| file_error("move into place", to.as_path(), error))
}

/// Moves `from` to `to` in one step, if there is a `from`.
pub(crate) fn move_if_exists(from: &AbsPath, to: &AbsPath) -> Result<()> {
    match fs::symlink_metadata(from.as_path()) {
        Ok(_) => move_to(from, to),
        Err(_) => Ok(()),
    }
}

/// Removes `path` if it is an empty directory; whatever else it is stays.
pub(crate) fn remove_empty(path: &AbsPath) {
    drop(fs::remove_dir(path.as_path()));
}

/// The names of all that is in the directory `path` and has a name that is text, in no order.
pub(crate) fn names(path: &AbsPath) -> Result<Vec<String>> {
    let unreadable = |error| file_error("read", path.as_path(), error);
    let entries = fs::read_dir(path.as_path()).map_err(unreadable)?;
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(unreadable)?.file_name().into_string());
    }
    Ok(names)
}

/// As [`names`]; nothing if nothing stands at `path`. What cannot be looked at is an error: it is not
/// the same as what is not there.
pub(crate) fn names_if_exists(path: &AbsPath) -> Result<Vec<String>> {
    match fs::metadata(path.as_path()) {
        Ok(_) => names(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(file_error("read", path.as_path(), error)),
    }
}

/// Whether `path` is a directory, and no link to one, that belongs to the user.
pub(crate) fn is_owned_by_user(path: &AbsPath) -> bool {
    let found = fs::symlink_metadata(path.as_path());
    found.is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw())
}

/// A directory in the making. It is removed with all that is in it unless it is published.
#[derive(Debug)]
pub(crate) struct StagingDirectory {
    dir: TempDir,
    path: AbsPath,
}

impl StagingDirectory {
    /// Makes an empty directory inside `parent`, under a hidden name that nobody can foresee.
    pub(crate) fn new(parent: &AbsPath) -> Result<Self> {
        Self::with_prefix(parent, ".massgen-")
    }

    /// Makes an empty directory inside `parent`, whose name begins with `prefix`.
    pub(crate) fn with_prefix(parent: &AbsPath, prefix: &str) -> Result<Self> {
        let failed = |error| file_error("make a directory in", parent.as_path(), error);
        let dir = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent.as_path())
            .map_err(failed)?;
        let path = parent.join(dir.path());
        Ok(Self { dir, path })
    }

    /// Where it is while it is being made.
    pub(crate) fn path(&self) -> &AbsPath {
        &self.path
    }

    /// Leaves it where it is.
    pub(crate) fn keep(mut self) -> AbsPath {
        self.dir.disable_cleanup(true);
        self.path.clone()
    }

    /// Shows it as `to` in one step. An existing `to` is an error, unless it is an empty directory.
    pub(crate) fn publish(mut self, to: &AbsPath) -> Result<()> {
        move_to(&self.path, to)?;
        self.dir.disable_cleanup(true);
        Ok(())
    }
}

/// Holds a directory so that no other run of massgen takes it; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct DirLock {
    file: File,
}

impl DirLock {
    /// Whether what is held still stands at `path`.
    pub(crate) fn is_for(&self, path: &AbsPath) -> bool {
        let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let held = self.file.metadata().map(identity);
        let there = fs::symlink_metadata(path.as_path()).map(identity);
        matches!((held, there), (Ok(held), Ok(there)) if held == there)
    }
}

/// What came of the try to hold a directory.
#[derive(Debug)]
pub(crate) enum DirLockAttempt {
    /// It is ours.
    Acquired(DirLock),
    /// Another run, or another agent of this one, has it.
    Taken,
    /// The file system cannot tell.
    Unsupported,
}

/// Tries to hold the directory `path`; nothing is written into it.
pub(crate) fn try_lock(path: &AbsPath) -> Result<DirLockAttempt> {
    try_lock_with(path, File::try_lock)
}

/// Tries to hold the directory `path` together with others who share it.
pub(crate) fn try_lock_shared(path: &AbsPath) -> Result<DirLockAttempt> {
    try_lock_with(path, File::try_lock_shared)
}

/// Waits until nobody else holds the directory `path`, and holds it; `None` where the file system
/// cannot tell who does.
pub(crate) fn lock(path: &AbsPath) -> Result<Option<DirLock>> {
    let file =
        File::open(path.as_path()).map_err(|error| file_error("open", path.as_path(), error))?;
    Ok(file.lock().is_ok().then_some(DirLock { file }))
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
