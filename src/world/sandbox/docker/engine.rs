//! The thread that talks to an engine, so that synchronous callers can wait for it. They must not
//! run on an event loop themselves.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::world::sandbox::docker::client::EngineClient;

/// Longest time that the end of a run waits for the removal of a container.
const FINISH_TIME_MAX: Duration = Duration::from_secs(20);

/// A Docker or Podman engine, here or on another machine. Clones share one connection and one thread, which
/// ends when the last of them is dropped.
#[derive(Clone, Debug)]
pub struct ContainerEngine {
    pub(super) client: EngineClient,
    thread: Arc<EngineThread>,
}

/// The event loop of the thread, which runs until this is dropped.
#[derive(Debug)]
struct EngineThread {
    handle: Handle,
    _until: oneshot::Sender<()>,
}

impl ContainerEngine {
    /// Connects to the engine that `host` names, as `DOCKER_HOST` of the user's environment `env`
    /// does, or otherwise to the first that answers at a default socket.
    pub fn open(host: Option<&str>, env: &BTreeMap<String, String>) -> Result<Self> {
        let talk = EngineThread::start()?;
        let client = talk.handle.block_on(EngineClient::connect(host, env))?;
        Ok(Self {
            client,
            thread: Arc::new(talk),
        })
    }

    /// Returns whether the engine is on another machine.
    pub fn is_elsewhere(&self) -> bool {
        self.client.tunnel.is_some()
    }

    /// Connects to the engine's machine again, if it is another one and the connection was lost.
    pub(super) fn ensure_connected(&self) -> Result<()> {
        self.block_on(self.client.ensure_connected())
    }

    /// Returns why the connection to the engine's machine was lost, if it was.
    pub(super) fn lost_reason(&self) -> Option<String> {
        let tunnel = self.client.tunnel.as_ref()?;
        self.block_on(tunnel.lost_reason())
    }

    /// Refuses an image that is not on the engine's machine.
    pub fn expect_image(&self, name: &str) -> Result<()> {
        self.block_on(self.client.expect_image(name)).map(drop)
    }

    /// Runs an operation of the engine and waits for it.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.thread.handle.block_on(work)
    }

    /// Runs an operation and waits for it for a limited time, even where an event loop must not be
    /// blocked on.
    pub(super) fn finish_detached(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (done, ended) = mpsc::sync_channel(1);
        self.spawn(async move {
            work.await;
            // If it took too long, the receiver is gone.
            done.send(()).unwrap_or_default();
        });
        ended.recv_timeout(FINISH_TIME_MAX).unwrap_or_default();
    }

    /// Runs an operation in the background. It continues if the handle is dropped.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.thread.handle.spawn(work).abort_handle()
    }
}

impl EngineThread {
    fn start() -> Result<Self> {
        let failed = |error| {
            let message = "cannot start the thread for Docker";
            Error::new(ErrorKind::Environment, message)
                .with_source(error)
                .with_hint("check the limits of open files and processes: `ulimit -a`")
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let handle = runtime.handle().clone();
        let (until, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("docker".to_owned());
        let run_until_dropped = move || drop(runtime.block_on(ended));
        thread.spawn(run_until_dropped).map_err(failed)?;
        Ok(Self {
            handle,
            _until: until,
        })
    }
}
