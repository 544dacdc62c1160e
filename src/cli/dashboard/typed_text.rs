//! A text that is typed on the dashboard. What is pasted into it is one piece, kept as it is and
//! shown folded if it does not belong into one line.

use std::ops::Range;

use crate::cli::cell_text::clean_line;
use crate::text::count_noun;

/// Length from which on a pasted text is shown folded even without a line break, in characters.
const FOLDED_CHARS_MIN: usize = 80;

/// A text with the pieces that were pasted into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TypedText {
    text: String,
    /// The pasted pieces that are shown folded, in bytes of the text, in order.
    folded_ranges: Vec<Range<usize>>,
}

impl TypedText {
    /// Creates a text that begins with `text`.
    pub(super) fn new(text: String) -> Self {
        Self {
            text,
            folded_ranges: Vec::new(),
        }
    }

    /// Returns the whole text.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the whole text.
    pub(super) fn into_string(self) -> String {
        self.text
    }

    /// Adds a typed character, unless the text would have more than `bytes_max` bytes.
    pub(super) fn push(&mut self, c: char, bytes_max: usize) {
        if self.text.len().saturating_add(c.len_utf8()) <= bytes_max {
            self.text.push(c);
        }
    }

    /// Removes the last character, or all of a folded piece at the end.
    pub(super) fn pop(&mut self) {
        let end = self.text.len();
        match self.folded_ranges.pop_if(|piece| piece.end == end) {
            Some(piece) => self.text.truncate(piece.start),
            None => {
                self.text.pop();
            }
        }
    }

    /// Adds a pasted text with its line breaks, but without those at its end and without control
    /// characters. Returns `false`, and adds nothing, if the text would have more than `bytes_max`
    /// bytes.
    pub(super) fn paste(&mut self, text: &str, bytes_max: usize) -> bool {
        // Before it is copied: a terminal may send any number of bytes.
        if text.len() > bytes_max {
            return false;
        }
        let unix_text = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut piece: String = unix_text
            .chars()
            .filter(|c| matches!(c, '\n' | '\t') || !c.is_control())
            .collect();
        piece.truncate(piece.trim_end_matches('\n').len());
        let start = self.text.len();
        let end = start.saturating_add(piece.len());
        if end > bytes_max {
            return false;
        }
        if piece.contains('\n') || piece.chars().count() >= FOLDED_CHARS_MIN {
            self.folded_ranges.push(start..end);
        }
        self.text.push_str(&piece);
        true
    }

    /// Returns the text as one clean line, with each folded piece as its size.
    pub(super) fn display_line(&self) -> String {
        let (mut line, mut at) = (String::new(), 0);
        for piece in &self.folded_ranges {
            line.push_str(self.text.get(at..piece.start).unwrap_or_default());
            let pasted_text = self.text.get(piece.clone()).unwrap_or_default();
            let size = match pasted_text.lines().count() {
                0 | 1 => count_noun(pasted_text.chars().count(), "character"),
                lines => count_noun(lines, "line"),
            };
            line.push_str("[pasted ");
            line.push_str(&size);
            line.push(']');
            at = piece.end;
        }
        line.push_str(self.text.get(at..).unwrap_or_default());
        clean_line(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More bytes than these texts have.
    const MAX: usize = 1000;

    #[test]
    fn a_pasted_text_is_one_piece_and_keeps_its_lines() {
        let mut text = TypedText::new("ann: ".to_owned());
        assert!(text.paste("see\rthis\r\nlog\u{1b}[31m\u{7}\n\n", MAX));
        text.push('!', MAX);
        assert!(text.paste("a short one", MAX));
        assert_eq!(text.display_line(), "ann: [pasted 3 lines]!a short one");
        assert_eq!(
            text.clone().into_string(),
            "ann: see\nthis\nlog[31m!a short one"
        );
        for _ in 0.."!a short one".len() {
            text.pop();
        }
        assert_eq!(text.display_line(), "ann: [pasted 3 lines]");
        text.pop();
        assert_eq!(text, TypedText::new("ann: ".to_owned()));
        text.pop();
        assert_eq!(text.into_string(), "ann:");
    }

    #[test]
    fn a_text_is_no_longer_than_allowed() {
        let mut text = TypedText::default();
        assert!(!text.paste(&"x".repeat(MAX + 1), MAX));
        assert!(text.paste(&"x".repeat(MAX - 1), MAX));
        assert_eq!(text.display_line(), "[pasted 999 characters]");
        assert!(!text.paste("yz", MAX));
        text.push('ä', MAX);
        text.push('y', MAX);
        text.push('z', MAX);
        assert_eq!(text.display_line(), "[pasted 999 characters]y");
        assert_eq!(text.into_string().len(), MAX);
    }

    #[test]
    fn several_pieces_are_folded_apart() {
        let mut text = TypedText::default();
        assert!(text.paste("a\nb", MAX) && text.paste("c\nd\ne", MAX));
        assert_eq!(text.display_line(), "[pasted 2 lines][pasted 3 lines]");
        text.pop();
        assert_eq!(text.display_line(), "[pasted 2 lines]");
        assert!(text.paste("", MAX));
        assert_eq!(text.into_string(), "a\nb");
    }
}
