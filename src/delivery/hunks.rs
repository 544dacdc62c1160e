//! The hunks in which two texts differ, and the text that results from applying some of them.

use std::ops::Range;

use similar::{DiffOp, DiffTag, TextDiff};

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

/// A part in which two texts differ, with the context around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffHunk {
    /// The lines of the old text, from 0.
    pub old: Range<usize>,
    /// The lines of the new text, from 0.
    pub new: Range<usize>,
    /// All its lines without their line breaks; a line without one is marked.
    pub lines: Vec<(LineSide, String)>,
}

/// Mark after a last line without a line break.
const NO_END: &str = "\n\\ No newline at end of file";

impl DiffHunk {
    /// Returns its header, as in a unified diff.
    pub fn header(&self) -> String {
        format!("@@ -{} +{} @@", span(&self.old), span(&self.new))
    }

    /// Returns how many lines it adds and removes.
    pub fn counts(&self) -> (usize, usize) {
        let count = |side| self.lines.iter().filter(|(of, _)| *of == side).count();
        (count(LineSide::New), count(LineSide::Old))
    }
}

/// Formats lines as in a header of a unified diff, from 1.
fn span(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start.saturating_add(1)),
        count => format!("{},{count}", lines.start.saturating_add(1)),
    }
}

/// Returns the hunks of `diff`.
pub fn hunks(diff: &TextDiff<'_, '_, str>) -> Vec<DiffHunk> {
    let groups = diff.grouped_ops(CONTEXT_LINES);
    let hunk = |ops: &Vec<DiffOp>| {
        let (first, last) = (ops.first()?, ops.last()?);
        let changes = ops.iter().flat_map(|op| diff.iter_changes(op));
        let lines = changes.map(|change| {
            let side = match change.tag() {
                similar::ChangeTag::Equal => LineSide::Both,
                similar::ChangeTag::Delete => LineSide::Old,
                similar::ChangeTag::Insert => LineSide::New,
            };
            let text = change.value();
            let line = match text.strip_suffix('\n') {
                Some(line) => line.to_owned(),
                None => format!("{text}{NO_END}"),
            };
            (side, line)
        });
        Some(DiffHunk {
            old: first.old_range().start..last.old_range().end,
            new: first.new_range().start..last.new_range().end,
            lines: lines.collect(),
        })
    };
    groups.iter().filter_map(hunk).collect()
}

/// Returns the old text of `diff` with those hunks applied that are `taken`, in their order.
pub fn apply_hunks(diff: &TextDiff<'_, '_, str>, taken: &[bool]) -> String {
    let mut text = String::new();
    let mut numbers = diff.grouped_ops(CONTEXT_LINES).into_iter().enumerate();
    let mut in_hunk = 0;
    let mut number = None;
    for op in diff.ops() {
        let is_taken = if op.tag() == DiffTag::Equal {
            false
        } else {
            while in_hunk == 0 {
                let Some((next, ops)) = numbers.next() else {
                    break;
                };
                in_hunk = ops.iter().filter(|op| op.tag() != DiffTag::Equal).count();
                number = Some(next);
            }
            in_hunk = in_hunk.saturating_sub(1);
            number
                .and_then(|number| taken.get(number).copied())
                .unwrap_or(false)
        };
        if is_taken {
            text.extend(op.new_range().filter_map(|line| diff.new_slice(line)));
        } else {
            text.extend(op.old_range().filter_map(|line| diff.old_slice(line)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLD: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
    const NEW: &str = "one\n2\n3\n4\n5\n6\n7\n8\n9\n10\neleven\n12\nthirteen";

    #[test]
    fn hunks_read_as_in_a_unified_diff() {
        let diff = TextDiff::from_lines(OLD, NEW);
        let hunks = hunks(&diff);
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

    #[track_caller]
    fn check(taken: &[bool], expected: &str) {
        let diff = TextDiff::from_lines(OLD, NEW);
        assert_eq!(apply_hunks(&diff, taken), expected, "{taken:?}");
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

    proptest! {
        #[test]
        fn all_hunks_make_the_new_text_and_none_the_old(
            old in "([ab]\n){0,30}[ab]?", new in "([ab]\n){0,30}[ab]?"
        ) {
            let diff = TextDiff::from_lines(&old, &new);
            let count = hunks(&diff).len();
            prop_assert_eq!(apply_hunks(&diff, &vec![true; count]), new.clone());
            prop_assert_eq!(apply_hunks(&diff, &vec![false; count]), old.clone());
        }
    }
}
