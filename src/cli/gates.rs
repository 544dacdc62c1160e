//! Opens the gates that `massgen explain`, `massgen tool`, `massgen sandbox`, `massgen mcp serve`
//! and the hooks of other programs use: those of a grants file, or those that the agents of a team
//! would have in a run. It decides nothing; the gates do.

use std::{io, slice};

use serde_json::json;

use crate::cli::args::gate_calls::{
    ExplainCommandArguments, ExplainPathArguments, GrantsSource, HookArguments, SandboxArguments,
    ToolArguments,
};
use crate::cli::args::mcp::ServeArguments;
use crate::cli::call_environment::{CallEnvironment, CommandIsolation};
use crate::cli::command_line::usage_error;
use crate::cli::deliveries::tried_answer::find_answer;
use crate::cli::explain::command::{CommandCaller, CommandReport};
use crate::cli::explain::path::PathReport;
use crate::cli::explain::{AgentGates, calls};
use crate::cli::grants_file::{GRANTS_BYTES_MAX, GrantsFile};
use crate::cli::mcp::serve::serve_tools;
use crate::cli::mcp::transport::McpTransport;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::run_context::host_environment;
use crate::cli::run_context::secret_values;
use crate::cli::task::{STANDARD_INPUT, read_text};
use crate::cli::team::{load_config, load_config_without_warnings};
use crate::cli::team_file::TeamFile;
use crate::cli::{environment, sandbox, tool};
use crate::commands::CommandRules;
use crate::config::{Config, ToolFilter};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::id::AgentId;
use crate::layout::{RunLayout, RunName};
use crate::orchestrator::environments::{AgentEnvironments, EnvironmentSpecs};
use crate::orchestrator::grants::{
    InheritedPaths, directories_to_create, permission_manager, real_path,
};
use crate::orchestrator::team::mcp_servers::ServerContext;
use crate::orchestrator::team::{AgentTeam, DeliveryAccess, TeamMember, TeamResources};
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::Phase;
use crate::permissions::history::ReadBeforeDelete;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::tools::spec::{COMMANDS, PROGRAMS, ToolOffer};
use crate::tools::tool_selection::{DirectoryNaming, EditFormat, ImageOffering, ToolSelection};
use crate::world::access::external_call::{CallerIsolation, ExternalCaller};
use crate::world::access::gate::Gate;
use crate::world::access::policy::GatePolicy;
use crate::world::exec::program;
use crate::world::io::files::read_capped;
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::mcp::packages::PackageStore;
use crate::world::mcp::tokens::TokenFile;
use crate::world::store::prepare_state_dir;
use crate::world::store::redact::Redactor;
use crate::world::store::workspace::RunWorkspace;

/// Directory of the servers' standard error logs, below the state directory.
const SERVER_LOGS: &str = "mcp_serve";

/// Run number of single calls, which share its workspaces.
const SINGLE_CALLS: u32 = 0;

/// Whether missing workspaces are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingWorkspaces {
    /// Creates them, so that the gate can decide about calls in them and carry them out.
    Create,
    /// Writes nothing; a missing workspace gives no access.
    Omit,
}

/// The gates of a caller, with the resources that they and their commands need.
struct CallerGates {
    agents: Vec<AgentGates>,
    /// The team, which owns the directories of its commands.
    team: Option<AgentTeam>,
    /// Claimed workspaces, so that no other process uses them meanwhile.
    _workspaces: Vec<RunWorkspace>,
    _environment: Option<CallEnvironment>,
}

/// Purpose for which gates are opened.
#[derive(Clone, Copy, Debug)]
enum GateUse<'a> {
    /// Deciding only; nothing is carried out.
    Decisions,
    /// Carrying out a call of a file tool.
    Files,
    /// Running commands, isolated in this way; `None` isolates them as the config says.
    Commands(Option<CommandIsolation<'a>>),
    /// Carrying out many calls of this agent, which remember what has been read; commands among
    /// them are isolated in this way. `None` isolates them as the config says, and a grants file
    /// then offers no commands.
    Session(Option<CommandIsolation<'a>>, Option<&'a str>),
}

impl<'a> GateUse<'a> {
    /// Returns the isolation that the user chose for commands.
    fn command_isolation(self) -> Option<CommandIsolation<'a>> {
        match self {
            GateUse::Decisions | GateUse::Files => None,
            GateUse::Commands(isolation) | GateUse::Session(isolation, _) => isolation,
        }
    }

    /// Returns the isolation of commands with a grants file, or `None` if it offers none.
    fn grants_file_isolation(self) -> Option<CommandIsolation<'a>> {
        match self {
            GateUse::Decisions | GateUse::Files => None,
            GateUse::Commands(isolation) => Some(isolation.unwrap_or_default()),
            GateUse::Session(isolation, _) => isolation,
        }
    }

    /// Returns the processes of `team` that need an execution environment. A single call uses no
    /// server.
    fn environment_specs(self, team: &AgentTeam) -> EnvironmentSpecs<'_> {
        let hook_specs = || team.hook_specs().collect();
        let mut specs = match self {
            GateUse::Decisions => return EnvironmentSpecs::default(),
            GateUse::Files => {
                return EnvironmentSpecs {
                    hooks: hook_specs(),
                    members: &team.members,
                    ..EnvironmentSpecs::default()
                };
            }
            GateUse::Commands(_) | GateUse::Session(..) => team.environment_specs(),
        };
        // Calls are part of no run, which alone has checks and subagents.
        specs.checks.clear();
        specs.subagent_programs.clear();
        match self {
            GateUse::Decisions | GateUse::Files | GateUse::Commands(_) => specs.servers.clear(),
            GateUse::Session(_, agent) => {
                let is_meant = |id: &AgentId| agent.is_none_or(|agent| agent == id.as_str());
                specs.servers.retain(|(_, runner)| is_meant(runner.id));
                specs.programs.retain(|spec| is_meant(spec.environment.id));
            }
        }
        specs
    }

    /// Returns `Off` for a single call: it has no history that could show what has been read.
    /// `None` stands for the setting of the config.
    fn read_before_delete(self) -> Option<ReadBeforeDelete> {
        match self {
            GateUse::Decisions | GateUse::Files | GateUse::Commands(_) => {
                Some(ReadBeforeDelete::Off)
            }
            GateUse::Session(..) => None,
        }
    }
}

/// Prints what is allowed for a path.
pub(crate) fn explain_path(
    host: &Host,
    arguments: &ExplainPathArguments,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let mut gates = match find_team_file(arguments.config.as_deref(), host, output)? {
        Some(file) => open_team_gates(
            &file,
            MissingWorkspaces::Omit,
            GateUse::Decisions,
            host,
            output,
        )?,
        None => open_directory_gates(GateUse::Decisions, host, output)?,
    };
    if let Some(name) = &arguments.agent {
        gates.agents = vec![gates.take_agent(Some(name))?];
    }
    let phase = arguments.phase.map(Phase::from);
    let report = PathReport::new(&gates.agents, phase, &arguments.path, &host.cwd)?;
    match ReportFormat::from(arguments.json) {
        ReportFormat::Json => output.result(&report.to_json()),
        ReportFormat::Text => output.result(&report.to_string()),
    }
}

/// Prints the commands that a command line consists of, whether it may run, and how it would be
/// isolated. The exit status reports whether it may run.
pub(crate) fn explain_command(
    host: &Host,
    arguments: &ExplainCommandArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let phase = arguments.phase.into();
    let config = arguments.config.as_deref();
    let report = if let Some(file) = find_team_file(config, host, output)? {
        let mut team = plan_team(&file, host, output)?;
        let member = take_member(&mut team, arguments.agent.as_deref())?;
        let runner = CommandCaller {
            agent: member.id.to_string(),
            permissions: &permission_manager(&member.grants, phase),
            rules: &member.config.permissions.rules,
            commands: member
                .config
                .commands
                .as_ref()
                .filter(|_| member.workspace.is_some()),
        };
        CommandReport::new(&arguments.command, phase, Some(&runner))
    } else {
        CommandReport::new(&arguments.command, phase, None)
    };
    match ReportFormat::from(arguments.json) {
        ReportFormat::Json => output.result(&report.to_json())?,
        ReportFormat::Text => output.result(&report.to_string())?,
    }
    Ok(if report.is_refused() {
        ExitStatus::Denied
    } else {
        ExitStatus::Success
    })
}

/// Answers the calls on standard input.
pub(crate) fn explain_calls(
    host: &Host,
    source: &GrantsSource,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let gates = open_source_gates(source, GateUse::Decisions, host, output)?;
    calls::explain_calls(&gates.agents, io::stdin().lock(), output.stream())
}

/// Carries out one call and prints its result.
pub(crate) fn run_tool(
    host: &Host,
    call: &ToolArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let arguments = match call.args.as_str() {
        STANDARD_INPUT => read_text(io::stdin())?,
        typed => typed.to_owned(),
    };
    let gate_use = if COMMANDS
        .iter()
        .chain(PROGRAMS)
        .any(|tool| tool.name == call.name)
    {
        let container = call.docker.as_deref().map(CommandIsolation::Container);
        let sandbox = call.caller.sandbox.map(CommandIsolation::Sandbox);
        GateUse::Commands(container.or(sandbox))
    } else {
        GateUse::Files
    };
    let mut gates = open_source_gates(&call.caller.source, gate_use, host, output)?;
    let caller = gates.take_agent(call.caller.agent.as_deref())?;
    let gate = caller.gate(call.caller.phase.into());
    let (report, status) = tool::execute(gate, &call.name, &arguments, host.hangup);
    output.result(&format!("{report}\n"))?;
    Ok(status)
}

/// Runs one command on the user's standard streams and returns its exit status.
pub(crate) fn run_sandbox(
    host: &Host,
    arguments: &SandboxArguments,
    output: &mut CliOutput<'_>,
) -> Result<u8> {
    let gate_use = GateUse::Commands(arguments.caller.sandbox.map(CommandIsolation::Sandbox));
    let source = &arguments.caller.source;
    warn_of_missing_sandbox(gate_use, output);
    let answer = arguments.answer.as_deref();
    let answer = answer.map(|name| find_answer(name, host)).transpose()?;
    let mut gates = match &source.grants {
        Some(file) => open_grants_gates(&grants_file(file, host)?, gate_use, host)?,
        None => match find_team_file(source.config.as_deref(), host, output)? {
            Some(file) => {
                open_team_gates(&file, MissingWorkspaces::Create, gate_use, host, output)?
            }
            None => match &answer {
                Some(answer) => open_grants_gates(&answer.grants(host)?, gate_use, host)?,
                None => open_directory_gates(gate_use, host, output)?,
            },
        },
    };
    let author = answer.as_ref().filter(|_| gates.team.is_some());
    let author = author.map(|answer| answer.agent.as_str());
    let caller = gates.take_agent(arguments.caller.agent.as_deref().or(author))?;
    let gate = caller.gate(match &answer {
        // Nothing that it writes reaches the write paths.
        Some(_) => Phase::Final,
        None => arguments.caller.phase.into(),
    });
    sandbox::run(gate, &arguments.command, answer, host, output)
}

/// Serves the tools of one gate to MCP clients.
pub(crate) fn serve_gate_tools(
    host: &Host,
    arguments: &ServeArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let transport = McpTransport::from_arguments(&arguments.transport, host)?;
    let caller = &arguments.caller;
    let gate_use = GateUse::Session(
        caller.sandbox.map(CommandIsolation::Sandbox),
        caller.agent.as_deref(),
    );
    let mut gates = open_source_gates(&caller.source, gate_use, host, output)?;
    let agent = gates.take_agent(caller.agent.as_deref())?;
    let gate = agent.gate(caller.phase.into()).clone();
    let offers = gates.offers(&agent, &gate, output);
    serve_tools(transport, gate, offers, host, output)
}

/// Returns the external program that asks, and the team, which owns the environment of its hooks.
/// Creates nothing else: a missing directory gives no access.
pub(crate) fn external_caller(
    host: &Host,
    arguments: &HookArguments,
    output: &mut CliOutput<'_>,
) -> Result<(ExternalCaller, Option<AgentTeam>)> {
    let phase = arguments.phase.into();
    let isolation = if arguments.in_sandbox {
        CallerIsolation::Sandbox
    } else {
        CallerIsolation::Unconfined
    };
    let may_run = |rules: CommandRules| (isolation == CallerIsolation::Sandbox).then_some(rules);
    if let Some(file) = &arguments.source.grants {
        let caller = ExternalCaller {
            gate: grants_file(file, host)?.gate(phase, None, ReadBeforeDelete::Off)?,
            commands: may_run(CommandRules::default()),
            tools: ToolFilter::default(),
            isolation,
        };
        return Ok((caller, None));
    }
    let file = team_file(arguments.source.config.as_deref(), host, output)?;
    let mut team = plan_team(&file, host, output)?;
    for member in &mut team.members {
        drop_missing_grants(member)?;
    }
    let mut team = with_hook_environments(team, host)?;
    let member = take_member(&mut team, arguments.agent.as_deref())?;
    let commands = member.config.commands.as_ref();
    let caller = ExternalCaller {
        gate: open_gate(&team, &member, phase, &host.cwd)?.for_external_program(),
        commands: commands.and_then(|commands| may_run(commands.rules(SandboxLevel::Overlay))),
        tools: member.config.tools.clone(),
        isolation,
    };
    Ok((caller, Some(team)))
}

/// Returns the team with the environments of the user's hooks, if they have any.
fn with_hook_environments(team: AgentTeam, host: &Host) -> Result<AgentTeam> {
    if team.hook_specs().next().is_none() {
        return Ok(team);
    }
    let host_environment = host_environment(&environment::load(host).host);
    team.validate_hooks(&host_environment)?;
    let layout = team.layout(SINGLE_CALLS, &host.state_parent);
    prepare_state_dir(&layout.state, layout.directories())?;
    let specs = EnvironmentSpecs {
        hooks: team.hook_specs().collect(),
        members: &team.members,
        ..EnvironmentSpecs::default()
    };
    let environments = AgentEnvironments::prepare(specs, &layout, &host_environment)?;
    Ok(team.with_resources(TeamResources {
        environments: Some(environments),
        ..TeamResources::default()
    }))
}

fn open_source_gates(
    source: &GrantsSource,
    gate_use: GateUse<'_>,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<CallerGates> {
    warn_of_missing_sandbox(gate_use, output);
    if let Some(file) = &source.grants {
        return open_grants_gates(&grants_file(file, host)?, gate_use, host);
    }
    let file = team_file(source.config.as_deref(), host, output)?;
    open_team_gates(&file, MissingWorkspaces::Create, gate_use, host, output)
}

/// Warns if the user chose to run commands without a sandbox.
fn warn_of_missing_sandbox(gate_use: GateUse<'_>, output: &mut CliOutput<'_>) {
    if let Some(CommandIsolation::Sandbox(SandboxLevelChoice::Only(SandboxLevel::Off))) =
        gate_use.command_isolation()
    {
        output.warning("commands run without a sandbox, with your own rights");
    }
}

/// Reads the grants file that the user named.
fn grants_file(file: &str, host: &Host) -> Result<GrantsFile> {
    let missing_error = || {
        Error::new(
            ErrorKind::Config,
            format!("grants file `{file}` does not exist"),
        )
        .with_hint("name a JSON file: see `massgen tool --help` for its format")
    };
    let bytes = read_capped(&host.cwd.join(file), GRANTS_BYTES_MAX)?.ok_or_else(missing_error)?;
    GrantsFile::parse(&String::from_utf8_lossy(&bytes), host)
}

/// Opens the gates for a user without a config: the current directory can be read.
fn open_directory_gates(
    gate_use: GateUse<'_>,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<CallerGates> {
    let rights = "no config found: this directory can be read, and nothing can be written";
    let run_note = match gate_use {
        GateUse::Decisions => ", as with `--cwd-context ro`; without it a run opens nothing",
        GateUse::Files | GateUse::Commands(_) | GateUse::Session(..) => "",
    };
    output.note(&format!(
        "{rights}{run_note}; `--config` names a config whose grants apply"
    ));
    let grants_json = json!({"context_paths": [{"path": ".", "permission": "read"}]}).to_string();
    let grants = GrantsFile::parse(&grants_json, host)?;
    open_grants_gates(&grants, gate_use, host)
}

fn open_grants_gates(
    grants: &GrantsFile,
    gate_use: GateUse<'_>,
    host: &Host,
) -> Result<CallerGates> {
    let isolation = gate_use.grants_file_isolation();
    let call_environment = isolation
        .map(|isolation| CallEnvironment::open(host, isolation, grants))
        .transpose()?;
    let read_first = gate_use
        .read_before_delete()
        .unwrap_or(ReadBeforeDelete::Enforced);
    let commands = call_environment
        .as_ref()
        .map(|call_environment| &call_environment.commands);
    let agents = AgentGates {
        agent: None,
        working_phase: Phase::Coordination,
        coordination: grants.gate(Phase::Coordination, commands.cloned(), read_first)?,
        delivery: grants.gate(Phase::Final, commands.cloned(), read_first)?,
    };
    Ok(CallerGates {
        agents: vec![agents],
        team: None,
        _workspaces: Vec::new(),
        _environment: call_environment,
    })
}

/// Plans a team as a run would have it, without creating anything.
fn plan_team(file: &TeamFile, host: &Host, output: &mut CliOutput<'_>) -> Result<AgentTeam> {
    let host = environment::load(host).host;
    let config = load_config_without_warnings(file, &host, output)?;
    let layout = RunLayout::plan(&config, &host.state_parent, RunName::new(SINGLE_CALLS));
    assemble_team(file, &config, &layout, &host)
}

/// Assembles the team of a config, as single calls use it.
fn assemble_team(
    file: &TeamFile,
    config: &Config,
    layout: &RunLayout,
    host: &Host,
) -> Result<AgentTeam> {
    AgentTeam::assemble(
        config,
        layout,
        &host.cwd,
        InheritedPaths {
            home: host.home.as_ref(),
            own_files: file.path().map_or(&[], slice::from_ref),
            ..InheritedPaths::default()
        },
        DeliveryAccess::ReadWrite,
    )?
    .with_skills()
}

/// Removes the member with this name from its team and returns it; without a name, the only one.
fn take_member(team: &mut AgentTeam, name: Option<&str>) -> Result<TeamMember> {
    let ids = team.members.iter().map(|member| member.id.to_string());
    let index = agent_index(&ids.collect::<Vec<_>>(), name)?;
    Ok(team.members.swap_remove(index))
}

/// Returns the config that the user named, or else the one that is found, if there is one.
fn find_team_file(
    config: Option<&str>,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<Option<TeamFile>> {
    match config {
        Some(argument) => TeamFile::find(argument, host).map(Some),
        None => TeamFile::find_default(host, output),
    }
}

fn team_file(config: Option<&str>, host: &Host, output: &mut CliOutput<'_>) -> Result<TeamFile> {
    find_team_file(config, host, output)?.ok_or_else(no_team_error)
}

fn open_team_gates(
    file: &TeamFile,
    missing_workspaces: MissingWorkspaces,
    gate_use: GateUse<'_>,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<CallerGates> {
    let host = environment::load(host).host;
    let mut config = match gate_use {
        GateUse::Session(..) => load_config(file, &host, output)?,
        GateUse::Decisions | GateUse::Files | GateUse::Commands(_) => {
            load_config_without_warnings(file, &host, output)?
        }
    };
    if let Some(read_before_delete) = gate_use.read_before_delete() {
        for agent in &mut config.agents {
            agent.read_before_delete = read_before_delete;
        }
    }
    if let Some(isolation) = gate_use.command_isolation() {
        isolation.apply_to(&mut config);
    }
    let layout = RunLayout::plan(&config, &host.state_parent, RunName::new(SINGLE_CALLS));
    let workspaces = match missing_workspaces {
        MissingWorkspaces::Create => make_directories(&config, &layout)?,
        MissingWorkspaces::Omit => Vec::new(),
    };
    let mut team = assemble_team(file, &config, &layout, &host)?;
    for member in &mut team.members {
        drop_missing_grants(member)?;
    }
    let server_context = match gate_use {
        GateUse::Session(..) => Some(ServerContext {
            logs: layout.state.join(SERVER_LOGS),
            redactor: Redactor::new(secret_values(&config, &host)),
            tokens: host.home.as_ref().map(TokenFile::in_home),
            packages: host.home.as_ref().map(PackageStore::in_home),
            events: None,
        }),
        GateUse::Decisions | GateUse::Files | GateUse::Commands(_) => None,
    };
    let specs = gate_use.environment_specs(&team);
    let host_environment = host_environment(&host);
    if !specs.hooks.is_empty() {
        team.validate_hooks(&host_environment)?;
    }
    if server_context.is_some() {
        team.validate_programs(&host_environment.env)?;
    }
    let environments = AgentEnvironments::prepare(specs, &layout, &host_environment)?;
    // The calls themselves are part of no attempt.
    let working_phases: Vec<Phase> = team.members.iter().map(TeamMember::working_phase).collect();
    let team = team.with_resources(TeamResources {
        environments: Some(environments),
        server_context,
        ..TeamResources::default()
    });
    let members = team.members.iter().zip(working_phases);
    let gates = members.map(|(member, working_phase)| {
        Ok(AgentGates {
            agent: Some(member.id.clone()),
            working_phase,
            coordination: open_gate(&team, member, Phase::Coordination, &host.cwd)?,
            delivery: open_gate(&team, member, Phase::Final, &host.cwd)?,
        })
    });
    Ok(CallerGates {
        agents: gates.collect::<Result<_>>()?,
        team: Some(team),
        _workspaces: workspaces,
        _environment: None,
    })
}

fn make_directories(config: &Config, layout: &RunLayout) -> Result<Vec<RunWorkspace>> {
    if layout.workspaces.is_empty() {
        return Ok(Vec::new());
    }
    prepare_state_dir(&layout.state, layout.directories())?;
    let own_directories = layout
        .workspaces
        .values()
        .map(|workspace| workspace.path.clone());
    let agent_directories = config.agents.iter().flat_map(|agent| {
        let workspace = layout.workspaces.get(&agent.id);
        directories_to_create(agent, workspace.map(|workspace| &workspace.path))
    });
    own_directories
        .chain(agent_directories)
        .map(|path| RunWorkspace::lock(&path))
        .collect()
}

/// Drops the grants and the workspace of a member that do not exist on disk; a gate can open only
/// what exists.
fn drop_missing_grants(member: &mut TeamMember) -> Result<()> {
    let is_there = |path: &AbsPath| Ok(!matches!(locate(path)?, LocatedPath::Missing(_)));
    let mut grants = Vec::new();
    for grant in std::mem::take(&mut member.grants) {
        if is_there(&grant.root.to_abs())? {
            grants.push(grant);
        }
    }
    member.grants = grants;
    if let Some(workspace) = &member.workspace
        && !is_there(workspace)?
    {
        member.workspace = None;
    }
    Ok(())
}

/// Opens the member's gate; without any grant, it denies everything.
fn open_gate(team: &AgentTeam, member: &TeamMember, phase: Phase, cwd: &AbsPath) -> Result<Gate> {
    if let Some(gate) = team.gate(member, phase, None)? {
        return Ok(gate);
    }
    let no_grants = PathPermissionManager::new(Vec::new(), phase);
    Gate::open(no_grants, GatePolicy::minimal(real_path(cwd)?))
}

fn no_team_error() -> Error {
    Error::new(ErrorKind::Config, "no config found to take grants from")
        .with_hint("name one: `--config FILE` or `--config @examples/NAME`")
        .with_hint("or list the grants in a file, for commands with `--grants FILE`")
}

impl CallerGates {
    /// Removes and returns the gates of the agent with this name; without a name, those of the only
    /// one.
    fn take_agent(&mut self, name: Option<&str>) -> Result<AgentGates> {
        let id = |gates: &AgentGates| gates.agent.as_ref().map(ToString::to_string);
        let ids = self
            .agents
            .iter()
            .map(|gates| id(gates).unwrap_or_default());
        let index = agent_index(&ids.collect::<Vec<_>>(), name)?;
        Ok(self.agents.swap_remove(index))
    }

    /// Returns the tools for files and commands that `caller` may use through `gate`. Each
    /// description names the directories, because clients learn them nowhere else.
    fn offers(
        &self,
        caller: &AgentGates,
        gate: &Gate,
        output: &mut CliOutput<'_>,
    ) -> Vec<ToolOffer> {
        let mut members = self.team.iter().flat_map(|team| &team.members);
        let member = members.find(|member| caller.agent.as_ref() == Some(&member.id));
        let config = member.map(|member| &member.config);
        let selection = ToolSelection {
            allowed: config.and_then(|config| config.tools.allowed.as_deref()),
            excluded: config.map_or(&[], |config| &config.tools.excluded),
            permissions: gate.manager(),
            directories: DirectoryNaming::Named,
            commands: gate.command_offering(),
            images: ImageOffering::Offered,
            edits: EditFormat::Replacements,
        };
        if gate.commands().is_none() && config.is_some_and(|config| config.commands.is_some()) {
            output
                .warning("commands are not offered: no sandbox is available, see `massgen doctor`");
        }
        program::tool_offers(gate).unwrap_or_else(|| selection.offers())
    }
}

/// Returns the index of the agent with this name in `ids`; without a name, of the only one.
fn agent_index(ids: &[String], name: Option<&str>) -> Result<usize> {
    let index = match name {
        Some(name) => ids.iter().position(|id| id == name),
        None => (ids.len() == 1).then_some(0),
    };
    let agents_hint = || format!("agents: {}", ids.join(", "));
    index.ok_or_else(|| match name {
        Some(name) => usage_error(format!("no agent `{name}`")).with_hint(agents_hint()),
        None => usage_error("`--agent` is missing, and there are several agents")
            .with_hint(agents_hint()),
    })
}
