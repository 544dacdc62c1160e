//! Owns the preparation of what agents run commands in: what can hold them is found out, and each
//! agent that may run commands gets directories, and perhaps a container, of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use crate::code_mode::language::ProgramDialect;
use crate::config::ToolFilter;
use crate::config::command_line::{CommandLineConfig, ExecutionMode};
use crate::config::docker::DockerConfig;
use crate::config::external_agents::ExternalAgentConfig;
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, RunEvent};
use crate::id::AgentId;
use crate::layout::{RunLayout, RunName};
use crate::orchestrator::grants;
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, GrantScope, Phase};
use crate::sandbox_policy::compile::reachable_paths;
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel, SandboxLevelChoice};
use crate::tools::served::ServerName;
use crate::world::docker::container::{AgentContainer, ContainerOwner};
use crate::world::docker::credentials::HostUser;
use crate::world::docker::engine::ContainerEngine;
use crate::world::docker::mounts::ReachablePaths;
use crate::world::exec::agent_launcher::find_program;
use crate::world::exec::program::check_language;
use crate::world::exec_environment::agent_directories::AgentDirectories;
use crate::world::exec_environment::{ExecBackend, ExecEnvironment, ExecEnvironmentConfig};
use crate::world::program_environment::ProgramEnvironment;
use crate::world::sandbox::Sandbox;
use crate::world::store::sandboxes::SandboxDirs;

/// What commands need to know about the process.
#[derive(Clone, Debug)]
pub struct HostEnvironment {
    /// The program that is started as the helper of a sandbox.
    pub executable: AbsPath,
    /// The environment of the process.
    pub env: BTreeMap<String, String>,
    /// The variables that a config may pass on.
    pub variables: ConfigVariables,
    /// The user's home directory.
    pub home: Option<AbsPath>,
}

/// The commands of those agents of a run that may run some.
#[derive(Debug, Default)]
pub struct AgentEnvironments {
    ready: BTreeMap<AgentId, ExecEnvironment>,
    rejected: BTreeMap<AgentId, ExecutionIsolation>,
    /// What checks run in on the work of an agent.
    check_environments: BTreeMap<AgentId, ExecEnvironment>,
    /// What the programs of an agent run in.
    programs: BTreeMap<AgentId, ProgramEnvironment>,
    /// What the servers of an agent run in.
    server_environments: BTreeMap<(AgentId, ServerName), ExecEnvironment>,
    /// What the program runs in that speaks for an agent, and how it is started.
    external_agents: BTreeMap<AgentId, (ExecEnvironment, Vec<String>)>,
    /// What the hooks of an agent run in.
    hooks: BTreeMap<AgentId, ExecEnvironment>,
    /// On whose work checks cannot be run, and why.
    unsupported_checks: BTreeMap<AgentId, &'static str>,
    /// Their directories, which go at the end of the run.
    directories: Option<SandboxDirs>,
}

/// An agent that may run commands.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentSpec<'a> {
    /// Who.
    pub id: &'a AgentId,
    /// How its commands are run.
    pub config: &'a CommandLineConfig,
    /// All that is opened for it.
    pub grants: &'a [Grant],
    /// Its workspace.
    pub workspace: &'a AbsPath,
}

/// An agent that works by programs.
#[derive(Clone, Copy, Debug)]
pub struct CodeModeSpec<'a> {
    /// Who, and how its programs are held.
    pub environment: EnvironmentSpec<'a>,
    /// What they are written in.
    pub dialect: ProgramDialect,
    /// Which tools they may call.
    pub tools: &'a ToolFilter,
}

/// Whose processes need something to run in.
#[derive(Debug, Default)]
pub struct EnvironmentSpecs<'a> {
    /// Those that may run commands.
    pub commands: Vec<EnvironmentSpec<'a>>,
    /// Those whose work is checked.
    pub checks: Vec<EnvironmentSpec<'a>>,
    /// Those that work by programs.
    pub programs: Vec<CodeModeSpec<'a>>,
    /// The servers that are programs, and those whom they serve.
    pub servers: Vec<(&'a ServerName, EnvironmentSpec<'a>)>,
    /// The agents that are programs of their own.
    pub external_agents: Vec<(&'a ExternalAgentConfig, EnvironmentSpec<'a>)>,
    /// Those that the user's hooks are asked about.
    pub hooks: Vec<EnvironmentSpec<'a>>,
}

impl EnvironmentSpecs<'_> {
    /// Whether nobody needs anything.
    fn is_empty(&self) -> bool {
        let agents = self.commands.is_empty() && self.checks.is_empty();
        let others =
            self.servers.is_empty() && self.external_agents.is_empty() && self.hooks.is_empty();
        agents && self.programs.is_empty() && others
    }
}

impl AgentEnvironments {
    /// Finds out what can hold what `runners` run, and makes directories and containers. What the
    /// config names and cannot be had is an error; where nothing can enforce, commands are refused,
    /// an agent that works by programs is an error, for it could do nothing, and so is a server.
    pub fn prepare(
        runners: EnvironmentSpecs<'_>,
        layout: &RunLayout,
        machine: &HostEnvironment,
    ) -> Result<Self> {
        if runners.is_empty() {
            return Ok(Self::default());
        }
        let EnvironmentSpecs {
            commands,
            checks: checked,
            programs,
            servers: served,
            external_agents: guests,
            hooks: hooked,
        } = runners;
        let mut builder = EnvironmentBuilder {
            directories: SandboxDirs::make(&layout.sandboxes)?,
            sandboxes: Vec::new(),
            layout,
            host: machine,
        };
        let mut shells = Self::default();
        for runner in commands {
            let room = builder.directories.agent(runner.id)?;
            let commands = builder.build_commands(runner, &room)?;
            let id = runner.id.clone();
            if commands.sandbox_level() == SandboxLevel::D {
                shells.rejected.insert(id, commands.isolation());
            } else {
                shells.ready.insert(id, commands);
            }
        }
        for runner in checked {
            let room = builder.directories.checks_of(runner.id)?;
            let commands = builder.build_commands(runner, &room)?;
            if let Some(why) = check_obstacle(commands.sandbox_level(), runner.grants) {
                shells.unsupported_checks.insert(runner.id.clone(), why);
            }
            if commands.sandbox_level() != SandboxLevel::D {
                shells
                    .check_environments
                    .insert(runner.id.clone(), commands);
            }
        }
        for programmer in programs {
            let id = programmer.environment.id;
            let room = builder.directories.programs_of(id)?;
            let held = builder.build_commands(programmer.environment, &room)?;
            shells
                .programs
                .insert(id.clone(), prepare_programs(programmer, held)?);
        }
        for (server, runner) in served {
            let room = builder.directories.server_of(runner.id, server)?;
            let commands = builder.build_commands(runner, &room)?;
            if commands.sandbox_level() == SandboxLevel::D {
                let what = format!("the server `{server}` of `{}`", runner.id);
                return Err(no_sandbox_error(&what, &commands.isolation()));
            }
            let key = (runner.id.clone(), server.clone());
            shells.server_environments.insert(key, commands);
        }
        for (guest, runner) in guests {
            let held = builder.build_external_agent(guest, runner)?;
            shells.external_agents.insert(runner.id.clone(), held);
        }
        for runner in hooked {
            let held = builder.build_hooks(runner)?;
            shells.hooks.insert(runner.id.clone(), held);
        }
        shells.directories = Some(builder.directories);
        Ok(shells)
    }

    /// What the programs of an agent run in; `None` where it works by none.
    pub fn program_environment(&self, agent: &AgentId) -> Option<&ProgramEnvironment> {
        self.programs.get(agent)
    }

    /// What a server of an agent runs in; `None` if it is no program.
    pub fn server_environment(
        &self,
        agent: &AgentId,
        server: &ServerName,
    ) -> Option<&ExecEnvironment> {
        self.server_environments
            .get(&(agent.clone(), server.clone()))
    }

    /// What the program of an agent runs in and how it is started; `None` if it is none.
    pub fn external_agent(&self, agent: &AgentId) -> Option<&(ExecEnvironment, Vec<String>)> {
        self.external_agents.get(agent)
    }

    /// What the hooks about an agent run in; `None` where there are none.
    pub fn hook_environment(&self, agent: &AgentId) -> Option<&ExecEnvironment> {
        self.hooks.get(agent)
    }

    /// What checks on the work of an agent run in; `None` where nothing on this machine can hold them.
    pub fn check_environment(&self, agent: &AgentId) -> Option<&ExecEnvironment> {
        self.check_environments.get(agent)
    }

    /// The first agent on whose work checks cannot be run, and why.
    pub fn unsupported_check(&self) -> Option<(&AgentId, &'static str)> {
        let first = self.unsupported_checks.first_key_value();
        first.map(|(agent, why)| (agent, *why))
    }

    /// What the commands of an agent run in; `None` where it may run none.
    pub fn command_environment(&self, agent: &AgentId) -> Option<&ExecEnvironment> {
        self.ready.get(agent)
    }

    /// Whether nothing on this machine can hold the commands of an agent.
    pub fn is_rejected(&self, agent: &AgentId) -> bool {
        self.rejected.contains_key(agent)
    }

    /// What the user should know: one event for each kind of hold, and what could not be had.
    pub fn sandbox_events(&self) -> Vec<Event> {
        let ready = self.ready.iter();
        let ready = ready.map(|(agent, commands)| (agent, commands.isolation()));
        let refused = self.rejected.iter();
        let refused = refused.map(|(agent, by)| (agent, by.clone()));
        let only = self.programs.iter();
        let only = only.filter(|(agent, _)| !self.ready.contains_key(*agent));
        let only = only.map(|(agent, programs)| (agent, programs.environment().isolation()));
        let guests = self.external_agents.iter();
        let guests = guests.map(|(agent, (commands, _))| (agent, commands.isolation()));
        let mut held: Vec<(ExecutionIsolation, Vec<AgentId>)> = Vec::new();
        for (agent, by) in ready.chain(refused).chain(only).chain(guests) {
            match held.iter_mut().find(|(known, _)| *known == by) {
                Some((_, agents)) => agents.push(agent.clone()),
                None => held.push((by, vec![agent.clone()])),
            }
        }
        let event = |(by, agents): (ExecutionIsolation, Vec<AgentId>)| {
            Event::from(RunEvent::SandboxSelected {
                agents,
                leaves_open: by.leaves_open().iter().map(ToString::to_string).collect(),
                by,
            })
        };
        let notes = self.ready.iter().flat_map(|(agent, commands)| {
            let notes = commands.notes().iter();
            notes.map(move |note| format!("commands of {agent}: {note}"))
        });
        let warning = |message| Event::Run(RunEvent::Warning { message });
        held.into_iter()
            .map(event)
            .chain(notes.map(warning))
            .collect()
    }
}

/// The programs of an agent, once one of them has run.
fn prepare_programs(
    programmer: CodeModeSpec<'_>,
    held: ExecEnvironment,
) -> Result<ProgramEnvironment> {
    let CodeModeSpec {
        environment: runner,
        dialect,
        tools,
    } = programmer;
    let id = runner.id;
    if held.sandbox_level() == SandboxLevel::D {
        let message = format!("nothing on this machine can hold the programs of `{id}`");
        let error = Error::new(ErrorKind::Environment, message);
        return Err(error
            .with_hint("see `massgen doctor` for what is missing")
            .with_hint(
                "remove `enable_code_based_tools`: the agent then has its tools one by one",
            ));
    }
    let programs = ProgramEnvironment::new(dialect, tools.clone(), held);
    check_language(&programs).map_err(|why| {
        let title = dialect.language().title();
        let message = format!("the programs of `{id}` cannot be run in {title}: {why}");
        Error::new(ErrorKind::Environment, message).with_hint(dialect.remedy())
    })?;
    Ok(programs)
}

/// That something cannot be started, because it could do whatever the user may do.
fn no_sandbox_error(what: &str, by: &ExecutionIsolation) -> Error {
    let reasons = match by {
        ExecutionIsolation::Sandbox { reasons, .. } => reasons.join("; "),
        ExecutionIsolation::Container { .. } => String::new(),
    };
    let message = format!("nothing on this machine can hold {what}: {reasons}");
    Error::new(ErrorKind::Environment, message)
        .with_hint("see `massgen doctor` for what is missing, or remove them from the config")
}

/// Why an agent's program cannot be started: nothing would hold it, or it could not reach the run.
fn external_agent_error(agent: &AgentId, commands: &ExecEnvironment) -> Option<Error> {
    let (why, hint) = match (commands.sandbox_level(), commands.isolation()) {
        (SandboxLevel::D, ExecutionIsolation::Sandbox { reasons, .. }) => (
            format!(
                "nothing on this machine can hold the program of `{agent}`: {}",
                reasons.join("; ")
            ),
            "see `massgen doctor` for what is missing, or give the agent a type that is asked over the network",
        ),
        (SandboxLevel::C, _) => (
            format!(
                "in tier C the program of `{agent}` cannot be used: it reaches the run over a Unix socket, which that tier closes"
            ),
            "see `massgen doctor` for what keeps tiers A and B away, or give the agent a type that is asked over the network",
        ),
        (SandboxLevel::A | SandboxLevel::B | SandboxLevel::D | SandboxLevel::Off, _) => {
            return None;
        }
    };
    Some(Error::new(ErrorKind::Environment, why).with_hint(hint))
}

/// Why checks cannot be run in `tier` on the work of an agent with these grants. Where it has no
/// directory to write to, they look at a copy of its files, which every tier can hold.
fn check_obstacle(tier: SandboxLevel, grants: &[Grant]) -> Option<&'static str> {
    let roots = grants::write_roots(grants);
    let has_tree = roots.iter().any(|grant| grant.scope == GrantScope::Tree);
    match tier {
        SandboxLevel::C if has_tree => {
            Some("in tier C commands cannot be shown what would be delivered")
        }
        SandboxLevel::Off if has_tree => {
            Some("with the sandbox off commands cannot be shown what would be delivered")
        }
        SandboxLevel::A | SandboxLevel::B | SandboxLevel::C | SandboxLevel::Off => None,
        SandboxLevel::D => Some("nothing on this machine can hold them"),
    }
}

/// Makes what commands run in; agents that are held alike share a sandbox.
struct EnvironmentBuilder<'b> {
    directories: SandboxDirs,
    sandboxes: Vec<((SandboxLevelChoice, Vec<AbsPath>), Sandbox)>,
    layout: &'b RunLayout,
    host: &'b HostEnvironment,
}

impl EnvironmentBuilder<'_> {
    fn build_commands(
        &mut self,
        runner: EnvironmentSpec<'_>,
        room: &AbsPath,
    ) -> Result<ExecEnvironment> {
        let room = AgentDirectories::prepare(room)?;
        let place = match &runner.config.mode {
            ExecutionMode::Docker(docker) => {
                let part = (self.layout.run, &self.layout.state);
                let container = build_container(runner, docker, part, self.host)?;
                ExecBackend::Container(Arc::new(container))
            }
            ExecutionMode::Local => ExecBackend::Sandbox(self.build_sandbox(runner, &room)?),
        };
        Ok(ExecEnvironment::new(ExecEnvironmentConfig {
            config: runner.config,
            backend: place,
            executable: &self.host.executable,
            room,
            env: &self.host.env,
            variables: &self.host.variables,
            home: self.host.home.as_ref(),
        }))
    }

    /// What a guest runs in, and its command as it is found.
    fn build_external_agent(
        &mut self,
        guest: &ExternalAgentConfig,
        runner: EnvironmentSpec<'_>,
    ) -> Result<(ExecEnvironment, Vec<String>)> {
        let path = self.host.env.get("PATH").map_or("", String::as_str);
        let command = find_program(&guest.command, path, guest.package)?;
        let room = self.directories.external_agent_of(runner.id)?;
        let commands = self.build_commands(runner, &room)?;
        match external_agent_error(runner.id, &commands) {
            Some(error) => Err(error),
            None => Ok((commands, command)),
        }
    }

    /// What the hooks about an agent run in.
    fn build_hooks(&mut self, runner: EnvironmentSpec<'_>) -> Result<ExecEnvironment> {
        let room = self.directories.hooks_of(runner.id)?;
        let commands = self.build_commands(runner, &room)?;
        if commands.sandbox_level() == SandboxLevel::D {
            let what = format!("the hooks about `{}`", runner.id);
            return Err(no_sandbox_error(&what, &commands.isolation()));
        }
        Ok(commands)
    }

    fn build_sandbox(
        &mut self,
        runner: EnvironmentSpec<'_>,
        room: &AgentDirectories,
    ) -> Result<Sandbox> {
        let trees = grants::write_roots(runner.grants).into_iter();
        let trees = trees.filter(|grant| grant.scope == GrantScope::Tree);
        let trees: Vec<AbsPath> = trees.map(|grant| grant.root.to_abs()).collect();
        let asked = (runner.config.sandbox, trees);
        if let Some((_, known)) = self.sandboxes.iter().find(|(known, _)| *known == asked) {
            return Ok(known.clone());
        }
        let (executable, place) = (&self.host.executable, room.home());
        let sandbox = Sandbox::open_over(asked.0, executable, &place, &asked.1)?;
        self.sandboxes.push((asked, sandbox.clone()));
        Ok(sandbox)
    }
}

/// The container of one agent in a run whose state lies in a directory. The engine is spoken with on
/// a thread of its own, because the caller may be part of an event loop.
pub fn build_container(
    runner: EnvironmentSpec<'_>,
    docker: &DockerConfig,
    (run, state): (RunName, &AbsPath),
    machine: &HostEnvironment,
) -> Result<AgentContainer> {
    let manager = grants::permission_manager(runner.grants, Phase::Coordination);
    let (open, hidden) = reachable_paths(&manager, SandboxLevel::B);
    let reachable = ReachablePaths {
        open,
        masked: Vec::new(),
        hidden,
        copies: BTreeMap::new(),
    };
    let opening = || {
        let engine = ContainerEngine::open(machine.env.get("DOCKER_HOST").map(String::as_str))?;
        engine.remove_leftovers(state)?;
        let purpose = ContainerOwner {
            agent: runner.id,
            run,
            state,
            config: docker,
            limits: &runner.config.limits,
            workspace: runner.workspace,
            added: &runner.config.added_env(&machine.variables),
            user: HostUser {
                home: machine.home.as_ref(),
                env: &machine.env,
                variables: &machine.variables,
            },
        };
        AgentContainer::open(&engine, purpose, &reachable)
    };
    let opened = thread::scope(|scope| scope.spawn(opening).join());
    opened.map_err(|panic| Error::from_panic(&*panic))?
}
