//! Files that another program, such as git, protects with a lock file: the process that creates
//! `NAME.lock` changes `NAME` by renaming one to the other, and all others must not change it
//! meanwhile.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "only world::sys touches files"
)]

use std::fs::{self, File, FileTimes};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::permissions::history::FileFingerprint;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::state_files::{file, file_error};

/// Returns the version of the file at `path`; `None` if it cannot be inspected.
pub(crate) fn version_of(path: &AbsPath) -> Option<FileFingerprint> {
    let name = RelPath::new(path.as_path().file_name()?)?;
    let parent = DirectoryHandle::open_own(&path.parent()?).ok()?;
    Some(parent.meta(&name).ok()?.version)
}

/// Copies the regular file `from` to the free path `to`, with its mode and its modification time,
/// by which programs detect changes. Returns whether `from` exists.
pub(crate) fn copy_with_mtime(from: &AbsPath, to: &AbsPath) -> Result<bool> {
    let copy_error = |error| file_error("copy", from.as_path(), error);
    let mut original = match file::open(from) {
        Ok(original) => original,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(copy_error(error)),
    };
    let mut copy_content = || -> io::Result<()> {
        let mode = original.get_ref().metadata()?.mode() & 0o777;
        let mut copy = File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(to.as_path())?;
        io::copy(&mut original, &mut copy)?;
        let modified = original.get_ref().metadata()?.modified()?;
        copy.set_times(FileTimes::new().set_modified(modified))?;
        copy.sync_all()
    };
    copy_content().map(|()| true).map_err(copy_error)
}

/// The lock of a file. The lock file contains the file's next content as soon as it exists. The
/// lock is released on drop. If the process is killed, a later one recognizes the lock as massgen's
/// by a second hard link to it.
#[derive(Debug)]
pub(crate) struct GitLockFile {
    file: AbsPath,
    lock: AbsPath,
    second_name: AbsPath,
}

impl GitLockFile {
    /// Acquires the lock of `file`, whose next content is that of `next`; `None` if another process
    /// holds it.
    pub(crate) fn acquire(file: &AbsPath, next: &AbsPath) -> Result<Option<Self>> {
        let lock_file = Self::new(file);
        // A process that was killed after its commit has left this name, which the copy needs free.
        remove_if_exists(&lock_file.second_name)?;
        copy_with_mtime(next, &lock_file.second_name)?;
        let link_result = fs::hard_link(lock_file.second_name.as_path(), lock_file.lock.as_path());
        match link_result {
            Ok(()) => Ok(Some(lock_file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(file_error("make", lock_file.lock.as_path(), error)),
        }
    }

    /// Returns whether a process holds the lock of `file`.
    pub(crate) fn is_taken(file: &AbsPath) -> Result<bool> {
        file::exists(&Self::path_with_suffix(file, ".lock"))
    }

    /// Returns the lock of `file` that a killed massgen process has left; `None` if there is none.
    pub(crate) fn find_stale(file: &AbsPath) -> Option<Self> {
        let lock = Self::new(file);
        lock.is_ours().then_some(lock)
    }

    /// Replaces the file with its next content.
    pub(crate) fn commit(self) -> Result<()> {
        fs::rename(self.lock.as_path(), self.file.as_path())
            .map_err(|error| file_error("replace", self.file.as_path(), error))
    }

    fn new(file: &AbsPath) -> Self {
        Self {
            file: file.clone(),
            lock: Self::path_with_suffix(file, ".lock"),
            second_name: Self::path_with_suffix(file, ".massgen"),
        }
    }

    fn path_with_suffix(file: &AbsPath, suffix: &str) -> AbsPath {
        let mut name = file.as_path().file_name().unwrap_or_default().to_owned();
        name.push(suffix);
        file.parent().unwrap_or_else(AbsPath::root).join(name)
    }

    /// Returns whether massgen created the lock file: then both names are hard links to one file.
    fn is_ours(&self) -> bool {
        let second_name = version_of(&self.second_name);
        second_name.is_some() && second_name == version_of(&self.lock)
    }
}

impl Drop for GitLockFile {
    fn drop(&mut self) {
        if self.is_ours() {
            drop(remove_if_exists(&self.lock));
        }
        drop(remove_if_exists(&self.second_name));
    }
}

fn remove_if_exists(path: &AbsPath) -> Result<()> {
    match fs::remove_file(path.as_path()) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(file_error("remove", path.as_path(), error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
