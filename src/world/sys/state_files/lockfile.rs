//! Owns files that a program of others keeps under a lock file: whoever makes `NAME.lock` changes `NAME`,
//! by renaming the one to the other, and everybody else keeps off meanwhile.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is where the disk is"
)]

use std::fs::{self, File, FileTimes};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::permissions::history::FileFingerprint;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::state_files::{file, file_error};

/// Which version of a file stands at `path`; `None` if nothing that can be looked at does.
pub(crate) fn version_of(path: &AbsPath) -> Option<FileFingerprint> {
    let name = RelPath::new(path.as_path().file_name()?)?;
    let parent = DirectoryHandle::open_own(&path.parent()?).ok()?;
    Some(parent.meta(&name).ok()?.version)
}

/// Copies the regular file `from` to `to`, where nothing stands, with its mode and its date, by which
/// programs tell what has changed since; gives whether there is one.
pub(crate) fn copy_with_mtime(from: &AbsPath, to: &AbsPath) -> Result<bool> {
    let failed = |error| file_error("copy", from.as_path(), error);
    let mut original = match file::open(from) {
        Ok(original) => original,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    let mut copied = || -> io::Result<()> {
        let mode = original.get_ref().metadata()?.mode() & 0o777;
        let mut copy = File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(to.as_path())?;
        io::copy(&mut original, &mut copy)?;
        let date = original.get_ref().metadata()?.modified()?;
        copy.set_times(FileTimes::new().set_modified(date))?;
        copy.sync_all()
    };
    copied().map(|()| true).map_err(failed)
}

/// The lock of a file, which holds from the first moment what the file becomes. It is given back when it
/// is dropped. Under a second name beside it, whoever comes after a process that was killed knows it for
/// massgen's.
#[derive(Debug)]
pub(crate) struct GitLockFile {
    file: AbsPath,
    lock: AbsPath,
    second: AbsPath,
}

impl GitLockFile {
    /// Takes the lock of `file`, which becomes what `next` is; `None` if somebody has it.
    pub(crate) fn acquire(file: &AbsPath, next: &AbsPath) -> Result<Option<Self>> {
        let taking = Self::new(file);
        // It may be all that is left of a change that went through: another name of the file itself.
        remove_if_exists(&taking.second)?;
        copy_with_mtime(next, &taking.second)?;
        let linked = fs::hard_link(taking.second.as_path(), taking.lock.as_path());
        match linked {
            Ok(()) => Ok(Some(taking)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(file_error("make", taking.lock.as_path(), error)),
        }
    }

    /// Whether somebody has the lock of `file`.
    pub(crate) fn is_taken(file: &AbsPath) -> bool {
        file::exists(&Self::path_with_suffix(file, ".lock"))
    }

    /// The lock of `file` that a process which was killed has left; `None` if none has.
    pub(crate) fn find_stale(file: &AbsPath) -> Option<Self> {
        let left = Self::new(file);
        left.is_ours().then_some(left)
    }

    /// Lets the file become what it was to become.
    pub(crate) fn commit(self) -> Result<()> {
        fs::rename(self.lock.as_path(), self.file.as_path())
            .map_err(|error| file_error("replace", self.file.as_path(), error))
    }

    fn new(file: &AbsPath) -> Self {
        Self {
            file: file.clone(),
            lock: Self::path_with_suffix(file, ".lock"),
            second: Self::path_with_suffix(file, ".massgen"),
        }
    }

    fn path_with_suffix(file: &AbsPath, end: &str) -> AbsPath {
        let mut name = file.as_path().file_name().unwrap_or_default().to_owned();
        name.push(end);
        file.parent().unwrap_or_else(AbsPath::top).join(name)
    }

    fn is_ours(&self) -> bool {
        let second = version_of(&self.second);
        second.is_some() && second == version_of(&self.lock)
    }
}

impl Drop for GitLockFile {
    fn drop(&mut self) {
        if self.is_ours() {
            drop(remove_if_exists(&self.lock));
        }
        drop(remove_if_exists(&self.second));
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
