//! Owns what the line editor shows beside the line: the choices, which of them is chosen, whether they
//! were closed, and whether the next Ctrl-C leaves. Keys change it, and drawing reads it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cli::editor::choices::{Choice, Choices};
use crate::cli::editor::paste::Pastes;
use crate::permissions::grant::Permission;

/// What keys and drawing share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Arc<Mutex<State>>);

/// What is shown beside the line.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The choices for a line and a place in it.
    open: Option<Open>,
    /// Where the user wants none.
    closed: Closed,
    /// What the choice that is taken next asks for, if a key said so.
    wanted: Option<Permission>,
    /// Whether a colon is to take the place of the space behind what was taken.
    colon: Colon,
    /// Whether Ctrl-C was the last key.
    pub(crate) interrupted: Interrupted,
    /// What was pasted into the line.
    pub(crate) pastes: Pastes,
    /// How often the choices were made anew.
    pub(crate) generation: u64,
}

#[derive(Debug)]
struct Open {
    line: String,
    cursor: usize,
    choices: Choices,
    chosen: usize,
}

/// Where the user wants no choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Closed {
    /// They are wanted everywhere.
    #[default]
    Nowhere,
    /// They were closed for the word that begins here.
    Word(usize),
    /// One was taken, which made this line.
    Line {
        /// The line.
        made: String,
        /// Where what was put there ends, in bytes, the space behind it included.
        end: usize,
    },
}

/// Whether a colon is to take the place of the space behind what was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Colon {
    /// It is not.
    #[default]
    No,
    /// It is.
    Joins,
}

/// Whether Ctrl-C was the last key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// It was not.
    #[default]
    No,
    /// It was: the next one leaves.
    Once,
}

/// Which way the choice moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the one above.
    Up,
    /// To the one below.
    Down,
}

impl Shared {
    /// The state, for as long as this lives.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Forgets everything, for another line.
    pub(crate) fn begin(&mut self) {
        let generation = self.generation;
        *self = Self {
            generation: generation.wrapping_add(1),
            ..Self::default()
        };
    }

    /// Opens what was found for `line`, unless the user closed it. The choice stays at its place while
    /// the same is shown. Gives what is open, and which is chosen.
    pub(crate) fn open(
        &mut self,
        (line, cursor): (&str, usize),
        found: Option<Choices>,
    ) -> Option<(&Choices, usize)> {
        self.generation = self.generation.wrapping_add(1);
        let before = self.open.take();
        let found = found?;
        match &self.closed {
            Closed::Word(start) if *start == found.start => return None,
            Closed::Line { made, .. } if made == line => return None,
            Closed::Nowhere | Closed::Word(_) | Closed::Line { .. } => {
                self.closed = Closed::Nowhere;
            }
        }
        let same = before.filter(|before| before.line == line && before.cursor == cursor);
        let last = found.list.len().saturating_sub(1);
        let open = Open {
            line: line.to_owned(),
            cursor,
            chosen: same.map_or(0, |same| same.chosen).min(last),
            choices: found,
        };
        let open = self.open.insert(open);
        Some((&open.choices, open.chosen))
    }

    /// Puts `found` in the place of what is open, if nothing else was opened since.
    pub(crate) fn renew(&mut self, generation: u64, found: &Choices) -> Option<usize> {
        let open = self
            .open
            .as_mut()
            .filter(|_| self.generation == generation)?;
        open.choices = found.clone();
        open.chosen = open.chosen.min(found.list.len().saturating_sub(1));
        Some(open.chosen)
    }

    /// Whether choices are open for `line` with the cursor here, and there is something to choose.
    pub(crate) fn is_open(&self, line: &str, cursor: usize) -> bool {
        self.at(line, cursor)
            .is_some_and(|open| !open.choices.list.is_empty())
    }

    /// Whether any choices are shown.
    pub(crate) fn is_shown(&self) -> bool {
        self.open.is_some()
    }

    /// Whether the line already says all that the choice would make of it.
    pub(crate) fn is_complete(&self, line: &str, cursor: usize) -> bool {
        let Some(open) = self.at(line, cursor) else {
            return false;
        };
        let typed = line.get(open.choices.start..cursor).unwrap_or_default();
        let says =
            |choice: &Choice| choice.text == typed || choice.writable.as_deref() == Some(typed);
        open.choices.list.iter().any(says)
    }

    /// Moves the choice, around the ends.
    pub(crate) fn step(&mut self, step: Step) {
        if let Some(open) = &mut self.open {
            let count = open.choices.list.len();
            open.chosen = match step {
                Step::Up => open
                    .chosen
                    .checked_sub(1)
                    .unwrap_or(count.saturating_sub(1)),
                Step::Down if open.chosen.saturating_add(1) < count => {
                    open.chosen.saturating_add(1)
                }
                Step::Down => 0,
            };
        }
    }

    /// Says that the next choice that is taken shall be written.
    pub(crate) fn want_to_write(&mut self) {
        self.wanted = Some(Permission::Write);
    }

    /// Closes the choices for the word that is typed.
    pub(crate) fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.closed = Closed::Word(open.choices.start);
        }
    }

    /// Lets choices open again where the user closed them.
    pub(crate) fn reopen(&mut self) {
        self.closed = Closed::Nowhere;
    }

    /// Hides the choices: the cursor has left the word.
    pub(crate) fn leave(&mut self) {
        self.open = None;
    }

    /// Takes the choice: where it begins, and what is put there. The line that it makes gets no choices
    /// until it is changed.
    pub(crate) fn take(&mut self, line: &str, cursor: usize) -> Option<(usize, String)> {
        if std::mem::take(&mut self.colon) == Colon::Joins {
            return Some((cursor.checked_sub(1)?, ":".to_owned()));
        }
        self.at(line, cursor)?;
        let open = self.open.take()?;
        let wanted = self.wanted.take().unwrap_or(open.choices.permission);
        let choice = open.choices.list.into_iter().nth(open.chosen)?;
        let mut text = match (wanted, choice.writable) {
            (Permission::Write, Some(writable)) => writable,
            (Permission::Write, None) | (Permission::Read, _) => choice.text,
        };
        let after = line.get(cursor..).unwrap_or_default();
        if !text.ends_with('/') && !after.starts_with(char::is_whitespace) {
            text.push(' ');
        }
        let start = open.choices.start;
        let before = line.get(..start).unwrap_or_default();
        self.closed = Closed::Line {
            made: format!("{before}{text}{after}"),
            end: start.saturating_add(text.len()),
        };
        Some((start, text))
    }

    /// Says that what is put in next is a colon, in the place of the space before the cursor.
    pub(crate) fn join_colon(&mut self) {
        self.colon = Colon::Joins;
    }

    /// Whether a choice was taken just now, and the cursor stands behind the space that came with it.
    pub(crate) fn is_behind_taken(&self, line: &str, cursor: usize) -> bool {
        let Closed::Line { made, end } = &self.closed else {
            return false;
        };
        let has_space = line.get(..cursor).is_some_and(|text| text.ends_with(' '));
        made == line && *end == cursor && has_space
    }

    fn at(&self, line: &str, cursor: usize) -> Option<&Open> {
        self.open
            .as_ref()
            .filter(|open| open.line == line && open.cursor == cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::browse::Extent;

    fn found(start: usize) -> Choices {
        let choice = |name: &str| Choice {
            label: name.to_owned(),
            note: String::new(),
            text: format!("@{name}"),
            writable: Some(format!("@{name}:w")),
        };
        Choices {
            start,
            list: vec![choice("src/"), choice("src/a.rs")],
            matched: 2,
            extent: Extent::Whole,
            permission: Permission::Read,
        }
    }

    #[test]
    fn the_choice_goes_round_and_is_put_in_the_line() {
        let mut state = State::default();
        let (line, cursor) = ("see @s", 6);
        state.open((line, cursor), Some(found(4)));
        assert!(state.is_open(line, cursor) && !state.is_open(line, 5));
        state.step(Step::Up);
        state.want_to_write();
        let taken = state.take(line, cursor);
        assert_eq!(taken, Some((4, "@src/a.rs:w ".to_owned())));
        assert!(!state.is_open(line, cursor));
        state.open((line, cursor), Some(found(4)));
        assert_eq!(state.take(line, cursor), Some((4, "@src/".to_owned())));
        assert_eq!(state.open(("see @src/", 9), Some(found(4))), None);
        assert!(state.open(("see @src/m", 10), Some(found(4))).is_some());
    }

    #[test]
    fn what_is_typed_behind_a_choice_is_told_from_what_is_typed_later() {
        let mut state = State::default();
        state.open(("see @s", 6), Some(found(4)));
        state.step(Step::Down);
        assert!(!state.is_behind_taken("see @s", 6));
        state.take("see @s", 6);
        let line = "see @src/a.rs ";
        assert!(state.is_behind_taken(line, line.len()));
        assert!(!state.is_behind_taken(line, 4));
        assert!(!state.is_behind_taken("see @src/a.rs and ", 18));
        state.join_colon();
        let joined = state.take(line, line.len());
        assert_eq!(joined, Some((line.len() - 1, ":".to_owned())));
        state.begin();
        assert!(!state.is_behind_taken(line, line.len()));
    }

    #[test]
    fn what_was_closed_stays_closed_for_its_word() {
        let mut state = State::default();
        state.open(("@s", 2), Some(found(0)));
        state.close();
        assert_eq!(state.open(("@sr", 3), Some(found(0))), None);
        assert!(state.open(("@sr @s", 6), Some(found(4))).is_some());
        state.close();
        state.reopen();
        assert!(state.open(("@sr @s", 6), Some(found(4))).is_some());
    }

    #[test]
    fn a_path_that_is_typed_out_needs_no_choice() {
        let mut state = State::default();
        for (line, expected) in [
            ("@src/a.rs", true),
            ("@src/a.rs:w", true),
            ("@src/a", false),
        ] {
            state.open((line, line.len()), Some(found(0)));
            assert_eq!(state.is_complete(line, line.len()), expected, "{line}");
        }
    }
}
