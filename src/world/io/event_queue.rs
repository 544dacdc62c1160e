//! The queue between what emits the events of a run and the task that records and shows them. What
//! must not happen before its events are on the disk, such as the calls of a reply that was paid
//! for, or a delivery, waits at a barrier first.

use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use crate::event::Event;

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
