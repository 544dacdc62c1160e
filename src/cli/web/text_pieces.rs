//! Pieces of replies as models stream them, before the log has them. They are bounded: a reader
//! that is slower than the models misses the oldest, and reads them in the log.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::event::{Event, ModelEvent};
use crate::id::AgentId;

/// Length of all pieces that are kept, in bytes.
const PIECES_BYTES_MAX: usize = 256 * 1024;

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct TextPiece {
    pub(super) agent: AgentId,
    /// `text` or `reasoning`.
    pub(super) kind: &'static str,
    /// The length of everything that the agent's models streamed before it, in bytes.
    pub(super) at: u64,
    pub(super) text: String,
}

/// The last pieces of all agents.
#[derive(Debug, Default)]
pub(super) struct TextPieces {
    /// The pieces that are kept, oldest first.
    list: VecDeque<TextPiece>,
    /// The length of the pieces that are kept, in bytes.
    byte_count: usize,
    /// The number of pieces that are not kept any more.
    dropped_count: u64,
    /// The length of everything that each agent's models streamed, in bytes.
    lengths: BTreeMap<AgentId, u64>,
}

impl TextPiece {
    /// Returns where the next piece of the same agent begins.
    pub(super) fn end(&self) -> u64 {
        self.at.saturating_add(length(&self.text))
    }
}

impl TextPieces {
    /// Adds the piece that `event` is; other events are ignored.
    pub(super) fn push(&mut self, event: &Event) {
        let (agent, kind, text) = if let Event::Model(ModelEvent::Text { agent, text }) = event {
            (agent, "text", text)
        } else if let Event::Model(ModelEvent::Reasoning { agent, text }) = event {
            (agent, "reasoning", text)
        } else {
            return;
        };
        let at = self.lengths.entry(agent.clone()).or_default();
        let piece = TextPiece {
            agent: agent.clone(),
            kind,
            at: *at,
            text: text.clone(),
        };
        *at = piece.end();
        self.byte_count = self.byte_count.saturating_add(text.len());
        self.list.push_back(piece);
        while self.byte_count > PIECES_BYTES_MAX {
            let Some(oldest) = self.list.pop_front() else {
                return;
            };
            self.byte_count = self.byte_count.saturating_sub(oldest.text.len());
            self.dropped_count = self.dropped_count.saturating_add(1);
        }
    }

    /// Returns the pieces from the one with the number `from`, joined where one continues another,
    /// and the number of the next piece.
    pub(super) fn read_from(&self, from: u64) -> (Vec<TextPiece>, u64) {
        let start = usize::try_from(from.saturating_sub(self.dropped_count)).unwrap_or(usize::MAX);
        let mut pieces: Vec<TextPiece> = Vec::new();
        for piece in self.list.iter().skip(start) {
            let mut newest_first = pieces.iter_mut().rev();
            match newest_first.find(|known| known.agent == piece.agent) {
                Some(last_piece)
                    if last_piece.kind == piece.kind && last_piece.end() == piece.at =>
                {
                    last_piece.text.push_str(&piece.text);
                }
                Some(_) | None => pieces.push(piece.clone()),
            }
        }
        let next_piece = self.dropped_count.saturating_add(piece_count(&self.list));
        (pieces, next_piece)
    }
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

fn piece_count(list: &VecDeque<TextPiece>) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ReplyTextKind;

    fn push(pieces: &mut TextPieces, agent: &str, kind: ReplyTextKind, text: &str) {
        let agent = AgentId::parse(agent).unwrap();
        pieces.push(&ModelEvent::from_piece(kind, agent, text.to_owned()).into());
    }

    fn shown_pieces(pieces: &[TextPiece]) -> Vec<String> {
        let show = |piece: &TextPiece| {
            let TextPiece {
                agent, at, text, ..
            } = piece;
            format!("{agent}@{at} {}: {text}", piece.kind)
        };
        pieces.iter().map(show).collect()
    }

    #[test]
    fn pieces_of_an_agent_are_joined() {
        let mut pieces = TextPieces::default();
        push(&mut pieces, "a", ReplyTextKind::Reasoning, "hm");
        push(&mut pieces, "a", ReplyTextKind::Text, "o");
        push(&mut pieces, "b", ReplyTextKind::Text, "two");
        push(&mut pieces, "a", ReplyTextKind::Text, "ne");
        let (read, next) = pieces.read_from(0);
        let expected = ["a@0 reasoning: hm", "a@2 text: one", "b@0 text: two"];
        assert_eq!(shown_pieces(&read), expected);
        push(&mut pieces, "b", ReplyTextKind::Text, "!");
        assert_eq!(shown_pieces(&pieces.read_from(next).0), ["b@3 text: !"]);
        assert_eq!(pieces.read_from(next + 1), (Vec::new(), next + 1));
    }

    #[test]
    fn the_oldest_pieces_go_first() {
        let mut pieces = TextPieces::default();
        for _ in 0..100 {
            push(&mut pieces, "a", ReplyTextKind::Text, &"x".repeat(10_000));
        }
        let (read, next) = pieces.read_from(0);
        assert_eq!((read.len(), next), (1, 100));
        assert_eq!(read[0].text.len(), 260_000);
        assert_eq!(read[0].end(), 1_000_000);
    }
}
