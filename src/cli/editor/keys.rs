//! Owns what keys do beside their usual work: while choices are open they choose, a colon behind one that
//! was taken joins it, and Ctrl-C clears the line before it leaves.

use rustyline::history::History;
use rustyline::{
    Cmd, ConditionalEventHandler, Editor, Event, EventContext, EventHandler, Helper, KeyCode,
    KeyEvent, Modifiers, Movement, RepeatCount,
};

use crate::cli::editor::state::{Interrupted, Shared, Step};
use crate::prompt::typing::mention_at;

/// A key that does something of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Up,
    Down,
    Tab,
    Enter,
    Write,
    Colon,
    Escape,
    Interrupt,
}

/// A key with what it changes.
struct Bound {
    key: Key,
    shared: Shared,
}

/// Binds the keys that choose, and Ctrl-C.
pub(super) fn bind<H: Helper, I: History>(editor: &mut Editor<H, I>, shared: &Shared) {
    let plain = |code| KeyEvent(code, Modifiers::NONE);
    let keys = [
        (plain(KeyCode::Up), Key::Up),
        (KeyEvent::ctrl('P'), Key::Up),
        (plain(KeyCode::Down), Key::Down),
        (KeyEvent::ctrl('N'), Key::Down),
        (plain(KeyCode::Tab), Key::Tab),
        (plain(KeyCode::Enter), Key::Enter),
        (KeyEvent::ctrl('W'), Key::Write),
        (plain(KeyCode::Char(':')), Key::Colon),
        (plain(KeyCode::Esc), Key::Escape),
        (KeyEvent::ctrl('C'), Key::Interrupt),
    ];
    for (event, key) in keys {
        let bound = Bound {
            key,
            shared: shared.clone(),
        };
        editor.bind_sequence(event, EventHandler::Conditional(Box::new(bound)));
    }
}

impl ConditionalEventHandler for Bound {
    fn handle(
        &self,
        _: &Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let mut state = self.shared.lock();
        let (line, cursor) = (context.line(), context.pos());
        let is_open = state.is_open(line, cursor);
        match self.key {
            Key::Interrupt if !line.is_empty() => {
                state.begin();
                state.interrupted = Interrupted::Once;
                Some(Cmd::Kill(Movement::WholeBuffer))
            }
            Key::Interrupt if state.interrupted == Interrupted::No => {
                state.interrupted = Interrupted::Once;
                Some(Cmd::Repaint)
            }
            Key::Interrupt => Some(Cmd::Interrupt),
            Key::Up if is_open => {
                state.step(Step::Up);
                Some(Cmd::Repaint)
            }
            Key::Down if is_open => {
                state.step(Step::Down);
                Some(Cmd::Repaint)
            }
            Key::Enter if is_open && state.is_complete(line, cursor) => None,
            Key::Tab | Key::Enter if is_open => Some(Cmd::Complete),
            Key::Tab if mention_at(line, cursor).is_some() => {
                state.reopen();
                Some(Cmd::Repaint)
            }
            Key::Write if is_open => {
                state.want_to_write();
                Some(Cmd::Complete)
            }
            // the colon of `:w` belongs to the path, not behind the space that came with it
            Key::Colon if state.is_behind_taken(line, cursor) => {
                state.join_colon();
                Some(Cmd::Complete)
            }
            Key::Escape if is_open => {
                state.close();
                Some(Cmd::Repaint)
            }
            Key::Up | Key::Down | Key::Tab | Key::Enter | Key::Write | Key::Colon | Key::Escape => {
                None
            }
        }
    }
}
