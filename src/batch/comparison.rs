//! Compares the results of two batches: shares of successes, cost and time, each with a confidence
//! interval of 95 %. Differences are those of the tasks that both batches have, pair by pair.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::batch::result::CellResult;
use crate::batch::task::CellId;

/// The quantile of the normal distribution for intervals of 95 %.
const Z: f64 = 1.959_964;

/// A value with its confidence interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConfidenceInterval {
    /// The value that was measured.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl ConfidenceInterval {
    /// Returns whether the interval is on one side of zero.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The numbers of one batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchSummary {
    /// Its name.
    pub batch: String,
    /// Cells with a result.
    pub cells: usize,
    /// The share of successes (Wilson's interval).
    pub success_share: ConfidenceInterval,
    /// The mean cost of a cell in US dollars.
    pub cost_usd: ConfidenceInterval,
    /// The mean duration of a cell in seconds.
    pub seconds: ConfidenceInterval,
}

/// Two batches side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchComparison {
    /// The first batch.
    pub first: BatchSummary,
    /// The second one.
    pub second: BatchSummary,
    /// The number of tasks with a result in both.
    pub pairs: usize,
    /// Of these, those that only the first one solved.
    pub only_first: usize,
    /// Of these, those that only the second one solved.
    pub only_second: usize,
    /// The second share of successes minus the first, over the pairs (Agresti and Min's interval
    /// for paired shares).
    pub success_difference: ConfidenceInterval,
    /// The second cost minus the first, in US dollars for a cell, over the pairs.
    pub cost_difference: ConfidenceInterval,
    /// The second duration minus the first, in seconds for a cell, over the pairs.
    pub seconds_difference: ConfidenceInterval,
    /// The additional cost for each additional success, in US dollars; `None` unless the second
    /// batch costs more and solves more.
    pub cost_per_additional_success: Option<f64>,
}

/// The results of one batch, by task.
pub type ResultsByCell = BTreeMap<CellId, CellResult>;

/// A batch with its results.
#[derive(Clone, Copy, Debug)]
pub struct NamedResults<'a> {
    /// The name of the batch.
    pub name: &'a str,
    /// Its results.
    pub results: &'a ResultsByCell,
}

/// Compares the results of two batches.
pub fn compare(first: NamedResults<'_>, second: NamedResults<'_>) -> BatchComparison {
    let pairs: Vec<(&CellResult, &CellResult)> = first
        .results
        .iter()
        .filter_map(|(id, one)| Some((one, second.results.get(id)?)))
        .collect();
    let only_first = pairs
        .iter()
        .filter(|(one, two)| one.is_success() && !two.is_success())
        .count();
    let only_second = pairs
        .iter()
        .filter(|(one, two)| two.is_success() && !one.is_success())
        .count();
    let difference = |value: fn(&CellResult) -> f64| {
        let differences = pairs.iter().map(|(one, two)| value(two) - value(one));
        mean(&differences.collect::<Vec<f64>>())
    };
    let cost_difference = difference(cost);
    let success_difference = paired_share_difference(only_first, only_second, pairs.len());
    let additional_successes = as_f64(only_second) - as_f64(only_first);
    let additional_cost = cost_difference.estimate * as_f64(pairs.len());
    BatchComparison {
        first: summary(first),
        second: summary(second),
        pairs: pairs.len(),
        only_first,
        only_second,
        success_difference,
        cost_difference,
        seconds_difference: difference(seconds),
        cost_per_additional_success: (additional_successes > 0.0 && additional_cost > 0.0)
            .then(|| additional_cost / additional_successes),
    }
}

fn summary(batch: NamedResults<'_>) -> BatchSummary {
    let NamedResults { name, results } = batch;
    let values = |value: fn(&CellResult) -> f64| results.values().map(value).collect::<Vec<f64>>();
    let successes = results.values().filter(|result| result.is_success());
    BatchSummary {
        batch: name.to_owned(),
        cells: results.len(),
        success_share: share(successes.count(), results.len()),
        cost_usd: mean(&values(cost)),
        seconds: mean(&values(seconds)),
    }
}

fn cost(result: &CellResult) -> f64 {
    result.cost_usd.to_string().parse().unwrap_or_default()
}

fn seconds(result: &CellResult) -> f64 {
    u32::try_from(result.duration_ms).map_or(f64::from(u32::MAX), f64::from) / 1000.0
}

fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

/// Returns the share of `successes` among `cells`, with Wilson's interval.
fn share(successes: usize, cells: usize) -> ConfidenceInterval {
    if cells == 0 {
        return ConfidenceInterval {
            estimate: 0.0,
            low: 0.0,
            high: 1.0,
        };
    }
    let n = as_f64(cells);
    let p = as_f64(successes) / n;
    let centre = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    ConfidenceInterval {
        estimate: p,
        low: (centre - half).max(0.0),
        high: (centre + half).min(1.0),
    }
}

/// Returns the difference of two paired shares. Half a pair is added to each of the four kinds of
/// pairs, without which the interval would be too narrow if there are few pairs.
fn paired_share_difference(
    only_first: usize,
    only_second: usize,
    pairs: usize,
) -> ConfidenceInterval {
    if pairs == 0 {
        return ConfidenceInterval {
            estimate: 0.0,
            low: -1.0,
            high: 1.0,
        };
    }
    let (b, c) = (as_f64(only_second) + 0.5, as_f64(only_first) + 0.5);
    let n = as_f64(pairs) + 2.0;
    let centre = (b - c) / n;
    let half = Z * (b + c - (b - c) * (b - c) / n).max(0.0).sqrt() / n;
    ConfidenceInterval {
        estimate: (as_f64(only_second) - as_f64(only_first)) / as_f64(pairs),
        low: (centre - half).max(-1.0),
        high: (centre + half).min(1.0),
    }
}

/// Returns the mean of `values` with the normal interval, which has no width for fewer than two
/// values.
fn mean(values: &[f64]) -> ConfidenceInterval {
    let n = as_f64(values.len()).max(1.0);
    let estimate = values.iter().sum::<f64>() / n;
    let squares: f64 = values
        .iter()
        .map(|value| (value - estimate) * (value - estimate))
        .sum();
    let half = if values.len() < 2 {
        0.0
    } else {
        Z * (squares / (n - 1.0) / n).sqrt()
    };
    ConfidenceInterval {
        estimate,
        low: estimate - half,
        high: estimate + half,
    }
}
