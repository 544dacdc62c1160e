//! The state of all cells of a batch, read from two directory listings, the results, and the files of
//! the cells that were begun and have no result.

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::cell_state::{BatchCounts, CellState};
use crate::batch::result::CellResult;
use crate::batch::task::CellId;
use crate::error::Result;
use crate::spending::money::Money;
use crate::world::store::batches::BatchDir;
use crate::world::store::batches::attempts::{
    AttemptNote, ProcessLiveness, ProcessMark, parse_attempt_name,
};
use crate::world::sys::state_files::dir;

/// A cell that was begun and has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunCell {
    /// The cell.
    pub id: CellId,
    /// The number of the last attempt at it, from 1.
    pub attempt: u32,
    /// Its state.
    pub state: CellState,
    /// Whose attempt it is, if its file can be read.
    pub mark: Option<ProcessMark>,
    /// What the attempt has spent so far, and how it ended.
    pub note: AttemptNote,
}

/// The state of all cells.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchSurvey {
    /// The number of cells.
    pub cells: usize,
    /// Their results, sorted by the ids of the cells.
    pub results: Vec<CellResult>,
    /// The other cells that were begun, sorted by id.
    pub begun: Vec<BegunCell>,
    /// What all attempts have spent.
    pub spent: Money,
}

impl BatchSurvey {
    /// Counts the cells by their states.
    pub fn counts(&self) -> BatchCounts {
        let finished_states = self.results.iter().map(|result| result.outcome.into());
        let begun_states = self.begun.iter().map(|cell| cell.state);
        BatchCounts::from_states(self.cells, finished_states.chain(begun_states))
    }
}

impl BatchDir {
    /// Reads all results, without those of their runs, sorted by the ids of their cells.
    pub fn results(&self) -> Result<Vec<CellResult>> {
        self.read_results(&self.finished_cells()?)
    }

    /// Reads the state of all `cells` cells.
    pub fn survey(&self, cells: u32) -> Result<BatchSurvey> {
        // Attempts before results: a cell that ends meanwhile is not mistaken for a lost one.
        let names = dir::names_if_exists(&self.dir.join("attempts"))?;
        let finished_cells = self.finished_cells()?;
        let begun_cells = last_attempts(&names, &finished_cells)
            .into_iter()
            .filter_map(|(cell, attempt)| Some(self.begun_cell(CellId::parse(cell)?, attempt)))
            .collect::<Result<_>>()?;
        Ok(BatchSurvey {
            cells: usize::try_from(cells).unwrap_or(usize::MAX),
            results: self.read_results(&finished_cells)?,
            begun: begun_cells,
            spent: self.spent()?,
        })
    }

    /// Returns the state of a cell that was begun and had no result when these were listed.
    fn begun_cell(&self, id: CellId, attempt: u32) -> Result<BegunCell> {
        // The process first: its note or its result is there before its lock is free.
        let liveness = self.attempt_liveness(&id, attempt);
        let note = self.attempt_note(&id, attempt)?.unwrap_or_default();
        let state = match note.end {
            Some(end) => end.into(),
            None if liveness == ProcessLiveness::Dead && !self.has_result(&id)? => CellState::Lost,
            None => CellState::Running,
        };
        Ok(BegunCell {
            mark: self.attempt_mark(&id, attempt),
            id,
            attempt,
            state,
            note,
        })
    }
}

/// Returns the number of the last attempt at each cell that has one in `attempts` and no result in
/// `finished`.
fn last_attempts<'a>(
    attempts: &'a [String],
    finished: &BTreeSet<String>,
) -> BTreeMap<&'a str, u32> {
    let mut last_attempts: BTreeMap<&str, u32> = BTreeMap::new();
    for (cell, attempt) in attempts.iter().filter_map(|name| parse_attempt_name(name)) {
        if !finished.contains(cell) {
            let last_attempt = last_attempts.entry(cell).or_default();
            *last_attempt = attempt.max(*last_attempt);
        }
    }
    last_attempts
}
