//! Group commit of a run's records: they are synchronized with the disk on another thread, once for
//! all who wait, while further events are recorded.

use std::future::pending;

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::error::{Error, Result};
use crate::world::store::records::Recorder;

/// The synchronization of the records of one run. Dropping a waiter ends its wait.
#[derive(Debug, Default)]
pub(super) struct RecordSync {
    running: Option<RunningSync>,
    is_requested: bool,
    /// Those who wait for the next one.
    waiters: Vec<oneshot::Sender<()>>,
}

/// A synchronization in progress.
#[derive(Debug)]
struct RunningSync {
    task: JoinHandle<Result<()>>,
    _waiters: Vec<oneshot::Sender<()>>,
}

impl RecordSync {
    /// Requests that what was recorded so far is synchronized; `waiter` waits for that, if given.
    pub(super) fn request(&mut self, waiter: Option<oneshot::Sender<()>>) {
        self.is_requested = true;
        self.waiters.extend(waiter);
    }

    /// Starts what was requested, unless the one before is still in progress.
    ///
    /// # Errors
    /// The log cannot be synchronized. The wait ends nevertheless: the run continues without
    /// records.
    pub(super) fn start_requested(&mut self, recorder: &mut Recorder) -> Result<()> {
        if self.running.is_some() || !std::mem::take(&mut self.is_requested) {
            return Ok(());
        }
        let waiters = std::mem::take(&mut self.waiters);
        if let Some(records) = recorder.take_unsynced()? {
            self.running = Some(RunningSync {
                task: spawn_blocking(move || records.sync()),
                _waiters: waiters,
            });
        }
        Ok(())
    }

    /// Waits for the end of the synchronization in progress; forever if there is none. Loses nothing
    /// if it is cancelled.
    pub(super) async fn finished(&mut self) -> Result<()> {
        let Some(running) = &mut self.running else {
            return pending().await;
        };
        let sync_result = (&mut running.task).await;
        self.running = None;
        sync_result.unwrap_or_else(|error| {
            Err(Error::bug("synchronizing the records failed").with_source(error))
        })
    }
}
