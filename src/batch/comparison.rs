//! Compares batches of the same tasks: how much their teams solve, what several candidates and
//! their selection gain, and what that costs, each with an interval.
//!
//! Shares of tasks with one outcome each have Wilson's interval; all other figures are
//! bootstrapped over the tasks. Intervals cover 95 %.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use serde::Serialize;

use crate::batch::task::CellId;
use crate::check_results::ChecksOutcome;
use crate::run_view::candidates::{CandidateReport, RunCandidate};
use crate::spending::money::Money;
use crate::text::count_noun;

/// Number of samples of a bootstrap.
const SAMPLES: usize = 2_000;
/// The seed of the samples: the same results give the same intervals.
const SEED: u64 = 1;
/// The quantile of the normal distribution that belongs to 95 %.
const NORMAL_QUANTILE: f64 = 1.96;
/// Fewer tasks in common than these tell nothing.
const TASKS_MIN: usize = 10;
/// The least gain of a perfect choice of which a selection can have a part.
pub const GAIN_MIN: f64 = 0.05;
/// The largest number of candidates of the curve.
const CURVE_MAX: usize = 8;

const PICODOLLARS_PER_DOLLAR: f64 = 1e12;

/// A task with a result, and the candidates of its run.
#[derive(Clone, Debug)]
pub struct ComparedCell {
    /// The task.
    pub id: CellId,
    /// Whether it was solved, unless it was judged.
    pub is_success: bool,
    /// The candidates of its run, and what their selection cost.
    pub worth: CandidateReport,
    /// The known cost.
    pub cost: Money,
    /// Whether that includes every request.
    pub cost_is_complete: bool,
    /// All tokens of its run.
    pub tokens: u64,
    /// How long its run worked, in milliseconds.
    pub duration_ms: u64,
}

/// A figure with the interval in which it lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// What a batch shows of its team.
#[derive(Clone, Debug, Serialize)]
pub struct BatchFigures {
    /// The name of the batch.
    pub batch: String,
    /// The config of its team.
    pub team: String,
    /// Tasks with a result.
    pub tasks: usize,
    /// The tasks that were not judged although others were; they are left out.
    pub unjudged: Vec<CellId>,
    /// The share of tasks that are solved by what was delivered (selected@N).
    pub selected: Option<Estimate>,
    /// The share of the candidates of each model that are good (pass@1), over the tasks.
    pub pass_at_1: BTreeMap<String, Estimate>,
    /// The share of tasks of which any candidate is good (best@N).
    pub best: Option<Estimate>,
    /// The share of tasks that the votes alone would have solved.
    pub votes_alone: Option<Estimate>,
    /// The share that any candidate that passes the checks would have solved; it differs from
    /// `best` only if candidates are judged.
    pub checks_alone: Option<Estimate>,
    /// (selected − pass@1) / (best − pass@1); `None` if a perfect choice would gain less than
    /// five points.
    pub selection_efficiency: Option<Estimate>,
    /// Cost of a task in US dollars.
    pub cost_usd: Option<Estimate>,
    /// Whether the cost of every request is known.
    pub cost_is_complete: bool,
    /// Cost of a solved task in US dollars.
    pub cost_usd_of_success: Option<Estimate>,
    /// Tokens of a solved task.
    pub tokens_of_success: Option<Estimate>,
    /// Minutes of a solved task.
    pub minutes_of_success: Option<Estimate>,
    /// The share of the tokens that votes and comparisons used.
    pub selection_share: Option<f64>,
    /// The share of the tokens that the final presentation used.
    pub presentation_share: Option<f64>,
    /// What fewer candidates would have solved, and with how many tokens.
    pub curve: Vec<CurvePoint>,
}

/// What a number of candidates would have solved, over all choices of as many of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The number of candidates.
    pub candidates: usize,
    /// The share of tasks if one is taken that passes the checks, or any if none does.
    pub checked: f64,
    /// The share of tasks if a good one is always found.
    pub best: f64,
    /// The tokens of the candidates of a task.
    pub tokens: f64,
}

/// What two batches show of each other.
#[derive(Clone, Debug, Serialize)]
pub struct BatchDifference {
    /// The team of the first batch.
    pub first: String,
    /// The team of the second one.
    pub second: String,
    /// The number of tasks in common.
    pub tasks: usize,
    /// The share of tasks that the second one solves, less that of the first one.
    pub solved: Option<Estimate>,
    /// The cost of a task with the second one, less that with the first one.
    pub cost_usd: Option<Estimate>,
    /// The tasks that only the first one solves.
    pub only_first: Vec<CellId>,
    /// The tasks that only the second one solves.
    pub only_second: Vec<CellId>,
    /// What follows, in sentences.
    pub sentences: Vec<String>,
}

/// A batch with its cells.
#[derive(Clone, Debug)]
pub struct ComparedBatch {
    /// The name of the batch.
    pub batch: String,
    /// The config of its team.
    pub team: String,
    /// Its cells that have a result; if any is judged, those that are.
    cells: Vec<ComparedCell>,
    /// The others.
    unjudged: Vec<CellId>,
}

impl ComparedCell {
    /// Returns whether the task was solved: as it was judged, or as the checks ended.
    fn is_solved(&self) -> bool {
        let judged = self.worth.judged;
        judged.unwrap_or(self.is_success)
    }

    /// Returns 1 for a solved task, and 0 for another.
    fn solved(&self) -> f64 {
        f64::from(u8::from(self.is_solved()))
    }

    fn dollars(&self) -> f64 {
        float(self.cost.picodollars()) / PICODOLLARS_PER_DOLLAR
    }

    /// Returns the candidates of which it is known whether they are good.
    fn known(&self) -> impl Iterator<Item = (&RunCandidate, f64)> {
        let candidates = self.worth.candidates.iter();
        candidates.filter_map(|candidate| {
            let is_good = candidate.is_good()?;
            Some((candidate, f64::from(u8::from(is_good))))
        })
    }

    /// Returns the share of good ones among the candidates for which `is_chosen` holds.
    fn goodness(&self, is_chosen: impl Fn(&RunCandidate) -> bool) -> Option<f64> {
        let chosen = self.known().filter(|(candidate, _)| is_chosen(candidate));
        mean(chosen.map(|(_, goodness)| goodness))
    }

    fn best(&self) -> Option<f64> {
        self.known().map(|(_, goodness)| goodness).reduce(f64::max)
    }

    fn votes_alone(&self) -> Option<f64> {
        let chosen = self.worth.choice_of_votes()?.label;
        self.goodness(|candidate| candidate.label == chosen)
    }

    fn checks_alone(&self) -> Option<f64> {
        let passes = |candidate: &RunCandidate| candidate.checks == ChecksOutcome::Passed;
        self.goodness(passes).or_else(|| self.goodness(|_| true))
    }

    /// Returns what `count` of the candidates would have solved, over all choices of as many: if
    /// one that passes is taken, and if a good one is always found.
    fn solved_by(&self, count: usize) -> Option<(f64, f64)> {
        let known: Vec<(&RunCandidate, f64)> = self.known().collect();
        let passing = known
            .iter()
            .filter(|(candidate, _)| candidate.checks == ChecksOutcome::Passed);
        let good = known.iter().filter(|(_, goodness)| *goodness > 0.0);
        let (all, passing, good) = (known.len(), passing.count(), good.count());
        if all < count {
            return None;
        }
        let none_passes = share_without(all, passing, count);
        let fails = |candidate: &RunCandidate| candidate.checks != ChecksOutcome::Passed;
        let from_failing = self.goodness(fails).unwrap_or(0.0);
        let from_passing = self.goodness(|candidate| !fails(candidate)).unwrap_or(0.0);
        let checked = none_passes * from_failing + (1.0 - none_passes) * from_passing;
        Some((checked, 1.0 - share_without(all, good, count)))
    }
}

impl ComparedBatch {
    /// Creates a batch with these cells that have a result.
    pub fn new(batch: String, team: String, cells: Vec<ComparedCell>) -> Self {
        let is_judged = |cell: &ComparedCell| cell.worth.judged.is_some();
        let has_judge = cells.iter().any(is_judged);
        let (cells, others): (Vec<_>, Vec<_>) = cells
            .into_iter()
            .partition(|cell| is_judged(cell) || !has_judge);
        Self {
            batch,
            team,
            cells,
            unjudged: others.into_iter().map(|cell| cell.id).collect(),
        }
    }

    /// Returns what the batch shows of its team.
    pub fn figures(&self) -> BatchFigures {
        let cells = &self.cells;
        let minutes = |cell: &ComparedCell| float(cell.duration_ms) / 60_000.0;
        let tokens = |cell: &ComparedCell| float(cell.tokens);
        let per_success = |amount: &dyn Fn(&ComparedCell) -> f64| {
            bootstrap(cells, |sample| {
                let solved = sample.iter().map(|cell| cell.solved()).sum();
                ratio(sample.iter().map(|cell| amount(cell)).sum(), solved)
            })
        };
        let share_of_tokens = |part: &dyn Fn(&CandidateReport) -> u64| {
            let part: f64 = cells.iter().map(|cell| float(part(&cell.worth))).sum();
            ratio(part, cells.iter().map(tokens).sum())
        };
        let models: BTreeSet<&str> = cells
            .iter()
            .flat_map(ComparedCell::known)
            .filter_map(|(candidate, _)| candidate.model.as_deref())
            .collect();
        let pass_at_1 = models.into_iter().filter_map(|model| {
            let is_of_model = |candidate: &RunCandidate| candidate.model.as_deref() == Some(model);
            let estimate = estimate_mean(cells, |cell| cell.goodness(is_of_model))?;
            Some((model.to_owned(), estimate))
        });
        let has_cost = cells.iter().any(|cell| cell.cost > Money::ZERO);
        let with_cost = |estimate: Option<Estimate>| estimate.filter(|_| has_cost);
        BatchFigures {
            batch: self.batch.clone(),
            team: self.team.clone(),
            tasks: cells.len(),
            unjudged: self.unjudged.clone(),
            selected: estimate_mean(cells, |cell| Some(cell.solved())),
            pass_at_1: pass_at_1.collect(),
            best: estimate_mean(cells, ComparedCell::best),
            votes_alone: estimate_mean(cells, ComparedCell::votes_alone),
            checks_alone: estimate_mean(cells, ComparedCell::checks_alone),
            selection_efficiency: bootstrap(cells, selection_efficiency),
            cost_usd: with_cost(bootstrap(cells, |sample| {
                mean(sample.iter().map(|cell| cell.dollars()))
            })),
            cost_is_complete: cells.iter().all(|cell| cell.cost_is_complete),
            cost_usd_of_success: with_cost(per_success(&ComparedCell::dollars)),
            tokens_of_success: per_success(&tokens),
            minutes_of_success: per_success(&minutes),
            selection_share: share_of_tokens(&|worth| worth.selection.usage.total_tokens()),
            presentation_share: share_of_tokens(&|worth| worth.presentation.usage.total_tokens()),
            curve: (1..=CURVE_MAX)
                .map_while(|count| curve_point(cells, count))
                .collect(),
        }
    }

    /// Returns what the tasks that both batches have show of `self` and `second`.
    pub fn difference(&self, second: &Self) -> BatchDifference {
        let others: BTreeMap<&CellId, &ComparedCell> =
            second.cells.iter().map(|cell| (&cell.id, cell)).collect();
        let pairs: Vec<(&ComparedCell, &ComparedCell)> = self
            .cells
            .iter()
            .filter_map(|cell| Some((cell, *others.get(&cell.id)?)))
            .collect();
        let only = |first: bool| {
            let differing = pairs
                .iter()
                .filter(|(one, other)| one.is_solved() == first && other.is_solved() != first);
            differing.map(|(one, _)| one.id.clone()).collect::<Vec<_>>()
        };
        let difference_of = |amount: &dyn Fn(&ComparedCell) -> f64| {
            bootstrap(&pairs, |sample| {
                mean(
                    sample
                        .iter()
                        .map(|(one, other)| amount(other) - amount(one)),
                )
            })
        };
        let has_cost = pairs
            .iter()
            .any(|(one, other)| one.cost > Money::ZERO || other.cost > Money::ZERO);
        let mut difference = BatchDifference {
            first: self.team.clone(),
            second: second.team.clone(),
            tasks: pairs.len(),
            solved: difference_of(&ComparedCell::solved),
            cost_usd: difference_of(&ComparedCell::dollars).filter(|_| has_cost),
            only_first: only(true),
            only_second: only(false),
            sentences: Vec::new(),
        };
        difference.sentences = difference.describe();
        difference
    }
}

impl BatchDifference {
    fn describe(&self) -> Vec<String> {
        let Some(solved) = &self.solved else {
            return vec![format!(
                "{} and {} have no task in common",
                self.first, self.second
            )];
        };
        let (first, second, tasks) = (&self.first, &self.second, self.tasks);
        let points = |value: f64| format!("{:+.0}", value * 100.0);
        let interval = format!(
            "{} points [{}, {}] on {tasks} tasks in common",
            points(solved.value),
            points(solved.low),
            points(solved.high)
        );
        let mut sentences = Vec::new();
        sentences.push(if tasks < TASKS_MIN {
            let tasks = count_noun(tasks, "task");
            format!("the data do not tell which is better: {tasks} in common, which is too few")
        } else if solved.low > 0.0 {
            format!("{second} is better than {first}: {interval}")
        } else if solved.high < 0.0 {
            format!("{second} is worse than {first}: {interval}")
        } else {
            let half = (solved.high - solved.low) * 50.0;
            format!(
                "the data do not tell which is better: {second} has {interval}; so many tasks show \
                 only a difference of more than about {half:.0} points"
            )
        });
        if let Some(cost) = &self.cost_usd {
            let dollars = |value: f64| {
                let sign = if value < 0.0 { "-" } else { "+" };
                format!("{sign}${:.4}", value.abs())
            };
            sentences.push(format!(
                "a task costs {} [{}, {}] with {second} compared with {first}",
                dollars(cost.value),
                dollars(cost.low),
                dollars(cost.high)
            ));
        }
        sentences
    }
}

/// Returns (selected − pass@1) / (best − pass@1) of the cells whose candidates are known.
fn selection_efficiency(cells: &[&ComparedCell]) -> Option<f64> {
    let known = || cells.iter().filter(|cell| cell.best().is_some());
    let solved = mean(known().map(|cell| cell.solved()))?;
    let one = mean(known().filter_map(|cell| cell.goodness(|_| true)))?;
    let best = mean(known().filter_map(|cell| cell.best()))?;
    (best - one >= GAIN_MIN).then(|| (solved - one) / (best - one))
}

/// Returns the point of the curve for `count` candidates; `None` unless every task has as many, and
/// there are several.
fn curve_point(cells: &[ComparedCell], count: usize) -> Option<CurvePoint> {
    let solved: Option<Vec<(f64, f64)>> = cells.iter().map(|cell| cell.solved_by(count)).collect();
    let solved = solved?;
    let tokens_of = |cell: &ComparedCell| {
        let candidates = cell.worth.candidates.iter();
        mean(candidates.map(|candidate| float(candidate.used.usage.total_tokens())))
    };
    Some(CurvePoint {
        candidates: count,
        checked: mean(solved.iter().map(|(checked, _)| *checked))?,
        best: mean(solved.iter().map(|(_, best)| *best))?,
        tokens: mean(cells.iter().filter_map(tokens_of))? * float_of(count),
    })
}

/// Returns the share of the choices of `count` out of `all` that have none of `marked` ones.
fn share_without(all: usize, marked: usize, count: usize) -> f64 {
    (0..count)
        .map(|drawn| {
            let left = all.saturating_sub(drawn);
            float_of(left.saturating_sub(marked)) / float_of(left)
        })
        .product()
}

/// Estimates the mean of `value` over the cells that have one.
fn estimate_mean(
    cells: &[ComparedCell],
    value: impl Fn(&ComparedCell) -> Option<f64>,
) -> Option<Estimate> {
    let values: Vec<f64> = cells.iter().filter_map(value).collect();
    if values.iter().all(|value| is_outcome(*value)) {
        return wilson(&values);
    }
    bootstrap(&values, |sample| mean(sample.iter().map(|value| **value)))
}

/// Returns whether it is the outcome of one attempt.
fn is_outcome(value: f64) -> bool {
    [0.0, 1.0]
        .iter()
        .any(|outcome| value.total_cmp(outcome).is_eq())
}

/// Returns the share of ones among `values` with Wilson's interval.
fn wilson(values: &[f64]) -> Option<Estimate> {
    let share = mean(values.iter().copied())?;
    let count = float_of(values.len());
    let square = NORMAL_QUANTILE * NORMAL_QUANTILE;
    let center = (share + square / (2.0 * count)) / (1.0 + square / count);
    let half = NORMAL_QUANTILE / (1.0 + square / count)
        * (share * (1.0 - share) / count + square / (4.0 * count * count)).sqrt();
    Some(Estimate {
        value: share,
        low: (center - half).max(0.0),
        high: (center + half).min(1.0),
    })
}

/// Estimates `figure` of the items, whose interval comes from samples of as many items.
fn bootstrap<T>(items: &[T], figure: impl Fn(&[&T]) -> Option<f64>) -> Option<Estimate> {
    let all: Vec<&T> = items.iter().collect();
    let value = figure(&all)?;
    let mut random = Rng::with_seed(SEED);
    let mut figures: Vec<f64> = (0..SAMPLES)
        .filter_map(|_| {
            let sample: Vec<&T> = all
                .iter()
                .filter_map(|_| random.choice(&all).copied())
                .collect();
            figure(&sample)
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    let tail = figures.len() / 40;
    Some(Estimate {
        value,
        low: figures.get(tail).copied().unwrap_or(value),
        high: figures.iter().nth_back(tail).copied().unwrap_or(value),
    })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    ratio(sum, count)
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Returns the number as a float.
fn float(number: u64) -> f64 {
    const HALF: u64 = 1 << 32;
    let part = |part: u64| u32::try_from(part).map_or(0.0, f64::from);
    part(number / HALF) * 4_294_967_296.0 + part(number % HALF)
}

fn float_of(number: usize) -> f64 {
    float(u64::try_from(number).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(estimate: Option<Estimate>, expected: [f64; 3]) {
        let Estimate { value, low, high } = estimate.unwrap();
        for (number, expected) in [value, low, high].into_iter().zip(expected) {
            assert!((number - expected).abs() < 0.001, "{value} [{low}, {high}]");
        }
    }

    #[test]
    fn shares_have_wilsons_interval() {
        // Values of Wilson's formula as textbooks have them.
        let shares = |good: usize, all: usize| -> Vec<f64> {
            (0..all)
                .map(|index| f64::from(u8::from(index < good)))
                .collect()
        };
        check(wilson(&shares(10, 20)), [0.5, 0.299, 0.701]);
        check(wilson(&shares(0, 10)), [0.0, 0.0, 0.278]);
        check(wilson(&shares(9, 10)), [0.9, 0.596, 0.982]);
        assert_eq!(wilson(&[]), None);
    }

    #[test]
    fn a_bootstrap_agrees_with_the_normal_distribution() {
        let values: Vec<f64> = (0..400).map(|number| f64::from(number % 2)).collect();
        let estimate = bootstrap(&values, |sample| mean(sample.iter().map(|value| **value)));
        let Estimate { value, low, high } = estimate.unwrap();
        assert!((value - 0.5).abs() < 1e-12);
        // 1.96 × 0.5 / √400
        assert!(
            (low - 0.451).abs() < 0.01 && (high - 0.549).abs() < 0.01,
            "{low} {high}"
        );
    }

    #[test]
    fn choices_without_marked_ones_are_counted() {
        // 4 of 6 out of 8: 15 of 70 choices.
        assert!((share_without(8, 2, 4) - 15.0 / 70.0).abs() < 1e-12);
        assert!((share_without(8, 0, 4) - 1.0).abs() < 1e-12);
        assert!(share_without(4, 4, 1).abs() < 1e-12);
        assert!((float(1 << 40) - 1_099_511_627_776.0).abs() < 1.0);
    }
}
