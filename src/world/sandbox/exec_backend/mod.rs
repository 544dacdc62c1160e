//! Owns what executes the commands of an agent, as everybody else sees it. What differs between
//! massgen's sandbox, a container, and whatever else may follow is decided behind [`ExecBackend`].

mod container;
pub(in crate::world) mod local;

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::world::sandbox::background::OutputFollower;
use crate::world::sandbox::overlay::{OverlayAudience, WriteOverlay};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, Sandbox};

/// What executes the commands of one agent.
pub trait ExecBackend: fmt::Debug + Send + Sync {
    /// What holds them, for people.
    fn isolation(&self) -> ExecutionIsolation;

    /// How they are held. What they reach elsewhere is what a sandbox of this level would open.
    fn sandbox_level(&self) -> SandboxLevel;

    /// What of the config could not be had, and what it exposes.
    fn notes(&self) -> &[String];

    /// How they are shown an overlay.
    fn overlay_audience(&self) -> OverlayAudience;

    /// Who decides what they reach of the network.
    fn network_control(&self) -> NetworkControl;

    /// massgen's own sandbox, in which programs, hooks, servers and external agents run.
    ///
    /// # Errors
    /// Why there is none, as the end of a sentence about them.
    fn local_sandbox(&self) -> Result<&Sandbox, &'static str>;

    /// Runs a command to its end. It blocks, and must not be called by part of an event loop.
    ///
    /// # Errors
    /// It could not be started or spoken with.
    fn run(
        &self,
        command: &ExecCommand<'_>,
        wait: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput>;

    /// Starts a command that goes on while others run, and gives what follows it to its end.
    ///
    /// # Errors
    /// It could not be started.
    fn start(
        self: Arc<Self>,
        command: &ExecCommand<'_>,
        network: Option<Arc<NetworkProxy>>,
    ) -> io::Result<OutputFollower>;
}

/// Who decides what commands reach of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkControl {
    /// massgen, for each command.
    PerCommand,
    /// What executes them, when it is made.
    Fixed,
}

/// A command that is permitted.
#[derive(Clone, Copy, Debug)]
pub struct ExecCommand<'a> {
    /// The line that a shell takes.
    pub line: &'a str,
    /// What it may do. Its program is a shell with that line.
    pub policy: &'a SandboxPolicy,
    /// The stage that it works on.
    pub overlay: Option<&'a WriteOverlay>,
}
