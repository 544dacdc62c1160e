//! Parses the arguments of a system call that changes a file's metadata: which file is meant, and
//! what is to change. They are read once, from the caller's memory, and never again.

use rustix::fs::{Gid, Mode, Timespec, Timestamps, UTIME_NOW, Uid, XattrFlags};
use rustix::io::Errno;

use crate::world::sys::sandbox::caller::{LastLink, NotifyingProcess};
use crate::world::sys::sandbox::notification::SeccompNotification;
use crate::world::sys::sandbox::setid_rules::FCHMODAT2;

/// Flags of calls that name a file (`linux/fcntl.h`).
const NO_FOLLOW: u32 = 0x100;
const EMPTY_PATH: u32 = 0x1000;
/// The longest value of an extended attribute, in bytes (`XATTR_SIZE_MAX`).
const ATTRIBUTE_BYTES_MAX: usize = 64 * 1024;
/// Prefix of the only extended attributes that a command may change: the others grant rights.
const CHANGEABLE_ATTRIBUTES: &[u8] = b"user.";
/// A microsecond in nanoseconds, for calls that count microseconds.
const MICROSECOND_NS: i64 = 1000;

/// The file that a call refers to.
#[derive(Debug)]
pub(crate) enum CallTarget {
    /// The file behind one of the caller's handles.
    Handle(i32),
    /// The target of a path, relative to a handle.
    Path(i32, Vec<u8>, LastLink),
}

/// The change that a call requests.
#[derive(Debug)]
pub(crate) enum MetadataChange {
    /// Other permission bits.
    Mode(Mode),
    /// Another owner, or another group.
    Owner(Option<Uid>, Option<Gid>),
    /// Other access and modification times.
    Times(Timestamps),
    /// Set an attribute to a value.
    SetAttribute(Vec<u8>, Vec<u8>, XattrFlags),
    /// Remove an attribute.
    RemoveAttribute(Vec<u8>),
}

/// Reads the requested change and the file that it is for.
pub(crate) fn read_change(
    notification: &SeccompNotification,
    caller: &NotifyingProcess,
) -> Result<(CallTarget, MetadataChange), Errno> {
    let arguments = CallArguments {
        notification,
        caller,
    };
    match notification.call {
        libc::SYS_fchmod => Ok((arguments.handle(0), arguments.mode(1))),
        libc::SYS_fchmodat => Ok((arguments.path(Some(0), 1, 0)?, arguments.mode(2))),
        FCHMODAT2 => {
            let flags = notification.argument_u32(3);
            Ok((arguments.path(Some(0), 1, flags)?, arguments.mode(2)))
        }
        libc::SYS_fchown => Ok((arguments.handle(0), arguments.owner(1))),
        libc::SYS_fchownat => {
            let flags = notification.argument_u32(4);
            Ok((arguments.path(Some(0), 1, flags)?, arguments.owner(2)))
        }
        libc::SYS_utimensat => {
            let times = arguments.times(2, TimeUnit::Nanoseconds)?;
            Ok((
                arguments.path_or_handle(0, 1, notification.argument_u32(3))?,
                times,
            ))
        }
        libc::SYS_fsetxattr => Ok((arguments.handle(0), arguments.new_attribute()?)),
        libc::SYS_setxattr => Ok((arguments.path(None, 0, 0)?, arguments.new_attribute()?)),
        libc::SYS_lsetxattr => Ok((
            arguments.path(None, 0, NO_FOLLOW)?,
            arguments.new_attribute()?,
        )),
        libc::SYS_fremovexattr => Ok((arguments.handle(0), arguments.old_attribute()?)),
        libc::SYS_removexattr => Ok((arguments.path(None, 0, 0)?, arguments.old_attribute()?)),
        libc::SYS_lremovexattr => Ok((
            arguments.path(None, 0, NO_FOLLOW)?,
            arguments.old_attribute()?,
        )),
        _ => read_legacy_change(&arguments),
    }
}

/// Reads the calls that only the oldest architecture has.
#[cfg(target_arch = "x86_64")]
fn read_legacy_change(
    arguments: &CallArguments<'_>,
) -> Result<(CallTarget, MetadataChange), Errno> {
    match arguments.notification.call {
        libc::SYS_chmod => Ok((arguments.path(None, 0, 0)?, arguments.mode(1))),
        libc::SYS_chown => Ok((arguments.path(None, 0, 0)?, arguments.owner(1))),
        libc::SYS_lchown => Ok((arguments.path(None, 0, NO_FOLLOW)?, arguments.owner(1))),
        libc::SYS_utime => {
            let times = arguments.times(1, TimeUnit::Seconds)?;
            Ok((arguments.path(None, 0, 0)?, times))
        }
        libc::SYS_utimes => {
            let times = arguments.times(1, TimeUnit::Microseconds)?;
            Ok((arguments.path(None, 0, 0)?, times))
        }
        libc::SYS_futimesat => {
            let times = arguments.times(2, TimeUnit::Microseconds)?;
            Ok((arguments.path_or_handle(0, 1, 0)?, times))
        }
        _ => Err(Errno::NOSYS),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_legacy_change(_: &CallArguments<'_>) -> Result<(CallTarget, MetadataChange), Errno> {
    Err(Errno::NOSYS)
}

/// The unit in which a call counts time.
#[derive(Clone, Copy, Debug)]
enum TimeUnit {
    #[cfg(target_arch = "x86_64")]
    Seconds,
    #[cfg(target_arch = "x86_64")]
    Microseconds,
    Nanoseconds,
}

/// The arguments of a call, including what they point to in the caller's memory.
struct CallArguments<'a> {
    notification: &'a SeccompNotification,
    caller: &'a NotifyingProcess,
}

impl CallArguments<'_> {
    fn handle(&self, index: usize) -> CallTarget {
        CallTarget::Handle(self.notification.argument_i32(index))
    }

    /// Reads a path, relative to the handle in argument `base` or to the current directory.
    fn path(&self, base: Option<usize>, index: usize, flags: u32) -> Result<CallTarget, Errno> {
        if flags & !(NO_FOLLOW | EMPTY_PATH) != 0 {
            return Err(Errno::INVAL);
        }
        let path = self.caller.read_string(self.notification.argument(index))?;
        let base = base.map_or(libc::AT_FDCWD, |base| self.notification.argument_i32(base));
        if path.is_empty() && flags & EMPTY_PATH != 0 {
            return Ok(CallTarget::Handle(base));
        }
        let last_link = if flags & NO_FOLLOW == 0 {
            LastLink::Follow
        } else {
            LastLink::Keep
        };
        Ok(CallTarget::Path(base, path, last_link))
    }

    /// Reads a path; without one, the handle itself is meant.
    fn path_or_handle(&self, base: usize, index: usize, flags: u32) -> Result<CallTarget, Errno> {
        if self.notification.argument(index) == 0 {
            Ok(self.handle(base))
        } else {
            self.path(Some(base), index, flags)
        }
    }

    fn mode(&self, index: usize) -> MetadataChange {
        MetadataChange::Mode(Mode::from_raw_mode(
            self.notification.argument_u32(index) & 0o7777,
        ))
    }

    /// Reads a user and, from the next argument, a group; the highest number means no change.
    fn owner(&self, index: usize) -> MetadataChange {
        let id = |index| Some(self.notification.argument_u32(index)).filter(|id| *id != u32::MAX);
        MetadataChange::Owner(
            id(index).map(Uid::from_raw),
            id(index + 1).map(Gid::from_raw),
        )
    }

    fn times(&self, index: usize, unit: TimeUnit) -> Result<MetadataChange, Errno> {
        let address = self.notification.argument(index);
        let current_time = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let (last_access, last_modification) = if address == 0 {
            (current_time, current_time)
        } else {
            self.two_times(address, unit)?
        };
        Ok(MetadataChange::Times(Timestamps {
            last_access,
            last_modification,
        }))
    }

    fn two_times(&self, address: u64, unit: TimeUnit) -> Result<(Timespec, Timespec), Errno> {
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let fraction_ns = match unit {
            #[cfg(target_arch = "x86_64")]
            TimeUnit::Seconds => {
                let [access, modification] = parse_words(self.caller.read_array::<16>(address)?);
                return Ok((time(access, 0), time(modification, 0)));
            }
            #[cfg(target_arch = "x86_64")]
            TimeUnit::Microseconds => MICROSECOND_NS,
            TimeUnit::Nanoseconds => 1,
        };
        let [access, access_part, modification, modification_part] =
            parse_words(self.caller.read_array::<32>(address)?);
        let nanoseconds = |part: i64| part.checked_mul(fraction_ns).ok_or(Errno::INVAL);
        Ok((
            time(access, nanoseconds(access_part)?),
            time(modification, nanoseconds(modification_part)?),
        ))
    }

    fn attribute_name(&self) -> Result<Vec<u8>, Errno> {
        let name = self.caller.read_string(self.notification.argument(1))?;
        if name.starts_with(CHANGEABLE_ATTRIBUTES) {
            Ok(name)
        } else {
            Err(Errno::OPNOTSUPP)
        }
    }

    fn new_attribute(&self) -> Result<MetadataChange, Errno> {
        let name = self.attribute_name()?;
        let length = usize::try_from(self.notification.argument(3)).map_err(|_| Errno::TOOBIG)?;
        if length > ATTRIBUTE_BYTES_MAX {
            return Err(Errno::TOOBIG);
        }
        let value = self
            .caller
            .read_bytes(self.notification.argument(2), length)?;
        let flags = XattrFlags::from_bits_retain(self.notification.argument_u32(4));
        Ok(MetadataChange::SetAttribute(name, value, flags))
    }

    fn old_attribute(&self) -> Result<MetadataChange, Errno> {
        Ok(MetadataChange::RemoveAttribute(self.attribute_name()?))
    }
}

/// Parses consecutive 64-bit numbers in native byte order.
fn parse_words<const N: usize, const BYTES: usize>(bytes: [u8; BYTES]) -> [i64; N] {
    let (chunks, _) = bytes.as_chunks::<8>();
    let mut words = chunks.iter().copied().map(i64::from_ne_bytes);
    std::array::from_fn(|_| words.next().unwrap_or_default())
}
