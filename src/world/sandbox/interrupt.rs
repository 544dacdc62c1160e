//! Owns [`CommandInterrupt`]: how a command is ended from another thread or task.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::world::sys::launch::poll::{WaitInterest, wait_ready};

/// Ends whatever waits for it, at once and for ever. All clones are one.
#[derive(Clone, Debug)]
pub struct CommandInterrupt(Arc<OwnedFd>);

/// Raises an interrupt when it goes: with the task that waits for a command, the command ends.
#[derive(Debug)]
pub struct InterruptOnDrop(CommandInterrupt);

impl CommandInterrupt {
    /// One that is not raised.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Arc::new(eventfd(0, flags)?)))
    }

    /// Ends what waits for it now or later.
    pub fn raise(&self) {
        // It is full only after 2^64 times, and then it is raised.
        rustix::io::write(&self.0, &1_u64.to_ne_bytes()).unwrap_or_default();
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        let asked = [Some((self.as_fd(), WaitInterest::Readable))];
        wait_ready(&asked, Some(Instant::now())).is_ok_and(|ready| ready.contains(&true))
    }

    /// Raises it when the guard goes.
    #[must_use]
    pub fn on_drop(&self) -> InterruptOnDrop {
        InterruptOnDrop(self.clone())
    }
}

/// It is readable once it was raised.
impl AsFd for CommandInterrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_raised_for_all_clones() {
        let interrupt = CommandInterrupt::new().unwrap();
        let clone = interrupt.clone();
        assert!(!clone.is_raised());
        drop(interrupt.on_drop());
        assert!(clone.is_raised());
        interrupt.raise();
        assert!(clone.is_raised() && interrupt.is_raised());
    }
}
