//! Containers of one server: they run its program, and no commands.

use std::io;
use std::sync::Arc;

use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::world::sandbox::background::OutputFollower;
use crate::world::sandbox::docker::server_container::ServerContainers;
use crate::world::sandbox::exec_backend::{ExecBackend, ExecCommand, NetworkControl};
use crate::world::sandbox::overlay::OverlayAudience;
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, Sandbox};

/// The error for a command, which nothing asks for.
const NO_COMMANDS: &str = "the container of a server runs no commands";

impl ExecBackend for ServerContainers {
    fn isolation(&self) -> ExecutionIsolation {
        ExecutionIsolation::Container {
            image: self.image().to_owned(),
            host: self.host().map(ToString::to_string),
        }
    }

    /// A container opens the same paths as a sandbox of level `namespaces`.
    fn sandbox_level(&self) -> SandboxLevel {
        SandboxLevel::Namespaces
    }

    fn notes(&self) -> &[String] {
        &[]
    }

    fn overlay_audience(&self) -> OverlayAudience {
        OverlayAudience::Container
    }

    /// A container keeps the network that it was created with.
    fn network_control(&self) -> NetworkControl {
        NetworkControl::Fixed
    }

    fn local_sandbox(&self) -> Result<&Sandbox, &'static str> {
        Err("do not run in the containers of servers")
    }

    fn server_containers(&self) -> Option<&ServerContainers> {
        Some(self)
    }

    fn run(
        &self,
        _command: &ExecCommand<'_>,
        _wait: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        Err(io::Error::other(NO_COMMANDS))
    }

    fn start(
        self: Arc<Self>,
        _command: &ExecCommand<'_>,
        _network: Option<Arc<NetworkProxy>>,
    ) -> io::Result<OutputFollower> {
        Err(io::Error::other(NO_COMMANDS))
    }
}
