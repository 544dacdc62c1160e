//! Writes files atomically: under a random name in the same file system, then renamed. A reader
//! sees the old file or the new one, never half of it, and another hard link keeps the old content.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags, fchmod, fchown, fsync, futimens, openat};
use rustix::io::Errno;

use crate::permissions::history::FileFingerprint;
use crate::world::sys::conditional_replace::{
    remove_if_unchanged, replace_if_unchanged, temporary_name,
};
use crate::world::sys::content::{FileContent, copy};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::{FileMetadata, modification_timestamps};

/// Whether a file survives a crash of the machine once the call has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacementDurability {
    /// The kernel writes it to the disk at its convenience.
    Lazy,
    /// It is on the disk when the call returns.
    Synced,
}

/// What a file may replace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplacePolicy<'v> {
    /// Nothing: the name has to be free.
    Nothing,
    /// This version of a file, and no other.
    Only(&'v FileFingerprint),
    /// Whatever exists.
    Anything,
}

/// A file that is not placed yet. It is removed when it is dropped before it was placed.
#[derive(Debug)]
pub(crate) struct StagedFile<'d> {
    dir: &'d DirectoryHandle,
    /// The directory in which it gets a temporary name before it is placed.
    staging_dir: &'d DirectoryHandle,
    /// The name by which it is visible meanwhile. It stays unnamed as long as the file system
    /// allows, so that a killed process leaves nothing behind.
    temporary: Option<OsString>,
    file: File,
}

impl<'d> StagedFile<'d> {
    /// Creates an empty file in `dir`, with the permission bits that the user gives to new files.
    pub(crate) fn new(dir: &'d DirectoryHandle) -> Result<Self, FileSystemError> {
        Self::with_mode(dir, Mode::from_raw_mode(0o666))
    }

    /// Creates an empty file in `dir` that only its owner can read until its bits are changed.
    pub(crate) fn new_private(dir: &'d DirectoryHandle) -> Result<Self, FileSystemError> {
        Self::with_mode(dir, Mode::RUSR | Mode::WUSR)
    }

    fn with_mode(dir: &'d DirectoryHandle, mode: Mode) -> Result<Self, FileSystemError> {
        match dir.open_unnamed_file(mode) {
            Ok(file) => Ok(Self {
                dir,
                staging_dir: dir,
                temporary: None,
                file,
            }),
            // Not every file system supports that. Any other cause makes this fail, too.
            Err(_) => Self::with_name(dir, mode),
        }
    }

    fn with_name(dir: &'d DirectoryHandle, mode: Mode) -> Result<Self, FileSystemError> {
        let temporary = temporary_name();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
        let handle = openat(dir, &*temporary, flags | OFlags::CLOEXEC, mode)?;
        Ok(Self {
            dir,
            staging_dir: dir,
            temporary: Some(temporary),
            file: File::from(handle),
        })
    }

    /// Creates the file's temporary name in `staging_dir` if that is on the same file system: then
    /// a killed process leaves no temporary file next to the final name.
    #[must_use]
    pub(crate) fn with_staging_dir(mut self, staging_dir: &'d DirectoryHandle) -> Self {
        if self.temporary.is_none() {
            self.staging_dir = staging_dir;
        }
        self
    }

    /// Gives the file the owner and the permission bits of the one that it will replace, without
    /// setuid and setgid: its content is different. Only root may give a file away; for other
    /// users, it belongs to the writer.
    pub(crate) fn copy_ownership(&self, old: &FileMetadata) -> Result<(), FileSystemError> {
        match fchown(&self.file, Some(old.owner), Some(old.group)) {
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.set_mode(old.bits_without_setid())
    }

    /// Sets the permission bits of the file.
    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), FileSystemError> {
        Ok(fchmod(&self.file, mode)?)
    }

    /// Sets the modification time, in nanoseconds since 1970.
    pub(crate) fn set_modified(&self, modified_ns: i128) -> Result<(), FileSystemError> {
        Ok(futimens(
            &self.file,
            &modification_timestamps(modified_ns)?,
        )?)
    }

    /// Writes `bytes` to the file.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), FileSystemError> {
        Ok(self.file.write_all(bytes)?)
    }

    /// Writes the first `size_bytes` of `content` to the file.
    pub(crate) fn copy(
        &mut self,
        content: &FileContent,
        size_bytes: u64,
    ) -> Result<(), FileSystemError> {
        copy(content, &self.file, size_bytes)
    }

    /// Places the file at `name` and returns its metadata there.
    pub(crate) fn place_at(
        mut self,
        name: &OsStr,
        policy: ReplacePolicy<'_>,
        durability: PlacementDurability,
    ) -> Result<FileMetadata, FileSystemError> {
        if durability == PlacementDurability::Synced {
            fsync(&self.file)?;
        }
        let dir = self.dir;
        match (policy, &self.temporary) {
            (ReplacePolicy::Nothing, None) => dir.link_unnamed_file(&self.file, name)?,
            (ReplacePolicy::Nothing, Some(temporary)) => dir.rename_new(temporary, dir, name)?,
            (ReplacePolicy::Only(expected), _) => {
                let (staging_dir, temporary) = self.temporary_path()?;
                replace_if_unchanged(staging_dir, temporary, dir, name, expected)?;
            }
            (ReplacePolicy::Anything, _) => {
                let (staging_dir, temporary) = self.temporary_path()?;
                staging_dir.rename_over(temporary, dir, name)?;
            }
        }
        self.temporary = None;
        if durability == PlacementDurability::Synced {
            sync_dir(self.dir)?;
        }
        FileMetadata::from_handle(&self.file)
    }

    /// Returns the temporary name. A file without one gets it now: only a name can be renamed.
    fn temporary_path(&mut self) -> Result<(&DirectoryHandle, &OsStr), FileSystemError> {
        if self.temporary.is_none() {
            let temporary = temporary_name();
            match self.staging_dir.link_unnamed_file(&self.file, &temporary) {
                Err(FileSystemError::Replaced) => {
                    self.staging_dir = self.dir;
                    self.dir.link_unnamed_file(&self.file, &temporary)?;
                }
                link_result => link_result?,
            }
            self.temporary = Some(temporary);
        }
        let temporary = self.temporary.as_deref().ok_or(FileSystemError::Missing)?;
        Ok((self.staging_dir, temporary))
    }
}

impl AsFd for StagedFile<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        if let (Some(temporary), Ok(meta)) =
            (&self.temporary, FileMetadata::from_handle(&self.file))
        {
            // The call has failed already, and its cause is what the model should read.
            let _remove_result =
                remove_if_unchanged(self.staging_dir, self.staging_dir, temporary, &meta.version);
        }
    }
}

fn sync_dir(dir: &DirectoryHandle) -> Result<(), FileSystemError> {
    let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fsync(openat(dir, ".", readable, Mode::empty())?)?)
}
