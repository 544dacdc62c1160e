//! The result of a cell: how it ended, and what its tables are made of.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::batch::task::CellId;
use crate::check_results::ChecksOutcome;
use crate::spending::money::Money;

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellOutcome {
    /// The task is done.
    Completed,
    /// There is an answer, but it is incomplete.
    Partial,
    /// There is no usable result.
    Failed,
}

/// The result of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// The cell.
    pub id: CellId,
    /// How it ended.
    pub outcome: CellOutcome,
    /// The exit status of its run.
    pub exit_code: u8,
    /// The tags of its task.
    pub tags: BTreeSet<String>,
    /// How the required checks ended: those after the delivery, or without a delivery those of the
    /// winning answer.
    pub checks: ChecksOutcome,
    /// The agent that won, if any did.
    pub winner: Option<String>,
    /// The known cost of all its attempts in US dollars.
    pub cost_usd: Money,
    /// Whether that includes the cost of every request.
    pub cost_is_complete: bool,
    /// How long its run worked, over all parts between interruptions, in milliseconds.
    pub duration_ms: u64,
    /// The number of times that it was started or resumed.
    pub attempts: u32,
    /// What started it: `local`, or another scheduler.
    pub engine: String,
    /// The host on which it ended.
    pub host: String,
    /// When it ended, as ISO 8601.
    pub ended: String,
    /// The number of files that its delivery changes.
    pub files: u64,
    /// How its run ended, in one sentence.
    pub reason: String,
}

impl CellResult {
    /// Returns whether the cell succeeded: its checks passed and it has a usable result, or without
    /// checks its task is done.
    pub fn is_success(&self) -> bool {
        match self.checks {
            ChecksOutcome::Passed => self.outcome != CellOutcome::Failed,
            ChecksOutcome::Failed => false,
            ChecksOutcome::None => self.outcome == CellOutcome::Completed,
        }
    }
}
