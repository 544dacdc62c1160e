//! Connects the agent's MCP servers, lists their tools and calls them. A server that runs as a
//! program may do what the gate's grants open, and no more than the config allows it.

use std::sync::Arc;

use rustix::fd::AsFd;
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result};
use crate::permissions::grant::Permission;
use crate::prompts::untrusted_text::note;
use crate::tools::served::{ServerCall, ToolCatalogue};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::server_launch::launch;
use crate::world::exec::tool_result::{ToolError, ToolResult, cannot_run};
use crate::world::exec::{ActionOutcome, Observation, program_tool};
use crate::world::mcp::{McpServers, ReplyStatus, ServerLaunchRequest, ServerReply};
use crate::world::sandbox::docker::server_container::ServerContainer;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::reachable_paths::ReachablePaths;

/// Lists the tools of the agent's MCP servers and returns notes for the user. Servers that have not
/// been started yet are started; only the first agent that uses a server waits for it. Dropping the
/// future ends the servers that are still starting.
///
/// # Errors
/// massgen refuses to use a server, or a required one cannot be used.
pub async fn connect(gate: &Gate) -> Result<Vec<String>> {
    connect_servers(gate, SelectedServers::Unlisted).await
}

/// Tries those of the agent's MCP servers again that are left out because they failed.
///
/// # Errors
/// massgen refuses to use a server.
pub async fn retry_left_out(gate: &Gate) -> Result<()> {
    connect_servers(gate, SelectedServers::LeftOut)
        .await
        .map(drop)
}

/// The servers that are to be connected.
#[derive(Clone, Copy, Debug)]
enum SelectedServers {
    /// Those that have not listed their tools yet.
    Unlisted,
    /// Those that are left out.
    LeftOut,
}

async fn connect_servers(gate: &Gate, selected: SelectedServers) -> Result<Vec<String>> {
    let Some(servers) = gate.policy().servers.clone() else {
        return Ok(Vec::new());
    };
    let gate = gate.clone();
    let cancelled = CancellationToken::new();
    let _guard = cancelled.clone().drop_guard();
    let connect_result =
        spawn_blocking(move || connect_blocking(&servers, selected, &gate, &cancelled)).await;
    connect_result.map_err(|_| Error::bug("cannot connect to the servers"))?
}

/// Blocks, because starting servers is the work of threads.
fn connect_blocking(
    servers: &McpServers,
    selected: SelectedServers,
    gate: &Gate,
    cancelled: &CancellationToken,
) -> Result<Vec<String>> {
    let launcher = |request: ServerLaunchRequest<'_>| launch(gate, request);
    let connecting = async {
        match selected {
            SelectedServers::Unlisted => servers.connect(&launcher).await,
            SelectedServers::LeftOut => {
                servers.retry_left_out(&launcher).await?;
                Ok(Vec::new())
            }
        }
    };
    let connect_result = Handle::current().block_on(async {
        tokio::select! {
            result = connecting => result,
            () = cancelled.cancelled() => Err("the servers are no longer needed".to_owned()),
        }
    });
    connect_result.map_err(|why| {
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
    let server_error =
        |why: String| ToolError::failed(format!("the server `{}`: {why}", call.server));
    let no_interrupt = CommandInterrupt::new().map_err(|error| cannot_run(&error))?;
    let container = connection.container_with_copies(&launcher);
    let copies = CallCopies {
        container: container.map_err(server_error)?,
        interrupt: interrupt.unwrap_or(&no_interrupt),
    };
    copies.send().map_err(server_error)?;
    let answer = wait_for(connection.call(call, gate.progress()), interrupt);
    let notes = copies.fetch();
    let ServerReply {
        status,
        mut text,
        images,
    } = answer.map_err(|why| ToolError::failed(with_notes(why, &notes)))?;
    text = with_notes(text, &notes);
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

/// The container of a server that works on copies, during a call. Without one, nothing is sent or
/// fetched.
struct CallCopies<'c> {
    container: Option<(&'c ServerContainer, ReachablePaths)>,
    interrupt: &'c CommandInterrupt,
}

impl CallCopies<'_> {
    /// Sends what has changed since the last call.
    fn send(&self) -> std::result::Result<(), String> {
        let Some((container, reachable)) = &self.container else {
            return Ok(());
        };
        let result = container.send_files(reachable, self.interrupt);
        result.map_err(|error| format!("{error:#}"))
    }

    /// Fetches what the server has changed where it may write, and returns notes about it. Its
    /// answer is read in any case.
    fn fetch(&self) -> Vec<String> {
        let writable = self.container.iter().filter(|(_, reachable)| {
            let mut open_paths = reachable.open.iter();
            open_paths.any(|open_path| open_path.permission == Permission::Write)
        });
        let notes = writable.flat_map(|(container, reachable)| {
            let fetch_result = container.fetch_changes(reachable, self.interrupt);
            fetch_result.unwrap_or_else(|error| vec![error.to_string()])
        });
        notes.collect()
    }
}

/// Appends notes about a call to what a model reads of it.
fn with_notes(text: String, notes: &[String]) -> String {
    let lines = notes.iter().map(|text| format!("\n{}", note(text)));
    std::iter::once(text).chain(lines).collect()
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
