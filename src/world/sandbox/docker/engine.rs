//! An engine that synchronous callers can wait for. They must not run on an event loop themselves.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::error::Result;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::world::sandbox::docker::client::EngineClient;
use crate::world::sandbox::event_loop_thread::EventLoopThread;

/// Longest time that the end of a run waits for the removal of a container.
const FINISH_TIME_MAX: Duration = Duration::from_secs(20);

/// A Docker or Podman engine, here or on another machine. Clones share one connection and one
/// thread, which ends when the last of them is dropped.
#[derive(Clone, Debug)]
pub struct ContainerEngine {
    pub(super) client: EngineClient,
    thread: Arc<EventLoopThread>,
}

impl ContainerEngine {
    /// Connects to the engine that `host` names, as `DOCKER_HOST` of the user's environment `env`
    /// does, or otherwise to the first that answers at a default socket.
    pub fn open(host: Option<&str>, env: &BTreeMap<String, String>) -> Result<Self> {
        let thread = EventLoopThread::start("docker")?;
        let client = thread.block_on(EngineClient::connect(host, env))?;
        Ok(Self {
            client,
            thread: Arc::new(thread),
        })
    }

    /// Returns whether the engine is on another machine.
    pub fn is_remote(&self) -> bool {
        self.client.tunnel.is_some()
    }

    /// Returns the same engine for containers that work on copies of files, wherever it is.
    pub(super) fn with_copies(&self) -> Self {
        Self {
            client: self.client.with_copies(),
            thread: Arc::clone(&self.thread),
        }
    }

    /// Connects to the engine's machine again, if it is another one and the connection was lost.
    pub(super) fn ensure_connected(&self) -> Result<()> {
        self.block_on(self.client.ensure_connected())
    }

    /// Returns why the connection to the engine's machine was lost, if it was.
    pub(super) fn loss_reason(&self) -> Option<String> {
        let tunnel = self.client.tunnel.as_ref()?;
        self.block_on(tunnel.loss_reason())
    }

    /// Returns the isolation of what runs in a container of `image`, for people.
    pub(super) fn isolation(&self, image: &str) -> ExecutionIsolation {
        ExecutionIsolation::Container {
            image: image.to_owned(),
            host: self.client.host().map(ToString::to_string),
        }
    }

    /// Refuses an image that is not on the engine's machine.
    pub fn expect_image(&self, name: &str) -> Result<()> {
        self.block_on(self.client.expect_image(name)).map(drop)
    }

    /// Runs an operation of the engine and waits for it.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.thread.block_on(work)
    }

    /// Runs an operation and waits for it for a limited time, even where an event loop must not be
    /// blocked on.
    pub(super) fn finish_detached(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.thread.finish_detached(work, FINISH_TIME_MAX);
    }

    /// Runs an operation in the background. It continues if the handle is dropped.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.thread.spawn(work)
    }
}
