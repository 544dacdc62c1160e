//! Owns the emptying of directories that commands wrote into: as deep and as closed as they made
//! them. What is in a directory inside is first moved up, so that neither the depth nor the length
//! of a path matters, and nothing is followed. If it is broken off, it can be begun again.

use std::ffi::OsStr;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::sys::dir::Dir;
use crate::world::sys::displace::temporary_name;
use crate::world::sys::fault::Fault;
use crate::world::sys::layer::open_up;
use crate::world::sys::meta::Kind;

/// How many names are taken at once; a directory may hold any number.
const NAMES_AT_ONCE: usize = 10_000;

/// Removes `path` with all that is in it, if it is there. Nobody else writes to it.
pub(crate) fn remove(path: &AbsPath) -> Result<()> {
    match try_remove(path) {
        Ok(()) | Err(Fault::Missing) => Ok(()),
        Err(fault) => {
            let message = format!("cannot remove `{path}`: {fault}");
            Err(Error::new(ErrorKind::Io, message))
        }
    }
}

fn try_remove(path: &AbsPath) -> std::result::Result<(), Fault> {
    let parent = Dir::own(&path.parent().ok_or(Fault::IsDirectory)?)?;
    let name = path.as_path().file_name().ok_or(Fault::IsDirectory)?;
    let rel = child(name)?;
    if parent.meta(&rel)?.kind != Kind::Directory {
        return parent.unlink(name);
    }
    open_up(&parent, &rel)?;
    empty(&parent.dir(&rel)?)?;
    parent.remove_dir(name)
}

/// Removes all that is in `dir`, which nobody else writes to.
pub(crate) fn empty(dir: &Dir) -> std::result::Result<(), Fault> {
    loop {
        let entries = dir.some_entries(NAMES_AT_ONCE)?;
        if entries.is_empty() {
            return Ok(());
        }
        for entry in entries {
            if entry.kind == Kind::Directory {
                dissolve(dir, &entry.name)?;
            } else {
                dir.unlink(&entry.name)?;
            }
        }
    }
}

/// Removes the directory `name` of `dir`; the directories in it are moved up into `dir`.
fn dissolve(dir: &Dir, name: &OsStr) -> std::result::Result<(), Fault> {
    let rel = child(name)?;
    open_up(dir, &rel)?;
    let inner = dir.dir(&rel)?;
    loop {
        let entries = inner.some_entries(NAMES_AT_ONCE)?;
        if entries.is_empty() {
            return dir.remove_dir(name);
        }
        for entry in entries {
            if entry.kind == Kind::Directory {
                // A directory has to be writable to be moved: its `..` changes.
                open_up(&inner, &child(&entry.name)?)?;
                inner.rename_new(&entry.name, dir, &temporary_name())?;
            } else {
                inner.unlink(&entry.name)?;
            }
        }
    }
}

fn child(name: &OsStr) -> std::result::Result<RelPath, Fault> {
    RelPath::default().child(name).ok_or(Fault::Missing)
}
