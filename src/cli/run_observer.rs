//! What observes a run: the terminal, the lines for scripts, or another front end. A person can be
//! asked there.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::cli::args::RunArguments;
use crate::cli::automation::AutomationOutput;
use crate::cli::dashboard::settings::DashboardSettings;
use crate::cli::dashboard::{DashboardInput, DashboardInputEffect, DashboardSource};
use crate::cli::json_report::event_warning;
use crate::cli::output::CliOutput;
use crate::cli::render::{LineDetail, RunRenderer};
use crate::cli::result_builder::RunStart;
use crate::cli::run_frontend::OutputMode;
use crate::cli::run_frontend::RunFrontend;
use crate::cli::run_terminal::RunTerminal;
use crate::error::Result;
use crate::event::Event;
use crate::orchestrator::execution::RunOutputPaths;
use crate::world::io::event_sink::{EventSink, sleep_until_due};
use crate::world::store::redact::Redactor;

/// What observes a run.
#[derive(Debug)]
pub(crate) enum RunObserver<'o, 'w> {
    /// The lines or the dashboard of the run on the standard streams. If these are a terminal, a
    /// person can be asked there.
    Terminal(Box<RunTerminal<'o, 'w>>),
    /// The lines for scripts.
    Automation(Box<AutomationOutput<'o, 'w>>),
    /// Something else, and the output for warnings.
    Frontend(&'o mut dyn RunFrontend, &'o mut CliOutput<'w>),
}

impl<'o, 'w> RunObserver<'o, 'w> {
    /// Begins to observe the run `start`; `output_paths` are those of the run. A person sees the
    /// run on the `dashboard`, if one is to be opened.
    pub(crate) fn begin(
        mode: &'o mut OutputMode<'_>,
        dashboard: Option<DashboardSettings>,
        start: RunStart,
        redactor: Redactor,
        arguments: &RunArguments,
        output_paths: RunOutputPaths,
        output: &'o mut CliOutput<'w>,
    ) -> Result<Self> {
        if let OutputMode::Frontend(frontend) = mode {
            frontend.begin(start, redactor, output)?;
            return Ok(Self::Frontend(&mut **frontend, output));
        }
        if arguments.automation {
            let lines = AutomationOutput::new(output, output_paths);
            return Ok(Self::Automation(Box::new(lines)));
        }
        let terminal = if let Some(settings) = dashboard {
            RunTerminal::with_dashboard(output, settings, DashboardSource::Run)
        } else {
            let mut lines = RunRenderer::new(output);
            if arguments.display.quiet {
                lines.set_detail(LineDetail::Quiet);
            }
            RunTerminal::with_lines(lines)
        };
        Ok(Self::Terminal(Box::new(terminal)))
    }

    /// Returns the terminal, if the run is shown on the standard streams.
    pub(crate) fn terminal(&mut self) -> Option<&mut RunTerminal<'o, 'w>> {
        match self {
            Self::Terminal(terminal) => Some(terminal),
            Self::Automation(_) | Self::Frontend(..) => None,
        }
    }

    /// Returns what shows the run elsewhere than on the standard streams, if something does.
    pub(crate) fn frontend(&self) -> Option<&dyn RunFrontend> {
        match self {
            Self::Frontend(frontend, _) => Some(&**frontend),
            Self::Terminal(_) | Self::Automation(_) => None,
        }
    }

    /// Waits for an input of the dashboard, forever if there is none. Is cancel safe.
    pub(crate) async fn next_input(&mut self) -> DashboardInput {
        match self.terminal() {
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
        let Some(terminal) = self.terminal() else {
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
        while matches!(self, Self::Terminal(terminal) if terminal.is_over()) {
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
        matches!(self, Self::Terminal(terminal) if terminal.has_dashboard())
    }

    /// Shows an event that happened `elapsed` after the start.
    pub(crate) fn on_event(&mut self, event: &Event, elapsed: Duration) -> Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.on_event(event, elapsed),
            Self::Automation(lines) => lines.on_event(event, elapsed),
            Self::Frontend(frontend, output) => {
                if let Some(warning) = event_warning(event) {
                    output.warning(&warning);
                }
                frontend.on_event(event, output)
            }
        }
    }

    /// Returns the time until the terminal has something to do.
    pub(crate) fn due(&self) -> Option<Duration> {
        match self {
            Self::Terminal(terminal) => terminal.due(),
            Self::Automation(_) | Self::Frontend(..) => None,
        }
    }

    /// Lets the terminal do what is due.
    pub(crate) fn on_due(&mut self, elapsed: Duration) -> Result<()> {
        self.terminal()
            .map_or(Ok(()), |terminal| terminal.on_due(elapsed))
    }
}
