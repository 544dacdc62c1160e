//! What one agent said and did, in order and at length, for a view of that agent alone. It is
//! bounded: the oldest entries go first.

use std::collections::VecDeque;

use serde::Serialize;

use crate::run_view::EventPosition;

/// Maximum number of entries.
pub const ENTRIES_MAX: usize = 2_000;
/// Maximum length of all entries together, in bytes.
pub const TRANSCRIPT_BYTES_MAX: usize = 256 * 1024;
/// Maximum length of one entry, in bytes; a longer text continues in another entry.
pub const ENTRY_BYTES_MAX: usize = 16 * 1024;

/// Number of the last entries among which a call is found that has ended.
const ENTRIES_AMENDED_MAX: usize = 64;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Text of a reply.
    Text,
    /// Reasoning.
    Reasoning,
    /// A tool call.
    Call,
    /// The result of a tool call that succeeded.
    Result,
    /// The result of a tool call that failed.
    Failure,
    /// Why a tool call was denied.
    Denial,
    /// Anything else, as a sentence without its subject, which is the agent.
    Note,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TranscriptEntry {
    /// What it is.
    pub kind: EntryKind,
    /// When it began, in milliseconds after the start of the run.
    pub at_ms: u64,
    /// The text.
    pub text: String,
}

/// The entries, oldest first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Transcript {
    entries: VecDeque<TranscriptEntry>,
    /// The number of older entries that are not kept.
    dropped: u64,
    /// The length of all entries, in bytes.
    #[serde(skip)]
    byte_count: usize,
    /// Whether the last entry is a reply that is still streamed.
    #[serde(skip)]
    is_open: bool,
}

impl Transcript {
    /// Returns the entries, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &TranscriptEntry> + ExactSizeIterator {
        self.entries.iter()
    }

    /// Returns the number of older entries that are not kept.
    pub fn dropped_count(&self) -> u64 {
        self.dropped
    }

    /// Adds an entry of its own.
    pub(super) fn push(&mut self, kind: EntryKind, text: &str, at: EventPosition) {
        self.is_open = false;
        self.add(kind, text, at);
    }

    /// Replaces the text of the last call that has this one, if it is among the last entries.
    pub(super) fn amend_call(&mut self, text: &str, new_text: String) {
        let last_entries = self.entries.iter_mut().rev().take(ENTRIES_AMENDED_MAX);
        let mut calls = last_entries.filter(|entry| entry.kind == EntryKind::Call);
        if let Some(entry) = calls.find(|entry| entry.text == text) {
            self.byte_count = self.byte_count.saturating_add(new_text.len());
            self.byte_count = self.byte_count.saturating_sub(text.len());
            entry.text = new_text;
        }
    }

    /// Appends a streamed piece to the reply of the same kind, or begins one.
    pub(super) fn append(&mut self, kind: EntryKind, text: &str, at: EventPosition) {
        if self.is_open
            && let Some(last_entry) = self.entries.back_mut()
            && last_entry.kind == kind
            && last_entry.text.len().saturating_add(text.len()) <= ENTRY_BYTES_MAX
        {
            last_entry.text.push_str(text);
            self.byte_count = self.byte_count.saturating_add(text.len());
            self.drop_oldest();
        } else {
            self.add(kind, text, at);
            self.is_open = true;
        }
    }

    /// Ends the reply that is being streamed.
    pub(super) fn finish_entry(&mut self) {
        self.is_open = false;
    }

    fn add(&mut self, kind: EntryKind, text: &str, at: EventPosition) {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, text_after) = rest.split_at(rest.floor_char_boundary(ENTRY_BYTES_MAX));
            rest = text_after;
            self.byte_count = self.byte_count.saturating_add(piece.len());
            self.entries.push_back(TranscriptEntry {
                kind,
                at_ms: at.elapsed_ms,
                text: piece.to_owned(),
            });
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        while self.entries.len() > ENTRIES_MAX || self.byte_count > TRANSCRIPT_BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else {
                return;
            };
            self.byte_count = self.byte_count.saturating_sub(oldest.text.len());
            self.dropped = self.dropped.saturating_add(1);
        }
    }
}
