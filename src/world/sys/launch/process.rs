//! Owns one process that was started: waiting for its end and killing it, without ever taking
//! another for it that has got its number.

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

/// Whether the kernel still keeps a process's number for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReapState {
    Unknown,
    Reaped,
    /// Somebody else waits for it.
    HandedOver,
}

impl ChildProcess {
    /// The child with this number, and this handle on it.
    pub(crate) fn new(pid: Pid, handle: OwnedFd) -> Self {
        Self {
            pid,
            handle,
            reap_state: ReapState::Unknown,
        }
    }

    /// Looks whether it has ended; if so, nothing of it stays in the kernel's tables.
    pub(crate) fn poll_exit(&mut self) -> io::Result<()> {
        self.reap(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.reap(WaitIdOptions::EXITED)
    }

    fn reap(&mut self, options: WaitIdOptions) -> io::Result<()> {
        if self.reap_state != ReapState::Unknown {
            return Ok(());
        }
        match retry_on_intr(|| waitid(WaitId::PidFd(self.handle.as_fd()), options)) {
            Ok(None) => Ok(()),
            // Who started massgen may have had the kernel reap its children.
            Ok(Some(_)) | Err(Errno::CHILD) => {
                self.reap_state = ReapState::Reaped;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it had ended at the last look.
    pub(crate) fn has_ended(&self) -> bool {
        self.reap_state == ReapState::Reaped
    }

    /// The same process for somebody else, who waits for its end from now on.
    pub(crate) fn hand_over(&mut self) -> io::Result<Self> {
        let handle = self.handle.try_clone()?;
        let fate = std::mem::replace(&mut self.reap_state, ReapState::HandedOver);
        Ok(Self {
            pid: self.pid,
            handle,
            reap_state: fate,
        })
    }

    /// Kills it, and waits until it has ended.
    pub(crate) fn kill_and_wait(&mut self) {
        self.kill();
        self.wait().unwrap_or_default();
    }

    /// Kills it, and nothing that it has started.
    pub(crate) fn kill_alone(&self) {
        if self.reap_state == ReapState::Unknown {
            // Whoever has ended already cannot be killed.
            pidfd_send_signal(&self.handle, Signal::KILL).unwrap_or_default();
        }
    }

    /// Kills it and its process group.
    pub(crate) fn kill(&self) {
        if self.reap_state == ReapState::Unknown {
            // Whoever has ended already cannot be killed; one that leads no group has none.
            pidfd_send_signal(&self.handle, Signal::KILL).unwrap_or_default();
            kill_process_group(self.pid, Signal::KILL).unwrap_or_default();
        }
    }
}

/// It is readable once the process has ended.
impl AsFd for ChildProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
