//! A run that the page started: it feeds the readers of the page, and its questions go to the
//! person there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::agent::user_messages::{MessageRejection, UserMessage, UserMessageSender};
use crate::cli::output::CliOutput;
use crate::cli::result_builder::RunStart;
use crate::cli::run_frontend::Decider;
use crate::cli::run_frontend::{RunFrontend, RunOutcome};
use crate::cli::web::logged_run::LoggedRun;
use crate::cli::web::run_feed::RunFeed;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::orchestrator::execution::ShutdownSignal;
use crate::orchestrator::review::UserQuestion;
use crate::path::AbsPath;
use crate::spending::limits::BudgetLimits;
use crate::world::store::redact::Redactor;
use crate::world::store::stream_redactor::AgentStreamRedactor;

/// A run of the page.
#[derive(Debug)]
pub(crate) struct PageRun {
    feed: Arc<RunFeed>,
    state: Mutex<PageRunState>,
    /// Cancelled when the run has its records.
    start_token: CancellationToken,
    /// Cancelled when the run has ended.
    end_token: CancellationToken,
    stop: ShutdownSignal,
}

#[derive(Debug, Default)]
struct PageRunState {
    name: Option<String>,
    session: Option<String>,
    streams: AgentStreamRedactor,
    messages: Option<UserMessageSender>,
    /// Why the run failed, if it did.
    failure: Option<Error>,
}

impl PageRun {
    /// Creates a run of which nothing is known yet, and which `stop` stops.
    pub(super) fn new(stop: ShutdownSignal) -> Self {
        Self {
            feed: RunFeed::new(),
            state: Mutex::default(),
            start_token: CancellationToken::new(),
            end_token: CancellationToken::new(),
            stop,
        }
    }

    /// Returns its feed.
    pub(super) fn feed(&self) -> &Arc<RunFeed> {
        &self.feed
    }

    /// Returns the signal that stops it.
    pub(super) fn stop(&self) -> &ShutdownSignal {
        &self.stop
    }

    /// Returns its name, once it has one.
    pub(super) fn name(&self) -> Option<String> {
        self.lock().name.clone()
    }

    /// Returns the id of its session, once it has one.
    pub(super) fn session(&self) -> Option<String> {
        self.lock().session.clone()
    }

    /// Returns whether it has ended.
    pub(super) fn is_ended(&self) -> bool {
        self.end_token.is_cancelled()
    }

    /// Notes warnings about how the run is started, which the page shows. It is called before
    /// [`PageRun::begin`].
    pub(super) fn show_warnings(&self, warnings: Vec<String>) {
        self.feed.set_warnings(warnings);
    }

    /// Sends a message to the agents; `None` if the run takes none.
    pub(super) fn send(
        &self,
        message: UserMessage,
    ) -> Option<std::result::Result<(), MessageRejection>> {
        let state = self.lock();
        let sender = state.messages.as_ref()?;
        Some(sender.send(message))
    }

    /// Notes the outcome of the run.
    pub(super) fn end(&self, outcome: Result<RunOutcome>) {
        let mut state = self.lock();
        let has_log = state.name.is_some();
        state.failure = outcome.err();
        drop(state);
        if !has_log {
            self.feed.end();
        }
        self.feed.with_questions(|_| ());
        self.end_token.cancel();
    }

    /// Waits until the run has its records and returns its name.
    ///
    /// # Errors
    /// It ended without records.
    pub(super) async fn wait_for_name(&self) -> Result<String> {
        tokio::select! {
            () = self.start_token.cancelled() => {}
            () = self.end_token.cancelled() => {}
        }
        let mut state = self.lock();
        let cancelled_error = || {
            let message = "the run was cancelled before it started";
            Error::new(ErrorKind::Interrupted, message)
        };
        match state.name.clone() {
            Some(name) => Ok(name),
            None => Err(state.failure.take().unwrap_or_else(cancelled_error)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PageRunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunFrontend for &PageRun {
    fn begin(
        &mut self,
        start: RunStart,
        redactor: Redactor,
        _output: &mut CliOutput<'_>,
    ) -> Result<()> {
        let missing_error = || {
            Error::bug(format!(
                "the records of the run are not in `{}`",
                start.log_dir
            ))
        };
        let (parent, name) = start.log_dir.rsplit_once('/').ok_or_else(missing_error)?;
        let parent = AbsPath::new(parent).ok_or_else(missing_error)?;
        let run = LoggedRun::find(name, &parent)?.ok_or_else(missing_error)?;
        self.feed.follow(run.events())?;
        let mut state = self.lock();
        state.name = Some(run.name().to_owned());
        state.session = Some(start.session_id);
        state.streams = AgentStreamRedactor::new(redactor);
        drop(state);
        self.start_token.cancel();
        Ok(())
    }

    fn on_event(&mut self, event: &Event, _output: &mut CliOutput<'_>) -> Result<()> {
        // The feed follows the log, which has no streamed text.
        let pieces = self.lock().streams.apply(event);
        self.feed.push_pieces(&pieces);
        Ok(())
    }

    fn decider(&self) -> Decider {
        Decider::User
    }

    fn accept_messages(&self, sender: &UserMessageSender, limits: BudgetLimits) {
        self.lock().messages = Some(sender.clone());
        self.feed.set_limits(limits);
    }

    fn ask(&self, question: UserQuestion) {
        self.feed.ask(question);
    }
}
