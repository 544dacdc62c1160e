//! Owns why an access to the disk failed, in words that a model may read.

use rustix::io::Errno;

use crate::world::sys::meta::FileKind;

/// Why an access to the disk failed. It names no path: the caller knows which one it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileSystemError {
    /// Nothing is there.
    #[error("there is no such file or directory")]
    Missing,
    /// Something is there already.
    #[error("it exists already")]
    Exists,
    /// A directory was needed, at the end of the path or on the way.
    #[error("it, or a name on the way to it, is not a directory")]
    NotDirectory,
    /// A file was needed.
    #[error("it is a directory")]
    IsDirectory,
    /// It is neither a regular file nor a directory.
    #[error("it is {0}, not a regular file")]
    NotRegular(FileKind),
    /// A link stands, or something moved, where the check saw none.
    #[error("something on the way to it was replaced while the call ran")]
    Replaced,
    /// Someone changed the file since it was looked at.
    #[error("it was changed while the call ran; read it again")]
    Changed,
    /// The directory is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
    /// A name is longer than the file system takes.
    #[error("a name in it is too long")]
    NameTooLong,
    /// A limit of massgen's own was met.
    #[error("{0}")]
    Limit(&'static str),
    /// Whatever else the operating system says.
    #[error("the system says: {0}")]
    System(Errno),
}

impl FileSystemError {
    /// Whether the kernel, or a filter in front of it, does not offer what is needed at all.
    pub(crate) fn is_missing_feature(self) -> bool {
        matches!(self, FileSystemError::System(Errno::NOSYS | Errno::PERM))
    }

    /// Whether the process or the machine has no more handles or memory, whatever is opened.
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
