//! [`SandboxRefusal`]: why a sandbox could not be built. Every failure ends in one; nothing
//! continues with half a sandbox.

use std::fmt::Display;

use crate::sandbox_policy::helper_protocol::HelperReport;

/// Why there is no sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SandboxRefusal {
    /// The step that failed.
    pub(crate) step: String,
    /// The error of the system.
    pub(crate) reason: String,
}

impl From<SandboxRefusal> for HelperReport {
    fn from(SandboxRefusal { step, reason }: SandboxRefusal) -> Self {
        HelperReport::Refused { step, reason }
    }
}

/// The result of a step of building a sandbox.
pub(crate) type SandboxResult<T> = Result<T, SandboxRefusal>;

/// Adds to an error the step that it belongs to.
pub(crate) trait StepContext<T> {
    /// Converts an error to a refusal that names `step`.
    fn in_step(self, step: impl Display) -> SandboxResult<T>;
}

impl<T, E: Display> StepContext<T> for Result<T, E> {
    fn in_step(self, step: impl Display) -> SandboxResult<T> {
        self.map_err(|error| SandboxRefusal {
            step: step.to_string(),
            reason: error.to_string(),
        })
    }
}
