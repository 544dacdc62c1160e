//! Handles tool calls of MCP clients about runs: each is parsed, executed or waited for, and
//! answered. All sessions of a server share its runs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, Implementation,
    ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
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
use crate::world::mcp::tool_server::ToolProvider;

/// Maximum number of calls that wait for the end of a run; more are rejected.
const CALLS_WAITING_MAX: usize = 16;
/// Interval of progress notifications to a client that asked for them if nothing happens in the
/// run.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Instructions that clients pass to their models.
const INSTRUCTIONS: &str = "Whole runs of a team of agents. `run_task` begins one and answers with its \
name; `status` with `wait` answers when it has ended. What a run may read, write and spend is set by \
the user, and no call changes it.";

/// Handler of one server's runs.
#[derive(Debug)]
pub(crate) struct RunHandler {
    runs: RunRegistry,
    /// A slot for each call that waits for the end of a run.
    waiting_slots: Semaphore,
}

/// Effect on the run if a call that waits for it is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CancelPolicy {
    /// The run stops gracefully and keeps its results.
    EndsRun,
    /// The run continues.
    LeavesRun,
}

/// Error of a call: reported to the caller as a tool result, or as a protocol error.
enum RunCallError {
    Reported(Error),
    Protocol(ErrorData),
}

impl From<Error> for RunCallError {
    fn from(error: Error) -> Self {
        RunCallError::Reported(error)
    }
}

/// Why the arguments of a call do not fit.
impl From<String> for RunCallError {
    fn from(reason: String) -> Self {
        RunCallError::Reported(usage_error(reason))
    }
}

impl RunHandler {
    /// Creates the handler of the runs in this registry.
    pub(crate) fn new(runs: RunRegistry) -> Self {
        Self {
            runs,
            waiting_slots: Semaphore::new(CALLS_WAITING_MAX),
        }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, RunCallError> {
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
                let error = ErrorData::invalid_params(message, None);
                Err(RunCallError::Protocol(error))
            }
        }
    }

    async fn run_task(
        &self,
        RunTaskRequest { task, wait }: RunTaskRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, RunCallError> {
        let started_run = self.runs.begin(&task).await?;
        let run = Arc::clone(&started_run.run);
        if wait {
            self.wait(started_run, CancelPolicy::EndsRun, context)
                .await?;
        }
        Ok(success_result(run.status()))
    }

    async fn status(
        &self,
        RunStatusRequest { run, wait }: RunStatusRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, RunCallError> {
        let run = self.runs.find(&run)?;
        if wait {
            let started_run = StartedRun::subscribe(Arc::clone(&run));
            self.wait(started_run, CancelPolicy::LeavesRun, context)
                .await?;
        }
        Ok(success_result(run.status()))
    }

    async fn apply(&self, request: ApplyRequest) -> Result<CallToolResult, RunCallError> {
        let run = request.run.clone();
        let (status, text) = self.runs.apply(request).await?;
        let mut result = success_result(json!({
            "run": run,
            "status": status,
            "exit_code": status.code(),
            "output": text,
        }));
        result.is_error = Some(status != ExitStatus::Success);
        Ok(result)
    }

    async fn cancel(
        &self,
        RunNameRequest { run }: RunNameRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, RunCallError> {
        let run = self.runs.find(&run)?;
        run.stop().graceful.cancel();
        let started_run = StartedRun::subscribe(Arc::clone(&run));
        self.wait(started_run, CancelPolicy::LeavesRun, context)
            .await?;
        Ok(success_result(run.status()))
    }

    /// Waits until a run has ended, and sends progress notifications if the client asked for them.
    async fn wait(
        &self,
        started_run: StartedRun,
        on_cancel: CancelPolicy,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), RunCallError> {
        let StartedRun { run, mut updates } = started_run;
        let Ok(_waiting_slot) = self.waiting_slots.try_acquire() else {
            let name = run.name().unwrap_or_default();
            let message = format!("{CALLS_WAITING_MAX} calls wait already; the run is `{name}`");
            return Err(Error::new(ErrorKind::Limit, message)
                .with_hint("ask for its `status` without `wait`")
                .into());
        };
        let mut progress = ProgressNotifier {
            token: context.meta.get_progress_token(),
            sent_count: 0,
            context,
        };
        let mut ticks = interval(PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once.
        ticks.tick().await;
        loop {
            tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    if on_cancel == CancelPolicy::EndsRun {
                        run.stop().graceful.cancel();
                    }
                    let error = ErrorData::internal_error("the call was cancelled", None);
                    return Err(RunCallError::Protocol(error));
                }
                update = updates.recv() => match update {
                    Ok(sentence) => progress.notify(&sentence).await,
                    // A slow client misses the oldest updates.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = run.wait_until_ended() => return Ok(()),
                _ = ticks.tick() => progress.notify(&run.describe_progress()).await,
            }
        }
    }
}

/// Sends progress notifications to a waiting client.
struct ProgressNotifier<'a> {
    /// The token of the client's request; `None` if it did not ask for notifications.
    token: Option<ProgressToken>,
    /// The number of notifications so far: the protocol wants a progress that grows each time.
    sent_count: u32,
    context: &'a RequestContext<RoleServer>,
}

impl ProgressNotifier<'_> {
    async fn notify(&mut self, sentence: &str) {
        self.sent_count = self.sent_count.saturating_add(1);
        if let Some(token) = self.token.clone() {
            let progress = ProgressNotificationParam::new(token, f64::from(self.sent_count))
                .with_message(sentence);
            // A closed client is noticed when its answer is sent.
            let _result = self.context.peer.notify_progress(progress).await;
        }
    }
}

fn success_result(content: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(content.to_string())]);
    result.structured_content = Some(content);
    result
}

/// Formats an error for a client: the error, its causes and its hints.
fn error_result(error: &Error) -> CallToolResult {
    let hints = error.hints().iter().map(|hint| format!("hint: {hint}"));
    let lines: Vec<String> = std::iter::once(format!("{error:#}")).chain(hints).collect();
    CallToolResult::error(vec![ContentBlock::text(lines.join("\n"))])
}

#[async_trait]
impl ToolProvider for RunHandler {
    fn server_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("massgen", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(&self) -> Result<Vec<Tool>, ErrorData> {
        Ok(tool_list())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        match self.call(request, context).await {
            Ok(result) => Ok(result),
            Err(RunCallError::Reported(error)) => Ok(error_result(&error)),
            Err(RunCallError::Protocol(error)) => Err(error),
        }
    }
}
