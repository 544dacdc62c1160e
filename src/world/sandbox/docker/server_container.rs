//! Containers of servers: each instance of a server program of an agent has one of its own, which
//! is removed when the program has ended.

use std::collections::BTreeMap;
use std::io::{self, pipe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::docker::{ContainerNetwork, DockerConfig};
use crate::error::Result;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::tools::served::ServerName;
use crate::world::sandbox::command_run::{ProcessBounds, ProcessOutput};
use crate::world::sandbox::container_owner::ContainerOwner;
use crate::world::sandbox::docker::command::{ContainerCommand, forward_input};
use crate::world::sandbox::docker::container::fixed_variables;
use crate::world::sandbox::docker::container_spec::ContainerSpec;
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::engine_error::command_error;
use crate::world::sandbox::docker::process::ContainerProcess;
use crate::world::sandbox::docker::replaceable_container::ReplaceableContainer;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::stdio_process::{StderrFilter, StdioPipes, StdioProcess};

/// Creates the containers of one server of an agent. A clone is the same.
#[derive(Clone, Debug)]
pub struct ServerContainers(Arc<ServerContainersState>);

#[derive(Debug)]
struct ServerContainersState {
    engine: ContainerEngine,
    /// The spec of all containers, whose names get a number.
    spec: ContainerSpec,
    env: BTreeMap<String, String>,
    workspace: AbsPath,
    /// The number of containers so far.
    count: AtomicU64,
}

/// A program to start in a container.
#[derive(Clone, Debug)]
pub struct ContainerProgram {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables in addition to those of the server.
    pub env: BTreeMap<String, String>,
    /// Its working directory.
    pub dir: AbsPath,
}

/// The container of one instance of a server. It is removed on drop.
#[derive(Debug)]
pub struct ServerContainer {
    container: ReplaceableContainer,
    notes: Vec<String>,
}

impl ServerContainers {
    /// Checks what the containers of a server need, and creates none. `config` is that of the
    /// agent's commands, or has another image. Blocks.
    ///
    /// # Errors
    /// The image is missing, or the config asks for what the engine cannot provide.
    pub fn new(
        engine: &ContainerEngine,
        owner: ContainerOwner<'_>,
        server: &ServerName,
        config: &DockerConfig,
    ) -> Result<Self> {
        let ContainerOwner { agent, origin, .. } = owner;
        let config = config.for_server(None);
        let image_path = engine.expect_image(&config.image)?;
        let mut env = fixed_variables(&image_path);
        env.extend(owner.config_env.clone());
        let (run, process) = (origin.run, std::process::id());
        let spec = ContainerSpec {
            name: format!("massgen-{agent}-{run}-server-{server}-{process}"),
            labels: origin.labels().into(),
            config,
            limits: *owner.limits,
            files: BTreeMap::new(),
            unique_directory: origin.unique_directory.clone(),
        };
        Ok(Self(Arc::new(ServerContainersState {
            engine: engine.clone(),
            spec,
            env,
            workspace: owner.workspace.clone(),
            count: AtomicU64::default(),
        })))
    }

    /// Returns the isolation of the server, for people.
    pub fn isolation(&self) -> ExecutionIsolation {
        ContainerEngine::isolation(&self.0.spec.config.image)
    }

    /// Returns whether the containers have a network.
    pub fn has_network(&self) -> bool {
        self.0.spec.config.network != ContainerNetwork::None
    }

    /// Creates a container in which a program can access `reachable`, and installs the packages
    /// that the config lists. Blocks, and must not be called from an event loop.
    pub(in crate::world) fn create(&self, reachable: &ReachablePaths) -> Result<ServerContainer> {
        let ServerContainersState {
            engine,
            spec,
            env,
            workspace,
            count,
        } = &*self.0;
        let number = count.fetch_add(1, Ordering::Relaxed);
        let spec = ContainerSpec {
            name: format!("{}-{number}", spec.name),
            ..spec.clone()
        };
        let container =
            ReplaceableContainer::start_new(engine, spec, env.clone(), workspace, reachable)?;
        let notes = container.install_packages();
        Ok(ServerContainer { container, notes })
    }
}

impl ServerContainer {
    /// Starts the program, which ends with all of the container when it is dropped. Only one runs
    /// at a time. Blocks, and must not be called from an event loop.
    ///
    /// # Errors
    /// It could not be started.
    pub(in crate::world) fn start_program(
        self: Arc<Self>,
        program: ContainerProgram,
        mut stderr_filter: StderrFilter,
    ) -> io::Result<(StdioProcess, StdioPipes)> {
        let container = &self.container;
        let running_command = container.register_command();
        let container_command = ContainerCommand {
            dir: Some(program.dir),
            ..container.base_command()
        };
        let container_command = container_command.with_server_program(
            program.command,
            program.env,
            &running_command.id,
        );
        let guard = container.lock();
        let disks = guard.disk_watch(container);
        let start_result = container.start(&guard, container_command);
        drop(guard);
        let mut exec = start_result.map_err(command_error)?;
        for note in &self.notes {
            stderr_filter(Some(&format!("massgen: {note}\n")));
        }
        let (stdin, input) = pipe()?;
        let (output, stdout) = pipe()?;
        let (errors, stderr) = pipe()?;
        if let Some(program_input) = exec.take_input() {
            // Its end shows in that of the program.
            let forwarding = forward_input(program_input, stdin.into());
            let forwarding = container.engine.spawn(forwarding);
            drop(forwarding);
        }
        let streams = [stdout.into(), stderr.into()];
        let server_container = Arc::clone(&self);
        let run_to_end = move |errors: ProcessOutput<'_>, interrupt: &CommandInterrupt| {
            let container = &server_container.container;
            let mut command_run =
                ContainerProcess::follow(container, &running_command, None, exec, streams)?;
            command_run.process_mut().end_with_container();
            let bounds = ProcessBounds {
                interrupt: Some(interrupt),
                disk: Some(&disks),
                ..ProcessBounds::default()
            };
            let exit_reason = command_run.run_to_end(&mut [errors], &bounds);
            exit_reason
                .map_err(|error| command_error(command_run.process_mut().take_failure(error)))
        };
        let process = StdioProcess::follow(errors, stderr_filter, Box::new(run_to_end))?;
        let pipes = StdioPipes {
            input: input.into(),
            output: output.into(),
        };
        Ok((process, pipes))
    }
}
