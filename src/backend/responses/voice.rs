//! Owns the texts of a reply. A text may come in pieces, whole, or both; it is heard once. Pure.

use std::collections::BTreeSet;

/// Where a text stands: the position of its item, and which of the item's parts it is.
pub(super) type Place = (usize, u64);

/// One kind of texts of a reply, as far as they have been heard.
#[derive(Debug, Default)]
pub(super) struct Voice {
    heard: BTreeSet<Place>,
    last: Option<Place>,
}

impl Voice {
    /// More of the text at `place`. A blank line parts it from the text before.
    pub(super) fn piece(&mut self, place: Place, text: &str) -> Option<String> {
        if text.is_empty() {
            return None;
        }
        self.heard.insert(place);
        let before = self.last.replace(place);
        let is_another = before.is_some_and(|before| before != place);
        Some(if is_another {
            format!("\n\n{text}")
        } else {
            text.to_owned()
        })
    }

    /// The whole text at `place`, unless it has been heard in pieces.
    pub(super) fn whole(&mut self, place: Place, text: &str) -> Option<String> {
        if self.heard.contains(&place) {
            None
        } else {
            self.piece(place, text)
        }
    }
}
