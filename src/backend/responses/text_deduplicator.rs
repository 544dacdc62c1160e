//! Deduplicates the texts of a reply. A text may arrive in pieces, whole, or both; it is emitted
//! once.

use std::collections::BTreeSet;

/// The position of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextPosition {
    /// The position of its item.
    pub(super) item: usize,
    /// The index of the part within the item.
    pub(super) part: u64,
}

/// The texts of one kind in a reply that have been emitted so far.
#[derive(Debug, Default)]
pub(super) struct TextDeduplicator {
    seen_positions: BTreeSet<TextPosition>,
    last: Option<TextPosition>,
}

impl TextDeduplicator {
    /// Returns more of the text at `position`, with a blank line before it if another text precedes
    /// it.
    pub(super) fn take_piece(&mut self, position: TextPosition, text: &str) -> Option<String> {
        if text.is_empty() {
            return None;
        }
        self.seen_positions.insert(position);
        let position_before = self.last.replace(position);
        let is_another = position_before.is_some_and(|before| before != position);
        Some(if is_another {
            format!("\n\n{text}")
        } else {
            text.to_owned()
        })
    }

    /// Returns the whole text at `position`, unless it has been emitted in pieces.
    pub(super) fn take_whole(&mut self, position: TextPosition, text: &str) -> Option<String> {
        if self.seen_positions.contains(&position) {
            None
        } else {
            self.take_piece(position, text)
        }
    }
}
