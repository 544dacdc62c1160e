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
}

/// Formats all lines of a change, under this name.
pub(crate) fn diff_lines(difference: &DeliveryDifference, name: &str) -> Vec<StyledLine> {
    let mut lines = vec![strong_line(format!("diff --massgen a/{name} b/{name}"))];
    if let Some((before, after)) = difference.modes {
        lines.push(strong_line(format!("old mode {before:o}")));
        lines.push(strong_line(format!("new mode {after:o}")));
    }
    let side = |side: &DiffSide, prefix: &str| match side {
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
            lines.push(strong_line(format!(
                "--- {}",
                side(&difference.before, "a")
            )));
            lines.push(strong_line(format!("+++ {}", side(&difference.after, "b"))));
            for hunk in hunks(&LineDiff::new(&old_text, &new_text)) {
                lines.extend(hunk_lines(&hunk));
            }
        }
        (Some(_), Some(_)) => {}
        _ => lines.push(vec![(TextStyle::Plain, describe_change(difference))]),
    }
    lines
}

/// Formats the lines of one hunk.
pub(crate) fn hunk_lines(hunk: &DiffHunk) -> Vec<StyledLine> {
    let mut lines = vec![vec![(TextStyle::Agent(0), hunk.header())]];
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
    match (side_text(&difference.before), side_text(&difference.after)) {
        (Some(old_text), Some(new_text)) => {
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
            }
        }
        _ => DiffStat {
            word: Some(change_word(difference)),
            ..DiffStat::default()
        },
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

fn change_word(difference: &DeliveryDifference) -> &'static str {
    match (&difference.before, &difference.after) {
        (_, DiffSide::Lost) => "changed since",
        (DiffSide::Lost, _) => "not kept",
        (DiffSide::Directory, DiffSide::Directory) => "mode",
        (DiffSide::Nothing, DiffSide::Directory) => "new directory",
        (DiffSide::Directory, _) => "directory removed",
        _ => "binary",
    }
}

fn describe_change(difference: &DeliveryDifference) -> String {
    match change_word(difference) {
        "binary" => "binary files differ".to_owned(),
        "changed since" => {
            "the delivered content was changed afterwards and is not kept".to_owned()
        }
        other => other.to_owned(),
    }
}
