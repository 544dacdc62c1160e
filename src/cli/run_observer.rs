//! What observes a run: the event sinks, which depend on the output mode, and the terminal or the
//! page on which a person can be asked.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::cli::args::RunArguments;
use crate::cli::automation::AutomationOutput;
use crate::cli::dashboard::settings::DashboardSettings;
use crate::cli::dashboard::{DashboardInput, DashboardInputEffect, DashboardSource};
use crate::cli::execution::OutputMode;
use crate::cli::json_report::JsonReportSink;
use crate::cli::output::CliOutput;
use crate::cli::render::{LineDetail, RunRenderer};
use crate::cli::result_builder::RunStart;
use crate::cli::run_terminal::RunTerminal;
use crate::cli::typed_message::RunReport;
use crate::cli::warning_sink::WarningSink;
use crate::cli::web::page_run::PageRun;
use crate::error::Result;
use crate::event::Event;
use crate::orchestrator::execution::RunOutputPaths;
use crate::orchestrator::review::UserQuestion;
use crate::world::io::event_sink::{EventSink, sleep_until_due};
use crate::world::store::redact::Redactor;

/// All sinks of a run, and where its questions are asked.
#[derive(Debug)]
pub(crate) struct RunObserver<'o, 'w> {
    /// The lines or the dashboard of the run on the standard streams. If these are a terminal, a
    /// person can be asked there.
    terminal: Option<RunTerminal<'o, 'w>>,
    /// The run of a page, on which a person can be asked.
    page: Option<&'o PageRun>,
    /// All other sinks.
    sinks: Vec<Box<dyn EventSink + 'o>>,
}

impl<'o, 'w> RunObserver<'o, 'w> {
    /// Creates the sinks for the run `run_start`; `output_paths` are those of the run. A person
    /// sees the run on the `dashboard`, if one is to be opened.
    pub(crate) fn begin(
        mode: OutputMode<'o>,
        dashboard: Option<DashboardSettings>,
        run_start: RunStart,
        redactor: Redactor,
        arguments: &RunArguments,
        output_paths: RunOutputPaths,
        output: &'o mut CliOutput<'w>,
    ) -> Result<Self> {
        Ok(match mode {
            OutputMode::Json(report) => {
                report.begin(run_start, redactor, output)?;
                Self::with_sink(JsonReportSink::new(report, output))
            }
            OutputMode::Mcp(run) => {
                run.begin(run_start, redactor);
                Self::with_sink(WarningSink::new(run, output))
            }
            OutputMode::Page(run) => {
                run.begin(run_start, redactor)?;
                Self {
                    page: Some(run),
                    ..Self::with_sink(WarningSink::new(run, output))
                }
            }
            OutputMode::Streams if arguments.automation => {
                Self::with_sink(AutomationOutput::new(output, output_paths))
            }
            OutputMode::Streams => Self::with_terminal(if let Some(settings) = dashboard {
                RunTerminal::with_dashboard(output, settings, DashboardSource::Run)
            } else {
                let mut lines = RunRenderer::new(output);
                if arguments.display.quiet {
                    lines.set_detail(LineDetail::Quiet);
                }
                RunTerminal::with_lines(lines)
            }),
        })
    }

    /// Creates an observer with a terminal and no other sink.
    pub(crate) fn with_terminal(terminal: RunTerminal<'o, 'w>) -> Self {
        Self {
            terminal: Some(terminal),
            page: None,
            sinks: Vec::new(),
        }
    }

    fn with_sink(sink: impl EventSink + 'o) -> Self {
        Self {
            terminal: None,
            page: None,
            sinks: vec![Box::new(sink)],
        }
    }

    /// Returns the output for questions in lines, if the run is shown on the standard streams.
    pub(crate) fn terminal(&mut self) -> Option<&mut CliOutput<'w>> {
        self.terminal.as_mut().map(RunTerminal::output)
    }

    /// Shows a question on the dashboard. Returns it if there is none.
    pub(crate) fn show_question(&mut self, question: UserQuestion) -> Option<UserQuestion> {
        match &mut self.terminal {
            Some(terminal) => terminal.show_question(question),
            None => Some(question),
        }
    }

    /// Returns the questions that the dashboard left unanswered.
    pub(crate) fn take_unanswered_questions(&mut self) -> Vec<UserQuestion> {
        let terminal = self.terminal.as_mut();
        terminal.map_or_else(Vec::new, RunTerminal::take_unanswered_questions)
    }

    /// Shows what the user has asked about the run, if it is shown as lines.
    pub(crate) fn show_report(&mut self, report: RunReport) {
        if let Some(terminal) = &mut self.terminal {
            terminal.show_report(report);
        }
    }

    /// Returns what was typed after the key that left the dashboard.
    pub(crate) fn take_typed_text(&mut self) -> String {
        let terminal = self.terminal.as_mut();
        terminal.map_or_else(String::new, RunTerminal::take_typed_text)
    }

    /// Leaves the dashboard of a run that has ended. Returns the message that was being typed on
    /// it.
    pub(crate) fn leave_dashboard(&mut self) -> (Result<()>, String) {
        match &mut self.terminal {
            Some(terminal) => (terminal.leave_dashboard(), terminal.take_unsent_message()),
            None => (Ok(()), String::new()),
        }
    }

    /// Waits for an input of the dashboard, forever if there is none. Is cancel safe.
    pub(crate) async fn next_input(&mut self) -> DashboardInput {
        match &mut self.terminal {
            Some(terminal) => terminal.next_input().await,
            None => std::future::pending().await,
        }
    }

    /// Handles an input of the dashboard, which may cancel `stop`. Returns the message to the
    /// agents that it completes.
    pub(crate) fn on_input(
        &mut self,
        input: &DashboardInput,
        stop: &CancellationToken,
    ) -> Result<Option<String>> {
        let Some(terminal) = &mut self.terminal else {
            return Ok(None);
        };
        Ok(match terminal.on_input(input)? {
            DashboardInputEffect::Send(line) => Some(line),
            DashboardInputEffect::Stop => {
                stop.cancel();
                None
            }
            DashboardInputEffect::Stay
            | DashboardInputEffect::LeaveToLines
            // Only the dashboard of a record can be quit; a run continues.
            | DashboardInputEffect::Quit => None,
        })
    }

    /// Lets the user look at the dashboard of a run of a session that is over, until they leave it
    /// or `stop` is cancelled.
    pub(crate) async fn show_end(&mut self, stop: &CancellationToken) -> Result<()> {
        while self.terminal.as_ref().is_some_and(RunTerminal::is_over) {
            let due = self.due();
            tokio::select! {
                input = self.next_input() => drop(self.on_input(&input, stop)?),
                () = sleep_until_due(due) => {}
                () = stop.cancelled() => break,
            }
            self.on_due(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Returns whether the dashboard is open, which reads the terminal then.
    pub(crate) fn has_dashboard(&self) -> bool {
        self.terminal
            .as_ref()
            .is_some_and(RunTerminal::has_dashboard)
    }

    /// Returns the run of the page, if a person there can be asked.
    pub(crate) fn page(&self) -> Option<&'o PageRun> {
        self.page
    }

    /// Passes an event that happened `elapsed` after the start to all sinks, even if one of them
    /// fails. Returns the first error.
    pub(crate) fn on_event(&mut self, event: &Event, elapsed: Duration) -> Result<()> {
        self.for_each(|sink| sink.on_event(event, elapsed))
    }

    /// Returns the time until a sink has something to do.
    pub(crate) fn due(&self) -> Option<Duration> {
        let terminal = self.terminal.as_ref().and_then(EventSink::due);
        let sinks = self.sinks.iter().filter_map(|sink| sink.due());
        sinks.chain(terminal).min()
    }

    /// Lets the sinks do what is due. Returns the first error.
    pub(crate) fn on_due(&mut self, elapsed: Duration) -> Result<()> {
        self.for_each(|sink| sink.on_due(elapsed))
    }

    /// Ends all sinks. Returns the first error.
    pub(crate) async fn finish(self) -> Result<()> {
        // A terminal has no work left after its last event, but its dashboard may be open.
        let mut outcome = match self.terminal {
            Some(mut terminal) => terminal.leave_dashboard(),
            None => Ok(()),
        };
        for sink in self.sinks {
            outcome = outcome.and(sink.finish().await);
        }
        outcome
    }

    fn for_each(
        &mut self,
        mut act: impl FnMut(&mut (dyn EventSink + 'o)) -> Result<()>,
    ) -> Result<()> {
        let mut outcome = Ok(());
        if let Some(terminal) = &mut self.terminal {
            outcome = act(terminal);
        }
        for sink in &mut self.sinks {
            outcome = outcome.and(act(sink.as_mut()));
        }
        outcome
    }
}
