//! Waiting for what has to come: as long as that may take, and with its name where it does not.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often it is looked for.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `what` is so, at most this long.
#[track_caller]
pub(crate) fn wait_until(what: &str, time_max: Duration, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < time_max,
            "not within {time_max:?}: {what}"
        );
        sleep(PAUSE);
    }
}
