//! What follows from the end of an attempt at a cell: a result, another attempt, or the end of the
//! whole batch. Also what a cell waits for after a job, and how long a batch pauses after its
//! endpoints failed.

use serde::{Deserialize, Serialize};

use crate::batch::result::CellOutcome;

/// Default number of repetitions after faults of a node.
pub const RETRIES_DEFAULT: u32 = 3;
/// Number of repetitions after a bug of massgen.
const BUG_RETRIES_MAX: u32 = 1;
/// The first pause of a batch, after endpoints failed, in milliseconds.
const PAUSE_MIN_MS: u64 = 2_000;
/// The longest pause, in milliseconds.
pub const PAUSE_MAX_MS: u64 = 600_000;
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
    /// Returns whether the run of the attempt can be resumed, instead of starting over.
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

/// How often the earlier attempts at a cell ended in the ways that limit repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Faults of nodes, including lost processes.
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
            // The user asked for a new attempt, and counting starts again.
            AttemptEnd::Repeated => *self = Self::default(),
            AttemptEnd::Parked | AttemptEnd::OutOfMoney | AttemptEnd::EndpointsFailed => {}
        }
    }
}

/// What follows from the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellNextStep {
    /// The cell has its result.
    Publish(CellOutcome),
    /// The cell has no result yet; it is started again or resumed.
    RunAgain(AttemptEnd),
    /// The config is wrong, so that every cell would fail: the cell failed, and the batch stops.
    StopBatch,
}

/// Decides what follows from the end of an attempt, by its exit status, which is the code of an
/// [`ExitStatus`](crate::error::ExitStatus): 0 for success, 1 for a failure, 2 for a wrong config,
/// 3 for a fault of the environment, 70 for a bug, 75 if it was parked, 130 if it was interrupted.
/// `earlier` are the attempts before it; faults of nodes lead to at most `retries` repetitions.
pub fn next_step(end: CellRunEnd, earlier: AttemptCounts, retries: u32) -> CellNextStep {
    let outcome_of_failed_run = if end.has_answer {
        CellOutcome::Partial
    } else {
        CellOutcome::Failed
    };
    match end.exit_code {
        75 if end.is_out_of_money => CellNextStep::RunAgain(AttemptEnd::OutOfMoney),
        75 => CellNextStep::RunAgain(AttemptEnd::Parked),
        0 => CellNextStep::Publish(CellOutcome::Completed),
        1 if end.did_endpoints_fail => CellNextStep::RunAgain(AttemptEnd::EndpointsFailed),
        2 if end.error_origin == AttemptErrorOrigin::Config => CellNextStep::StopBatch,
        // A run that was interrupted has recorded its end, so that it is not resumed.
        130 if earlier.node_faults < retries => CellNextStep::RunAgain(AttemptEnd::NodeFault),
        3 if !end.has_answer && earlier.node_faults < retries => {
            CellNextStep::RunAgain(AttemptEnd::NodeFault)
        }
        70 if earlier.bugs < BUG_RETRIES_MAX => CellNextStep::RunAgain(AttemptEnd::Bug),
        _ => CellNextStep::Publish(outcome_of_failed_run),
    }
}

/// A cell without a result, after a job ended that was started for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellAfterJob {
    /// The number of the last attempt before the job was started; 0 if there was none.
    pub attempt_before: u32,
    /// The number of the last attempt now.
    pub attempt: u32,
    /// How that ended, if it did.
    pub end: Option<AttemptEnd>,
    /// Whether a process works on it.
    pub is_alive: bool,
}

/// What a cell waits for after a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellWait {
    /// More money.
    Money,
    /// The end of another process.
    OtherProcess,
    /// Another job.
    Job,
}

impl CellAfterJob {
    /// Returns what the cell waits for.
    pub fn wait(self) -> CellWait {
        match self.end {
            // If the job began no attempt, an earlier one ended so, before there was more money.
            Some(AttemptEnd::OutOfMoney) if self.has_begun_attempt() => CellWait::Money,
            None if self.is_alive => CellWait::OtherProcess,
            Some(_) | None => CellWait::Job,
        }
    }

    /// Returns whether the job was useless for the cell: it began no attempt, or one of which
    /// neither a result nor a reason could be written although the `retries` are used up.
    pub fn is_useless(self, retries: u32) -> bool {
        let is_hopeless = self.end.is_none() && self.attempt > retries.saturating_add(1);
        let is_run_elsewhere = self.wait() == CellWait::OtherProcess;
        !is_run_elsewhere && (!self.has_begun_attempt() || is_hopeless)
    }

    fn has_begun_attempt(self) -> bool {
        self.attempt > self.attempt_before
    }
}

/// Returns how long a batch pauses after `pauses` consecutive pauses without any result, in
/// milliseconds.
pub fn pause_after(pauses: u32) -> u64 {
    let pause = PAUSE_MIN_MS.saturating_mul(2_u64.saturating_pow(pauses));
    pause.min(PAUSE_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_begins_no_attempt_is_useless_and_says_nothing_about_money() {
        const MONEY: Option<AttemptEnd> = Some(AttemptEnd::OutOfMoney);
        const PARKED: Option<AttemptEnd> = Some(AttemptEnd::Parked);
        for (attempt_before, attempt, end, is_alive, wait, is_useless) in [
            (0, 0, None, false, CellWait::Job, true),
            (0, 1, None, false, CellWait::Job, false),
            (1, 1, None, false, CellWait::Job, true),
            (1, 1, None, true, CellWait::OtherProcess, false),
            (1, 2, None, true, CellWait::OtherProcess, false),
            (1, 1, PARKED, false, CellWait::Job, true),
            (1, 2, PARKED, false, CellWait::Job, false),
            (8, 9, PARKED, false, CellWait::Job, false),
            (0, 1, MONEY, false, CellWait::Money, false),
            (1, 1, MONEY, false, CellWait::Job, true),
            (3, 4, None, false, CellWait::Job, false),
            (4, 5, None, false, CellWait::Job, true),
        ] {
            let cell = CellAfterJob {
                attempt_before,
                attempt,
                end,
                is_alive,
            };
            assert_eq!(
                (cell.wait(), cell.is_useless(3)),
                (wait, is_useless),
                "{cell:?}"
            );
        }
    }
}
