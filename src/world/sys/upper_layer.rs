//! Owns the marks that the kernel leaves in the upper layer of an overlay: which name is gone, and
//! which directory stands in the place of another. Who reads them is told when a layer holds a mark
//! that massgen's overlays never make, because then the layer alone does not say what was changed.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawMode, StatxFlags, XattrFlags, chmod, getxattr, mknodat,
    openat, removexattr, setxattr, statx,
};
use rustix::io::Errno;

use crate::path::RelPath;
use crate::world::sys::dir::{DirectoryHandle, proc_path};
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::{FileKind, FileMetadata};

/// On a directory, through which nothing shows of the one below (overlayfs with `userxattr`).
const OPAQUE: &str = "user.overlay.opaque";

/// What [`OPAQUE`] holds then.
const OPAQUE_YES: &[u8] = b"y";

/// On what was copied up from the tree below, whatever it holds.
const ORIGIN: &str = "user.overlay.origin";

/// massgen's own, on a directory that stays in the layer and was carried into the tree below.
const CARRIED: &str = "user.massgen.carried";

/// massgen's own, on an empty file that says that a name is gone, where nobody may make the device
/// that says so.
const REMOVED: &str = "user.massgen.removed";

/// More bytes than any mark that is read here holds.
const MARK_BYTES_MAX: usize = 256;

/// Marks of features that are never switched on: content and names would be elsewhere.
const UNKNOWN: &[&str] = &["user.overlay.redirect", "user.overlay.metacopy"];

/// The number of the device by which an overlay says that a name is gone.
const WHITEOUT: u64 = 0;

/// Why a name with a mark that is not understood stays where it is.
const UNREADABLE: &str = "its layer has marks that massgen cannot read";

/// What a name in the layer says about the same name in the tree below.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UpperEntry {
    /// It is gone.
    Removed,
    /// It is a directory of the tree below, which shows through.
    Merged(FileMetadata),
    /// It is a new directory. Where one is below, that shows through.
    Made(FileMetadata),
    /// It is a directory that stands in the place of what was there.
    Replaced(FileMetadata),
    /// It is a file with this content.
    File(FileMetadata),
    /// It is a link with this text.
    Link,
    /// It is a pipe, a socket or a device.
    Special(FileKind),
}

/// What `rel` in the layer `upper` says.
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
    for unknown in UNKNOWN {
        if read_mark(&handle, unknown)?.is_some() {
            return Err(FileSystemError::Limit(UNREADABLE));
        }
    }
    if meta.kind == FileKind::File {
        return Ok(match read_mark(&handle, REMOVED)? {
            Some(_) => UpperEntry::Removed,
            None => UpperEntry::File(meta),
        });
    }
    match read_mark(&handle, OPAQUE)?.as_deref() {
        Some(OPAQUE_YES) => Ok(UpperEntry::Replaced(meta)),
        Some(_) => Err(FileSystemError::Limit(UNREADABLE)),
        None if read_mark(&handle, ORIGIN)?.is_some() || read_mark(&handle, CARRIED)?.is_some() => {
            Ok(UpperEntry::Merged(meta))
        }
        None => Ok(UpperEntry::Made(meta)),
    }
}

/// Whether what stands at `rel` of the layer was copied from the tree below and then changed.
pub(crate) fn is_copied_up(upper: &DirectoryHandle, rel: &RelPath) -> bool {
    let handle = upper.handle(rel);
    handle.is_ok_and(|handle| matches!(read_mark(&handle, ORIGIN), Ok(Some(_))))
}

/// Says of the directory `rel`, which stays in the layer, that it was carried: what is below shows
/// through it, and if somebody removes that, it is not made again.
pub(crate) fn mark_carried(upper: &DirectoryHandle, rel: &RelPath) -> Result<(), FileSystemError> {
    let handle = upper.handle(rel)?;
    let path = proc_path(&handle);
    setxattr(&path, CARRIED, b"y", XattrFlags::empty())?;
    match removexattr(&path, OPAQUE) {
        Ok(()) | Err(Errno::NODATA) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Says of the directory `rel` of a layer that nothing of what stands there below shows through it.
pub(crate) fn mark_opaque(upper: &DirectoryHandle, rel: &RelPath) -> Result<(), FileSystemError> {
    let handle = upper.handle(rel)?;
    let path = proc_path(&handle);
    Ok(setxattr(&path, OPAQUE, OPAQUE_YES, XattrFlags::empty())?)
}

/// Says that `name`, which is free in the directory `dir` of a layer, is gone.
pub(crate) fn create_whiteout(dir: &DirectoryHandle, name: &OsStr) -> Result<(), FileSystemError> {
    match mknodat(
        dir,
        name,
        FileType::CharacterDevice,
        Mode::empty(),
        WHITEOUT,
    ) {
        Err(Errno::PERM | Errno::OPNOTSUPP) => {}
        made => return Ok(made?),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(setxattr(
        proc_path(&file),
        REMOVED,
        b"y",
        XattrFlags::empty(),
    )?)
}

/// Whether the marks of a layer can be made in the directory `dir`.
pub(crate) fn supports_marks(dir: &DirectoryHandle) -> bool {
    let path = proc_path(dir);
    let made = setxattr(&path, CARRIED, b"y", XattrFlags::empty());
    made.and_then(|()| removexattr(&path, CARRIED)).is_ok()
}

/// Lets massgen itself read the file or directory `rel` of the layer, whatever the command said.
pub(crate) fn make_readable(upper: &DirectoryHandle, rel: &RelPath) -> Result<(), FileSystemError> {
    let handle = upper.handle(rel)?;
    let meta = FileMetadata::from_handle(&handle)?;
    let needed = match meta.kind {
        FileKind::File => Mode::RUSR,
        FileKind::Directory => Mode::RWXU,
        FileKind::Link | FileKind::Fifo | FileKind::Socket | FileKind::Device => return Ok(()),
    };
    if meta.mode.contains(needed) {
        return Ok(());
    }
    Ok(chmod(proc_path(&handle), meta.mode | needed)?)
}

/// A character device of number 0:0 is how an overlay says that a name is gone.
fn is_whiteout(handle: impl AsFd) -> Result<bool, FileSystemError> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    let stat = statx(handle, "", flags, StatxFlags::BASIC_STATS)?;
    let file_type = FileType::from_raw_mode(RawMode::from(stat.stx_mode));
    Ok(file_type == FileType::CharacterDevice
        && (stat.stx_rdev_major, stat.stx_rdev_minor) == (0, 0))
}

/// The mark `name`; `None` where there is none, or where the file system cannot have any.
fn read_mark(handle: impl AsFd, name: &str) -> Result<Option<Vec<u8>>, FileSystemError> {
    let mut value = [0; MARK_BYTES_MAX];
    match getxattr(proc_path(handle), name, &mut value[..]) {
        Ok(length) => Ok(value.get(..length).map(<[u8]>::to_vec)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
