//! Seccomp notifications: system calls of confined processes that the kernel passes to the
//! supervisor of level `landlock`, and how they are received and answered. It must never let such a
//! call continue in the kernel: between the check and the call, the caller could change what its
//! arguments name.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::world::sys::sandbox::raw;

/// A system call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeccompNotification {
    id: u64,
    /// The thread that made it.
    pub(crate) caller: u32,
    /// Its number in the kernel's table.
    pub(crate) call: i64,
    arguments: [u64; 6],
}

impl SeccompNotification {
    /// Creates one that no caller waits for.
    #[cfg(test)]
    pub(crate) fn new(caller: u32, call: i64, words: &[u64]) -> Self {
        let mut words = words.iter().copied();
        Self {
            id: 0,
            caller,
            call,
            arguments: std::array::from_fn(|_| words.next().unwrap_or_default()),
        }
    }

    /// Returns an argument unchanged.
    pub(crate) fn argument(&self, index: usize) -> u64 {
        let word = self.arguments.get(index);
        word.copied().unwrap_or_default()
    }

    /// Returns the lower half of an argument, which is all that the kernel uses of an `unsigned
    /// int`.
    pub(crate) fn argument_u32(&self, index: usize) -> u32 {
        let [a, b, c, d, ..] = self.argument(index).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// Returns the same for an `int`, such as a file descriptor.
    pub(crate) fn argument_i32(&self, index: usize) -> i32 {
        self.argument_u32(index).cast_signed()
    }
}

/// The handle on which notifications arrive.
#[derive(Debug)]
pub(crate) struct NotificationListener(OwnedFd);

impl NotificationListener {
    pub(crate) fn new(listener: OwnedFd) -> Self {
        // A caller that resumes immediately on the same processor is faster; older kernels cannot
        // do that.
        raw::enable_sync_wakeup(listener.as_fd()).unwrap_or_default();
        Self(listener)
    }

    /// Waits for the next notification; `None` if no process is left that could send one.
    pub(crate) fn receive_next(&self) -> io::Result<Option<SeccompNotification>> {
        loop {
            match raw::receive_notification(self.0.as_fd()).map_err(|error| errno(&error)) {
                Ok(received) => {
                    return Ok(Some(SeccompNotification {
                        id: received.id,
                        caller: received.pid,
                        call: i64::from(received.data.nr),
                        arguments: received.data.args,
                    }));
                }
                // The caller was killed before its call was read, or we were interrupted.
                Err(Errno::NOENT | Errno::INTR) if !self.has_no_callers() => {}
                Err(Errno::NOENT | Errno::INTR) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns whether no process is left whose calls arrive here.
    pub(crate) fn has_no_callers(&self) -> bool {
        let mut listener = [PollFd::new(&self.0, PollFlags::empty())];
        let at_once = Timespec::default();
        let polled = poll(&mut listener, Some(&at_once));
        let [listener] = listener;
        polled.is_err() || listener.revents().contains(PollFlags::HUP)
    }

    /// Checks that the caller still waits. If not, another process may have its PID now, and what
    /// was opened or read of it may belong to that process.
    pub(crate) fn check_pending(&self, notification: &SeccompNotification) -> Result<(), Errno> {
        raw::check_notification(self.0.as_fd(), notification.id).map_err(|error| errno(&error))
    }

    /// Answers the call with 0 or with an error. A caller that is gone needs no answer.
    pub(crate) fn answer(&self, notification: &SeccompNotification, result: Result<(), Errno>) {
        let error = result.err().map_or(0, |errno| -errno.raw_os_error());
        raw::answer_notification(self.0.as_fd(), notification.id, error).unwrap_or_default();
    }

    /// Answers the call with a new handle for the caller on the same file as `file`.
    pub(crate) fn answer_with(
        &self,
        notification: &SeccompNotification,
        file: BorrowedFd<'_>,
        flags: u32,
    ) -> Result<(), Errno> {
        raw::answer_notification_with_handle(self.0.as_fd(), notification.id, file, flags)
            .map_err(|error| errno(&error))
    }
}

/// Readable once there is a notification.
impl AsFd for NotificationListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
