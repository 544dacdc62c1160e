//! System calls that have no safe wrapper. This is the only file of massgen with unsafe code; it
//! decides nothing.
#![expect(
    unsafe_code,
    reason = "these calls have no safe wrapper; each says why it is sound"
)]

use std::ffi::{c_char, c_int, c_long, c_short, c_uint, c_ulong, c_ushort};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{null, null_mut};

use libc::{seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

/// Which half of a forked process this is.
#[derive(Debug)]
pub(crate) enum ForkHalf {
    /// The original process.
    Outer {
        /// The new process.
        pid: Pid,
        /// Its pidfd.
        pidfd: OwnedFd,
    },
    /// The new process, in its namespaces.
    Inner,
}

/// Forks the process. By `clone_flags`, the new one starts in new namespaces (`CLONE_NEW*`), or is
/// a sibling of this one (`CLONE_PARENT`).
pub(crate) fn fork_process(clone_flags: c_int) -> io::Result<ForkHalf> {
    let mut pidfd: RawFd = -1;
    let flags = c_long::from(clone_flags | libc::CLONE_PIDFD | libc::SIGCHLD);
    // SAFETY: without CLONE_VM this is a fork: the new process has a copy of all memory and
    // continues with the same stack. The calling process has one thread, so no other thread holds a
    // lock. The kernel writes only to `pidfd`.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone,
            flags,
            0_usize,
            &raw mut pidfd,
            0_usize,
            0_usize,
        )
    };
    match i32::try_from(pid) {
        Ok(0) => Ok(ForkHalf::Inner),
        Ok(pid) if pid > 0 => {
            let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process number"))?;
            // SAFETY: the kernel has just opened this descriptor for us.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(ForkHalf::Outer { pid, pidfd })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves this process, which has one thread, into new namespaces (`CLONE_NEW*`).
pub(crate) fn unshare_namespaces(namespaces: c_int) -> io::Result<()> {
    // SAFETY: the call takes a number only.
    check_result(unsafe { libc::unshare(namespaces) }.into())
}

/// Closes every descriptor from `first` upwards.
pub(crate) fn close_from(first: c_uint) -> io::Result<()> {
    // SAFETY: it is called when nothing is open that has an owner.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, 0) };
    check_result(result)
}

/// Makes these the standard streams of this process.
pub(crate) fn set_standard_streams(streams: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    for (number, stream) in (0..).zip(streams) {
        // SAFETY: both are open. The old `number` is closed, and no value owns a standard stream.
        check_result(unsafe { libc::dup2(stream.as_raw_fd(), number) }.into())?;
    }
    Ok(())
}

/// A change of mount attributes (`struct mount_attr`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MountAttributes {
    /// Flags to set (`MOUNT_ATTR_*`).
    pub(crate) set: u64,
    /// Flags to clear.
    pub(crate) clear: u64,
    /// The propagation of mounts (`MS_PRIVATE` and related flags).
    pub(crate) propagation: u64,
    /// A user namespace; none here.
    pub(crate) user_namespace: u64,
}

/// Changes a mount, and with `libc::AT_RECURSIVE` in `flags` all below it.
pub(crate) fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    flags: c_int,
    change: MountAttributes,
) -> io::Result<()> {
    // SAFETY: the path is a C string and `change` has the given length; the kernel only reads both.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags | libc::AT_EMPTY_PATH,
            &raw const change,
            size_of::<MountAttributes>(),
        )
    };
    check_result(result)
}

/// The form of `struct ifreq` for a request about flags. `rest` fills it up to its length.
#[repr(C)]
struct InterfaceRequest {
    name: [c_char; libc::IFNAMSIZ],
    flags: c_short,
    rest: [u8; 22],
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn switch_loopback_on(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut interface = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?,
        rest: [0; 22],
    };
    for (to, from) in interface.name.iter_mut().zip(b"lo") {
        *to = c_char::try_from(*from).map_err(io::Error::other)?;
    }
    let request = libc::SIOCSIFFLAGS;
    // SAFETY: `interface` has the layout and at least the length of `struct ifreq`, and outlives
    // the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw const interface) };
    check_result(result.into())
}

/// Drops a capability from the bounding set, so that this process and its children can never have
/// it. Returns `false` if there is no such capability.
pub(crate) fn drop_bounding_capability(capability: c_ulong) -> io::Result<bool> {
    // SAFETY: the call takes numbers only.
    let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    match check_result(dropped.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Installs `program` as a seccomp filter on this thread, and on everything that it starts.
pub(crate) fn install_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    set_seccomp_filter(program, 0).map(drop)
}

fn set_seccomp_filter(program: &[libc::sock_filter], flags: c_ulong) -> io::Result<c_long> {
    let program = libc::sock_fprog {
        len: c_ushort::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: `program` points to as many instructions as its length gives; the kernel only reads
    // and copies them.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    check_result(answer).map(|()| answer)
}

/// Sends a signal to a process; 0 only checks whether that is possible.
pub(crate) fn signal_process(process: c_int, signal: c_int) -> Result<(), Errno> {
    // SAFETY: the call takes two numbers.
    errno(check_result(c_long::from(unsafe {
        libc::kill(process, signal)
    })))
}

/// Sends a signal to one thread of a process.
pub(crate) fn signal_thread(process: c_int, thread: c_int, signal: c_int) -> Result<(), Errno> {
    // SAFETY: the call takes three numbers.
    errno(check_result(unsafe {
        libc::syscall(libc::SYS_tgkill, process, thread, signal)
    }))
}

/// The action of a process for a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalAction(libc::sigaction);

impl SignalAction {
    /// Returns the default action.
    pub(crate) fn default_action() -> Self {
        Self::with_handler(libc::SIG_DFL)
    }

    /// Returns the action of a signal that is ignored.
    pub(crate) fn ignored() -> Self {
        Self::with_handler(libc::SIG_IGN)
    }

    fn with_handler(handler: libc::sighandler_t) -> Self {
        // SAFETY: zeroes are a valid `sigaction`: an empty mask and no flags.
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = handler;
        Self(action)
    }

    /// Returns the action of this process for `signal`.
    pub(crate) fn current(signal: Signal) -> io::Result<Self> {
        let mut current_action = Self::default_action();
        // SAFETY: the call sets no action, and writes one `sigaction`.
        let answer = unsafe { libc::sigaction(signal.as_raw(), null(), &raw mut current_action.0) };
        check_result(answer.into())?;
        Ok(current_action)
    }

    /// Returns whether the signal is ignored.
    pub(crate) fn is_ignored(&self) -> bool {
        self.0.sa_sigaction == libc::SIG_IGN
    }

    /// Makes it the action of this process for `signal`. One with a handler was an action of this
    /// process before.
    pub(crate) fn install(&self, signal: Signal) -> io::Result<()> {
        // SAFETY: the call reads one `sigaction`. A handler in it was installed before, by code
        // that keeps it for the life of the process.
        let answer = unsafe { libc::sigaction(signal.as_raw(), &raw const self.0, null_mut()) };
        check_result(answer.into())
    }
}

fn errno(result: io::Result<()>) -> Result<(), Errno> {
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Sends a signal to every process that this one may signal. The caller has made sure that these
/// are only its own ([`crate::world::sys::sandbox::descendants`]).
pub(crate) fn signal_all(signal: Signal) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    check_result(c_long::from(unsafe { libc::kill(-1, signal.as_raw()) }))
}

/// Like [`install_filter`], and returns the listener on which calls arrive that the filter passes
/// on.
pub(crate) fn install_filter_with_listener(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let listen = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // Only a signal that kills the caller interrupts a call that is being answered.
    let wait_killable = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let listener = match set_seccomp_filter(program, listen | wait_killable) {
        // Linux before 5.19: every signal interrupts such a call, and the call is repeated.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            set_seccomp_filter(program, listen)?
        }
        listener => listener?,
    };
    let listener = RawFd::try_from(listener).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// Waits for the next call that is passed on.
pub(crate) fn receive_notification(listener: BorrowedFd<'_>) -> io::Result<seccomp_notif> {
    // SAFETY: the structure consists of numbers, for which 0 is a value; the kernel asks for zeros.
    let mut notification: seccomp_notif = unsafe { zeroed() };
    let request = libc::SECCOMP_IOCTL_NOTIF_RECV;
    // SAFETY: the kernel writes one `seccomp_notif`, and there is room for one.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), request, &raw mut notification) };
    check_result(answer.into()).map(|()| notification)
}

/// Fails if a call that was passed on no longer waits for an answer.
pub(crate) fn check_notification(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    let request = libc::SECCOMP_IOCTL_NOTIF_ID_VALID;
    // SAFETY: the kernel reads one `u64`.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), request, &raw const id) };
    check_result(answer.into())
}

/// Answers a call that was passed on: with 0, or with a negative error number.
pub(crate) fn answer_notification(listener: BorrowedFd<'_>, id: u64, error: i32) -> io::Result<()> {
    let response = seccomp_notif_resp {
        id,
        val: 0,
        error,
        flags: 0,
    };
    let request = libc::SECCOMP_IOCTL_NOTIF_SEND;
    // SAFETY: the kernel reads one `seccomp_notif_resp`.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), request, &raw const response) };
    check_result(answer.into())
}

/// Gives the caller a handle on the same file as `file`, and answers its call with the handle's
/// number.
pub(crate) fn answer_notification_with_handle(
    listener: BorrowedFd<'_>,
    id: u64,
    file: BorrowedFd<'_>,
    newfd_flags: u32,
) -> io::Result<()> {
    let descriptor = seccomp_notif_addfd {
        id,
        flags: u32::try_from(libc::SECCOMP_ADDFD_FLAG_SEND).unwrap_or_default(),
        srcfd: u32::try_from(file.as_raw_fd()).map_err(io::Error::other)?,
        newfd: 0,
        newfd_flags,
    };
    let request = libc::SECCOMP_IOCTL_NOTIF_ADDFD;
    // SAFETY: the kernel reads one `seccomp_notif_addfd`.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), request, &raw const descriptor) };
    check_result(answer.into())
}

/// Wakes the caller synchronously on the processor of the supervisor when it is answered (Linux
/// 6.6).
pub(crate) fn enable_sync_wakeup(listener: BorrowedFd<'_>) -> io::Result<()> {
    /// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`.
    const SYNC_WAKE_UP: c_ulong = 1;
    let request = libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS;
    // SAFETY: this request takes a number, not a pointer.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), request, SYNC_WAKE_UP) };
    check_result(answer.into())
}

fn check_result(answer: c_long) -> io::Result<()> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
