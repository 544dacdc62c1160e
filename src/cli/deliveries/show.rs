//! Owns how changes look: as a unified diff, as `git` shows one, and as a list with counts.

use crate::cli::output::{Piece, Style};
use crate::delivery::hunks::{Hunk, Side as Of, hunks};
use crate::wording::{counted, visible};
use crate::world::delivery::contents::{Difference, Side};
use crate::world::exec::compare::compared;

/// One line, in pieces with their looks.
pub(super) type Line = Vec<(Style, String)>;

/// How a change looks on one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    /// Lines that come.
    pub(super) added: usize,
    /// Lines that go.
    pub(super) removed: usize,
    /// What is to be said where there are no lines to count.
    pub(super) word: Option<&'static str>,
}

/// All lines of a change, under this name.
pub(super) fn lines(difference: &Difference, name: &str) -> Vec<Line> {
    let mut lines = vec![strong(format!("diff --massgen a/{name} b/{name}"))];
    if let Some((before, after)) = difference.modes {
        lines.push(strong(format!("old mode {before:o}")));
        lines.push(strong(format!("new mode {after:o}")));
    }
    let side = |side: &Side, prefix: &str| match side {
        Side::Nothing => "/dev/null".to_owned(),
        Side::Text(_) | Side::Binary | Side::Link(_) | Side::Directory | Side::Lost => {
            format!("{prefix}/{name}")
        }
    };
    let (old, new) = (text(&difference.before), text(&difference.after));
    match (old, new) {
        (Some(old), Some(new)) if old != new => {
            lines.push(strong(format!("--- {}", side(&difference.before, "a"))));
            lines.push(strong(format!("+++ {}", side(&difference.after, "b"))));
            for hunk in hunks(&compared(&old, &new)) {
                lines.extend(hunk_lines(&hunk));
            }
        }
        (Some(_), Some(_)) => {}
        _ => lines.push(vec![(Style::Plain, in_words(difference))]),
    }
    lines
}

/// The lines of one hunk.
pub(super) fn hunk_lines(hunk: &Hunk) -> Vec<Line> {
    let mut lines = vec![vec![(Style::Agent(0), hunk.header())]];
    for (side, text) in &hunk.lines {
        let (style, sign) = match side {
            Of::Both => (Style::Plain, ' '),
            Of::Old => (Style::Bad, '-'),
            Of::New => (Style::Good, '+'),
        };
        for (place, part) in text.split('\n').enumerate() {
            // What follows a line break is the note that the line has no end.
            let line = if place == 0 {
                format!("{sign}{}", visible(part))
            } else {
                visible(part)
            };
            lines.push(vec![(style, line)]);
        }
    }
    lines
}

/// The counts of a change.
pub(super) fn stat(difference: &Difference) -> Stat {
    match (text(&difference.before), text(&difference.after)) {
        (Some(old), Some(new)) => {
            let counts = hunks(&compared(&old, &new)).iter().map(Hunk::counts).fold(
                (0_usize, 0_usize),
                |(added, removed), (more, less)| {
                    (added.saturating_add(more), removed.saturating_add(less))
                },
            );
            let word = (counts == (0, 0)).then_some(if difference.modes.is_some() {
                "mode"
            } else {
                "empty"
            });
            Stat {
                added: counts.0,
                removed: counts.1,
                word,
            }
        }
        _ => Stat {
            word: Some(word(difference)),
            ..Stat::default()
        },
    }
}

/// One line of a list: the name and the counts.
pub(super) fn stat_line(name: &str, stat: &Stat) -> Line {
    let mut line = vec![(Style::Plain, name.to_owned())];
    match stat.word {
        Some(word) => line.push((Style::Faint, format!("  {word}"))),
        None => line.extend([
            (Style::Good, format!("  +{}", stat.added)),
            (Style::Bad, format!(" -{}", stat.removed)),
        ]),
    }
    line
}

/// The pieces of `line` as the output takes them.
pub(super) fn pieces(line: &Line) -> Vec<Piece<'_>> {
    line.iter()
        .map(|(style, text)| (*style, text.as_str()))
        .collect()
}

fn strong(text: String) -> Line {
    vec![(Style::Strong, text)]
}

/// The line below a list.
pub(super) fn sum(stats: &[Stat]) -> String {
    let add = |of: fn(&Stat) -> usize| stats.iter().map(of).fold(0_usize, usize::saturating_add);
    let (added, removed) = (add(|stat| stat.added), add(|stat| stat.removed));
    format!(
        "{}, {} added, {removed} removed",
        counted(stats.len(), "file"),
        counted(added, "line")
    )
}

/// A side as a text that can be compared; nothing is an empty one.
fn text(side: &Side) -> Option<String> {
    match side {
        Side::Nothing => Some(String::new()),
        Side::Text(text) => Some(text.clone()),
        Side::Link(target) => Some(target.clone()),
        Side::Binary | Side::Directory | Side::Lost => None,
    }
}

fn word(difference: &Difference) -> &'static str {
    match (&difference.before, &difference.after) {
        (_, Side::Lost) => "changed since",
        (Side::Lost, _) => "not kept",
        (Side::Directory, Side::Directory) => "mode",
        (Side::Nothing, Side::Directory) => "new directory",
        (Side::Directory, _) => "directory gone",
        _ => "binary",
    }
}

fn in_words(difference: &Difference) -> String {
    match word(difference) {
        "binary" => "binary files differ".to_owned(),
        "changed since" => "what was delivered was changed since, and is not kept".to_owned(),
        other => other.to_owned(),
    }
}
