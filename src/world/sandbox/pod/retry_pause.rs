//! Pauses between attempts, which become longer: what is ready soon is noticed soon.

use std::time::Duration;

use tokio::time::sleep;

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The pause before the next attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryPause {
    next: Duration,
    longest: Duration,
}

impl RetryPause {
    /// Begins with a short pause; none is longer than `longest`.
    pub(super) fn up_to(longest: Duration) -> Self {
        Self {
            next: PAUSE_MIN.min(longest),
            longest,
        }
    }

    /// Waits; the next time, twice as long.
    pub(super) async fn wait(&mut self) {
        sleep(self.next).await;
        self.next = self.next.saturating_mul(2).min(self.longest);
    }
}
