//! Renders the completion choices below the line being edited: one line each, no wider than the
//! terminal, and a footer with the keys.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::cli::editor::choices::{CompletionChoice, CompletionChoices};
use crate::cli::terminal_text::strip_control_sequences;
use crate::permissions::grant::Permission;
use crate::world::io::file_finder::SearchExtent;

/// Prefix of the choice that Enter accepts.
pub(crate) const SELECTION_MARK: &str = " > ";
/// Prefix of the others.
const INDENT: &str = "   ";
/// Minimum width of a terminal that shows a note next to each choice, in columns.
const NOTE_COLUMNS_MIN: usize = 30;
/// Maximum width of a label before its note, in columns.
const LABEL_COLUMNS_MAX: usize = 60;

/// Renders the lines below the edited one, for a terminal of this many columns.
pub(crate) fn render_choices(
    choices: &CompletionChoices,
    selected_index: usize,
    columns: usize,
) -> String {
    let width = columns.saturating_sub(1).max(1);
    let longest = choices.list.iter().map(|choice| choice.label.width()).max();
    let label_width = longest.unwrap_or_default().min(LABEL_COLUMNS_MAX);
    let mut text = String::new();
    for (index, choice) in choices.list.iter().enumerate() {
        let mark = if index == selected_index {
            SELECTION_MARK
        } else {
            INDENT
        };
        text.push('\n');
        text.push_str(&choice_line(mark, choice, label_width, width));
    }
    text.push('\n');
    text.push_str(&truncate_end(&footer(choices, width), width));
    text
}

fn choice_line(mark: &str, choice: &CompletionChoice, label_width: usize, width: usize) -> String {
    let label = strip_control_sequences(&choice.label);
    let room = width.saturating_sub(mark.len());
    if width < NOTE_COLUMNS_MIN || choice.note.is_empty() {
        return format!("{mark}{}", truncate_start(&label, room));
    }
    let note_width = choice.note.width().min(room / 2);
    let label_width = label_width.min(room.saturating_sub(note_width).saturating_sub(2));
    let label = truncate_start(&label, label_width);
    let gap = " ".repeat(label_width.saturating_sub(label.width()).saturating_add(2));
    let line = format!("{mark}{label}{gap}{}", choice.note);
    truncate_end(&line, width)
}

fn footer(choices: &CompletionChoices, width: usize) -> String {
    let (shown_count, match_count) = (choices.list.len(), choices.match_count);
    let count = match choices.extent {
        SearchExtent::Part => format!("{shown_count} of {match_count} so far  "),
        SearchExtent::Whole if shown_count < match_count => {
            format!("{shown_count} of {match_count}  ")
        }
        SearchExtent::Whole => String::new(),
    };
    let is_path = choices
        .list
        .iter()
        .any(|choice| choice.write_text.is_some());
    let keys: &[&str] = match (is_path, choices.permission) {
        (true, Permission::Read) => &["Tab inserts, Ctrl-W to write, Esc closes", "Tab, ^W, Esc"],
        (true, Permission::Write) => &["Tab inserts, Esc closes", "Tab, Esc"],
        (false, _) => &[
            "Enter runs it, Tab inserts it, Esc closes",
            "Enter, Tab, Esc",
        ],
    };
    let line = |keys: &&str| format!("{INDENT}{count}{keys}");
    let lines: Vec<String> = keys.iter().map(line).collect();
    let fits = lines.iter().find(|line| line.width() <= width);
    fits.or(lines.last()).cloned().unwrap_or_default()
}

/// Returns the end of `text` in this many columns: it is the most informative part of a path.
fn truncate_start(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let shown_chars = fit_columns(text.chars().rev(), columns);
    shown_chars.iter().rev().collect()
}

/// Returns the beginning of `text` in this many columns.
fn truncate_end(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    fit_columns(text.chars(), columns).iter().collect()
}

/// Returns the first of `chars` that take fewer than this many columns, followed by an ellipsis.
fn fit_columns(chars: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut columns_left = columns.saturating_sub(1);
    let mut fitting = Vec::new();
    for c in chars {
        let width = c.width().unwrap_or(0);
        if width > columns_left {
            break;
        }
        columns_left = columns_left.saturating_sub(width);
        fitting.push(c);
    }
    fitting.push('…');
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(labels: &[&str], match_count: usize) -> CompletionChoices {
        let choice = |label: &&str| CompletionChoice {
            label: (*label).to_owned(),
            note: "1.2 kB".to_owned(),
            text: (*label).to_owned(),
            write_text: Some(String::new()),
        };
        CompletionChoices {
            start: 0,
            list: labels.iter().map(choice).collect(),
            match_count,
            extent: SearchExtent::Whole,
            permission: Permission::Read,
        }
    }

    #[track_caller]
    fn check(labels: &[&str], columns: usize, expected: &str) {
        let drawn = render_choices(&choices(labels, 12), 0, columns);
        assert_eq!(drawn, expected);
        for line in drawn.lines() {
            assert!(line.width() < columns, "{line}");
        }
    }

    #[test]
    fn each_choice_has_a_line() {
        check(
            &["src/main.rs", "b.rs"],
            80,
            "\n > src/main.rs  1.2 kB\n   b.rs         1.2 kB\n   2 of 12  Tab inserts, Ctrl-W to \
             write, Esc closes",
        );
    }

    #[test]
    fn a_narrow_terminal_shows_the_end_of_a_path() {
        check(
            &["a/very/long/path/that/does/not/fit/main.rs"],
            40,
            "\n > …h/that/does/not/fit/main.rs  1.2 kB\n   1 of 12  Tab, ^W, Esc",
        );
        check(&["日本語/main.rs"], 12, "\n > …main.rs\n   1 of 12…");
    }
}
