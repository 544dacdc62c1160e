//! Prepares text for the cells of a frame: removes control sequences, shows hidden characters,
//! wraps lines by the width of their graphemes, and cuts no wide character in half.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::cli::output::{StyledLine, StyledPiece, TextStyle};
use crate::cli::terminal_text::clean_text;

/// Returns `text` as one clean line.
pub(super) fn clean_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clean_text(&words.join(" ")).into_owned()
}

/// Returns the number of columns that `text` takes.
pub(super) fn columns(text: &str) -> usize {
    if is_printable_ascii(text) {
        text.len()
    } else {
        text.width()
    }
}

/// Returns whether each byte of `text` is a character of one column. Most text is such text, and it
/// needs no graphemes.
pub(super) fn is_printable_ascii(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Wraps clean `text` into rows of at most `width` columns: between words, and within a word that
/// is longer than a row.
pub(super) fn wrap(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width.max(1));
    let mut rows = Vec::new();
    for line in text.split('\n') {
        wrap_line(line, width, &mut rows);
    }
    rows
}

fn wrap_line(line: &str, width: usize, rows: &mut Vec<String>) {
    let (mut row, mut row_columns) = (String::new(), 0_usize);
    for word in line.split_inclusive(' ') {
        let length = columns(word.trim_end_matches(' '));
        if row_columns > 0 && row_columns.saturating_add(length) > width {
            rows.push(std::mem::take(&mut row).trim_end().to_owned());
            row_columns = 0;
        }
        if length <= width {
            row.push_str(word);
            row_columns = row_columns.saturating_add(columns(word));
            continue;
        }
        for grapheme in word.graphemes(true) {
            let length = columns(grapheme);
            if row_columns.saturating_add(length) > width {
                rows.push(std::mem::take(&mut row));
                row_columns = 0;
            }
            if length <= width {
                row.push_str(grapheme);
                row_columns = row_columns.saturating_add(length);
            }
        }
    }
    rows.push(row.trim_end().to_owned());
}

/// Wraps `line` into rows of at most `width` columns, in the middle of words where it must, so that
/// nothing of it is left out. Each row after the first begins with the mark of a continuation.
pub(super) fn wrap_styled_line(line: &StyledLine, width: u16) -> Vec<StyledLine> {
    const CONTINUATION_MARK: &str = "… ";
    let width = usize::from(width).max(columns(CONTINUATION_MARK).saturating_add(2));
    let (mut rows, mut row, mut row_columns) = (Vec::new(), StyledLine::new(), 0_usize);
    for (style, text) in line {
        let mut piece = String::new();
        for grapheme in text.graphemes(true) {
            let length = columns(grapheme);
            if row_columns.saturating_add(length) > width {
                row.push((*style, std::mem::take(&mut piece)));
                rows.push(std::mem::take(&mut row));
                row.push((TextStyle::Faint, CONTINUATION_MARK.to_owned()));
                row_columns = columns(CONTINUATION_MARK);
            }
            piece.push_str(grapheme);
            row_columns = row_columns.saturating_add(length);
        }
        row.push((*style, piece));
    }
    rows.push(row);
    rows
}

/// Wraps `line` between words into rows of at most `width` columns. Each row after the first is
/// indented. Words that are longer than a row, and text between backticks, stay whole, so that
/// addresses and commands can be copied.
pub(super) fn wrap_styled_words(line: &[StyledPiece<'_>], width: usize) -> Vec<StyledLine> {
    const INDENT: &str = "    ";
    let (mut rows, mut row, mut row_columns) = (Vec::new(), StyledLine::new(), 0_usize);
    for (style, text) in line {
        let mut piece = String::new();
        for word in split_words(text) {
            let length = columns(word.trim_end_matches(' '));
            if row_columns > INDENT.len() && row_columns.saturating_add(length) > width {
                row.push((*style, std::mem::take(&mut piece)));
                rows.push(std::mem::take(&mut row));
                row.push((TextStyle::Plain, INDENT.to_owned()));
                row_columns = INDENT.len();
            }
            piece.push_str(word);
            row_columns = row_columns.saturating_add(columns(word));
        }
        row.push((*style, piece));
    }
    rows.push(row);
    rows
}

/// Splits `text` after the spaces that are not between backticks.
fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split_inclusive(move |character| {
        is_quoted ^= character == '`';
        character == ' ' && !is_quoted
    })
}

/// Cleans `text` and wraps it into lines of one style, each after `indent`.
pub(super) fn wrap_untrusted_text(
    text: &str,
    indent: &str,
    style: TextStyle,
    width: u16,
) -> Vec<StyledLine> {
    let indent_width = u16::try_from(columns(indent)).unwrap_or(u16::MAX);
    let text_width = width.saturating_sub(indent_width);
    let rows = wrap(clean_text(text).trim_end(), text_width);
    let line = |row: String| vec![(TextStyle::Plain, indent.to_owned()), (style, row)];
    rows.into_iter().map(line).collect()
}

/// Returns `text` as it fits into `width` columns, with `…` if something was cut off.
pub(super) fn fit(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    let (mut out, mut used) = (String::new(), 0_usize);
    for grapheme in text.graphemes(true) {
        used = used.saturating_add(columns(grapheme));
        if used >= width {
            break;
        }
        out.push_str(grapheme);
    }
    out.push('…');
    Cow::Owned(out)
}

/// Returns the end of `text` as it fits into `width` columns, after `…` if something was cut off.
pub(super) fn fit_end(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let (mut start, mut used) = (text.len(), 0_usize);
    for (index, grapheme) in text.grapheme_indices(true).rev() {
        used = used.saturating_add(columns(grapheme));
        if used >= width {
            break;
        }
        start = index;
    }
    format!("…{}", text.get(start..).unwrap_or_default())
}

/// Returns `text` in `width` columns, of which the last one is empty.
pub(super) fn pad(text: &str, width: usize) -> String {
    let text = fit(text, width.saturating_sub(1));
    let padding = width.saturating_sub(columns(&text));
    format!("{text}{}", " ".repeat(padding))
}

/// Formats a time since the start as a clock: `01:24`, then `1:02:03`.
pub(super) fn format_clock(elapsed_ms: u64) -> String {
    let seconds = elapsed_ms / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}")
    }
}

/// Formats a count in few characters: `9999`, `41k`, `1.2M`.
pub(super) fn format_count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{}.{}M", count / 1_000_000, count / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::plain_text;

    #[test]
    fn lines_are_wrapped_by_the_width_of_their_graphemes() {
        #[track_caller]
        fn check(text: &str, width: u16, expected: &[&str]) {
            assert_eq!(wrap(text, width), expected, "{text:?}");
            assert!(
                wrap(text, width)
                    .iter()
                    .all(|row| columns(row) <= usize::from(width))
            );
        }
        check("", 5, &[""]);
        check("one two three", 7, &["one two", "three"]);
        check("abcdefgh", 3, &["abc", "def", "gh"]);
        check("日本語", 5, &["日本", "語"]);
        check("日本語", 1, &["", "", "", ""]);
        check(
            "e\u{301}e\u{301}e\u{301}",
            2,
            &["e\u{301}e\u{301}", "e\u{301}"],
        );
        check("  indented", 20, &["  indented"]);
        check("a\n\nb", 5, &["a", "", "b"]);
        check(
            "ab 👩\u{200d}👩\u{200d}👧 c",
            5,
            &["ab 👩\u{200d}👩\u{200d}👧", "c"],
        );
    }

    #[test]
    fn a_wrapped_row_loses_nothing() {
        #[track_caller]
        fn check(pieces: &[&str], width: u16, expected: &[&str]) {
            let pieces = pieces.iter();
            let line: StyledLine = pieces
                .map(|text| (TextStyle::Good, (*text).to_owned()))
                .collect();
            let rows = wrap_styled_line(&line, width);
            let texts: Vec<String> = rows
                .iter()
                .map(|row| row.iter().map(|(_, text)| text.as_str()).collect())
                .collect();
            assert_eq!(texts, expected, "{line:?}");
        }
        check(&["+short"], 6, &["+short"]);
        check(&[""], 6, &[""]);
        check(
            &["+let x", " = hidden"],
            8,
            &["+let x =", "…  hidde", "… n"],
        );
        check(&["日本語テキスト"], 6, &["日本語", "… テキ", "… スト"]);
    }

    #[test]
    fn lines_for_people_are_wrapped_between_words() {
        #[track_caller]
        fn check(pieces: &[&str], width: usize, expected: &[&str]) {
            let pieces: Vec<StyledPiece<'_>> =
                pieces.iter().map(|text| (TextStyle::Good, *text)).collect();
            let rows = wrap_styled_words(&pieces, width);
            let texts: Vec<String> = rows.iter().map(plain_text).collect();
            assert_eq!(texts, expected, "{pieces:?}");
        }
        check(&["one"], 9, &["one"]);
        check(
            &["[a] ", "one two three"],
            12,
            &["[a] one two ", "    three"],
        );
        check(
            &["see ", "https://example.org/x y"],
            9,
            &["see https://example.org/x ", "    y"],
        );
        check(&["", ""], 9, &[""]);
        check(
            &["run `git add -p` now"],
            9,
            &["run `git add -p` ", "    now"],
        );
    }

    #[test]
    fn control_sequences_are_removed_before_cells_are_drawn() {
        assert_eq!(clean_text("a\u{1b}]0;t\u{7}b\tc\r"), "ab    c");
        assert_eq!(clean_text("user\u{202e}x"), "user\\u{202e}x");
        assert_eq!(clean_line("a\n\n b"), "a b");
    }

    #[test]
    fn a_text_that_does_not_fit_says_so() {
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit_end("abc", 3), "abc");
        assert_eq!(fit_end("abcd", 3), "…cd");
        assert_eq!(fit_end("日本語", 4), "…語");
        assert_eq!(fit_end("abcd", 0), "…");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(format_clock(84_000), "01:24");
        assert_eq!(format_clock(3_723_000), "1:02:03");
        assert_eq!(format_count(9_999), "9999");
        assert_eq!(format_count(41_234), "41k");
        assert_eq!(format_count(1_250_000), "1.2M");
    }
}
