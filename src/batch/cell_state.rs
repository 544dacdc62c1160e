//! The state of a cell: how it ended, or what it waits for; and the number of cells in each state.

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
    /// It was parked because the money of the batch was spent, and waits for more.
    OutOfMoney,
    /// It will be tried again after a fault.
    Faulty,
    /// No process has begun it, or the user asked for a new attempt.
    Waiting,
}

impl CellState {
    /// All states, those with a result first.
    pub const ALL: [CellState; 9] = [
        CellState::Completed,
        CellState::Partial,
        CellState::Failed,
        CellState::Running,
        CellState::Parked,
        CellState::Held,
        CellState::OutOfMoney,
        CellState::Faulty,
        CellState::Waiting,
    ];

    /// Returns the name of the state for people.
    pub fn label(self) -> &'static str {
        match self {
            CellState::Completed => "completed",
            CellState::Partial => "partial",
            CellState::Failed => "failed",
            CellState::Running => "running",
            CellState::Parked => "parked",
            CellState::Held => "held",
            CellState::OutOfMoney => "waiting for money",
            CellState::Faulty => "to be repeated",
            CellState::Waiting => "waiting",
        }
    }

    /// Returns the state of a cell whose last attempt ended with `end`.
    pub fn after(end: AttemptEnd) -> Self {
        match end {
            AttemptEnd::Parked => CellState::Parked,
            AttemptEnd::OutOfMoney => CellState::OutOfMoney,
            AttemptEnd::EndpointsFailed => CellState::Held,
            AttemptEnd::Repeated => CellState::Waiting,
            AttemptEnd::NodeFault | AttemptEnd::ProcessLost | AttemptEnd::Bug => CellState::Faulty,
        }
    }
}

impl From<CellOutcome> for CellState {
    fn from(outcome: CellOutcome) -> Self {
        match outcome {
            CellOutcome::Completed => CellState::Completed,
            CellOutcome::Partial => CellState::Partial,
            CellOutcome::Failed => CellState::Failed,
        }
    }
}

/// The number of cells in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchCounts {
    /// All cells.
    pub cells: usize,
    /// Cells whose task is done.
    pub completed: usize,
    /// Cells with an incomplete answer.
    pub partial: usize,
    /// Cells without a usable result.
    pub failed: usize,
    /// Cells that a process works on.
    pub running: usize,
    /// Cells that were parked and can be resumed.
    pub parked: usize,
    /// Cells that wait for endpoints.
    pub held: usize,
    /// Cells that wait for money.
    pub out_of_money: usize,
    /// Cells that will be tried again after a fault.
    pub faulty: usize,
    /// Cells that no process has begun, or for which the user asked for a new attempt.
    pub waiting: usize,
}

impl BatchCounts {
    /// Counts `cells` cells. `states` has the states of those that were started; the others wait.
    pub fn from_states(cells: usize, states: impl IntoIterator<Item = CellState>) -> Self {
        let mut counts = Self {
            cells,
            ..Self::default()
        };
        let mut started_count: usize = 0;
        for state in states {
            let count = counts.count_mut(state);
            *count = count.saturating_add(1);
            started_count = started_count.saturating_add(1);
        }
        counts.waiting = counts
            .waiting
            .saturating_add(cells.saturating_sub(started_count));
        counts
    }

    /// Returns the number of cells in `state`.
    pub fn count(mut self, state: CellState) -> usize {
        *self.count_mut(state)
    }

    /// Returns the number of cells with a result.
    pub fn finished_count(&self) -> usize {
        self.completed
            .saturating_add(self.partial)
            .saturating_add(self.failed)
    }

    fn count_mut(&mut self, state: CellState) -> &mut usize {
        match state {
            CellState::Completed => &mut self.completed,
            CellState::Partial => &mut self.partial,
            CellState::Failed => &mut self.failed,
            CellState::Running => &mut self.running,
            CellState::Parked => &mut self.parked,
            CellState::Held => &mut self.held,
            CellState::OutOfMoney => &mut self.out_of_money,
            CellState::Faulty => &mut self.faulty,
            CellState::Waiting => &mut self.waiting,
        }
    }
}
