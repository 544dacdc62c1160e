//! Containers of servers: each instance of a server program of an agent has one of its own, which
//! is removed when the program has ended. The program itself changes nothing on this machine: it
//! writes to copies, from which massgen fetches the changes between calls.

use std::collections::BTreeMap;
use std::io::{self, pipe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::config::docker::{ContainerNetwork, DockerConfig};
use crate::error::Result;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::sandbox_policy::AccessiblePath;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::tools::served::ServerName;
use crate::world::sandbox::command_run::{ProcessBounds, ProcessOutput};
use crate::world::sandbox::container_owner::ContainerOwner;
use crate::world::sandbox::docker::command::{ContainerCommand, forward_input};
use crate::world::sandbox::docker::container::fixed_variables;
use crate::world::sandbox::docker::container_spec::ContainerSpec;
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::process::ContainerProcess;
use crate::world::sandbox::docker::replaceable_container::ReplaceableContainer;
use crate::world::sandbox::docker::ssh_limits::expect_available_over_ssh;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::sent_files::SentFiles;
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
    state: AbsPath,
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
    /// What is in it, if its files are copies.
    sent_files: Mutex<SentFiles>,
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
        if let Some(host) = engine.client.host() {
            expect_available_over_ssh(&config, host)?;
        }
        let image = engine.block_on(engine.client.expect_image(&config.image))?;
        let mut env = fixed_variables(&image);
        env.extend(owner.config_env.clone());
        let (run, process) = (origin.run, std::process::id());
        let spec = ContainerSpec {
            name: format!("massgen-{agent}-{run}-server-{server}-{process}"),
            labels: origin.labels().into(),
            config,
            limits: *owner.limits,
            files: BTreeMap::new(),
        };
        Ok(Self(Arc::new(ServerContainersState {
            engine: engine.clone(),
            spec,
            env,
            workspace: owner.workspace.clone(),
            state: origin.state.clone(),
            count: AtomicU64::default(),
        })))
    }

    /// Returns the isolation of the server, for people.
    pub fn isolation(&self) -> ExecutionIsolation {
        self.0.engine.isolation(&self.0.spec.config.image)
    }

    /// Returns whether the containers have a network.
    pub fn has_network(&self) -> bool {
        self.0.spec.config.network != ContainerNetwork::None
    }

    /// Creates a container in which a program can access `reachable`, and installs the packages
    /// that the config lists. If the engine is on another machine, or something is writable, the
    /// files are sent there. Blocks, and must not be called from an event loop; an interrupt ends
    /// the sending.
    pub(in crate::world) fn create(
        &self,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
    ) -> Result<ServerContainer> {
        let ServerContainersState {
            engine,
            spec,
            env,
            workspace,
            state,
            count,
        } = &*self.0;
        engine.ensure_connected()?;
        let is_writable = |open_path: &AccessiblePath| open_path.permission == Permission::Write;
        let engine = if reachable.open.iter().any(is_writable) {
            &engine.with_copies()
        } else {
            engine
        };
        let number = count.fetch_add(1, Ordering::Relaxed);
        let spec = ContainerSpec {
            name: format!("{}-{number}", spec.name),
            ..spec.clone()
        };
        let sent_files = SentFiles::new(state, spec.limits);
        let container =
            ReplaceableContainer::start_new(engine, spec, env.clone(), workspace, reachable)?;
        let mut notes = container.install_packages();
        notes.extend(container.movable_trees_note(reachable));
        let server_container = ServerContainer {
            container,
            sent_files: Mutex::new(sent_files),
            notes,
        };
        server_container.send_files(reachable, interrupt)?;
        Ok(server_container)
    }
}

impl ServerContainer {
    /// Returns whether its files are copies.
    pub(in crate::world) fn has_copies(&self) -> bool {
        self.container.engine.client.has_copies()
    }

    /// Sends what changed of the files that the program may read, and removes there what it may no
    /// longer read. Where they are mounted, nothing is sent. Blocks, and must not be called from an
    /// event loop; an interrupt ends it.
    pub(in crate::world) fn send_files(
        &self,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
    ) -> Result<()> {
        if !self.has_copies() {
            return Ok(());
        }
        self.container
            .send_files(&self.sent_files, reachable, Some(interrupt))
    }

    /// Fetches what the program has changed where it may write, and writes it here as far as the
    /// rules allow it, while the program continues. Returns notes about what was refused. Blocks
    /// until a few seconds after an interrupt.
    pub(in crate::world) fn fetch_changes(
        &self,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
    ) -> io::Result<Vec<String>> {
        self.container
            .fetch_changes(&self.sent_files, reachable, interrupt)
    }

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
        let mut exec = start_result.map_err(|error| container.describe_failure(error))?;
        for note in &self.notes {
            stderr_filter(Some(&format!("massgen: {note}\n")));
        }
        let (stdin, input) = pipe()?;
        let (output, stdout) = pipe()?;
        let (errors, stderr) = pipe()?;
        if let Some(program_input) = exec.take_input() {
            // Its end shows in that of the program.
            let forwarding = forward_input(program_input, stdin.into());
            container
                .engine
                .spawn(async { forwarding.await.unwrap_or_default() });
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
            exit_reason.map_err(|error| {
                container.describe_failure(command_run.process_mut().take_failure(error))
            })
        };
        let process = StdioProcess::follow(errors, stderr_filter, Box::new(run_to_end))?;
        let pipes = StdioPipes {
            input: input.into(),
            output: output.into(),
        };
        Ok((process, pipes))
    }
}
