//! The dashboard: a run on the whole terminal. It renders the model of the run; its only own state
//! is what is open, selected and scrolled. Questions of the run are answered in place. It draws
//! only after events and keys, and only frames that differ from the last one.

use std::time::Duration;

use crossterm::event::{
    Event as TerminalEvent, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read,
};
use futures_util::StreamExt as _;
use ratatui_core::buffer::Buffer;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::dashboard::keys::{KeyEffect, KeyTarget};
use crate::cli::dashboard::line_history::LineHistory;
use crate::cli::dashboard::question::{QuestionAnswer, QuestionPanel};
use crate::cli::dashboard::scene::Scene;
use crate::cli::dashboard::screen::{BellAndTitle, TerminalScreen, area_of};
use crate::cli::dashboard::settings::DashboardSettings;
use crate::cli::dashboard::view_state::{ComposerPurpose, OpenView, ViewState};
use crate::cli::output::CliOutput;
use crate::event::{ApprovalAnswer, CoordinationEvent, Event, RunEvent};
use crate::orchestrator::review::UserQuestion;
use crate::run_view::RunView;
use crate::run_view::overview::RunPhase;
use crate::world::diagnostics::probe::terminal::{TerminalSize, stderr_size};
use crate::world::io::clock::{Stopwatch, milliseconds};
use crate::world::io::stop_signal::StopSignals;
use crate::world::io::terminal_mode::suspend;

pub(crate) mod theme;
mod canvas;
mod line_history;
mod typed_text;
mod view_state;
mod delivery_review;
mod question;
mod key_lines;
mod keys;
mod views;
mod scene;
mod frame;
mod screen;
pub(crate) mod settings;

/// Signal that the kernel sends when a stopped process continues; see `signal(7)` of Linux.
const SIGCONT: i32 = 18;
/// Minimum time between two frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(33);
/// One second, after which the elapsed time changes.
const SECOND_MS: u64 = 1000;
/// Size of a terminal that does not report one.
const FALLBACK_SIZE: TerminalSize = TerminalSize {
    columns: 80,
    rows: 24,
};
/// Maximum length of the text that is kept of what was typed ahead, in bytes.
const TYPED_BYTES_MAX: usize = 64 * 1024;
/// Title of the window while a question waits.
const TITLE_QUESTION: &str = "(1) massgen";
/// Title of the window otherwise.
const TITLE: &str = "massgen";

/// What the dashboard shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DashboardSource {
    /// A run of this process.
    Run,
    /// The record of a run, which can be closed.
    Record,
}

/// Input from the terminal.
#[derive(Clone, Debug)]
pub(crate) enum DashboardInput {
    /// A key or a changed size.
    Terminal(TerminalEvent),
    /// Another process stops this one.
    StopSignal,
    /// The process continues after it was stopped.
    ContinueSignal,
}

/// The effect of an input on the dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DashboardInputEffect {
    /// It stays open.
    Stay,
    /// It stays open, and the line is a message to the agents.
    Send(String),
    /// It stays open, and the run stops.
    Stop,
    /// It closes, and the rest of the run is shown as lines.
    LeaveToLines,
    /// It closes, and the rest of the record is not shown.
    Quit,
}

/// What a closed dashboard leaves to others.
#[derive(Debug)]
pub(crate) struct DashboardRest {
    /// The questions that are not answered yet.
    pub(crate) questions: Vec<UserQuestion>,
    /// What was typed after the key that closed it.
    pub(crate) typed_text: String,
    /// The message that was being typed when the run ended, with what was typed after it.
    pub(crate) unsent_message: String,
}

/// A dashboard that covers the terminal.
#[derive(Debug)]
pub(crate) struct Dashboard {
    settings: DashboardSettings,
    source: DashboardSource,
    /// Whether it stays open after the end of the run until the user leaves it.
    stays_open: bool,
    run: RunView,
    history: LineHistory,
    state: ViewState,
    questions: Vec<QuestionPanel>,
    screen: TerminalScreen,
    input: DashboardInputs,
    /// The time of the run at the last event or tick.
    elapsed: Duration,
    /// The time since then.
    since_elapsed: Stopwatch,
    /// The time since the last frame; `None` before the first.
    since_frame: Option<Stopwatch>,
    /// Whether the next frame differs from the last one.
    is_changed: bool,
    bell_and_title: BellAndTitle,
}

/// The events of the terminal. After an error there are no more.
struct DashboardInputs {
    events: Option<EventStream>,
    stop_signals: Option<StopSignals>,
    continue_signal: Option<Signal>,
}

impl Dashboard {
    /// Covers the terminal and draws the first frame; `None` if standard input is not a terminal.
    pub(crate) fn open(
        settings: DashboardSettings,
        source: DashboardSource,
        output: &mut CliOutput<'_>,
    ) -> Option<Self> {
        let screen = TerminalScreen::enter(output)?;
        let mut dashboard = Self {
            settings,
            source,
            stays_open: source == DashboardSource::Run && output.is_of_session(),
            run: RunView::default(),
            history: LineHistory::default(),
            state: ViewState::default(),
            questions: Vec::new(),
            screen,
            input: DashboardInputs::open(),
            elapsed: Duration::ZERO,
            since_elapsed: Stopwatch::start(),
            since_frame: None,
            is_changed: true,
            bell_and_title: BellAndTitle {
                beep: false,
                title: Some(TITLE),
            },
        };
        dashboard.draw(output);
        Some(dashboard)
    }

    /// Applies an event that happened `elapsed` after the start to the run.
    pub(crate) fn on_event(&mut self, event: &Event, elapsed: Duration) {
        self.run.apply_next(event, milliseconds(elapsed));
        self.history.push(event, elapsed);
        self.set_elapsed(elapsed);
        let last_index = self.run.agents().len().saturating_sub(1);
        self.state.agent_index = self.state.agent_index.min(last_index);
        if let Event::Coordination(CoordinationEvent::WinnerSelected { agent, .. }) = event
            && self.state.view == OpenView::Overview
        {
            self.state.agent_index = self.run.agent_index(agent).unwrap_or_default();
            self.state.scroll = 0;
        }
        self.is_changed = true;
    }

    /// Shows a message that is not an event as a warning of the run.
    pub(crate) fn on_warning(&mut self, message: &str) {
        let message = message.to_owned();
        let event = Event::Run(RunEvent::Warning { message });
        self.on_event(&event, self.elapsed);
    }

    /// Returns the time until there is something to draw; `None` while there is nothing.
    pub(crate) fn due(&self) -> Option<Duration> {
        if self.is_changed {
            let since = self.since_frame.as_ref().map(Stopwatch::elapsed);
            return Some(
                since.map_or(Duration::ZERO, |since| FRAME_INTERVAL.saturating_sub(since)),
            );
        }
        if self.run.run().phase == RunPhase::Ended {
            return None;
        }
        let remaining_ms = SECOND_MS.saturating_sub(self.now_ms() % SECOND_MS);
        Some(Duration::from_millis(remaining_ms))
    }

    /// Draws what has changed, at most once in a [`FRAME_INTERVAL`].
    pub(crate) fn on_due(&mut self, elapsed: Option<Duration>, output: &mut CliOutput<'_>) {
        let before = self.elapsed.as_secs();
        if self.run.run().phase != RunPhase::Ended {
            let new_elapsed = elapsed.unwrap_or_else(|| Duration::from_millis(self.now_ms()));
            self.set_elapsed(new_elapsed);
        }
        self.is_changed |= self.elapsed.as_secs() != before;
        self.remove_withdrawn_questions();
        if self.is_changed && self.due() == Some(Duration::ZERO) {
            self.draw(output);
        }
    }

    /// Waits for a key, a changed size, or the stop or continuation of the process.
    /// Is cancel safe.
    pub(crate) async fn next_input(&mut self) -> DashboardInput {
        self.input.next().await
    }

    /// Handles an input.
    pub(crate) fn on_input(
        &mut self,
        input: &DashboardInput,
        output: &mut CliOutput<'_>,
    ) -> DashboardInputEffect {
        self.is_changed = true;
        let key = match input {
            DashboardInput::StopSignal => {
                self.screen.suspend(|| self.input.stop_process(), output);
                return DashboardInputEffect::Stay;
            }
            DashboardInput::ContinueSignal => {
                self.screen.resume(output);
                return DashboardInputEffect::Stay;
            }
            DashboardInput::Terminal(TerminalEvent::Key(key))
                if key.kind != KeyEventKind::Release =>
            {
                *key
            }
            DashboardInput::Terminal(TerminalEvent::Paste(text)) => {
                self.key_target().paste(text);
                return DashboardInputEffect::Stay;
            }
            DashboardInput::Terminal(_) => return DashboardInputEffect::Stay,
        };
        let effect = self.key_target().press(key);
        match effect {
            KeyEffect::Redraw => {}
            KeyEffect::RedrawAll => self.screen.request_full_draw(),
            KeyEffect::Answer(QuestionAnswer::Instead(text)) => return self.answer_instead(&text),
            KeyEffect::Answer(answer) => self.answer(answer),
            KeyEffect::Send(line) => return DashboardInputEffect::Send(line),
            KeyEffect::SearchOlder => self.search_older(),
            KeyEffect::Suspend => self.screen.suspend(|| self.input.stop_group(), output),
            KeyEffect::LeaveToLines => return DashboardInputEffect::LeaveToLines,
            KeyEffect::Stop => return DashboardInputEffect::Stop,
            KeyEffect::Quit if self.is_over() => return DashboardInputEffect::LeaveToLines,
            KeyEffect::Quit => return DashboardInputEffect::Quit,
        }
        DashboardInputEffect::Stay
    }

    fn key_target(&mut self) -> KeyTarget<'_> {
        let is_over = self.is_over();
        KeyTarget {
            now_ms: self.now_ms(),
            state: &mut self.state,
            questions: &mut self.questions,
            run: &self.run,
            is_over,
            is_record: is_over || self.source == DashboardSource::Record,
        }
    }

    /// Returns whether the run has ended.
    pub(crate) fn has_seen_end(&self) -> bool {
        self.run.run().phase == RunPhase::Ended
    }

    /// Returns whether it stays open although the run is over.
    pub(crate) fn is_over(&self) -> bool {
        self.stays_open && self.has_seen_end()
    }

    /// Denies the call of the first question. Returns what its agent is to be told.
    fn answer_instead(&mut self, text: &str) -> DashboardInputEffect {
        let question = self.questions.first();
        let agent = question.and_then(QuestionPanel::calling_agent).cloned();
        self.answer(QuestionAnswer::Call(ApprovalAnswer::No));
        match agent.filter(|_| !text.trim().is_empty()) {
            Some(agent) => DashboardInputEffect::Send(format!("{agent}: {text}")),
            None => DashboardInputEffect::Stay,
        }
    }

    /// Shows a question of the run, which waits for the user's answer.
    pub(crate) fn ask(&mut self, question: UserQuestion) {
        // A review reads the files of the delivery.
        let panel = tokio::task::block_in_place(|| QuestionPanel::new(question));
        if panel.review.is_some() && self.questions.is_empty() {
            self.state.open(OpenView::Changes);
        }
        self.questions.push(panel);
        self.bell_and_title.beep = true;
        self.bell_and_title.title = Some(TITLE_QUESTION);
        self.is_changed = true;
    }

    /// Returns whether the dashboard covers the terminal; a panic restores the terminal.
    pub(crate) fn is_open(&self) -> bool {
        self.screen.is_entered()
    }

    /// Restores the terminal.
    pub(crate) fn close(&mut self, output: &mut CliOutput<'_>) -> DashboardRest {
        let mut typed_text = self.input.close();
        let composer = self.state.composer.take();
        let message = composer.filter(|line| line.purpose == ComposerPurpose::Message);
        let unsent_message =
            message.map(|line| line.text.into_string() + &std::mem::take(&mut typed_text));
        self.screen.leave(output);
        // Dropped last: a SIGTSTP before that must not leave the shell a covered terminal.
        self.input.stop_signals = None;
        let questions = self.questions.drain(..);
        DashboardRest {
            questions: questions.map(QuestionPanel::into_question).collect(),
            typed_text,
            unsent_message: unsent_message.unwrap_or_default(),
        }
    }

    /// Passes the events of the run to `show`, without the pieces of replies. Returns the number of
    /// events that were not kept.
    pub(crate) fn for_each_event(&self, mut show: impl FnMut(&Event, Duration)) -> u64 {
        for entry in self.history.events() {
            show(&entry.event, entry.elapsed);
        }
        self.history.omitted_count()
    }

    fn now_ms(&self) -> u64 {
        let elapsed = match self.run.run().phase {
            RunPhase::Ended => self.elapsed,
            RunPhase::Starting
            | RunPhase::Coordinating
            | RunPhase::Presenting
            | RunPhase::Delivering => self.elapsed.saturating_add(self.since_elapsed.elapsed()),
        };
        milliseconds(elapsed)
    }

    fn set_elapsed(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
        self.since_elapsed = Stopwatch::start();
    }

    fn answer(&mut self, answer: QuestionAnswer) {
        if self.questions.is_empty() {
            return;
        }
        let question = self.questions.remove(0);
        let was_review = question.review.is_some();
        question.send(answer);
        self.leave_question(was_review);
    }

    /// Removes the questions whose answer the run no longer waits for.
    fn remove_withdrawn_questions(&mut self) {
        let count = self.questions.len();
        let first_question = self.questions.first();
        let was_review = first_question.is_some_and(|question| question.review.is_some());
        self.questions.retain(|question| !question.is_withdrawn());
        if self.questions.len() != count {
            self.leave_question(was_review);
        }
    }

    /// Leaves what was open for a question that is gone.
    fn leave_question(&mut self, was_review: bool) {
        self.state.is_task_open = false;
        self.state.composer = None;
        if was_review && self.state.view == OpenView::Changes {
            self.state.open(OpenView::Overview);
        }
        if self.questions.is_empty() {
            self.bell_and_title.title = Some(TITLE);
        }
        self.is_changed = true;
    }

    fn search_older(&mut self) {
        let area = area_of(stderr_size().unwrap_or(FALLBACK_SIZE));
        let body = self.scene().body(area);
        let agent = self.run.agents().get(self.state.agent_index);
        let match_scroll =
            agent.and_then(|agent| views::agent::find_older(agent, &self.state, body));
        match match_scroll {
            Some(scroll) => {
                self.state.scroll_max = usize::MAX;
                self.state.scroll = scroll;
            }
            None => self.state.note = Some("not found"),
        }
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            run: &self.run,
            history: &self.history,
            state: &self.state,
            questions: &self.questions,
            limits: self.settings.limits,
            now_ms: milliseconds(self.elapsed),
            is_over: self.is_over(),
            is_record: self.is_over() || self.source == DashboardSource::Record,
        }
    }

    fn draw(&mut self, output: &mut CliOutput<'_>) {
        let area = area_of(stderr_size().unwrap_or(FALLBACK_SIZE));
        let mut frame = Buffer::empty(area);
        let scroll_max = self.scene().draw(&mut frame, self.settings.theme);
        self.state.limit_scroll(scroll_max);
        let task_scroll_max = self.scene().task_scroll_max(area);
        self.state.task_scroll = self.state.task_scroll.min(task_scroll_max);
        let bell_and_title = std::mem::take(&mut self.bell_and_title);
        self.screen.draw(frame, bell_and_title, output);
        let now_ms = self.now_ms();
        if let Some(question) = self.questions.first_mut() {
            question.set_shown(now_ms);
        }
        self.is_changed = false;
        self.since_frame = Some(Stopwatch::start());
    }
}

impl DashboardInputs {
    /// Begins to read the terminal.
    fn open() -> Self {
        Self {
            events: Some(EventStream::new()),
            stop_signals: StopSignals::subscribe(),
            continue_signal: signal(SignalKind::from_raw(SIGCONT)).ok(),
        }
    }

    async fn next(&mut self) -> DashboardInput {
        loop {
            tokio::select! {
                event = next_event(&mut self.events) => match event {
                    Some(event) => return DashboardInput::Terminal(event),
                    None => self.events = None,
                },
                () = next_stop(&mut self.stop_signals) => return DashboardInput::StopSignal,
                () = next_continuation(&mut self.continue_signal) => {
                    return DashboardInput::ContinueSignal;
                }
            }
        }
    }

    /// Stops this process until it is continued.
    fn stop_process(&self) {
        if let Some(stop_signals) = &self.stop_signals {
            stop_signals.stop_process();
        }
    }

    /// Stops the process group, as Ctrl-Z does, until it is continued.
    fn stop_group(&self) {
        match &self.stop_signals {
            Some(stop_signals) => stop_signals.stop_group(),
            None => suspend(),
        }
    }

    /// Stops reading the terminal. Returns what was typed after the last key: keys that arrive
    /// together are read together, and nothing else could read them any more.
    fn close(&mut self) -> String {
        let mut typed_text = String::new();
        // Dropping the stream wakes the reader, which then reports no event.
        if let Some(_events) = self.events.take() {
            while typed_text.len() < TYPED_BYTES_MAX && poll(Duration::ZERO).unwrap_or(false) {
                match read() {
                    Ok(TerminalEvent::Key(key)) => typed_text.extend(typed_char(key)),
                    Ok(TerminalEvent::Paste(text)) => typed_text.push_str(&text),
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
        typed_text
    }
}

/// Returns the character that a line editor reads of a key; `None` for keys that it ignores.
fn typed_char(key: KeyEvent) -> Option<char> {
    let is_plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
    if key.kind == KeyEventKind::Release || !is_plain {
        return None;
    }
    if let KeyCode::Char(c) = key.code {
        Some(c)
    } else if key.code == KeyCode::Enter {
        Some('\n')
    } else if key.code == KeyCode::Backspace {
        Some('\u{7f}')
    } else {
        None
    }
}

impl std::fmt::Debug for DashboardInputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DashboardInputs").finish_non_exhaustive()
    }
}

/// Returns the next event; `None` if there will be no more.
async fn next_event(events: &mut Option<EventStream>) -> Option<TerminalEvent> {
    match events {
        Some(events) => events.next().await?.ok(),
        None => std::future::pending().await,
    }
}

async fn next_stop(stop_signals: &mut Option<StopSignals>) {
    match stop_signals {
        Some(stop_signals) => stop_signals.wait().await,
        None => std::future::pending().await,
    }
}

async fn next_continuation(continue_signal: &mut Option<Signal>) {
    match continue_signal {
        Some(continue_signal) => {
            continue_signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
