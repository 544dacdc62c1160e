//! Waiting for a condition, with a timeout and a name for the error.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// Polling interval.
const PAUSE: Duration = Duration::from_millis(5);
/// Timeout for what a program does as soon as it can.
pub(crate) const WAIT_TIME_MAX: Duration = Duration::from_mins(2);
/// Timeout for the clock of the file system to advance, which takes a few milliseconds.
const FILE_CLOCK_TIME_MAX: Duration = Duration::from_mins(2);

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

/// Waits until files that change get a later time than now: their times lag behind the time of day.
#[track_caller]
pub(crate) fn wait_for_file_clock() {
    let now = SystemTime::now();
    let dir = tempfile::tempdir().unwrap();
    let probe = dir.path().join("probe");
    wait_until("a file with a later time", FILE_CLOCK_TIME_MAX, || {
        fs::write(&probe, "changed").unwrap();
        fs::metadata(&probe).unwrap().modified().unwrap() > now
    });
}
