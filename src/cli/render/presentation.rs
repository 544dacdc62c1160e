//! What the final agent says while it presents, if it is shown on the terminal where the answer
//! belongs: its Markdown is rendered block by block as it arrives, so that the answer is shown once.

use crate::cli::markdown_lines::{StyledLine, markdown_lines};
use crate::id::AgentId;
use crate::markdown::{MarkdownBlock, parse, parse_complete};

/// Maximum width of rendered text, in columns; longer lines are hard to read.
const COLUMNS_MAX: usize = 100;
/// Width if that of the terminal is not known, in columns.
const COLUMNS_DEFAULT: usize = 80;

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
    /// The agent.
    pub(super) agent: AgentId,
    /// How it is shown.
    pub(super) mode: MarkdownMode,
    /// Its text since its last request.
    text: String,
    /// The length of the beginning of the text that was rendered, in bytes.
    rendered: usize,
}

impl Presentation {
    /// Starts a presentation that has said nothing.
    pub(super) fn new(agent: AgentId, mode: MarkdownMode) -> Self {
        Self {
            agent,
            mode,
            text: String::new(),
            rendered: 0,
        }
    }

    /// Starts the next reply.
    pub(super) fn start_reply(&mut self) {
        self.text.clear();
        self.rendered = 0;
    }

    /// Adds a piece, and returns the lines of the blocks that it completes.
    pub(super) fn push(&mut self, piece: &str) -> Vec<StyledLine> {
        self.text.push_str(piece);
        if self.mode == MarkdownMode::Source || !piece.contains('\n') {
            return Vec::new();
        }
        let (blocks, length) = parse_complete(self.unrendered());
        self.render(&blocks, length)
    }

    /// Returns the lines of the blocks that were not rendered yet.
    pub(super) fn finish(&mut self) -> Vec<StyledLine> {
        if self.mode == MarkdownMode::Source {
            return Vec::new();
        }
        let blocks = parse(self.unrendered());
        self.render(&blocks, self.unrendered().len())
    }

    /// Returns whether the reply is `answer`, apart from space around it.
    pub(super) fn is_answer(&self, answer: &str) -> bool {
        self.text.trim() == answer.trim()
    }

    fn unrendered(&self) -> &str {
        self.text.get(self.rendered..).unwrap_or_default()
    }

    /// Renders `blocks`, which are the next `length` bytes of the text.
    fn render(&mut self, blocks: &[MarkdownBlock], length: usize) -> Vec<StyledLine> {
        let is_continued = self.rendered > 0;
        self.rendered = self.rendered.saturating_add(length);
        let mut lines = markdown_lines(blocks, columns());
        if is_continued && !lines.is_empty() {
            lines.insert(0, StyledLine::default());
        }
        lines
    }
}

/// Renders a whole answer.
pub(super) fn answer_lines(answer: &str) -> Vec<StyledLine> {
    markdown_lines(&parse(answer), columns())
}

/// Returns the width of rendered text on this terminal.
fn columns() -> usize {
    let size = crate::world::diagnostics::probe::terminal::terminal_size();
    size.map_or(COLUMNS_DEFAULT, |size| usize::from(size.columns))
        .min(COLUMNS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_rendered_when_they_are_complete_and_once() {
        let mut said = Presentation::new(AgentId::parse("a").unwrap(), MarkdownMode::Rendered);
        let shown = |lines: Vec<StyledLine>| -> Vec<String> {
            let text = |line: &StyledLine| {
                let pieces = line.to_output().into_iter();
                pieces.map(|(_, text)| text).collect::<String>()
            };
            lines.iter().map(text).collect()
        };
        assert_eq!(shown(said.push("# One\nT")), ["One"]);
        assert_eq!(shown(said.push("wo")), [""; 0]);
        assert_eq!(shown(said.push("\n\n- a\n")), ["", "Two"]);
        assert_eq!(shown(said.push("- b\n")), [""; 0]);
        assert_eq!(shown(said.finish()), ["", "- a", "- b"]);
        assert_eq!(shown(said.finish()), [""; 0]);
        assert!(said.is_answer("# One\nTwo\n\n- a\n- b"));
        said.start_reply();
        assert_eq!(shown(said.push("x")), [""; 0]);
        assert_eq!(shown(said.finish()), ["x"]);
    }

    #[test]
    fn source_is_left_to_the_lines() {
        let mut said = Presentation::new(AgentId::parse("a").unwrap(), MarkdownMode::Source);
        assert!(said.push("# One\n\nTwo\n").is_empty() && said.finish().is_empty());
        assert!(said.is_answer("# One\n\nTwo"));
    }
}
