//! Report on a batch for the user: its cells by state, its money, the running cells, the latest
//! failures, and the command that continues it.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::batch::cell_state::{BatchCounts, CellState};
use crate::batch::result::{CellOutcome, CellResult};
use crate::batch::task::CellId;
use crate::cli::args::batch::BatchEngine;
use crate::error::Result;
use crate::spending::money::Money;
use crate::text::{count_noun, escape_line, single_line, truncate};
use crate::world::store::batches::budget::BatchBudget;
use crate::world::store::batches::claims::OwnerLiveness;
use crate::world::store::batches::survey::{BatchSurvey, BegunCell, CountedResult, ResultTally};
use crate::world::store::batches::{BatchDir, BatchRecord};

/// Maximum number of running cells that are shown.
const RUNNING_CELLS_MAX: usize = 100;
/// Maximum number of failures that are shown.
const FAILURES_MAX: usize = 10;
/// Maximum length of the reason of a failure, in characters.
const REASON_CHARS_MAX: usize = 300;

/// The state of a batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BatchReport {
    /// Its name.
    pub(crate) batch: String,
    /// The name of its task file for the user.
    pub(crate) tasks: String,
    /// Its cells by state.
    pub(crate) counts: BatchCounts,
    /// What it may spend, if it has a limit.
    pub(crate) budget: Option<BatchBudget>,
    /// What its finished cells cost.
    pub(crate) spent: Money,
    /// How long the pause in progress lasts, and why.
    pub(crate) pause: Option<String>,
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

/// The cells to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchedCells {
    /// The running ones, the oldest first.
    pub(crate) running: Vec<RunningCell>,
    /// The latest failures, the newest first.
    pub(crate) failures: Vec<CellFailure>,
}

/// A cell that a process works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningCell {
    /// The cell.
    pub(crate) id: CellId,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
    /// The host of the process.
    pub(crate) host: String,
    /// When it began, as ISO 8601.
    pub(crate) since: String,
}

/// A cell that failed, has an incomplete answer, did not pass its checks, or waits after a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CellFailure {
    /// The cell.
    pub(crate) id: CellId,
    /// Its state.
    pub(crate) state: CellState,
    /// When it ended or began to wait, as ISO 8601; if that is not known, when its process began.
    pub(crate) at: String,
    /// Why, in one sentence.
    pub(crate) reason: String,
}

impl BatchReport {
    /// Reads the state of `batch`.
    pub(crate) fn read(batch: &BatchDir) -> Result<Self> {
        let record = batch.record()?;
        let survey = batch.survey::<ResultTally>(record.cells)?;
        Self::from_survey(batch, &record, &survey)
    }

    /// Builds the report of a batch whose cells were read.
    pub(crate) fn from_survey<R: CountedResult>(
        batch: &BatchDir,
        record: &BatchRecord,
        survey: &BatchSurvey<R>,
    ) -> Result<Self> {
        let pause = batch.active_pause()?.map(|pause| {
            let seconds = pause.remaining().as_secs();
            format!("pauses for {seconds} s: {}", pause.reason)
        });
        let counts = survey.counts();
        let is_finished = counts.finished_count() >= counts.cells;
        let activity = if is_finished || counts.running > 0 {
            BatchActivity::Active
        } else {
            idle_activity(batch)?
        };
        Ok(Self {
            batch: batch.name(),
            tasks: record.tasks_name.clone(),
            counts,
            budget: batch.budget()?,
            spent: survey.spent(),
            pause,
            is_cancelled: batch.is_cancelled()? && !is_finished,
            activity,
        })
    }

    /// Returns whether every cell has a result.
    pub(crate) fn is_finished(&self) -> bool {
        self.counts.finished_count() == self.counts.cells
    }

    /// Returns the money for scripts; `null` without a limit.
    pub(crate) fn money_json(&self) -> Value {
        self.budget.map_or(Value::Null, |budget| {
            json!({"limit_usd": budget.limit, "taken_usd": budget.taken, "spent_usd": self.spent})
        })
    }

    /// Returns the report for scripts.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "batch": self.batch,
            "cells": self.counts,
            "money": self.money_json(),
            "pause": self.pause,
            "is_cancelled": self.is_cancelled,
            "is_stopped": self.activity == BatchActivity::Stopped,
        })
    }

    /// Returns what helps if no process works on the batch; `None` while one does, or if every cell
    /// has a result.
    pub(crate) fn idle_hint(&self) -> Option<String> {
        let state = match self.activity {
            BatchActivity::Active => return None,
            BatchActivity::Unknown if self.pause.is_some() => return None,
            BatchActivity::Unknown => {
                "no cell is running; unless a queue or another host is about to begin one, \
                 continue with"
            }
            BatchActivity::Stopped => "no process works on the batch; continue with",
        };
        Some(format!("{state}: {}", self.resume_command()))
    }

    /// Returns the command that continues the batch.
    pub(crate) fn resume_command(&self) -> String {
        let is_spent = |budget: BatchBudget| budget.taken >= budget.limit;
        resume_command(&self.batch, self.budget.is_some_and(is_spent))
    }

    /// Returns the report in lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let cells = count_noun(self.counts.cells, "cell");
        let states = counts_line(&self.counts);
        let mut lines = vec![format!("{}: {cells}: {states}", self.batch)];
        if let Some(budget) = self.budget {
            lines.push(format!(
                "money: ${} spent by finished cells, ${} taken, of ${}",
                self.spent, budget.taken, budget.limit
            ));
        }
        lines.extend(self.pause.clone());
        if self.is_cancelled {
            lines.push("cancelled".to_owned());
        }
        lines
    }
}

impl WatchedCells {
    /// Selects the cells to watch from all of `batch`, and reads why they failed. A completed cell
    /// whose checks failed is not among them.
    pub(crate) fn select(batch: &BatchDir, survey: &BatchSurvey<CellResult>) -> Self {
        let running_cells = survey
            .begun
            .iter()
            .filter(|cell| cell.state == CellState::Running);
        let mut running: Vec<RunningCell> = running_cells
            .filter_map(|cell| {
                let owner = cell.owner.as_ref()?;
                Some(RunningCell {
                    id: cell.id.clone(),
                    attempt: cell.attempt,
                    host: owner.host.clone(),
                    since: owner.since.clone(),
                })
            })
            .collect();
        running.sort_by(|one, other| one.since.cmp(&other.since));
        running.truncate(RUNNING_CELLS_MAX);
        let results = survey
            .results
            .iter()
            .filter(|result| result.outcome != CellOutcome::Completed);
        let failures = newest_failures(batch, results, &survey.begun).failures;
        Self { running, failures }
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
    /// The part of the settings of a start that determines what starts the cells.
    #[derive(Deserialize)]
    struct StartEngine {
        on: BatchEngine,
    }
    // The settings are saved when it is started. Unreadable ones may be those of a queue.
    let has_queue = batch.settings().is_some_and(|text| {
        let settings = serde_json::from_slice::<StartEngine>(&text);
        !settings.is_ok_and(|start| start.on == BatchEngine::Local)
    });
    // Jobs of a cancelled batch do not wait in a queue.
    let may_have_jobs = has_queue && !batch.is_cancelled()?;
    Ok(match batch.controller_liveness()? {
        OwnerLiveness::Alive => BatchActivity::Active,
        OwnerLiveness::Dead if !may_have_jobs => BatchActivity::Stopped,
        OwnerLiveness::Unknown | OwnerLiveness::Dead => BatchActivity::Unknown,
    })
}

/// The latest failures of a batch.
struct NewestFailures {
    /// The newest failures, the newest first, with their reasons.
    failures: Vec<CellFailure>,
    /// The number of the others.
    other_count: usize,
}

/// Returns the newest failures of the cells of `batch` with these results and of those that were
/// begun.
fn newest_failures<'r>(
    batch: &BatchDir,
    results: impl Iterator<Item = &'r CellResult>,
    begun_cells: &[BegunCell],
) -> NewestFailures {
    let failed_results = results.map(|result| CellFailure {
        id: result.id.clone(),
        state: result.outcome.into(),
        at: result.ended.clone(),
        reason: String::new(),
    });
    let failed_attempts = begun_cells.iter().filter_map(failure_of_attempt);
    let mut failures: Vec<CellFailure> = failed_results.chain(failed_attempts).collect();
    failures.sort_by(|one, other| other.at.cmp(&one.at));
    let other_count = failures.len().saturating_sub(FAILURES_MAX);
    failures.truncate(FAILURES_MAX);
    for failure in &mut failures {
        // The reason of a result is in the result of its run.
        if failure.reason.is_empty() {
            failure.reason = result_summary(batch, &failure.id);
        }
        failure.reason = truncate(&failure.reason, REASON_CHARS_MAX);
    }
    NewestFailures {
        failures,
        other_count,
    }
}

/// Returns a line with the reason for each of the newest unsuccessful cells, and one about the
/// others.
pub(crate) fn failure_lines(batch: &BatchDir, survey: &BatchSurvey<CellResult>) -> Vec<String> {
    let results = survey.results.iter().filter(|result| !result.is_success());
    let NewestFailures {
        failures,
        other_count,
    } = newest_failures(batch, results, &survey.begun);
    let mut lines: Vec<String> = failures.iter().map(failure_line).collect();
    if other_count > 0 {
        let cells = count_noun(other_count, "more cell");
        let name = batch.name();
        lines.push(format!("and {cells}: massgen batch results {name} --json"));
    }
    lines
}

/// Returns the cell, its state and the reason on one line.
fn failure_line(failure: &CellFailure) -> String {
    let state = if failure.state == CellState::Completed {
        "completed, but its checks failed"
    } else {
        failure.state.label()
    };
    let reason = escape_line(&single_line(&failure.reason, REASON_CHARS_MAX));
    format!("{}: {state}: {reason}", failure.id)
}

/// Returns the failure of a cell that waits after one. One that waits for money has not failed.
fn failure_of_attempt(cell: &BegunCell) -> Option<CellFailure> {
    if !matches!(cell.state, CellState::Held | CellState::Faulty) {
        return None;
    }
    let note = cell.note.as_ref();
    let owner = cell.owner.as_ref();
    let default_reason = "its process is gone";
    Some(CellFailure {
        id: cell.id.clone(),
        state: cell.state,
        at: note
            .map(|note| note.at.clone())
            .or_else(|| owner.map(|owner| owner.since.clone()))
            .unwrap_or_default(),
        reason: note
            .map_or(default_reason, |note| note.reason.as_str())
            .to_owned(),
    })
}

/// Returns how the run of a finished cell ended, in one sentence.
fn result_summary(batch: &BatchDir, cell: &CellId) -> String {
    let result = batch.result(cell).ok().flatten();
    let run = result.map(|(_, run)| run);
    let summary = run.as_ref().and_then(|run| run.get("summary")?.as_str());
    summary.unwrap_or_default().to_owned()
}

/// Returns how many cells have no result and the states that they are in; `None` if every cell has
/// one.
pub(crate) fn open_cells_line(counts: &BatchCounts) -> Option<String> {
    let open_count = counts.cells.saturating_sub(counts.finished_count());
    let states = BatchCounts {
        completed: 0,
        partial: 0,
        failed: 0,
        ..*counts
    };
    (open_count > 0).then(|| {
        let (cells, states) = (count_noun(open_count, "cell"), counts_line(&states));
        format!("{cells} without a result: {states}")
    })
}

/// Returns the states that cells are in, such as `3 completed, 1 running`.
pub(crate) fn counts_line(counts: &BatchCounts) -> String {
    let states: Vec<String> = CellState::ALL
        .map(|state| (counts.count(state), state.label()))
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, state)| format!("{count} {state}"))
        .collect();
    states.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_without_a_result_are_counted_by_state() {
        let counts = BatchCounts {
            cells: 6,
            completed: 2,
            failed: 1,
            out_of_money: 2,
            waiting: 1,
            ..BatchCounts::default()
        };
        let line = open_cells_line(&counts);
        let expected = "3 cells without a result: 2 waiting for money, 1 waiting";
        assert_eq!(line.as_deref(), Some(expected));
        let finished = BatchCounts {
            cells: 3,
            out_of_money: 0,
            waiting: 0,
            ..counts
        };
        assert_eq!(open_cells_line(&finished), None);
    }
}
