//! Time limit of a run: a deadline, or the user's request to stop.

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ExitStatus;

/// The end of a run's time.
#[derive(Clone, Debug)]
pub struct RunDeadline {
    /// The deadline.
    pub deadline: Instant,
    /// Cancelled when the user stops the run.
    pub stop: CancellationToken,
}

/// Reason why a run stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The deadline has passed.
    OutOfTime,
    /// The user stopped it.
    Interrupted,
    /// A limit of money, tokens or tool calls has been reached; the ledger knows which.
    LimitReached,
}

impl StopCause {
    /// Returns the exit status of a process that stops for this reason.
    pub fn exit_status(self) -> ExitStatus {
        match self {
            StopCause::OutOfTime | StopCause::LimitReached => ExitStatus::Limit,
            StopCause::Interrupted => ExitStatus::Interrupted,
        }
    }
}

impl RunDeadline {
    /// Returns whether the deadline has passed or the user has stopped the run.
    pub fn is_reached(&self) -> bool {
        self.stop.is_cancelled() || self.deadline <= Instant::now()
    }

    /// Waits for the deadline or until the user stops the run.
    pub async fn wait(&self) -> StopCause {
        tokio::select! {
            () = tokio::time::sleep_until(self.deadline) => StopCause::OutOfTime,
            () = self.stop.cancelled() => StopCause::Interrupted,
        }
    }
}
