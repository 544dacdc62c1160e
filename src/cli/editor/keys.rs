//! Key bindings of the line editor: keys that select while choices are shown, a colon that attaches
//! to an accepted choice, Ctrl-C, which clears the line first and leaves second, keys that begin a
//! new line, and Ctrl-X Ctrl-E, which opens the user's editor.

use rustyline::history::History;
use rustyline::{
    Cmd, ConditionalEventHandler, Editor, Event, EventContext, EventHandler, Helper, KeyCode,
    KeyEvent, Modifiers, Movement, RepeatCount, Word,
};

use crate::cli::editor::state::{LastKey, SelectionMove, SharedEditorState};
use crate::mentions::partial_mention::mention_at;

/// A key with a special meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditorKey {
    Up,
    Down,
    Tab,
    Enter,
    Write,
    Colon,
    Escape,
    Interrupt,
}

/// What xterm and others send after the part of Shift-Enter that the editor takes for an unknown
/// key (`CSI 27;2;13~`), before the tilde.
const SHIFT_ENTER_SUFFIX: &str = "13";

/// A key that concerns whole lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKey {
    /// Begins a new line.
    NewLine,
    /// A sequence that the editor does not know: terminals that report Shift-Enter send one.
    Unknown,
    /// The end of Shift-Enter on some terminals, or a tilde.
    Tilde,
    /// Opens the user's editor.
    OpenEditor,
}

/// A key for whole lines, with the state that it changes.
struct LineKeyBinding {
    key: LineKey,
    shared: SharedEditorState,
}

/// Binds the keys that begin a new line, and the one that opens the user's editor.
pub(super) fn bind_line_keys<H: Helper, I: History>(
    editor: &mut Editor<H, I>,
    shared: &SharedEditorState,
) {
    let key_event = |key: KeyEvent| Event::from(key);
    let keys = [
        (
            key_event(KeyEvent(KeyCode::Enter, Modifiers::ALT)),
            LineKey::NewLine,
        ),
        (
            key_event(KeyEvent(KeyCode::Enter, Modifiers::SHIFT)),
            LineKey::NewLine,
        ),
        (
            key_event(KeyEvent(KeyCode::UnknownEscSeq, Modifiers::NONE)),
            LineKey::Unknown,
        ),
        (
            key_event(KeyEvent(KeyCode::Char('~'), Modifiers::NONE)),
            LineKey::Tilde,
        ),
        (
            Event::KeySeq(vec![KeyEvent::ctrl('X'), KeyEvent::ctrl('E')]),
            LineKey::OpenEditor,
        ),
    ];
    bind_handlers(editor, keys, |key| LineKeyBinding {
        key,
        shared: shared.clone(),
    });
}

/// Binds each key sequence to the handler that `handler` makes for it.
pub(super) fn bind_handlers<H: Helper, I: History, K, E: ConditionalEventHandler + 'static>(
    editor: &mut Editor<H, I>,
    keys: impl IntoIterator<Item = (impl Into<Event>, K)>,
    handler: impl Fn(K) -> E,
) {
    for (event, key) in keys {
        let conditional_handler = EventHandler::Conditional(Box::new(handler(key)));
        editor.bind_sequence(event, conditional_handler);
    }
}

impl ConditionalEventHandler for LineKeyBinding {
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
        let (line, cursor) = (context.line(), context.pos());
        match self.key {
            LineKey::NewLine => Some(Cmd::Newline),
            LineKey::Unknown => {
                state.unknown_key_at = Some(cursor);
                Some(Cmd::Newline)
            }
            LineKey::Tilde => {
                let key_start = state.unknown_key_at.take()?;
                let sequence = line.get(key_start..cursor)?.strip_prefix('\n')?;
                (sequence == SHIFT_ENTER_SUFFIX).then(|| {
                    Cmd::Replace(Movement::BackwardWord(1, Word::Emacs), Some(String::new()))
                })
            }
            LineKey::OpenEditor => {
                state.opens_editor = true;
                Some(Cmd::AcceptLine)
            }
        }
    }
}

/// A key with the state that it changes.
struct KeyBinding {
    key: EditorKey,
    shared: SharedEditorState,
}

/// Binds the keys for choices, and Ctrl-C.
pub(super) fn bind_choice_keys<H: Helper, I: History>(
    editor: &mut Editor<H, I>,
    shared: &SharedEditorState,
) {
    let plain = |code| KeyEvent(code, Modifiers::NONE);
    let keys = [
        (plain(KeyCode::Up), EditorKey::Up),
        (KeyEvent::ctrl('P'), EditorKey::Up),
        (plain(KeyCode::Down), EditorKey::Down),
        (KeyEvent::ctrl('N'), EditorKey::Down),
        (plain(KeyCode::Tab), EditorKey::Tab),
        (plain(KeyCode::Enter), EditorKey::Enter),
        (KeyEvent::ctrl('W'), EditorKey::Write),
        (plain(KeyCode::Char(':')), EditorKey::Colon),
        (plain(KeyCode::Esc), EditorKey::Escape),
        (KeyEvent::ctrl('C'), EditorKey::Interrupt),
    ];
    bind_handlers(editor, keys, |key| KeyBinding {
        key,
        shared: shared.clone(),
    });
}

impl ConditionalEventHandler for KeyBinding {
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
        let (line, cursor) = (context.line(), context.pos());
        let is_open = state.is_open(line, cursor);
        match self.key {
            EditorKey::Interrupt if !line.is_empty() => {
                state.reset();
                state.last_key = LastKey::Interrupt;
                Some(Cmd::Kill(Movement::WholeBuffer))
            }
            EditorKey::Interrupt if state.last_key != LastKey::Interrupt => {
                state.last_key = LastKey::Interrupt;
                Some(Cmd::Repaint)
            }
            EditorKey::Interrupt => Some(Cmd::Interrupt),
            EditorKey::Up if is_open => {
                state.move_selection(SelectionMove::Up);
                Some(Cmd::Repaint)
            }
            EditorKey::Down if is_open => {
                state.move_selection(SelectionMove::Down);
                Some(Cmd::Repaint)
            }
            EditorKey::Enter if is_open && state.is_choice_typed(line, cursor) => None,
            EditorKey::Enter if state.choose_command(line, cursor) => Some(Cmd::AcceptLine),
            EditorKey::Tab | EditorKey::Enter if is_open => Some(Cmd::Complete),
            EditorKey::Tab if mention_at(line, cursor).is_some() => {
                state.reopen();
                Some(Cmd::Repaint)
            }
            EditorKey::Write if is_open => {
                state.request_write();
                Some(Cmd::Complete)
            }
            // The colon of `:w` belongs to the path, before the space that was inserted after it.
            EditorKey::Colon if state.is_after_accepted(line, cursor) => {
                state.join_colon();
                Some(Cmd::Complete)
            }
            EditorKey::Escape if is_open => {
                state.close();
                Some(Cmd::Repaint)
            }
            EditorKey::Up | EditorKey::Down => {
                state.last_key = LastKey::History;
                None
            }
            EditorKey::Tab
            | EditorKey::Enter
            | EditorKey::Write
            | EditorKey::Colon
            | EditorKey::Escape => None,
        }
    }
}
