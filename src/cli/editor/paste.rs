//! Tracks text pasted into the edited line, as far as the terminal marks it (bracketed paste). The
//! user may not have written such text.

use rustyline::history::History;
use rustyline::{
    Cmd, ConditionalEventHandler, Editor, Event, EventContext, Helper, KeyCode, KeyEvent,
    Modifiers, RepeatCount,
};

use crate::cli::editor::keys::bind_handlers;
use crate::cli::editor::state::SharedEditorState;

/// The texts that were pasted into a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PastedTexts {
    /// The line just before a paste whose text is not known yet.
    open: Option<LineBeforePaste>,
    texts: Vec<String>,
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
        self.open = Some(LineBeforePaste {
            line: line.to_owned(),
            cursor,
        });
    }

    /// Records the text of the paste that has begun, which resulted in `line`.
    pub(crate) fn end(&mut self, line: &str) {
        let Some(LineBeforePaste { line: old, cursor }) = self.open.take() else {
            return;
        };
        let (head, tail) = old.split_at_checked(cursor).unwrap_or((&old, ""));
        let inserted = line
            .strip_prefix(head)
            .and_then(|rest| rest.strip_suffix(tail));
        // If the rest of the line changed too, all of it counts as pasted.
        let inserted = inserted.unwrap_or(line);
        if !inserted.is_empty() {
            self.texts.push(inserted.to_owned());
        }
    }

    /// Returns everything that was pasted into the line, which is now complete.
    pub(crate) fn take(&mut self, line: &str) -> Vec<String> {
        self.end(line);
        std::mem::take(&mut self.texts)
    }
}

/// Makes `editor` record pastes: from the terminal, and with Ctrl-Y and Alt-Y from text that was
/// cut before, which may have been pasted then.
pub(super) fn bind<H: Helper, I: History>(editor: &mut Editor<H, I>, shared: &SharedEditorState) {
    let keys = [
        KeyEvent(KeyCode::BracketedPasteStart, Modifiers::NONE),
        KeyEvent::ctrl('Y'),
        KeyEvent::alt('y'),
    ];
    let keys = keys.map(|key| (key, ()));
    bind_handlers(editor, keys, |()| PasteHandler(shared.clone()));
}

/// Records that a paste begins, and lets the editor insert its text.
struct PasteHandler(SharedEditorState);

impl ConditionalEventHandler for PasteHandler {
    fn handle(
        &self,
        _: &Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let mut state = self.0.lock();
        state.pastes.begin(context.line(), context.pos());
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_text_is_distinguished_from_typed_text() {
        let mut pastes = PastedTexts::default();
        assert_eq!(pastes.take("typed"), Vec::<String>::new());
        pastes.begin("see  now", 4);
        pastes.end("see @a now");
        pastes.end("see @a now!");
        pastes.begin("see @a now!", 11);
        assert_eq!(pastes.take("see @a now!x\ny"), ["@a", "x\ny"]);
        // Two pastes with nothing typed between them.
        pastes.begin("", 0);
        pastes.begin("a", 1);
        assert_eq!(pastes.take("ab"), ["a", "b"]);
        // The editor changed the line in another way.
        pastes.begin("abc", 3);
        assert_eq!(pastes.take("xyz"), ["xyz"]);
    }
}
