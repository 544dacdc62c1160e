//! The state of all cells of a batch, read from few directory listings.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _};
use std::num::NonZero;
use std::thread;

use serde::Serialize;

use crate::batch::next_step::AttemptEnd;
use crate::batch::result::{CellOutcome, CellResult};
use crate::batch::task::CellId;
use crate::error::{Error, Result};
use crate::world::store::batches::BatchDir;
use crate::world::store::batches::cells::RESULT_SUFFIX;
use crate::world::store::batches::claims::ClaimOwner;
use crate::world::sys::state_files::dir;
use crate::world::sys::state_files::file;

/// Maximum length of the first line of a result, in bytes.
const HEAD_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of threads that read results.
const READERS_MAX: usize = 8;
/// Minimum number of results for each thread.
const RESULTS_PER_READER: usize = 1000;

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
    /// Cells that wait for money or for endpoints.
    pub held: usize,
    /// Cells that will be tried again after a fault.
    pub faulty: usize,
    /// Cells that no process has begun.
    pub waiting: usize,
}

impl BatchCounts {
    /// Returns the number of cells with a result.
    pub fn finished(&self) -> usize {
        self.completed
            .saturating_add(self.partial)
            .saturating_add(self.failed)
    }
}

impl BatchDir {
    /// Reads all results, without those of their runs.
    pub fn results(&self) -> Result<Vec<CellResult>> {
        let mut names = dir::names_if_exists(&self.dir.join("results"))?;
        names.retain(|name| name.ends_with(RESULT_SUFFIX) && !name.starts_with('.'));
        names.sort_unstable();
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let readers = names.len().div_ceil(RESULTS_PER_READER);
        let readers = readers.clamp(1, cores.min(READERS_MAX));
        let share = names.len().div_ceil(readers).max(1);
        let read = |names: &[String]| -> Result<Vec<CellResult>> {
            names.iter().map(|name| self.read_head(name)).collect()
        };
        let parts = thread::scope(|scope| {
            let started: Vec<_> = names
                .chunks(share)
                .map(|names| scope.spawn(move || read(names)))
                .collect();
            let panicked = |_| Err(Error::bug("reading results failed unexpectedly"));
            let joined = started.into_iter();
            joined
                .map(|reader| reader.join().unwrap_or_else(panicked))
                .collect::<Result<Vec<_>>>()
        })?;
        Ok(parts.into_iter().flatten().collect())
    }

    /// Counts the cells with these ids by their states.
    pub fn counts(&self, ids: &[CellId], results: &[CellResult]) -> Result<BatchCounts> {
        let mut counts = BatchCounts {
            cells: ids.len(),
            ..BatchCounts::default()
        };
        let mut finished = BTreeSet::new();
        for result in results {
            finished.insert(result.id.as_str());
            count(match result.outcome {
                CellOutcome::Completed => &mut counts.completed,
                CellOutcome::Partial => &mut counts.partial,
                CellOutcome::Failed => &mut counts.failed,
            });
        }
        let attempts = self.last_attempts()?;
        let here = ClaimOwner::this_process("", None);
        for id in ids.iter().filter(|id| !finished.contains(id.as_str())) {
            let state = match attempts.get(id.as_str()) {
                None => &mut counts.waiting,
                Some(attempt) => match self.attempt_note(id, *attempt).map(|note| note.end) {
                    Some(AttemptEnd::Parked) => &mut counts.parked,
                    Some(AttemptEnd::OutOfMoney | AttemptEnd::EndpointsFailed) => &mut counts.held,
                    Some(AttemptEnd::Repeated) => &mut counts.waiting,
                    Some(AttemptEnd::NodeFault | AttemptEnd::ProcessLost | AttemptEnd::Bug) => {
                        &mut counts.faulty
                    }
                    None if self.is_attempt_alive(id, *attempt, &here) => &mut counts.running,
                    None => &mut counts.faulty,
                },
            };
            count(state);
        }
        Ok(counts)
    }

    /// Returns the number of the last attempt at each cell that has one.
    pub(super) fn last_attempts(&self) -> Result<BTreeMap<String, u32>> {
        let mut attempts: BTreeMap<String, u32> = BTreeMap::new();
        for name in dir::names_if_exists(&self.dir.join("claims"))? {
            let parts = name.rsplit_once('.');
            let Some((cell, Ok(attempt))) =
                parts.map(|(cell, number)| (cell, number.parse::<u32>()))
            else {
                continue;
            };
            let last = attempts.entry(cell.to_owned()).or_default();
            *last = attempt.max(*last);
        }
        Ok(attempts)
    }

    /// Returns the ids of the cells that have a result.
    pub(super) fn finished_ids(&self) -> Result<BTreeSet<String>> {
        let names = dir::names_if_exists(&self.dir.join("results"))?;
        let ids = names.iter().filter(|name| !name.starts_with('.'));
        let ids = ids.filter_map(|name| name.strip_suffix(RESULT_SUFFIX));
        Ok(ids.map(str::to_owned).collect())
    }

    fn read_head(&self, name: &str) -> Result<CellResult> {
        let path = self.dir.join("results").join(name);
        let damaged = || {
            Error::new(
                crate::error::ErrorKind::Environment,
                format!("`{path}` is damaged"),
            )
        };
        let read = || {
            let mut line = String::new();
            let mut reader = BufReader::new(file::open(&path)?.take(HEAD_BYTES_MAX));
            reader.read_line(&mut line)?;
            Ok(line)
        };
        let line = read().map_err(|error: std::io::Error| damaged().with_source(error))?;
        serde_json::from_str(&line).map_err(|error| damaged().with_source(error))
    }
}

fn count(number: &mut usize) {
    *number = number.saturating_add(1);
}
