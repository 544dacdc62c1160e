//! A batch on the whole terminal. It shows the state that it was last given, and draws after each
//! new state and each input.

use crossterm::event::{Event as TerminalEvent, KeyCode, KeyEventKind, KeyModifiers};
use ratatui_core::buffer::Buffer;

use crate::cli::batch_report::{BatchReport, WatchedCells};
use crate::cli::dashboard::batch_scene::BatchScene;
use crate::cli::dashboard::screen::{BellAndTitle, TerminalScreen, area_of};
use crate::cli::dashboard::theme::Theme;
use crate::cli::dashboard::{
    DashboardInput, DashboardInputEffect, DashboardInputs, FALLBACK_SIZE, TITLE,
};
use crate::cli::output::CliOutput;
use crate::world::diagnostics::probe::terminal::stderr_size;
use crate::world::io::clock::now;

/// The dashboard of a batch.
#[derive(Debug)]
pub(crate) struct BatchDashboard {
    theme: Theme,
    screen: TerminalScreen,
    input: DashboardInputs,
    /// What is shown; `None` before the first report.
    content: Option<BatchContent>,
    bell_and_title: BellAndTitle,
}

/// What the dashboard shows.
#[derive(Debug)]
struct BatchContent {
    report: BatchReport,
    cells: WatchedCells,
}

impl BatchDashboard {
    /// Covers the terminal; `None` if standard input is not a terminal.
    pub(crate) fn open(theme: Theme, output: &mut CliOutput<'_>) -> Option<Self> {
        Some(Self {
            theme,
            screen: TerminalScreen::enter(output)?,
            input: DashboardInputs::open(),
            content: None,
            bell_and_title: BellAndTitle {
                beep: false,
                title: Some(TITLE),
            },
        })
    }

    /// Shows another state of the batch.
    pub(crate) fn show(
        &mut self,
        report: BatchReport,
        cells: WatchedCells,
        output: &mut CliOutput<'_>,
    ) {
        self.content = Some(BatchContent { report, cells });
        self.draw(output);
    }

    /// Waits for a key, another size, or the stop or continuation of the process. Is cancel safe.
    pub(crate) async fn next_input(&mut self) -> DashboardInput {
        self.input.next().await
    }

    /// Handles an input.
    pub(crate) fn on_input(
        &mut self,
        input: &DashboardInput,
        output: &mut CliOutput<'_>,
    ) -> DashboardInputEffect {
        let key = match input {
            DashboardInput::StopSignal => {
                self.screen.suspend(|| self.input.stop_process(), output);
                None
            }
            DashboardInput::ContinueSignal => {
                self.screen.resume(output);
                None
            }
            DashboardInput::Terminal(TerminalEvent::Key(key)) => {
                Some(key).filter(|key| key.kind != KeyEventKind::Release)
            }
            DashboardInput::Terminal(_) => None,
        };
        let pressed = key.map(|key| (key.modifiers.contains(KeyModifiers::CONTROL), key.code));
        match pressed {
            Some((true, KeyCode::Char('z'))) => {
                self.screen.suspend(|| self.input.stop_group(), output);
            }
            Some((true, KeyCode::Char('l'))) => self.screen.request_full_draw(),
            Some((false, KeyCode::Char('q') | KeyCode::Esc)) => return DashboardInputEffect::Quit,
            Some((false, KeyCode::Char('l'))) => return DashboardInputEffect::LeaveToLines,
            Some(_) | None => {}
        }
        self.draw(output);
        DashboardInputEffect::Stay
    }

    /// Restores the terminal. Returns the state that it showed last.
    pub(crate) fn close(&mut self, output: &mut CliOutput<'_>) -> Option<BatchReport> {
        self.input.events = None;
        self.screen.leave(output);
        // Dropped last: a SIGTSTP before that must not leave the shell a covered terminal.
        self.input.stop_signals = None;
        self.content.take().map(|content| content.report)
    }

    fn draw(&mut self, output: &mut CliOutput<'_>) {
        let Some(content) = &self.content else {
            return;
        };
        let mut frame = Buffer::empty(area_of(stderr_size().unwrap_or(FALLBACK_SIZE)));
        let scene = BatchScene {
            report: &content.report,
            cells: &content.cells,
            now: &now(),
        };
        scene.draw(&mut frame, self.theme);
        let bell_and_title = std::mem::take(&mut self.bell_and_title);
        self.screen.draw(frame, bell_and_title, output);
    }
}
