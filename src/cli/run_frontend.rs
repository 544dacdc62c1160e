//! Where the events and the result of a run go, and who is asked: the two standard streams, or a
//! front end such as the page.

use std::fmt::Debug;

use crate::agent::user_messages::UserMessageSender;
use crate::cli::output::CliOutput;
use crate::cli::result_builder::RunStart;
use crate::error::{ExitStatus, Result};
use crate::event::Event;
use crate::host::{Host, StreamTarget};
use crate::orchestrator::review::UserQuestion;
use crate::path::AbsPath;
use crate::spending::limits::BudgetLimits;
use crate::world::diagnostics::probe::terminal::{TerminalSize, stderr_size};
use crate::world::store::redact::Redactor;

/// What shows a run elsewhere than on the two standard streams.
pub(crate) trait RunFrontend: Debug + Send {
    /// Begins the run, which has its records now.
    fn begin(
        &mut self,
        start: RunStart,
        redactor: Redactor,
        output: &mut CliOutput<'_>,
    ) -> Result<()>;

    /// Receives the next event, whose warning was printed.
    fn on_event(&mut self, event: &Event, output: &mut CliOutput<'_>) -> Result<()>;

    /// Returns who decides about deliveries, and who approves calls.
    fn decider(&self) -> Decider;

    /// Receives the sender of messages to the agents, and the limits of the run.
    fn accept_messages(&self, _sender: &UserMessageSender, _limits: BudgetLimits) {}

    /// Asks its user, if it has one; without an answer, the question is dropped.
    fn ask(&self, _question: UserQuestion) {}
}

/// Who decides about the deliveries of a run that is not shown on the standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decider {
    /// A person, who also approves calls.
    User,
    /// Nobody can be asked: what may be delivered without a review is applied.
    Config,
    /// Clients that cannot answer: a delivery that needs a review is not applied.
    Clients,
}

/// Where the events and the result of a run go.
#[derive(Debug)]
pub(crate) enum OutputMode<'r> {
    /// To the two standard streams, as lines or on the dashboard.
    Streams(UserPresence),
    /// To something else.
    Frontend(&'r mut dyn RunFrontend),
}

impl<'r> OutputMode<'r> {
    /// Returns the mode of a run that is started by `host`, with its report in JSON if there is one.
    pub(crate) fn new(host: &Host, report: Option<&'r mut dyn RunFrontend>) -> Self {
        match report {
            Some(report) => OutputMode::Frontend(report),
            None => OutputMode::Streams(UserPresence::detect(host)),
        }
    }

    /// Returns the size of the terminal on which a user watches the run, if one does.
    pub(crate) fn watched_terminal(&self) -> Option<TerminalSize> {
        let is_watched = matches!(self, Self::Streams(UserPresence::Present));
        is_watched.then(stderr_size).flatten()
    }
}

/// Whether a user is at the terminal and can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserPresence {
    /// At a terminal.
    Present,
    /// Not at a terminal.
    Absent,
}

impl UserPresence {
    /// Detects whether standard input and standard error of `host` are terminals.
    pub(crate) fn detect(host: &Host) -> Self {
        let has_terminal = |stream: StreamTarget| stream == StreamTarget::Terminal;
        Self::from_flag(has_terminal(host.stdin) && has_terminal(host.stderr))
    }

    /// Returns `Present` if `is_present`.
    pub(crate) fn from_flag(is_present: bool) -> Self {
        if is_present {
            UserPresence::Present
        } else {
            UserPresence::Absent
        }
    }
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub(crate) struct RunOutcome {
    /// The exit status of the process.
    pub(crate) status: ExitStatus,
    /// The id of its session; a session in which nothing was saved has been removed.
    pub(crate) session: String,
    /// The directory of its logs.
    pub(crate) log_dir: AbsPath,
    /// The beginning of a line that the user typed and did not send to the agents.
    pub(crate) unsent_text: String,
    /// The next command to suggest to the user.
    pub(crate) hint: Option<String>,
    /// The directory with the winner's files, if they stayed in the session because there was no
    /// path to deliver them to.
    pub(crate) kept_files: Option<AbsPath>,
}
