//! Report on a batch for the user: its cells by state, its money, the latest failures, and the
//! command that continues it.

use serde_json::{Value, json};

use crate::batch::cell_state::{BatchCounts, CellState};
use crate::batch::task::CellId;
use crate::error::Result;
use crate::spending::money::Money;
use crate::text::{count_noun, escape_line, single_line};
use crate::world::batch_engine::local::LOCAL;
use crate::world::store::batches::attempts::ProcessLiveness;
use crate::world::store::batches::survey::{BatchSurvey, BegunCell};
use crate::world::store::batches::{BatchDir, BatchRecord};

/// Maximum number of failures that are shown.
const FAILURES_MAX: usize = 10;
/// Maximum length of the reason of a failure, in characters.
const REASON_CHARS_MAX: usize = 300;

/// The state of a batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BatchReport {
    /// Its name.
    pub(crate) batch: String,
    /// Its cells by state.
    pub(crate) counts: BatchCounts,
    /// What it may spend, if it has a limit.
    pub(crate) limit: Option<Money>,
    /// What all attempts have spent.
    pub(crate) spent: Money,
    /// Whether it was cancelled before every cell had a result.
    pub(crate) is_cancelled: bool,
    /// Whether something still drives it to its end.
    pub(crate) activity: BatchActivity,
}

/// Whether any process or job works on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchActivity {
    /// A process works on it, or every cell has a result.
    Active,
    /// No known process works on it; jobs may wait in a queue, or start on another host.
    Unknown,
    /// Nothing works on it, and some cells have no result.
    Stopped,
}

/// A cell that failed, has an incomplete answer, did not pass its checks, or waits after a fault.
struct CellFailure<'s> {
    id: &'s CellId,
    state: CellState,
    /// When it ended or began to wait, or when the lost process began, as ISO 8601.
    at: &'s str,
    /// Why, in one sentence.
    reason: &'s str,
}

impl BatchReport {
    /// Reads the state of `batch`.
    pub(crate) fn read(batch: &BatchDir) -> Result<Self> {
        let record = batch.record()?;
        Self::from_survey(batch, &record, &batch.survey(record.cells)?)
    }

    /// Builds the report of a batch whose cells were read.
    pub(crate) fn from_survey(
        batch: &BatchDir,
        record: &BatchRecord,
        survey: &BatchSurvey,
    ) -> Result<Self> {
        let counts = survey.counts();
        let is_finished = counts.open_count() == 0;
        let activity = if is_finished || counts.count(CellState::Running) > 0 {
            BatchActivity::Active
        } else {
            idle_activity(batch)?
        };
        Ok(Self {
            batch: batch.name(),
            counts,
            limit: batch.limit(record)?,
            spent: survey.spent,
            is_cancelled: batch.is_cancelled()? && !is_finished,
            activity,
        })
    }

    /// Returns whether every cell has a result.
    pub(crate) fn is_finished(&self) -> bool {
        self.counts.open_count() == 0
    }

    /// Returns the money for scripts.
    pub(crate) fn money_json(&self) -> Value {
        json!({"limit_usd": self.limit, "spent_usd": self.spent})
    }

    /// Returns the report for scripts.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "batch": self.batch,
            "cells": self.counts,
            "money": self.money_json(),
            "is_cancelled": self.is_cancelled,
            "is_stopped": self.activity == BatchActivity::Stopped,
        })
    }

    /// Returns what helps if no process works on the batch; `None` while one does, or if every cell
    /// has a result.
    pub(crate) fn idle_hint(&self) -> Option<String> {
        let state = match self.activity {
            BatchActivity::Active => return None,
            BatchActivity::Unknown => {
                "no cell is running; unless a queue or another host is about to begin one, \
                 continue with"
            }
            BatchActivity::Stopped => "no process works on the batch; continue with",
        };
        Some(format!("{state}: {}", self.resume_command()))
    }

    /// Returns the command that continues the batch.
    fn resume_command(&self) -> String {
        let is_spent = |limit: Money| self.spent >= limit;
        resume_command(&self.batch, self.limit.is_some_and(is_spent))
    }

    /// Returns the report in lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let cells = count_noun(self.counts.cells, "cell");
        let states = self.counts.describe(false);
        let mut lines = vec![format!("{}: {cells}: {states}", self.batch)];
        if let Some(limit) = self.limit {
            lines.push(format!("money: ${} of ${limit} spent", self.spent));
        }
        if self.is_cancelled {
            lines.push("cancelled".to_owned());
        }
        lines
    }
}

/// Returns the command that continues the batch with this name, with more money if its limit is
/// spent.
pub(crate) fn resume_command(batch: &str, is_money_spent: bool) -> String {
    let more_money = if is_money_spent {
        " --max-cost-usd …"
    } else {
        ""
    };
    format!("massgen batch resume {batch}{more_money}")
}

/// Returns whether anything works on `batch`, no cell of which is running.
fn idle_activity(batch: &BatchDir) -> Result<BatchActivity> {
    let number = batch.last_submission()?;
    if number == 0 {
        return Ok(BatchActivity::Stopped);
    }
    let submission = batch.submission(number)?;
    // Jobs of a cancelled batch do not wait in a queue.
    let may_have_jobs = submission.head.engine != LOCAL && !batch.is_cancelled()?;
    Ok(match batch.control_liveness(&submission) {
        ProcessLiveness::Alive => BatchActivity::Active,
        ProcessLiveness::Dead if !may_have_jobs => BatchActivity::Stopped,
        ProcessLiveness::Unknown | ProcessLiveness::Dead => BatchActivity::Unknown,
    })
}

/// Returns a line with the reason for each of the newest unsuccessful cells, and one about the
/// others.
pub(crate) fn failure_lines(batch: &BatchDir, survey: &BatchSurvey) -> Vec<String> {
    let results = survey.results.iter().filter(|result| !result.is_success());
    let results = results.map(|result| CellFailure {
        id: &result.id,
        state: result.outcome.into(),
        at: &result.ended,
        reason: &result.reason,
    });
    let attempts = survey.begun.iter().filter_map(failure_of_attempt);
    let mut failures: Vec<CellFailure<'_>> = results.chain(attempts).collect();
    failures.sort_by(|one, other| other.at.cmp(one.at));
    let other_count = failures.len().saturating_sub(FAILURES_MAX);
    failures.truncate(FAILURES_MAX);
    let mut lines: Vec<String> = failures.iter().map(failure_line).collect();
    if other_count > 0 {
        let cells = count_noun(other_count, "more cell");
        let name = batch.name();
        lines.push(format!("and {cells}: massgen batch results {name} --json"));
    }
    lines
}

/// Returns the cell, its state and the reason on one line.
fn failure_line(failure: &CellFailure<'_>) -> String {
    let state = if failure.state == CellState::Completed {
        "completed, but its checks failed"
    } else {
        failure.state.label()
    };
    let reason = escape_line(&single_line(failure.reason, REASON_CHARS_MAX));
    format!("{}: {state}: {reason}", failure.id)
}

/// Returns the failure of a cell that waits after one. One that waits for money has not failed.
fn failure_of_attempt(cell: &BegunCell) -> Option<CellFailure<'_>> {
    let (at, reason) = match (cell.state, &cell.mark) {
        (CellState::Lost, Some(mark)) => (&mark.since, "its process is gone"),
        (CellState::Held, _) => (&cell.note.at, cell.note.reason.as_str()),
        _ => return None,
    };
    Some(CellFailure {
        id: &cell.id,
        state: cell.state,
        at,
        reason,
    })
}

/// Returns how many cells have no result and the states that they are in; `None` if every cell has
/// one.
pub(crate) fn open_cells_line(counts: &BatchCounts) -> Option<String> {
    let open_count = counts.open_count();
    (open_count > 0).then(|| {
        let (cells, states) = (count_noun(open_count, "cell"), counts.describe(true));
        format!("{cells} without a result: {states}")
    })
}
