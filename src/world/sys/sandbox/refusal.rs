//! Owns [`SandboxRefusal`]: why a sandbox could not be built. Whatever fails ends in one; nothing goes on
//! with half a sandbox.

use std::fmt::Display;

use crate::sandbox_policy::helper_protocol::HelperReport;

/// Why there is no sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SandboxRefusal {
    /// What was being done.
    pub(crate) step: String,
    /// What the system said.
    pub(crate) why: String,
}

impl From<SandboxRefusal> for HelperReport {
    fn from(SandboxRefusal { step, why }: SandboxRefusal) -> Self {
        HelperReport::Refused { step, why }
    }
}

/// What building gives.
pub(crate) type SandboxResult<T> = Result<T, SandboxRefusal>;

/// Says which step an error belongs to.
pub(crate) trait StepContext<T> {
    /// Turns an error into a refusal that names `step`.
    fn in_step(self, step: impl Display) -> SandboxResult<T>;
}

impl<T, E: Display> StepContext<T> for Result<T, E> {
    fn in_step(self, step: impl Display) -> SandboxResult<T> {
        self.map_err(|error| SandboxRefusal {
            step: step.to_string(),
            why: error.to_string(),
        })
    }
}
