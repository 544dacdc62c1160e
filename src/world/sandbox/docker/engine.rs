//! An engine that synchronous callers can wait for: a thread runs its event loop. They must not run
//! on an event loop themselves.

use std::future::Future;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::world::sandbox::docker::client::EngineClient;

/// Longest time that the end of a run waits for the removal of a container.
const FINISH_TIME_MAX: Duration = Duration::from_secs(20);

/// A Docker or Podman engine on this machine. Clones share one connection and one thread, which
/// ends when the last of them is dropped.
#[derive(Clone, Debug)]
pub struct ContainerEngine {
    pub(super) client: EngineClient,
    event_loop: Handle,
    _stop_on_drop: Arc<oneshot::Sender<()>>,
}

impl ContainerEngine {
    /// Connects to the engine that `host` names, as `DOCKER_HOST` does, or otherwise to the first
    /// that answers at a default socket.
    pub fn open(host: Option<&str>) -> Result<Self> {
        let start_error = |error| {
            let message = "cannot start the thread for docker";
            Error::new(ErrorKind::Environment, message)
                .with_source(error)
                .with_hint("check the limits of open files and processes: `ulimit -a`")
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(start_error)?;
        let event_loop = runtime.handle().clone();
        let (stop_on_drop, stop_receiver) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("docker".to_owned());
        let run_until_dropped = move || drop(runtime.block_on(stop_receiver));
        thread.spawn(run_until_dropped).map_err(start_error)?;
        Ok(Self {
            client: event_loop.block_on(EngineClient::connect(host))?,
            event_loop,
            _stop_on_drop: Arc::new(stop_on_drop),
        })
    }

    /// Returns the isolation of what runs in a container of `image`, for people.
    pub(super) fn isolation(image: &str) -> ExecutionIsolation {
        ExecutionIsolation::Container {
            image: image.to_owned(),
        }
    }

    /// Refuses an image that is not on this machine.
    pub fn expect_image(&self, name: &str) -> Result<()> {
        self.block_on(self.client.expect_image(name)).map(drop)
    }

    /// Runs an operation of the engine and waits for it.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.event_loop.block_on(work)
    }

    /// Runs an operation and waits for it for a limited time, even where an event loop must not be
    /// blocked on.
    pub(super) fn finish_detached(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.spawn(async move {
            work.await;
            // If it took too long, the receiver is gone.
            sender.send(()).unwrap_or_default();
        });
        receiver.recv_timeout(FINISH_TIME_MAX).unwrap_or_default();
    }

    /// Runs an operation in the background.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.event_loop.spawn(work));
    }
}
