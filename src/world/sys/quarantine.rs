//! Owns the moving of names out of the user's trees into a directory of massgen's, under the path
//! that they had. Nothing is ever deleted that is not whole there.

use std::ffi::{OsStr, OsString};

use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::history::Version;
use crate::world::sys::dir::Dir;
use crate::world::sys::displace::{remove_only, temporary_name};
use crate::world::sys::fault::Fault;
use crate::world::sys::layer::open_up;
use crate::world::sys::meta::Kind;
use crate::world::sys::staged::{Durability, Over, Staged};
use crate::world::sys::survey::TREE_DEPTH_MAX;
use crate::world::sys::unlock::{CLOSED, unlocked};

/// Where names are moved to: a numbered directory of its own for each occasion.
#[derive(Debug)]
pub(crate) struct Quarantine {
    below: AbsPath,
    number: Option<RelPath>,
}

impl Quarantine {
    /// Moves names below the directory `below`, which is made when it is needed.
    pub(crate) fn below(below: &AbsPath) -> Self {
        Self {
            below: below.clone(),
            number: None,
        }
    }

    /// Moves `name` of `dir`, which was at `path` and looked like `seen`. If something else stands
    /// there by now, that stays. Gives the path at which it is kept.
    pub(crate) fn take(
        &mut self,
        dir: &Dir,
        name: &OsStr,
        seen: &Version,
        path: &RealPath,
    ) -> Result<AbsPath, Fault> {
        let below = self.open()?;
        let number = match &self.number {
            Some(number) => number.clone(),
            None => self.number.insert(next(&below)?).clone(),
        };
        let kept = path
            .as_path()
            .strip_prefix("/")
            .map_err(|_| Fault::Missing)?;
        let rel = number.join(&RelPath::new(kept).ok_or(Fault::Missing)?);
        let (to, to_name) = below.make_parent_of(&rel)?;
        match displace((dir, name), (&to, to_name), seen) {
            Err(Fault::Replaced) => {}
            moved => return moved.map(|()| self.below.join(rel.as_path())),
        }
        // The name is free at once, however long the way to another file system is.
        let aside = temporary_name();
        displace((dir, name), (dir, &aside), seen)?;
        Ok(
            match carry_over(dir, &aside, (&to, to_name), TREE_DEPTH_MAX) {
                Ok(()) => self.below.join(rel.as_path()),
                Err(_) => beside(path, &aside)?,
            },
        )
    }

    fn open(&self) -> Result<Dir, Fault> {
        let parent = self.below.parent().ok_or(Fault::Missing)?;
        let name = self.below.below(&parent).ok_or(Fault::Missing)?;
        Dir::own(&parent)?.make_dirs(&name)
    }
}

/// The number after those that are there.
fn next(below: &Dir) -> Result<RelPath, Fault> {
    let number = below.entries()?.len().saturating_add(1);
    RelPath::new(number.to_string()).ok_or(Fault::Missing)
}

/// The path of `name` in the directory that holds `path`.
fn beside(path: &RealPath, name: &OsString) -> Result<AbsPath, Fault> {
    let parent = path.parent().ok_or(Fault::Missing)?;
    Ok(parent.to_abs().join(name))
}

/// Renames `from` to `to`, whatever the modes of its directory and of itself say. What does not look
/// like `seen` is put back.
fn displace(from: (&Dir, &OsStr), to: (&Dir, &OsStr), seen: &Version) -> Result<(), Fault> {
    let ((dir, name), (to, to_name)) = (from, to);
    unlocked(dir, || {
        match dir.rename_new(name, to, to_name) {
            // A directory has to be writable to be moved: its `..` changes.
            Err(fault) if fault == CLOSED => {
                open_up(dir, &child(name)?).map_err(|_| fault)?;
                dir.rename_new(name, to, to_name)
            }
            done => done,
        }
    })?;
    let now = to.meta(&child(to_name)?)?.version;
    if (now.device, now.inode) == (seen.device, seen.inode) {
        return Ok(());
    }
    unlocked(dir, || to.rename_new(to_name, dir, name))?;
    Err(Fault::Changed)
}

/// Moves `name` of `dir` to another file system, one file after the other.
fn carry_over(dir: &Dir, name: &OsStr, to: (&Dir, &OsStr), depth_left: usize) -> Result<(), Fault> {
    let (to, to_name) = to;
    let rel = child(name)?;
    let meta = dir.meta(&rel)?;
    open_up(dir, &rel)?;
    match meta.kind {
        Kind::Directory => {
            let too_deep = Fault::Limit("it is more than 128 directories deep");
            let depth_left = depth_left.checked_sub(1).ok_or(too_deep)?;
            to.make_dir(to_name, &meta)?;
            let (from, to) = (dir.dir(&rel)?, to.dir(&child(to_name)?)?);
            for entry in from.entries()? {
                carry_over(&from, &entry.name, (&to, &entry.name), depth_left)?;
            }
            return unlocked(dir, || dir.remove_dir(name));
        }
        Kind::File => {
            let (content, meta) = dir.open_file(&rel)?;
            let mut staged = Staged::private(to)?;
            staged.copy(&content, meta.version.size_bytes)?;
            staged.set_mode(meta.permission_bits())?;
            let _kept = staged.place(to_name, Over::Nothing, Durability::Synced)?;
        }
        Kind::Link => to.symlink(to_name, &dir.link_target(&rel)?)?,
        // There is nothing in it that could be kept.
        Kind::Fifo | Kind::Socket | Kind::Device => return unlocked(dir, || dir.unlink(name)),
    }
    // The mode may have been opened up since.
    let now = dir.meta(&rel)?.version;
    unlocked(dir, || remove_only(dir, dir, name, &now))
}

fn child(name: &OsStr) -> Result<RelPath, Fault> {
    RelPath::default().child(name).ok_or(Fault::Missing)
}
