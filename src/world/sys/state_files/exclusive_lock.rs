//! The exclusive lock on a file or directory. A process that only checks whether it is taken holds
//! a shared lock for a moment, longer on a busy machine: it must not be mistaken for an owner.
#![expect(clippy::disallowed_types, reason = "only world::sys touches files")]

use std::fs::{File, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for other processes that check the lock.
pub(super) const CHECKS_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest wait for a lock of which the owner is gone: a child that it forked has the lock until it
/// executes its program.
pub(super) const FORK_TIME_MAX: Duration = Duration::from_secs(1);
/// The time until the next attempt to lock.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Tries to lock `file` exclusively. Waits for shared locks, at most `checks_time_max`, but not for
/// an exclusive one.
pub(super) fn try_lock_exclusive(
    file: &File,
    checks_time_max: Duration,
) -> Result<(), TryLockError> {
    let start_time = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {}
            lock_result => return lock_result,
        }
        // With an owner, a shared lock is not possible either. A network file system may refuse one
        // for another reason: then the holder of the lock counts as an owner.
        let is_owned = file.try_lock_shared().is_err() || file.unlock().is_err();
        if is_owned || start_time.elapsed() >= checks_time_max {
            return Err(TryLockError::WouldBlock);
        }
        thread::sleep(RETRY_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_locks_are_waited_for_and_owners_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::open(dir.path()).unwrap();
        let long = Duration::from_mins(2);
        let (own, checked) = (open(), open());
        checked.lock_shared().unwrap();
        let is_taken = |lock_result: Result<(), TryLockError>| {
            matches!(lock_result, Err(TryLockError::WouldBlock))
        };
        assert!(is_taken(try_lock_exclusive(&own, Duration::ZERO)));
        let check = thread::spawn(move || {
            thread::sleep(RETRY_PAUSE);
            drop(checked);
        });
        try_lock_exclusive(&own, long).unwrap();
        check.join().unwrap();
        let start_time = Instant::now();
        assert!(is_taken(try_lock_exclusive(&open(), long)));
        assert!(start_time.elapsed() < long);
    }
}
