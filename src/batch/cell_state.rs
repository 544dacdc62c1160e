//! The state of a cell: how it ended, or what it waits for; and the number of cells in each state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::batch::next_step::AttemptEnd;
use crate::batch::result::CellOutcome;

/// The state of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Its task is done.
    Completed,
    /// Its answer is incomplete.
    Partial,
    /// It has no usable result.
    Failed,
    /// A process works on it.
    Running,
    /// It was parked and can be resumed.
    Parked,
    /// It waits for endpoints that failed.
    Held,
    /// It was parked because the share of its job was spent, and waits for another one.
    OutOfMoney,
    /// Its process was lost; it will be tried again.
    Lost,
    /// No process has begun it, or the user asked for a new attempt.
    Waiting,
}

impl CellState {
    /// All states, those with a result first.
    const ALL: [Self; 9] = [
        Self::Completed,
        Self::Partial,
        Self::Failed,
        Self::Running,
        Self::Parked,
        Self::Held,
        Self::OutOfMoney,
        Self::Lost,
        Self::Waiting,
    ];

    /// Returns the name of the state for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Running => "running",
            Self::Parked => "parked",
            Self::Held => "held",
            Self::OutOfMoney => "waiting for money",
            Self::Lost => "to be repeated",
            Self::Waiting => "waiting",
        }
    }

    /// Returns whether a cell in this state has a result.
    fn is_finished(self) -> bool {
        self <= Self::Failed
    }
}

impl From<AttemptEnd> for CellState {
    fn from(end: AttemptEnd) -> Self {
        match end {
            AttemptEnd::Parked => Self::Parked,
            AttemptEnd::OutOfMoney => Self::OutOfMoney,
            AttemptEnd::EndpointsFailed => Self::Held,
        }
    }
}

impl From<CellOutcome> for CellState {
    fn from(outcome: CellOutcome) -> Self {
        match outcome {
            CellOutcome::Completed => Self::Completed,
            CellOutcome::Partial => Self::Partial,
            CellOutcome::Failed => Self::Failed,
        }
    }
}

/// The number of cells in each state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BatchCounts {
    /// All cells.
    pub cells: usize,
    #[serde(flatten)]
    by_state: BTreeMap<CellState, usize>,
}

impl BatchCounts {
    /// Counts `cells` cells. `states` has the states of those that were started; the others wait.
    pub fn from_states(cells: usize, states: impl IntoIterator<Item = CellState>) -> Self {
        let mut by_state = BTreeMap::from(CellState::ALL.map(|state| (state, 0_usize)));
        let mut waiting = cells;
        for state in states {
            let count = by_state.entry(state).or_default();
            *count = count.saturating_add(1);
            waiting = waiting.saturating_sub(1);
        }
        let count = by_state.entry(CellState::Waiting).or_default();
        *count = count.saturating_add(waiting);
        Self { cells, by_state }
    }

    /// Returns the number of cells in `state`.
    pub fn count(&self, state: CellState) -> usize {
        self.by_state.get(&state).copied().unwrap_or_default()
    }

    /// Returns the number of cells without a result.
    pub fn open_count(&self) -> usize {
        let open_states = self
            .by_state
            .iter()
            .filter(|(state, _)| !state.is_finished());
        open_states.map(|(_, count)| count).sum()
    }

    /// Returns the states that cells are in, such as `3 completed, 1 running`; without those of
    /// cells with a result if `is_open_only`.
    pub fn describe(&self, is_open_only: bool) -> String {
        let states = self.by_state.iter();
        let states = states.filter(|(state, _)| !(is_open_only && state.is_finished()));
        let states = states.filter(|(_, count)| **count > 0);
        let texts: Vec<String> = states
            .map(|(state, count)| format!("{count} {}", state.label()))
            .collect();
        texts.join(", ")
    }
}
