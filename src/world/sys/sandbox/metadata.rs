//! Answers system calls that change a file's metadata: its mode, owner, times and extended
//! attributes. Landlock does not cover these calls, so at level `landlock` the supervisor makes the
//! change itself: on its own handle, after checking where the file is, and never outside the
//! writable trees. The supervisor has the command's user and no capability, so the kernel decides
//! as it would for the command.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, chmod, chownat, fstat, readlinkat, removexattr, setxattr,
    utimensat,
};
use rustix::io::Errno;

use crate::path::AbsPath;
use crate::world::sys::sandbox::arguments::{CallTarget, MetadataChange, read_change};
use crate::world::sys::sandbox::caller::NotifyingProcess;
use crate::world::sys::sandbox::notification::SeccompNotification;

/// The setuid and setgid bits.
const SETID_BITS: Mode = Mode::SUID.union(Mode::SGID);

/// A parsed change, with a handle on the file to change.
#[derive(Debug)]
pub(crate) struct PreparedChange {
    file: OwnedFd,
    change: MetadataChange,
}

/// Reads what the caller wants and opens the file. `writable` are the trees that a command may
/// change; a file outside of them is refused.
pub(crate) fn prepare_change(
    notification: &SeccompNotification,
    caller: &NotifyingProcess,
    writable: &[AbsPath],
) -> Result<PreparedChange, Errno> {
    let (target, change) = read_change(notification, caller)?;
    let file = match target {
        CallTarget::Handle(number) => caller.handle(number)?,
        CallTarget::Path(base, path, last) => caller.follow(base, &path, last)?,
    };
    let path = readlinkat(CWD, handle_path(&file), Vec::new())?;
    let path = AbsPath::new(OsStr::from_bytes(path.as_bytes()));
    let is_writable = |path: AbsPath| writable.iter().any(|root| path.is_within(root));
    if !path.is_some_and(is_writable) {
        return Err(Errno::PERM);
    }
    Ok(PreparedChange { file, change })
}

/// Returns a path by which this process names one of its own handles.
fn handle_path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

impl PreparedChange {
    /// Makes the change.
    pub(crate) fn apply(self) -> Result<(), Errno> {
        let Self { file, change } = self;
        match change {
            MetadataChange::Mode(mode) => {
                let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
                if mode.intersects(SETID_BITS) && kind != FileType::Directory {
                    return Err(Errno::PERM);
                }
                chmod(handle_path(&file), mode)
            }
            MetadataChange::Owner(user, group) => {
                chownat(file.as_fd(), "", user, group, AtFlags::EMPTY_PATH)
            }
            MetadataChange::Times(times) => {
                utimensat(file.as_fd(), "", &times, AtFlags::EMPTY_PATH)
            }
            MetadataChange::SetAttribute(name, value, flags) => {
                setxattr(handle_path(&file), name, &value, flags)
            }
            MetadataChange::RemoveAttribute(name) => removexattr(handle_path(&file), name),
        }
    }
}
