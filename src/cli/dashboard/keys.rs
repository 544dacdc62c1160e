//! The effect of each key on the state of the dashboard. It reads no key itself. Pure but for the files
//! that a review reads.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "all keys without an effect are treated alike"
)]

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::cli::dashboard::question::{QuestionAnswer, QuestionPanel};
use crate::cli::dashboard::view_state::{
    ComposerLine, ComposerPurpose, OpenView, SearchState, ViewState,
};
use crate::run_view::RunView;

/// Maximum length of a line that is typed, in bytes.
const TYPED_BYTES_MAX: usize = 4096;
/// Number of rows of a small and of a large step.
const ROW: usize = 1;
const PAGE: usize = 10;

/// What follows from a key, besides the state that it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    /// Another frame.
    Redraw,
    /// All of another frame.
    RedrawAll,
    /// The first question is answered.
    Answer(QuestionAnswer),
    /// A message to the agents is sent.
    Send(String),
    /// The next older place of the searched text is shown.
    SearchOlder,
    /// The process stops until the shell continues it.
    Suspend,
    /// The rest of the run is shown as lines.
    LeaveToLines,
    /// A record is closed.
    Quit,
}

/// What a key can change.
#[derive(Debug)]
pub(super) struct KeyTarget<'k> {
    /// What is open and selected.
    pub(super) state: &'k mut ViewState,
    /// The questions that wait.
    pub(super) questions: &'k mut [QuestionPanel],
    /// The run.
    pub(super) run: &'k RunView,
    /// The time since the start, in milliseconds.
    pub(super) now_ms: u64,
    /// Whether a record is looked at.
    pub(super) is_record: bool,
}

impl KeyTarget<'_> {
    /// Applies a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('z') => KeyEffect::Suspend,
                KeyCode::Char('l') => KeyEffect::RedrawAll,
                _ => KeyEffect::Redraw,
            };
        }
        if self.state.composer.is_some() {
            return self.type_answer(key.code);
        }
        if self
            .state
            .search
            .as_ref()
            .is_some_and(|search| search.is_typing)
        {
            return self.type_search(key.code);
        }
        self.state.note = None;
        if let Some(answer) = self.answer(key.code) {
            return KeyEffect::Answer(answer);
        }
        if self.press_in_question(key.code) || self.press_in_review(key.code) {
            return KeyEffect::Redraw;
        }
        self.press_in_view(key.code)
    }

    fn is_review_open(&self) -> bool {
        let first = self.questions.first();
        let is_review = first.is_some_and(|question| question.review.is_some());
        is_review && self.state.view == OpenView::Changes
    }

    /// Returns the answer to the first question that the key gives.
    fn answer(&self, code: KeyCode) -> Option<QuestionAnswer> {
        let question = self.questions.first()?;
        let KeyCode::Char(c) = code else {
            return None;
        };
        let answer = question.answer_of_key(c, self.is_review_open())?;
        question.takes_answers(self.now_ms).then_some(answer)
    }

    fn type_answer(&mut self, code: KeyCode) -> KeyEffect {
        let text = self.state.composer.as_mut().map(|line| &mut line.text);
        match edit(text, code) {
            TypedLineState::Open => KeyEffect::Redraw,
            TypedLineState::Done => match self.state.composer.take() {
                Some(ComposerLine {
                    purpose: ComposerPurpose::Answer,
                    text,
                }) => KeyEffect::Answer(QuestionAnswer::Text(text)),
                Some(ComposerLine { text, .. }) if !text.trim().is_empty() => KeyEffect::Send(text),
                Some(_) | None => KeyEffect::Redraw,
            },
            TypedLineState::Cancelled => {
                self.state.composer = None;
                KeyEffect::Redraw
            }
        }
    }

    fn type_search(&mut self, code: KeyCode) -> KeyEffect {
        let text = self.state.search.as_mut().map(|search| &mut search.text);
        match edit(text, code) {
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

    /// Applies a key that is about how a question is shown.
    fn press_in_question(&mut self, code: KeyCode) -> bool {
        let Some(question) = self.questions.first() else {
            return false;
        };
        let state = &mut *self.state;
        match code {
            KeyCode::Char('z') => {
                state.is_question_open = !state.is_question_open;
                state.question_scroll = 0;
            }
            KeyCode::Char('i' | ':') if question.is_open_question() => {
                state.composer = Some(ComposerLine {
                    purpose: ComposerPurpose::Answer,
                    text: String::new(),
                });
            }
            KeyCode::Esc | KeyCode::Char('q') if state.is_question_open => {
                state.is_question_open = false;
            }
            KeyCode::Up if state.is_question_open => {
                state.question_scroll = state.question_scroll.saturating_sub(ROW);
            }
            KeyCode::PageUp if state.is_question_open => {
                state.question_scroll = state.question_scroll.saturating_sub(PAGE);
            }
            KeyCode::Down if state.is_question_open => {
                state.question_scroll = state.question_scroll.saturating_add(ROW);
            }
            KeyCode::PageDown if state.is_question_open => {
                state.question_scroll = state.question_scroll.saturating_add(PAGE);
            }
            _ => return false,
        }
        true
    }

    /// Applies a key that selects changes of a delivery.
    fn press_in_review(&mut self, code: KeyCode) -> bool {
        if !self.is_review_open() {
            return false;
        }
        let first = self.questions.first_mut();
        let Some(review) = first.and_then(|question| question.review.as_mut()) else {
            return false;
        };
        match code {
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('j') => review.move_file(1),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('k') => review.move_file(-1),
            KeyCode::Char(' ') => review.toggle_file(),
            KeyCode::Char('[') => review.move_hunk(-1),
            KeyCode::Char(']') => review.move_hunk(1),
            KeyCode::Char('h') => review.toggle_hunk(),
            // It opens the review, which is open already: it may have opened just now by itself.
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
            KeyCode::Char('a') => self.state.toggle(OpenView::Answers),
            KeyCode::Char('d') => self.state.toggle(OpenView::Changes),
            KeyCode::Char('v') => self.state.toggle(OpenView::Votes),
            KeyCode::Char('t') => self.state.toggle(OpenView::Timeline),
            KeyCode::Char('c') => self.state.toggle(OpenView::Cost),
            KeyCode::Char('e') => self.state.toggle(OpenView::Log),
            KeyCode::Char('?') => self.state.toggle(OpenView::Help),
            KeyCode::Char('f') => self.open_winner(),
            KeyCode::Char('l') => return KeyEffect::LeaveToLines,
            KeyCode::Char('i' | ':') if !self.is_record => self.open_composer(),
            KeyCode::Char('q') | KeyCode::Esc if is_overview && self.is_record => {
                return KeyEffect::Quit;
            }
            KeyCode::Char('q') if is_overview => {
                self.state.note = Some("the run goes on: l shows its lines, Ctrl-C stops it");
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
                    text: String::new(),
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
        let index = number.unwrap_or_default().saturating_sub(1);
        if index < self.run.agents().len() {
            self.state.agent = index;
            self.state.open(OpenView::Agent);
        }
    }

    /// Begins a message: to the agent that is shown in full, else to all.
    fn open_composer(&mut self) {
        let agent = self.run.agents().get(self.state.agent);
        let agent = agent.filter(|_| self.state.view == OpenView::Agent);
        let text = agent.map(|agent| format!("{}: ", agent.id));
        self.state.composer = Some(ComposerLine {
            purpose: ComposerPurpose::Message,
            text: text.unwrap_or_default(),
        });
    }

    fn open_winner(&mut self) {
        let ballot = self.run.ballot();
        let Some(winner) = &ballot.winner else {
            self.state.note = Some("there is no winner yet");
            return;
        };
        let mut answers = ballot.current_answers();
        let index = answers.position(|answer| answer.label == winner.label);
        self.state.answer = index.unwrap_or_default();
        self.state.open(OpenView::Answers);
    }

    /// Selects the agent or the answer that is `step` further.
    fn move_selection(&mut self, step: isize) {
        let (selected, count) = if self.state.view == OpenView::Answers {
            let count = self.run.ballot().current_answers().count();
            (&mut self.state.answer, count)
        } else {
            (&mut self.state.agent, self.run.agents().len())
        };
        let next = selected.saturating_add(count).saturating_add_signed(step);
        *selected = next.checked_rem(count).unwrap_or_default();
        self.state.scroll = 0;
    }

    fn scroll(&mut self, code: KeyCode) {
        let state = &mut *self.state;
        if state.view == OpenView::Overview {
            match code {
                KeyCode::Up | KeyCode::Char('k') => self.move_selection(-1),
                KeyCode::Down | KeyCode::Char('j') => self.move_selection(1),
                _ => {}
            }
            return;
        }
        let is_from_end = matches!(state.view, OpenView::Agent | OpenView::Log);
        let all = usize::MAX;
        let (rows, is_up) = match code {
            KeyCode::Up | KeyCode::Char('k') => (ROW, true),
            KeyCode::Down | KeyCode::Char('j') => (ROW, false),
            KeyCode::PageUp => (PAGE, true),
            KeyCode::PageDown | KeyCode::Char(' ') => (PAGE, false),
            KeyCode::Home => (all, true),
            KeyCode::End => (all, false),
            _ => return,
        };
        if is_up == is_from_end {
            state.scroll_forward(rows);
        } else {
            state.scroll_back(rows);
        }
    }
}

/// What a key did to a line that is being typed.
enum TypedLineState {
    Open,
    Done,
    Cancelled,
}

fn edit(line: Option<&mut String>, code: KeyCode) -> TypedLineState {
    let Some(line) = line else {
        return TypedLineState::Cancelled;
    };
    match code {
        KeyCode::Enter => return TypedLineState::Done,
        KeyCode::Esc => return TypedLineState::Cancelled,
        KeyCode::Backspace => {
            line.pop();
        }
        KeyCode::Char(c) if line.len() < TYPED_BYTES_MAX && !c.is_control() => line.push(c),
        _ => {}
    }
    TypedLineState::Open
}
