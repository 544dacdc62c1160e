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

use crate::cli::command_line::usage_error;
use crate::cli::mcp::requests::{
    ApplyRequest, RunNameRequest, RunStatusRequest, RunTaskRequest, parse_arguments, tool_list,
};
use crate::cli::mcp::run_registry::{RunRegistry, StartedRun};
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
pub(crate) struct RunHandler {
    runs: RunRegistry,
    waiting: Arc<Semaphore>,
}

/// What becomes of a run for which a call waits that is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CancelPolicy {
    /// It ends with what it has.
    EndsRun,
    /// Nothing.
    LeavesRun,
}

/// Why a call is not answered with a result: an error for its caller, or one of the protocol.
enum ToolCallError {
    Reported(Error),
    Protocol(ErrorData),
}

impl From<Error> for ToolCallError {
    fn from(error: Error) -> Self {
        ToolCallError::Reported(error)
    }
}

impl RunHandler {
    /// Lets callers begin `runs` and ask about them.
    pub(crate) fn new(runs: RunRegistry) -> Self {
        Self {
            runs,
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolCallError> {
        let arguments = request.arguments;
        match request.name.as_ref() {
            "run_task" => self.run_task(parse_arguments(arguments)?, context).await,
            "status" => self.status(parse_arguments(arguments)?, context).await,
            "answers" => {
                let RunNameRequest { run } = parse_arguments(arguments)?;
                Ok(success_result(self.runs.find(&run)?.answers()))
            }
            "apply" => self.apply(parse_arguments(arguments)?).await,
            "cancel" => self.cancel(parse_arguments(arguments)?, context).await,
            name => {
                let message = format!("there is no tool `{name}` here: see `tools/list`");
                let unknown = ErrorData::invalid_params(message, None);
                Err(ToolCallError::Protocol(unknown))
            }
        }
    }

    async fn run_task(
        &self,
        RunTaskRequest { task, wait }: RunTaskRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolCallError> {
        let (board, news) = self.runs.begin(&task).await?;
        if wait {
            let run = (Arc::clone(&board), news);
            self.wait(run, CancelPolicy::EndsRun, context).await?;
        }
        Ok(success_result(board.status()))
    }

    async fn status(
        &self,
        RunStatusRequest { run, wait }: RunStatusRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolCallError> {
        let board = self.runs.find(&run)?;
        if wait {
            let run = (Arc::clone(&board), board.subscribe());
            self.wait(run, CancelPolicy::LeavesRun, context).await?;
        }
        Ok(success_result(board.status()))
    }

    async fn apply(&self, asked: ApplyRequest) -> Result<CallToolResult, ToolCallError> {
        let run = asked.run.clone();
        let (status, text) = self.runs.apply(asked).await?;
        let mut result = success_result(json!({
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
        RunNameRequest { run }: RunNameRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolCallError> {
        let board = self.runs.find(&run)?;
        board.stop().graceful.cancel();
        let run = (Arc::clone(&board), board.subscribe());
        self.wait(run, CancelPolicy::LeavesRun, context).await?;
        Ok(success_result(board.status()))
    }

    /// Waits until a run has ended, and tells what happens in it if the client asked for that.
    async fn wait(
        &self,
        (board, mut news): StartedRun,
        broken: CancelPolicy,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ToolCallError> {
        let Ok(_waits) = self.waiting.try_acquire() else {
            let name = board.name().unwrap_or_default();
            let message = format!("{WAITING_MAX} calls wait already; the run is `{name}`");
            return Err(Error::new(ErrorKind::Limit, message)
                .with_hint("ask for its `status` without `wait`")
                .into());
        };
        let mut progress = ProgressNotifier {
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
                    if broken == CancelPolicy::EndsRun {
                        board.stop().graceful.cancel();
                    }
                    let cancelled = ErrorData::internal_error("the call was cancelled", None);
                    return Err(ToolCallError::Protocol(cancelled));
                }
                said = news.recv() => match said {
                    Ok(sentence) => progress.notify(&sentence).await,
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = board.wait_until_ended() => return Ok(()),
                _ = beat.tick() => progress.notify(&board.describe_progress()).await,
            }
        }
    }
}

/// What a client is told while it waits.
struct ProgressNotifier<'a> {
    token: Option<ProgressToken>,
    steps: u32,
    context: &'a RequestContext<RoleServer>,
}

impl ProgressNotifier<'_> {
    async fn notify(&mut self, sentence: &str) {
        self.steps = self.steps.saturating_add(1);
        if let Some(token) = self.token.clone() {
            let progress = ProgressNotificationParam::new(token, f64::from(self.steps));
            let progress = progress.with_message(sentence);
            // A client that is gone is noticed where its answer is sent.
            let _told = self.context.peer.notify_progress(progress).await;
        }
    }
}

impl From<String> for ToolCallError {
    fn from(why: String) -> Self {
        ToolCallError::Reported(usage_error(why))
    }
}

fn success_result(told: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(told.to_string())]);
    result.structured_content = Some(told);
    result
}

/// An error as a caller reads it: what happened, what led to it, and what to do.
fn error_result(error: &Error) -> CallToolResult {
    let hints = error.hints().iter();
    let lines =
        std::iter::once(format!("{error:#}")).chain(hints.map(|hint| format!("hint: {hint}")));
    let lines: Vec<String> = lines.collect();
    CallToolResult::error(vec![ContentBlock::text(lines.join("\n"))])
}

impl ServerHandler for RunHandler {
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
        std::future::ready(Ok(ListToolsResult::with_all_items(tool_list())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.call(request, &context).await {
            Ok(result) => Ok(result.into()),
            Err(ToolCallError::Reported(error)) => Ok(error_result(&error).into()),
            Err(ToolCallError::Protocol(error)) => Err(error),
        }
    }
}
