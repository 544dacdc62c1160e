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
use crate::world::sys::sandbox::arguments::{Change, Target, read};
use crate::world::sys::sandbox::caller::Caller;
use crate::world::sys::sandbox::notice::Notice;

/// Bits of a mode that lend the owner's rights to whoever starts the file.
const LENDING: Mode = Mode::SUID.union(Mode::SGID);

/// A change that was understood, on the file that it is about.
#[derive(Debug)]
pub(crate) struct Prepared {
    file: OwnedFd,
    change: Change,
}

/// Reads what the caller wants and finds the file. `writable` are the trees that a command may
/// change; a file outside of them is refused.
pub(crate) fn prepare(
    notice: &Notice,
    caller: &Caller,
    writable: &[AbsPath],
) -> Result<Prepared, Errno> {
    let (target, change) = read(notice, caller)?;
    let file = match target {
        Target::Handle(number) => caller.handle(number)?,
        Target::Path(base, path, last) => caller.follow(base, &path, last)?,
    };
    let place = readlinkat(CWD, own_name(&file), Vec::new())?;
    let place = AbsPath::new(OsStr::from_bytes(place.as_bytes()));
    let is_writable = |place: AbsPath| writable.iter().any(|root| place.is_within(root));
    if !place.is_some_and(is_writable) {
        return Err(Errno::PERM);
    }
    Ok(Prepared { file, change })
}

/// A path by which this process names one of its own handles.
fn own_name(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

impl Prepared {
    /// Makes the change.
    pub(crate) fn carry_out(self) -> Result<(), Errno> {
        let Self { file, change } = self;
        match change {
            Change::Mode(mode) => {
                let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
                if mode.intersects(LENDING) && kind != FileType::Directory {
                    return Err(Errno::PERM);
                }
                chmod(own_name(&file), mode)
            }
            Change::Owner(user, group) => {
                chownat(file.as_fd(), "", user, group, AtFlags::EMPTY_PATH)
            }
            Change::Times(times) => utimensat(file.as_fd(), "", &times, AtFlags::EMPTY_PATH),
            Change::SetAttribute(name, value, flags) => {
                setxattr(own_name(&file), name, &value, flags)
            }
            Change::RemoveAttribute(name) => removexattr(own_name(&file), name),
        }
    }
}
