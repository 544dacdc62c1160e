//! What a directory's file system supports: its free space, and the operations that it really
//! performs. Each operation is done once, in a directory that the caller removes. Also finds files
//! of other users, which an overlay could not change.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "only world::sys touches files"
)]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, statfs, statvfs};
use rustix::process::{Gid, getegid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, capabilities};

use crate::path::AbsPath;

/// What the file system of a directory reports about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSystemSpace {
    /// Bytes that the user may still fill.
    pub(crate) free_bytes: u64,
    /// Its size in bytes.
    pub(crate) all_bytes: u64,
    /// Its files (inodes); `None` if it has no limit on them.
    pub(crate) files: Option<InodeSpace>,
    /// The number of its type (statfs(2)).
    pub(crate) magic: i64,
}

/// How many files (inodes) a file system has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InodeSpace {
    /// Those that the user may still create.
    pub(crate) free: u64,
    /// All, including those in use.
    pub(crate) all: u64,
}

/// Returns the free space of the file system at `dir`.
pub(crate) fn file_system_space(dir: &AbsPath) -> io::Result<FileSystemSpace> {
    let statistics = statvfs(dir.as_path())?;
    let files = InodeSpace {
        free: statistics.f_favail,
        all: statistics.f_files,
    };
    Ok(FileSystemSpace {
        free_bytes: statistics.f_bavail.saturating_mul(statistics.f_frsize),
        all_bytes: statistics.f_blocks.saturating_mul(statistics.f_frsize),
        files: Some(files).filter(|files| files.all > 0),
        magic: statfs(dir.as_path())?.f_type,
    })
}

/// How many entries of a directory are searched for those of other users.
const ENTRIES_CHECKED_MAX: usize = 10_000;

/// Returns the first of the directory `tree` and its direct entries that belongs to another user or
/// group than those of this process and whose mode lets the user write to it, capabilities aside.
pub(crate) fn foreign_writable(tree: &AbsPath) -> io::Result<Option<AbsPath>> {
    let user = geteuid().as_raw();
    let mut groups: Vec<u32> = getgroups()?.into_iter().map(Gid::as_raw).collect();
    groups.push(getegid().as_raw());
    first_foreign(tree, &|meta| {
        let needed = if meta.uid() == user {
            0o200
        } else if groups.contains(&meta.gid()) {
            0o020
        } else {
            0o002
        };
        meta.mode() & needed != 0
    })
}

/// Like [`foreign_writable`], but ignores modes, for a process whose capability
/// (`CAP_DAC_OVERRIDE`) lets it write to everything; `None` if it has no such capability.
pub(crate) fn foreign_reachable_by_root(tree: &AbsPath) -> io::Result<Option<AbsPath>> {
    let effective = capabilities(None)?.effective;
    if effective.contains(CapabilitySet::DAC_OVERRIDE) {
        first_foreign(tree, &|_| true)
    } else {
        Ok(None)
    }
}

/// Returns the first of the directory `tree` and its direct entries that belongs to another user or
/// group and is `is_wanted`.
fn first_foreign(
    tree: &AbsPath,
    is_wanted: &dyn Fn(&fs::Metadata) -> bool,
) -> io::Result<Option<AbsPath>> {
    let own_owner = (geteuid().as_raw(), getegid().as_raw());
    let is_match = |path: &Path| -> io::Result<bool> {
        let meta = fs::symlink_metadata(path)?;
        let is_foreign = (meta.uid(), meta.gid()) != own_owner;
        Ok(is_foreign && !meta.is_symlink() && is_wanted(&meta))
    };
    if is_match(tree.as_path())? {
        return Ok(Some(tree.clone()));
    }
    for entry in fs::read_dir(tree.as_path())?.take(ENTRIES_CHECKED_MAX) {
        let name = entry?.file_name();
        let path = tree.join(name);
        // An entry that is removed meanwhile belongs to no other user.
        if is_match(path.as_path()).unwrap_or_default() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Writes a file and reads it back. The file stays for the other tests.
pub(crate) fn write(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("file"), "content")?;
    match fs::read(dir.join("file"))?.as_slice() {
        b"content" => Ok(()),
        _ => Err(io::Error::other("what was read is not what was written")),
    }
}

/// Syncs the file and its directory to the disk.
pub(crate) fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir.join("file"))?.sync_all()?;
    File::open(dir)?.sync_all()
}

/// Replaces a file with another atomically.
pub(crate) fn rename(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("newer"), "newer")?;
    fs::rename(dir.join("newer"), dir.join("file"))
}

/// Creates an unnamed file and then names it.
pub(crate) fn unnamed_file(dir: &Path) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(CWD, dir, flags, Mode::RUSR | Mode::WUSR)?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    let descriptor_path = format!("/proc/self/fd/{descriptor}");
    let flags = AtFlags::SYMLINK_FOLLOW;
    Ok(linkat(CWD, descriptor_path, CWD, dir.join("named"), flags)?)
}

/// Creates a hard link to the file.
pub(crate) fn hard_link(dir: &Path) -> io::Result<()> {
    fs::hard_link(dir.join("file"), dir.join("second"))
}

/// Creates a copy that shares its blocks with the original.
pub(crate) fn shared_copy(dir: &Path) -> io::Result<()> {
    let copy = File::create(dir.join("copy"))?;
    Ok(rustix::fs::ioctl_ficlone(
        &copy,
        File::open(dir.join("file"))?,
    )?)
}

/// Locks the file against other processes.
pub(crate) fn lock(dir: &Path) -> io::Result<()> {
    Ok(File::open(dir.join("file"))?.try_lock()?)
}
