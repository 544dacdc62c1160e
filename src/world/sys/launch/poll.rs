//! Waits for several handles at once, with `poll` and without busy waiting.

use std::io;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// The condition that a handle is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitInterest {
    /// There is something to read, or the end is reached.
    Readable,
    /// There is room to write.
    Writable,
}

/// Waits until one of `handles` is ready or the deadline has passed, and returns for each whether
/// it is ready. Without a deadline it waits indefinitely.
pub(crate) fn wait_ready(
    handles: &[Option<(BorrowedFd<'_>, WaitInterest)>],
    deadline: Option<Instant>,
) -> io::Result<Vec<bool>> {
    let poll_fds = handles.iter().flatten().map(|(handle, interest)| {
        let flags = match interest {
            WaitInterest::Readable => PollFlags::IN,
            WaitInterest::Writable => PollFlags::OUT,
        };
        PollFd::from_borrowed_fd(*handle, flags)
    });
    let mut poll_fds: Vec<PollFd<'_>> = poll_fds.collect();
    loop {
        let time_left = deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
            .map(Timespec::try_from)
            .transpose();
        let time_left = time_left.map_err(io::Error::other)?;
        match poll(&mut poll_fds, time_left.as_ref()) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut readiness = poll_fds.iter().map(|fd| !fd.revents().is_empty());
    let is_ready = |handle: &Option<_>| handle.is_some() && readiness.next().unwrap_or_default();
    Ok(handles.iter().map(is_ready).collect())
}
