//! [`CommandInterrupt`]: kills a command from another thread or task.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::world::sys::launch::poll::{WaitInterest, wait_ready};

/// Kills whatever waits on it, immediately and permanently. All clones are the same interrupt.
#[derive(Clone, Debug)]
pub struct CommandInterrupt(Arc<OwnedFd>);

/// Raises an interrupt on drop: when the task that waits for a command ends, so does the command.
#[derive(Debug)]
pub struct InterruptOnDrop(CommandInterrupt);

impl CommandInterrupt {
    /// Creates an interrupt that is not raised.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Arc::new(eventfd(0, flags)?)))
    }

    /// Kills what waits on it now or later.
    pub fn raise(&self) {
        // The counter is full only after 2^64 writes, and then the interrupt is raised already.
        rustix::io::write(&self.0, &1_u64.to_ne_bytes()).unwrap_or_default();
    }

    /// Returns whether it was raised.
    pub fn is_raised(&self) -> bool {
        let handles = [Some((self.as_fd(), WaitInterest::Readable))];
        wait_ready(&handles, Some(Instant::now())).is_ok_and(|ready| ready.contains(&true))
    }

    /// Returns a guard that raises it on drop.
    #[must_use]
    pub fn on_drop(&self) -> InterruptOnDrop {
        InterruptOnDrop(self.clone())
    }
}

/// Readable once the interrupt was raised.
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
    fn an_interrupt_stays_raised_for_all_clones() {
        let interrupt = CommandInterrupt::new().unwrap();
        let clone = interrupt.clone();
        assert!(!clone.is_raised());
        drop(interrupt.on_drop());
        assert!(clone.is_raised());
        interrupt.raise();
        assert!(clone.is_raised() && interrupt.is_raised());
    }
}
