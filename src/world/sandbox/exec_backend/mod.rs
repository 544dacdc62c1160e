//! The interface of everything that executes an agent's commands. All differences between massgen's
//! sandbox, containers and other execution engines are behind [`ExecBackend`].

mod container;
mod pod;
mod server_container;
pub(in crate::world) mod local;

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::world::sandbox::background::OutputFollower;
use crate::world::sandbox::docker::server_container::ServerContainers;
use crate::world::sandbox::overlay::{OverlayAudience, WriteOverlay};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, Sandbox};

/// Executes the commands of one agent.
pub trait ExecBackend: fmt::Debug + Send + Sync {
    /// Returns the isolation of the commands, for people.
    fn isolation(&self) -> ExecutionIsolation;

    /// Returns the level of the sandbox, or for other engines the level that opens the same paths.
    fn sandbox_level(&self) -> SandboxLevel;

    /// Returns what of the config is not available, and what it exposes.
    fn notes(&self) -> &[String];

    /// Returns how commands see an overlay.
    fn overlay_audience(&self) -> OverlayAudience;

    /// Returns when network access is decided.
    fn network_control(&self) -> NetworkControl;

    /// Returns massgen's sandbox, in which programs, hooks, MCP servers and external agents run.
    ///
    /// # Errors
    /// There is none; the error is the rest of a sentence that begins with these programs.
    fn local_sandbox(&self) -> Result<&Sandbox, &'static str>;

    /// Returns what creates containers for a server, if it is a server that runs here.
    fn server_containers(&self) -> Option<&ServerContainers> {
        None
    }

    /// Runs a command to its end. It blocks, and must not be called on a thread of an event loop.
    ///
    /// # Errors
    /// The command could not be started, or the connection to it failed.
    fn run(
        &self,
        command: &ExecCommand<'_>,
        wait: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput>;

    /// Starts a background command, and returns the function that follows it to its end.
    ///
    /// # Errors
    /// The command could not be started.
    fn start(
        self: Arc<Self>,
        command: &ExecCommand<'_>,
        network: Option<Arc<NetworkProxy>>,
    ) -> io::Result<OutputFollower>;
}

/// When the network access of commands is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkControl {
    /// For each command.
    PerCommand,
    /// When the engine's environment is created.
    Fixed,
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

impl ExecCommand<'_> {
    /// Returns the paths that it can reach in a container.
    fn reachable_paths(&self) -> ReachablePaths {
        ReachablePaths {
            copies: self.overlay.map(WriteOverlay::copies).unwrap_or_default(),
            ..ReachablePaths::from(self.policy)
        }
    }
}
