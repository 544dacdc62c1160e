//! Owns the texts of a reply. A text may come in pieces, whole, or both; it is heard once. Pure.

use std::collections::BTreeSet;

/// Where a text stands: the position of its item, and which of the item's parts it is.
pub(super) type TextPosition = (usize, u64);

/// One kind of texts of a reply, as far as they have been heard.
#[derive(Debug, Default)]
pub(super) struct TextDeduplicator {
    seen: BTreeSet<TextPosition>,
    last: Option<TextPosition>,
}

impl TextDeduplicator {
    /// More of the text at `place`. A blank line parts it from the text before.
    pub(super) fn take_piece(&mut self, place: TextPosition, text: &str) -> Option<String> {
        if text.is_empty() {
            return None;
        }
        self.seen.insert(place);
        let before = self.last.replace(place);
        let is_another = before.is_some_and(|before| before != place);
        Some(if is_another {
            format!("\n\n{text}")
        } else {
            text.to_owned()
        })
    }

    /// The whole text at `place`, unless it has been heard in pieces.
    pub(super) fn take_whole(&mut self, place: TextPosition, text: &str) -> Option<String> {
        if self.seen.contains(&place) {
            None
        } else {
            self.take_piece(place, text)
        }
    }
}
