//! Formats changes: as a unified diff like that of `git`, and as a list with counts.

use crate::cli::output::{StyledLine, TextStyle};
use crate::delivery::hunks::{DiffHunk, LineSide, hunks};
use crate::delivery::line_diff::LineDiff;
use crate::text::{count_noun, escape_line};
use crate::world::delivery::contents::{DeliveryDifference, DiffSide};

/// The size of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiffStat {
    /// Number of added lines.
    pub(crate) added: usize,
    /// Number of removed lines.
    pub(crate) removed: usize,
    /// What is printed instead if there are no lines to count.
    pub(crate) word: Option<&'static str>,
    /// What is changed in addition to the content.
    pub(crate) details: Option<String>,
}

/// Formats all lines of a change, under this name.
pub(crate) fn diff_lines(difference: &DeliveryDifference, name: &str) -> Vec<StyledLine> {
    let mut lines = vec![strong_line(format!("diff --massgen a/{name} b/{name}"))];
    if let Some(details) = &difference.details {
        lines.push(vec![(TextStyle::Warn, details.clone())]);
    }
    if let Some((before, after)) = difference.modes {
        lines.push(strong_line(format!("old mode {before:o}")));
        lines.push(strong_line(format!("new mode {after:o}")));
    }
    let side_path = |side: &DiffSide, prefix: &str| match side {
        DiffSide::Nothing => "/dev/null".to_owned(),
        DiffSide::Text(_)
        | DiffSide::Binary { .. }
        | DiffSide::Link(_)
        | DiffSide::Directory
        | DiffSide::Lost => {
            format!("{prefix}/{name}")
        }
    };
    match (side_text(&difference.before), side_text(&difference.after)) {
        (Some(old_text), Some(new_text)) if old_text != new_text => {
            let old_path = side_path(&difference.before, "a");
            let new_path = side_path(&difference.after, "b");
            lines.push(strong_line(format!("--- {old_path}")));
            lines.push(strong_line(format!("+++ {new_path}")));
            for hunk in hunks(&LineDiff::new(&old_text, &new_text)) {
                lines.extend(hunk_lines(&hunk));
            }
        }
        (Some(_), Some(_)) => {}
        _ => {
            let (_, sentence) = describe_change(difference);
            lines.push(vec![(TextStyle::Plain, sentence.to_owned())]);
        }
    }
    lines
}

/// Formats the lines of one hunk.
pub(crate) fn hunk_lines(hunk: &DiffHunk) -> Vec<StyledLine> {
    let mut lines = vec![vec![(TextStyle::HunkHeader, hunk.header())]];
    for (side, text) in &hunk.lines {
        let style = match side {
            LineSide::Both => TextStyle::Plain,
            LineSide::Old => TextStyle::Bad,
            LineSide::New => TextStyle::Good,
        };
        for (index, part) in text.split('\n').enumerate() {
            // A second part is the note that the line does not end with a newline.
            let line = if index == 0 {
                format!("{}{}", side.sign(), escape_line(part))
            } else {
                escape_line(part)
            };
            lines.push(vec![(style, line)]);
        }
    }
    lines
}

/// Counts the lines of a change.
pub(crate) fn diff_stat(difference: &DeliveryDifference) -> DiffStat {
    let texts = side_text(&difference.before).zip(side_text(&difference.after));
    let Some((old_text, new_text)) = texts else {
        let (word, _) = describe_change(difference);
        return DiffStat {
            word: Some(word),
            details: difference.details.clone(),
            ..DiffStat::default()
        };
    };
    let counts = LineDiff::new(&old_text, &new_text).counts();
    let word = (counts == (0, 0)).then_some(if difference.modes.is_some() {
        "mode"
    } else {
        "empty"
    });
    DiffStat {
        added: counts.0,
        removed: counts.1,
        word,
        details: difference.details.clone(),
    }
}

/// Formats one line of a list: the name and the counts.
pub(crate) fn stat_line(name: &str, stat: &DiffStat) -> StyledLine {
    let mut line = vec![(TextStyle::Plain, name.to_owned())];
    match stat.word {
        Some(word) => line.push((TextStyle::Faint, format!("  {word}"))),
        None => line.extend([
            (TextStyle::Good, format!("  +{}", stat.added)),
            (TextStyle::Bad, format!(" -{}", stat.removed)),
        ]),
    }
    if let Some(details) = &stat.details {
        line.push((TextStyle::Warn, format!("  {details}")));
    }
    line
}

fn strong_line(text: String) -> StyledLine {
    vec![(TextStyle::Strong, text)]
}

/// Formats the line below a list.
pub(crate) fn stat_summary(stats: &[DiffStat]) -> String {
    let sum = |count: fn(&DiffStat) -> usize| {
        let counts = stats.iter().map(count);
        counts.fold(0_usize, usize::saturating_add)
    };
    let (added, removed) = (sum(|stat| stat.added), sum(|stat| stat.removed));
    format!(
        "{}, {} added, {removed} removed",
        count_noun(stats.len(), "file"),
        count_noun(added, "line")
    )
}

/// Returns the content of a side for a line diff; a missing file is empty.
fn side_text(side: &DiffSide) -> Option<String> {
    match side {
        DiffSide::Nothing => Some(String::new()),
        DiffSide::Text(text) => Some(text.clone()),
        DiffSide::Link(target) => Some(target.clone()),
        DiffSide::Binary { .. } | DiffSide::Directory | DiffSide::Lost => None,
    }
}

/// Describes a change without lines that could be compared: in a word for the list, and in full.
fn describe_change(difference: &DeliveryDifference) -> (&'static str, &'static str) {
    match (&difference.before, &difference.after) {
        // The user has changed the file, so the delivered content exists nowhere.
        (_, DiffSide::Lost) => (
            "changed since",
            "the delivered content was changed afterwards and is not kept",
        ),
        // massgen's copy of the file that the delivery replaced was deleted.
        (DiffSide::Lost, _) => ("not kept", "not kept"),
        (DiffSide::Directory, DiffSide::Directory) => ("mode", "mode"),
        (DiffSide::Nothing, DiffSide::Directory) => ("new directory", "new directory"),
        (DiffSide::Directory, DiffSide::Nothing) => ("directory removed", "directory removed"),
        (DiffSide::Directory, _) => ("directory replaced", "directory replaced"),
        (_, DiffSide::Directory) => ("replaced by a directory", "replaced by a directory"),
        _ => ("binary", "binary files differ"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::AbsPath;

    #[track_caller]
    fn check(before: DiffSide, after: DiffSide, expected: &str) {
        let difference = DeliveryDifference {
            path: AbsPath::root(),
            before,
            after,
            details: None,
            modes: None,
        };
        assert_eq!(diff_stat(&difference).word, Some(expected));
    }

    #[test]
    fn a_file_that_becomes_a_directory_is_not_binary() {
        let text = || DiffSide::Text("a\n".to_owned());
        check(text(), DiffSide::Directory, "replaced by a directory");
        check(DiffSide::Nothing, DiffSide::Directory, "new directory");
        let binary = DiffSide::Binary {
            size_bytes: 1,
            sha256: None,
        };
        check(text(), binary, "binary");
    }
}
