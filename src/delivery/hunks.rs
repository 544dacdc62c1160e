//! The hunks in which two texts differ, and the text that results from applying some of them.

use std::ops::Range;

use crate::delivery::line_diff::{LineDiff, ReplacedLines};

/// Number of equal lines around a difference, as in `git`.
pub const CONTEXT_LINES: usize = 3;

/// Origin of a line in a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSide {
    /// It is in both texts.
    Both,
    /// It is only in the old one.
    Old,
    /// It is only in the new one.
    New,
}

impl LineSide {
    /// Returns the sign before such a line in a unified diff.
    pub fn sign(self) -> char {
        match self {
            LineSide::Both => ' ',
            LineSide::Old => '-',
            LineSide::New => '+',
        }
    }
}

/// A part in which two texts differ, with the context around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffHunk {
    /// The lines of the old text, from 0.
    pub old: Range<usize>,
    /// The lines of the new text, from 0.
    pub new: Range<usize>,
    /// All its lines without their line feeds; a line without one is marked.
    pub lines: Vec<(LineSide, String)>,
}

/// Mark after a last line without a line feed.
const NO_LINE_FEED_MARK: &str = "\n\\ No newline at end of file";

impl DiffHunk {
    /// Returns its header, as in a unified diff.
    pub fn header(&self) -> String {
        format!(
            "@@ -{} +{} @@",
            header_range(&self.old),
            header_range(&self.new)
        )
    }

    /// Returns how many lines it adds and removes.
    pub fn counts(&self) -> (usize, usize) {
        let count = |side| {
            let lines = self.lines.iter();
            lines.filter(|(line_side, _)| *line_side == side).count()
        };
        (count(LineSide::New), count(LineSide::Old))
    }
}

/// Formats lines as in a header of a unified diff, from 1.
fn header_range(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start.saturating_add(1)),
        count => format!("{},{count}", lines.start.saturating_add(1)),
    }
}

/// Returns the hunks of `diff`.
pub fn hunks(diff: &LineDiff<'_>) -> Vec<DiffHunk> {
    hunks_in_context(diff, CONTEXT_LINES)
}

/// Returns the hunks of `diff` with up to `context_lines` equal lines around each difference.
pub fn hunks_in_context(diff: &LineDiff<'_>, context_lines: usize) -> Vec<DiffHunk> {
    // Differences whose context would touch are one hunk.
    let gap_max = context_lines.saturating_mul(2);
    let groups = diff
        .replacements()
        .chunk_by(|part, next| next.old.start.saturating_sub(part.old.end) <= gap_max);
    let hunk = |group: &[ReplacedLines]| {
        let (first, last) = (group.first()?, group.last()?);
        let lines_before = context_lines.min(first.old.start);
        let lines_after = context_lines.min(diff.old_lines().len().saturating_sub(last.old.end));
        let old =
            first.old.start.saturating_sub(lines_before)..last.old.end.saturating_add(lines_after);
        let new =
            first.new.start.saturating_sub(lines_before)..last.new.end.saturating_add(lines_after);
        let mut lines = Vec::new();
        let mut add = |side: LineSide, texts: &[&str], range: Range<usize>| {
            let texts = texts.get(range).unwrap_or_default().iter();
            lines.extend(texts.map(|text| (side, without_line_feed(text))));
        };
        let mut old_end = old.start;
        for part in group {
            add(LineSide::Both, diff.old_lines(), old_end..part.old.start);
            add(LineSide::Old, diff.old_lines(), part.old.clone());
            add(LineSide::New, diff.new_lines(), part.new.clone());
            old_end = part.old.end;
        }
        add(LineSide::Both, diff.old_lines(), old_end..old.end);
        Some(DiffHunk { old, new, lines })
    };
    groups.filter_map(hunk).collect()
}

/// Returns a line without its line feed; one that has none is marked.
fn without_line_feed(line: &str) -> String {
    match line.strip_suffix('\n') {
        Some(line) => line.to_owned(),
        None => format!("{line}{NO_LINE_FEED_MARK}"),
    }
}

/// A hunk of a diff, and whether it is applied. Its lines identify it, because another version of
/// massgen may find other hunks in the same texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkChoice {
    /// The lines of the old text, from 0.
    pub old: Range<usize>,
    /// The lines of the new text, from 0.
    pub new: Range<usize>,
    /// Whether it is applied.
    pub is_applied: bool,
}

impl HunkChoice {
    /// Returns the choices about `hunks`, all hunks of a diff; `are_applied` says for each of them
    /// whether it is applied; those that it does not reach are not.
    pub fn list(hunks: &[DiffHunk], are_applied: &[bool]) -> Vec<Self> {
        let are_applied = are_applied.iter().copied().chain(std::iter::repeat(false));
        let choices = hunks
            .iter()
            .zip(are_applied)
            .map(|(hunk, is_applied)| Self {
                old: hunk.old.clone(),
                new: hunk.new.clone(),
                is_applied,
            });
        choices.collect()
    }
}

/// Returns the text `old` with the hunks of its diff with `new` that `choices` apply. Returns
/// `None` if `choices` are about other texts, which the lines between the hunks show.
pub fn apply_hunks(old: &str, new: &str, choices: &[HunkChoice]) -> Option<String> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    // Checks and copies the lines after the last hunk.
    let end_of_texts = HunkChoice {
        old: old.len()..old.len(),
        new: new.len()..new.len(),
        is_applied: false,
    };
    let mut text = String::new();
    let (mut old_end, mut new_end) = (0, 0);
    for hunk in choices.iter().chain([&end_of_texts]) {
        let unchanged_lines = old.get(old_end..hunk.old.start)?;
        if new.get(new_end..hunk.new.start)? != unchanged_lines {
            return None;
        }
        let lines = if hunk.is_applied {
            new.get(hunk.new.clone())?
        } else {
            old.get(hunk.old.clone())?
        };
        text.extend(unchanged_lines.iter().chain(lines).copied());
        (old_end, new_end) = (hunk.old.end, hunk.new.end);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLD: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
    const NEW: &str = "one\n2\n3\n4\n5\n6\n7\n8\n9\n10\neleven\n12\nthirteen";

    #[test]
    fn hunks_read_as_in_a_unified_diff() {
        let hunks = hunks(&LineDiff::new(OLD, NEW));
        let headers: Vec<String> = hunks.iter().map(DiffHunk::header).collect();
        assert_eq!(headers, ["@@ -1,4 +1,4 @@", "@@ -8,5 +8,6 @@"]);
        assert_eq!(hunks[0].lines[0], (LineSide::Old, "1".to_owned()));
        assert_eq!(hunks[0].lines[1], (LineSide::New, "one".to_owned()));
        let last = (
            LineSide::New,
            "thirteen\n\\ No newline at end of file".to_owned(),
        );
        assert_eq!(hunks[1].lines.last(), Some(&last));
        assert_eq!(hunks[1].counts(), (2, 1));
    }

    #[test]
    fn only_a_line_feed_ends_a_line() {
        let hunks = hunks(&LineDiff::new("a\rb\nc\r\nd", "a\rB\nc\r\nd"));
        let lines: Vec<(LineSide, &str)> = hunks
            .iter()
            .flat_map(|hunk| &hunk.lines)
            .map(|(side, line)| (*side, line.as_str()))
            .collect();
        let expected = [
            (LineSide::Old, "a\rb"),
            (LineSide::New, "a\rB"),
            (LineSide::Both, "c\r"),
            (LineSide::Both, "d\n\\ No newline at end of file"),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn near_differences_share_a_hunk() {
        let headers = |context_lines| -> Vec<String> {
            let hunks = hunks_in_context(&LineDiff::new(OLD, NEW), context_lines);
            hunks.iter().map(DiffHunk::header).collect()
        };
        assert_eq!(
            headers(0),
            ["@@ -1 +1 @@", "@@ -11 +11 @@", "@@ -12,0 +13 @@"]
        );
        assert_eq!(headers(1), ["@@ -1,2 +1,2 @@", "@@ -10,3 +10,4 @@"]);
        assert_eq!(headers(4), ["@@ -1,5 +1,5 @@", "@@ -7,6 +7,7 @@"]);
        assert_eq!(headers(5), ["@@ -1,12 +1,13 @@"]);
    }

    /// Returns the choices about the hunks of the diff of two texts.
    fn choices(old: &str, new: &str, is_applied: &[bool]) -> Vec<HunkChoice> {
        HunkChoice::list(&hunks(&LineDiff::new(old, new)), is_applied)
    }

    #[track_caller]
    fn check(is_applied: &[bool], expected: &str) {
        let chosen = choices(OLD, NEW, is_applied);
        let applied = apply_hunks(OLD, NEW, &chosen);
        assert_eq!(applied.as_deref(), Some(expected), "{is_applied:?}");
    }

    #[test]
    fn each_hunk_can_be_taken_alone() {
        check(&[true, true], NEW);
        check(&[false, false], OLD);
        check(&[true, false], &OLD.replacen('1', "one", 1));
        check(
            &[false, true],
            &format!("1{}", NEW.strip_prefix("one").unwrap()),
        );
        check(&[], OLD);
    }

    #[test]
    fn a_choice_is_applied_where_it_was_made_whatever_the_next_diff_is() {
        // Another version of massgen may find one hunk.
        let whole_text = |is_applied| HunkChoice {
            old: 0..12,
            new: 0..13,
            is_applied,
        };
        let applied = apply_hunks(OLD, NEW, &[whole_text(true)]);
        assert_eq!(applied.as_deref(), Some(NEW));
        let unapplied = apply_hunks(OLD, NEW, &[whole_text(false)]);
        assert_eq!(unapplied.as_deref(), Some(OLD));
        // A text that was changed since is another one.
        let chosen = choices(OLD, NEW, &[true, false]);
        let changed = OLD.replace("6\n", "six\n");
        assert_eq!(apply_hunks(&changed, NEW, &chosen), None);
        let longer = format!("0\n{OLD}");
        assert_eq!(apply_hunks(&longer, NEW, &chosen), None);
        assert_eq!(apply_hunks("", NEW, &chosen), None);
        assert_eq!(apply_hunks(OLD, NEW, &[]), None);
    }

    proptest! {
        #[test]
        fn all_hunks_make_the_new_text_and_none_the_old(
            old in "([ab]\n){0,30}[ab]?", new in "([ab]\n){0,30}[ab]?"
        ) {
            let count = hunks(&LineDiff::new(&old, &new)).len();
            let all = choices(&old, &new, &vec![true; count]);
            prop_assert_eq!(apply_hunks(&old, &new, &all), Some(new.clone()));
            let none = choices(&old, &new, &[]);
            prop_assert_eq!(apply_hunks(&old, &new, &none), Some(old.clone()));
        }
    }
}
