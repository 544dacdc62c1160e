//! The state of all cells of a batch, read from two directory listings, the index of the results,
//! and the files of the cells that were begun and have no result.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::batch::cell_state::{BatchCounts, CellState};
use crate::batch::result::{CellOutcome, CellResult};
use crate::batch::task::CellId;
use crate::error::Result;
use crate::spending::money::Money;
use crate::world::store::batches::BatchDir;
use crate::world::store::batches::claims::{AttemptNote, ClaimOwner};
use crate::world::store::batches::result_index::{ListedResult, is_listed};
use crate::world::sys::state_files::dir;

/// What the counts of a batch need of a result.
pub trait CountedResult: DeserializeOwned + Send {
    /// Returns how the cell ended.
    fn outcome(&self) -> CellOutcome;

    /// Returns the known cost of all its attempts.
    fn cost(&self) -> Money;
}

impl CountedResult for CellResult {
    fn outcome(&self) -> CellOutcome {
        self.outcome
    }

    fn cost(&self) -> Money {
        self.cost_usd
    }
}

/// The part of a result that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct ResultTally {
    outcome: CellOutcome,
    cost_usd: Money,
}

impl CountedResult for ResultTally {
    fn outcome(&self) -> CellOutcome {
        self.outcome
    }

    fn cost(&self) -> Money {
        self.cost_usd
    }
}

/// A cell that was begun and has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunCell {
    /// The cell.
    pub id: CellId,
    /// The number of the last attempt at it, from 1.
    pub attempt: u32,
    /// Its state.
    pub state: CellState,
    /// Who works on it or did until it was lost, if the attempt has no end.
    pub owner: Option<ClaimOwner>,
    /// How the attempt ended, if it did.
    pub note: Option<AttemptNote>,
}

/// The state of all cells.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchSurvey<R> {
    /// The number of cells.
    pub cells: usize,
    /// Their results, sorted by the ids of the cells.
    pub results: Vec<R>,
    /// The other cells that were begun, sorted by id.
    pub begun: Vec<BegunCell>,
}

impl<R: CountedResult> BatchSurvey<R> {
    /// Counts the cells by their states.
    pub fn counts(&self) -> BatchCounts {
        let finished_states = self.results.iter().map(|result| result.outcome().into());
        let begun_states = self.begun.iter().map(|cell| cell.state);
        BatchCounts::from_states(self.cells, finished_states.chain(begun_states))
    }

    /// Returns what the finished cells cost.
    pub fn spent(&self) -> Money {
        let costs = self.results.iter().map(CountedResult::cost);
        costs.fold(Money::ZERO, Money::saturating_add)
    }
}

impl BatchDir {
    /// Reads all results, without those of their runs, sorted by the ids of their cells.
    pub fn results(&self) -> Result<Vec<CellResult>> {
        self.parse_results(&self.listed_results()?)
    }

    /// Reads the state of all `cells` cells.
    pub fn survey<R: CountedResult>(&self, cells: u32) -> Result<BatchSurvey<R>> {
        // Claims before results: a cell that ends meanwhile is not mistaken for a lost one.
        let claims = self.claim_names()?;
        let listed_results = self.listed_results()?;
        let this_process = ClaimOwner::this_process("", None);
        let begun_cells = last_attempts(&claims, &listed_results)
            .into_iter()
            .filter_map(|(cell, attempt)| {
                let id = CellId::parse(cell)?;
                Some(self.begun_cell(id, attempt, &this_process))
            })
            .collect::<Result<_>>()?;
        Ok(BatchSurvey {
            cells: usize::try_from(cells).unwrap_or(usize::MAX),
            results: self.parse_results(&listed_results)?,
            begun: begun_cells,
        })
    }

    /// Returns the state of a cell that was begun and had no result when these were listed.
    fn begun_cell(&self, id: CellId, attempt: u32, this_process: &ClaimOwner) -> Result<BegunCell> {
        let (mut note, mut owner) = (self.attempt_note(&id, attempt)?, None);
        let mut is_lost = false;
        if note.is_none() {
            owner = self.claim_owner(&id, attempt);
            is_lost = !self.is_owner_alive(owner.as_ref(), &id, attempt, this_process);
        }
        if is_lost {
            // It may have ended since: its note or its result is there before its claim is free.
            note = self.attempt_note(&id, attempt)?;
            is_lost = !self.has_result(&id)?;
        }
        let state = match &note {
            Some(note) => CellState::after(note.end),
            None if is_lost => CellState::Faulty,
            None => CellState::Running,
        };
        Ok(BegunCell {
            id,
            attempt,
            state,
            owner: owner.filter(|_| note.is_none()),
            note,
        })
    }

    /// Returns the names of all claims.
    pub(super) fn claim_names(&self) -> Result<Vec<String>> {
        dir::names_if_exists(&self.dir.join("claims"))
    }
}

/// Returns the number of the last attempt at each cell that has one in `claims` and no result in
/// `listed`.
pub(super) fn last_attempts<'c>(
    claims: &'c [String],
    listed: &[ListedResult],
) -> BTreeMap<&'c str, u32> {
    let mut attempts: BTreeMap<&str, u32> = BTreeMap::new();
    for name in claims {
        let parts = name.rsplit_once('.');
        let Some((cell, Ok(attempt))) = parts.map(|(cell, number)| (cell, number.parse::<u32>()))
        else {
            continue;
        };
        if !is_listed(listed, cell) {
            let last_attempt = attempts.entry(cell).or_default();
            *last_attempt = attempt.max(*last_attempt);
        }
    }
    attempts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::AbsPath;
    use crate::world::sys::state_files::dir::DirectoryAudience;
    use crate::world::sys::state_files::file;

    #[test]
    fn a_cell_that_gets_its_result_while_it_is_looked_at_is_not_lost() {
        let temporary = tempfile::tempdir().unwrap();
        let batch = BatchDir {
            dir: AbsPath::new(temporary.path()).unwrap(),
        };
        let id = CellId::parse("c").unwrap();
        let this_process = ClaimOwner::this_process("local", None);
        let state = || {
            let begun = batch.begun_cell(id.clone(), 1, &this_process);
            begun.unwrap().state
        };
        assert_eq!(state(), CellState::Faulty);
        let results = batch.dir.join("results");
        dir::create_all(&results, DirectoryAudience::User).unwrap();
        file::replace_unsynced(&results.join("c.jsonl"), b"").unwrap();
        assert_eq!(state(), CellState::Running);
    }
}
