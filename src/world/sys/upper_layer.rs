//! Reads and writes the marks that the kernel leaves in the upper layer of an overlay: whiteouts,
//! for names that were removed, and opaque directories, which replace the directory below. massgen's
//! own marks begin with `user.overlay.` too: the kernel lets nothing that works on an overlay set
//! such a mark. A mark that massgen's overlays never create is an error, because then the layer
//! alone does not show what was changed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawMode, StatxFlags, XattrFlags, chmod, getxattr, mknodat,
    openat, removexattr, setxattr, statx,
};
use rustix::io::Errno;

use crate::path::RelPath;
use crate::world::sys::dir::{DirectoryHandle, proc_path};
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;

/// On a directory that hides the one below completely (overlayfs with `userxattr`).
const OPAQUE_MARK: &str = "user.overlay.opaque";

/// The value of [`OPAQUE_MARK`] on such a directory.
const OPAQUE_YES: &[u8] = b"y";

/// On what was copied up from the tree below, whatever its value.
const ORIGIN_MARK: &str = "user.overlay.origin";

/// massgen's own mark on a directory that stays in the layer and was applied to the tree below.
const APPLIED_MARK: &str = "user.overlay.massgen.applied";

/// massgen's own mark on an empty file that stands for a whiteout, where the process may not create
/// the whiteout device.
const REMOVED_MARK: &str = "user.overlay.massgen.removed";

/// More bytes than the value of any mark that is read here.
const MARK_BYTES_MAX: usize = 256;

/// Marks of features that are never enabled: with them, content and names would be elsewhere.
const UNKNOWN_MARKS: &[&str] = &["user.overlay.redirect", "user.overlay.metacopy"];

/// The device number of a whiteout.
const WHITEOUT_DEVICE: u64 = 0;

/// Why a name with an unknown mark stays where it is.
const UNREADABLE_REASON: &str = "its layer has marks that massgen cannot read";

/// What a name in the layer means for the same name in the tree below.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UpperEntry {
    /// It was removed.
    Removed,
    /// It is a directory of the tree below, which stays visible through it.
    MergedDirectory(FileMetadata),
    /// It is a new directory. If there is one below, that one stays visible through it.
    NewDirectory(FileMetadata),
    /// It is a directory that replaces what was there.
    OpaqueDirectory(FileMetadata),
    /// It is a file, new or changed.
    File(FileMetadata),
    /// It is a symlink, new or changed.
    Link,
    /// It is a pipe, a socket or a device.
    Special(FileKind),
}

/// Reads what `rel` in the layer `upper` means.
pub(crate) fn read_upper_entry(
    upper: &DirectoryHandle,
    rel: &RelPath,
) -> Result<UpperEntry, FileSystemError> {
    let handle = upper.handle(rel)?;
    let meta = FileMetadata::from_handle(&handle)?;
    match meta.kind {
        FileKind::Link => return Ok(UpperEntry::Link),
        FileKind::Device if is_whiteout(&handle)? => return Ok(UpperEntry::Removed),
        kind @ (FileKind::Fifo | FileKind::Socket | FileKind::Device) => {
            return Ok(UpperEntry::Special(kind));
        }
        FileKind::File | FileKind::Directory => {}
    }
    for mark in UNKNOWN_MARKS {
        if read_mark(&handle, mark)?.is_some() {
            return Err(FileSystemError::Limit(UNREADABLE_REASON));
        }
    }
    if meta.kind == FileKind::File {
        // A command that works on a copy can set every mark, so a file with content is a file.
        let is_removed =
            meta.version.size_bytes == 0 && read_mark(&handle, REMOVED_MARK)?.is_some();
        return Ok(if is_removed {
            UpperEntry::Removed
        } else {
            UpperEntry::File(meta)
        });
    }
    match read_mark(&handle, OPAQUE_MARK)?.as_deref() {
        Some(OPAQUE_YES) => Ok(UpperEntry::OpaqueDirectory(meta)),
        Some(_) => Err(FileSystemError::Limit(UNREADABLE_REASON)),
        None if read_mark(&handle, ORIGIN_MARK)?.is_some()
            || read_mark(&handle, APPLIED_MARK)?.is_some() =>
        {
            Ok(UpperEntry::MergedDirectory(meta))
        }
        None => Ok(UpperEntry::NewDirectory(meta)),
    }
}

/// Returns whether the file, symlink or directory `rel` of the layer does not come from the tree
/// below.
pub(crate) fn is_new(upper: &DirectoryHandle, rel: &RelPath) -> bool {
    match read_upper_entry(upper, rel) {
        Ok(UpperEntry::NewDirectory(_) | UpperEntry::OpaqueDirectory(_) | UpperEntry::Link) => true,
        Ok(UpperEntry::File(_)) => !is_copied_up(upper, rel),
        Ok(UpperEntry::Removed | UpperEntry::MergedDirectory(_) | UpperEntry::Special(_))
        | Err(_) => false,
    }
}

/// Returns whether `rel` in the layer was copied from the tree below and then changed.
pub(crate) fn is_copied_up(upper: &DirectoryHandle, rel: &RelPath) -> bool {
    let handle = upper.handle(rel);
    handle.is_ok_and(|handle| matches!(read_mark(&handle, ORIGIN_MARK), Ok(Some(_))))
}

/// Marks a file of a layer as copied from the tree below, where the file system supports marks. The
/// caller must be allowed to write to it: a read-only file is marked before it gets its permission
/// bits. The kernel takes the empty value for an unknown original.
pub(crate) fn mark_copied_up(file: BorrowedFd<'_>) -> Result<(), FileSystemError> {
    match setxattr(proc_path(file), ORIGIN_MARK, b"", XattrFlags::empty()) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Marks `rel` in the layer `to` as copied from the tree below if it is marked so in `from`. Then its
/// owner gets write permission.
pub(crate) fn copy_origin_mark(
    from: &DirectoryHandle,
    to: &DirectoryHandle,
    rel: &RelPath,
) -> Result<(), FileSystemError> {
    let handle = to.handle(rel)?;
    let meta = FileMetadata::from_handle(&handle)?;
    if meta.kind != FileKind::File || !is_copied_up(from, rel) {
        return Ok(());
    }
    chmod(proc_path(&handle), meta.mode | Mode::WUSR)?;
    mark_copied_up(handle.as_fd())
}

/// Marks the directory `rel`, which stays in the layer, as applied: the directory below stays
/// visible through it, and if the user removes that one, it is not created again.
pub(crate) fn mark_applied(upper: &DirectoryHandle, rel: &RelPath) -> Result<(), FileSystemError> {
    let handle = upper.handle(rel)?;
    let path = proc_path(&handle);
    setxattr(&path, APPLIED_MARK, b"y", XattrFlags::empty())?;
    match removexattr(&path, OPAQUE_MARK) {
        Ok(()) | Err(Errno::NODATA) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Creates the directories of a layer above `rel` that are missing. They get the permission bits of
/// those in `tree`, the tree below, and like them they are not created again if the user removes
/// them.
pub(crate) fn make_parents_over(
    tree: &DirectoryHandle,
    upper: &DirectoryHandle,
    rel: &RelPath,
) -> Result<(), FileSystemError> {
    let parent = rel.parent().unwrap_or_default();
    let mut dir = RelPath::default();
    for name in parent.names() {
        dir = dir.child(name).ok_or(FileSystemError::Missing)?;
        if !matches!(upper.meta(&dir), Err(FileSystemError::Missing)) {
            continue;
        }
        drop(upper.make_dirs(&dir)?);
        let below = tree.meta(&dir).ok();
        let below = below
            .filter(|below| below.kind == FileKind::Directory && below.mode.contains(Mode::RWXU));
        if let Some(below) = below.filter(|_| supports_marks(upper)) {
            let handle = upper.handle(&dir)?;
            chmod(proc_path(&handle), below.mode)?;
            // With other bits, the mark would change those of the user's directory.
            if FileMetadata::from_handle(&handle)?.mode == below.mode {
                mark_applied(upper, &dir)?;
            }
        }
    }
    Ok(())
}

/// Marks the directory `rel` of a layer as opaque: nothing of what is below is visible through it.
pub(crate) fn mark_opaque(upper: &DirectoryHandle, rel: &RelPath) -> Result<(), FileSystemError> {
    let handle = upper.handle(rel)?;
    let path = proc_path(&handle);
    Ok(setxattr(
        &path,
        OPAQUE_MARK,
        OPAQUE_YES,
        XattrFlags::empty(),
    )?)
}

/// Creates a whiteout: marks `name`, which is free in the directory `dir` of a layer, as removed.
pub(crate) fn create_whiteout(dir: &DirectoryHandle, name: &OsStr) -> Result<(), FileSystemError> {
    match mknodat(
        dir,
        name,
        FileType::CharacterDevice,
        Mode::empty(),
        WHITEOUT_DEVICE,
    ) {
        Err(Errno::PERM | Errno::OPNOTSUPP) => {}
        result => return Ok(result?),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(setxattr(
        proc_path(&file),
        REMOVED_MARK,
        b"y",
        XattrFlags::empty(),
    )?)
}

/// Returns whether the marks of a layer can be created in the directory `dir`.
pub(crate) fn supports_marks(dir: &DirectoryHandle) -> bool {
    let path = proc_path(dir);
    let mark_result = setxattr(&path, APPLIED_MARK, b"y", XattrFlags::empty());
    mark_result
        .and_then(|()| removexattr(&path, APPLIED_MARK))
        .is_ok()
}

/// Gives massgen itself read permission on the file or directory `rel` of the layer, whatever mode
/// the command set.
pub(crate) fn make_readable(upper: &DirectoryHandle, rel: &RelPath) -> Result<(), FileSystemError> {
    let handle = upper.handle(rel)?;
    let meta = FileMetadata::from_handle(&handle)?;
    let needed_bits = match meta.kind {
        FileKind::File => Mode::RUSR,
        FileKind::Directory => Mode::RWXU,
        FileKind::Link | FileKind::Fifo | FileKind::Socket | FileKind::Device => return Ok(()),
    };
    if meta.mode.contains(needed_bits) {
        return Ok(());
    }
    Ok(chmod(proc_path(&handle), meta.mode | needed_bits)?)
}

/// Returns whether `handle` is a whiteout: a character device with the number 0:0.
fn is_whiteout(handle: impl AsFd) -> Result<bool, FileSystemError> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    let stat = statx(handle, "", flags, StatxFlags::BASIC_STATS)?;
    let file_type = FileType::from_raw_mode(RawMode::from(stat.stx_mode));
    Ok(file_type == FileType::CharacterDevice
        && (stat.stx_rdev_major, stat.stx_rdev_minor) == (0, 0))
}

/// Reads the mark `name`; `None` if it is absent, or the file system supports no such marks.
fn read_mark(handle: impl AsFd, name: &str) -> Result<Option<Vec<u8>>, FileSystemError> {
    let mut value = [0; MARK_BYTES_MAX];
    match getxattr(proc_path(handle), name, &mut value[..]) {
        Ok(length) => Ok(value.get(..length).map(<[u8]>::to_vec)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
