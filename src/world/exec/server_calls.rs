//! Calls tools of MCP servers. A server that runs as a program may do what the gate's grants open,
//! and no more than the config allows it.

use std::sync::Arc;

use rustix::fd::AsFd;
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result};
use crate::tools::served::{ServerCall, ToolCatalogue};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::server_launch::launch;
use crate::world::exec::tool_result::{ToolError, ToolResult};
use crate::world::exec::{ActionOutcome, Observation, program_tool};
use crate::world::mcp::{McpServers, ReplyStatus, ServerLaunchRequest, ServerReply};
use crate::world::sandbox::interrupt::CommandInterrupt;

/// Lists the tools of the agent's MCP servers and returns notes for the user. Servers that have not
/// been started yet are started; only the first agent that uses a server waits for it. Dropping the
/// future ends the servers that are still starting.
///
/// # Errors
/// A server cannot be used.
pub async fn connect(gate: &Gate) -> Result<Vec<String>> {
    let Some(servers) = gate.policy().servers.clone() else {
        return Ok(Vec::new());
    };
    let gate = gate.clone();
    let cancelled = CancellationToken::new();
    let _guard = cancelled.clone().drop_guard();
    let connected = spawn_blocking(move || connect_blocking(&servers, &gate, &cancelled)).await;
    connected.map_err(|_| Error::bug("cannot connect to the servers"))?
}

/// Blocks, because starting servers is the work of threads.
fn connect_blocking(
    servers: &McpServers,
    gate: &Gate,
    given_up: &CancellationToken,
) -> Result<Vec<String>> {
    let launcher = |wanted: ServerLaunchRequest<'_>| launch(gate, wanted);
    let met = Handle::current().block_on(async {
        tokio::select! {
            met = servers.connect(&launcher) => met,
            () = given_up.cancelled() => Err("the servers are no longer needed".to_owned()),
        }
    });
    met.map_err(|why| {
        Error::new(ErrorKind::Environment, why).with_hint(
            "see `docs/mcp.md` for the restrictions of servers and how to grant access, and \
                 `docs/custom-tools.md` for tools of your own",
        )
    })
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
    let servers = gate.policy().servers.clone();
    let servers = servers.ok_or_else(|| ToolError::failed("no servers are used here"))?;
    let launcher = |wanted: ServerLaunchRequest<'_>| launch(gate, wanted);
    let calling = async {
        tokio::select! {
            answered = servers.call(call, &launcher, gate.progress()) => answered,
            () = wait_until_raised(interrupt) => Err("the call was cancelled".to_owned()),
        }
    };
    if let Some((config, commands)) = servers.program_tool(&call.server) {
        return program_tool::run(gate, config, commands, call, interrupt);
    }
    let answered = Handle::current().block_on(calling);
    let ServerReply {
        success,
        text,
        images,
    } = answered.map_err(ToolError::failed)?;
    let outcome = match success {
        ReplyStatus::Done => ActionOutcome::Done,
        ReplyStatus::Failed => ActionOutcome::Failed,
    };
    Ok(Observation {
        images,
        ..Observation::new(outcome, text)
    })
}

/// Waits until `interrupt` is raised; forever if it cannot be watched.
pub(super) async fn wait_until_raised(interrupt: Option<&CommandInterrupt>) {
    let handle = interrupt.and_then(|interrupt| interrupt.as_fd().try_clone_to_owned().ok());
    // It is not a pipe, but only its readability matters.
    let watched = handle.and_then(|handle| Receiver::from_owned_fd_unchecked(handle).ok());
    match &watched {
        Some(watched) => drop(watched.readable().await),
        None => std::future::pending().await,
    }
}
