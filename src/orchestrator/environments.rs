//! Prepares the environments in which the processes of agents run: determines the available
//! sandboxes, and creates directories and, if the config asks for them, containers.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::config::command_line::{CommandLineConfig, Privilege};
use crate::config::execution_mode::ExecutionMode;
use crate::config::external_agents::ExternalAgentConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, RunEvent};
use crate::id::AgentId;
use crate::layout::RunLayout;
use crate::orchestrator::agent_containers::{build_container, connect_engine, on_separate_thread};
use crate::orchestrator::grants;
use crate::orchestrator::process_specs::{
    CodeModeSpec, EnvironmentSpec, HostEnvironment, SubagentProgramSpec,
};
use crate::orchestrator::program_files::{exclude_agent_directories, without_agent_paths};
use crate::orchestrator::team::TeamMember;
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, GrantScope};
use crate::prompts::previous_turns::CommandHome;
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel, SandboxLevelChoice};
use crate::tools::served::ServerName;
use crate::world::exec::agent_launcher::find_program;
use crate::world::exec::program::check_language;
use crate::world::sandbox::container_owner::ContainerOrigin;
use crate::world::sandbox::docker::container::ContainerWork;
use crate::world::sandbox::docker::server_container::ServerContainers;
use crate::world::sandbox::exec_backend::ExecBackend;
use crate::world::sandbox::exec_environment::agent_directories::AgentDirectories;
use crate::world::sandbox::exec_environment::{ExecEnvironment, ExecEnvironmentConfig};
use crate::world::sandbox::level_record::LevelRecord;
use crate::world::sandbox::program_environment::ProgramEnvironment;
use crate::world::sandbox::{Sandbox, SandboxSpec};
use crate::world::store::sandboxes::{SandboxDirs, TurnContainer};

/// The program of an external agent, ready to be started.
#[derive(Debug)]
pub struct PreparedProgram {
    /// Where it runs.
    pub environment: ExecEnvironment,
    /// The program as it was found, and its arguments.
    pub command: Vec<String>,
}

/// The environments of a run's processes.
#[derive(Debug, Default)]
pub struct AgentEnvironments {
    /// The environments of an agent's commands.
    command_environments: BTreeMap<AgentId, ExecEnvironment>,
    /// The agents whose commands are rejected, with the reasons why no sandbox is available.
    rejected: BTreeMap<AgentId, ExecutionIsolation>,
    /// The environments of checks on an agent's work.
    check_environments: BTreeMap<AgentId, ExecEnvironment>,
    /// The environments of an agent's programs.
    programs: BTreeMap<AgentId, ProgramEnvironment>,
    /// The environments of an agent's servers.
    server_environments: BTreeMap<(AgentId, ServerName), ExecEnvironment>,
    /// The programs of external agents.
    external_agents: BTreeMap<AgentId, PreparedProgram>,
    /// The programs of external agents that work as subagents of an agent, by their index among the
    /// models for subagents.
    subagent_programs: BTreeMap<(AgentId, usize), PreparedProgram>,
    /// The environments of an agent's hooks.
    hooks: BTreeMap<AgentId, ExecEnvironment>,
    /// The agents on whose work checks cannot run, and why.
    unsupported_checks: BTreeMap<AgentId, &'static str>,
    /// The directories of the environments, which are removed at the end of the run.
    directories: Option<Arc<SandboxDirs>>,
    command_home: CommandHome,
    turn_containers: Vec<TurnContainer>,
}

/// Whether an agent's processes see a private layer over the user's paths at these paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerVisibility {
    /// They see it, or there are no such processes.
    Shown,
    /// Some see the user's own files there.
    Hidden,
}

/// The processes that need environments.
#[derive(Debug, Default)]
pub struct EnvironmentSpecs<'a> {
    /// The commands of agents.
    pub commands: Vec<EnvironmentSpec<'a>>,
    /// The checks on agents' work.
    pub checks: Vec<EnvironmentSpec<'a>>,
    /// The programs of agents.
    pub programs: Vec<CodeModeSpec<'a>>,
    /// The servers that are programs, each with the agent that it serves.
    pub servers: Vec<(&'a ServerName, EnvironmentSpec<'a>)>,
    /// The external agents.
    pub external_agents: Vec<(&'a ExternalAgentConfig, EnvironmentSpec<'a>)>,
    /// The external agents that may work as subagents.
    pub subagent_programs: Vec<SubagentProgramSpec<'a>>,
    /// The user's hooks about agents.
    pub hooks: Vec<EnvironmentSpec<'a>>,
    /// All agents: hooks and privileged programs are looked up only where none of them may write.
    pub members: &'a [TeamMember],
}

impl EnvironmentSpecs<'_> {
    /// Returns whether no environment is needed.
    fn is_empty(&self) -> bool {
        let has_no_commands = self.commands.is_empty() && self.checks.is_empty();
        let has_no_processes =
            self.servers.is_empty() && self.external_agents.is_empty() && self.hooks.is_empty();
        let has_no_programs = self.programs.is_empty() && self.subagent_programs.is_empty();
        has_no_commands && has_no_programs && has_no_processes
    }
}

impl AgentEnvironments {
    /// Determines the available sandboxes for `specs`, and creates directories and containers.
    /// Fails if what the config names is not available. If no sandbox can enforce the policy,
    /// commands are rejected; an agent in code mode, which could do nothing then, is an error, and
    /// so is a server.
    pub fn prepare(
        specs: EnvironmentSpecs<'_>,
        layout: &RunLayout,
        host: &HostEnvironment,
    ) -> Result<Self> {
        if specs.is_empty() {
            return Ok(Self::default());
        }
        let EnvironmentSpecs {
            commands,
            checks,
            programs,
            servers,
            external_agents,
            subagent_programs,
            hooks,
            members,
        } = specs;
        let mut builder = EnvironmentBuilder::new(layout, host, members)?;
        let mut environments = Self::default();
        for spec in commands {
            let directory = builder.directories.agent(spec.id)?;
            let environment = builder.build_commands(spec, &directory)?;
            let id = spec.id.clone();
            if environment.sandbox_level() == SandboxLevel::Unavailable {
                environments.rejected.insert(id, environment.isolation());
            } else {
                environments.command_environments.insert(id, environment);
            }
        }
        for spec in checks {
            let directory = builder.directories.part(spec.id, "checks")?;
            let environment = builder.build_environment(
                spec,
                &directory,
                ContainerWork::Checks,
                Privilege::Ordinary,
            )?;
            if let Some(reason) = check_obstacle(environment.sandbox_level(), spec.grants) {
                environments
                    .unsupported_checks
                    .insert(spec.id.clone(), reason);
            }
            if environment.sandbox_level() != SandboxLevel::Unavailable {
                environments
                    .check_environments
                    .insert(spec.id.clone(), environment);
            }
        }
        for code_mode_spec in programs {
            let id = code_mode_spec.environment.id;
            let directory = builder.directories.part(id, "programs")?;
            let environment = builder.build_commands(code_mode_spec.environment, &directory)?;
            environments
                .programs
                .insert(id.clone(), prepare_programs(code_mode_spec, environment)?);
        }
        for (server, spec) in servers {
            let directory = builder
                .directories
                .part(spec.id, &format!("server.{server}"))?;
            let environment = builder.build_server(server, spec, &directory)?;
            if environment.sandbox_level() == SandboxLevel::Unavailable {
                let subject = format!("MCP server `{server}` of `{}`", spec.id);
                return Err(no_sandbox_error(&subject, &environment.isolation()));
            }
            let key = (spec.id.clone(), server.clone());
            environments.server_environments.insert(key, environment);
        }
        for (agent, spec) in external_agents {
            let id = spec.id.clone();
            let directory = builder.directories.part(&id, "agent")?;
            let program =
                builder.build_external_agent(agent, spec, &directory, Privilege::Ordinary)?;
            environments.external_agents.insert(id, program);
        }
        for spec in subagent_programs {
            let key = (spec.environment.id.clone(), spec.index);
            let subagent_program = builder.build_subagent_program(spec)?;
            environments.subagent_programs.insert(key, subagent_program);
        }
        for spec in hooks {
            let hook_environment = builder.build_hooks(spec)?;
            environments.hooks.insert(spec.id.clone(), hook_environment);
        }
        environments.directories = Some(builder.directories);
        environments.command_home = builder.command_home;
        environments.turn_containers = builder.turn_containers;
        Ok(environments)
    }

    /// Returns what commands find as their home directory; `None` if no agent has commands.
    pub fn command_home(&self) -> Option<CommandHome> {
        let has_commands = !self.command_environments.is_empty();
        has_commands.then_some(self.command_home)
    }

    /// Returns the environment of an agent's programs; `None` if it has none.
    pub fn program_environment(&self, agent: &AgentId) -> Option<&ProgramEnvironment> {
        self.programs.get(agent)
    }

    /// Returns the environment of an agent's server; `None` if the server is not a program.
    pub fn server_environment(
        &self,
        agent: &AgentId,
        server: &ServerName,
    ) -> Option<&ExecEnvironment> {
        self.server_environments
            .get(&(agent.clone(), server.clone()))
    }

    /// Returns the program of an external agent; `None` for other agents.
    pub fn external_agent(&self, agent: &AgentId) -> Option<&PreparedProgram> {
        self.external_agents.get(agent)
    }

    /// Returns the program of the external agent at this index among the models for subagents of an
    /// agent; `None` if that model is not an external agent.
    pub fn subagent_program(&self, agent: &AgentId, index: usize) -> Option<&PreparedProgram> {
        self.subagent_programs.get(&(agent.clone(), index))
    }

    /// Returns the environment of the hooks about an agent; `None` if there are none.
    pub fn hook_environment(&self, agent: &AgentId) -> Option<&ExecEnvironment> {
        self.hooks.get(agent)
    }

    /// Returns the environment of checks on an agent's work; `None` if no sandbox is available on
    /// this machine.
    pub fn check_environment(&self, agent: &AgentId) -> Option<&ExecEnvironment> {
        self.check_environments.get(agent)
    }

    /// Returns the first agent on whose work checks cannot run, and why.
    pub fn unsupported_check(&self) -> Option<(&AgentId, &'static str)> {
        let first_check = self.unsupported_checks.first_key_value();
        first_check.map(|(agent, reason)| (agent, *reason))
    }

    /// Returns whether an agent's processes that work in its write paths would see a private layer
    /// over them.
    pub fn layer_visibility(&self, agent: &AgentId) -> LayerVisibility {
        let environments = [
            self.command_environments.get(agent),
            self.programs
                .get(agent)
                .map(ProgramEnvironment::environment),
            self.external_agents
                .get(agent)
                .map(|program| &program.environment),
        ];
        let shows_no_layer =
            |environment: &ExecEnvironment| environment.sandbox_level() == SandboxLevel::Off;
        if environments.into_iter().flatten().any(shows_no_layer) {
            LayerVisibility::Hidden
        } else {
            LayerVisibility::Shown
        }
    }

    /// Returns the environment of an agent's commands; `None` if it may run none.
    pub fn command_environment(&self, agent: &AgentId) -> Option<&ExecEnvironment> {
        self.command_environments.get(agent)
    }

    /// Returns whether an agent's commands are rejected because no sandbox is available on this
    /// machine.
    pub fn is_rejected(&self, agent: &AgentId) -> bool {
        self.rejected.contains_key(agent)
    }

    /// Returns the events that report to the user: one for each kind of isolation, and warnings
    /// about what is not available.
    pub fn sandbox_events(&self) -> Vec<Event> {
        let own_isolations = self
            .command_environments
            .iter()
            .map(|(agent, environment)| (agent, environment.isolation()));
        let rejected_isolations = self
            .rejected
            .iter()
            .map(|(agent, isolation)| (agent, isolation.clone()));
        let only_programs = self
            .programs
            .iter()
            .filter(|(agent, _)| !self.command_environments.contains_key(*agent));
        let code_mode =
            only_programs.map(|(agent, programs)| (agent, programs.environment().isolation()));
        let external_agents = self
            .external_agents
            .iter()
            .map(|(agent, program)| (agent, program.environment.isolation()));
        let is_reported = |agent: &AgentId| {
            let is_external = self.external_agents.contains_key(agent);
            is_external
                || self.command_environments.contains_key(agent)
                || self.programs.contains_key(agent)
        };
        let unreported = self
            .subagent_programs
            .iter()
            .filter(|((agent, _), _)| !is_reported(agent));
        let subagents =
            unreported.map(|((agent, _), program)| (agent, program.environment.isolation()));
        let mut groups: Vec<(ExecutionIsolation, Vec<AgentId>)> = Vec::new();
        let isolations = own_isolations
            .chain(rejected_isolations)
            .chain(code_mode)
            .chain(external_agents);
        for (agent, isolation) in isolations.chain(subagents) {
            match groups.iter_mut().find(|(known, _)| *known == isolation) {
                Some((_, agents)) if agents.contains(agent) => {}
                Some((_, agents)) => agents.push(agent.clone()),
                None => groups.push((isolation, vec![agent.clone()])),
            }
        }
        let event = |(isolation, agents): (ExecutionIsolation, Vec<AgentId>)| {
            let leaves_open = isolation.leaves_open().iter();
            Event::from(RunEvent::SandboxSelected {
                agents,
                leaves_open: leaves_open.map(ToString::to_string).collect(),
                by: isolation,
            })
        };
        let notes = self
            .command_environments
            .iter()
            .flat_map(|(agent, environment)| {
                let notes = environment.notes().iter();
                notes.map(move |note| format!("commands of {agent}: {note}"))
            });
        let warning = |message| Event::Run(RunEvent::Warning { message });
        groups
            .into_iter()
            .map(event)
            .chain(notes.map(warning))
            .collect()
    }
}

/// Prepares the environment of an agent's programs, after a test run in it.
fn prepare_programs(
    code_mode_spec: CodeModeSpec<'_>,
    environment: ExecEnvironment,
) -> Result<ProgramEnvironment> {
    let CodeModeSpec {
        environment: spec,
        dialect,
        tools,
    } = code_mode_spec;
    let id = spec.id;
    if environment.sandbox_level() == SandboxLevel::Unavailable {
        let message = format!("no sandbox is available for the programs of `{id}`");
        let error = Error::new(ErrorKind::Environment, message);
        return Err(error
            .with_hint("see `massgen doctor` for what is missing")
            .with_hint(
                "remove `enable_code_based_tools`: the agent then calls its tools one by one",
            ));
    }
    let programs = ProgramEnvironment::new(dialect, tools.clone(), environment);
    check_language(&programs).map_err(|reason| {
        let title = dialect.language().title();
        let message = format!("the programs of `{id}` cannot be run in {title}: {reason}");
        Error::new(ErrorKind::Environment, message).with_hint(dialect.remedy())
    })?;
    Ok(programs)
}

/// Returns the error that `subject` cannot start: without a sandbox, it could do whatever the user
/// may do.
fn no_sandbox_error(subject: &str, isolation: &ExecutionIsolation) -> Error {
    let reasons = isolation.reasons().join("; ");
    let message = format!("no sandbox is available for {subject}: {reasons}");
    Error::new(ErrorKind::Environment, message)
        .with_hint("see `massgen doctor` for what is missing, or remove them from the config")
}

/// Returns why an external agent cannot start: there is no sandbox for it, or it could not reach
/// the run.
fn external_agent_error(agent: &AgentId, environment: &ExecEnvironment) -> Option<Error> {
    let (message, hint) = match environment.sandbox_level() {
        SandboxLevel::Unavailable => (
            format!(
                "no sandbox is available for the program of agent `{agent}`: {}",
                environment.isolation().reasons().join("; ")
            ),
            "see `massgen doctor` for what is missing, or give the agent a backend type with an HTTP API",
        ),
        SandboxLevel::Landlock => (
            format!(
                "agent `{agent}` cannot run at sandbox level `landlock`: it reaches the run over a Unix socket, which that level blocks"
            ),
            "see `massgen doctor` for why `overlay` and `namespaces` are not available, or give the agent a backend type with an HTTP API",
        ),
        SandboxLevel::Overlay | SandboxLevel::Namespaces | SandboxLevel::Off => return None,
    };
    Some(Error::new(ErrorKind::Environment, message).with_hint(hint))
}

/// Returns why checks cannot run in `level` on the work of an agent with these grants. If the agent
/// has no write directory, checks run on a copy of its files, which every level except
/// `unavailable` can isolate.
fn check_obstacle(level: SandboxLevel, grants: &[Grant]) -> Option<&'static str> {
    let roots = grants::write_roots(grants);
    let has_tree = roots.iter().any(|grant| grant.scope == GrantScope::Tree);
    match level {
        SandboxLevel::Off if has_tree => {
            Some("with the sandbox off they cannot see what would be delivered")
        }
        SandboxLevel::Overlay
        | SandboxLevel::Namespaces
        | SandboxLevel::Landlock
        | SandboxLevel::Off => None,
        SandboxLevel::Unavailable => Some("no sandbox is available on this machine"),
    }
}

/// Builds environments; agents with the same sandbox settings and write directories share a
/// sandbox.
struct EnvironmentBuilder<'b> {
    directories: Arc<SandboxDirs>,
    command_home: CommandHome,
    turn_containers: Vec<TurnContainer>,
    sandboxes: Vec<((SandboxLevelChoice, Vec<AbsPath>), Sandbox)>,
    layout: &'b RunLayout,
    host: &'b HostEnvironment,
    members: &'b [TeamMember],
    /// The variables of massgen, without what leads to where agents may write. Only privileged
    /// programs need them.
    privileged_env: OnceLock<BTreeMap<String, String>>,
}

impl<'b> EnvironmentBuilder<'b> {
    fn new(
        layout: &'b RunLayout,
        host: &'b HostEnvironment,
        members: &'b [TeamMember],
    ) -> Result<Self> {
        let (directories, command_home) = match &host.session_sandboxes {
            Some(session_sandboxes) => session_sandboxes.begin_turn(&layout.sandboxes)?,
            None => (
                Arc::new(SandboxDirs::make(&layout.sandboxes)?),
                CommandHome::New,
            ),
        };
        Ok(Self {
            directories,
            command_home,
            turn_containers: Vec::new(),
            sandboxes: Vec::new(),
            layout,
            host,
            members,
            privileged_env: OnceLock::new(),
        })
    }

    fn build_commands(
        &mut self,
        spec: EnvironmentSpec<'_>,
        directory: &AbsPath,
    ) -> Result<ExecEnvironment> {
        self.build_environment(
            spec,
            directory,
            ContainerWork::Commands,
            Privilege::Ordinary,
        )
    }

    fn build_program(
        &mut self,
        spec: EnvironmentSpec<'_>,
        directory: &AbsPath,
        privilege: Privilege,
    ) -> Result<ExecEnvironment> {
        self.build_environment(spec, directory, ContainerWork::Commands, privilege)
    }

    fn build_environment(
        &mut self,
        spec: EnvironmentSpec<'_>,
        directory: &AbsPath,
        work: ContainerWork,
        privilege: Privilege,
    ) -> Result<ExecEnvironment> {
        let directories = AgentDirectories::prepare(directory)?;
        let backend = match &spec.config.mode {
            ExecutionMode::Docker(docker) => {
                let engine = connect_engine(self.host)?;
                let unique_directory = directories.scratch();
                let origin = self.origin(&unique_directory);
                let session = self.host.session_sandboxes.as_ref();
                let session = session.filter(|_| work == ContainerWork::Commands);
                let previous = session.and_then(|session| session.take_container(spec.id));
                let container =
                    build_container(&engine, spec, work, docker, origin, self.host, previous)?;
                let container = Arc::new(container);
                if let Some(session) = session {
                    if !container.is_continued() {
                        self.command_home = CommandHome::New;
                    }
                    let turn_container = session.keep_container(spec.id, &container);
                    self.turn_containers.push(turn_container);
                }
                ExecBackend::Container(container)
            }
            ExecutionMode::Local => ExecBackend::Sandbox(self.build_sandbox(spec, &directories)?),
        };
        Ok(self.environment(spec.config, directories, backend, privilege))
    }

    /// Builds the environment of a server. If the server runs in containers, none is created yet.
    fn build_server(
        &mut self,
        server: &ServerName,
        spec: EnvironmentSpec<'_>,
        directory: &AbsPath,
    ) -> Result<ExecEnvironment> {
        let Some(docker) = spec.config.mode.container() else {
            return self.build_program(spec, directory, spec.privilege());
        };
        let directories = AgentDirectories::prepare(directory)?;
        let unique_directory = directories.scratch();
        let origin = self.origin(&unique_directory);
        let engine = connect_engine(self.host)?;
        let added_variables = spec.config.added_env(&self.host.variables);
        let containers = on_separate_thread(|| {
            engine.remove_leftovers(origin.state)?;
            let owner = spec.container_owner(origin, &added_variables);
            ServerContainers::new(&engine, owner, server, docker)
        })?;
        let backend = ExecBackend::Server(containers);
        Ok(self.environment(spec.config, directories, backend, spec.privilege()))
    }

    /// Returns the run for which containers are created, with an empty directory of it.
    fn origin<'d>(&'d self, unique_directory: &'d AbsPath) -> ContainerOrigin<'d> {
        ContainerOrigin {
            run: self.layout.run,
            state: &self.layout.state,
            unique_directory,
        }
    }

    fn environment(
        &self,
        config: &CommandLineConfig,
        directories: AgentDirectories,
        backend: ExecBackend,
        privilege: Privilege,
    ) -> ExecEnvironment {
        let mut config_env = config.added_env(&self.host.variables);
        if privilege == Privilege::Privileged {
            exclude_agent_directories(&mut config_env, self.members);
        }
        ExecEnvironment::new(ExecEnvironmentConfig {
            config,
            backend,
            executable: &self.host.executable,
            directories,
            env: self.env(privilege),
            config_env,
            home: self.host.home.as_ref(),
        })
    }

    /// Returns the variables of massgen that a program of this privilege may inherit.
    fn env(&self, privilege: Privilege) -> &BTreeMap<String, String> {
        match privilege {
            Privilege::Ordinary => &self.host.env,
            Privilege::Privileged => self
                .privileged_env
                .get_or_init(|| without_agent_paths(&self.host.env, self.members)),
        }
    }

    /// Finds the program of an external agent and builds its environment.
    fn build_external_agent(
        &mut self,
        agent: &ExternalAgentConfig,
        spec: EnvironmentSpec<'_>,
        directory: &AbsPath,
        privilege: Privilege,
    ) -> Result<PreparedProgram> {
        let search_path = self.env(Privilege::Privileged).get("PATH");
        let path = search_path.map_or("", String::as_str);
        let command = find_program(&agent.command, path, agent.package)?;
        let environment = self.build_program(spec, directory, privilege)?;
        match external_agent_error(spec.id, &environment) {
            Some(error) => Err(error),
            None => Ok(PreparedProgram {
                environment,
                command,
            }),
        }
    }

    /// Prepares the program of an external agent that works as subagents. Without a sandbox, it
    /// could do more than its agent.
    fn build_subagent_program(
        &mut self,
        program_spec: SubagentProgramSpec<'_>,
    ) -> Result<PreparedProgram> {
        let spec = program_spec.environment;
        let directory = self
            .directories
            .part(spec.id, &format!("agent{}", program_spec.index))?;
        let program = program_spec.program;
        let external_agent =
            self.build_external_agent(program, spec, &directory, spec.privilege())?;
        if external_agent.environment.sandbox_level() == SandboxLevel::Off {
            let (program, id) = (program_spec.program.vendor, spec.id);
            let message =
                format!("`{program}` does not work as subagents of `{id}` without a sandbox");
            return Err(Error::new(ErrorKind::Config, message)
                .with_hint("remove `command_line_sandbox: off` from its entry, or `--sandbox off`")
                .with_hint("or remove the entry from `subagent_orchestrator`"));
        }
        Ok(external_agent)
    }

    /// Returns the environment of the hooks about an agent.
    fn build_hooks(&mut self, spec: EnvironmentSpec<'_>) -> Result<ExecEnvironment> {
        let directory = self.directories.part(spec.id, "hooks")?;
        let environment = self.build_program(spec, &directory, Privilege::Privileged)?;
        if environment.sandbox_level() == SandboxLevel::Unavailable {
            let subject = format!("the hooks about `{}`", spec.id);
            return Err(no_sandbox_error(&subject, &environment.isolation()));
        }
        Ok(environment)
    }

    fn build_sandbox(
        &mut self,
        spec: EnvironmentSpec<'_>,
        directories: &AgentDirectories,
    ) -> Result<Sandbox> {
        let trees: Vec<AbsPath> = grants::write_roots(spec.grants)
            .into_iter()
            .filter(|grant| grant.scope == GrantScope::Tree)
            .map(|grant| grant.root.to_abs())
            .collect();
        let key = (spec.config.sandbox, trees);
        if let Some((_, sandbox)) = self.sandboxes.iter().find(|(known, _)| *known == key) {
            return Ok(sandbox.clone());
        }
        let record = LevelRecord::find(&self.host.env, spec.grants);
        let sandbox = Sandbox::open_with(SandboxSpec {
            choice: key.0,
            executable: &self.host.executable,
            overlay_directory: &directories.home(),
            trees: &key.1,
            record: record.as_ref(),
            policy: &self.host.policy,
        })?;
        self.sandboxes.push((key, sandbox.clone()));
        Ok(sandbox)
    }
}
