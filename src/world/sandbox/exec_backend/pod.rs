//! Commands in an agent's pod: what a command may reach is sent there first, and its changes are fetched.

use std::io;
use std::sync::Arc;

use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::world::sandbox::background::OutputFollower;
use crate::world::sandbox::exec_backend::{ExecBackend, ExecCommand, NetworkControl};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::overlay::OverlayAudience;
use crate::world::sandbox::pod::agent_pod::AgentPod;
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, Sandbox};

impl ExecBackend for AgentPod {
    fn isolation(&self) -> ExecutionIsolation {
        ExecutionIsolation::Pod {
            image: self.image().to_owned(),
            runtime_class: self.runtime_class().map(str::to_owned),
        }
    }

    /// A pod opens the same paths as a sandbox of level `namespaces`.
    fn sandbox_level(&self) -> SandboxLevel {
        SandboxLevel::Namespaces
    }

    fn notes(&self) -> &[String] {
        AgentPod::notes(self)
    }

    fn overlay_audience(&self) -> OverlayAudience {
        OverlayAudience::Container
    }

    /// A pod keeps the network that it was created with.
    fn network_control(&self) -> NetworkControl {
        NetworkControl::Fixed
    }

    fn local_sandbox(&self) -> Result<&Sandbox, &'static str> {
        Err("do not run in pods")
    }

    fn run(
        &self,
        command: &ExecCommand<'_>,
        wait: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        let reachable = command.reachable_paths();
        let mut finished =
            self.run_with_paths(command.line, &command.policy.dir, &reachable, wait)?;
        let notes = self.fetch_changes(&reachable, wait.interrupt)?;
        finished.notes.extend(notes);
        Ok(finished)
    }

    fn start(
        self: Arc<Self>,
        command: &ExecCommand<'_>,
        _network: Option<Arc<NetworkProxy>>,
    ) -> io::Result<OutputFollower> {
        let reachable = command.reachable_paths();
        let (line, dir) = (command.line.to_owned(), command.policy.dir.clone());
        Ok(Box::new(
            move |interrupt: &CommandInterrupt, on_output: &mut (dyn FnMut(&[u8]) + Send)| {
                let ended = self.follow(&line, &dir, &reachable, interrupt, on_output)?;
                Ok((ended, self.fetch_changes(&reachable, interrupt)?))
            },
        ))
    }
}
