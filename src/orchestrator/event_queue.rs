//! The queue between what emits the events of a run and the task that records and shows them. What
//! must not happen before its events are in the log, such as a delivery, waits at the barrier
//! first.

use tokio::sync::{mpsc, oneshot};

use crate::event::Event;

/// Maximum number of queued waits at the barrier; further ones wait to be queued.
const WAITS_QUEUED_MAX: usize = 16;

/// The receiving end of the queue.
#[derive(Debug)]
pub(super) struct EventQueue {
    events: mpsc::Receiver<Event>,
    waits: mpsc::Receiver<oneshot::Sender<()>>,
    /// The wait at the barrier that is answered next.
    current_wait: Option<CurrentWait>,
}

/// A wait at the barrier.
#[derive(Debug)]
struct CurrentWait {
    answer: oneshot::Sender<()>,
    /// Number of events that were queued before it and are still in the queue.
    events_before: usize,
}

/// Waits until the events that were emitted so far are recorded. Clones share the queue.
#[derive(Clone, Debug)]
pub struct RecordBarrier {
    waits: mpsc::Sender<oneshot::Sender<()>>,
}

/// Creates a queue of at most `capacity` events: the sender of events, the barrier, and the
/// receiver.
pub(super) fn event_queue(capacity: usize) -> (mpsc::Sender<Event>, RecordBarrier, EventQueue) {
    let (sender, events) = mpsc::channel(capacity);
    let (waits_sender, waits) = mpsc::channel(WAITS_QUEUED_MAX);
    let barrier = RecordBarrier {
        waits: waits_sender,
    };
    let queue = EventQueue {
        events,
        waits,
        current_wait: None,
    };
    (sender, barrier, queue)
}

impl EventQueue {
    /// Returns the next event; `None` when all its senders are gone. The caller must have recorded
    /// the previous event. Loses nothing if it is cancelled.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            self.answer_wait();
            tokio::select! {
                // A wait is for the events before it, and not for those that come later.
                biased;
                Some(answer) = self.waits.recv(), if self.current_wait.is_none() => {
                    let events_before = self.events.len();
                    self.current_wait = Some(CurrentWait { answer, events_before });
                }
                event = self.events.recv() => {
                    if let Some(wait) = &mut self.current_wait {
                        wait.events_before = wait.events_before.saturating_sub(1);
                    }
                    return event;
                }
            }
        }
    }

    /// Answers the current wait if all events before it are recorded.
    fn answer_wait(&mut self) {
        if let Some(wait) = self.current_wait.take_if(|wait| wait.events_before == 0) {
            let _gone = wait.answer.send(());
        }
    }
}

impl RecordBarrier {
    /// Waits until every event that was queued before is in the log. Returns at once if nothing
    /// records any more.
    pub async fn wait(&self) {
        let (recorded_sender, until_recorded) = oneshot::channel();
        if self.waits.send(recorded_sender).await.is_ok() {
            let _gone = until_recorded.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::event::RunEvent;

    fn warning(message: &str) -> Event {
        let message = message.to_owned();
        Event::Run(RunEvent::Warning { message })
    }

    #[tokio::test]
    async fn a_wait_ends_when_the_events_before_it_are_recorded() {
        let (sender, barrier, mut queue) = event_queue(4);
        for message in ["first", "second"] {
            sender.send(warning(message)).await.unwrap();
        }
        let mut wait = Box::pin(barrier.wait());
        assert!((&mut wait).now_or_never().is_none());
        for message in ["first", "second"] {
            assert_eq!(queue.next().await, Some(warning(message)));
            sender.send(warning("later")).await.unwrap();
            let is_over = (&mut wait).now_or_never().is_some();
            assert!(!is_over, "`{message}` is not recorded yet");
        }
        // Whoever asks for the next event has recorded the one before.
        assert_eq!(queue.next().await, Some(warning("later")));
        wait.await;
    }

    #[tokio::test]
    async fn a_wait_without_queued_events_ends_at_once() {
        let (sender, barrier, mut queue) = event_queue(4);
        let mut wait = Box::pin(barrier.wait());
        assert!((&mut wait).now_or_never().is_none());
        assert!(queue.next().now_or_never().is_none());
        wait.await;
        drop(queue);
        barrier.wait().await;
        assert!(sender.is_closed());
    }
}
