//! Ranks the entries that match a query. Several threads search a large tree, within a time limit.
//! Reads nothing but the clock.

use std::cmp::Reverse;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::world::io::clock::Stopwatch;
use crate::world::io::file_finder::SearchExtent;
use crate::world::sys::state_files::listing::{IndexEntry, IndexEntryKind};

/// Largest number of batches that one thread searches alone.
const BATCHES_ALONE_MAX: usize = 16;
/// Largest number of threads that search.
const THREADS_MAX: usize = 8;

/// A query.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchQuery<'t> {
    /// The directory that contains the entries: empty, or with a slash at the end.
    pub(super) directory: &'t str,
    /// The letters that the rest of the path must contain, in this order.
    pub(super) pattern: &'t str,
}

/// A matching entry with its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankedEntry {
    /// Its path below the tree's root.
    pub(super) path: String,
    pub(super) kind: IndexEntryKind,
    /// Its score; higher is better.
    pub(super) score: u32,
}

/// The matches of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MatchResults {
    /// The best matches, in no particular order.
    pub(super) best: Vec<RankedEntry>,
    /// Total number of matches.
    pub(super) matched: usize,
}

/// The score of an entry.
#[derive(Clone, Copy)]
struct ScoredEntry {
    score: u32,
    /// The index of its batch.
    batch: usize,
    /// Its index in the batch.
    index: usize,
}

/// Returns the best `count_max` matches for `query` in as many batches as can be searched within
/// `time_max`.
pub(super) fn rank(
    batches: &[Arc<[IndexEntry]>],
    query: MatchQuery<'_>,
    count_max: usize,
    time_max: Duration,
) -> (MatchResults, SearchExtent) {
    let pattern = Pattern::new(
        query.pattern,
        CaseMatching::Smart,
        Normalization::Smart,
        AtomKind::Fuzzy,
    );
    let stopwatch = Stopwatch::start();
    let next_batch = AtomicUsize::new(0);
    let score_batches = || {
        let mut scored_entries = Vec::new();
        let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
        while stopwatch.elapsed() < time_max {
            let index = next_batch.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = batches.get(index) else {
                break;
            };
            score_batch(
                batch,
                index,
                query.directory,
                &pattern,
                &mut matcher,
                &mut scored_entries,
            );
        }
        scored_entries
    };
    let scored_entries = if batches.len() <= BATCHES_ALONE_MAX {
        score_batches()
    } else {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        std::thread::scope(|scope| {
            let other_threads: Vec<_> = (1..cores.min(THREADS_MAX))
                .map(|_| scope.spawn(score_batches))
                .collect();
            let mut scored_entries = score_batches();
            for thread in other_threads {
                scored_entries.extend(thread.join().unwrap_or_default());
            }
            scored_entries
        })
    };
    let extent = if next_batch.load(Ordering::Relaxed) >= batches.len() {
        SearchExtent::Whole
    } else {
        SearchExtent::Part
    };
    (best_matches(scored_entries, batches, count_max), extent)
}

/// Returns the parts of `name` that match `typed`, as ranges of characters; empty if it does not
/// match, or if characters of it are shown as one.
pub fn matched_ranges(typed: &str, name: &str) -> Vec<Range<usize>> {
    let pattern = Pattern::new(
        typed,
        CaseMatching::Smart,
        Normalization::Smart,
        AtomKind::Fuzzy,
    );
    let mut buffer = Vec::new();
    let haystack = Utf32Str::new(name, &mut buffer);
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let mut indices = Vec::new();
    let is_match = pattern
        .indices(haystack, &mut matcher, &mut indices)
        .is_some();
    if !is_match || haystack.len() != name.chars().count() {
        return Vec::new();
    }
    indices.sort_unstable();
    indices.dedup();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for index in indices
        .into_iter()
        .filter_map(|index| usize::try_from(index).ok())
    {
        match ranges.last_mut() {
            Some(last) if last.end == index => last.end = index.saturating_add(1),
            Some(_) | None => ranges.push(index..index.saturating_add(1)),
        }
    }
    ranges
}

/// Adds the matches in one batch.
fn score_batch(
    batch: &[IndexEntry],
    batch_index: usize,
    directory: &str,
    pattern: &Pattern,
    matcher: &mut Matcher,
    scored_entries: &mut Vec<ScoredEntry>,
) {
    let mut buffer = Vec::new();
    for (index, entry) in batch.iter().enumerate() {
        let Some(rest) = entry
            .path
            .strip_prefix(directory)
            .filter(|rest| !rest.is_empty())
        else {
            continue;
        };
        if let Some(score) = pattern.score(Utf32Str::new(rest, &mut buffer), matcher) {
            scored_entries.push(ScoredEntry {
                score,
                batch: batch_index,
                index,
            });
        }
    }
}

/// Selects the best of `scored_entries`; of equal scores, the shorter path is better.
fn best_matches(
    mut scored_entries: Vec<ScoredEntry>,
    batches: &[Arc<[IndexEntry]>],
    count_max: usize,
) -> MatchResults {
    let matched_count = scored_entries.len();
    let index_entry =
        |scored_entry: &ScoredEntry| batches.get(scored_entry.batch)?.get(scored_entry.index);
    let key = |scored_entry: &ScoredEntry| {
        (
            Reverse(scored_entry.score),
            index_entry(scored_entry).map_or(0, |entry| entry.path.len()),
        )
    };
    if matched_count > count_max {
        scored_entries.select_nth_unstable_by_key(count_max, key);
        scored_entries.truncate(count_max);
    }
    let best = scored_entries.iter().filter_map(|scored_entry| {
        let entry = index_entry(scored_entry)?;
        Some(RankedEntry {
            path: entry.path.to_string(),
            kind: entry.kind,
            score: scored_entry.score,
        })
    });
    MatchResults {
        best: best.collect(),
        matched: matched_count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(count: usize, paths: &[&str]) -> Vec<Arc<[IndexEntry]>> {
        let entry = |path: &&str| IndexEntry {
            path: (*path).into(),
            kind: IndexEntryKind::File,
        };
        let batch: Arc<[IndexEntry]> = paths.iter().map(entry).collect();
        vec![batch; count]
    }

    /// Checks the matches, best first.
    #[track_caller]
    fn check(directory: &str, pattern: &str, expected: &[&str]) {
        let paths = [
            "src/main.rs",
            "src/manager.rs",
            "tests/main.rs",
            "docs/LICENSE",
            "a b.txt",
        ];
        let query = MatchQuery { directory, pattern };
        let (mut found, extent) = rank(&batches(1, &paths), query, 10, Duration::MAX);
        found
            .best
            .sort_by_key(|ranked| (Reverse(ranked.score), ranked.path.len()));
        let found: Vec<&str> = found
            .best
            .iter()
            .map(|ranked| ranked.path.as_str())
            .collect();
        assert_eq!(
            (found.as_slice(), extent),
            (expected, SearchExtent::Whole),
            "{pattern}"
        );
    }

    #[test]
    fn letters_fit_in_their_order() {
        check("", "main", &["src/main.rs", "tests/main.rs"]);
        check("", "smain", &["src/main.rs", "tests/main.rs"]);
        check("src/", "ma", &["src/main.rs", "src/manager.rs"]);
        check("src", "", &["src/main.rs", "src/manager.rs"]);
        check("", "license", &["docs/LICENSE"]);
        check("", "LiCENSE", &[]);
        check("", "a b", &["a b.txt"]);
        check("", "nothing", &[]);
    }

    #[test]
    fn many_batches_are_shared_and_only_the_best_are_kept() {
        let batches = batches(100, &["zzz/one.txt", "one.txt"]);
        let query = MatchQuery {
            directory: "",
            pattern: "one",
        };
        let (found, extent) = rank(&batches, query, 100, Duration::MAX);
        assert_eq!(
            (found.matched, found.best.len(), extent),
            (200, 100, SearchExtent::Whole)
        );
        assert!(found.best.iter().all(|ranked| ranked.path == "one.txt"));
        let (_, extent) = rank(&batches, query, 100, Duration::ZERO);
        assert_eq!(extent, SearchExtent::Part);
    }
}
