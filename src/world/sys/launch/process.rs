//! One child process: waits for its exit and kills it. Another process can get its PID only after
//! it was reaped, and nothing is sent to the PID from then on.

use std::io;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_send_signal, waitid,
};

/// A child of massgen.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    pid: Pid,
    pidfd: OwnedFd,
    reap_state: ReapState,
}

/// Whether the PID is still that of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReapState {
    /// It is, even after the child has exited, unless the kernel reaps children by itself.
    NotReaped,
    Reaped,
    /// The owner that the child was handed over to reaps it.
    HandedOver,
}

impl ChildProcess {
    /// Wraps the child with this PID and this pidfd.
    pub(crate) fn new(pid: Pid, pidfd: OwnedFd) -> Self {
        Self {
            pid,
            pidfd,
            reap_state: ReapState::NotReaped,
        }
    }

    /// Checks whether it has exited; if so, it is reaped.
    pub(crate) fn poll_exit(&mut self) -> io::Result<()> {
        self.reap(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    }

    /// Waits for its exit, unless it was handed over.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.reap(WaitIdOptions::EXITED)
    }

    fn reap(&mut self, options: WaitIdOptions) -> io::Result<()> {
        if self.reap_state != ReapState::NotReaped {
            return Ok(());
        }
        match retry_on_intr(|| waitid(WaitId::PidFd(self.pidfd.as_fd()), options)) {
            Ok(None) => Ok(()),
            // `ECHILD`: the kernel reaps the children of a process that was started with `SIGCHLD`
            // ignored.
            Ok(Some(_)) | Err(Errno::CHILD) => {
                self.reap_state = ReapState::Reaped;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether it had exited at the last check.
    pub(crate) fn has_ended(&self) -> bool {
        self.reap_state == ReapState::Reaped
    }

    /// Returns the same process for another owner, who waits for its exit from now on.
    pub(crate) fn hand_over(&mut self) -> io::Result<Self> {
        let pidfd = self.pidfd.try_clone()?;
        let state = std::mem::replace(&mut self.reap_state, ReapState::HandedOver);
        Ok(Self {
            pid: self.pid,
            pidfd,
            reap_state: state,
        })
    }

    /// Kills it, and waits until it has exited.
    pub(crate) fn kill_and_wait(&mut self) {
        self.kill();
        self.wait().unwrap_or_default();
    }

    /// Kills it, but not its process group.
    pub(crate) fn kill_alone(&self) {
        if self.reap_state == ReapState::NotReaped {
            // It may have exited already.
            pidfd_send_signal(&self.pidfd, Signal::KILL).unwrap_or_default();
        }
    }

    /// Kills it and its process group.
    pub(crate) fn kill(&self) {
        if self.reap_state != ReapState::NotReaped {
            return;
        }
        // One that the kernel has reaped is not found, and another process may have its PID.
        if pidfd_send_signal(&self.pidfd, Signal::KILL) != Err(Errno::SRCH) {
            // A process that leads no group has none.
            kill_process_group(self.pid, Signal::KILL).unwrap_or_default();
        }
    }
}

/// Readable once the process has exited.
impl AsFd for ChildProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}
