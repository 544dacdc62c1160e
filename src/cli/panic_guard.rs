//! Last line of defence: turns a panic in a command into an ordinary error, so that the end of the
//! process is reported and has an exit status. The panic message and location are already on
//! standard error, and must never be on standard output.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Result};

/// Runs `work` and returns its result; a panic in it is an error of the kind bug.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // What `work` was changing is only reported and dropped afterwards, never used for further
    // work.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Error::from_panic(&*panic)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ErrorKind, ExitStatus};

    #[track_caller]
    fn check(work: impl FnOnce() -> Result<u8>, expected: std::result::Result<u8, &str>) {
        let status = catch_panic(work).map_err(|error| error.to_string());
        assert_eq!(status, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_panic_is_an_error_and_everything_else_is_as_it_was() {
        check(|| Ok(1), Ok(1));
        check(
            || Err(Error::new(ErrorKind::Usage, "typed wrongly")),
            Err("typed wrongly"),
        );
        check(
            || panic!("no agent {}", 7),
            Err("massgen crashed: no agent 7"),
        );
        check(|| panic!("no agent"), Err("massgen crashed: no agent"));
        check(|| std::panic::panic_any(7), Err("massgen crashed"));
    }

    #[test]
    fn a_panic_is_our_bug() {
        let error = catch_panic(|| -> Result<()> { panic!("no agent") }).unwrap_err();
        assert_eq!(error.kind().exit_status(), ExitStatus::Bug);
    }
}
