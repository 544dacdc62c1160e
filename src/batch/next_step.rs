//! What follows from the end of an attempt at a cell: a result, or another attempt; and how long a
//! batch pauses after its endpoints failed.

use serde::{Deserialize, Serialize};

use crate::batch::result::CellOutcome;

/// Default number of repetitions of a cell whose process was lost.
pub const RETRIES_DEFAULT: u32 = 3;
/// Number of consecutive pauses without any result after which a batch stops.
pub const PAUSES_MAX: u32 = 12;
/// The first pause of a batch, after endpoints failed, in seconds.
const PAUSE_MIN_SECONDS: u64 = 2;
/// The longest pause, in seconds.
const PAUSE_MAX_SECONDS: u64 = 600;

/// How an attempt ended that gave no result. One without an end was lost with its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// It was parked, and can be resumed.
    Parked,
    /// The share of its job was spent; the run is parked.
    OutOfMoney,
    /// The endpoints of its models failed for longer than a run waits; another run is needed.
    EndpointsFailed,
}

/// How the run of an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRunEnd {
    /// The exit status.
    pub exit_code: u8,
    /// Whether there is an answer.
    pub has_answer: bool,
    /// Whether the share of the job was spent.
    pub is_out_of_money: bool,
    /// Whether requests failed although they were retried.
    pub did_endpoints_fail: bool,
}

/// What follows from the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellNextStep {
    /// The cell has its result.
    Publish(CellOutcome),
    /// The cell has no result yet; it is started again or resumed.
    RunAgain(AttemptEnd),
}

/// Decides what follows from the end of an attempt, by its exit status, which is the code of an
/// [`ExitStatus`](crate::error::ExitStatus): 0 for success, 1 for a failure, 75 if it was parked.
pub fn next_step(end: CellRunEnd) -> CellNextStep {
    match end.exit_code {
        75 if end.is_out_of_money => CellNextStep::RunAgain(AttemptEnd::OutOfMoney),
        75 => CellNextStep::RunAgain(AttemptEnd::Parked),
        0 => CellNextStep::Publish(CellOutcome::Completed),
        1 if end.did_endpoints_fail => CellNextStep::RunAgain(AttemptEnd::EndpointsFailed),
        _ if end.has_answer => CellNextStep::Publish(CellOutcome::Partial),
        _ => CellNextStep::Publish(CellOutcome::Failed),
    }
}

/// Returns how long a batch pauses after `pauses` consecutive pauses without any result, in seconds.
pub fn pause_after(pauses: u32) -> u64 {
    let pause = PAUSE_MIN_SECONDS.saturating_mul(2_u64.saturating_pow(pauses));
    pause.min(PAUSE_MAX_SECONDS)
}
