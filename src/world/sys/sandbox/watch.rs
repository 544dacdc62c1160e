//! The outer half of the helper, which stays outside the sandbox: it waits until all processes of
//! the program are gone, and kills them when massgen goes.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal, waitpid};

use crate::sandbox_policy::helper_protocol::HelperReport;
use crate::world::sys::sandbox::control::ParentSocket;

/// Waits for `first`, the first process of the sandbox, with which all others end, and reports the
/// result.
pub(crate) fn wait_until_gone(
    control: &ParentSocket,
    first: Pid,
    pidfd: &OwnedFd,
    mut result_pipe: PipeReader,
) -> io::Result<()> {
    if wait(control, pidfd)? == HelperWakeup::Abandoned {
        pidfd_send_signal(pidfd, Signal::KILL)?;
    }
    let wait_status = waitpid(Some(first), WaitOptions::empty())?;
    let mut frame = Vec::new();
    result_pipe.read_to_end(&mut frame)?;
    if !frame.is_empty() {
        return control.send_frame(&frame);
    }
    // It was killed from outside before it could report how the program ended.
    let signal = wait_status.and_then(|(_, status)| status.terminating_signal());
    control.send_report(&HelperReport::Ended { code: None, signal })
}

/// What ended the wait.
#[derive(PartialEq, Eq)]
enum HelperWakeup {
    /// The first process exited.
    Ended,
    /// The program is no longer wanted.
    Abandoned,
}

fn wait(control: &ParentSocket, pidfd: &OwnedFd) -> io::Result<HelperWakeup> {
    loop {
        let mut poll_fds = [
            PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN | PollFlags::RDHUP),
        ];
        match poll(&mut poll_fds, None) {
            Err(Errno::INTR) => continue,
            poll_result => poll_result?,
        };
        let [has_ended, is_abandoned] = poll_fds.map(|poll_fd| !poll_fd.revents().is_empty());
        if has_ended {
            return Ok(HelperWakeup::Ended);
        } else if is_abandoned {
            return Ok(HelperWakeup::Abandoned);
        }
    }
}
