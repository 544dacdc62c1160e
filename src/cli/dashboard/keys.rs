//! The effect of each key on the state of the dashboard. It reads no keys itself, and no files
//! except those of a review.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "all keys without an effect are treated alike"
)]

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::agent::user_messages::MESSAGE_BYTES_MAX;
use crate::cli::dashboard::question::{ANSWER_DELAY_MS, QuestionAnswer, QuestionPanel};
use crate::cli::dashboard::typed_text::TypedText;
use crate::cli::dashboard::view_state::{
    ComposerLine, ComposerPurpose, OpenView, SearchState, ViewState,
};
use crate::cli::typed_message::{ESCAPE_NOTE, reason_against_sending};
use crate::run_view::RunView;
use crate::run_view::agent::AgentView;

/// Maximum length of a message or an answer, in bytes.
const COMPOSER_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
/// Maximum length of a search text, in bytes.
const SEARCH_BYTES_MAX: usize = 4096;
/// Why a pasted text was rejected.
const PASTE_TOO_LONG: &str = "not pasted: too long; a message has at most 16 KiB";
const PASTE_WITHOUT_LINE: &str = "not pasted: press i first to write a message or an answer";
/// Why a message was not sent.
const KEY_AS_MESSAGE: &str = "not sent: a key or a command alone is no message; write it in words";
/// Number of rows by which keys scroll: by line and by page.
const SMALL_STEP: usize = 1;
const LARGE_STEP: usize = 10;

/// The effect of a key in addition to the changed state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    /// Draw the next frame.
    Redraw,
    /// Draw the whole next frame.
    RedrawAll,
    /// Answer the first question.
    Answer(QuestionAnswer),
    /// Send a message to the agents.
    Send(String),
    /// Show the next older match of the search.
    SearchOlder,
    /// Stop the process until the shell continues it.
    Suspend,
    /// Show the rest of the run as lines.
    LeaveToLines,
    /// Close the record, or the run that is over.
    Quit,
    /// Stop the run.
    Stop,
}

/// The state that a key can change.
#[derive(Debug)]
pub(super) struct KeyTarget<'k> {
    /// What is open and selected.
    pub(super) state: &'k mut ViewState,
    /// The waiting questions.
    pub(super) questions: &'k mut [QuestionPanel],
    pub(super) run: &'k RunView,
    /// The time since the start, in milliseconds.
    pub(super) now_ms: u64,
    /// Whether this is a run that is over.
    pub(super) is_over: bool,
    /// Whether this is the record of a run, or a run that is over.
    pub(super) is_record: bool,
}

impl KeyTarget<'_> {
    /// Applies a key. The dashboard has no Alt keys, and a terminal sends Alt with a key as Esc
    /// followed by that key: both are applied, as curses programs do. While a line is being typed,
    /// Alt has no effect, so that no text is lost.
    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('z') => KeyEffect::Suspend,
                KeyCode::Char('l') => KeyEffect::RedrawAll,
                _ => KeyEffect::Redraw,
            };
        }
        if key.modifiers.contains(KeyModifiers::ALT) && !self.is_typing() {
            let effect = self.press_plain(KeyCode::Esc);
            if effect != KeyEffect::Redraw {
                return effect;
            }
        }
        let effect = self.press_plain(key.code);
        self.state.last_key_ms = Some(self.now_ms);
        effect
    }

    /// Returns whether a message, an answer or a search is being typed.
    fn is_typing(&self) -> bool {
        let search = self.state.search.as_ref();
        self.state.composer.is_some() || search.is_some_and(|search| search.is_typing)
    }

    /// Applies a key without modifiers.
    fn press_plain(&mut self, code: KeyCode) -> KeyEffect {
        let last_note = self.state.note.take();
        if last_note == Some(ESCAPE_NOTE) && code == KeyCode::Esc {
            return KeyEffect::Stop;
        }
        if self.state.composer.is_some() {
            return self.type_in_composer(code);
        }
        if self.is_typing() {
            return self.type_in_search(code);
        }
        if let Some(answer) = self.answer(code) {
            return KeyEffect::Answer(answer);
        }
        if self.press_in_question(code) || self.press_in_review(code) {
            return KeyEffect::Redraw;
        }
        self.press_in_view(code)
    }

    /// Adds a pasted text to the line that is being typed. Without such a line, it has no effect,
    /// because the user did not press these keys.
    pub(super) fn paste(&mut self, text: &str) {
        let state = &mut *self.state;
        let search = state.search.as_mut().filter(|search| search.is_typing);
        let is_pasted = match (&mut state.composer, search) {
            (Some(line), _) => line.text.paste(text, COMPOSER_BYTES_MAX),
            (None, Some(search)) => paste_in_search(&mut search.text, text),
            (None, None) => {
                state.note = (!self.is_record).then_some(PASTE_WITHOUT_LINE);
                return;
            }
        };
        state.note = (!is_pasted).then_some(PASTE_TOO_LONG);
    }

    fn is_review_open(&self) -> bool {
        let first_question = self.questions.first();
        let is_review = first_question.is_some_and(|question| question.review.is_some());
        is_review && self.state.view == OpenView::Changes
    }

    /// Returns the answer that the key gives to the first question.
    fn answer(&self, code: KeyCode) -> Option<QuestionAnswer> {
        let question = self.questions.first()?;
        let KeyCode::Char(c) = code else {
            return None;
        };
        let answer = question.answer_of_key(c, self.is_review_open())?;
        (question.takes_answers(self.now_ms) && self.has_paused()).then_some(answer)
    }

    /// Returns whether the key that is pressed follows a pause, in which no text was being typed.
    fn has_paused(&self) -> bool {
        let last_key_ms = self.state.last_key_ms;
        last_key_ms.is_none_or(|last| self.now_ms.saturating_sub(last) >= ANSWER_DELAY_MS)
    }

    /// Applies a key to the message or the answer that is being typed.
    fn type_in_composer(&mut self, code: KeyCode) -> KeyEffect {
        let text = self.state.composer.as_mut().map(|line| &mut line.text);
        match edit_line(text, code, COMPOSER_BYTES_MAX) {
            TypedLineState::Open => KeyEffect::Redraw,
            TypedLineState::Done => match self.state.composer.take() {
                Some(ComposerLine {
                    purpose: ComposerPurpose::Answer,
                    text,
                }) => KeyEffect::Answer(QuestionAnswer::Text(text.into_string())),
                Some(ComposerLine {
                    purpose: ComposerPurpose::Instead,
                    text,
                }) => KeyEffect::Answer(QuestionAnswer::Instead(text.into_string())),
                Some(ComposerLine { text, .. })
                    if reason_against_sending(text.as_str().trim()).is_some() =>
                {
                    self.state.note = Some(KEY_AS_MESSAGE);
                    KeyEffect::Redraw
                }
                Some(ComposerLine { text, .. }) if !text.as_str().trim().is_empty() => {
                    KeyEffect::Send(text.into_string())
                }
                Some(_) | None => KeyEffect::Redraw,
            },
            TypedLineState::Cancelled => {
                self.state.composer = None;
                KeyEffect::Redraw
            }
        }
    }

    /// Applies a key to the search text that is being typed.
    fn type_in_search(&mut self, code: KeyCode) -> KeyEffect {
        let text = self.state.search.as_mut().map(|search| &mut search.text);
        match edit_line(text, code, SEARCH_BYTES_MAX) {
            TypedLineState::Open => KeyEffect::Redraw,
            TypedLineState::Done => {
                if let Some(search) = &mut self.state.search {
                    search.is_typing = false;
                }
                KeyEffect::SearchOlder
            }
            TypedLineState::Cancelled => {
                self.state.search = None;
                KeyEffect::Redraw
            }
        }
    }

    /// Applies a key that changes how a question is shown, or begins its answer. Returns whether
    /// the key is one.
    fn press_in_question(&mut self, code: KeyCode) -> bool {
        let Some(question) = self.questions.first() else {
            return false;
        };
        let state = &mut *self.state;
        match code {
            KeyCode::Char('z') => {
                state.is_task_open = !state.is_task_open;
                state.task_scroll = 0;
            }
            KeyCode::Char('i' | ':') if question.is_open_question() => {
                state.composer = Some(ComposerLine {
                    purpose: ComposerPurpose::Answer,
                    text: TypedText::default(),
                });
            }
            KeyCode::Char('T') if question.calling_agent().is_some() => {
                state.composer = Some(ComposerLine {
                    purpose: ComposerPurpose::Instead,
                    text: TypedText::default(),
                });
            }
            KeyCode::Esc | KeyCode::Char('q') if state.is_task_open => {
                state.is_task_open = false;
            }
            KeyCode::Up if state.is_task_open => {
                state.task_scroll = state.task_scroll.saturating_sub(SMALL_STEP);
            }
            KeyCode::PageUp if state.is_task_open => {
                state.task_scroll = state.task_scroll.saturating_sub(LARGE_STEP);
            }
            KeyCode::Down if state.is_task_open => {
                state.task_scroll = state.task_scroll.saturating_add(SMALL_STEP);
            }
            KeyCode::PageDown if state.is_task_open => {
                state.task_scroll = state.task_scroll.saturating_add(LARGE_STEP);
            }
            _ => return false,
        }
        true
    }

    /// Applies a key that selects changes of a delivery. Returns whether the key is one.
    fn press_in_review(&mut self, code: KeyCode) -> bool {
        if !self.is_review_open() {
            return false;
        }
        let first_question = self.questions.first_mut();
        let Some(review) = first_question.and_then(|question| question.review.as_mut()) else {
            return false;
        };
        match code {
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('j') => review.move_file(1),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('k') => review.move_file(-1),
            KeyCode::Char(' ') => review.toggle_file(),
            KeyCode::Char('[') => review.move_hunk(-1),
            KeyCode::Char(']') => review.move_hunk(1),
            KeyCode::Char('h') => review.toggle_hunk(),
            // This key opens the review, which is already open: it may just have opened by itself.
            KeyCode::Char('d') => return true,
            _ => return false,
        }
        if code != KeyCode::Char(' ') && code != KeyCode::Char('h') {
            self.state.scroll = 0;
        }
        true
    }

    fn press_in_view(&mut self, code: KeyCode) -> KeyEffect {
        let is_overview = self.state.view == OpenView::Overview;
        match code {
            KeyCode::Char('a') => self.toggle_answers(),
            KeyCode::Char('d') => self.state.toggle(OpenView::Changes),
            KeyCode::Char('v') => self.state.toggle(OpenView::Votes),
            KeyCode::Char('t') => self.state.toggle(OpenView::Timeline),
            KeyCode::Char('c') => self.state.toggle(OpenView::Cost),
            KeyCode::Char('p') => self.state.toggle(OpenView::Stages),
            KeyCode::Char('e') => self.state.toggle(OpenView::Log),
            KeyCode::Char('?') => self.state.toggle(OpenView::Help),
            KeyCode::Char('f') => self.open_winner(),
            KeyCode::Char('l') => return KeyEffect::LeaveToLines,
            KeyCode::Char('i' | ':') if !self.is_record => self.open_composer(),
            KeyCode::Char('q') | KeyCode::Esc if is_overview && self.is_record => {
                return KeyEffect::Quit;
            }
            KeyCode::Enter if is_overview && self.is_over => return KeyEffect::Quit,
            KeyCode::Esc if is_overview && self.state.search.is_none() => {
                self.state.note = Some(ESCAPE_NOTE);
            }
            KeyCode::Char('q') if is_overview => {
                self.state.note = Some("the run continues: l shows its lines, Ctrl-C stops it");
            }
            KeyCode::Esc if self.state.search.is_some() => self.state.search = None,
            KeyCode::Esc | KeyCode::Char('q') => self.state.open(OpenView::Overview),
            KeyCode::Tab | KeyCode::Right => self.move_selection(1),
            KeyCode::BackTab | KeyCode::Left => self.move_selection(-1),
            KeyCode::Enter if is_overview => self.state.open(OpenView::Agent),
            KeyCode::Char(c @ '1'..='9') => self.open_agent(c),
            _ if self.state.view == OpenView::Agent => return self.press_in_agent(code),
            _ => self.scroll(code),
        }
        KeyEffect::Redraw
    }

    fn press_in_agent(&mut self, code: KeyCode) -> KeyEffect {
        let state = &mut *self.state;
        match code {
            KeyCode::Char('r') => state.folds_reasoning = !state.folds_reasoning,
            KeyCode::Char('u') => state.folds_results = !state.folds_results,
            KeyCode::Char('/') => {
                state.search = Some(SearchState {
                    text: TypedText::default(),
                    is_typing: true,
                });
            }
            KeyCode::Char('n') | KeyCode::Enter if state.search.is_some() => {
                return KeyEffect::SearchOlder;
            }
            _ => self.scroll(code),
        }
        KeyEffect::Redraw
    }

    fn open_agent(&mut self, digit: char) {
        let number = digit
            .to_digit(10)
            .and_then(|digit| usize::try_from(digit).ok());
        let agents = self.run.agents();
        let has_number = |agent: &AgentView| Some(self.run.agent_number(&agent.id)) == number;
        if let Some(index) = agents.iter().position(has_number) {
            self.state.agent_index = index;
            self.state.open(OpenView::Agent);
        }
    }

    /// Begins a message to the agent that is shown in full, or else to all.
    fn open_composer(&mut self) {
        let agent = self
            .run
            .agents()
            .get(self.state.agent_index)
            .filter(|_| self.state.view == OpenView::Agent);
        let text = agent.map(|agent| format!("{}: ", agent.id));
        self.state.composer = Some(ComposerLine {
            purpose: ComposerPurpose::Message,
            text: TypedText::new(text.unwrap_or_default()),
        });
    }

    /// Opens or closes the answers, beginning with the winner's unless another one is selected.
    fn toggle_answers(&mut self) {
        if self.state.answer_index == 0 {
            self.state.answer_index = self.winner_index().unwrap_or_default();
        }
        self.state.toggle(OpenView::Answers);
    }

    fn open_winner(&mut self) {
        if self.run.ballot().winner.is_none() {
            self.state.note = Some("there is no winner yet");
            return;
        }
        self.state.answer_index = self.winner_index().unwrap_or_default();
        self.state.open(OpenView::Answers);
    }

    /// Returns the index of the winner's answer among the current ones.
    fn winner_index(&self) -> Option<usize> {
        let ballot = self.run.ballot();
        let winner = ballot.winner.as_ref()?;
        let mut answers = ballot.current_answers();
        answers.position(|answer| answer.label == winner.label)
    }

    /// Moves the selection of agents or answers by `step`.
    fn move_selection(&mut self, step: isize) {
        let (selected_index, count) = if self.state.view == OpenView::Answers {
            let count = self.run.ballot().current_answers().count();
            (&mut self.state.answer_index, count)
        } else {
            (&mut self.state.agent_index, self.run.agents().len())
        };
        let new_index = selected_index
            .saturating_add(count)
            .saturating_add_signed(step);
        *selected_index = new_index.checked_rem(count).unwrap_or_default();
        self.state.scroll = 0;
    }

    fn scroll(&mut self, code: KeyCode) {
        if self.state.view == OpenView::Overview {
            match code {
                KeyCode::Up | KeyCode::Char('k') => return self.move_selection(-1),
                KeyCode::Down | KeyCode::Char('j') => return self.move_selection(1),
                _ => {}
            }
        }
        let state = &mut *self.state;
        let is_from_end = matches!(
            state.view,
            OpenView::Overview | OpenView::Agent | OpenView::Log
        );
        let all_rows = usize::MAX;
        let (rows, is_up) = match code {
            KeyCode::Up | KeyCode::Char('k') => (SMALL_STEP, true),
            KeyCode::Down | KeyCode::Char('j') => (SMALL_STEP, false),
            KeyCode::PageUp => (LARGE_STEP, true),
            KeyCode::PageDown | KeyCode::Char(' ') => (LARGE_STEP, false),
            KeyCode::Home => (all_rows, true),
            KeyCode::End => (all_rows, false),
            _ => return,
        };
        if is_up == is_from_end {
            state.scroll_forward(rows);
        } else {
            state.scroll_back(rows);
        }
    }
}

/// The state of a line that is being typed, after a key.
enum TypedLineState {
    Open,
    Done,
    Cancelled,
}

/// Pastes a text into the line of a search, without line breaks. Returns whether it was short
/// enough.
fn paste_in_search(search_text: &mut TypedText, text: &str) -> bool {
    if text.len() > SEARCH_BYTES_MAX {
        return false;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    search_text.paste(&words.join(" "), SEARCH_BYTES_MAX)
}

/// Applies a key to a line that is being typed.
fn edit_line(line: Option<&mut TypedText>, code: KeyCode, bytes_max: usize) -> TypedLineState {
    let Some(line) = line else {
        return TypedLineState::Cancelled;
    };
    match code {
        KeyCode::Enter => return TypedLineState::Done,
        KeyCode::Esc => return TypedLineState::Cancelled,
        KeyCode::Backspace => line.pop(),
        KeyCode::Char(c) if !c.is_control() => line.push(c, bytes_max),
        _ => {}
    }
    TypedLineState::Open
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key_target<'k>(
        state: &'k mut ViewState,
        run: &'k RunView,
        is_record: bool,
    ) -> KeyTarget<'k> {
        KeyTarget {
            state,
            questions: &mut [],
            run,
            now_ms: 0,
            is_over: false,
            is_record,
        }
    }

    /// Pastes each text in turn.
    fn paste_all(state: &mut ViewState, is_record: bool, texts: &[&str]) {
        let run = RunView::default();
        let mut target = key_target(state, &run, is_record);
        for text in texts {
            target.paste(text);
        }
    }

    fn composing() -> ViewState {
        ViewState {
            composer: Some(ComposerLine {
                purpose: ComposerPurpose::Message,
                text: TypedText::default(),
            }),
            ..ViewState::default()
        }
    }

    #[test]
    fn a_pasted_text_presses_no_key() {
        let mut state = ViewState::default();
        paste_all(&mut state, false, &["v", "y\nl\nq"]);
        assert_eq!(state.view, OpenView::Overview);
        assert_eq!(state.note, Some(PASTE_WITHOUT_LINE));
        let mut state = ViewState::default();
        paste_all(&mut state, true, &["q"]);
        assert_eq!(state.note, None);
    }

    #[test]
    fn a_pasted_text_is_part_of_the_line_that_is_typed() {
        let mut state = composing();
        paste_all(&mut state, false, &["one\ntwo\n", "x"]);
        let run = RunView::default();
        let mut target = key_target(&mut state, &run, false);
        let sent = target.press(KeyEvent::from(KeyCode::Enter));
        assert_eq!(sent, KeyEffect::Send("one\ntwox".to_owned()));
        assert_eq!(state.composer, None);

        let mut state = ViewState {
            search: Some(SearchState {
                text: TypedText::default(),
                is_typing: true,
            }),
            ..ViewState::default()
        };
        paste_all(&mut state, true, &["two\n  words"]);
        let found = state.search.map(|search| search.text.into_string());
        assert_eq!(found.as_deref(), Some("two words"));
    }

    #[test]
    fn a_key_that_is_typed_as_a_message_is_not_sent() {
        for (typed, sent) in [("q", None), ("/cost", None), ("be quick", Some("be quick"))] {
            let mut state = composing();
            let run = RunView::default();
            let mut target = key_target(&mut state, &run, false);
            for key in typed.chars() {
                target.press(KeyEvent::from(KeyCode::Char(key)));
            }
            let effect = target.press(KeyEvent::from(KeyCode::Enter));
            let expected = sent.map_or(KeyEffect::Redraw, |text| KeyEffect::Send(text.to_owned()));
            assert_eq!(effect, expected, "{typed}");
            assert_eq!(
                state.note,
                sent.is_none().then_some(KEY_AS_MESSAGE),
                "{typed}"
            );
            assert_eq!(state.composer, None, "{typed}");
        }
    }

    #[test]
    fn the_answers_open_at_the_winner_unless_another_one_is_selected() {
        let mut run = RunView::default();
        let mut apply = |event: serde_json::Value| {
            run.apply_next(&serde_json::from_value(event).unwrap(), 0);
        };
        apply(
            json!({"type": "run_started", "question": "q", "agents": ["a", "b", "c"],
            "restart": 0}),
        );
        for (agent, label) in [("a", "agent1.1"), ("b", "agent2.1"), ("c", "agent3.1")] {
            apply(
                json!({"type": "answered", "agent": agent, "label": label, "content": "x",
                "snapshot": null}),
            );
        }
        apply(
            json!({"type": "winner_selected", "agent": "b", "label": "agent2.1", "reason": "most_votes",
            "votes": [["b", 3]]}),
        );
        for (selected, expected) in [(0, 1), (2, 2)] {
            let mut state = ViewState {
                answer_index: selected,
                ..ViewState::default()
            };
            let mut target = key_target(&mut state, &run, true);
            target.press(KeyEvent::from(KeyCode::Char('a')));
            assert_eq!(
                (state.view, state.answer_index),
                (OpenView::Answers, expected)
            );
        }
    }

    #[test]
    fn escape_and_a_key_that_are_read_together_are_two_keys() {
        #[track_caller]
        fn check(view: OpenView, is_record: bool, expected: &KeyEffect, composed: Option<&str>) {
            let mut state = ViewState {
                view,
                composer: composed.map(|text| ComposerLine {
                    purpose: ComposerPurpose::Message,
                    text: TypedText::new(text.to_owned()),
                }),
                ..ViewState::default()
            };
            let run = RunView::default();
            let mut target = key_target(&mut state, &run, is_record);
            let key = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::ALT);
            assert_eq!(target.press(key), *expected, "{view:?}");
            let line = state.composer.map(|line| line.text.into_string());
            let expected = composed.map(|text| format!("{text}q"));
            assert_eq!(line, expected, "{view:?}");
        }
        check(OpenView::Votes, true, &KeyEffect::Quit, None);
        check(OpenView::Votes, false, &KeyEffect::Redraw, None);
        check(OpenView::Overview, true, &KeyEffect::Quit, None);
        check(OpenView::Overview, false, &KeyEffect::Redraw, Some("no "));
    }

    #[test]
    fn a_pasted_text_that_is_too_long_is_refused_and_said() {
        let mut state = composing();
        paste_all(&mut state, false, &[&"x".repeat(COMPOSER_BYTES_MAX + 1)]);
        assert_eq!(state.note, Some(PASTE_TOO_LONG));
        assert!(PASTE_TOO_LONG.contains(&format!("{} KiB", COMPOSER_BYTES_MAX / 1024)));
        paste_all(&mut state, false, &[&"x".repeat(COMPOSER_BYTES_MAX)]);
        assert_eq!(state.note, None);
        let text = state.composer.map(|line| line.text.into_string().len());
        assert_eq!(text, Some(COMPOSER_BYTES_MAX));
    }
}
