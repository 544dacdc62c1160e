//! What the final agent says while it presents, if it is shown on the terminal where the answer
//! belongs: its Markdown is rendered block by block as it arrives, so that the answer is shown
//! once.

use crate::cli::markdown_lines::markdown_lines;
use crate::cli::output::StyledLine;
use crate::id::AgentId;
use crate::markdown::{MarkdownBlock, parse, parse_complete};
use crate::world::diagnostics::probe::terminal::stdout_columns;

/// Maximum width of rendered text, in columns; longer lines are hard to read.
const COLUMNS_MAX: usize = 100;
/// An unfinished block is parsed again once it has grown by its length divided by this number, so
/// that the time to parse a text grows with its length and not with the square of its length.
const REPARSE_GROWTH_DIVISOR: usize = 8;

/// Whether Markdown is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkdownMode {
    /// As styled text.
    Rendered,
    /// As it is.
    Source,
}

/// The reply of the agent that presents.
#[derive(Debug)]
pub(super) struct Presentation {
    pub(super) agent: AgentId,
    /// How it is shown.
    pub(super) mode: MarkdownMode,
    /// Its text since its last request.
    text: String,
    /// The length of the beginning of the text that was rendered, in bytes.
    rendered_length: usize,
    /// The length of the text at which it is parsed next, in bytes.
    next_parse_length: usize,
}

impl Presentation {
    /// Starts a presentation without any text.
    pub(super) fn new(agent: AgentId, mode: MarkdownMode) -> Self {
        Self {
            agent,
            mode,
            text: String::new(),
            rendered_length: 0,
            next_parse_length: 0,
        }
    }

    /// Starts the next reply.
    pub(super) fn start_reply(&mut self) {
        self.text.clear();
        self.rendered_length = 0;
        self.next_parse_length = 0;
    }

    /// Adds a piece, and returns the lines of the blocks that it completes.
    pub(super) fn push(&mut self, piece: &str) -> Vec<StyledLine> {
        self.text.push_str(piece);
        let is_due = piece.contains('\n') && self.text.len() >= self.next_parse_length;
        if self.mode == MarkdownMode::Source || !is_due {
            return Vec::new();
        }
        let (blocks, length) = parse_complete(self.unrendered_text());
        let lines = self.render(&blocks, length);
        let growth = self.unrendered_text().len() / REPARSE_GROWTH_DIVISOR;
        self.next_parse_length = self.text.len().saturating_add(growth);
        lines
    }

    /// Returns the lines of the blocks that were not rendered yet.
    pub(super) fn finish(&mut self) -> Vec<StyledLine> {
        if self.mode == MarkdownMode::Source {
            return Vec::new();
        }
        let blocks = parse(self.unrendered_text());
        self.render(&blocks, self.unrendered_text().len())
    }

    /// Returns whether the reply is `answer`, apart from space around it.
    pub(super) fn is_answer(&self, answer: &str) -> bool {
        self.text.trim() == answer.trim()
    }

    fn unrendered_text(&self) -> &str {
        self.text.get(self.rendered_length..).unwrap_or_default()
    }

    /// Renders `blocks`, which are the next `length` bytes of the text.
    fn render(&mut self, blocks: &[MarkdownBlock], length: usize) -> Vec<StyledLine> {
        let is_continued = self.rendered_length > 0;
        self.rendered_length = self.rendered_length.saturating_add(length);
        let mut lines = markdown_lines(blocks, text_width());
        if is_continued && !lines.is_empty() {
            lines.insert(0, StyledLine::new());
        }
        lines
    }
}

/// Renders a whole answer.
pub(super) fn answer_lines(answer: &str) -> Vec<StyledLine> {
    markdown_lines(&parse(answer), text_width())
}

/// Returns the width of rendered text on this terminal.
fn text_width() -> usize {
    stdout_columns().min(COLUMNS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_rendered_when_they_are_complete_and_once() {
        let mut presentation =
            Presentation::new(AgentId::parse("a").unwrap(), MarkdownMode::Rendered);
        let shown = |lines: Vec<StyledLine>| -> Vec<String> {
            let text = |line: &StyledLine| {
                let pieces = line.iter().map(|(_, text)| text.as_str());
                pieces.collect::<String>()
            };
            lines.iter().map(text).collect()
        };
        assert_eq!(shown(presentation.push("# One\nT")), ["One"]);
        assert_eq!(shown(presentation.push("wo")), [""; 0]);
        assert_eq!(shown(presentation.push("\n\n- a\n")), ["", "Two"]);
        assert_eq!(shown(presentation.push("- b\n")), [""; 0]);
        assert_eq!(shown(presentation.finish()), ["", "- a", "- b"]);
        assert_eq!(shown(presentation.finish()), [""; 0]);
        assert!(presentation.is_answer("# One\nTwo\n\n- a\n- b"));
        presentation.start_reply();
        assert_eq!(shown(presentation.push("x")), [""; 0]);
        assert_eq!(shown(presentation.finish()), ["x"]);
    }

    #[test]
    fn source_is_left_to_the_lines() {
        let mut presentation =
            Presentation::new(AgentId::parse("a").unwrap(), MarkdownMode::Source);
        assert!(presentation.push("# One\n\nTwo\n").is_empty() && presentation.finish().is_empty());
        assert!(presentation.is_answer("# One\n\nTwo"));
    }

    #[test]
    fn the_work_grows_with_the_length_of_a_block_and_not_with_its_square() {
        let mut presentation =
            Presentation::new(AgentId::parse("a").unwrap(), MarkdownMode::Rendered);
        assert!(presentation.push("```\n").is_empty());
        let mut parsed_bytes = 0_usize;
        for _ in 0..20_000 {
            let before = presentation.next_parse_length;
            assert!(presentation.push("a line of the code\n").is_empty());
            if presentation.next_parse_length != before {
                parsed_bytes += presentation.text.len();
            }
        }
        assert!(
            parsed_bytes < 20 * presentation.text.len(),
            "{parsed_bytes}"
        );
        assert_eq!(presentation.push("```\n\nafter\n").len(), 0);
        assert_eq!(presentation.finish().len(), 20_002);
    }
}
