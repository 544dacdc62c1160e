//! The runs that the server knows: those that the page started, and the feeds of all that are read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::cli::web::logged_run::LoggedRun;
use crate::cli::web::page_run::PageRun;
use crate::cli::web::run_feed::{FeedProgress, RunFeed};
use crate::error::{Error, ErrorKind, Result};
use crate::orchestrator::execution::ShutdownSignal;
use crate::text::count_noun;

/// Maximum number of runs of the page that are kept; the oldest ended one is forgotten first.
const RUNS_MAX: usize = 64;
/// Maximum number of feeds that are kept for other runs; the one read longest ago goes first.
const FEEDS_MAX: usize = 16;
/// Maximum number of open streams, so that connections remain for everything else.
const STREAMS_MAX: usize = 32;

/// The runs.
#[derive(Debug)]
pub(super) struct WebRunRegistry {
    stop: ShutdownSignal,
    parallel: u32,
    /// A slot for each run at the same time.
    run_slots: Arc<Semaphore>,
    /// A slot for each open stream.
    stream_slots: Arc<Semaphore>,
    /// The runs that the page started.
    page_runs: Mutex<Vec<Arc<PageRun>>>,
    /// The feeds of runs that other processes started, the one read last at the end.
    feeds: Mutex<VecDeque<(String, Arc<RunFeed>)>>,
    /// Held while a delivery is applied or reverted.
    delivery_lock: tokio::sync::Mutex<()>,
}

impl WebRunRegistry {
    /// Creates a registry without runs; at most `parallel` run at the same time, and `stop` stops
    /// them all.
    pub(super) fn new(parallel: u32, stop: ShutdownSignal) -> Self {
        Self {
            stop,
            parallel,
            run_slots: Arc::new(Semaphore::new(usize::try_from(parallel).unwrap_or(1))),
            stream_slots: Arc::new(Semaphore::new(STREAMS_MAX)),
            page_runs: Mutex::default(),
            feeds: Mutex::default(),
            delivery_lock: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the signal that stops all runs and streams.
    pub(super) fn stop(&self) -> &ShutdownSignal {
        &self.stop
    }

    /// Returns a slot for one more stream, if there is one.
    pub(super) fn stream_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.stream_slots).try_acquire_owned().ok()
    }

    /// Returns a slot for one more run.
    ///
    /// # Errors
    /// Enough runs are active.
    pub(super) fn run_slot(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.run_slots)
            .try_acquire_owned()
            .map_err(|_| {
                let runs = count_noun(usize::try_from(self.parallel).unwrap_or(1), "run");
                let message = format!("the page may have no more than {runs} at the same time");
                Error::new(ErrorKind::Limit, message)
                    .with_hint("wait for one, stop one, or start the server with `--parallel`")
            })
    }

    /// Creates a run that can be stopped alone.
    pub(super) fn new_run(&self) -> Arc<PageRun> {
        Arc::new(PageRun::new(ShutdownSignal {
            graceful: self.stop.graceful.child_token(),
            immediate: self.stop.immediate.child_token(),
            park: self.stop.park.child_token(),
        }))
    }

    /// Adds a run that has started; a resumed run replaces its earlier entry.
    pub(super) fn insert(&self, run: Arc<PageRun>) {
        let mut runs = lock(&self.page_runs);
        let name = run.name();
        runs.retain(|known| known.name() != name);
        runs.push(run);
        if runs.len() > RUNS_MAX
            && let Some(oldest) = runs.iter().position(|run| run.is_ended())
        {
            runs.remove(oldest);
        }
    }

    /// Returns the run of the page with this name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<PageRun>> {
        let runs = lock(&self.page_runs);
        let mut known_runs = runs.iter();
        let page_run = known_runs.find(|run| run.name().as_deref() == Some(name));
        page_run.cloned()
    }

    /// Returns whether the page started the run with this name, and it has not ended.
    pub(super) fn is_live(&self, name: &str) -> bool {
        self.find(name).is_some_and(|run| !run.is_ended())
    }

    /// Returns the feed of `run`. It follows the log from now on if it did not before, or if the
    /// run was resumed since, also by another process.
    pub(super) fn feed(&self, run: &LoggedRun) -> Result<Arc<RunFeed>> {
        let page_run = self.find(run.name());
        if let Some(page_run) = page_run
            && (!page_run.is_ended() || !is_outdated(page_run.feed(), run)?)
        {
            return Ok(Arc::clone(page_run.feed()));
        }
        let mut feeds = lock(&self.feeds);
        let position = feeds.iter().position(|(known, _)| known == run.name());
        let known_feed = position.and_then(|index| feeds.remove(index));
        let feed = match known_feed {
            Some((_, feed)) if !is_outdated(&feed, run)? => feed,
            Some(_) | None => {
                let feed = RunFeed::new();
                if let Some(limits) = run.limits() {
                    feed.set_limits(limits);
                }
                feed.follow(run.events())?;
                feed
            }
        };
        if feeds.len() == FEEDS_MAX {
            feeds.pop_front();
        }
        feeds.push_back((run.name().to_owned(), Arc::clone(&feed)));
        Ok(feed)
    }

    /// Waits until no other delivery is applied or reverted.
    pub(super) async fn lock_deliveries(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.delivery_lock.lock().await
    }

    /// Waits until no run is active.
    pub(super) async fn end(&self) {
        let _all_slots = self.run_slots.acquire_many(self.parallel).await;
    }
}

/// Returns whether `feed` has ended, and its run was resumed since: the log is written again, or it
/// is another one than the feed has read.
fn is_outdated(feed: &RunFeed, run: &LoggedRun) -> Result<bool> {
    let is_ended = feed.progress() == FeedProgress::Ended;
    Ok(is_ended && (run.is_written()? || run.log_length() != feed.log_length()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
