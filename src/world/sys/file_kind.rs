//! The kinds of files, as people and models read them.

use std::fmt;

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum FileKind {
    /// A regular file; nothing else is ever opened for reading.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device, or a kind that the kernel has no name for.
    Device,
}

impl From<FileType> for FileKind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Link,
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
                FileKind::Device
            }
        }
    }
}

impl FileKind {
    /// Returns the one word for it in a listing.
    pub(crate) fn label(self) -> &'static str {
        match self {
            FileKind::File => "file",
            FileKind::Directory => "dir",
            FileKind::Link => "link",
            FileKind::Fifo => "pipe",
            FileKind::Socket => "socket",
            FileKind::Device => "device",
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::File => "a file",
            FileKind::Directory => "a directory",
            FileKind::Link => "a symbolic link",
            FileKind::Fifo => "a named pipe",
            FileKind::Socket => "a socket",
            FileKind::Device => "a device",
        })
    }
}
