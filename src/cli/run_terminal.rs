//! A run on the terminal of a person who can be asked: as lines, or on the dashboard. The dashboard
//! ends with the lines that the run would have had, so that they stay in the terminal's history.

use std::time::Duration;

use crate::cli::dashboard::settings::DashboardSettings;
use crate::cli::dashboard::{Dashboard, DashboardInput, DashboardInputEffect, DashboardSource};
use crate::cli::output::CliOutput;
use crate::cli::render::{LineDetail, RunRenderer};
use crate::cli::typed_message::RunReport;
use crate::error::Result;
use crate::event::Event;
use crate::orchestrator::review::UserQuestion;
use crate::world::io::event_sink::EventSink;

/// A run on a terminal.
#[derive(Debug)]
pub(crate) struct RunTerminal<'o, 'w> {
    lines: RunRenderer<'o, 'w>,
    dashboard: Option<Box<Dashboard>>,
    /// Questions that the dashboard left unanswered.
    unanswered_questions: Vec<UserQuestion>,
    /// What was typed after the key that left the dashboard.
    typed_text: String,
    /// The message that was being typed on the dashboard when it ended.
    unsent_message: String,
}

impl<'o, 'w> RunTerminal<'o, 'w> {
    /// Creates the terminal of a run that is shown as lines.
    pub(crate) fn with_lines(lines: RunRenderer<'o, 'w>) -> Self {
        Self {
            lines,
            dashboard: None,
            unanswered_questions: Vec::new(),
            typed_text: String::new(),
            unsent_message: String::new(),
        }
    }

    /// Opens the dashboard on the terminal of `output`.
    pub(crate) fn with_dashboard(
        output: &'o mut CliOutput<'w>,
        settings: DashboardSettings,
        source: DashboardSource,
    ) -> Self {
        let dashboard = Dashboard::open(settings, source, output);
        Self {
            lines: RunRenderer::new(output),
            dashboard: dashboard.map(Box::new),
            unanswered_questions: Vec::new(),
            typed_text: String::new(),
            unsent_message: String::new(),
        }
    }

    /// Returns whether the dashboard is open.
    pub(crate) fn has_dashboard(&self) -> bool {
        self.dashboard.is_some()
    }

    /// Returns whether the dashboard stays open although the run is over.
    pub(crate) fn is_over(&self) -> bool {
        self.dashboard
            .as_ref()
            .is_some_and(|dashboard| dashboard.is_over())
    }

    /// Returns the output for questions in lines.
    pub(crate) fn output(&mut self) -> &mut CliOutput<'w> {
        self.lines.output()
    }

    /// Shows a question on the dashboard. Returns it if there is none.
    pub(crate) fn show_question(&mut self, question: UserQuestion) -> Option<UserQuestion> {
        match &mut self.dashboard {
            Some(dashboard) => {
                dashboard.ask(question);
                None
            }
            None => Some(question),
        }
    }

    /// Returns the questions that the dashboard left unanswered.
    pub(crate) fn take_unanswered_questions(&mut self) -> Vec<UserQuestion> {
        std::mem::take(&mut self.unanswered_questions)
    }

    /// Returns what was typed after the key that left the dashboard.
    pub(crate) fn take_typed_text(&mut self) -> String {
        std::mem::take(&mut self.typed_text)
    }

    /// Returns the message that was being typed on the dashboard when it ended.
    pub(crate) fn take_unsent_message(&mut self) -> String {
        std::mem::take(&mut self.unsent_message)
    }

    /// Shows what the user has asked about the run; the dashboard shows all of it already.
    pub(crate) fn show_report(&mut self, report: RunReport) {
        if self.dashboard.is_none() {
            self.lines.show_report(report);
        }
    }

    /// Shows a message that is not an event.
    pub(crate) fn show_warning(&mut self, message: &str) {
        match &mut self.dashboard {
            Some(dashboard) => dashboard.on_warning(message),
            None => self.lines.show_warning(message),
        }
    }

    /// Waits for an input of the dashboard, forever if there is none. Is cancel safe.
    pub(crate) async fn next_input(&mut self) -> DashboardInput {
        match &mut self.dashboard {
            Some(dashboard) => dashboard.next_input().await,
            None => std::future::pending().await,
        }
    }

    /// Handles an input of the dashboard. Returns what follows.
    pub(crate) fn on_input(&mut self, input: &DashboardInput) -> Result<DashboardInputEffect> {
        let Some(dashboard) = &mut self.dashboard else {
            return Ok(DashboardInputEffect::LeaveToLines);
        };
        let effect = dashboard.on_input(input, self.lines.output());
        match &effect {
            DashboardInputEffect::Stay
            | DashboardInputEffect::Send(_)
            | DashboardInputEffect::Stop => {}
            DashboardInputEffect::LeaveToLines => self.leave_dashboard()?,
            DashboardInputEffect::Quit => self.close_dashboard(),
        }
        Ok(effect)
    }

    /// Restores the terminal, and shows the lines of the run so far.
    pub(crate) fn leave_dashboard(&mut self) -> Result<()> {
        let Some(mut dashboard) = self.dashboard.take() else {
            return Ok(());
        };
        let dashboard_rest = dashboard.close(self.lines.output());
        self.unanswered_questions = dashboard_rest.questions;
        self.typed_text = dashboard_rest.typed_text;
        self.unsent_message = dashboard_rest.unsent_message;
        let mut outcome = Ok(());
        let lines = &mut self.lines;
        if dashboard.has_seen_end() {
            lines.set_detail(LineDetail::Outcome);
        }
        let omitted_count = dashboard.for_each_event(|event, elapsed| {
            let result = lines.on_event(event, elapsed);
            // The first error counts.
            if outcome.is_ok() {
                outcome = result;
            }
        });
        if omitted_count > 0 {
            let message = format!("{omitted_count} more events are in the log: massgen logs show");
            self.lines.show_warning(&message);
        }
        outcome
    }

    /// Restores the terminal without any lines, when the user closes a record or after a panic.
    /// What the dashboard leaves to others is dropped.
    pub(crate) fn close_dashboard(&mut self) {
        if let Some(mut dashboard) = self.dashboard.take() {
            dashboard.close(self.lines.output());
        }
    }

    /// Leaves the dashboard if a panic has taken the terminal back.
    fn leave_lost_dashboard(&mut self) -> Result<()> {
        match &self.dashboard {
            Some(dashboard) if !dashboard.is_open() => self.leave_dashboard(),
            Some(_) | None => Ok(()),
        }
    }
}

impl EventSink for RunTerminal<'_, '_> {
    fn on_event(&mut self, event: &Event, elapsed: Duration) -> Result<()> {
        let leave_result = self.leave_lost_dashboard();
        let event_result = match &mut self.dashboard {
            Some(dashboard) => {
                dashboard.on_event(event, elapsed);
                Ok(())
            }
            None => self.lines.on_event(event, elapsed),
        };
        leave_result.and(event_result)
    }

    fn due(&self) -> Option<Duration> {
        match &self.dashboard {
            Some(dashboard) => dashboard.due(),
            None => self.lines.due(),
        }
    }

    fn on_due(&mut self, elapsed: Duration) -> Result<()> {
        match &mut self.dashboard {
            Some(dashboard) => {
                dashboard.on_due(Some(elapsed), self.lines.output());
                Ok(())
            }
            None => self.lines.on_due(elapsed),
        }
    }
}

impl Drop for RunTerminal<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.close_dashboard();
        } else {
            // The output has kept the error.
            self.leave_dashboard().unwrap_or_default();
        }
    }
}
