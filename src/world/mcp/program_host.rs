//! Where the program of a server runs: in massgen's sandbox, or in a container of its own.

use std::io;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::sandbox_policy::SandboxPolicy;
use crate::world::sandbox::Sandbox;
use crate::world::sandbox::docker::server_container::{
    ContainerProgram, ServerContainer, ServerContainers,
};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::stdio_process::{StderrFilter, StdioPipes, StdioProcess};

/// Where a program is to be started, and what it may do there.
#[derive(Debug)]
pub(in crate::world) enum LaunchPlace {
    /// In a sandbox on this machine.
    Sandbox(SandboxLaunch),
    /// In a container.
    Container(ContainerLaunch),
}

/// Parameters for starting a program in a sandbox.
#[derive(Debug)]
pub(in crate::world) struct SandboxLaunch {
    /// Its sandbox policy.
    pub(in crate::world) policy: SandboxPolicy,
    pub(in crate::world) sandbox: Sandbox,
    /// Its network proxy, if it has one.
    pub(in crate::world) network: Option<Arc<NetworkProxy>>,
}

/// Parameters for starting a program in a container.
#[derive(Clone, Debug)]
pub(in crate::world) struct ContainerLaunch {
    /// What creates the container.
    pub(in crate::world) containers: ServerContainers,
    /// What the program may access.
    pub(in crate::world) reachable: ReachablePaths,
    pub(in crate::world) program: ContainerProgram,
}

/// A place that is prepared: a program can be started there several times, one after the other.
#[derive(Debug)]
pub(super) enum PreparedPlace<'l> {
    /// A sandbox is built for each start.
    Sandbox(&'l SandboxLaunch),
    /// The container exists.
    Container(&'l ContainerProgram, Arc<ServerContainer>),
}

impl LaunchPlace {
    /// Prepares the place: creates the container. If the caller stops waiting, it is removed again.
    pub(super) async fn prepare(&self) -> Result<PreparedPlace<'_>, String> {
        match self {
            LaunchPlace::Sandbox(launch) => Ok(PreparedPlace::Sandbox(launch)),
            LaunchPlace::Container(launch) => {
                let ContainerLaunch {
                    containers,
                    reachable,
                    ..
                } = launch.clone();
                let create = move || {
                    let container = containers.create(&reachable);
                    container.map_err(|error| io::Error::other(format!("{error:#}")))
                };
                let container = run_blocking(create).await;
                let container = container.map_err(|error| error.to_string())?;
                Ok(PreparedPlace::Container(
                    &launch.program,
                    Arc::new(container),
                ))
            }
        }
    }
}

impl PreparedPlace<'_> {
    /// Starts the program and waits until it runs.
    ///
    /// # Errors
    /// It could not be started: the error of a sandbox contains an
    /// [`ExitReason`](crate::world::sandbox::ExitReason) if the program is the cause.
    pub(super) async fn start(&self, log: StderrFilter) -> io::Result<(StdioProcess, StdioPipes)> {
        match self {
            PreparedPlace::Sandbox(launch) => {
                let network = launch.network.clone();
                StdioProcess::start(&launch.sandbox, &launch.policy, network, log)
            }
            PreparedPlace::Container(program, container) => {
                let (program, container) = ((*program).clone(), Arc::clone(container));
                run_blocking(move || container.start_program(program, log)).await
            }
        }
    }
}

/// Runs `work`, which waits for a container engine, on a thread that may block.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let result = spawn_blocking(work).await;
    result.unwrap_or_else(|error| Err(io::Error::other(error)))
}
