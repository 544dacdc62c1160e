//! Sanitizes text from models and files before it is shown: removes control sequences that a
//! terminal would obey, and escapes other invisible characters.

use std::borrow::Cow;

use crate::text::escape_text;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
const STRING_TERMINATOR: char = '\u{9c}';

/// Removes control sequences (CSI, OSC, DCS and similar ones, in 7 and 8 bits) and control
/// characters other than newline and tab from `text`, and escapes other invisible characters. Of a
/// sequence that does not end on its line, only the introducer is removed, so that it hides
/// nothing.
pub(crate) fn strip_control_sequences(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return escape_text(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut remaining_text = text;
    while let Some(c) = remaining_text.chars().next() {
        let after = rest_from(remaining_text, c.len_utf8());
        remaining_text = match c {
            ESCAPE => after_escape(after),
            '\u{9b}' => after_csi(after),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => after_string(after),
            _ => {
                if !is_control(c) {
                    out.push(c);
                }
                after
            }
        };
    }
    Cow::Owned(escape_text(&out).into_owned())
}

/// What a tab becomes where columns are counted.
const TAB: &str = "    ";

/// Returns `text` without control sequences, with visible hidden characters and without tabs, so
/// that its width can be counted. Line breaks stay.
pub(crate) fn clean_text(text: &str) -> Cow<'_, str> {
    let clean = strip_control_sequences(text);
    if clean.contains('\t') {
        Cow::Owned(clean.replace('\t', TAB))
    } else {
        clean
    }
}

fn is_control(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
}

/// Returns what follows the sequence that an escape character begins.
fn after_escape(text: &str) -> &str {
    match text.chars().next() {
        Some('[') => after_csi(rest_from(text, 1)),
        Some(']' | 'P' | 'X' | '^' | '_') => after_string(rest_from(text, 1)),
        _ => {
            let intermediate = text.trim_start_matches(|c| matches!(c, ' '..='/'));
            match intermediate.chars().next() {
                Some('0'..='~') => rest_from(intermediate, 1),
                _ => text,
            }
        }
    }
}

/// Returns what follows the parameters and the final byte of a control sequence.
fn after_csi(text: &str) -> &str {
    let final_part = text.trim_start_matches(|c| matches!(c, ' '..='?'));
    match final_part.chars().next() {
        Some('@'..='~') => rest_from(final_part, 1),
        _ => text,
    }
}

/// Returns what follows a control string, which ends with a bell or a string terminator.
fn after_string(text: &str) -> &str {
    let line = text.split('\n').next().unwrap_or_default();
    let seven_bits = line.find("\u{1b}\\").map(|at| (at, 2));
    let single = line
        .find([BELL, STRING_TERMINATOR])
        .map(|at| (at, line.get(at..).and_then(|end| end.chars().next())))
        .map(|(at, end)| (at, end.map_or(1, char::len_utf8)));
    match seven_bits.into_iter().chain(single).min() {
        Some((at, length)) => rest_from(text, at.saturating_add(length)),
        None => text,
    }
}

fn rest_from(text: &str, from: usize) -> &str {
    text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(strip_control_sequences(text), expected, "{text:?}");
    }

    #[test]
    fn control_sequences_are_removed_from_terminal_text() {
        check("a\u{1b}[31mred\u{1b}[0m", "ared");
        check("\u{9b}31mred", "red");
        check("\u{1b}]52;c;aGk=\u{7}clipboard", "clipboard");
        check("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link");
        check("\u{9d}0;title\u{9c}text", "text");
        check("\u{1b}Pq#0\u{1b}\\sixel", "sixel");
        check("\u{1b}(0line\u{1b}c", "line");
        check("a\rb\u{8}c\u{7f}d\0e", "abcde");
        check("user\u{202e}txt.exe", "user\\u{202e}txt.exe");
        check("a\u{1b}[1mb\u{e0041}", "ab\\u{e0041}");
    }

    #[test]
    fn a_sequence_without_an_end_hides_nothing() {
        check("\u{1b}]0;title\nnext line", "0;title\nnext line");
        check("\u{1b}[31", "31");
        check("\u{1b}", "");
        check("\u{1b}\u{1b}[1mx", "x");
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        check("", "");
        check("tab\tand\nnewline", "tab\tand\nnewline");
        check(
            "Grüße, 世界 👩\u{200d}💻 [31m",
            "Grüße, 世界 👩\u{200d}💻 [31m",
        );
    }
}
