//! Owns how a file comes to be: under a random name beside its place, then renamed. A reader sees
//! the old file or the new one, never half of it, and a hard link elsewhere keeps the old content.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;

use rustix::fs::{Mode, OFlags, fchmod, fchown, fsync, futimens, openat};
use rustix::io::Errno;

use crate::permissions::history::Version;
use crate::world::sys::content::{Content, copy};
use crate::world::sys::dir::Dir;
use crate::world::sys::displace::{remove_only, replace_only, temporary_name};
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::{Meta, modified_at};

/// Whether a file survives a crash of the machine once the call has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The kernel writes it to the disk when it likes.
    Lazy,
    /// It is on the disk when the call returns.
    Synced,
}

/// What a file may take the place of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over<'v> {
    /// Nothing: the name has to be free.
    Nothing,
    /// This version of a file, and no other.
    Only(&'v Version),
    /// Whatever is there.
    Anything,
}

/// A file that has no place yet. It is removed when it is dropped without having been placed.
#[derive(Debug)]
pub(crate) struct Staged<'d> {
    dir: &'d Dir,
    /// The directory in which it gets a name before it is placed.
    aside: &'d Dir,
    /// The name by which it can be seen meanwhile. It has none for as long as the file system
    /// allows, so that nothing is left over if the process is killed.
    temporary: Option<OsString>,
    file: File,
}

impl<'d> Staged<'d> {
    /// Makes an empty file in `dir`, with the permission bits that the user gives to new files.
    pub(crate) fn new(dir: &'d Dir) -> Result<Self, Fault> {
        Self::with_mode(dir, Mode::from_raw_mode(0o666))
    }

    /// Makes an empty file in `dir` that nobody else can read until it is given other bits.
    pub(crate) fn private(dir: &'d Dir) -> Result<Self, Fault> {
        Self::with_mode(dir, Mode::RUSR | Mode::WUSR)
    }

    fn with_mode(dir: &'d Dir, mode: Mode) -> Result<Self, Fault> {
        match dir.nameless_file(mode) {
            Ok(file) => Ok(Self {
                dir,
                aside: dir,
                temporary: None,
                file,
            }),
            Err(_) => Self::named(dir, mode),
        }
    }

    fn named(dir: &'d Dir, mode: Mode) -> Result<Self, Fault> {
        let temporary = temporary_name();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
        let handle = openat(dir, &*temporary, flags | OFlags::CLOEXEC, mode)?;
        Ok(Self {
            dir,
            aside: dir,
            temporary: Some(temporary),
            file: File::from(handle),
        })
    }

    /// Lets the file wait in `aside`, if that is on the same file system: a process that is killed
    /// leaves nothing beside its place then.
    #[must_use]
    pub(crate) fn waiting_in(mut self, aside: &'d Dir) -> Self {
        if self.temporary.is_none() {
            self.aside = aside;
        }
        self
    }

    /// Gives the file the owner and the permission bits of the one that it will replace, without
    /// those that lend its owner's rights: it holds something else now. Only root may give a file
    /// away; for everybody else it becomes the writer's own.
    pub(crate) fn take_over(&self, old: &Meta) -> Result<(), Fault> {
        match fchown(&self.file, Some(old.owner), Some(old.group)) {
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.set_mode(old.plain_bits())
    }

    /// Gives the file these permission bits.
    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), Fault> {
        Ok(fchmod(&self.file, mode)?)
    }

    /// Says that the content last changed at this time, in nanoseconds since 1970.
    pub(crate) fn set_modified(&self, modified_ns: i128) -> Result<(), Fault> {
        Ok(futimens(&self.file, &modified_at(modified_ns)?)?)
    }

    /// Fills the file with `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        Ok(self.file.write_all(bytes)?)
    }

    /// Fills the file with the first `size_bytes` of `content`.
    pub(crate) fn copy(&mut self, content: &Content, size_bytes: u64) -> Result<(), Fault> {
        copy(content, &self.file, size_bytes)
    }

    /// Puts the file at `name` and returns what it then is.
    pub(crate) fn place(
        mut self,
        name: &OsStr,
        over: Over<'_>,
        durability: Durability,
    ) -> Result<Meta, Fault> {
        if durability == Durability::Synced {
            fsync(&self.file)?;
        }
        let dir = self.dir;
        match (over, &self.temporary) {
            (Over::Nothing, None) => dir.link_new(&self.file, name)?,
            (Over::Nothing, Some(temporary)) => dir.rename_new(temporary, dir, name)?,
            (Over::Only(expected), _) => replace_only(dir, self.visible()?, name, expected)?,
            (Over::Anything, _) => {
                let (aside, temporary) = self.visible()?;
                aside.rename_over(temporary, dir, name)?;
            }
        }
        self.temporary = None;
        if durability == Durability::Synced {
            sync_dir(self.dir)?;
        }
        Meta::of(&self.file)
    }

    /// The temporary name, which the file gets now if it has none: only a name can be renamed.
    fn visible(&mut self) -> Result<(&Dir, &OsStr), Fault> {
        if self.temporary.is_none() {
            let temporary = temporary_name();
            match self.aside.link_new(&self.file, &temporary) {
                Err(Fault::Replaced) => {
                    self.aside = self.dir;
                    self.dir.link_new(&self.file, &temporary)?;
                }
                linked => linked?,
            }
            self.temporary = Some(temporary);
        }
        let temporary = self.temporary.as_deref().ok_or(Fault::Missing)?;
        Ok((self.aside, temporary))
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if let (Some(temporary), Ok(ours)) = (&self.temporary, Meta::of(&self.file)) {
            // The call has failed already, and its cause is what the model should read.
            let _removed = remove_only(self.aside, self.aside, temporary, &ours.version);
        }
    }
}

fn sync_dir(dir: &Dir) -> Result<(), Fault> {
    let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fsync(openat(dir, ".", readable, Mode::empty())?)?)
}
