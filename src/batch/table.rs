//! The table of a batch: its results in all, and by tag.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::batch::result::{CellOutcome, CellResult};
use crate::spending::money::Money;

/// The name of the row of all cells.
const ALL: &str = "all";
/// The shares of cells, in percent, whose durations are shown.
const MEDIAN_PERCENT: usize = 50;
const SLOW_PERCENT: usize = 95;

/// The results of the cells with one tag.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TagRow {
    /// The tag, or `all`.
    pub tag: String,
    /// Cells with a result.
    pub cells: usize,
    /// Cells that succeeded, by [`CellResult::is_success`].
    pub successes: usize,
    /// Cells that completed.
    pub completed: usize,
    /// Cells with an incomplete answer.
    pub partial: usize,
    /// Cells without a usable result.
    pub failed: usize,
    /// Their known cost in US dollars.
    pub cost_usd: Money,
    /// Whether that includes every request.
    pub cost_is_complete: bool,
    /// The median of their durations in milliseconds.
    pub p50_ms: u64,
    /// The duration that 95 % do not exceed, in milliseconds.
    pub p95_ms: u64,
    /// How often each agent won.
    pub winners: BTreeMap<String, usize>,
}

/// Returns a row of all results, and one for each tag.
pub fn tag_rows<'r>(results: impl IntoIterator<Item = &'r CellResult>) -> Vec<TagRow> {
    let mut total = RowBuilder::default();
    let mut tags: BTreeMap<&str, RowBuilder> = BTreeMap::new();
    for result in results {
        total.add(result);
        for tag in &result.tags {
            tags.entry(tag).or_default().add(result);
        }
    }
    let rows = tags.into_iter().map(|(tag, row)| row.build(tag));
    std::iter::once(total.build(ALL)).chain(rows).collect()
}

/// The sums of one row.
#[derive(Debug)]
struct RowBuilder {
    successes: usize,
    outcomes: BTreeMap<CellOutcome, usize>,
    cost_usd: Money,
    cost_is_complete: bool,
    durations_ms: Vec<u64>,
    winners: BTreeMap<String, usize>,
}

impl Default for RowBuilder {
    fn default() -> Self {
        Self {
            successes: 0,
            outcomes: BTreeMap::new(),
            cost_usd: Money::ZERO,
            cost_is_complete: true,
            durations_ms: Vec::new(),
            winners: BTreeMap::new(),
        }
    }
}

impl RowBuilder {
    fn add(&mut self, result: &CellResult) {
        self.successes = self
            .successes
            .saturating_add(usize::from(result.is_success()));
        count(self.outcomes.entry(result.outcome).or_default());
        self.cost_usd = self.cost_usd.saturating_add(result.cost_usd);
        self.cost_is_complete &= result.cost_is_complete;
        self.durations_ms.push(result.duration_ms);
        if let Some(winner) = &result.winner {
            count(self.winners.entry(winner.clone()).or_default());
        }
    }

    fn build(mut self, tag: &str) -> TagRow {
        self.durations_ms.sort_unstable();
        let number = |outcome| self.outcomes.get(&outcome).copied().unwrap_or_default();
        TagRow {
            tag: tag.to_owned(),
            cells: self.durations_ms.len(),
            successes: self.successes,
            completed: number(CellOutcome::Completed),
            partial: number(CellOutcome::Partial),
            failed: number(CellOutcome::Failed),
            cost_usd: self.cost_usd,
            cost_is_complete: self.cost_is_complete,
            p50_ms: percentile(&self.durations_ms, MEDIAN_PERCENT),
            p95_ms: percentile(&self.durations_ms, SLOW_PERCENT),
            winners: self.winners,
        }
    }
}

fn count(number: &mut usize) {
    *number = number.saturating_add(1);
}

/// Returns the smallest of the `sorted` values that at least `percent` of them do not exceed; 0 if
/// there are none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}
