//! Owns what becomes of a disk that fails while records are written: the first fault is told, once.

use crate::error::{Error, Result};

/// The faults of one run's records.
#[derive(Debug, Default)]
pub(crate) struct RecordErrors {
    first: Option<Error>,
    told: bool,
}

impl RecordErrors {
    /// Takes in how a write went.
    pub(crate) fn note(&mut self, written: Result<()>) {
        if let Err(error) = written
            && !self.told
        {
            self.first.get_or_insert(error);
        }
    }

    /// The first fault, in words for the user; `None` if there is none or it was told before.
    pub(crate) fn take_first(&mut self) -> Option<Error> {
        let error = self.first.take()?;
        self.told = true;
        let hints = error.hints().to_vec();
        let told = Error::new(error.kind(), "the records of this run are incomplete")
            .with_source(error)
            .with_hint("the run goes on, and its answer is not lost");
        Some(hints.into_iter().fold(told, Error::with_hint))
    }
}
