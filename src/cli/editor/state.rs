//! State of the line editor that key handlers change and drawing reads: the choices, the selected
//! one, whether they were closed, whether the next Ctrl-C leaves, and what was pasted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cli::editor::choices::{CompletionChoice, CompletionChoices};
use crate::cli::editor::paste::PastedTexts;
use crate::permissions::grant::Permission;

/// State that key handlers and drawing share.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedEditorState(Arc<Mutex<EditorState>>);

/// State of what is shown with the line.
#[derive(Debug, Default)]
pub(crate) struct EditorState {
    /// The choices for a line and a cursor position.
    open_choices: Option<OpenChoices>,
    /// Where the user does not want choices.
    dismissed_choices: DismissedChoices,
    /// The permission of the next accepted choice, if a key set it.
    requested_permission: Option<Permission>,
    /// Whether a colon will replace the space after an accepted choice.
    is_colon_pending: bool,
    /// The last key, if what follows depends on it.
    pub(crate) last_key: LastKey,
    /// The texts that were pasted into the line.
    pub(crate) pastes: PastedTexts,
    /// Whether the line was ended to be edited in the user's editor.
    pub(crate) opens_editor: bool,
    /// Where a key that the editor does not know began a new line, in bytes.
    pub(crate) unknown_key_at: Option<usize>,
    /// The command that was chosen in the place of the line.
    pub(crate) chosen_command: Option<String>,
    /// Incremented whenever the choices change.
    pub(crate) generation: u64,
}

/// The last key, if what follows depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LastKey {
    /// Any other.
    #[default]
    Other,
    /// Ctrl-C.
    Interrupt,
    /// One that may have recalled a line from the history.
    History,
}

/// Choices with the line and the cursor for which they are open.
#[derive(Debug)]
struct OpenChoices {
    line: String,
    cursor: usize,
    choices: CompletionChoices,
    selected_index: usize,
}

/// Where the user does not want choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum DismissedChoices {
    /// Choices are wanted everywhere.
    #[default]
    Nowhere,
    /// They were closed for the word that begins here.
    Word(usize),
    /// A choice was accepted, which resulted in this line.
    Line {
        /// The line.
        content: String,
        /// End of the inserted text including the space after it, in bytes.
        end: usize,
    },
}

/// Direction in which the selection moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectionMove {
    /// To the choice above.
    Up,
    /// To the choice below.
    Down,
}

impl SharedEditorState {
    /// Locks the state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, EditorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EditorState {
    /// Resets everything for another line.
    pub(crate) fn reset(&mut self) {
        let generation = self.generation;
        *self = Self {
            generation: generation.wrapping_add(1),
            ..Self::default()
        };
    }

    /// Opens `choices` for `line`, unless the user closed them. The selection is
    /// kept while the same line is shown. Returns the open choices and the index of the selected
    /// one.
    pub(crate) fn open(
        &mut self,
        line: &str,
        cursor: usize,
        choices: Option<CompletionChoices>,
    ) -> Option<(&CompletionChoices, usize)> {
        self.generation = self.generation.wrapping_add(1);
        let last_choices = self.open_choices.take();
        let choices = choices?;
        match &self.dismissed_choices {
            DismissedChoices::Word(start) if *start == choices.start => return None,
            DismissedChoices::Line { content, .. } if content == line => return None,
            DismissedChoices::Nowhere
            | DismissedChoices::Word(_)
            | DismissedChoices::Line { .. } => {
                self.dismissed_choices = DismissedChoices::Nowhere;
            }
        }
        let same_place = last_choices.filter(|last| last.line == line && last.cursor == cursor);
        let last_index = choices.list.len().saturating_sub(1);
        let new_choices = OpenChoices {
            line: line.to_owned(),
            cursor,
            selected_index: same_place
                .map_or(0, |choices| choices.selected_index)
                .min(last_index),
            choices,
        };
        let open_choices = self.open_choices.insert(new_choices);
        Some((&open_choices.choices, open_choices.selected_index))
    }

    /// Replaces the open choices by `choices`, and closes them if there are none. Returns the
    /// index of the selected one; `None` if other choices were opened since.
    pub(crate) fn replace_choices(
        &mut self,
        generation: u64,
        choices: Option<&CompletionChoices>,
    ) -> Option<usize> {
        let mut open_choices = self
            .open_choices
            .take_if(|_| self.generation == generation)?;
        let Some(choices) = choices else {
            // The line has to be drawn again, without choices.
            return Some(0);
        };
        open_choices.choices = choices.clone();
        open_choices.selected_index = open_choices
            .selected_index
            .min(choices.list.len().saturating_sub(1));
        let open_choices = self.open_choices.insert(open_choices);
        Some(open_choices.selected_index)
    }

    /// Closes the choices for a line that the last key has recalled from the history: the next such
    /// key is for the history, too.
    pub(crate) fn settle_recalled_line(&mut self, line: &str) {
        if self.last_key == LastKey::History {
            self.last_key = LastKey::Other;
            self.dismissed_choices = DismissedChoices::Line {
                content: line.to_owned(),
                end: usize::MAX,
            };
        }
    }

    /// Takes the selected command in the place of the line, if commands are open for it.
    pub(crate) fn choose_command(&mut self, line: &str, cursor: usize) -> bool {
        let is_command = line.starts_with('/') && self.is_open(line, cursor);
        let accepted = is_command
            .then(|| self.accept_choice(line, cursor))
            .flatten();
        self.chosen_command = accepted.and_then(|(start, text)| {
            let kept = line.get(..start)?;
            Some(format!("{kept}{}", text.trim_end()))
        });
        self.chosen_command.is_some()
    }

    /// Returns whether choices are open for `line` at this cursor, and there is at least one.
    pub(crate) fn is_open(&self, line: &str, cursor: usize) -> bool {
        self.open_choices_at(line, cursor)
            .is_some_and(|open| !open.choices.list.is_empty())
    }

    /// Returns whether choices are shown.
    pub(crate) fn is_shown(&self) -> bool {
        self.open_choices.is_some()
    }

    /// Returns whether the line already contains one of the choices in full.
    pub(crate) fn is_choice_typed(&self, line: &str, cursor: usize) -> bool {
        let Some(open_choices) = self.open_choices_at(line, cursor) else {
            return false;
        };
        let word = line
            .get(open_choices.choices.start..cursor)
            .unwrap_or_default();
        let is_typed = |choice: &CompletionChoice| {
            choice.text == word || choice.write_text.as_deref() == Some(word)
        };
        open_choices.choices.list.iter().any(is_typed)
    }

    /// Moves the selection, wrapping around at the ends.
    pub(crate) fn move_selection(&mut self, step: SelectionMove) {
        if let Some(open_choices) = &mut self.open_choices {
            let count = open_choices.choices.list.len();
            open_choices.selected_index = match step {
                SelectionMove::Up => open_choices
                    .selected_index
                    .checked_sub(1)
                    .unwrap_or(count.saturating_sub(1)),
                SelectionMove::Down if open_choices.selected_index.saturating_add(1) < count => {
                    open_choices.selected_index.saturating_add(1)
                }
                SelectionMove::Down => 0,
            };
        }
    }

    /// Makes the next accepted choice ask for write access.
    pub(crate) fn request_write(&mut self) {
        self.requested_permission = Some(Permission::Write);
    }

    /// Closes the choices for the current word.
    pub(crate) fn close(&mut self) {
        if let Some(open_choices) = self.open_choices.take() {
            self.dismissed_choices = DismissedChoices::Word(open_choices.choices.start);
        }
    }

    /// Allows choices where the user closed them.
    pub(crate) fn reopen(&mut self) {
        self.dismissed_choices = DismissedChoices::Nowhere;
    }

    /// Hides the choices: the cursor has left the word.
    pub(crate) fn hide_choices(&mut self) {
        self.open_choices = None;
    }

    /// Accepts the selected choice. Returns where the replacement begins, and its text. The
    /// resulting line gets no choices until it changes.
    pub(crate) fn accept_choice(&mut self, line: &str, cursor: usize) -> Option<(usize, String)> {
        if std::mem::take(&mut self.is_colon_pending) {
            return Some((cursor.checked_sub(1)?, ":".to_owned()));
        }
        self.open_choices_at(line, cursor)?;
        let open_choices = self.open_choices.take()?;
        let permission = self
            .requested_permission
            .take()
            .unwrap_or(open_choices.choices.permission);
        let choice = open_choices
            .choices
            .list
            .into_iter()
            .nth(open_choices.selected_index)?;
        let mut text = match (permission, choice.write_text) {
            (Permission::Write, Some(write_text)) => write_text,
            (Permission::Write, None) | (Permission::Read, _) => choice.text,
        };
        let after = line.get(cursor..).unwrap_or_default();
        if !text.ends_with('/') && !after.starts_with(char::is_whitespace) {
            text.push(' ');
        }
        let start = open_choices.choices.start;
        let before = line.get(..start).unwrap_or_default();
        self.dismissed_choices = DismissedChoices::Line {
            content: format!("{before}{text}{after}"),
            end: start.saturating_add(text.len()),
        };
        Some((start, text))
    }

    /// Makes the next insertion a colon that replaces the space before the cursor.
    pub(crate) fn join_colon(&mut self) {
        self.is_colon_pending = true;
    }

    /// Returns whether a choice was just accepted, and the cursor is after the space that was
    /// inserted with it.
    pub(crate) fn is_after_accepted(&self, line: &str, cursor: usize) -> bool {
        let DismissedChoices::Line { content, end } = &self.dismissed_choices else {
            return false;
        };
        let has_space = line.get(..cursor).is_some_and(|text| text.ends_with(' '));
        content == line && *end == cursor && has_space
    }

    fn open_choices_at(&self, line: &str, cursor: usize) -> Option<&OpenChoices> {
        self.open_choices
            .as_ref()
            .filter(|open| open.line == line && open.cursor == cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::io::file_finder::SearchExtent;

    fn choices_from(start: usize) -> CompletionChoices {
        let choice = |name: &str| CompletionChoice {
            label: name.to_owned(),
            note: String::new(),
            text: format!("@{name}"),
            write_text: Some(format!("@{name}:w")),
        };
        CompletionChoices {
            start,
            list: vec![choice("src/"), choice("src/a.rs")],
            match_count: 2,
            extent: SearchExtent::Whole,
            permission: Permission::Read,
        }
    }

    #[test]
    fn the_choice_goes_round_and_is_put_in_the_line() {
        let mut state = EditorState::default();
        let (line, cursor) = ("see @s", 6);
        state.open(line, cursor, Some(choices_from(4)));
        assert!(state.is_open(line, cursor) && !state.is_open(line, 5));
        state.move_selection(SelectionMove::Up);
        state.request_write();
        let accepted = state.accept_choice(line, cursor);
        assert_eq!(accepted, Some((4, "@src/a.rs:w ".to_owned())));
        assert!(!state.is_open(line, cursor));
        state.open(line, cursor, Some(choices_from(4)));
        assert_eq!(
            state.accept_choice(line, cursor),
            Some((4, "@src/".to_owned()))
        );
        assert_eq!(state.open("see @src/", 9, Some(choices_from(4))), None);
        assert!(
            state
                .open("see @src/m", 10, Some(choices_from(4)))
                .is_some()
        );
    }

    #[test]
    fn text_right_after_an_accepted_choice_is_recognized() {
        let mut state = EditorState::default();
        state.open("see @s", 6, Some(choices_from(4)));
        state.move_selection(SelectionMove::Down);
        assert!(!state.is_after_accepted("see @s", 6));
        state.accept_choice("see @s", 6);
        let line = "see @src/a.rs ";
        assert!(state.is_after_accepted(line, line.len()));
        assert!(!state.is_after_accepted(line, 4));
        assert!(!state.is_after_accepted("see @src/a.rs and ", 18));
        state.join_colon();
        let joined = state.accept_choice(line, line.len());
        assert_eq!(joined, Some((line.len() - 1, ":".to_owned())));
        state.reset();
        assert!(!state.is_after_accepted(line, line.len()));
    }

    #[test]
    fn late_completions_replace_only_the_choices_of_the_same_line() {
        let mut state = EditorState::default();
        let (line, cursor) = ("see @s", 6);
        state.open(line, cursor, Some(choices_from(4)));
        state.move_selection(SelectionMove::Down);
        let earlier = state.generation.wrapping_sub(1);
        assert_eq!(state.replace_choices(earlier, None), None);
        let later = choices_from(4);
        assert_eq!(
            state.replace_choices(state.generation, Some(&later)),
            Some(1)
        );
        assert!(state.is_open(line, cursor));
        assert_eq!(state.replace_choices(state.generation, None), Some(0));
        assert!(!state.is_shown());
        assert_eq!(state.replace_choices(state.generation, Some(&later)), None);
    }

    #[test]
    fn closed_completions_stay_closed_for_the_same_word() {
        let mut state = EditorState::default();
        state.open("@s", 2, Some(choices_from(0)));
        state.close();
        assert_eq!(state.open("@sr", 3, Some(choices_from(0))), None);
        assert!(state.open("@sr @s", 6, Some(choices_from(4))).is_some());
        state.close();
        state.reopen();
        assert!(state.open("@sr @s", 6, Some(choices_from(4))).is_some());
    }

    #[test]
    fn a_path_that_is_typed_out_needs_no_choice() {
        let mut state = EditorState::default();
        for (line, expected) in [
            ("@src/a.rs", true),
            ("@src/a.rs:w", true),
            ("@src/a", false),
        ] {
            state.open(line, line.len(), Some(choices_from(0)));
            assert_eq!(state.is_choice_typed(line, line.len()), expected, "{line}");
        }
    }
}
