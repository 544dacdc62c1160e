//! One child process: waits for its exit and kills it, without ever hitting another process that
//! got its PID.

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
    handle: OwnedFd,
    reap_state: ReapState,
}

/// Whether the kernel still reserves the PID for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReapState {
    Unknown,
    Reaped,
    /// Another part of massgen waits for it.
    HandedOver,
}

impl ChildProcess {
    /// Wraps the child with this PID and this pidfd.
    pub(crate) fn new(pid: Pid, handle: OwnedFd) -> Self {
        Self {
            pid,
            handle,
            reap_state: ReapState::Unknown,
        }
    }

    /// Checks whether it has exited; if so, it is reaped.
    pub(crate) fn poll_exit(&mut self) -> io::Result<()> {
        self.reap(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    }

    /// Waits for its exit.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.reap(WaitIdOptions::EXITED)
    }

    fn reap(&mut self, options: WaitIdOptions) -> io::Result<()> {
        if self.reap_state != ReapState::Unknown {
            return Ok(());
        }
        match retry_on_intr(|| waitid(WaitId::PidFd(self.handle.as_fd()), options)) {
            Ok(None) => Ok(()),
            // The parent of massgen may have made the kernel reap massgen's children.
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
        let handle = self.handle.try_clone()?;
        let state = std::mem::replace(&mut self.reap_state, ReapState::HandedOver);
        Ok(Self {
            pid: self.pid,
            handle,
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
        if self.reap_state == ReapState::Unknown {
            // It may have exited already.
            pidfd_send_signal(&self.handle, Signal::KILL).unwrap_or_default();
        }
    }

    /// Kills it and its process group.
    pub(crate) fn kill(&self) {
        if self.reap_state != ReapState::Unknown {
            return;
        }
        // One that the kernel has reaped is not found, and another process may have its PID.
        if pidfd_send_signal(&self.handle, Signal::KILL) != Err(Errno::SRCH) {
            // A process that leads no group has none.
            kill_process_group(self.pid, Signal::KILL).unwrap_or_default();
        }
    }
}

/// Readable once the process has exited.
impl AsFd for ChildProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
