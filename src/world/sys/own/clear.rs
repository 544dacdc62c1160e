//! Owns the emptying of directories that commands wrote into: as deep and as closed as they made
//! them. What is in a directory inside is first moved up, so that neither the depth nor the length
//! of a path matters, and nothing is followed. If it is broken off, it can be begun again.

use std::ffi::OsStr;

use crate::path::RelPath;
use crate::world::sys::dir::Dir;
use crate::world::sys::displace::temporary_name;
use crate::world::sys::fault::Fault;
use crate::world::sys::layer::open_up;
use crate::world::sys::meta::Kind;

/// Removes all that is in `dir`, which nobody else writes to.
pub(crate) fn empty(dir: &Dir) -> Result<(), Fault> {
    loop {
        let entries = dir.entries()?;
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
fn dissolve(dir: &Dir, name: &OsStr) -> Result<(), Fault> {
    let rel = RelPath::default().child(name).ok_or(Fault::Missing)?;
    open_up(dir, &rel)?;
    let inner = dir.dir(&rel)?;
    for entry in inner.entries()? {
        if entry.kind == Kind::Directory {
            let rel = RelPath::default().child(&entry.name);
            open_up(&inner, &rel.ok_or(Fault::Missing)?)?;
            inner.rename_new(&entry.name, dir, &temporary_name())?;
        } else {
            inner.unlink(&entry.name)?;
        }
    }
    dir.remove_dir(name)
}
