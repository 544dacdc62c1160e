//! Errors of accesses to the disk, in words that a model may read.

use rustix::io::Errno;

use crate::world::sys::file_kind::FileKind;

/// Why an access to the disk failed. It contains no path: the caller knows which one it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileSystemError {
    /// Nothing exists there.
    #[error("there is no such file or directory")]
    Missing,
    /// Something exists there already.
    #[error("it exists already")]
    Exists,
    /// A directory was needed, at the end of the path or on the way.
    #[error("it, or a name on the way to it, is not a directory")]
    NotDirectory,
    /// A file was needed.
    #[error("it is a directory")]
    IsDirectory,
    /// Neither a regular file nor a directory.
    #[error("it is {0}, not a regular file")]
    NotRegular(FileKind),
    /// A symlink was found, or something moved, where the check found none.
    #[error("something on the way to it was replaced while the call ran")]
    Replaced,
    /// The file was changed after it was inspected.
    #[error("it was changed while the call ran; read it again")]
    Changed,
    /// The directory is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
    /// A name is longer than the file system allows.
    #[error("a name in it is too long")]
    NameTooLong,
    /// One of massgen's own limits was reached.
    #[error("{0}")]
    Limit(&'static str),
    /// Any other error of the operating system.
    #[error("the system says: {0}")]
    System(Errno),
}

impl FileSystemError {
    /// Returns whether the kernel, or a filter in front of it, does not offer the needed feature at
    /// all.
    pub(crate) fn is_missing_feature(self) -> bool {
        matches!(self, FileSystemError::System(Errno::NOSYS | Errno::PERM))
    }

    /// Returns whether it means that nothing exists at a path, or that a name on the way to it is no
    /// longer a directory.
    pub(crate) fn is_absence(self) -> bool {
        matches!(self, Self::Missing | Self::NotDirectory | Self::Replaced)
    }

    /// Returns whether the process or the machine is out of handles or memory, whatever is opened.
    pub(crate) fn is_exhaustion(self) -> bool {
        matches!(
            self,
            FileSystemError::System(Errno::MFILE | Errno::NFILE | Errno::NOMEM)
        )
    }
}

impl From<Errno> for FileSystemError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => FileSystemError::Missing,
            Errno::EXIST => FileSystemError::Exists,
            Errno::NOTDIR => FileSystemError::NotDirectory,
            Errno::ISDIR => FileSystemError::IsDirectory,
            Errno::LOOP | Errno::XDEV | Errno::AGAIN => FileSystemError::Replaced,
            Errno::NOTEMPTY => FileSystemError::NotEmpty,
            Errno::NAMETOOLONG => FileSystemError::NameTooLong,
            other => FileSystemError::System(other),
        }
    }
}

impl From<std::io::Error> for FileSystemError {
    fn from(error: std::io::Error) -> Self {
        Errno::from_io_error(&error)
            .map_or(FileSystemError::System(Errno::IO), FileSystemError::from)
    }
}
