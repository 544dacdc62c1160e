//! The lines in which two texts differ, and merges of two changes of a text. The result depends on
//! the texts only: the comparison is bounded by a number of lines, not by a time.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Range;

use gix_imara_diff::{Algorithm, Diff, Hunk, InternedInput};

/// The most lines, of both texts together, that are compared line by line. The time of the worst
/// case grows with the power of 1.5.
const COMPARED_LINES_MAX: usize = 64 * 1024;

/// Lines of a text that were replaced by others; one of the two ranges may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedLines {
    /// The lines of the old text, from 0.
    pub old: Range<usize>,
    /// The lines of the new text, from 0.
    pub new: Range<usize>,
}

/// Two texts as lines with their line feeds, and where they differ. As in git, only a line feed
/// ends a line.
#[derive(Clone, Debug)]
pub struct LineDiff<'t> {
    old: Vec<&'t str>,
    new: Vec<&'t str>,
    replacements: Vec<ReplacedLines>,
}

impl<'t> LineDiff<'t> {
    /// Compares two texts.
    pub fn new(old: &'t str, new: &'t str) -> Self {
        Self::bounded(old, new, COMPARED_LINES_MAX)
    }

    /// Compares two texts, with up to `lines_max` lines that are compared line by line.
    fn bounded(old: &'t str, new: &'t str, lines_max: usize) -> Self {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let differing_part = differing_part(&old, &new);
        let replacements = if differing_part.len() <= lines_max {
            compare(&old, &new).collect()
        } else {
            compare_chunks(&old, &new, differing_part, lines_max)
        };
        Self {
            old,
            new,
            replacements,
        }
    }

    /// Returns where the texts differ, in order; at least one equal line is between any two.
    pub fn replacements(&self) -> &[ReplacedLines] {
        &self.replacements
    }

    /// Returns the lines of the old text.
    pub fn old_lines(&self) -> &[&'t str] {
        &self.old
    }

    /// Returns the lines of the new text.
    pub fn new_lines(&self) -> &[&'t str] {
        &self.new
    }

    /// Returns how many lines were added and removed.
    pub fn counts(&self) -> (usize, usize) {
        let replacements = self.replacements.iter();
        let added_lines = replacements.clone().map(|part| part.new.len()).sum();
        let removed_lines = replacements.map(|part| part.old.len()).sum();
        (added_lines, removed_lines)
    }
}

impl ReplacedLines {
    /// Returns the number of its lines, old and new.
    fn len(&self) -> usize {
        self.old.len().saturating_add(self.new.len())
    }

    /// Returns the lines in the whole texts; `self` counts from the beginning of `part`.
    fn within(self, part: &Self) -> Self {
        let shift = |lines: Range<usize>, offset: usize| {
            lines.start.saturating_add(offset)..lines.end.saturating_add(offset)
        };
        Self {
            old: shift(self.old, part.old.start),
            new: shift(self.new, part.new.start),
        }
    }
}

impl From<Hunk> for ReplacedLines {
    fn from(hunk: Hunk) -> Self {
        let to_usize = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
        Self {
            old: to_usize(hunk.before.start)..to_usize(hunk.before.end),
            new: to_usize(hunk.after.start)..to_usize(hunk.after.end),
        }
    }
}

/// Returns the lines between the equal lines at the beginning of two texts and those at the end.
fn differing_part(old: &[&str], new: &[&str]) -> ReplacedLines {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let end_lines_max = old.len().min(new.len()).saturating_sub(start);
    let pairs_from_end = old.iter().rev().zip(new.iter().rev()).take(end_lines_max);
    let equal_end_lines = pairs_from_end.take_while(|(a, b)| a == b).count();
    ReplacedLines {
        old: start..old.len().saturating_sub(equal_end_lines),
        new: start..new.len().saturating_sub(equal_end_lines),
    }
}

/// Gives each value a number, and equal values the same one.
fn intern<T: Copy + Default + Eq + Hash>(old: &[T], new: &[T]) -> InternedInput<T> {
    let mut input = InternedInput::default();
    input.update_before(old.iter().copied());
    input.update_after(new.iter().copied());
    input
}

/// Compares lines with the algorithm of git and places ambiguous changes where git does.
fn compare(old: &[&str], new: &[&str]) -> impl Iterator<Item = ReplacedLines> {
    let input = intern(old, new);
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);
    let hunks: Vec<Hunk> = diff.hunks().collect();
    hunks.into_iter().map(ReplacedLines::from)
}

/// Compares chunks of the lines in `differing_part`, and then the lines of the chunks that differ,
/// up to `lines_max` lines in all; the remaining chunks are replaced as a whole.
fn compare_chunks(
    old: &[&str],
    new: &[&str],
    differing_part: ReplacedLines,
    lines_max: usize,
) -> Vec<ReplacedLines> {
    // Chunks differ in length, so there may be more of them than planned: half of the maximum is
    // planned.
    let lines_per_chunk = differing_part.len().div_ceil((lines_max / 2).max(1));
    let chunk_lines = u64::try_from(lines_per_chunk).unwrap_or(u64::MAX);
    // The content of a line decides whether a chunk ends, so that chunks of both texts are equal
    // after an insertion too.
    let ends_chunk = |line: &&str| {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        hasher.finish().is_multiple_of(chunk_lines)
    };
    let old_lines = old.get(differing_part.old.clone()).unwrap_or_default();
    let new_lines = new.get(differing_part.new.clone()).unwrap_or_default();
    let old_chunks: Vec<&[&str]> = old_lines.split_inclusive(ends_chunk).collect();
    let new_chunks: Vec<&[&str]> = new_lines.split_inclusive(ends_chunk).collect();
    if old_chunks.len().saturating_add(new_chunks.len()) > lines_max {
        return vec![differing_part];
    }
    let input = intern(&old_chunks, &new_chunks);
    let (old_starts, new_starts) = (chunk_starts(&old_chunks), chunk_starts(&new_chunks));
    let mut replacements = Vec::new();
    let mut lines_left = lines_max;
    for chunk_hunk in Diff::compute(Algorithm::Myers, &input).hunks() {
        let chunks = ReplacedLines::from(chunk_hunk);
        let lines_of_chunks = ReplacedLines {
            old: line_range(&old_starts, &chunks.old),
            new: line_range(&new_starts, &chunks.new),
        };
        let part = lines_of_chunks.within(&differing_part);
        if let Some(left) = lines_left.checked_sub(part.len()) {
            lines_left = left;
            let old = old.get(part.old.clone()).unwrap_or_default();
            let new = new.get(part.new.clone()).unwrap_or_default();
            replacements.extend(compare(old, new).map(|lines| lines.within(&part)));
        } else {
            replacements.push(part);
        }
    }
    replacements
}

/// Returns the first line of each chunk, and the end of the last.
fn chunk_starts(chunks: &[&[&str]]) -> Vec<usize> {
    let mut end = 0;
    let mut starts = vec![end];
    starts.extend(chunks.iter().map(|chunk| {
        end += chunk.len();
        end
    }));
    starts
}

/// Returns the lines of `chunks`.
fn line_range(starts: &[usize], chunks: &Range<usize>) -> Range<usize> {
    let start = |chunk: usize| starts.get(chunk).copied().unwrap_or_default();
    start(chunks.start)..start(chunks.end)
}

/// Maximum length of a text that is merged, in bytes.
pub const MERGE_BYTES_MAX: usize = 512 * 1024;

/// Merges both changes of `base` into one text; `None` if they conflict, or if one of the three is
/// not text or is too long.
pub fn merge_texts(base: &[u8], theirs: &[u8], ours: &[u8]) -> Option<Vec<u8>> {
    let (base, theirs, ours) = (as_text(base)?, as_text(theirs)?, as_text(ours)?);
    diffy::merge(base, theirs, ours)
        .ok()
        .map(String::into_bytes)
}

/// Returns `bytes` as text; `None` if they are not text or are too long to be merged.
pub fn as_text(bytes: &[u8]) -> Option<&str> {
    let fits = bytes.len() <= MERGE_BYTES_MAX && !bytes.contains(&0);
    if fits {
        std::str::from_utf8(bytes).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the new text, made of the old one and its replaced lines.
    fn rebuild(diff: &LineDiff<'_>) -> String {
        let mut text = String::new();
        let mut old_end = 0;
        for part in diff.replacements() {
            text.extend(diff.old[old_end..part.old.start].iter().copied());
            text.extend(diff.new[part.new.clone()].iter().copied());
            old_end = part.old.end;
        }
        text.extend(diff.old[old_end..].iter().copied());
        text
    }

    #[test]
    fn an_inserted_function_is_placed_as_in_git() {
        let old = "fn a() {\n    x();\n}\n\nfn c() {\n    x();\n}\n";
        let new = "fn a() {\n    x();\n}\n\nfn b() {\n    x();\n}\n\nfn c() {\n    x();\n}\n";
        let diff = LineDiff::new(old, new);
        let inserted = ReplacedLines {
            old: 4..4,
            new: 4..8,
        };
        assert_eq!(diff.replacements(), [inserted]);
        assert_eq!(diff.counts(), (4, 0));
    }

    #[test]
    fn changes_far_apart_in_a_long_text_are_told_apart() {
        let old: Vec<String> = (0..100_000).map(|n| format!("{n}\n")).collect();
        let old = old.concat();
        let new = old.replacen("\n7\n", "\nseven\n", 1);
        let new = new.replacen("\n70000\n", "\n", 1) + "end\n";
        let diff = LineDiff::new(&old, &new);
        let replaced = |old, new| ReplacedLines { old, new };
        let expected = [
            replaced(7..8, 7..8),
            replaced(70_000..70_001, 70_000..70_000),
            replaced(100_000..100_000, 99_999..100_000),
        ];
        assert_eq!(diff.replacements(), expected);
        assert_eq!(diff.counts(), (2, 2));
    }

    #[test]
    fn long_texts_of_few_different_lines_are_replaced_as_a_whole() {
        let old = "a\n\n".repeat(COMPARED_LINES_MAX);
        let new = format!("\n{}", "b\na\n".repeat(COMPARED_LINES_MAX));
        let diff = LineDiff::new(&old, &new);
        assert_eq!(diff.replacements().len(), 1);
        assert_eq!(rebuild(&diff), new);
    }

    proptest! {
        #[test]
        fn replaced_lines_make_the_new_text_whatever_the_limit_is(
            old in "([a-d]{0,2}\n){0,60}[ab]?",
            new in "([a-d]{0,2}\n){0,60}[ab]?",
            lines_max in 0_usize..100,
        ) {
            let diff = LineDiff::bounded(&old, &new, lines_max);
            prop_assert_eq!(&rebuild(&diff), &new);
            for (part, next) in diff.replacements().iter().zip(diff.replacements().iter().skip(1)) {
                let (old, new) = (next.old.start - part.old.end, next.new.start - part.new.end);
                prop_assert!(old > 0 && old == new);
                let equal = diff.old[part.old.end..next.old.start].iter();
                prop_assert!(equal.eq(&diff.new[part.new.end..next.new.start]));
            }
        }
    }

    #[track_caller]
    fn check(base: &str, theirs: &str, ours: &str, expected: Option<&str>) {
        let merged = merge_texts(base.as_bytes(), theirs.as_bytes(), ours.as_bytes());
        assert_eq!(merged.as_deref(), expected.map(str::as_bytes));
    }

    #[test]
    fn changes_of_different_parts_become_one_text() {
        let base = "1\n2\n3\n4\n5\n6\n7\n";
        check(
            base,
            "one\n2\n3\n4\n5\n6\n7\n",
            "1\n2\n3\n4\n5\n6\n7\n8\n",
            Some("one\n2\n3\n4\n5\n6\n7\n8\n"),
        );
        check(base, base, "2\n", Some("2\n"));
        check(base, "same\n", "same\n", Some("same\n"));
    }

    #[test]
    fn changes_that_meet_stay_apart() {
        check("1\n2\n3\n", "1\nzwei\n3\n", "1\ndeux\n3\n", None);
        check("1\n", "", "1\n2\n", None);
    }

    #[test]
    fn only_texts_of_a_moderate_length_are_merged() {
        check("a\n", "a\0\n", "a\n", None);
        let long = "x\n".repeat(MERGE_BYTES_MAX);
        check(&long, &long, &long, None);
        assert_eq!(merge_texts(b"\xff\n", b"\xff\n", b"\xff\n"), None);
    }
}
