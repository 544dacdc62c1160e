//! Creates the containers of agents, or continues those of the last turn of a session.

use std::collections::BTreeMap;
use std::thread;

use crate::config::docker::DockerConfig;
use crate::error::{Error, Result};
use crate::orchestrator::grants;
use crate::orchestrator::process_specs::EnvironmentSpec;
use crate::orchestrator::process_specs::HostEnvironment;
use crate::permissions::grant::Phase;
use crate::sandbox_policy::compile::reachable_paths;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sandbox::container_owner::ContainerOrigin;
use crate::world::sandbox::docker::container::{AgentContainer, ContainerWork};
use crate::world::sandbox::docker::credentials::HostUser;
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::reachable_paths::ReachablePaths;

/// Connects to the container engine that the user's environment names, or else to one at a default
/// socket.
pub fn connect_engine(host: &HostEnvironment) -> Result<ContainerEngine> {
    let engine_host = host.env.get("DOCKER_HOST");
    on_separate_thread(|| ContainerEngine::open(engine_host.map(String::as_str)))
}

/// Runs what waits for an engine on a separate thread, because the caller may be part of an event
/// loop.
pub(super) fn on_separate_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let work_result = thread::scope(|scope| scope.spawn(work).join());
    work_result.map_err(|panic| Error::from_panic(&*panic))?
}

/// Returns the paths that commands of an agent can reach when its container is created.
fn initial_reachable_paths(spec: EnvironmentSpec<'_>) -> ReachablePaths {
    let manager = grants::permission_manager(spec.grants, Phase::Coordination);
    let (open_paths, hidden_paths) = reachable_paths(&manager, SandboxLevel::Namespaces);
    ReachablePaths {
        open: open_paths,
        masked: Vec::new(),
        hidden: hidden_paths,
        copies: BTreeMap::new(),
    }
}

/// Creates a container of one agent on `engine`, for this run, or continues `previous`.
pub fn build_container(
    engine: &ContainerEngine,
    spec: EnvironmentSpec<'_>,
    work: ContainerWork,
    docker: &DockerConfig,
    origin: ContainerOrigin<'_>,
    host: &HostEnvironment,
    previous: Option<AgentContainer>,
) -> Result<AgentContainer> {
    let reachable = initial_reachable_paths(spec);
    on_separate_thread(|| {
        engine.remove_leftovers(origin.state)?;
        let added_variables = spec.config.added_env(&host.variables);
        let owner = spec.container_owner(origin, &added_variables);
        let user = HostUser {
            home: host.home.as_ref(),
            env: &host.env,
            variables: &host.variables,
        };
        AgentContainer::open(engine, owner, work, docker, user, &reachable, previous)
    })
}
