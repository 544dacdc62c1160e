//! Waiting for a condition, with a timeout and a name for the error.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Polling interval.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `is_so` is true, at most `time_max`.
#[track_caller]
pub(crate) fn wait_until(condition: &str, time_max: Duration, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < time_max,
            "not within {time_max:?}: {condition}"
        );
        sleep(PAUSE);
    }
}
