//! Commands in an agent's container: the paths that a command may reach are mounted, and the command
//! runs alongside others.

use std::io;
use std::sync::Arc;

use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::world::sandbox::background::OutputFollower;
use crate::world::sandbox::docker::container::AgentContainer;
use crate::world::sandbox::exec_backend::{ExecBackend, ExecCommand, NetworkControl};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::overlay::OverlayAudience;
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, Sandbox};

impl ExecBackend for AgentContainer {
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
        AgentContainer::notes(self)
    }

    fn overlay_audience(&self) -> OverlayAudience {
        OverlayAudience::Container
    }

    /// A container keeps the network that it was created with.
    fn network_control(&self) -> NetworkControl {
        NetworkControl::Fixed
    }

    fn local_sandbox(&self) -> Result<&Sandbox, &'static str> {
        Err("do not run in containers")
    }

    fn run(
        &self,
        command: &ExecCommand<'_>,
        wait: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        let reachable = command.reachable_paths();
        let mut output =
            self.run_with_paths(command.line, &command.policy.dir, &reachable, wait)?;
        let notes = self.fetch_changes(&reachable, wait.interrupt)?;
        output.notes.extend(notes);
        Ok(output)
    }

    fn start(
        self: Arc<Self>,
        command: &ExecCommand<'_>,
        _network: Option<Arc<NetworkProxy>>,
    ) -> io::Result<OutputFollower> {
        let reachable = command.reachable_paths();
        self.remount(&reachable).map_err(io::Error::other)?;
        let (line, dir) = (command.line.to_owned(), command.policy.dir.clone());
        Ok(Box::new(
            move |interrupt: &CommandInterrupt, on_output: &mut (dyn FnMut(&[u8]) + Send)| {
                let exit_reason = self.follow(&line, &dir, &reachable, interrupt, on_output)?;
                let notes = self.fetch_changes(&reachable, interrupt)?;
                Ok((exit_reason, notes))
            },
        ))
    }
}
