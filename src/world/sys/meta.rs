//! Owns what the kernel says about a file without opening it.

use std::ffi::OsStr;
use std::fmt;

use rustix::fd::AsFd;
use rustix::fs::{
    AtFlags, FileType, Mode, RawMode, Statx, StatxFlags, StatxTimestamp, Timespec, Timestamps,
    UTIME_OMIT, statx,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use serde::{Deserialize, Serialize};

use crate::permissions::history::FileFingerprint;
use crate::world::sys::file_system_error::FileSystemError;

/// How many nanoseconds a second has.
pub(crate) const SECOND_NS: i128 = 1_000_000_000;

/// What stands at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum FileKind {
    /// A regular file; nothing else is ever opened for reading.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device, or what the kernel has no name for.
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
    /// The one word for it in a listing.
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

/// What the kernel says about one inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileMetadata {
    /// What it is.
    pub(crate) kind: FileKind,
    /// Its identity and state.
    pub(crate) version: FileFingerprint,
    /// Its permission bits.
    pub(crate) mode: Mode,
    /// Its owner.
    pub(crate) owner: Uid,
    /// Its group.
    pub(crate) group: Gid,
    /// How many names it has.
    pub(crate) names: u32,
    /// How much of the disk it takes; holes take nothing.
    pub(crate) allocated_bytes: u64,
}

/// The unit of `stx_blocks`, whatever the file system's own block size (statx(2)).
const BLOCK_BYTES: u64 = 512;

impl FileMetadata {
    /// What `handle` refers to; a handle may be of any kind of file.
    pub(crate) fn from_handle(handle: impl AsFd) -> Result<Self, FileSystemError> {
        let stat = statx(
            handle,
            "",
            AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW,
            StatxFlags::BASIC_STATS,
        )?;
        Ok(Self::from_stat(&stat))
    }

    /// What stands at `name` in the directory `dir`; a link is a link.
    pub(crate) fn from_name(dir: impl AsFd, name: &OsStr) -> Result<Self, FileSystemError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = statx(dir, name, flags, StatxFlags::BASIC_STATS)?;
        Ok(Self::from_stat(&stat))
    }

    /// The permission bits without those that lend the rights of the owner or the group.
    pub(crate) fn bits_without_setid(&self) -> Mode {
        self.mode & (Mode::RWXU | Mode::RWXG | Mode::RWXO)
    }

    /// The permission bits that a copy takes over. Its owner may change it, also if it is a copy of
    /// a snapshot, which nobody may change.
    pub(crate) fn permission_bits(&self) -> Mode {
        self.bits_without_setid() | Mode::WUSR
    }

    /// Whether its owner may write to it.
    pub(crate) fn is_writable_for_owner(&self) -> bool {
        self.mode.contains(Mode::WUSR)
    }

    fn from_stat(stat: &Statx) -> Self {
        let mode = RawMode::from(stat.stx_mode);
        Self {
            kind: FileType::from_raw_mode(mode).into(),
            version: FileFingerprint {
                device: (u64::from(stat.stx_dev_major) << 32) | u64::from(stat.stx_dev_minor),
                inode: stat.stx_ino,
                size_bytes: stat.stx_size,
                modified_ns: nanoseconds(stat.stx_mtime),
                changed_ns: nanoseconds(stat.stx_ctime),
            },
            mode: Mode::from_raw_mode(mode),
            owner: Uid::from_raw(stat.stx_uid),
            group: Gid::from_raw(stat.stx_gid),
            names: stat.stx_nlink,
            allocated_bytes: stat.stx_blocks.saturating_mul(BLOCK_BYTES),
        }
    }
}

fn nanoseconds(time: StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// The times of a file whose content last changed at this time, in nanoseconds since 1970.
pub(crate) fn modified_at(modified_ns: i128) -> Result<Timestamps, FileSystemError> {
    let out_of_range = |_| FileSystemError::System(Errno::OVERFLOW);
    let seconds = modified_ns.div_euclid(SECOND_NS);
    let nanoseconds = modified_ns.rem_euclid(SECOND_NS);
    Ok(Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: seconds.try_into().map_err(out_of_range)?,
            tv_nsec: nanoseconds.try_into().map_err(out_of_range)?,
        },
    })
}
