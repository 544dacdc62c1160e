//! Connects the agent's MCP servers, lists their tools and calls them. A server that runs as a
//! program may do what the gate's grants open, and no more than the config allows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, try_join_all};
use parking_lot::Mutex;
use rustix::fd::AsFd;
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result};
use crate::tools::served::{ServerCall, ServerName, ToolCatalogue};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::program_tool;
use crate::world::exec::server_launch::launch;
use crate::world::exec::tool_result::{ActionOutcome, Observation, ToolError, ToolResult};
use crate::world::mcp::{McpServers, ReplyStatus, ServerLaunchRequest, ServerReply};
use crate::world::sandbox::interrupt::CommandInterrupt;

/// Time for which a list of tools waits for servers that are tried again.
const RETRY_TIME_MAX: Duration = Duration::from_secs(10);

/// Lists the tools of the agent's MCP servers and returns notes for the user. Servers that have not
/// been started yet are started; only the first agent that uses a server waits for it. Dropping the
/// future ends the servers that are still starting.
///
/// # Errors
/// massgen refuses to use a server, or a required one cannot be used.
pub async fn connect(gate: &Gate) -> Result<Vec<String>> {
    let Some(servers) = gate.policy().servers.clone() else {
        return Ok(Vec::new());
    };
    let gate = gate.clone();
    let cancelled = CancellationToken::new();
    let _guard = cancelled.clone().drop_guard();
    let connecting = spawn_blocking(move || {
        let launcher = |request: ServerLaunchRequest<'_>| launch(&gate, request);
        block_until_cancelled(servers.connect(&launcher), &cancelled)
    });
    let connect_result = connecting.await;
    let connect_result = connect_result.map_err(|_| Error::bug("cannot connect to the servers"))?;
    connect_result.map_err(unusable_server_error)
}

/// Blocks, because starting servers is the work of threads.
fn block_until_cancelled<T>(
    work: impl Future<Output = std::result::Result<T, String>>,
    cancelled: &CancellationToken,
) -> std::result::Result<T, String> {
    Handle::current().block_on(async {
        tokio::select! {
            // Once the runtime shuts down, the timers of the work panic.
            biased;
            () = cancelled.cancelled() => Err("the servers are no longer needed".to_owned()),
            result = work => result,
        }
    })
}

fn unusable_server_error(reason: String) -> Error {
    Error::new(ErrorKind::Environment, reason).with_hint(
        "see `docs/mcp.md` for the restrictions of servers and how to grant access, and \
         `docs/custom-tools.md` for tools of your own",
    )
}

/// The attempts to use servers that are left out because they failed. Each goes on when the list of
/// tools that began it waits no longer, and ends when this is dropped.
#[derive(Debug, Default)]
pub struct ServerRetries {
    attempts: Mutex<BTreeMap<ServerName, RetryAttempt>>,
    cancelled: CancellationToken,
}

/// A thread that tries to use one server.
#[derive(Debug)]
struct RetryAttempt {
    outcome: RetryOutcome,
    thread: AbortHandle,
}

/// The end of an attempt. It is an error if massgen refuses to use the server.
type RetryOutcome = Shared<BoxFuture<'static, std::result::Result<(), String>>>;

impl ServerRetries {
    /// Tries those of the agent's servers again that are left out, and waits for them for a limited
    /// time. The tools of those that take longer are known later.
    ///
    /// # Errors
    /// massgen refuses to use a server.
    pub async fn retry_left_out(&self, gate: &Gate) -> Result<()> {
        let Some(servers) = &gate.policy().servers else {
            return Ok(());
        };
        let outcomes = self.start_attempts(servers, gate);
        match timeout(RETRY_TIME_MAX, try_join_all(outcomes)).await {
            Ok(outcome) => outcome.map(drop).map_err(unusable_server_error),
            Err(_) => Ok(()),
        }
    }

    /// Starts an attempt for each server that is left out, unless one is running. Returns the
    /// outcomes of all that are running.
    fn start_attempts(&self, servers: &McpServers, gate: &Gate) -> Vec<RetryOutcome> {
        let mut attempts = self.attempts.lock();
        attempts.retain(|_, attempt| !attempt.thread.is_finished());
        for server in servers.left_out_servers() {
            attempts
                .entry(server)
                .or_insert_with_key(|server| self.start_attempt(server, servers, gate));
        }
        let outcomes = attempts.values().map(|attempt| attempt.outcome.clone());
        outcomes.collect()
    }

    fn start_attempt(
        &self,
        server: &ServerName,
        servers: &McpServers,
        gate: &Gate,
    ) -> RetryAttempt {
        let (server, servers, gate) = (server.clone(), servers.clone(), gate.clone());
        let cancelled = self.cancelled.clone();
        let thread = spawn_blocking(move || {
            let launcher = |request: ServerLaunchRequest<'_>| launch(&gate, request);
            block_until_cancelled(servers.retry(&server, &launcher), &cancelled)
        });
        let abort_handle = thread.abort_handle();
        let outcome = async move {
            let retry_result = thread.await;
            retry_result.unwrap_or_else(|_| Err("cannot connect to the server".to_owned()))
        };
        RetryAttempt {
            outcome: outcome.boxed().shared(),
            thread: abort_handle,
        }
    }
}

impl Drop for ServerRetries {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

/// Returns the current tools and notes for the user, if a server has reported that its tools
/// changed.
pub async fn refresh_tools(gate: &Gate) -> Option<(Arc<ToolCatalogue>, Vec<String>)> {
    let servers = gate.policy().servers.as_ref()?;
    let notes = servers.refresh_tools().await?;
    Some((servers.catalogue(), notes))
}

/// Calls a tool of a server.
pub(super) fn call(
    gate: &Gate,
    call: &ServerCall<ResolvedPath>,
    interrupt: Option<&CommandInterrupt>,
) -> ToolResult {
    let servers = gate
        .policy()
        .servers
        .clone()
        .ok_or_else(|| ToolError::failed("no servers are used here"))?;
    if let Some((config, environment)) = servers.program_tool(&call.server) {
        return program_tool::run(gate, config, environment, call, interrupt);
    }
    let launcher = |request: ServerLaunchRequest<'_>| launch(gate, request);
    let opening = servers.connection(&call.server, &launcher);
    let connection = wait_for(opening, interrupt).map_err(ToolError::failed)?;
    let answer = wait_for(connection.call(call, gate.progress()), interrupt);
    let ServerReply {
        status,
        text,
        images,
    } = answer.map_err(ToolError::failed)?;
    let outcome = match status {
        ReplyStatus::Done => ActionOutcome::Done,
        ReplyStatus::Failed => ActionOutcome::Failed,
    };
    Ok(Observation {
        images,
        ..Observation::new(outcome, text)
    })
}

/// Waits for `work`, unless it is interrupted.
fn wait_for<T>(
    work: impl Future<Output = std::result::Result<T, String>>,
    interrupt: Option<&CommandInterrupt>,
) -> std::result::Result<T, String> {
    let interruptible_work = async {
        tokio::select! {
            result = work => result,
            () = wait_until_raised(interrupt) => Err("the call was cancelled".to_owned()),
        }
    };
    Handle::current().block_on(interruptible_work)
}

/// Waits until `interrupt` is raised; forever if it cannot be watched.
pub(super) async fn wait_until_raised(interrupt: Option<&CommandInterrupt>) {
    let handle = interrupt.and_then(|interrupt| interrupt.as_fd().try_clone_to_owned().ok());
    // It is not a pipe, but only its readability matters.
    let receiver = handle.and_then(|handle| Receiver::from_owned_fd_unchecked(handle).ok());
    match &receiver {
        Some(receiver) => drop(receiver.readable().await),
        None => std::future::pending().await,
    }
}
