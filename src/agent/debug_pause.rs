//! The pause of an agent that a config asks for, to test how agents that are ahead and behind see
//! each other's answers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::agent::ModelSession;
use crate::config::DebugDelay;

/// The pause of one agent in one conversation.
#[derive(Debug)]
pub struct DebugPause {
    delay: DebugDelay,
    /// The number of calls that were carried out.
    calls: AtomicU32,
}

impl DebugPause {
    /// Creates the pause of an agent that has made no call.
    pub fn new(delay: DebugDelay) -> Self {
        Self {
            delay,
            calls: AtomicU32::new(0),
        }
    }

    /// Counts a call. Returns how long the agent pauses after it: only after one of them.
    fn count_call(&self) -> Option<Duration> {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let duration = Duration::try_from_secs_f64(self.delay.seconds).ok()?;
        (calls == self.delay.calls).then_some(duration)
    }
}

impl ModelSession {
    /// Pauses after a call if the config asks for it, at most until the deadline.
    pub(super) async fn pause_for_test(&self) {
        let pause = self.debug_pause.as_ref();
        if let Some(duration) = pause.and_then(DebugPause::count_call) {
            tokio::select! {
                () = tokio::time::sleep(duration) => {}
                () = self.wait_for_deadline() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_pauses_once() {
        let duration = Duration::from_millis(1_500);
        let pause = DebugPause::new(DebugDelay {
            calls: 2,
            seconds: 1.5,
        });
        let pauses = [(); 4].map(|()| pause.count_call());
        assert_eq!(pauses, [None, Some(duration), None, None]);
    }
}
