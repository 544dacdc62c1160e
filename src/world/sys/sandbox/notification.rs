//! Owns the calls of confined processes that the kernel hands to the supervisor of tier C: how one
//! is received, and how it is answered. It must never let such a call go on in the kernel: between
//! the look and the call the caller could change what it names.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::world::sys::sandbox::raw;

/// A call that waits for its answer.
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
    /// One that nobody waits for.
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

    /// An argument, as it is.
    pub(crate) fn argument(&self, index: usize) -> u64 {
        let word = self.arguments.get(index);
        word.copied().unwrap_or_default()
    }

    /// The lower half of an argument, which is all that the kernel takes of an `unsigned int`.
    pub(crate) fn argument_u32(&self, index: usize) -> u32 {
        let [a, b, c, d, ..] = self.argument(index).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// The same for an `int`, such as the number of a handle.
    pub(crate) fn argument_i32(&self, index: usize) -> i32 {
        self.argument_u32(index).cast_signed()
    }
}

/// Where notices come from.
#[derive(Debug)]
pub(crate) struct NotificationListener(OwnedFd);

impl NotificationListener {
    pub(crate) fn new(listener: OwnedFd) -> Self {
        // A caller that goes on at once, on the same processor, is quicker; older kernels cannot.
        raw::enable_sync_wakeup(listener.as_fd()).unwrap_or_default();
        Self(listener)
    }

    /// Waits for the next one; `None` once no process is left that could send one.
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
                // The caller was killed before it was looked at, or we were interrupted.
                Err(Errno::NOENT | Errno::INTR) if !self.has_no_callers() => {}
                Err(Errno::NOENT | Errno::INTR) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether no process is left whose calls arrive here.
    pub(crate) fn has_no_callers(&self) -> bool {
        let mut listener = [PollFd::new(&self.0, PollFlags::empty())];
        let at_once = Timespec::default();
        let polled = poll(&mut listener, Some(&at_once));
        let [listener] = listener;
        polled.is_err() || listener.revents().contains(PollFlags::HUP)
    }

    /// Makes sure that the caller still waits. If not, its number may be another process's by now,
    /// and what was opened or read of it as well.
    pub(crate) fn check_pending(&self, notice: &SeccompNotification) -> Result<(), Errno> {
        raw::check_notification(self.0.as_fd(), notice.id).map_err(|error| errno(&error))
    }

    /// Ends the call with 0 or with an error. A caller that has gone needs none.
    pub(crate) fn answer(&self, notice: &SeccompNotification, result: Result<(), Errno>) {
        let error = result.err().map_or(0, |errno| -errno.raw_os_error());
        raw::answer_notification(self.0.as_fd(), notice.id, error).unwrap_or_default();
    }

    /// Ends the call with a new handle of the caller's for the same file as `file`.
    pub(crate) fn answer_with(
        &self,
        notice: &SeccompNotification,
        file: BorrowedFd<'_>,
        flags: u32,
    ) -> Result<(), Errno> {
        raw::answer_notification_with_handle(self.0.as_fd(), notice.id, file, flags)
            .map_err(|error| errno(&error))
    }
}

/// It is readable once there is one.
impl AsFd for NotificationListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
