//! Whether the stream is open on which a server of an older protocol sends its own requests: they
//! would be lost if a call reached the server before that stream does.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Longest wait for the beginning of the stream.
const OPENING_TIME_MAX: Duration = Duration::from_secs(1);

/// Shared state of a stream. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct EventStreamState(Arc<watch::Sender<EventStreamPhase>>);

/// Phase of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventStreamPhase {
    /// None is expected.
    Unexpected,
    /// It was requested, or will be.
    Opening,
    /// The server has answered, perhaps that it has none.
    Answered,
}

impl Default for EventStreamState {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(EventStreamPhase::Unexpected)))
    }
}

impl EventStreamState {
    /// Records that the server has opened a session, in which a stream is requested.
    pub(super) fn expect(&self) {
        self.0.send_if_modified(|phase| {
            let is_first = *phase == EventStreamPhase::Unexpected;
            if is_first {
                *phase = EventStreamPhase::Opening;
            }
            is_first
        });
    }

    /// Records that the server has answered the request for the stream.
    pub(super) fn set_answered(&self) {
        self.0.send_replace(EventStreamPhase::Answered);
    }

    /// Waits until the server has answered the request for the stream, up to a limit.
    pub(super) async fn wait_until_answered(&self) {
        let mut phases = self.0.subscribe();
        let answered = phases.wait_for(|phase| *phase != EventStreamPhase::Opening);
        drop(timeout(OPENING_TIME_MAX, answered).await);
    }
}
