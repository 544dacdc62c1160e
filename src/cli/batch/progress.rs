//! The progress of a batch: redrawn on a terminal, and a line at intervals elsewhere.

use std::time::Duration;

use crate::cli::output::CliOutput;
use crate::world::io::clock::Stopwatch;

/// The shortest interval between two lines where nothing can be redrawn.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Shows how many cells of a batch have a result.
#[derive(Debug)]
pub(super) struct BatchProgress {
    cell_count: usize,
    /// The numbers of finished cells and of running jobs at the last call.
    last_counts: Option<(usize, usize)>,
    /// The time since the last line.
    since_line: Stopwatch,
}

impl BatchProgress {
    /// Creates the progress of a batch of this many cells.
    pub(super) fn new(cell_count: usize) -> Self {
        Self {
            cell_count,
            last_counts: None,
            since_line: Stopwatch::start(),
        }
    }

    /// Shows that `finished_cells` cells have a result and `jobs` jobs are running.
    pub(super) fn show(&mut self, finished_cells: usize, jobs: usize, output: &mut CliOutput<'_>) {
        let counts = (finished_cells, jobs);
        if self.last_counts.replace(counts) == Some(counts) {
            return;
        }
        let text = format!(
            "{finished_cells} of {} cells, {jobs} running",
            self.cell_count
        );
        if output.has_terminal() {
            output.transient(&text);
        } else if self.since_line.elapsed() >= LINE_INTERVAL {
            self.since_line = Stopwatch::start();
            output.note(&text);
        }
    }
}
