//! Owns [`Refusal`]: why a sandbox could not be built. Whatever fails ends in one; nothing goes on
//! with half a sandbox.

use std::fmt::Display;

use crate::confinement::report::Report;

/// Why there is no sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What was being done.
    pub(crate) step: String,
    /// What the system said.
    pub(crate) why: String,
}

impl From<Refusal> for Report {
    fn from(Refusal { step, why }: Refusal) -> Self {
        Report::Refused { step, why }
    }
}

/// What building gives.
pub(crate) type Built<T> = Result<T, Refusal>;

/// Says which step an error belongs to.
pub(crate) trait During<T> {
    /// Turns an error into a refusal that names `step`.
    fn during(self, step: impl Display) -> Built<T>;
}

impl<T, E: Display> During<T> for Result<T, E> {
    fn during(self, step: impl Display) -> Built<T> {
        self.map_err(|error| Refusal {
            step: step.to_string(),
            why: error.to_string(),
        })
    }
}
