//! The trait of everything that receives the events of a run: the records, telemetry, and what
//! shows a run to a person or a program. A sink decides nothing and must never change a run.

use std::fmt::Debug;
use std::future::pending;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use crate::error::Result;
use crate::event::Event;

/// A receiver of the events of a run, one after another.
///
/// An error is reported and does not end the sink: it still receives the next event.
#[async_trait]
pub trait EventSink: Debug + Send {
    /// Receives an event that happened `elapsed` after the start.
    fn on_event(&mut self, event: &Event, elapsed: Duration) -> Result<()>;

    /// Returns the time until [`EventSink::on_due`] has something to do; `None` while there is
    /// nothing.
    fn due(&self) -> Option<Duration> {
        None
    }

    /// Does what is due, if anything.
    fn on_due(&mut self, _elapsed: Duration) -> Result<()> {
        Ok(())
    }

    /// Does the remaining work. No event follows.
    async fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Sleeps until something is due; forever if nothing is.
pub async fn sleep_until_due(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => pending().await,
    }
}

/// What waits in the queue, in order.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "almost everything in the queue is an event"
)]
pub enum QueuedEvent {
    /// An event.
    Event(Event),
    /// A barrier, which is answered when the events before it are on the disk.
    Barrier(oneshot::Sender<()>),
}

impl From<Event> for QueuedEvent {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

/// Waits until every event that was sent to `events` before is on the disk. Returns at once if
/// nothing records any more.
pub async fn wait_until_recorded(events: &Sender<QueuedEvent>) {
    let (answer, until_recorded) = oneshot::channel();
    if events.send(QueuedEvent::Barrier(answer)).await.is_ok() {
        let _gone = until_recorded.await;
    }
}
