//! A thread with an event loop, so that synchronous callers can wait for what is asynchronous. They
//! must not run on an event loop themselves.

use std::future::Future;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::error::{Error, ErrorKind, Result};

/// The event loop of a thread, which runs until this is dropped.
#[derive(Debug)]
pub(in crate::world::sandbox) struct EventLoopThread {
    handle: Handle,
    _stop_on_drop: oneshot::Sender<()>,
}

impl EventLoopThread {
    /// Starts a thread with this name.
    pub(in crate::world::sandbox) fn start(name: &str) -> Result<Self> {
        let start_error = |error| {
            let message = format!("cannot start the thread for {name}");
            Error::new(ErrorKind::Environment, message)
                .with_source(error)
                .with_hint("check the limits of open files and processes: `ulimit -a`")
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(start_error)?;
        let handle = runtime.handle().clone();
        let (stop_on_drop, stop_receiver) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name(name.to_owned());
        let run_until_dropped = move || drop(runtime.block_on(stop_receiver));
        thread.spawn(run_until_dropped).map_err(start_error)?;
        Ok(Self {
            handle,
            _stop_on_drop: stop_on_drop,
        })
    }

    /// Runs an operation and waits for it.
    pub(in crate::world::sandbox) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    /// Runs an operation in the background. It continues if the handle is dropped.
    pub(in crate::world::sandbox) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        self.handle.spawn(work).abort_handle()
    }

    /// Runs an operation and waits for it for at most `time_max`, even where an event loop must not
    /// be blocked on.
    pub(in crate::world::sandbox) fn finish_detached(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
        time_max: Duration,
    ) {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.spawn(async move {
            work.await;
            // If it took too long, the receiver is gone.
            sender.send(()).unwrap_or_default();
        });
        receiver.recv_timeout(time_max).unwrap_or_default();
    }
}
