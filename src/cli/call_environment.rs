//! The execution environment of what runs outside of a run, such as `massgen tool` and the
//! installation of packages: how its commands are isolated, and the directories that exist for its
//! duration.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cli::grants_file::GrantsFile;
use crate::cli::run_context::host_environment;
use crate::config::Config;
use crate::config::command_line::CommandLineConfig;
use crate::config::docker::DockerConfig;
use crate::config::execution_mode::ExecutionMode;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::id::AgentId;
use crate::orchestrator::agent_containers::{build_container, connect_engine};
use crate::orchestrator::execution::new_run_name;
use crate::orchestrator::process_specs::EnvironmentSpec;
use crate::orchestrator::process_specs::HostEnvironment;
use crate::path::AbsPath;
use crate::permissions::grant::Grant;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::world::sandbox::container_owner::ContainerOrigin;
use crate::world::sandbox::docker::container::{AgentContainer, ContainerWork};
use crate::world::sandbox::exec_backend::ExecBackend;
use crate::world::sandbox::exec_environment::agent_directories::AgentDirectories;
use crate::world::sandbox::exec_environment::{ExecEnvironment, ExecEnvironmentConfig};
use crate::world::sandbox::level_record::LevelRecord;
use crate::world::sandbox::{Sandbox, SandboxSpec};
use crate::world::store::sandboxes::SandboxDirs;

/// Parent of the directories that exist for the duration of a call, unless `TMPDIR` is set.
const DEFAULT_TEMPORARY_DIRECTORY: &str = "/tmp";
/// Name of the caller of a call in a container, which is not an agent.
const DEFAULT_CALLER: &str = "tool";

/// Isolation of a call's commands that the user chose.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CommandIsolation<'a> {
    /// massgen's own sandbox.
    Sandbox(SandboxLevelChoice),
    /// A container of this image.
    Container(&'a str),
}

impl Default for CommandIsolation<'_> {
    fn default() -> Self {
        CommandIsolation::Sandbox(SandboxLevelChoice::default())
    }
}

impl CommandIsolation<'_> {
    /// Isolates the commands of all agents in this way, whatever their keys in the config say.
    pub(crate) fn apply_to(self, config: &mut Config) {
        if let CommandIsolation::Sandbox(choice) = self {
            return config.override_sandbox(choice);
        }
        let agents = config.agents.iter_mut();
        for commands in agents.filter_map(|agent| agent.commands.as_mut()) {
            match self {
                CommandIsolation::Sandbox(_) => {}
                CommandIsolation::Container(image) => {
                    let mut docker = commands.mode.container().cloned().unwrap_or_default();
                    image.clone_into(&mut docker.image);
                    commands.mode = ExecutionMode::Docker(Box::new(docker));
                }
            }
        }
    }
}

/// The execution environment of one call; its directories are removed on drop.
#[derive(Debug)]
pub(crate) struct CallEnvironment {
    /// What runs the commands.
    pub(crate) commands: ExecEnvironment,
    /// Kept for as long as commands may run in them.
    _directories: SandboxDirs,
}

impl CallEnvironment {
    /// Opens an environment with the default command settings, for a caller with these grants.
    pub(crate) fn open(
        host: &Host,
        isolation: CommandIsolation<'_>,
        grants: &GrantsFile,
    ) -> Result<Self> {
        let workspace = grants.base().to_abs();
        let access = CallerAccess {
            caller: DEFAULT_CALLER,
            grants: grants.grants(),
            workspace: &workspace,
        };
        Self::prepare(
            host,
            |host_environment, directories, temporary_directory| match isolation {
                CommandIsolation::Sandbox(choice) => {
                    let trees = grants.write_roots();
                    build_sandbox(
                        choice,
                        host_environment,
                        directories,
                        &trees,
                        grants.grants(),
                    )
                }
                CommandIsolation::Container(image) => {
                    let unique_directory = directories.scratch();
                    let origin = new_origin(temporary_directory, &unique_directory);
                    let container = build_call_container(image, access, origin, host_environment)?;
                    Ok(ExecBackend::Container(Arc::new(container)))
                }
            },
        )
    }

    /// Opens an environment in the strongest sandbox, for a caller without grants.
    pub(crate) fn open_without_grants(host: &Host) -> Result<Self> {
        Self::prepare(host, |host_environment, directories, _| {
            build_sandbox(
                SandboxLevelChoice::Auto,
                host_environment,
                directories,
                &[],
                &[],
            )
        })
    }

    /// Prepares an environment with its own directories and what `backend` builds.
    fn prepare(
        host: &Host,
        backend: impl FnOnce(&HostEnvironment, &AgentDirectories, &AbsPath) -> Result<ExecBackend>,
    ) -> Result<Self> {
        let temporary_name = host.env("TMPDIR").unwrap_or(DEFAULT_TEMPORARY_DIRECTORY);
        let temporary_directory = AbsPath::resolve(&host.cwd, temporary_name);
        let call_directories = SandboxDirs::make_for_call(&temporary_directory)?;
        let directories = AgentDirectories::prepare(&call_directories.caller()?)?;
        let host_environment = host_environment(host);
        let backend = backend(&host_environment, &directories, &temporary_directory)?;
        let commands = ExecEnvironment::new(ExecEnvironmentConfig {
            config: &CommandLineConfig::default(),
            backend,
            executable: &host_environment.executable,
            directories,
            env: &host_environment.env,
            config_env: BTreeMap::new(),
            home: host_environment.home.as_ref(),
        });
        Ok(Self {
            commands,
            _directories: call_directories,
        })
    }
}

fn build_sandbox(
    choice: SandboxLevelChoice,
    host_environment: &HostEnvironment,
    directories: &AgentDirectories,
    trees: &[AbsPath],
    grants: &[Grant],
) -> Result<ExecBackend> {
    let record = LevelRecord::find(&host_environment.env, grants);
    let sandbox = Sandbox::open_with(SandboxSpec {
        choice,
        executable: &host_environment.executable,
        overlay_directory: &directories.home(),
        trees,
        record: record.as_ref(),
        policy: &host_environment.policy,
    })?;
    if sandbox.level() == SandboxLevel::Unavailable {
        return Err(no_sandbox_error(sandbox.reasons()));
    }
    Ok(ExecBackend::Sandbox(sandbox))
}

/// A caller that is not an agent, with its grants and its workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerAccess<'a> {
    pub(crate) caller: &'a str,
    pub(crate) grants: &'a [Grant],
    pub(crate) workspace: &'a AbsPath,
}

/// Builds a container of `image` for a caller with `access`.
pub(crate) fn build_call_container(
    image: &str,
    access: CallerAccess<'_>,
    origin: ContainerOrigin<'_>,
    host_environment: &HostEnvironment,
) -> Result<AgentContainer> {
    let id = AgentId::parse(access.caller).map_err(|error| Error::bug(error.to_string()))?;
    let docker = DockerConfig {
        image: image.to_owned(),
        ..DockerConfig::default()
    };
    let spec = EnvironmentSpec {
        id: &id,
        config: &CommandLineConfig::default(),
        grants: access.grants,
        workspace: access.workspace,
    };
    let engine = connect_engine(host_environment)?;
    let work = ContainerWork::Commands;
    build_container(&engine, spec, work, &docker, origin, host_environment, None)
}

/// Returns the origin of a container that belongs to no run. `state` is the directory by which
/// massgen knows its containers: the next one with the same removes what an interrupted one left.
pub(crate) fn new_origin<'a>(
    state: &'a AbsPath,
    unique_directory: &'a AbsPath,
) -> ContainerOrigin<'a> {
    ContainerOrigin {
        run: new_run_name(),
        state,
        unique_directory,
    }
}

/// Returns the error for a machine on which no command can be sandboxed.
fn no_sandbox_error(reasons: &[String]) -> Error {
    let message = format!(
        "no sandbox is available on this machine: {}",
        reasons.join("; ")
    );
    Error::new(ErrorKind::Environment, message)
        .with_hint("see the sandbox section of `massgen doctor`")
        .with_hint("or use containers: `--docker IMAGE`, or `command_line_execution_mode: docker`")
}
