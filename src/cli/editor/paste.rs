//! Tracks text pasted into the edited line, as far as the terminal marks it (bracketed paste). The
//! user may not have written such text. A long one is shown as a label, and sent whole.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use rustyline::history::History;
use rustyline::{
    Cmd, ConditionalEventHandler, Editor, Event, EventContext, Helper, KeyCode, KeyEvent,
    Modifiers, RepeatCount,
};

use crate::cli::editor::keys::bind_handlers;
use crate::cli::editor::state::SharedEditorState;
use crate::cli::editor::{EditorStyle, PASTE_PAUSE_MAX};
use crate::text::count_noun;
use crate::world::io::terminal_mode::has_input;

/// Number of lines from which on a pasted text is shown as a label.
const FOLDED_LINES_MIN: usize = 10;
/// Number of characters from which on a pasted text is shown as a label.
const FOLDED_CHARS_MIN: usize = 2000;
/// Number of characters of an unmarked paste before the rest of it is shown as a label.
const BURST_CHARS_SHOWN_MAX: usize = 1000;

/// The texts that were pasted into a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PastedTexts {
    /// The line just before a paste whose text is not known yet.
    pending_paste: Option<LineBeforePaste>,
    texts: Vec<String>,
    /// The beginning of a text that is arriving, key by key.
    incoming_text: Option<String>,
    /// The texts of which only labels are in the line.
    folded_texts: Vec<FoldedText>,
    /// The characters that have arrived without a pause, unmarked.
    burst: Option<KeyBurst>,
}

/// Characters that arrive faster than anyone types: pasted on a terminal that does not mark that.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyBurst {
    text: String,
    chars: usize,
    last_key: Instant,
}

/// A pasted text with its label in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FoldedText {
    label: String,
    text: String,
}

/// A line with its cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LineBeforePaste {
    line: String,
    cursor: usize,
}

impl PastedTexts {
    /// Records that text is about to be pasted into `line` at `cursor`, in bytes.
    fn begin(&mut self, line: &str, cursor: usize) {
        self.end(line);
        self.pending_paste = Some(LineBeforePaste {
            line: line.to_owned(),
            cursor,
        });
    }

    /// Takes a key outside of a marked paste. Once many characters have arrived without a pause,
    /// the following ones are shown as a label, because drawing the line for each takes the longer
    /// the more there are. `None` if the editor inserts the key.
    fn take_unmarked(
        &mut self,
        key: Option<KeyEvent>,
        now: Instant,
        is_input_waiting: impl Fn() -> bool,
    ) -> Option<Cmd> {
        let Some(KeyEvent(KeyCode::Char(c), Modifiers::NONE)) = key else {
            self.end_burst();
            return None;
        };
        let is_typed = |burst: &KeyBurst| {
            now.duration_since(burst.last_key) > PASTE_PAUSE_MAX && !is_input_waiting()
        };
        if self.burst.as_ref().is_some_and(is_typed) {
            self.end_burst();
        }
        let burst = self.burst.get_or_insert_with(|| KeyBurst {
            text: String::new(),
            chars: 0,
            last_key: now,
        });
        burst.text.push(c);
        burst.chars = burst.chars.saturating_add(1);
        burst.last_key = now;
        match burst.chars.cmp(&BURST_CHARS_SHOWN_MAX) {
            Ordering::Less => None,
            Ordering::Equal => {
                let label = self.label("the rest");
                self.folded_texts.push(FoldedText {
                    label: label.clone(),
                    text: c.to_string(),
                });
                Some(Cmd::Insert(1, label))
            }
            Ordering::Greater => {
                if let Some(folded) = self.folded_texts.last_mut() {
                    folded.text.push(c);
                }
                Some(Cmd::Noop)
            }
        }
    }

    /// Records the text of a long burst as pasted.
    fn end_burst(&mut self) {
        let burst = self.burst.take();
        let long_burst = burst.filter(|burst| burst.chars >= BURST_CHARS_SHOWN_MAX);
        self.texts.extend(long_burst.map(|burst| burst.text));
    }

    /// Returns a label for the next text of which only a label is shown.
    fn label(&self, size: &str) -> String {
        match self.folded_texts.len() {
            0 => format!("[pasted text, {size}]"),
            earlier => format!("[pasted text {}, {size}]", earlier.saturating_add(1)),
        }
    }

    /// Records the text of the paste that has begun, which resulted in `line`.
    pub(crate) fn end(&mut self, line: &str) {
        let Some(LineBeforePaste { line: old, cursor }) = self.pending_paste.take() else {
            return;
        };
        let (head, tail) = old.split_at_checked(cursor).unwrap_or((&old, ""));
        let insertion = line
            .strip_prefix(head)
            .and_then(|rest| rest.strip_suffix(tail));
        // If the rest of the line changed too, all of it counts as pasted.
        let inserted = insertion.unwrap_or(line);
        if !inserted.is_empty() {
            self.texts.push(inserted.to_owned());
        }
    }

    /// Records that a text begins to arrive.
    fn begin_incoming(&mut self) {
        self.incoming_text = Some(String::new());
    }

    /// Takes a key of the text that is arriving: none of them is a command. Returns what the editor
    /// does instead; `None` if it does what the key means. `count` is how often the key counts.
    pub(crate) fn take_key(&mut self, event: &Event, count: RepeatCount) -> Option<Cmd> {
        let key = event.get(0).copied();
        let Some(incoming_text) = self.incoming_text.as_mut() else {
            return self.take_unmarked(key, Instant::now(), || has_input(Duration::ZERO));
        };
        if key != Some(KeyEvent(KeyCode::BracketedPasteEnd, Modifiers::NONE)) {
            incoming_text.extend(key.and_then(pasted_char));
            return Some(Cmd::Noop);
        }
        let inserted = self.end_incoming();
        // A count comes from a key in the text.
        let is_inserted = count == 1 && !inserted.is_empty();
        Some(if is_inserted {
            Cmd::Insert(1, inserted)
        } else {
            Cmd::Noop
        })
    }

    /// Records the text that has arrived, and returns what is inserted into the line for it: the
    /// text, or the label of a long one.
    fn end_incoming(&mut self) -> String {
        let text = self.incoming_text.take().unwrap_or_default();
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if text.is_empty() {
            return text;
        }
        self.texts.push(text.clone());
        let (lines, chars) = (text.lines().count(), text.chars().count());
        let size = if lines >= FOLDED_LINES_MIN {
            count_noun(lines, "line")
        } else if chars >= FOLDED_CHARS_MIN {
            count_noun(chars, "character")
        } else {
            return text;
        };
        let label = self.label(&size);
        self.folded_texts.push(FoldedText {
            label: label.clone(),
            text,
        });
        label
    }

    /// Returns `line` with the texts in place of their labels. Labels in these texts are no labels.
    pub(crate) fn unfold(&self, line: &str) -> String {
        let mut unfolded = String::new();
        let mut remaining_line = line;
        while let Some((before, folded, after)) = self.split_at_label(remaining_line) {
            unfolded.push_str(before);
            unfolded.push_str(&folded.text);
            remaining_line = after;
        }
        unfolded.push_str(remaining_line);
        unfolded
    }

    /// Splits `line` at its first label.
    fn split_at_label<'t>(&self, line: &'t str) -> Option<(&'t str, &FoldedText, &'t str)> {
        let splits = self.folded_texts.iter().filter_map(|folded| {
            let (before, after) = line.split_once(folded.label.as_str())?;
            Some((before, folded, after))
        });
        splits.min_by_key(|(before, _, _)| before.len())
    }

    /// Returns everything that was pasted into the line, which is now complete.
    pub(crate) fn take_texts(&mut self, line: &str) -> Vec<String> {
        self.end(line);
        self.end_burst();
        std::mem::take(&mut self.texts)
    }
}

/// Returns the character that a key of a pasted text stands for; `None` for a key that is no text.
fn pasted_char(key: KeyEvent) -> Option<char> {
    match key {
        KeyEvent(KeyCode::Char(c), Modifiers::NONE) => Some(c),
        KeyEvent(KeyCode::Char('J'), Modifiers::CTRL) => Some('\n'),
        KeyEvent(KeyCode::Enter, Modifiers::NONE) => Some('\r'),
        KeyEvent(KeyCode::Tab, Modifiers::NONE) => Some('\t'),
        _ => None,
    }
}

/// A key that concerns pasted text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PasteKey {
    /// A text begins to arrive, which the editor inserts by itself.
    Paste,
    /// A text begins to arrive, which may be shown as a label.
    FoldedPaste,
    /// A text is inserted that was cut before.
    Yank,
    /// Another key, which may be part of a text.
    Other,
}

/// Makes `editor` record pastes: from the terminal, and with Ctrl-Y and Alt-Y from text that was
/// cut before, which may have been pasted then. In full style, long texts are shown as labels.
pub(super) fn bind<H: Helper, I: History>(
    editor: &mut Editor<H, I>,
    shared: &SharedEditorState,
    style: EditorStyle,
) {
    let paste_key = match style {
        EditorStyle::Full => PasteKey::FoldedPaste,
        EditorStyle::Plain | EditorStyle::Simple => PasteKey::Paste,
    };
    let start_event = KeyEvent(KeyCode::BracketedPasteStart, Modifiers::NONE);
    let keys = [
        (Event::from(start_event), paste_key),
        (Event::from(KeyEvent::ctrl('Y')), PasteKey::Yank),
        (Event::from(KeyEvent::alt('y')), PasteKey::Yank),
    ];
    let other_keys = (style != EditorStyle::Simple).then_some((Event::Any, PasteKey::Other));
    bind_handlers(editor, keys.into_iter().chain(other_keys), |key| {
        PasteHandler {
            key,
            shared: shared.clone(),
        }
    });
}

/// Records pasted text.
struct PasteHandler {
    key: PasteKey,
    shared: SharedEditorState,
}

impl ConditionalEventHandler for PasteHandler {
    fn handle(
        &self,
        event: &Event,
        count: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let mut state = self.shared.lock();
        if let Some(command) = state.pastes.take_key(event, count) {
            return Some(command);
        }
        match self.key {
            PasteKey::Paste | PasteKey::Yank => {
                state.pastes.begin(context.line(), context.pos());
                None
            }
            PasteKey::FoldedPaste => {
                state.pastes.begin_incoming();
                Some(Cmd::Noop)
            }
            PasteKey::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_text_is_distinguished_from_typed_text() {
        let mut pastes = PastedTexts::default();
        assert_eq!(pastes.take_texts("typed"), Vec::<String>::new());
        pastes.begin("see  now", 4);
        pastes.end("see @a now");
        pastes.end("see @a now!");
        pastes.begin("see @a now!", 11);
        assert_eq!(pastes.take_texts("see @a now!x\ny"), ["@a", "x\ny"]);
        // Two pastes with nothing typed between them.
        pastes.begin("", 0);
        pastes.begin("a", 1);
        assert_eq!(pastes.take_texts("ab"), ["a", "b"]);
        // The editor changed the line in another way.
        pastes.begin("abc", 3);
        assert_eq!(pastes.take_texts("xyz"), ["xyz"]);
    }

    /// Pastes `keys`, and returns what is inserted into the line.
    fn paste(pastes: &mut PastedTexts, keys: &str) -> Option<String> {
        pastes.begin_incoming();
        for key in keys.chars() {
            let is_taken = pastes.take_key(&KeyEvent::from(key).into(), 1);
            assert_eq!(is_taken, Some(Cmd::Noop), "{key:?}");
        }
        let end = KeyEvent(KeyCode::BracketedPasteEnd, Modifiers::NONE);
        let Some(Cmd::Insert(1, inserted)) = pastes.take_key(&end.into(), 1) else {
            return None;
        };
        Some(inserted)
    }

    #[test]
    fn a_long_text_has_a_label_in_the_line() {
        let mut pastes = PastedTexts::default();
        let enter = KeyEvent(KeyCode::Enter, Modifiers::NONE);
        assert_eq!(pastes.take_key(&enter.into(), 1), None);
        assert_eq!(paste(&mut pastes, ""), None);
        let short = paste(&mut pastes, "a\r\nb\rc\nd\te\u{3}\u{18}\u{7f}");
        assert_eq!(short.as_deref(), Some("a\nb\nc\nd\te"));
        let lines = "[pasted text 2, 2000 characters] x\r".repeat(FOLDED_LINES_MIN);
        let first = paste(&mut pastes, &lines).unwrap();
        assert_eq!(first, "[pasted text, 10 lines]");
        let second = paste(&mut pastes, &"\u{e9}".repeat(FOLDED_CHARS_MIN)).unwrap();
        assert_eq!(second, "[pasted text 2, 2000 characters]");
        let whole = pastes.unfold(&format!("see {second}, {first} [pasted text, 11 lines]"));
        let expected = format!(
            "see {}, {} [pasted text, 11 lines]",
            "\u{e9}".repeat(FOLDED_CHARS_MIN),
            lines.replace('\r', "\n")
        );
        assert_eq!(whole, expected);
        assert_eq!(pastes.take_texts("").len(), 3);
        // Keys that arrive without a pause, unmarked.
        let mut pastes = PastedTexts::default();
        let mut inserted = String::new();
        let now = Instant::now();
        for c in "ab".repeat(BURST_CHARS_SHOWN_MAX).chars() {
            match pastes.take_unmarked(Some(KeyEvent::from(c)), now, || false) {
                Some(Cmd::Insert(1, label)) => inserted.push_str(&label),
                Some(command) => assert_eq!(command, Cmd::Noop),
                None => inserted.push(c),
            }
        }
        assert!(
            inserted.ends_with("ba[pasted text, the rest]"),
            "{inserted}"
        );
        let whole = "ab".repeat(BURST_CHARS_SHOWN_MAX);
        assert_eq!(pastes.unfold(&inserted), whole);
        assert_eq!(pastes.take_texts(""), [whole]);
        // Control: typed keys are not pasted.
        let second = Duration::from_secs(1);
        for (key, time) in ["a"; BURST_CHARS_SHOWN_MAX].iter().zip(0_u32..) {
            let key = key.chars().next().map(KeyEvent::from);
            assert_eq!(
                pastes.take_unmarked(key, now + second * time, || false),
                None
            );
        }
        assert_eq!(pastes.take_texts(""), Vec::<String>::new());
        // Control: without labels, the line is what it is.
        assert_eq!(PastedTexts::default().unfold(&first), first);
    }
}
