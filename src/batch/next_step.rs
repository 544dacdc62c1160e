//! What follows from the end of an attempt at a cell: a result, another attempt, or a pause of the
//! whole batch.

use serde::{Deserialize, Serialize};

use crate::batch::result::CellOutcome;

/// Default number of repetitions after faults of a node.
pub const RETRIES_DEFAULT: u32 = 3;
/// Number of repetitions after a bug of massgen.
const BUG_RETRIES_MAX: u32 = 1;
/// The first pause of a batch, after endpoints failed, in milliseconds.
const PAUSE_MIN_MS: u64 = 2_000;
/// The longest pause, in milliseconds.
const PAUSE_MAX_MS: u64 = 600_000;
/// Number of consecutive pauses without any result after which a batch stops.
pub const PAUSES_MAX: u32 = 12;

/// How an attempt ended that gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// A signal parked it.
    Parked,
    /// The money of the batch was spent; the run is parked.
    OutOfMoney,
    /// The endpoints of its models failed for longer than a run waits.
    EndpointsFailed,
    /// The node lacks something that the run needs.
    NodeFault,
    /// The process was killed, or its node is gone; the run can be resumed.
    ProcessLost,
    /// massgen crashed.
    Bug,
    /// The user asked for a new attempt.
    Repeated,
}

impl AttemptEnd {
    /// Returns whether the run of the attempt can be continued, instead of beginning anew.
    pub fn is_resumable(self) -> bool {
        matches!(
            self,
            AttemptEnd::Parked | AttemptEnd::OutOfMoney | AttemptEnd::ProcessLost
        )
    }
}

/// Where the error came from that ended an attempt, if there was one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttemptErrorOrigin {
    /// The config of the batch, by which every cell would fail.
    Config,
    /// Anything else, such as the task or its project.
    #[default]
    Cell,
}

/// How the run of an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRunEnd {
    /// The exit status.
    pub exit_code: u8,
    /// Whether there is an answer.
    pub has_answer: bool,
    /// Whether the money of the batch was spent.
    pub is_out_of_money: bool,
    /// Whether requests failed although they were retried.
    pub did_endpoints_fail: bool,
    /// Where the error came from.
    pub error_origin: AttemptErrorOrigin,
}

/// The attempts at a cell before this one that gave no result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Faults of nodes.
    pub node_faults: u32,
    /// Crashes of massgen.
    pub bugs: u32,
}

impl AttemptCounts {
    /// Counts the end of an attempt.
    pub fn add(&mut self, end: AttemptEnd) {
        match end {
            AttemptEnd::NodeFault | AttemptEnd::ProcessLost => {
                self.node_faults = self.node_faults.saturating_add(1);
            }
            AttemptEnd::Bug => self.bugs = self.bugs.saturating_add(1),
            // The user starts counting again.
            AttemptEnd::Repeated => *self = Self::default(),
            AttemptEnd::Parked | AttemptEnd::OutOfMoney | AttemptEnd::EndpointsFailed => {}
        }
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellNextStep {
    /// The cell has its result.
    Publish(CellOutcome),
    /// The cell has no result yet; it is started again or resumed.
    Again(AttemptEnd),
    /// The config is wrong, so that every cell would fail: the cell failed, and the batch stops.
    StopBatch,
}

/// Decides what follows from the end of an attempt, after those in `before`, with at most
/// `retries` repetitions after faults of nodes.
pub fn next_step(end: CellRunEnd, before: AttemptCounts, retries: u32) -> CellNextStep {
    let failed_or_partial = if end.has_answer {
        CellOutcome::Partial
    } else {
        CellOutcome::Failed
    };
    match end.exit_code {
        75 if end.is_out_of_money => CellNextStep::Again(AttemptEnd::OutOfMoney),
        75 => CellNextStep::Again(AttemptEnd::Parked),
        0 => CellNextStep::Publish(CellOutcome::Completed),
        1 if end.did_endpoints_fail => CellNextStep::Again(AttemptEnd::EndpointsFailed),
        2 if end.error_origin == AttemptErrorOrigin::Config => CellNextStep::StopBatch,
        // A run that was interrupted has an end and cannot be resumed.
        130 if before.node_faults < retries => CellNextStep::Again(AttemptEnd::NodeFault),
        3 if !end.has_answer && before.node_faults < retries => {
            CellNextStep::Again(AttemptEnd::NodeFault)
        }
        70 if before.bugs < BUG_RETRIES_MAX => CellNextStep::Again(AttemptEnd::Bug),
        _ => CellNextStep::Publish(failed_or_partial),
    }
}

/// Returns how long a batch pauses after `pauses` consecutive pauses without any result, in
/// milliseconds.
pub fn pause_after(pauses: u32) -> u64 {
    let doubled = PAUSE_MIN_MS.saturating_mul(2_u64.saturating_pow(pauses));
    doubled.min(PAUSE_MAX_MS)
}
