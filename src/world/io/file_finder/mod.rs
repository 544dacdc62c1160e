//! Fuzzy finder for file names, used while a name is typed: suggests files and directories,
//! likeliest first. It must show names, kinds and sizes to the user only, and opens no file but the
//! index of git.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::config::storage_path::STATE_DIR;
use crate::mentions::partial_mention::format_mention;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::io::clock::Stopwatch;
use crate::world::io::file_finder::index::{FileIndex, GIT_DIR};
pub use crate::world::io::file_finder::matching::matched_ranges;
use crate::world::io::file_finder::matching::{MatchQuery, MatchResults, RankedEntry, rank};
use crate::world::sys::state_files::listing::IndexEntry;
pub use crate::world::sys::state_files::listing::IndexEntryKind;
use crate::world::sys::state_files::listing::{self, IgnoredEntries};

mod git_index;
mod index;
mod matching;

/// Largest number of entries that are read of a directory that is named.
const CHILDREN_MAX: usize = 10_000;
/// Number of matches that are ranked again with regard to git.
const RANKED_MAX: usize = 256;
/// Score bonus of a tracked name: about as much as one more matching letter.
const TRACKED_BONUS: u32 = 16;

/// A suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSuggestion {
    /// The name to type; that of a directory ends with a slash.
    pub name: String,
    /// Its kind.
    pub kind: IndexEntryKind,
    /// Its size in bytes, if it is a file.
    pub bytes: Option<u64>,
}

/// The suggestions for a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSuggestions {
    /// Likeliest first.
    pub rows: Vec<FileSuggestion>,
    /// Total number of matches.
    pub matched: usize,
    /// Whether there may be more matches.
    pub extent: SearchExtent,
}

/// Whether the whole tree was searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchExtent {
    /// It was searched completely.
    #[default]
    Whole,
    /// The directory is still being walked, or the time limit was reached.
    Part,
}

impl SearchExtent {
    /// Returns the extent of a search that consists of two parts with these extents.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole, Self::Whole) => Self::Whole,
            (Self::Part, _) | (_, Self::Part) => Self::Part,
        }
    }
}

/// Finds files below one directory, or elsewhere if the typed path leads there.
#[derive(Debug)]
pub struct FileFinder {
    base: AbsPath,
    home: Option<AbsPath>,
    index: Mutex<Option<Arc<FileIndex>>>,
}

impl FileFinder {
    /// Creates a finder for files below `base`; `~/` is `home`. Nothing is read yet.
    pub fn new(base: AbsPath, home: Option<AbsPath>) -> Self {
        Self {
            base,
            home,
            index: Mutex::new(None),
        }
    }

    /// Walks the directory again in the background. Queries see the entries of the earlier walk
    /// until this one has ended.
    pub fn refresh(&self) {
        let mut index = self.index.lock();
        match index.as_ref() {
            Some(current) if current.is_walking() => {}
            Some(current) => {
                *index = Some(FileIndex::start(&self.base, Some(Arc::clone(current))));
            }
            None => *index = Some(FileIndex::start(&self.base, None)),
        }
    }

    /// Returns at most `rows_max` suggestions for `typed`. Takes about as long as `time_max`, and
    /// returns what was found within that time.
    pub fn query(&self, typed: &str, rows_max: usize, time_max: Duration) -> FileSuggestions {
        let path = TypedPath::parse(typed);
        let results = match path.root {
            TypedRoot::Home if self.home.is_none() => return FileSuggestions::default(),
            TypedRoot::Home | TypedRoot::Elsewhere => self.children(&path, IgnoredEntries::Listed),
            TypedRoot::Base if path.rest.is_empty() => {
                let shown_results = self.children(&path, IgnoredEntries::Hidden);
                if shown_results.matched > 0 {
                    shown_results
                } else {
                    self.children(&path, IgnoredEntries::Listed)
                }
            }
            TypedRoot::Base => return self.search(&path, typed, rows_max, time_max),
        };
        let index = self.index.lock().clone();
        let rows = self.suggestions(results.best, path, rows_max, index.as_deref());
        FileSuggestions {
            rows,
            matched: results.matched,
            extent: SearchExtent::Whole,
        }
    }

    /// Searches for the end of `typed` below the directory that it names, then for all of it, then
    /// for files that git ignores.
    fn search(
        &self,
        path: &TypedPath<'_>,
        typed: &str,
        rows_max: usize,
        time_max: Duration,
    ) -> FileSuggestions {
        let stopwatch = Stopwatch::start();
        let Some(index) = self.current_index() else {
            return FileSuggestions::default();
        };
        // The other half is left for ranking what the walk has found.
        let walk_time_max = time_max.checked_div(2).unwrap_or_default();
        let entries_so_far = index.entries_within(walk_time_max);
        let name_query = MatchQuery {
            directory: path.directory,
            pattern: path.rest,
        };
        let path_query = MatchQuery {
            directory: "",
            pattern: typed,
        };
        let mut extent = entries_so_far.extent;
        for query in [name_query, path_query] {
            let time_left = time_max.saturating_sub(stopwatch.elapsed());
            let (results, ranked_extent) =
                rank(&entries_so_far.batches, query, RANKED_MAX, time_left);
            extent = extent.and(ranked_extent);
            if results.matched > 0 {
                // Ranked paths begin at the base already.
                let any_path = TypedPath {
                    directory: "",
                    ..*path
                };
                return FileSuggestions {
                    rows: self.suggestions(results.best, any_path, rows_max, Some(&index)),
                    matched: results.matched,
                    extent,
                };
            }
        }
        if extent == SearchExtent::Part {
            return FileSuggestions {
                extent,
                ..FileSuggestions::default()
            };
        }
        let results = self.children(path, IgnoredEntries::Listed);
        FileSuggestions {
            rows: self.suggestions(results.best, *path, rows_max, None),
            matched: results.matched,
            extent: SearchExtent::Whole,
        }
    }

    /// Returns the index of the base; starts the walk if there is none.
    fn current_index(&self) -> Option<Arc<FileIndex>> {
        if self.index.lock().is_none() {
            self.refresh();
        }
        self.index.lock().clone()
    }

    /// Returns the matching entries of the named directory. Names that begin with a dot are
    /// included only if one is typed, or if there are no others.
    fn children(&self, path: &TypedPath<'_>, ignored: IgnoredEntries) -> MatchResults {
        let Some(directory) = self.entry_path(path.directory) else {
            return MatchResults::default();
        };
        let mut entries = listing::children(&directory, ignored, CHILDREN_MAX);
        entries.retain(|entry| !matches!(&*entry.path, GIT_DIR | STATE_DIR));
        let is_visible = |entry: &IndexEntry| !entry.path.starts_with('.');
        if !path.rest.starts_with('.') && entries.iter().any(is_visible) {
            entries.retain(is_visible);
        }
        let query = MatchQuery {
            directory: "",
            pattern: path.rest,
        };
        let (results, _) = rank(&[entries.into()], query, CHILDREN_MAX, Duration::MAX);
        results
    }

    /// Orders the matches and converts the best to suggestions; tracked files get a bonus. Names
    /// continue the directory that was typed.
    fn suggestions(
        &self,
        mut best: Vec<RankedEntry>,
        path: TypedPath<'_>,
        rows_max: usize,
        index: Option<&FileIndex>,
    ) -> Vec<FileSuggestion> {
        let full_name = |ranked: &RankedEntry| format!("{}{}", path.directory, ranked.path);
        // What cannot be mentioned is not suggested.
        best.retain(|ranked| format_mention(&full_name(ranked), Permission::Read).is_some());
        best.sort_by_cached_key(|ranked| {
            let is_tracked = |index: &FileIndex| index.is_tracked(&full_name(ranked), ranked.kind);
            let bonus = if index.is_some_and(is_tracked) {
                TRACKED_BONUS
            } else {
                0
            };
            // As long as no letter of the name is typed, the order is alphabetical.
            let length = if path.rest.is_empty() {
                0
            } else {
                ranked.path.len()
            };
            let score = ranked.score.saturating_add(bonus);
            (Reverse(score), length, ranked.path.to_lowercase())
        });
        let row = |ranked: RankedEntry| {
            let path = full_name(&ranked);
            let (slash, bytes) = match ranked.kind {
                IndexEntryKind::File => (
                    "",
                    self.entry_path(&path).and_then(|path| listing::size(&path)),
                ),
                IndexEntryKind::Directory => ("/", None),
            };
            FileSuggestion {
                name: format!("{path}{slash}"),
                kind: ranked.kind,
                bytes,
            }
        };
        best.into_iter().take(rows_max).map(row).collect()
    }

    /// Returns the path of the entry that is typed as `name`.
    fn entry_path(&self, name: &str) -> Option<AbsPath> {
        match name.strip_prefix("~/") {
            Some(rest) => Some(self.home.as_ref()?.join(rest)),
            None => Some(self.base.join(name)),
        }
    }
}

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypedRoot {
    /// Below the base directory, which is fully indexed.
    Base,
    /// Out of it: only the named directory is read.
    Elsewhere,
    /// Below the home directory, where only the named directory is read.
    Home,
}

/// The parts of a typed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TypedPath<'t> {
    root: TypedRoot,
    /// The directory as it was typed: empty, or with a slash at the end.
    directory: &'t str,
    /// The rest after the directory.
    rest: &'t str,
}

impl<'t> TypedPath<'t> {
    /// Splits `typed` into its parts.
    fn parse(typed: &'t str) -> Self {
        let end = typed.rfind('/').map_or(0, |index| index.saturating_add(1));
        let (directory, rest) = typed.split_at_checked(end).unwrap_or_default();
        let root = if directory.starts_with("~/") {
            TypedRoot::Home
        } else if directory.starts_with('/') || directory.split('/').any(|name| name == "..") {
            TypedRoot::Elsewhere
        } else {
            TypedRoot::Base
        };
        Self {
            root,
            directory,
            rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "a test makes its own directories"
    )]
    #[test]
    fn a_search_that_runs_out_of_time_is_not_taken_for_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["src/main.rs", "notes.txt"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "text").unwrap();
        }
        let finder = FileFinder::new(AbsPath::new(dir.path()).unwrap(), None);
        for (typed, expected) in [("man", Some("src/main.rs")), ("nothing-like-it", None)] {
            let suggestions = finder.query(typed, 8, Duration::from_mins(1));
            let names: Vec<&str> = suggestions
                .rows
                .iter()
                .map(|row| row.name.as_str())
                .collect();
            assert_eq!(names, Vec::from_iter(expected));
            assert_eq!(suggestions.extent, SearchExtent::Whole);
            let no_suggestions = finder.query(typed, 8, Duration::ZERO);
            assert_eq!(
                (no_suggestions.rows.len(), no_suggestions.extent),
                (0, SearchExtent::Part)
            );
        }
    }

    #[track_caller]
    fn check(typed: &str, root: TypedRoot, directory: &str, rest: &str) {
        let expected = TypedPath {
            root,
            directory,
            rest,
        };
        assert_eq!(TypedPath::parse(typed), expected);
    }

    #[test]
    fn a_typed_path_is_split_into_root_directory_and_name() {
        check("", TypedRoot::Base, "", "");
        check("ma", TypedRoot::Base, "", "ma");
        check("src/ma", TypedRoot::Base, "src/", "ma");
        check("src/", TypedRoot::Base, "src/", "");
        check("~", TypedRoot::Base, "", "~");
        check("~/pro", TypedRoot::Home, "~/", "pro");
        check("/etc/ho", TypedRoot::Elsewhere, "/etc/", "ho");
        check("../x", TypedRoot::Elsewhere, "../", "x");
        check("src/../../x", TypedRoot::Elsewhere, "src/../../", "x");
    }
}
