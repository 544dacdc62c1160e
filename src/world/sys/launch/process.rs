//! Owns one process that was started: waiting for its end and killing it, without ever taking
//! another for it that has got its number.

use std::io;
use std::process::Child;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// A child of massgen.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: Pid,
    handle: OwnedFd,
    fate: Fate,
}

/// Whether the kernel still keeps a process's number for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Unknown,
    Reaped,
}

impl Process {
    /// Takes a child over. One that cannot be watched is killed.
    pub(crate) fn of(mut child: Child) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("a process has no number"))?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Ok(Self {
                child,
                pid,
                handle,
                fate: Fate::Unknown,
            }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> Pid {
        self.pid
    }

    /// Looks whether it has ended; if so, nothing of it stays in the kernel's tables.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        if !self.has_ended() && self.child.try_wait()?.is_some() {
            self.fate = Fate::Reaped;
        }
        Ok(())
    }

    /// Whether it had ended at the last look.
    pub(crate) fn has_ended(&self) -> bool {
        self.fate == Fate::Reaped
    }

    /// Kills it and its process group.
    pub(crate) fn kill(&self) {
        if !self.has_ended() {
            // Whoever has ended already cannot be killed; one that leads no group has none.
            pidfd_send_signal(&self.handle, Signal::KILL).unwrap_or_default();
            kill_process_group(self.pid, Signal::KILL).unwrap_or_default();
        }
    }
}

/// It is readable once the process has ended.
impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
