//! Copies a directory tree that other processes may change at the same time. Every step goes from
//! an open directory to one of its entries, and symlinks are never followed: nothing that is
//! swapped meanwhile leads the copy out of its tree. It must never replace anything.
#![expect(clippy::disallowed_types, reason = "only world::sys touches files")]

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Statx, StatxFlags, Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::permissions::history::FileFingerprint;
use crate::sandbox_policy::FileIdentity;
use crate::world::sys::content::next_data;
use crate::world::sys::file_system_features::file_system_space;
use crate::world::sys::meta::{SECOND_NS, fingerprint, identity, nanoseconds};
use crate::world::sys::state_files::dir::UNFINISHED_PREFIX;
use crate::world::sys::state_files::file_error;

/// massgen's own state; it is left out wherever it is.
const STATE_NAME: &[u8] = b".massgen";

/// How much older than the copy a file's last change must be for its [`FileFingerprint`] to be
/// trusted later. Kernels may stamp files with the time of their last clock tick, and the longest
/// tick of Linux is 10 ms (`CONFIG_HZ=100`).
const TICK_NS_MAX: i128 = 50_000_000;

/// How directories are opened: a symlink in place of one is refused.
const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The mode bits that let any user write to a file.
const WRITE_BITS: u16 = 0o222;

/// Limits on the size of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeLimits {
    /// Files, symlinks and directories together.
    pub(crate) entries: u64,
    /// Bytes that have to be newly stored.
    pub(crate) bytes: u64,
    /// Nested directories.
    pub(crate) depth: usize,
}

/// The kind of copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyMethod<'a> {
    /// Read-only files that must not change: files that did not change since the last copy are hard
    /// links to it.
    Frozen {
        /// The last copy of the same tree.
        last: Option<&'a PreviousCopy>,
    },
    /// Independent files that their owner may change.
    Writable,
    /// Hard links to files that are read-only; others as with `Writable`.
    Shared,
}

/// A frozen copy and the manifest of its sources.
#[derive(Debug)]
pub(crate) struct PreviousCopy {
    /// Its directory.
    pub(crate) dir: AbsPath,
    /// The versions that its files were copied from.
    pub(crate) manifest: VersionManifest,
}

/// The versions of files at the time of a copy, for one directory and those below: versions of the
/// source, or for a writable copy those of the copy itself.
#[derive(Debug, Default)]
pub(crate) struct VersionManifest {
    files: BTreeMap<OsString, FileFingerprint>,
    directories: BTreeMap<OsString, VersionManifest>,
}

/// What a copy contains, and what it leaves out.
#[derive(Debug, Default)]
pub(crate) struct CopyReport {
    /// Regular files.
    pub(crate) files: u64,
    /// Those of them that are hard links to existing files.
    pub(crate) reused: u64,
    /// Symlinks, copied as they are.
    pub(crate) links: u64,
    /// Bytes that were newly stored.
    pub(crate) stored_bytes: u64,
    /// FIFOs, sockets and devices, which are left out.
    pub(crate) special: u64,
    /// Files and directories left out because the process may not read them.
    pub(crate) unreadable: u64,
    /// Entries left out because they were replaced by something else during the copy.
    pub(crate) swapped: u64,
    /// The versions of those files whose later changes can be detected.
    pub(crate) manifest: VersionManifest,
}

/// The bytes that a copy leaves free on its disk, but no more than this part of the disk: the
/// records of runs need them.
const RESERVED_BYTES: u64 = 64 * 1024 * 1024;
const RESERVED_DENOMINATOR: u64 = 16;

/// Copies the content of the directory `from` into the existing directory `to`. massgen's own state
/// and the `excluded` directories are left out.
pub(crate) fn copy(
    from: &AbsPath,
    to: &AbsPath,
    method: CopyMethod<'_>,
    limits: TreeLimits,
    excluded: &[&AbsPath],
) -> Result<CopyReport> {
    let open_directory = |path: &AbsPath| {
        rustix::fs::open(
            path.as_path(),
            DIRECTORY_FLAGS - OFlags::NOFOLLOW,
            Mode::empty(),
        )
        .map_err(|error| file_error("open the directory", path.as_path(), error.into()))
    };
    let last = match method {
        CopyMethod::Frozen { last } => last,
        CopyMethod::Writable | CopyMethod::Shared => None,
    };
    let level = CopyLevel {
        from: open_directory(from)?,
        to: open_directory(to)?,
        // Without it, everything is stored again; the user may have removed it to free space.
        last: last.and_then(|copy| Some((open_directory(&copy.dir).ok()?, &copy.manifest))),
    };
    let space = file_system_space(to)
        .map_err(|error| file_error("read the free space of", to.as_path(), error))?;
    let reserve = RESERVED_BYTES.min(space.all_bytes / RESERVED_DENOMINATOR);
    let limits = TreeLimits {
        bytes: limits.bytes.min(space.free_bytes.saturating_sub(reserve)),
        ..limits
    };
    let start_stat =
        stat(&level.to, c"").map_err(|error| file_error("look at", to.as_path(), error.into()))?;
    let excluded = excluded
        .iter()
        .filter_map(|path| stat_path(path).ok())
        .map(|stat| identity(&stat))
        .collect();
    let mut copier = TreeCopier {
        root: from,
        current_path: PathBuf::new(),
        depth: 0,
        entries: 0,
        method,
        limits,
        excluded,
        start_ns: nanoseconds(start_stat.stx_ctime),
        report: CopyReport::default(),
    };
    let manifest = copier.copy_directory(&level)?;
    Ok(CopyReport {
        manifest,
        ..copier.report
    })
}

/// One directory of the source, its copy, and its previous copy.
struct CopyLevel<'a> {
    from: OwnedFd,
    to: OwnedFd,
    last: Option<(OwnedFd, &'a VersionManifest)>,
}

struct TreeCopier<'a> {
    root: &'a AbsPath,
    /// The path of the entry that is being copied, below `root`; for messages only.
    current_path: PathBuf,
    depth: usize,
    entries: u64,
    method: CopyMethod<'a>,
    limits: TreeLimits,
    excluded: Vec<FileIdentity>,
    /// When the copy began, by the clock of the file system.
    start_ns: i128,
    report: CopyReport,
}

impl TreeCopier<'_> {
    fn copy_directory(&mut self, level: &CopyLevel<'_>) -> Result<VersionManifest> {
        let mut manifest = VersionManifest::default();
        let entries =
            Dir::read_from(&level.from).map_err(|error| self.copy_error("read", error))?;
        for entry in entries {
            let entry = entry.map_err(|error| self.copy_error("read", error))?;
            let name = entry.file_name();
            if !is_excluded_name(name.to_bytes()) {
                self.current_path.push(os_str(name));
                self.copy_entry(level, name, &mut manifest)?;
                self.current_path.pop();
            }
        }
        Ok(manifest)
    }

    fn copy_entry(
        &mut self,
        level: &CopyLevel<'_>,
        name: &CStr,
        manifest: &mut VersionManifest,
    ) -> Result<()> {
        self.entries = self.entries.saturating_add(1);
        if self.entries > self.limits.entries {
            return Err(self.limit_error(&format!("more than {} entries", self.limits.entries)));
        }
        let file_stat = match stat(&level.from, name) {
            Ok(file_stat) => file_stat,
            Err(Errno::NOENT) => {
                self.report.swapped += 1;
                return Ok(());
            }
            Err(error) => return Err(self.copy_error("look at", error)),
        };
        match FileType::from_raw_mode(file_stat.stx_mode.into()) {
            FileType::Directory => {
                if let Some(below) = self.copy_subdirectory(level, name, &file_stat)? {
                    manifest.directories.insert(os_str(name).to_owned(), below);
                }
            }
            FileType::RegularFile => {
                if let Some(version) = self.copy_file(level, name, &file_stat)? {
                    manifest.files.insert(os_str(name).to_owned(), version);
                }
            }
            FileType::Symlink => self.copy_link(level, name)?,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => self.report.special += 1,
        }
        Ok(())
    }

    fn copy_subdirectory(
        &mut self,
        level: &CopyLevel<'_>,
        name: &CStr,
        file_stat: &Statx,
    ) -> Result<Option<VersionManifest>> {
        if self.excluded.contains(&identity(file_stat)) {
            return Ok(None);
        }
        if self.depth >= self.limits.depth {
            let depth = self.limits.depth;
            return Err(self.limit_error(&format!("more than {depth} directories in each other")));
        }
        let Some(from) = self.open_source(level, name, DIRECTORY_FLAGS)? else {
            return Ok(None);
        };
        let creation = rustix::fs::mkdirat(&level.to, name, Mode::RWXU);
        if self.check_creation(creation)?.is_none() {
            return Ok(None);
        }
        let to = rustix::fs::openat(&level.to, name, DIRECTORY_FLAGS, Mode::empty())
            .map_err(|error| self.copy_error("copy", error))?;
        let last = level.last.as_ref().and_then(|(last, manifest)| {
            let manifest = manifest.directories.get(os_str(name))?;
            let last = rustix::fs::openat(last, name, DIRECTORY_FLAGS, Mode::empty()).ok()?;
            Some((last, manifest))
        });
        self.depth += 1;
        let manifest = self.copy_directory(&CopyLevel { from, to, last })?;
        self.depth -= 1;
        Ok(Some(manifest))
    }

    /// Returns the version that was copied; `None` if the file was left out, or if a later change
    /// of it might not be detected. A file that was reused can be trusted again later.
    fn copy_file(
        &mut self,
        level: &CopyLevel<'_>,
        name: &CStr,
        file_stat: &Statx,
    ) -> Result<Option<FileFingerprint>> {
        let version = fingerprint(file_stat);
        if let Some((last, manifest)) = &level.last
            && manifest.files.get(os_str(name)) == Some(&version)
            && rustix::fs::linkat(last, name, &level.to, name, AtFlags::empty()).is_ok()
        {
            self.report.files += 1;
            self.report.reused += 1;
            return Ok(Some(version));
        }
        let is_frozen = file_stat.stx_mode & WRITE_BITS == 0;
        if matches!(self.method, CopyMethod::Shared)
            && is_frozen
            && rustix::fs::linkat(&level.from, name, &level.to, name, AtFlags::empty()).is_ok()
        {
            self.report.files += 1;
            self.report.reused += 1;
            return Ok(Some(version));
        }
        let stored_version = self.store_file(level, name)?;
        Ok(stored_version.filter(|version| self.is_settled(version)))
    }

    fn store_file(
        &mut self,
        level: &CopyLevel<'_>,
        name: &CStr,
    ) -> Result<Option<FileFingerprint>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Some(source) = self.open_source(level, name, flags)? else {
            return Ok(None);
        };
        let file_stat = stat(&source, c"").map_err(|error| self.copy_error("look at", error))?;
        if FileType::from_raw_mode(file_stat.stx_mode.into()) != FileType::RegularFile {
            self.report.swapped += 1;
            return Ok(None);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = self.mode_of_copy(&file_stat);
        let Some(target) = self.check_creation(rustix::fs::openat(&level.to, name, flags, mode))?
        else {
            return Ok(None);
        };
        let bytes_left = self.limits.bytes.saturating_sub(self.report.stored_bytes);
        let target = File::from(target);
        match copy_bytes(&File::from(source), &target, file_stat.stx_size, bytes_left)
            .map_err(|error| self.copy_io_error("copy", error))?
        {
            CopyOutcome::Stored(bytes) => self.report.stored_bytes += bytes,
            CopyOutcome::OverLimit => {
                let bytes = self.limits.bytes;
                return Err(self.limit_error(&format!("more than {bytes} bytes to store")));
            }
        }
        copy_modified_time(&target, &file_stat).map_err(|error| self.copy_error("copy", error))?;
        self.report.files += 1;
        if let CopyMethod::Writable = self.method {
            let copy = stat(&target, c"").map_err(|error| self.copy_error("look at", error))?;
            return Ok(Some(fingerprint(&copy)));
        }
        Ok(Some(fingerprint(&file_stat)))
    }

    fn copy_link(&mut self, level: &CopyLevel<'_>, name: &CStr) -> Result<()> {
        let target = match rustix::fs::readlinkat(&level.from, name, Vec::new()) {
            Ok(target) => target,
            Err(Errno::NOENT | Errno::INVAL) => {
                self.report.swapped += 1;
                return Ok(());
            }
            Err(error) => return Err(self.copy_error("read the symlink", error)),
        };
        let creation = rustix::fs::symlinkat(target, &level.to, name);
        if self.check_creation(creation)?.is_some() {
            self.report.links += 1;
        }
        Ok(())
    }

    /// Returns what was created in the copy. A directory that changes while it is read may list an
    /// entry twice; then the first one stays, and the result is `None`.
    fn check_creation<T>(&mut self, creation: std::result::Result<T, Errno>) -> Result<Option<T>> {
        match creation {
            Ok(created) => Ok(Some(created)),
            Err(Errno::EXIST) => {
                self.report.swapped += 1;
                Ok(None)
            }
            Err(error) => Err(self.copy_error("copy", error)),
        }
    }

    /// Opens an entry of the source; counts it if it cannot or must not be opened.
    fn open_source(
        &mut self,
        level: &CopyLevel<'_>,
        name: &CStr,
        flags: OFlags,
    ) -> Result<Option<OwnedFd>> {
        match rustix::fs::openat(&level.from, name, flags, Mode::empty()) {
            Ok(handle) => return Ok(Some(handle)),
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => {
                self.report.swapped += 1;
            }
            Err(Errno::ACCESS | Errno::PERM) => self.report.unreadable += 1,
            Err(error) => return Err(self.copy_error("open", error)),
        }
        Ok(None)
    }

    fn mode_of_copy(&self, file_stat: &Statx) -> Mode {
        let permissions = Mode::RWXU | Mode::RWXG | Mode::RWXO;
        let write = Mode::WUSR | Mode::WGRP | Mode::WOTH;
        let mode = Mode::from_raw_mode(file_stat.stx_mode.into()) & permissions;
        match self.method {
            CopyMethod::Frozen { .. } => (mode - write) | Mode::RUSR,
            CopyMethod::Writable => mode | Mode::RUSR | Mode::WUSR,
            CopyMethod::Shared => mode | Mode::RUSR,
        }
    }

    /// Returns whether every later change of the file will show in its version. A time without a
    /// fraction comes from a file system whose clock has a resolution of seconds. A file that was
    /// just created keeps the older modification time of its content, and a change of it sets a new
    /// one.
    fn is_settled(&self, version: &FileFingerprint) -> bool {
        let time_ns = match self.method {
            CopyMethod::Writable => version.modified_ns,
            CopyMethod::Frozen { .. } | CopyMethod::Shared => version.changed_ns,
        };
        version.changed_ns % SECOND_NS != 0 && time_ns.saturating_add(TICK_NS_MAX) < self.start_ns
    }

    fn copy_error(&self, doing: &str, error: Errno) -> Error {
        self.copy_io_error(doing, error.into())
    }

    fn copy_io_error(&self, doing: &str, error: io::Error) -> Error {
        file_error(doing, &self.root.as_path().join(&self.current_path), error)
    }

    fn limit_error(&self, excess: &str) -> Error {
        Error::new(
            ErrorKind::Limit,
            format!("`{}` is too large to be copied: it has {excess}", self.root),
        )
        .with_hint(format!(
            "the limit was reached at `{}`: keep generated files such as `node_modules` and \
             `target` elsewhere",
            self.current_path.display()
        ))
    }
}

fn is_excluded_name(name: &[u8]) -> bool {
    name == b"."
        || name == b".."
        || name == STATE_NAME
        || name.starts_with(UNFINISHED_PREFIX.as_bytes())
}

fn os_str(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

/// Returns the metadata of `name` in `dir`, or of `dir` itself if `name` is empty; a symlink is not
/// followed.
fn stat(dir: impl AsFd, name: &CStr) -> std::result::Result<Statx, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS)
}

fn stat_path(path: &AbsPath) -> std::result::Result<Statx, Errno> {
    rustix::fs::statx(
        CWD,
        path.as_path(),
        AtFlags::empty(),
        StatxFlags::BASIC_STATS,
    )
}

fn copy_modified_time(target: &File, file_stat: &Statx) -> std::result::Result<(), Errno> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: file_stat.stx_mtime.tv_sec,
            tv_nsec: file_stat.stx_mtime.tv_nsec.into(),
        },
    };
    rustix::fs::futimens(target, &times)
}

/// The result of copying the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyOutcome {
    /// Everything was copied; this many bytes had to be newly stored.
    Stored(u64),
    /// More than the limit would have been stored; the target holds a part.
    OverLimit,
}

/// Copies the first `size` bytes of `source` into the empty `target`, unless that would store more
/// than `bytes_max`. Blocks are shared where the file system supports it, and holes stay holes. What is appended to the source meanwhile is left out.
fn copy_bytes(source: &File, target: &File, size: u64, bytes_max: u64) -> io::Result<CopyOutcome> {
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(CopyOutcome::Stored(0));
    }
    let (mut from, mut to) = (source, target);
    let mut stored_bytes: u64 = 0;
    let mut offset = 0;
    while let Some(data) = next_data(source, offset, size)? {
        let length = data.end.saturating_sub(data.start);
        stored_bytes = stored_bytes.saturating_add(length);
        if stored_bytes > bytes_max {
            return Ok(CopyOutcome::OverLimit);
        }
        from.seek(SeekFrom::Start(data.start))?;
        to.seek(SeekFrom::Start(data.start))?;
        io::copy(&mut from.take(length), &mut to)?;
        offset = data.end;
    }
    target.set_len(size)?;
    Ok(CopyOutcome::Stored(stored_bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{CopyMethod, TreeLimits, copy};
    use crate::path::AbsPath;

    /// Copies a tree of 3 entries, 2 levels and 10 bytes; `expected` is the error, if any.
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "a test makes its own tree")]
    fn check(entries: u64, bytes: u64, depth: usize, expected: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| AbsPath::new(dir.path().join(name)).unwrap();
        fs::create_dir_all(dir.path().join("from/d")).unwrap();
        fs::create_dir(dir.path().join("to")).unwrap();
        fs::write(dir.path().join("from/d/a"), "12345").unwrap();
        fs::write(dir.path().join("from/b"), "67890").unwrap();
        let limits = TreeLimits {
            entries,
            bytes,
            depth,
        };
        let copy_result = copy(
            &path("from"),
            &path("to"),
            CopyMethod::Writable,
            limits,
            &[],
        );
        let complaint = copy_result.err().map(|error| error.to_string());
        let from = path("from");
        let expected = expected
            .map(|limit| format!("`{from}` is too large to be copied: it has more than {limit}"));
        assert_eq!(complaint, expected);
    }

    #[test]
    fn each_limit_is_kept_and_named() {
        check(3, 10, 1, None);
        check(2, 10, 1, Some("2 entries"));
        check(3, 9, 1, Some("9 bytes to store"));
        check(3, 10, 0, Some("0 directories in each other"));
    }
}
