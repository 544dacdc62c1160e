//! Commands in massgen's sandbox on this machine.

use std::io;
use std::sync::Arc;

use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::world::sandbox::background::{OutputFollower, follow_in_sandbox};
use crate::world::sandbox::exec_backend::{ExecBackend, ExecCommand, NetworkControl};
use crate::world::sandbox::overlay::{OverlayAudience, WriteOverlay};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, Sandbox};

impl ExecBackend for Sandbox {
    fn isolation(&self) -> ExecutionIsolation {
        ExecutionIsolation::Sandbox {
            level: self.level(),
            reasons: self.reasons().to_vec(),
        }
    }

    fn sandbox_level(&self) -> SandboxLevel {
        self.level()
    }

    fn notes(&self) -> &[String] {
        &[]
    }

    fn overlay_audience(&self) -> OverlayAudience {
        OverlayAudience::Sandbox
    }

    fn network_control(&self) -> NetworkControl {
        NetworkControl::PerCommand
    }

    fn local_sandbox(&self) -> Result<&Sandbox, &'static str> {
        Ok(self)
    }

    fn run(
        &self,
        command: &ExecCommand<'_>,
        wait: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        sandbox_on_overlay(self, command.overlay).run(command.policy, wait)
    }

    fn start(
        self: Arc<Self>,
        command: &ExecCommand<'_>,
        network: Option<Arc<NetworkProxy>>,
    ) -> io::Result<OutputFollower> {
        let sandbox = sandbox_on_overlay(&self, command.overlay);
        follow_in_sandbox(&sandbox, command.policy, network)
    }
}

/// Returns the sandbox that processes run in: one inside the overlay, if there is one.
pub(in crate::world) fn sandbox_on_overlay(
    sandbox: &Sandbox,
    overlay: Option<&WriteOverlay>,
) -> Sandbox {
    match overlay.and_then(WriteOverlay::fork_server) {
        Some(fork_server) => sandbox.in_overlay_of(fork_server),
        None => sandbox.clone(),
    }
}
