//! Owns the answers to calls that change what a file is said to be: its mode, owner, times and
//! attributes. Landlock does not look at these calls, so in tier C the supervisor makes the change
//! itself: on its own handle, after it has seen where that is, and never outside what is writable.
//! It has the rights of the command and no capability, so the kernel still decides like for it.

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

/// Bits of a mode that lend the owner's rights to whoever starts the file.
const LENDING: Mode = Mode::SUID.union(Mode::SGID);

/// A change that was understood, on the file that it is about.
#[derive(Debug)]
pub(crate) struct PreparedChange {
    file: OwnedFd,
    change: MetadataChange,
}

/// Reads what the caller wants and finds the file. `writable` are the trees that a command may
/// change; a file outside of them is refused.
pub(crate) fn prepare_change(
    notice: &SeccompNotification,
    caller: &NotifyingProcess,
    writable: &[AbsPath],
) -> Result<PreparedChange, Errno> {
    let (target, change) = read_change(notice, caller)?;
    let file = match target {
        CallTarget::Handle(number) => caller.handle(number)?,
        CallTarget::Path(base, path, last) => caller.follow(base, &path, last)?,
    };
    let place = readlinkat(CWD, handle_path(&file), Vec::new())?;
    let place = AbsPath::new(OsStr::from_bytes(place.as_bytes()));
    let is_writable = |place: AbsPath| writable.iter().any(|root| place.is_within(root));
    if !place.is_some_and(is_writable) {
        return Err(Errno::PERM);
    }
    Ok(PreparedChange { file, change })
}

/// A path by which this process names one of its own handles.
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
                if mode.intersects(LENDING) && kind != FileType::Directory {
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
