//! What runs the processes of one agent: massgen's sandbox, a container for its commands, or the
//! containers of one server. Most callers of [`ExecBackend`] need not know which it is.

use std::io;
use std::sync::Arc;

use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::world::sandbox::background::{OutputFollower, follow_in_sandbox};
use crate::world::sandbox::docker::container::AgentContainer;
use crate::world::sandbox::docker::server_container::ServerContainers;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::overlay::{OverlayAudience, WriteOverlay};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, Sandbox};

/// The error for a command in the container of a server; no caller starts one.
const NO_COMMANDS: &str = "the container of a server runs no commands";

/// Runs the processes of one agent. A clone is the same.
#[derive(Clone, Debug)]
pub enum ExecBackend {
    /// massgen's sandbox on this machine, for commands and all other programs.
    Sandbox(Sandbox),
    /// A container, for commands only.
    Container(Arc<AgentContainer>),
    /// The containers of one server, for its program only.
    Server(ServerContainers),
}

/// A permitted command.
#[derive(Clone, Copy, Debug)]
pub struct ExecCommand<'a> {
    /// The command line for the shell.
    pub line: &'a str,
    /// Its sandbox policy, whose program is a shell with that command line.
    pub policy: &'a SandboxPolicy,
    /// The overlay that it works on.
    pub overlay: Option<&'a WriteOverlay>,
}

impl ExecBackend {
    /// Returns the isolation of the processes, for people.
    pub fn isolation(&self) -> ExecutionIsolation {
        match self {
            ExecBackend::Sandbox(sandbox) => ExecutionIsolation::Sandbox {
                level: sandbox.level(),
                reasons: sandbox.reasons().to_vec(),
            },
            ExecBackend::Container(container) => container.isolation(),
            ExecBackend::Server(containers) => containers.isolation(),
        }
    }

    /// Returns the level of the sandbox, or for containers the level that opens the same paths.
    pub fn sandbox_level(&self) -> SandboxLevel {
        match self {
            ExecBackend::Sandbox(sandbox) => sandbox.level(),
            ExecBackend::Container(_) | ExecBackend::Server(_) => SandboxLevel::Namespaces,
        }
    }

    /// Returns notes for the user: settings of the config that have no effect here, and what commands
    /// can access because of others.
    pub fn notes(&self) -> &[String] {
        match self {
            ExecBackend::Container(container) => container.notes(),
            ExecBackend::Sandbox(_) | ExecBackend::Server(_) => &[],
        }
    }

    /// Returns how the processes see an overlay.
    pub fn overlay_audience(&self) -> OverlayAudience {
        match self {
            ExecBackend::Sandbox(sandbox) if sandbox.level() == SandboxLevel::Landlock => {
                OverlayAudience::Landlock
            }
            ExecBackend::Sandbox(_) => OverlayAudience::Sandbox,
            ExecBackend::Container(_) | ExecBackend::Server(_) => OverlayAudience::Container,
        }
    }

    /// Returns whether network access is decided when a container is created, and not for each
    /// process.
    pub fn has_fixed_network(&self) -> bool {
        match self {
            ExecBackend::Sandbox(_) => false,
            ExecBackend::Container(_) | ExecBackend::Server(_) => true,
        }
    }

    /// Returns massgen's sandbox, in which programs, hooks, MCP servers and external agents run.
    ///
    /// # Errors
    /// There is none; the error is the rest of a sentence that begins with these programs.
    pub fn local_sandbox(&self) -> Result<&Sandbox, &'static str> {
        match self {
            ExecBackend::Sandbox(sandbox) => Ok(sandbox),
            ExecBackend::Container(_) => Err("do not run in containers"),
            ExecBackend::Server(_) => Err("do not run in the containers of servers"),
        }
    }

    /// Runs a command to its end. It blocks, and must not be called on a thread of an event loop.
    ///
    /// # Errors
    /// The command could not be started, or the connection to it failed.
    pub fn run(
        &self,
        command: &ExecCommand<'_>,
        limits: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        let ExecCommand {
            line,
            policy,
            overlay,
        } = *command;
        match self {
            ExecBackend::Sandbox(sandbox) => sandbox.on_overlay(overlay).run(policy, limits),
            ExecBackend::Container(container) => {
                let reachable = ReachablePaths::on_overlay(policy, overlay);
                container.run_with_paths(line, &policy.dir, &reachable, limits)
            }
            ExecBackend::Server(_) => Err(io::Error::other(NO_COMMANDS)),
        }
    }

    /// Prepares a background command, and returns the function that follows it to its end; in a
    /// container, that function starts it.
    ///
    /// # Errors
    /// The command could not be started.
    pub fn start(
        &self,
        command: &ExecCommand<'_>,
        network: Option<Arc<NetworkProxy>>,
    ) -> io::Result<OutputFollower> {
        match self {
            ExecBackend::Sandbox(sandbox) => {
                let sandbox = sandbox.on_overlay(command.overlay);
                follow_in_sandbox(&sandbox, command.policy, network)
            }
            ExecBackend::Container(container) => follow_in_container(container, command),
            ExecBackend::Server(_) => Err(io::Error::other(NO_COMMANDS)),
        }
    }
}

/// Returns the function that runs a background command in a container.
fn follow_in_container(
    container: &Arc<AgentContainer>,
    command: &ExecCommand<'_>,
) -> io::Result<OutputFollower> {
    let container = Arc::clone(container);
    let reachable = ReachablePaths::on_overlay(command.policy, command.overlay);
    container.remount(&reachable).map_err(io::Error::other)?;
    let (line, dir) = (command.line.to_owned(), command.policy.dir.clone());
    Ok(Box::new(
        move |interrupt: &CommandInterrupt, on_output: &mut (dyn FnMut(&[u8]) + Send)| {
            let exit_reason = container.follow(&line, &dir, &reachable, interrupt, on_output)?;
            Ok((exit_reason, Vec::new()))
        },
    ))
}
