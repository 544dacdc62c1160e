//! When the process that starts the jobs of a batch adds their results to the index.

use crate::world::store::batches::BatchDir;
use crate::world::store::batches::result_index::missing_max;

/// Updates the index of a batch while its cells end.
#[derive(Debug)]
pub(super) struct IndexSchedule {
    batch: BatchDir,
    /// The number of results at the last update.
    indexed_results: usize,
}

impl IndexSchedule {
    /// Creates the schedule of `batch`.
    pub(super) fn new(batch: &BatchDir) -> Self {
        Self {
            batch: batch.clone(),
            indexed_results: 0,
        }
    }

    /// Updates the index if `finished_cells` are many more than at the last update.
    pub(super) fn update_if_due(&mut self, finished_cells: usize) {
        if finished_cells.saturating_sub(self.indexed_results) < missing_max(finished_cells) {
            return;
        }
        self.indexed_results = finished_cells;
        // A result that cannot be read is an error when the results are shown.
        drop(self.batch.update_index());
    }
}
