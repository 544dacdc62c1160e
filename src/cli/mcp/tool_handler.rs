//! Handles tool calls of MCP clients: each is parsed, checked by the gate, executed in the blocking
//! pool and answered. All sessions of a server share one gate and its limits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, Implementation,
    ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::output::CliOutput;
use crate::error::Result as MassgenResult;
use crate::permissions::grant::Permission;
use crate::prompts::untrusted_text::tool_result;
use crate::tools::call::ToolCall;
use crate::tools::parse::{canonical_name, parse};
use crate::tools::spec::{COMMANDS, TOOLS, ToolOffer};
use crate::world::access::gate::Gate;
use crate::world::exec::server_calls::{self, ServerRetries};
use crate::world::exec::tool_result::{ActionOutcome, Observation};
use crate::world::exec::{self, program};
use crate::world::io::file_change::FileChange;
use crate::world::mcp::progress::{ServerProgressSender, ServerProgressStep};
use crate::world::mcp::tool_server::{ToolProvider, content_blocks};
use crate::world::sandbox::interrupt::CommandInterrupt;

/// Maximum number of calls that are executed at the same time.
const CALLS_RUNNING_MAX: u32 = 8;
/// Maximum number of calls that are executed or queued; more are rejected.
const CALLS_ADMITTED_MAX: usize = 64;
/// Interval of progress notifications about a running command to a client that asked for them.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Instructions that clients pass to their models.
const INSTRUCTIONS: &str = "Tools, each restricted to grants. The descriptions name \
the directories that are open. A call that is denied says why, and what is open instead.";

/// Handler of the tools of one gate. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ToolHandler(Arc<ToolHandlerState>);

#[derive(Debug)]
struct ToolHandlerState {
    gate: Gate,
    /// The tools that do not come from MCP servers.
    built_in_tools: Vec<ToolOffer>,
    /// Set once the agent's servers have listed their tools.
    server_tools_loaded: OnceCell<()>,
    /// The attempts to use servers that failed when they were to list their tools.
    retries: ServerRetries,
    /// A slot for each call that is executed or queued.
    admission_slots: Semaphore,
    /// A slot for each call that is executed.
    running_slots: Semaphore,
    /// Serializes calls that change files.
    write_lock: Mutex<()>,
}

impl ToolHandler {
    /// Offers the tools in `built_in_tools`, and those of the servers of `gate`, which decides
    /// about all calls.
    pub(crate) fn new(gate: Gate, built_in_tools: Vec<ToolOffer>) -> Self {
        Self(Arc::new(ToolHandlerState {
            gate,
            built_in_tools,
            server_tools_loaded: OnceCell::new(),
            retries: ServerRetries::default(),
            admission_slots: Semaphore::new(CALLS_ADMITTED_MAX),
            running_slots: Semaphore::new(usize::try_from(CALLS_RUNNING_MAX).unwrap_or(1)),
            write_lock: Mutex::new(()),
        }))
    }

    /// Returns the number of tools that do not come from MCP servers.
    pub(crate) fn count(&self) -> usize {
        self.0.built_in_tools.len()
    }

    /// Starts the servers that have not listed their tools yet, and warns about tools that are left
    /// out.
    async fn load_server_tools(&self) -> MassgenResult<()> {
        let gate = &self.0.gate;
        if !gate.has_servers() {
            return Ok(());
        }
        let connect = || async {
            log_warnings(&server_calls::connect(gate).await?);
            Ok(())
        };
        self.0
            .server_tools_loaded
            .get_or_try_init(connect)
            .await
            .copied()
    }

    /// Tries the servers again that failed when they were to list their tools.
    async fn retry_left_out(&self) -> MassgenResult<()> {
        if self.0.server_tools_loaded.initialized() {
            self.0.retries.retry_left_out(&self.0.gate).await?;
        }
        Ok(())
    }

    /// Returns the current tools. A server that has announced a change is asked for its list again.
    async fn tools(&self) -> MassgenResult<Vec<ToolOffer>> {
        self.load_server_tools().await?;
        let gate = &self.0.gate;
        if let Some((_, notes)) = server_calls::refresh_tools(gate).await {
            log_warnings(&notes);
        }
        Ok(self.known_tools())
    }

    /// Returns the tools as far as the servers have listed theirs.
    fn known_tools(&self) -> Vec<ToolOffer> {
        let gate = &self.0.gate;
        // Programs call the tools of servers themselves, so only the tools for programs are
        // offered.
        let program_offers = program::tool_offers(gate);
        let single_offers = || {
            let built_in = self.0.built_in_tools.iter().cloned();
            built_in.chain(gate.catalogue().offers()).collect()
        };
        program_offers.unwrap_or_else(single_offers)
    }

    /// Returns whether there is a tool with this name. Servers are started only if the name is not
    /// a built-in tool, or if a program may call them.
    async fn has_tool(&self, name: &str) -> MassgenResult<bool> {
        let has_name = |tools: &[ToolOffer]| tools.iter().any(|tool| tool.name == name);
        let is_built_in = has_name(&self.0.built_in_tools);
        if is_built_in && program::tool_offers(&self.0.gate).is_none() {
            return Ok(true);
        }
        Ok(has_name(&self.tools().await?))
    }

    /// Waits until no call is being executed, and ends background commands. Returns their changes
    /// that no call has reported.
    pub(crate) async fn end(&self) -> Vec<FileChange> {
        self.0.admission_slots.close();
        let _all_slots = self.0.running_slots.acquire_many(CALLS_RUNNING_MAX).await;
        let Some(commands) = self.0.gate.commands().cloned() else {
            return Vec::new();
        };
        let changes = spawn_blocking(move || commands.end_background()).await;
        changes.unwrap_or_default()
    }

    async fn execute_call(
        &self,
        call: ToolCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<Observation, ErrorData> {
        let is_server_call = matches!(call, ToolCall::CallServer(_));
        let changes_files = !call.only_reads() && !call.is_about_commands() && !is_server_call;
        let _running_slot = self
            .0
            .running_slots
            .acquire()
            .await
            .map_err(|error| internal_error(&error))?;
        let _write_guard = if changes_files {
            Some(self.0.write_lock.lock().await)
        } else {
            None
        };
        if context.ct.is_cancelled() {
            return Err(ErrorData::internal_error("the call was cancelled", None));
        }
        let interrupt = CommandInterrupt::new().map_err(|error| internal_error(&error))?;
        let (progress, steps) = ServerProgressSender::channel();
        let gate = self
            .0
            .gate
            .for_call(context.id.to_string(), context.ct.clone())
            .with_progress(progress);
        let call_interrupt = interrupt.clone();
        let execution = spawn_blocking(move || match gate.check(call) {
            Ok(permitted) => exec::run_until(permitted, Some(&call_interrupt)),
            Err(error) => error.into(),
        });
        wait_for_result(execution, steps, &interrupt, context).await
    }
}

/// Waits for a call. A cancellation ends its command. A client that asked for progress is sent what
/// a server reports, or else how many seconds the call has taken.
async fn wait_for_result(
    mut execution: JoinHandle<Observation>,
    mut steps: Receiver<ServerProgressStep>,
    interrupt: &CommandInterrupt,
    context: &RequestContext<RoleServer>,
) -> Result<Observation, ErrorData> {
    let mut report = context
        .meta
        .get_progress_token()
        .map(|token| ProgressReport {
            token,
            last_progress: f64::NEG_INFINITY,
            has_steps: false,
        });
    let mut ticks = interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once.
    ticks.tick().await;
    let mut tick_count = 0_u32;
    loop {
        tokio::select! {
            // What a server reported is sent before the result.
            biased;
            Some(step) = steps.recv() => if let Some(report) = &mut report {
                report.send_step(step, context).await;
            },
            result = &mut execution => return result.map_err(|error| internal_error(&error)),
            () = context.ct.cancelled(), if !interrupt.is_raised() => interrupt.raise(),
            _ = ticks.tick() => if let Some(report) = &mut report {
                tick_count = tick_count.saturating_add(1);
                report.send_tick(tick_count, context).await;
            },
        }
    }
}

/// The progress of a call, for a client that asked for it.
struct ProgressReport {
    token: ProgressToken,
    /// What was sent last: progress may only increase.
    last_progress: f64,
    /// Whether a server reports the progress, and not the clock.
    has_steps: bool,
}

impl ProgressReport {
    async fn send_step(&mut self, step: ServerProgressStep, context: &RequestContext<RoleServer>) {
        self.has_steps = true;
        let mut progress = ProgressNotificationParam::new(self.token.clone(), step.progress);
        progress.total = step.total;
        progress.message = step.message;
        self.send(progress, context).await;
    }

    async fn send_tick(&mut self, seconds: u32, context: &RequestContext<RoleServer>) {
        if self.has_steps {
            return;
        }
        let progress = ProgressNotificationParam::new(self.token.clone(), f64::from(seconds))
            .with_message(format!("running for {seconds} s"));
        self.send(progress, context).await;
    }

    async fn send(
        &mut self,
        progress: ProgressNotificationParam,
        context: &RequestContext<RoleServer>,
    ) {
        if progress.progress > self.last_progress {
            self.last_progress = progress.progress;
            // A closed client is noticed when its answer is sent.
            let _result = context.peer.notify_progress(progress).await;
        }
    }
}

/// Prints warnings to the user.
fn log_warnings(warnings: &[String]) {
    let mut output = CliOutput::with_writers(io::sink(), io::stderr());
    for warning in warnings {
        output.warning(warning);
    }
}

/// Converts the result of a call for the client.
fn call_result(observation: Observation, is_json: bool) -> CallToolResult {
    let structured_content = is_json
        .then(|| serde_json::from_str::<Value>(&observation.content).ok())
        .flatten();
    let content = content_blocks(tool_result(observation.content), &observation.images);
    let mut result = match observation.outcome {
        ActionOutcome::Done => CallToolResult::success(content),
        ActionOutcome::Failed | ActionOutcome::Denied => CallToolResult::error(content),
    };
    result.structured_content = structured_content.filter(Value::is_object);
    result
}

fn denied_result(reason: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(reason)])
}

fn internal_error(error: &dyn std::error::Error) -> ErrorData {
    ErrorData::internal_error(format!("the call failed unexpectedly: {error}"), None)
}

#[async_trait]
impl ToolProvider for ToolHandler {
    fn server_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("massgen", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(&self) -> Result<Vec<Tool>, ErrorData> {
        let list = async {
            self.retry_left_out().await?;
            self.tools().await
        };
        let tools = list
            .await
            .map_err(|error| ErrorData::internal_error(format!("{error:#}"), None))?;
        Ok(tools.iter().map(tool_description).collect())
    }

    fn find_tool(&self, name: &str) -> Option<Tool> {
        let tools = self.known_tools();
        let tool = tools.iter().find(|tool| tool.name == name);
        tool.map(tool_description)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let Ok(_admission_slot) = self.0.admission_slots.try_acquire() else {
            let message =
                format!("{CALLS_ADMITTED_MAX} calls are being carried out: wait for one to end");
            return Ok(denied_result(message));
        };
        let name = canonical_name(&request.name);
        let is_known = match self.has_tool(name).await {
            Ok(is_known) => is_known,
            Err(error) => return Ok(denied_result(format!("{error:#}"))),
        };
        if !is_known {
            let message = format!("there is no tool `{name}` here: see `tools/list`");
            return Err(ErrorData::invalid_params(message, None));
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default()).to_string();
        let call = match parse(name, &arguments, &self.0.gate.catalogue()) {
            Ok(call) => call,
            Err(error) => return Ok(denied_result(error.to_string())),
        };
        let is_program = matches!(call, ToolCall::ExecuteCode { .. });
        let is_json = call.json_operation().is_some() || call.is_about_commands() || is_program;
        let observation = self.execute_call(call, context).await?;
        Ok(call_result(observation, is_json))
    }
}

/// Tools that write and remove nothing.
const ADDING_TOOLS: &[&str] = &["create_directory"];
/// Tools about commands that start or stop something.
const ACTING_COMMANDS: &[&str] = &[
    "execute_command",
    "start_background_command",
    "stop_background_command",
];

/// Returns the tool as a client lists it.
fn tool_description(offer: &ToolOffer) -> Tool {
    let schema = offer.parameters.as_object().cloned().unwrap_or_default();
    Tool::new(offer.name.clone(), offer.description.clone(), schema)
        .with_annotations(tool_annotations(offer))
}

/// Returns the annotations of a tool. One that is in no table may do anything.
fn tool_annotations(offer: &ToolOffer) -> ToolAnnotations {
    let name = offer.name.as_ref();
    let is_about_commands = COMMANDS.iter().any(|tool| tool.name == name);
    let reads_files = TOOLS
        .iter()
        .any(|tool| tool.name == name && tool.permission == Permission::Read);
    let only_reads = reads_files || (is_about_commands && !ACTING_COMMANDS.contains(&name));
    let reaches_outside_world = !TOOLS.iter().any(|tool| tool.name == name) && !only_reads;
    let hints = ToolAnnotations::new()
        .read_only(only_reads)
        .open_world(reaches_outside_world);
    if only_reads {
        hints
    } else {
        hints.destructive(!ADDING_TOOLS.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &'static str, expected: (bool, Option<bool>, bool)) {
        let tool = TOOLS.iter().chain(COMMANDS).find(|tool| tool.name == name);
        let announced = tool_description(&tool.unwrap().offer());
        let hints = announced.annotations.unwrap();
        let values = (
            hints.read_only_hint.unwrap(),
            hints.destructive_hint,
            hints.open_world_hint.unwrap(),
        );
        assert_eq!(values, expected, "{name}");
    }

    #[test]
    fn hints_say_what_a_tool_may_do() {
        check("read_text_file", (true, None, false));
        check("compare_directories", (true, None, false));
        check("create_directory", (false, Some(false), false));
        for name in [
            "write_file",
            "edit_file",
            "move_file",
            "copy_file",
            "delete_file",
        ] {
            check(name, (false, Some(true), false));
        }
        check("execute_command", (false, Some(true), true));
        check("start_background_command", (false, Some(true), true));
        check("stop_background_command", (false, Some(true), true));
        check("get_background_output", (true, None, false));
        check("list_background_commands", (true, None, false));
    }

    #[test]
    fn mcp_tool_descriptions_are_those_that_agents_are_offered() {
        for tool in TOOLS.iter().chain(COMMANDS) {
            let offer = tool.offer();
            let announced = tool_description(&offer);
            assert_eq!(announced.name, offer.name);
            assert_eq!(
                announced.description.as_deref(),
                Some(offer.description.as_str())
            );
            assert_eq!(announced.schema_as_json_value(), offer.parameters);
        }
    }
}
