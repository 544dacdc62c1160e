//! Assembles streamed pieces of text into complete lines, so that lines of agents that stream at
//! the same time are never mixed.

/// Maximum length of a printed line of a stream, in characters; a longer one is broken at a space,
/// so that a paragraph can be read while it arrives.
pub(crate) const LINE_CHARS_MAX: usize = 100;

/// Buffer of a stream for the line that is not complete yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineBuffer {
    pending_text: String,
}

impl LineBuffer {
    /// Adds a piece and returns the lines that it completes, without blank ones.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<String> {
        self.pending_text.push_str(piece);
        let mut lines = Vec::new();
        while let Some(line) = self.next_line() {
            lines.extend(Some(line).filter(|line| !line.is_empty()));
        }
        lines
    }

    /// Returns the rest as the last line.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.pending_text).trim_end().to_owned();
        Some(line).filter(|line| !line.is_empty())
    }

    fn next_line(&mut self) -> Option<String> {
        let newline = self.pending_text.find('\n');
        let limit = self
            .pending_text
            .char_indices()
            .nth(LINE_CHARS_MAX)
            .map(|(at, _)| at);
        let end = match (newline, limit) {
            (Some(newline), Some(limit)) if limit < newline => self.line_break_before(limit),
            (Some(newline), _) => newline,
            (None, Some(limit)) => self.line_break_before(limit),
            (None, None) => return None,
        };
        let (head, tail) = self.pending_text.split_at_checked(end)?;
        let line = head.trim_end().to_owned();
        // Strip only the space or newline that ended the line, and keep the indentation.
        self.pending_text = tail.strip_prefix(['\n', ' ']).unwrap_or(tail).to_owned();
        Some(line)
    }

    /// Returns where to break a line that must end before `end`: at its last space, or at `end`.
    fn line_break_before(&self, end: usize) -> usize {
        let line = self.pending_text.get(..end).unwrap_or_default();
        let indent = line.len().saturating_sub(line.trim_start().len());
        line.rfind(' ').filter(|at| *at > indent).unwrap_or(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: &[&str], rest: Option<&str>) {
        let mut lines = LineBuffer::default();
        let complete: Vec<String> = pieces.iter().flat_map(|piece| lines.push(piece)).collect();
        assert_eq!(complete, expected, "{pieces:?}");
        assert_eq!(lines.finish().as_deref(), rest, "{pieces:?}");
        assert_eq!(lines.finish(), None);
    }

    #[test]
    fn lines_are_whole_however_they_stream_in() {
        check(&["one\ntw", "o\n", "three"], &["one", "two"], Some("three"));
        check(
            &["  indented\n    more\n"],
            &["  indented", "    more"],
            None,
        );
        check(&["a\n\n\nb\n"], &["a", "b"], None);
        check(&["windows\r\n"], &["windows"], None);
        check(&[""], &[], None);
    }

    #[test]
    fn long_lines_are_broken_at_blanks() {
        let word = "x".repeat(60);
        check(&[&word, " ", &word], &[&word], Some(&word));
        let endless = "é".repeat(LINE_CHARS_MAX + 1);
        check(&[&endless], &[&"é".repeat(LINE_CHARS_MAX)], Some("é"));
        let indented = format!("{}{}", " ".repeat(90), "y".repeat(20));
        let (first, second) = indented.split_at(100);
        check(&[&indented], &[first], Some(second));
    }
}
