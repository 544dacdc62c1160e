//! Owns the answers to calls that change what a file is said to be: its mode, owner, times and
//! attributes. Landlock does not look at these calls, so in tier C the supervisor makes the change
//! itself: on its own handle, after it has seen where that is, and never outside what is writable.
//! It has the rights of the command and no capability, so the kernel still decides like for it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, UTIME_NOW, Uid, XattrFlags, chmod,
    chownat, fstat, readlinkat, removexattr, setxattr, utimensat,
};
use rustix::io::Errno;

use crate::path::AbsPath;
use crate::world::sys::sandbox::caller::{Caller, LastLink};
use crate::world::sys::sandbox::filter::{FCHMODAT2, SET_USER_ID};
use crate::world::sys::sandbox::notice::Notice;

/// Flags of calls that name a file (fcntl.h).
const KEEP_LINK: u64 = 0x100;
const EMPTY_PATH: u64 = 0x1000;
/// The longest value of an attribute, in bytes (`XATTR_SIZE_MAX`).
const ATTRIBUTE_BYTES_MAX: usize = 64 * 1024;
/// The only attributes that a command may change: the others carry rights.
const ATTRIBUTES: &[u8] = b"user.";
/// Bits of a mode that lend the owner's rights to whoever starts the file.
const LENDING: Mode = Mode::SUID.union(Mode::SGID);
const NANOSECONDS_IN_MICROSECOND: i64 = 1000;

/// The file that a call means.
enum Target {
    Handle(i32),
    Path(i32, Vec<u8>, LastLink),
}

/// What a call wants of the file.
enum Change {
    Mode(Mode),
    Owner(Option<Uid>, Option<Gid>),
    Times(Timestamps),
    SetAttribute(Vec<u8>, Vec<u8>, XattrFlags),
    RemoveAttribute(Vec<u8>),
}

/// A change that was understood, on the file that it is about.
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
    let place = AbsPath::new(std::ffi::OsStr::from_bytes(place.as_bytes()));
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

/// What the caller wants, and of which file.
fn read(notice: &Notice, caller: &Caller) -> Result<(Target, Change), Errno> {
    let arguments = Arguments { notice, caller };
    match notice.call {
        libc::SYS_fchmod => Ok((arguments.handle(0), arguments.mode(1)?)),
        libc::SYS_fchmodat => Ok((arguments.path(Some(0), 1, 0)?, arguments.mode(2)?)),
        FCHMODAT2 => {
            let flags = notice.word(3);
            Ok((arguments.path(Some(0), 1, flags)?, arguments.mode(2)?))
        }
        libc::SYS_fchown => Ok((arguments.handle(0), arguments.owner(1))),
        libc::SYS_fchownat => {
            let flags = notice.word(4);
            Ok((arguments.path(Some(0), 1, flags)?, arguments.owner(2)))
        }
        libc::SYS_utimensat => {
            let times = arguments.times(2, Clock::Nanoseconds)?;
            Ok((arguments.path_or_handle(0, 1, notice.word(3))?, times))
        }
        libc::SYS_fsetxattr => Ok((arguments.handle(0), arguments.new_attribute()?)),
        libc::SYS_setxattr => Ok((arguments.path(None, 0, 0)?, arguments.new_attribute()?)),
        libc::SYS_lsetxattr => Ok((
            arguments.path(None, 0, KEEP_LINK)?,
            arguments.new_attribute()?,
        )),
        libc::SYS_fremovexattr => Ok((arguments.handle(0), arguments.old_attribute()?)),
        libc::SYS_removexattr => Ok((arguments.path(None, 0, 0)?, arguments.old_attribute()?)),
        libc::SYS_lremovexattr => Ok((
            arguments.path(None, 0, KEEP_LINK)?,
            arguments.old_attribute()?,
        )),
        _ => read_old(&arguments),
    }
}

/// The calls that only the oldest architecture has.
#[cfg(target_arch = "x86_64")]
fn read_old(arguments: &Arguments<'_>) -> Result<(Target, Change), Errno> {
    match arguments.notice.call {
        libc::SYS_chmod => Ok((arguments.path(None, 0, 0)?, arguments.mode(1)?)),
        libc::SYS_chown => Ok((arguments.path(None, 0, 0)?, arguments.owner(1))),
        libc::SYS_lchown => Ok((arguments.path(None, 0, KEEP_LINK)?, arguments.owner(1))),
        libc::SYS_utime => {
            let times = arguments.times(1, Clock::Seconds)?;
            Ok((arguments.path(None, 0, 0)?, times))
        }
        libc::SYS_utimes => {
            let times = arguments.times(1, Clock::Microseconds)?;
            Ok((arguments.path(None, 0, 0)?, times))
        }
        libc::SYS_futimesat => {
            let times = arguments.times(2, Clock::Microseconds)?;
            Ok((arguments.path_or_handle(0, 1, 0)?, times))
        }
        _ => Err(Errno::NOSYS),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_old(_: &Arguments<'_>) -> Result<(Target, Change), Errno> {
    Err(Errno::NOSYS)
}

/// In what a call counts the time.
#[derive(Clone, Copy)]
enum Clock {
    #[cfg(target_arch = "x86_64")]
    Seconds,
    #[cfg(target_arch = "x86_64")]
    Microseconds,
    Nanoseconds,
}

/// The arguments of a call, with what they point to in the caller's memory.
struct Arguments<'a> {
    notice: &'a Notice,
    caller: &'a Caller,
}

impl Arguments<'_> {
    fn handle(&self, index: usize) -> Target {
        Target::Handle(self.notice.number(index))
    }

    /// A path, below the handle in argument `base` or the current directory.
    fn path(&self, base: Option<usize>, index: usize, flags: u64) -> Result<Target, Errno> {
        if flags & !(KEEP_LINK | EMPTY_PATH) != 0 {
            return Err(Errno::INVAL);
        }
        let path = self.caller.text(self.notice.word(index))?;
        let base = base.map_or(libc::AT_FDCWD, |base| self.notice.number(base));
        if path.is_empty() && flags & EMPTY_PATH != 0 {
            return Ok(Target::Handle(base));
        }
        let last = if flags & KEEP_LINK == 0 {
            LastLink::Follow
        } else {
            LastLink::Keep
        };
        Ok(Target::Path(base, path, last))
    }

    /// A path, or without one the handle itself.
    fn path_or_handle(&self, base: usize, index: usize, flags: u64) -> Result<Target, Errno> {
        if self.notice.word(index) == 0 {
            Ok(self.handle(base))
        } else {
            self.path(Some(base), index, flags)
        }
    }

    /// No program is left behind that has the rights of its owner.
    fn mode(&self, index: usize) -> Result<Change, Errno> {
        let mode = self.notice.half(index);
        if mode & SET_USER_ID != 0 {
            return Err(Errno::PERM);
        }
        Ok(Change::Mode(Mode::from_raw_mode(mode & 0o7777)))
    }

    /// A user and, in the argument after it, a group; the highest number stands for none.
    fn owner(&self, index: usize) -> Change {
        let id = |index| Some(self.notice.half(index)).filter(|id| *id != u32::MAX);
        Change::Owner(
            id(index).map(Uid::from_raw),
            id(index + 1).map(Gid::from_raw),
        )
    }

    fn times(&self, index: usize, clock: Clock) -> Result<Change, Errno> {
        let address = self.notice.word(index);
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let (last_access, last_modification) = if address == 0 {
            (now, now)
        } else {
            self.two_times(address, clock)?
        };
        Ok(Change::Times(Timestamps {
            last_access,
            last_modification,
        }))
    }

    fn two_times(&self, address: u64, clock: Clock) -> Result<(Timespec, Timespec), Errno> {
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let micro = match clock {
            #[cfg(target_arch = "x86_64")]
            Clock::Seconds => {
                let [access, modification] = words(self.caller.bytes::<16>(address)?);
                return Ok((time(access, 0), time(modification, 0)));
            }
            #[cfg(target_arch = "x86_64")]
            Clock::Microseconds => NANOSECONDS_IN_MICROSECOND,
            Clock::Nanoseconds => 1,
        };
        let [a, b, c, d] = words(self.caller.bytes::<32>(address)?);
        let part = |part: i64| part.checked_mul(micro).ok_or(Errno::INVAL);
        Ok((time(a, part(b)?), time(c, part(d)?)))
    }

    fn attribute_name(&self) -> Result<Vec<u8>, Errno> {
        let name = self.caller.text(self.notice.word(1))?;
        if name.starts_with(ATTRIBUTES) {
            Ok(name)
        } else {
            Err(Errno::OPNOTSUPP)
        }
    }

    fn new_attribute(&self) -> Result<Change, Errno> {
        let name = self.attribute_name()?;
        let length = usize::try_from(self.notice.word(3)).map_err(|_| Errno::TOOBIG)?;
        if length > ATTRIBUTE_BYTES_MAX {
            return Err(Errno::TOOBIG);
        }
        let value = self.caller.content(self.notice.word(2), length)?;
        let flags = XattrFlags::from_bits_retain(self.notice.half(4));
        Ok(Change::SetAttribute(name, value, flags))
    }

    fn old_attribute(&self) -> Result<Change, Errno> {
        Ok(Change::RemoveAttribute(self.attribute_name()?))
    }
}

/// Numbers that stand one after another in memory.
fn words<const N: usize, const BYTES: usize>(bytes: [u8; BYTES]) -> [i64; N] {
    let (chunks, _) = bytes.as_chunks::<8>();
    let mut words = chunks.iter().copied().map(i64::from_ne_bytes);
    std::array::from_fn(|_| words.next().unwrap_or_default())
}
