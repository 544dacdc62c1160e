//! The exclusive lock on a file or directory. A process that only checks whether it is taken holds a
//! shared lock for a moment, longer on a busy machine: it must not be mistaken for an owner.
#![expect(clippy::disallowed_types, reason = "this is where the disk is")]

use std::fs::{File, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for other processes that check the lock.
pub(super) const LOOKS_TIME_MAX: Duration = Duration::from_secs(10);
/// The time until the next attempt.
const LOOK_WAIT: Duration = Duration::from_millis(5);

/// Tries to lock `file` exclusively. Shared locks are waited for, at most `looks_time_max`; an exclusive
/// one is not.
pub(super) fn try_lock_exclusive(
    file: &File,
    looks_time_max: Duration,
) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {}
            attempt => return attempt,
        }
        // With an owner, a shared lock is not possible either. A network file system may refuse one for
        // another reason: then the holder of the lock counts as an owner.
        let is_owned = file.try_lock_shared().is_err() || file.unlock().is_err();
        if is_owned || began.elapsed() >= looks_time_max {
            return Err(TryLockError::WouldBlock);
        }
        thread::sleep(LOOK_WAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_waited_for_and_owners_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::open(dir.path()).unwrap();
        let long = Duration::from_mins(2);
        let (own, look) = (open(), open());
        look.lock_shared().unwrap();
        let taken =
            |attempt: Result<(), TryLockError>| matches!(attempt, Err(TryLockError::WouldBlock));
        assert!(taken(try_lock_exclusive(&own, Duration::ZERO)));
        let looking = thread::spawn(move || {
            thread::sleep(LOOK_WAIT);
            drop(look);
        });
        try_lock_exclusive(&own, long).unwrap();
        looking.join().unwrap();
        let began = Instant::now();
        assert!(taken(try_lock_exclusive(&open(), long)));
        assert!(began.elapsed() < long);
    }
}
