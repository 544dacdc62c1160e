//! Waits for the event stream on which a server of an older protocol sends its own requests: they
//! would be lost if a call reached the server before the request for that stream.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Longest wait for the beginning of the stream. Some servers answer only with the first event, so
/// it is waited for once.
const OPENING_TIME_MAX: Duration = Duration::from_secs(5);

/// Shared state of a stream. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct EventStreamState(Arc<watch::Sender<EventStreamPhase>>);

/// Phase of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventStreamPhase {
    /// No stream is expected.
    Unexpected,
    /// It was requested, or will be.
    Opening,
    /// The server has answered, perhaps that it has none, or has been waited for long enough.
    Answered,
}

impl Default for EventStreamState {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(EventStreamPhase::Unexpected)))
    }
}

impl EventStreamState {
    /// Records that the server has opened a session, in which a stream is requested.
    pub(super) fn set_expected(&self) {
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
        self.wait_at_most(OPENING_TIME_MAX).await;
    }

    async fn wait_at_most(&self, time_max: Duration) {
        let mut phases = self.0.subscribe();
        let phase_change = phases.wait_for(|phase| *phase != EventStreamPhase::Opening);
        let is_late = timeout(time_max, phase_change).await.is_err();
        if is_late {
            self.set_answered();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_that_does_not_begin_is_waited_for_once() {
        let stream = EventStreamState::default();
        stream.wait_at_most(Duration::MAX).await;
        stream.set_expected();
        stream.wait_at_most(Duration::ZERO).await;
        stream.wait_at_most(Duration::MAX).await;
    }
}
