//! Disk errors while records are written: the first one is reported, once.

use crate::error::{Error, Result};

/// The write errors of one run's records.
#[derive(Debug, Default)]
pub(crate) struct RecordErrors {
    first: Option<Error>,
    is_reported: bool,
}

impl RecordErrors {
    /// Records the result of a write.
    pub(crate) fn record(&mut self, result: Result<()>) {
        if let Err(error) = result
            && !self.is_reported
        {
            self.first.get_or_insert(error);
        }
    }

    /// Returns whether a write has failed.
    pub(crate) fn is_any(&self) -> bool {
        self.is_reported || self.first.is_some()
    }

    /// Takes the first error, worded for the user; `None` if there is none or it was reported
    /// before.
    pub(crate) fn take_first(&mut self) -> Option<Error> {
        let error = self.first.take()?;
        self.is_reported = true;
        let hints = error.hints().to_vec();
        let report = Error::new(error.kind(), "the records of this run are incomplete")
            .with_source(error)
            .with_hint("the run continues, and its answer is not lost");
        Some(hints.into_iter().fold(report, Error::with_hint))
    }
}
