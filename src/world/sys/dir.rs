//! [`DirectoryHandle`]: names are opened, created, renamed and removed beneath it. Symlinks on the
//! way are refused, and only regular files are ever opened for reading.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir as Entries, FileType, Mode, OFlags, RenameFlags, ResolveFlags, chmod,
    fstatfs, linkat, mkdirat, mknodat, openat, openat2, readlinkat, renameat, renameat_with,
    symlinkat, syncfs, unlinkat,
};
use rustix::io::Errno;

use crate::path::{AbsPath, RealPath, RelPath};
use crate::world::sys::content::FileContent;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;

/// How often an `openat2` is retried when a concurrent rename disturbed it (openat2(2), EAGAIN).
pub(crate) const AGAIN_MAX: usize = 16;

/// The most entries that one directory may have.
const DIR_ENTRIES_MAX: usize = 200_000;

/// A handle that keeps referring to the same directory, whatever happens to its path.
#[derive(Debug)]
pub(crate) struct DirectoryHandle(OwnedFd);

/// One name in a directory.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryEntry {
    pub(crate) name: OsString,
    /// Its kind; symlinks are not followed.
    pub(crate) kind: FileKind,
}

impl DirectoryHandle {
    /// Opens a directory by its real path. A symlink on the way means that the path has been
    /// replaced.
    pub(crate) fn open(path: &RealPath) -> Result<Self, FileSystemError> {
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat2(
            CWD,
            path.as_path(),
            flags,
            Mode::empty(),
            resolve,
        )?))
    }

    /// Opens one of massgen's own directories; a symlink anywhere in its path is an error.
    pub(crate) fn open_own(path: &AbsPath) -> Result<Self, FileSystemError> {
        Self::open(&RealPath::vouch(path.as_path()))
    }

    /// Opens `/`.
    pub(crate) fn open_root() -> Result<Self, FileSystemError> {
        Self::open(&RealPath::vouch("/"))
    }

    /// Returns the type number of its file system (statfs(2)).
    pub(crate) fn file_system(&self) -> Result<i64, FileSystemError> {
        Ok(fstatfs(&self.0)?.f_type)
    }

    /// Duplicates the handle.
    pub(crate) fn try_clone(&self) -> Result<Self, FileSystemError> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Returns the current path of the directory according to the kernel.
    pub(crate) fn real_path(&self) -> Result<RealPath, FileSystemError> {
        real_path(&self.0)
    }

    /// Opens the directory `rel` below this one.
    pub(crate) fn dir(&self, rel: &RelPath) -> Result<Self, FileSystemError> {
        self.open_beneath(rel, OFlags::PATH | OFlags::DIRECTORY)
            .map(Self)
    }

    /// Opens the directory `rel` below this one and creates the missing directories.
    pub(crate) fn make_dirs(&self, rel: &RelPath) -> Result<Self, FileSystemError> {
        match self.dir(rel) {
            Err(FileSystemError::Missing) => {}
            result => return result,
        }
        let mut dir = self.try_clone()?;
        for name in rel.names() {
            let Some(rel) = RelPath::default().child(name) else {
                return Err(FileSystemError::Missing);
            };
            match mkdirat(&dir.0, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            dir = dir.dir(&rel)?;
        }
        Ok(dir)
    }

    /// Opens the directory that holds `rel`, and returns it with the last name of `rel`.
    pub(crate) fn parent_of<'r>(
        &self,
        rel: &'r RelPath,
    ) -> Result<(Self, &'r OsStr), FileSystemError> {
        let (parent, name) = split_name(rel)?;
        Ok((self.dir(&parent)?, name))
    }

    /// Like [`DirectoryHandle::parent_of`], but creates the missing directories.
    pub(crate) fn make_parent_of<'r>(
        &self,
        rel: &'r RelPath,
    ) -> Result<(Self, &'r OsStr), FileSystemError> {
        let (parent, name) = split_name(rel)?;
        Ok((self.make_dirs(&parent)?, name))
    }

    /// Returns the metadata of `rel`; a symlink at its end is not followed.
    pub(crate) fn meta(&self, rel: &RelPath) -> Result<FileMetadata, FileSystemError> {
        FileMetadata::from_handle(self.handle(rel)?)
    }

    /// Returns an `O_PATH` handle on `rel` without opening its content; a symlink at its end is not
    /// followed.
    pub(crate) fn handle(&self, rel: &RelPath) -> Result<OwnedFd, FileSystemError> {
        self.open_beneath(rel, OFlags::PATH | OFlags::NOFOLLOW)
    }

    /// Opens the regular file `rel` for reading. Pipes, sockets and devices are inspected and never
    /// opened: opening one can block or have side effects.
    pub(crate) fn open_file(
        &self,
        rel: &RelPath,
    ) -> Result<(FileContent, FileMetadata), FileSystemError> {
        let handle = self.handle(rel)?;
        let meta = FileMetadata::from_handle(&handle)?;
        match meta.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(FileSystemError::IsDirectory),
            kind @ (FileKind::Link | FileKind::Fifo | FileKind::Socket | FileKind::Device) => {
                return Err(FileSystemError::NotRegular(kind));
            }
        }
        // By its handle, so that it is the file that was inspected.
        let file = openat(
            CWD,
            proc_path(&handle),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok((FileContent::from(File::from(file)), meta))
    }

    /// Returns the target of the symlink `rel`.
    pub(crate) fn link_target(&self, rel: &RelPath) -> Result<PathBuf, FileSystemError> {
        let handle = self.handle(rel)?;
        let target = readlinkat(&handle, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Returns all entries of the directory, sorted by name.
    pub(crate) fn entries(&self) -> Result<Vec<DirectoryEntry>, FileSystemError> {
        let mut entries = self.entries_up_to(DIR_ENTRIES_MAX.saturating_add(1))?;
        if entries.len() > DIR_ENTRIES_MAX {
            return Err(FileSystemError::Limit(
                "the directory has more than 200000 entries",
            ));
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// Returns up to `names_max` entries of the directory, in no particular order.
    pub(crate) fn entries_up_to(
        &self,
        names_max: usize,
    ) -> Result<Vec<DirectoryEntry>, FileSystemError> {
        let mut entries = Vec::new();
        for entry in self.listing()? {
            if entries.len() == names_max {
                break;
            }
            entries.push(entry?);
        }
        Ok(entries)
    }

    /// Iterates over all entries of the directory, in no particular order.
    pub(crate) fn listing(
        &self,
    ) -> Result<impl Iterator<Item = Result<DirectoryEntry, FileSystemError>>, FileSystemError>
    {
        let handle = self.open_beneath(&RelPath::default(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        let entries = Entries::new(handle)?.filter_map(|entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => return Some(Err(errno.into())),
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                return None;
            }
            let kind = self.entry_kind(name, entry.file_type().into());
            let name = name.to_owned();
            Some(kind.map(|kind| DirectoryEntry { name, kind }))
        });
        Ok(entries)
    }

    /// Returns the kind of an entry. Some file systems list names without a kind; then the inode is
    /// queried.
    fn entry_kind(&self, name: &OsStr, listed_kind: FileKind) -> Result<FileKind, FileSystemError> {
        match (listed_kind, RelPath::default().child(name)) {
            // An unknown kind is converted to this one, so every device is queried.
            (FileKind::Device, Some(rel)) => match self.meta(&rel) {
                Ok(meta) => Ok(meta.kind),
                Err(FileSystemError::Missing) => Ok(FileKind::Device),
                Err(error) => Err(error),
            },
            (listed_kind, _) => Ok(listed_kind),
        }
    }

    /// Creates the directory `name` with the permission bits of the directory `like`, whatever the
    /// umask is. Its owner always has all permissions.
    pub(crate) fn make_dir(
        &self,
        name: &OsStr,
        like: &FileMetadata,
    ) -> Result<(), FileSystemError> {
        mkdirat(&self.0, name, Mode::RWXU)?;
        let rel = RelPath::default()
            .child(name)
            .ok_or(FileSystemError::Missing)?;
        let new_directory = self.dir(&rel)?;
        Ok(chmod(
            proc_path(&new_directory),
            like.permission_bits() | Mode::RWXU,
        )?)
    }

    /// Creates a symlink at `name` with the target `target`.
    pub(crate) fn symlink(&self, name: &OsStr, target: &Path) -> Result<(), FileSystemError> {
        Ok(symlinkat(target, &self.0, name)?)
    }

    /// Creates a named pipe at `name` with these permission bits, whatever the umask is.
    pub(crate) fn make_pipe(&self, name: &OsStr, mode_bits: u32) -> Result<(), FileSystemError> {
        let mode = Mode::from_raw_mode(mode_bits);
        mknodat(&self.0, name, FileType::Fifo, mode, 0)?;
        let pipe = self.handle(
            &RelPath::default()
                .child(name)
                .ok_or(FileSystemError::Missing)?,
        )?;
        Ok(chmod(proc_path(&pipe), mode)?)
    }

    /// Removes a name that is not a directory; a symlink is removed, not its target.
    pub(crate) fn unlink(&self, name: &OsStr) -> Result<(), FileSystemError> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, name: &OsStr) -> Result<(), FileSystemError> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Renames `name` to `new` in `to`, replacing the existing file.
    pub(crate) fn rename_over(
        &self,
        name: &OsStr,
        to: &DirectoryHandle,
        new: &OsStr,
    ) -> Result<(), FileSystemError> {
        Ok(renameat(&self.0, name, &to.0, new)?)
    }

    /// Renames `name` to `new` in `to`; fails if `new` exists. On a file system without
    /// `RENAME_NOREPLACE`, checks first and renames afterwards, which is not atomic.
    pub(crate) fn rename_new(
        &self,
        name: &OsStr,
        to: &DirectoryHandle,
        new: &OsStr,
    ) -> Result<(), FileSystemError> {
        match renameat_with(&self.0, name, &to.0, new, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL) => {
                let rel = RelPath::default()
                    .child(new)
                    .ok_or(FileSystemError::Missing)?;
                match to.meta(&rel) {
                    Err(FileSystemError::Missing) => self.rename_over(name, to, new),
                    Ok(_) => Err(FileSystemError::Exists),
                    Err(error) => Err(error),
                }
            }
            result => Ok(result?),
        }
    }

    /// Exchanges `name` with `other` in `dir` atomically.
    pub(crate) fn exchange_names(
        &self,
        name: &OsStr,
        dir: &DirectoryHandle,
        other: &OsStr,
    ) -> Result<(), FileSystemError> {
        let flags = RenameFlags::EXCHANGE;
        Ok(renameat_with(&self.0, name, &dir.0, other, flags)?)
    }

    /// Creates a hard link to the file `name`, as `new` in `to`; fails if `new` exists.
    pub(crate) fn link(
        &self,
        name: &OsStr,
        to: &DirectoryHandle,
        new: &OsStr,
    ) -> Result<(), FileSystemError> {
        Ok(linkat(&self.0, name, &to.0, new, AtFlags::empty())?)
    }

    /// Opens a new file without a name (`O_TMPFILE`) for reading and writing. It disappears when it
    /// is closed, unless [`DirectoryHandle::link_unnamed_file`] names it. Not every file system
    /// supports that.
    pub(crate) fn open_unnamed_file(&self, mode: Mode) -> Result<File, FileSystemError> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.0, ".", flags, mode)?))
    }

    /// Gives an unnamed file a name; fails if the name exists.
    pub(crate) fn link_unnamed_file(
        &self,
        file: &File,
        name: &OsStr,
    ) -> Result<(), FileSystemError> {
        let flags = AtFlags::SYMLINK_FOLLOW;
        Ok(linkat(CWD, proc_path(file), &self.0, name, flags)?)
    }

    /// Waits until everything written to the file system of this directory is on the disk.
    pub(crate) fn sync_file_system(&self) -> Result<(), FileSystemError> {
        let handle = self.open_beneath(&RelPath::default(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(syncfs(handle)?)
    }

    fn open_beneath(&self, rel: &RelPath, flags: OFlags) -> Result<OwnedFd, FileSystemError> {
        let path = if rel.is_root() {
            Path::new(".")
        } else {
            rel.as_path()
        };
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        for _ in 0..AGAIN_MAX {
            match openat2(&self.0, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                result => return Ok(result?),
            }
        }
        Err(FileSystemError::Replaced)
    }
}

impl From<OwnedFd> for DirectoryHandle {
    fn from(handle: OwnedFd) -> Self {
        Self(handle)
    }
}

impl AsFd for DirectoryHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Splits `rel` into its parent and its last name. The root itself has no name, so nothing can
/// replace it.
fn split_name(rel: &RelPath) -> Result<(RelPath, &OsStr), FileSystemError> {
    match (rel.parent(), rel.name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(FileSystemError::IsDirectory),
    }
}

/// Returns the path of `handle` according to the kernel.
pub(crate) fn real_path(handle: impl AsFd) -> Result<RealPath, FileSystemError> {
    let no_proc = FileSystemError::Limit("cannot read `/proc`, which is needed to resolve paths");
    let path = readlinkat(CWD, proc_path(handle), Vec::new()).map_err(|_| no_proc)?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    if path.is_absolute() {
        Ok(RealPath::vouch(path))
    } else {
        Err(FileSystemError::Missing)
    }
}

/// Returns a path by which the kernel reaches `handle`, for calls that accept no handle.
pub(crate) fn proc_path(handle: impl AsFd) -> String {
    format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd())
}
