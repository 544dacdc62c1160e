//! Owns the calls of agents of others about runs: each is understood, carried out or waited for, and
//! answered. All sessions of a server share its runs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ProgressToken, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::mcp::requests::{Apply, Named, RunTask, Status, announced, read};
use crate::cli::mcp::runs::{Begun, Runs};
use crate::cli::usage::usage;
use crate::error::{Error, ErrorKind, ExitStatus};

/// Calls that wait for the end of a run at the same time; more are turned away.
const WAITING_MAX: usize = 16;
/// How often a client that asked for it hears of a run in which nothing happens.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// What clients tell their models about the server.
const INSTRUCTIONS: &str = "Whole runs of a team of agents. `run_task` begins one and answers with its \
name; `status` with `wait` answers when it has ended. What a run may read, write and spend is set by \
the user, and no call changes it.";

/// The runs, for all that come to them. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Conductor {
    runs: Runs,
    waiting: Arc<Semaphore>,
}

/// What becomes of a run for which a call waits that is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// It ends with what it has.
    EndsRun,
    /// Nothing.
    LeavesRun,
}

/// Why a call is not answered with a result: an error for its caller, or one of the protocol.
enum Fault {
    Told(Error),
    Protocol(ErrorData),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Told(error)
    }
}

impl Conductor {
    /// Lets callers begin `runs` and ask about them.
    pub(crate) fn new(runs: Runs) -> Self {
        Self {
            runs,
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Fault> {
        let arguments = request.arguments;
        match request.name.as_ref() {
            "run_task" => self.run_task(read(arguments)?, context).await,
            "status" => self.status(read(arguments)?, context).await,
            "answers" => {
                let Named { run } = read(arguments)?;
                Ok(done(self.runs.find(&run)?.answers()))
            }
            "apply" => self.apply(read(arguments)?).await,
            "cancel" => self.cancel(read(arguments)?, context).await,
            name => {
                let message = format!("there is no tool `{name}` here: see `tools/list`");
                let unknown = ErrorData::invalid_params(message, None);
                Err(Fault::Protocol(unknown))
            }
        }
    }

    async fn run_task(
        &self,
        RunTask { task, wait }: RunTask,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Fault> {
        let (board, news) = self.runs.begin(&task).await?;
        if wait {
            let run = (Arc::clone(&board), news);
            self.wait(run, Broken::EndsRun, context).await?;
        }
        Ok(done(board.status()))
    }

    async fn status(
        &self,
        Status { run, wait }: Status,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Fault> {
        let board = self.runs.find(&run)?;
        if wait {
            let run = (Arc::clone(&board), board.news());
            self.wait(run, Broken::LeavesRun, context).await?;
        }
        Ok(done(board.status()))
    }

    async fn apply(&self, asked: Apply) -> Result<CallToolResult, Fault> {
        let run = asked.run.clone();
        let (status, text) = self.runs.apply(asked).await?;
        let mut result = done(json!({
            "run": run,
            "status": status,
            "exit_code": status.code(),
            "told": text,
        }));
        result.is_error = Some(status != ExitStatus::Delivered);
        Ok(result)
    }

    async fn cancel(
        &self,
        Named { run }: Named,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Fault> {
        let board = self.runs.find(&run)?;
        board.stop().soon.cancel();
        let run = (Arc::clone(&board), board.news());
        self.wait(run, Broken::LeavesRun, context).await?;
        Ok(done(board.status()))
    }

    /// Waits until a run has ended, and tells what happens in it if the client asked for that.
    async fn wait(
        &self,
        (board, mut news): Begun,
        broken: Broken,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), Fault> {
        let Ok(_waits) = self.waiting.try_acquire() else {
            let name = board.name().unwrap_or_default();
            let message = format!("{WAITING_MAX} calls wait already; the run is `{name}`");
            return Err(Error::new(ErrorKind::Limit, message)
                .hint("ask for its `status` without `wait`")
                .into());
        };
        let mut progress = Progress {
            token: context.meta.get_progress_token(),
            steps: 0,
            context,
        };
        let mut beat = interval(PROGRESS_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.tick().await;
        loop {
            tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    if broken == Broken::EndsRun {
                        board.stop().soon.cancel();
                    }
                    let cancelled = ErrorData::internal_error("the call was cancelled", None);
                    return Err(Fault::Protocol(cancelled));
                }
                said = news.recv() => match said {
                    Ok(sentence) => progress.tell(&sentence).await,
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = board.over() => return Ok(()),
                _ = beat.tick() => progress.tell(&board.standing()).await,
            }
        }
    }
}

/// What a client is told while it waits.
struct Progress<'a> {
    token: Option<ProgressToken>,
    steps: u32,
    context: &'a RequestContext<RoleServer>,
}

impl Progress<'_> {
    async fn tell(&mut self, sentence: &str) {
        self.steps = self.steps.saturating_add(1);
        if let Some(token) = self.token.clone() {
            let progress = ProgressNotificationParam::new(token, f64::from(self.steps));
            let progress = progress.with_message(sentence);
            // A client that is gone is noticed where its answer is sent.
            let _told = self.context.peer.notify_progress(progress).await;
        }
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Fault::Told(usage(why))
    }
}

fn done(told: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(told.to_string())]);
    result.structured_content = Some(told);
    result
}

/// An error as a caller reads it: what happened, what led to it, and what to do.
fn refused(error: &Error) -> CallToolResult {
    let hints = error.hints().iter();
    let lines =
        std::iter::once(format!("{error:#}")).chain(hints.map(|hint| format!("hint: {hint}")));
    let lines: Vec<String> = lines.collect();
    CallToolResult::error(vec![ContentBlock::text(lines.join("\n"))])
}

impl ServerHandler for Conductor {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("massgen", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ListToolsResult, ErrorData>> + Send + '_ {
        std::future::ready(Ok(ListToolsResult::with_all_items(announced())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.call(request, &context).await {
            Ok(result) => Ok(result.into()),
            Err(Fault::Told(error)) => Ok(refused(&error).into()),
            Err(Fault::Protocol(error)) => Err(error),
        }
    }
}
