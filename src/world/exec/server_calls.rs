//! Calls tools of MCP servers. A server that runs as a program may do what the gate's grants open,
//! and no more than the config allows it.

use std::sync::Arc;

use rustix::fd::AsFd;
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::config::servers::{CWD_OF_SERVER, InstanceSharing, ServerDirectory};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::sandbox_policy::SandboxPolicy;
use crate::tools::served::{ServerCall, ToolCatalogue};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::command::compile_policy;
use crate::world::exec::tool_result::{ToolError, ToolResult};
use crate::world::exec::{ActionOutcome, Observation};
use crate::world::mcp::{McpServers, ReplyStatus, ServerLaunch, ServerLaunchRequest, ServerReply};
use crate::world::sandbox::exec_backend::local::sandbox_on_overlay;
use crate::world::sandbox::exec_environment::CommandSpec;
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
    let given_up = CancellationToken::new();
    let _guard = given_up.clone().drop_guard();
    let met = spawn_blocking(move || connect_blocking(&servers, &gate, &given_up)).await;
    met.map_err(|_| Error::bug("cannot connect to the servers"))?
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
        Error::new(ErrorKind::Environment, why)
            .with_hint("see `docs/mcp.md` for the restrictions of servers and how to grant access")
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
            answered = servers.call(call, &launcher) => answered,
            () = wait_until_raised(interrupt) => Err("the call was cancelled".to_owned()),
        }
    };
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
async fn wait_until_raised(interrupt: Option<&CommandInterrupt>) {
    let handle = interrupt.and_then(|interrupt| interrupt.as_fd().try_clone_to_owned().ok());
    // It is not a pipe, but only its readability matters.
    let watched = handle.and_then(|handle| Receiver::from_owned_fd_unchecked(handle).ok());
    match &watched {
        Some(watched) => drop(watched.readable().await),
        None => std::future::pending().await,
    }
}

/// Returns how to launch a server program for this agent: its sandbox policy, network and roots.
fn launch(
    gate: &Gate,
    wanted: ServerLaunchRequest<'_>,
) -> std::result::Result<ServerLaunch, String> {
    let ServerLaunchRequest {
        program,
        commands,
        permission,
    } = wanted;
    let sandbox = commands.backend().local_sandbox();
    let sandbox = sandbox.map_err(|why| format!("servers {why}"))?;
    let gate = match program.instances {
        InstanceSharing::PerAgent => gate,
        InstanceSharing::One => {
            let common = gate.shared_servers();
            common.ok_or("the common grants of all agents are unknown")?
        }
    };
    let dir = match (&program.directory, program.instances) {
        (ServerDirectory::Named(dir), _) => dir.clone(),
        (ServerDirectory::Private, InstanceSharing::PerAgent) => {
            let made = commands.directories().make_working_directory();
            made.map_err(|error| error.to_string())?
        }
        (ServerDirectory::Workspace, InstanceSharing::PerAgent) => directory(gate)?,
        (ServerDirectory::Workspace | ServerDirectory::Private, InstanceSharing::One) => {
            commands.directories().home()
        }
    };
    let words = program.command.iter();
    let words = words.map(|word| word.replace(CWD_OF_SERVER, &dir.to_string()));
    let order = CommandSpec {
        program: words.collect(),
        dir: dir.clone(),
        venv: None,
    };
    let (reach, network) = commands.network().map_err(|error| error.to_string())?;
    let facts = commands.command_context(order, reach);
    let compiled = compile_policy(gate, commands, facts).map_err(|stop| stop.message)?;
    let trees = gate.trees().into_iter();
    let trees = trees.map(|tree| tree.real().to_abs());
    Ok(ServerLaunch {
        confinement: restrict_writes(compiled, permission),
        sandbox: sandbox_on_overlay(sandbox, gate.overlay()),
        network,
        roots: trees.collect(),
    })
}

/// Returns the working directory of one agent's server: the agent's workspace, or if that is closed
/// the first directory that is open.
fn directory(gate: &Gate) -> std::result::Result<AbsPath, String> {
    let base = &gate.policy().base;
    if gate.allows(base, Permission::Read) {
        return Ok(base.to_abs());
    }
    let open = gate.first_directory();
    let open = open.and_then(|dir| AbsPath::new(dir.as_str()));
    open.ok_or_else(|| "no directory is open to the agent".to_owned())
}

/// Makes every directory of the agent read-only for a server that only reads.
fn restrict_writes(mut confinement: SandboxPolicy, permission: Permission) -> SandboxPolicy {
    for opening in &mut confinement.open {
        opening.permission = opening.permission.min(permission);
    }
    confinement
}
