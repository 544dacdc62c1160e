//! File metadata that the kernel reports without opening the file.

use std::ffi::OsStr;

use rustix::fd::AsFd;
use rustix::fs::{
    AtFlags, FileType, Mode, RawMode, Statx, StatxFlags, StatxTimestamp, Timespec, Timestamps,
    UTIME_OMIT, statx,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::permissions::history::FileFingerprint;
use crate::sandbox_policy::FileIdentity;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;

/// Nanoseconds per second.
pub(crate) const SECOND_NS: i128 = 1_000_000_000;

/// What the kernel reports about one inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileMetadata {
    pub(crate) kind: FileKind,
    /// Its identity and state.
    pub(crate) version: FileFingerprint,
    /// Its permission bits.
    pub(crate) mode: Mode,
    pub(crate) owner: Uid,
    pub(crate) group: Gid,
    /// Its number of hard links.
    pub(crate) link_count: u32,
    /// How much disk space it uses; holes use none.
    pub(crate) allocated_bytes: u64,
}

/// The unit of `stx_blocks`, whatever the file system's own block size (statx(2)).
const BLOCK_BYTES: u64 = 512;

impl FileMetadata {
    /// Reads the metadata of the file that `handle` refers to, whatever its kind.
    pub(crate) fn from_handle(handle: impl AsFd) -> Result<Self, FileSystemError> {
        let stat = statx(
            handle,
            "",
            AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW,
            StatxFlags::BASIC_STATS,
        )?;
        Ok(Self::from_stat(&stat))
    }

    /// Reads the metadata of `name` in the directory `dir`; a symlink is not followed.
    pub(crate) fn from_name(dir: impl AsFd, name: &OsStr) -> Result<Self, FileSystemError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = statx(dir, name, flags, StatxFlags::BASIC_STATS)?;
        Ok(Self::from_stat(&stat))
    }

    /// Returns the permission bits without setuid, setgid and the sticky bit.
    pub(crate) fn bits_without_setid(&self) -> Mode {
        self.mode & (Mode::RWXU | Mode::RWXG | Mode::RWXO)
    }

    /// Returns the permission bits for a copy. The owner may write to the copy, even if the
    /// original is a read-only snapshot.
    pub(crate) fn permission_bits(&self) -> Mode {
        self.bits_without_setid() | Mode::WUSR
    }

    /// Returns whether its owner may write to it.
    pub(crate) fn is_writable_for_owner(&self) -> bool {
        self.mode.contains(Mode::WUSR)
    }

    /// Returns what distinguishes the file from all others.
    pub(crate) fn identity(&self) -> FileIdentity {
        let FileFingerprint { device, inode, .. } = self.version;
        FileIdentity { device, inode }
    }

    fn from_stat(stat: &Statx) -> Self {
        let mode = RawMode::from(stat.stx_mode);
        Self {
            kind: FileType::from_raw_mode(mode).into(),
            version: fingerprint(stat),
            mode: Mode::from_raw_mode(mode),
            owner: Uid::from_raw(stat.stx_uid),
            group: Gid::from_raw(stat.stx_gid),
            link_count: stat.stx_nlink,
            allocated_bytes: stat.stx_blocks.saturating_mul(BLOCK_BYTES),
        }
    }
}

/// Returns what distinguishes the file of `stat` from all others.
pub(crate) fn identity(stat: &Statx) -> FileIdentity {
    FileIdentity {
        device: (u64::from(stat.stx_dev_major) << 32) | u64::from(stat.stx_dev_minor),
        inode: stat.stx_ino,
    }
}

/// Returns what distinguishes the content of the file of `stat` from all others.
pub(crate) fn fingerprint(stat: &Statx) -> FileFingerprint {
    let FileIdentity { device, inode } = identity(stat);
    FileFingerprint {
        device,
        inode,
        size_bytes: stat.stx_size,
        modified_ns: nanoseconds(stat.stx_mtime),
        changed_ns: nanoseconds(stat.stx_ctime),
    }
}

/// Converts a time to nanoseconds since 1970.
pub(crate) fn nanoseconds(time: StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * SECOND_NS + i128::from(time.tv_nsec)
}

/// Returns the timestamps that set this modification time, in nanoseconds since 1970, and leave the
/// access time as it is.
pub(crate) fn modification_timestamps(modified_ns: i128) -> Result<Timestamps, FileSystemError> {
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
