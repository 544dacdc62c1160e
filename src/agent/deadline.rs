//! Owns how long the user waits: until a deadline, or until they say that it is enough.

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ExitStatus;

/// Until when a run may go on.
#[derive(Clone, Debug)]
pub struct RunDeadline {
    /// When the time is over.
    pub deadline: Instant,
    /// Says that the user wants to stop.
    pub stop: CancellationToken,
}

/// Why a run does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The time is over.
    OutOfTime,
    /// The user stopped it.
    Interrupted,
    /// A limit of money, tokens or tool calls is met; the ledger knows which.
    LimitMet,
}

impl StopCause {
    /// How a process ends that stops for this reason.
    pub fn exit_status(self) -> ExitStatus {
        match self {
            StopCause::OutOfTime | StopCause::LimitMet => ExitStatus::Limit,
            StopCause::Interrupted => ExitStatus::Interrupted,
        }
    }
}

impl RunDeadline {
    /// Whether it is over by now.
    pub fn is_reached(&self) -> bool {
        self.stop.is_cancelled() || self.deadline <= Instant::now()
    }

    /// Waits until the patience is over.
    pub async fn wait(&self) -> StopCause {
        tokio::select! {
            () = tokio::time::sleep_until(self.deadline) => StopCause::OutOfTime,
            () = self.stop.cancelled() => StopCause::Interrupted,
        }
    }
}
