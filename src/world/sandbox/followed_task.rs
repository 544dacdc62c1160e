//! A task on an event loop, as the thread of a command follows it: a handle becomes readable when
//! the task has ended.

use std::future::Future;
use std::io;
use std::sync::mpsc::{Receiver, sync_channel};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// A task whose result one thread takes.
#[derive(Debug)]
pub(in crate::world::sandbox) struct FollowedTask<T> {
    results: Receiver<T>,
    /// Becomes readable when there is a result.
    result_signal: OwnedFd,
    is_over: bool,
}

impl<T: Send + 'static> FollowedTask<T> {
    /// Returns a task with the result of `work`, and what an event loop must run for it.
    pub(in crate::world::sandbox) fn new(
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let result_signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let signal = result_signal.try_clone()?;
        let (result_sender, results) = sync_channel(1);
        let run = async move {
            let result = work.await;
            // The receiver is gone if the result is no longer waited for.
            if result_sender.send(result).is_ok() {
                rustix::io::write(&signal, &1_u64.to_ne_bytes()).unwrap_or_default();
            }
        };
        let task = Self {
            results,
            result_signal,
            is_over: false,
        };
        Ok((task, run))
    }

    /// Returns the handle that becomes readable when it has ended; none if it is over.
    pub(in crate::world::sandbox) fn handles(&self) -> Vec<BorrowedFd<'_>> {
        let is_awaited = !self.is_over;
        is_awaited
            .then(|| self.result_signal.as_fd())
            .into_iter()
            .collect()
    }

    /// Returns its result if it has ended. Then it is over.
    pub(in crate::world::sandbox) fn take_result(&mut self) -> Option<T> {
        let result = self.results.try_recv().ok()?;
        self.is_over = true;
        Some(result)
    }

    /// Stops waiting for it.
    pub(in crate::world::sandbox) fn give_up(&mut self) {
        self.is_over = true;
    }

    /// Returns whether its result was taken or is no longer waited for.
    pub(in crate::world::sandbox) fn is_over(&self) -> bool {
        self.is_over
    }
}
