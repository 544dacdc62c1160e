//! Owns the thread that talks to an engine, so that callers can wait for it as for anything else
//! that takes time. They must not be part of an event loop themselves.

use std::future::Future;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::world::sandbox::docker::client::EngineClient;

/// How long the end of a run waits for a container to be removed.
const FINISH_TIME_MAX: Duration = Duration::from_secs(20);

/// An engine of Docker or Podman on this machine. Clones share one connection and one thread, which
/// ends with the last of them.
#[derive(Clone, Debug)]
pub struct ContainerEngine {
    pub(super) client: EngineClient,
    thread: Arc<EngineThread>,
}

/// The event loop of the thread, which goes on until this is gone.
#[derive(Debug)]
struct EngineThread {
    handle: Handle,
    _until: oneshot::Sender<()>,
}

impl ContainerEngine {
    /// Connects to the engine that `DOCKER_HOST` of the user's own environment names, or else to the
    /// first that answers at a usual place.
    pub fn open(host: Option<&str>) -> Result<Self> {
        let talk = EngineThread::start()?;
        let client = talk.handle.block_on(EngineClient::connect(host))?;
        Ok(Self {
            client,
            thread: Arc::new(talk),
        })
    }

    /// Refuses an image that is not on this machine.
    pub fn expect_image(&self, name: &str) -> Result<()> {
        self.block_on(self.client.expect_image(name)).map(drop)
    }

    /// Waits for something that the engine does.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.thread.handle.block_on(work)
    }

    /// Waits for something also where nothing of an event loop may be waited for, for a while.
    pub(super) fn finish_detached(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (done, ended) = mpsc::sync_channel(1);
        self.spawn(async move {
            work.await;
            // Nobody listens any more if it took too long.
            done.send(()).unwrap_or_default();
        });
        ended.recv_timeout(FINISH_TIME_MAX).unwrap_or_default();
    }

    /// Lets something go on while nobody waits for it.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.thread.handle.spawn(work));
    }
}

impl EngineThread {
    fn start() -> Result<Self> {
        let failed = |error| {
            let message = "the thread that talks to Docker cannot be started";
            Error::new(ErrorKind::Environment, message)
                .with_source(error)
                .with_hint("see whether the limit of open files or processes is met: `ulimit -a`")
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let handle = runtime.handle().clone();
        let (until, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("docker".to_owned());
        let goes_on = move || drop(runtime.block_on(ended));
        thread.spawn(goes_on).map_err(failed)?;
        Ok(Self {
            handle,
            _until: until,
        })
    }
}
