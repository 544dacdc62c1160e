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
use crate::permissions::history::Version;
use crate::world::sys::dir::Dir;
use crate::world::sys::own::{fault, file};

/// Which version of a file stands at `path`; `None` if nothing that can be looked at does.
pub(crate) fn version_of(path: &AbsPath) -> Option<Version> {
    let name = RelPath::new(path.as_path().file_name()?)?;
    let parent = Dir::own(&path.parent()?).ok()?;
    Some(parent.meta(&name).ok()?.version)
}

/// Copies the regular file `from` to `to`, where nothing stands, with its mode and its date, by which
/// programs tell what has changed since; gives whether there is one.
pub(crate) fn copy_dated(from: &AbsPath, to: &AbsPath) -> Result<bool> {
    let failed = |error| fault("copy", from.as_path(), error);
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
pub(crate) struct Lockfile {
    file: AbsPath,
    lock: AbsPath,
    second: AbsPath,
}

impl Lockfile {
    /// Takes the lock of `file`, which becomes what `next` is; `None` if somebody has it.
    pub(crate) fn take(file: &AbsPath, next: &AbsPath) -> Result<Option<Self>> {
        let taking = Self::of(file);
        // It may be all that is left of a change that went through: another name of the file itself.
        remove_if_there(&taking.second)?;
        copy_dated(next, &taking.second)?;
        let linked = fs::hard_link(taking.second.as_path(), taking.lock.as_path());
        match linked {
            Ok(()) => Ok(Some(taking)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(fault("make", taking.lock.as_path(), error)),
        }
    }

    /// Whether somebody has the lock of `file`.
    pub(crate) fn is_taken(file: &AbsPath) -> bool {
        file::is_there(&Self::path_of(file, ".lock"))
    }

    /// The lock of `file` that a process which was killed has left; `None` if none has.
    pub(crate) fn left(file: &AbsPath) -> Option<Self> {
        let left = Self::of(file);
        left.is_ours().then_some(left)
    }

    /// Lets the file become what it was to become.
    pub(crate) fn put(self) -> Result<()> {
        fs::rename(self.lock.as_path(), self.file.as_path())
            .map_err(|error| fault("replace", self.file.as_path(), error))
    }

    fn of(file: &AbsPath) -> Self {
        Self {
            file: file.clone(),
            lock: Self::path_of(file, ".lock"),
            second: Self::path_of(file, ".massgen"),
        }
    }

    fn path_of(file: &AbsPath, end: &str) -> AbsPath {
        let mut name = file.as_path().file_name().unwrap_or_default().to_owned();
        name.push(end);
        file.parent().unwrap_or_else(AbsPath::top).join(name)
    }

    fn is_ours(&self) -> bool {
        let second = version_of(&self.second);
        second.is_some() && second == version_of(&self.lock)
    }
}

impl Drop for Lockfile {
    fn drop(&mut self) {
        if self.is_ours() {
            drop(remove_if_there(&self.lock));
        }
        drop(remove_if_there(&self.second));
    }
}

fn remove_if_there(path: &AbsPath) -> Result<()> {
    match fs::remove_file(path.as_path()) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(fault("remove", path.as_path(), error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
