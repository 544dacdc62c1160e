//! Owns whose gates `massgen explain`, `massgen tool`, `massgen sandbox` and `massgen mcp serve` ask:
//! those of a grants file, or those that the agents of a team would have in a run. It decides nothing;
//! the gates do.

use std::io;

use crate::cli::args::{
    ExplainCommandArguments, ExplainPathArguments, GrantsSource, HookArguments, SandboxArguments,
    ToolArguments,
};
use crate::cli::conduct::{machine, secrets};
use crate::cli::environment;
use crate::cli::explain::AgentGates;
use crate::cli::explain::calls;
use crate::cli::explain::command::{CommandReport, Runner};
use crate::cli::explain::path::PathReport;
use crate::cli::grants_file::{GRANTS_BYTES_MAX, GrantsFile};
use crate::cli::input::{STANDARD_INPUT, read_text};
use crate::cli::mcp::serve::serve;
use crate::cli::mcp::way::Way;
use crate::cli::mcp_arguments::ServeArguments;
use crate::cli::output::{Form, Output};
use crate::cli::sandbox;
use crate::cli::shell::{Hold, Shell};
use crate::cli::team::{checked, checked_in_silence};
use crate::cli::team_file::TeamFile;
use crate::cli::tool;
use crate::cli::usage::usage;
use crate::commands::CommandRules;
use crate::config::Config;
use crate::config::ToolFilter;
use crate::confinement::tier::{Tier, TierChoice};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::id::AgentId;
use crate::layout::{Layout, RunName};
use crate::orchestrator::grants::{Inherited, directories_to_make, manager, real};
use crate::orchestrator::shells::{Runners, Shells};
use crate::orchestrator::team::serving::ServerGround;
use crate::orchestrator::team::{Member, Team};
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::Phase;
use crate::permissions::history::ReadBeforeDelete;
use crate::tools::menu::{Commands, Directories, Menu};
use crate::tools::spec::{COMMANDS, PROGRAMS, ToolOffer};
use crate::world::exec::program;
use crate::world::files::read_capped;
use crate::world::foreigner::{Foreigner, Held};
use crate::world::gate::Gate;
use crate::world::locate::{Located, locate};
use crate::world::mcp::tokens::TokenFile;
use crate::world::policy::GatePolicy;
use crate::world::store::prepare_state_dir;
use crate::world::store::redact::Redactor;
use crate::world::store::workspace::Workspace;

/// Where servers leave what they write on their standard error, below the state directory.
const SERVER_LOGS: &str = "mcp_serve";

/// The run that single calls belong to: they find each other's files in its workspaces.
const SINGLE_CALLS: u32 = 0;

/// Whether workspaces that are missing are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// They are made, so that calls can be asked about and carried out in them.
    Made,
    /// Nothing is written; what is missing gives no access.
    LeftOut,
}

/// Gates, with what they and their commands need as long as they are asked.
struct Gates {
    agents: Vec<AgentGates>,
    /// The directories of commands go with their team.
    team: Option<Team>,
    /// Nobody else may use them meanwhile.
    _held: Vec<Workspace>,
    _shell: Option<Shell>,
}

/// What is asked of the gates.
#[derive(Clone, Copy, Debug)]
enum Needs<'a> {
    /// To decide, and to do nothing.
    Decisions,
    /// To carry out a call about files.
    Files,
    /// To run commands, held so; without a choice, as the config says.
    Commands(Option<Hold<'a>>),
    /// To carry out many calls of this agent, which find what was read before; commands among them are
    /// held so. Without a choice they are held as the config says, and a grants file gives none.
    Session(Option<Hold<'a>>, Option<&'a str>),
}

impl<'a> Needs<'a> {
    /// What the user says that holds commands.
    fn hold(self) -> Option<Hold<'a>> {
        match self {
            Needs::Decisions | Needs::Files => None,
            Needs::Commands(hold) | Needs::Session(hold, _) => hold,
        }
    }

    /// What holds commands that a grants file gives, if it gives any.
    fn hold_for_grants(self) -> Option<Hold<'a>> {
        match self {
            Needs::Decisions | Needs::Files => None,
            Needs::Commands(hold) => Some(hold.unwrap_or_default()),
            Needs::Session(hold, _) => hold,
        }
    }

    /// Whose processes of `team` need something to run in. A single call uses no server.
    fn runners(self, team: &Team) -> Runners<'_> {
        let hooked = || team.hooked().collect();
        let mut all = match self {
            Needs::Decisions => return Runners::default(),
            Needs::Files => {
                return Runners {
                    hooked: hooked(),
                    ..Runners::default()
                };
            }
            Needs::Commands(_) | Needs::Session(..) => team.runners(),
        };
        all.checked.clear();
        match self {
            Needs::Decisions | Needs::Files | Needs::Commands(_) => all.served.clear(),
            Needs::Session(_, agent) => {
                let is_meant = |id: &AgentId| agent.is_none_or(|agent| agent == id.as_str());
                all.served.retain(|(_, runner)| is_meant(runner.id));
                all.programs
                    .retain(|programmer| is_meant(programmer.runner.id));
            }
        }
        all
    }

    /// A single call has no history that could say what was read.
    fn read_before_delete(self) -> Option<ReadBeforeDelete> {
        match self {
            Needs::Decisions | Needs::Files | Needs::Commands(_) => Some(ReadBeforeDelete::Off),
            Needs::Session(..) => None,
        }
    }
}

/// Prints what may be done to a path.
pub(crate) fn explain_path(
    host: &Host,
    question: &ExplainPathArguments,
    output: &mut Output<'_>,
) -> Result<()> {
    let mut gates = of_team(
        question.config.as_deref(),
        Missing::LeftOut,
        Needs::Decisions,
        host,
        output,
    )?;
    if let Some(name) = &question.agent {
        gates.agents = vec![gates.take(Some(name))?];
    }
    let phases = match question.phase {
        Some(phase) => vec![phase.into()],
        None => vec![Phase::Coordination, Phase::Final],
    };
    let report = PathReport::new(&gates.agents, &phases, &question.path, &host.cwd)?;
    match Form::from(question.json) {
        Form::Json => output.result(&report.to_json()),
        Form::Text => output.result(&report.to_string()),
    }
}

/// Prints what a command line is made of, and whether and in what it may be run. The status says
/// whether it may.
pub(crate) fn explain_command(
    host: &Host,
    question: &ExplainCommandArguments,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let phase = question.phase.into();
    let config = question.config.as_deref();
    let has_team = config.is_some() || TeamFile::default(host, output)?.is_some();
    let report = if has_team {
        let mut team = planned(config, host, output)?;
        let member = take_member(&mut team, question.agent.as_deref())?;
        let runner = Runner {
            agent: member.id.to_string(),
            permissions: &manager(&member.grants, phase),
            rules: &member.config.permissions.rules,
            commands: member
                .config
                .commands
                .as_ref()
                .filter(|_| member.workspace.is_some()),
        };
        CommandReport::new(&question.command, phase, Some(&runner))
    } else {
        CommandReport::new(&question.command, phase, None)
    };
    match Form::from(question.json) {
        Form::Json => output.result(&report.to_json())?,
        Form::Text => output.result(&report.to_string())?,
    }
    Ok(if report.is_refused() {
        ExitStatus::Denied
    } else {
        ExitStatus::Delivered
    })
}

/// Answers the calls on standard input.
pub(crate) fn explain_calls(
    host: &Host,
    source: &GrantsSource,
    output: &mut Output<'_>,
) -> Result<()> {
    let gates = of_source(source, Needs::Decisions, host, output)?;
    calls::explain_calls(&gates.agents, io::stdin().lock(), output.stream())
}

/// Carries out one call, and prints what came of it.
pub(crate) fn tool(
    host: &Host,
    call: &ToolArguments,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let arguments = match call.args.as_str() {
        STANDARD_INPUT => read_text(io::stdin())?,
        typed => typed.to_owned(),
    };
    let needs = if COMMANDS
        .iter()
        .chain(PROGRAMS)
        .any(|tool| tool.name == call.name)
    {
        let container = call.docker.as_deref().map(Hold::Container);
        Needs::Commands(container.or(call.caller.sandbox.map(Hold::Sandbox)))
    } else {
        Needs::Files
    };
    let mut gates = of_source(&call.caller.source, needs, host, output)?;
    let caller = gates.take(call.caller.agent.as_deref())?;
    let gate = caller.gate(call.caller.phase.into());
    let (report, status) = tool::carry_out(gate, &call.name, &arguments, host.hangup);
    output.result(&format!("{report}\n"))?;
    Ok(status)
}

/// Runs one command whose streams lead to the user's, and gives the exit status that it ended with.
pub(crate) fn sandbox(
    host: &Host,
    asked: &SandboxArguments,
    output: &mut Output<'_>,
) -> Result<u8> {
    let needs = Needs::Commands(asked.caller.sandbox.map(Hold::Sandbox));
    let mut gates = of_source(&asked.caller.source, needs, host, output)?;
    let caller = gates.take(asked.caller.agent.as_deref())?;
    let gate = caller.gate(asked.caller.phase.into());
    sandbox::run(gate, &asked.command, host.hangup, output)
}

/// Offers the tools of one gate to the agents of others.
pub(crate) fn offer(
    host: &Host,
    asked: &ServeArguments,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let way = Way::of(&asked.way, host)?;
    let caller = &asked.caller;
    let needs = Needs::Session(caller.sandbox.map(Hold::Sandbox), caller.agent.as_deref());
    let mut gates = of_source(&caller.source, needs, host, output)?;
    let agent = gates.take(caller.agent.as_deref())?;
    let gate = agent.gate(caller.phase.into()).clone();
    let offers = gates.offers(&agent, &gate, output);
    serve(way, (gate, offers), host, output)
}

/// The program that asks, and the team that what its hooks run in goes with. Nothing else is made for
/// it: what is missing gives no access.
pub(crate) fn foreigner(
    host: &Host,
    asked: &HookArguments,
    output: &mut Output<'_>,
) -> Result<(Foreigner, Option<Team>)> {
    let phase = asked.phase.into();
    let held = if asked.in_sandbox {
        Held::BySandbox
    } else {
        Held::ByNothing
    };
    let may_run = |rules: CommandRules| (held == Held::BySandbox).then_some(rules);
    if let Some(file) = &asked.source.grants {
        let caller = Foreigner {
            gate: grants_file(file, host)?.gate(phase, None, ReadBeforeDelete::Off)?,
            commands: may_run(CommandRules::default()),
            tools: ToolFilter::default(),
            held,
        };
        return Ok((caller, None));
    }
    let mut team = planned(asked.source.config.as_deref(), host, output)?;
    for member in &mut team.members {
        leave_missing_out(member)?;
    }
    run_hooks(&mut team, host)?;
    let member = take_member(&mut team, asked.agent.as_deref())?;
    let commands = member.config.commands.as_ref();
    let caller = Foreigner {
        gate: gate(&team, &member, phase, &host.cwd)?.for_another_program(),
        commands: commands.and_then(|commands| may_run(commands.rules(Tier::A))),
        tools: member.config.tools.clone(),
        held,
    };
    Ok((caller, Some(team)))
}

/// Makes what the user's hooks run in, if there are any.
fn run_hooks(team: &mut Team, host: &Host) -> Result<()> {
    let runners = Runners {
        hooked: team.hooked().collect(),
        ..Runners::default()
    };
    if runners.hooked.is_empty() {
        return Ok(());
    }
    let machine = machine(&environment::complete(host).host);
    team.expect_hooks(&machine)?;
    let layout = team.layout(SINGLE_CALLS);
    prepare_state_dir(&layout.state, layout.directories())?;
    let shells = Shells::prepare(runners, &layout, &machine)?;
    team.run_commands_in(shells);
    Ok(())
}

fn of_source(
    source: &GrantsSource,
    needs: Needs<'_>,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<Gates> {
    if let Some(Hold::Sandbox(TierChoice::Only(Tier::Off))) = needs.hold() {
        output.warning("nothing holds commands: they may do whatever you may do");
    }
    match &source.grants {
        Some(file) => of_grants_file(file, needs, host),
        None => of_team(source.config.as_deref(), Missing::Made, needs, host, output),
    }
}

/// The file of grants that the user names.
fn grants_file(file: &str, host: &Host) -> Result<GrantsFile> {
    let not_there = || {
        Error::new(
            ErrorKind::Config,
            format!("there is no grants file `{file}`"),
        )
        .hint("name a JSON file: `massgen tool --help` shows what is in it")
    };
    let bytes = read_capped(&host.cwd.join(file), GRANTS_BYTES_MAX)?.ok_or_else(not_there)?;
    GrantsFile::parse(
        &String::from_utf8_lossy(&bytes),
        (&host.cwd, host.home.as_ref()),
    )
}

fn of_grants_file(file: &str, needs: Needs<'_>, host: &Host) -> Result<Gates> {
    let grants = grants_file(file, host)?;
    let hold = needs.hold_for_grants();
    let shell = hold
        .map(|hold| Shell::open(host, hold, &grants))
        .transpose()?;
    let read_first = needs
        .read_before_delete()
        .unwrap_or(ReadBeforeDelete::Enforced);
    let commands = shell.as_ref().map(|shell| &shell.commands);
    let agents = AgentGates {
        agent: None,
        coordination: grants.gate(Phase::Coordination, commands.cloned(), read_first)?,
        delivery: grants.gate(Phase::Final, commands.cloned(), read_first)?,
    };
    Ok(Gates {
        agents: vec![agents],
        team: None,
        _held: Vec::new(),
        _shell: shell,
    })
}

/// A team as a run would have it, of which nothing is made yet.
fn planned(config: Option<&str>, host: &Host, output: &mut Output<'_>) -> Result<Team> {
    let host = environment::complete(host).host;
    let config = checked_in_silence(&team_file(config, &host, output)?, &host, output)?;
    let layout = Layout::plan(&config, &host.cwd, RunName::new(SINGLE_CALLS));
    Team::assemble(&config, &layout, &host.cwd, Inherited::default())
}

/// Takes the member of this name out of its team; without a name, the only one.
fn take_member(team: &mut Team, name: Option<&str>) -> Result<Member> {
    let ids = team.members.iter().map(|member| member.id.to_string());
    let place = place_of(&ids.collect::<Vec<_>>(), name)?;
    Ok(team.members.swap_remove(place))
}

fn team_file(config: Option<&str>, host: &Host, output: &mut Output<'_>) -> Result<TeamFile> {
    match config {
        Some(argument) => TeamFile::named(argument, host),
        None => TeamFile::default(host, output)?.ok_or_else(no_team),
    }
}

fn of_team(
    config: Option<&str>,
    missing: Missing,
    needs: Needs<'_>,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<Gates> {
    let host = environment::complete(host).host;
    let file = team_file(config, &host, output)?;
    let mut config = match needs {
        Needs::Session(..) => checked(&file, &host, output)?,
        Needs::Decisions | Needs::Files | Needs::Commands(_) => {
            checked_in_silence(&file, &host, output)?
        }
    };
    if let Some(off) = needs.read_before_delete() {
        for agent in &mut config.agents {
            agent.read_before_delete = off;
        }
    }
    if let Some(hold) = needs.hold() {
        hold.set_in(&mut config);
    }
    let layout = Layout::plan(&config, &host.cwd, RunName::new(SINGLE_CALLS));
    let held = match missing {
        Missing::Made => make_directories(&config, &layout)?,
        Missing::LeftOut => Vec::new(),
    };
    let mut team = Team::assemble(&config, &layout, &host.cwd, Inherited::default())?;
    for member in &mut team.members {
        leave_missing_out(member)?;
    }
    if let Needs::Session(..) = needs {
        team.serve_from(ServerGround {
            logs: layout.state.join(SERVER_LOGS),
            redactor: Redactor::new(secrets(&config, &host)),
            tokens: host.home.as_ref().map(TokenFile::of),
            events: None,
        });
    }
    let runners = needs.runners(&team);
    let machine = machine(&host);
    if !runners.hooked.is_empty() {
        team.expect_hooks(&machine)?;
    }
    let shells = Shells::prepare(runners, &layout, &machine)?;
    team.run_commands_in(shells);
    let gates = team.members.iter().map(|member| {
        Ok(AgentGates {
            agent: Some(member.id.clone()),
            coordination: gate(&team, member, Phase::Coordination, &host.cwd)?,
            delivery: gate(&team, member, Phase::Final, &host.cwd)?,
        })
    });
    Ok(Gates {
        agents: gates.collect::<Result<_>>()?,
        team: Some(team),
        _held: held,
        _shell: None,
    })
}

fn make_directories(config: &Config, layout: &Layout) -> Result<Vec<Workspace>> {
    if layout.workspaces.is_empty() {
        return Ok(Vec::new());
    }
    prepare_state_dir(&layout.state, layout.directories())?;
    let own = layout
        .workspaces
        .values()
        .map(|workspace| workspace.path.clone());
    let inner = config.agents.iter().flat_map(|agent| {
        let workspace = layout.workspaces.get(&agent.id);
        directories_to_make(agent, workspace.map(|workspace| &workspace.path))
    });
    own.chain(inner)
        .map(|path| Workspace::take(&path))
        .collect()
}

/// Takes from a member what is not on the disk; a gate can open only what is there.
fn leave_missing_out(member: &mut Member) -> Result<()> {
    let is_there = |path: &AbsPath| Ok(!matches!(locate(path)?, Located::Missing(_)));
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

/// The member's gate; one without any grant denies everything.
fn gate(team: &Team, member: &Member, phase: Phase, cwd: &AbsPath) -> Result<Gate> {
    if let Some(gate) = team.gate(member, phase, None)? {
        return Ok(gate);
    }
    let nothing = PathPermissionManager::new(Vec::new(), phase);
    Gate::open(nothing, GatePolicy::single_call(real(cwd)?))
}

fn no_team() -> Error {
    Error::new(
        ErrorKind::Config,
        "there is no config here whose grants could be asked",
    )
    .hint("name one: `--config FILE` or `--config @examples/NAME`")
    .hint("or list the grants in a file: `--grants FILE`, where the command takes one")
}

impl Gates {
    /// Takes out the gates of the agent of this name; without a name, those of the only one.
    fn take(&mut self, name: Option<&str>) -> Result<AgentGates> {
        let id = |gates: &AgentGates| gates.agent.as_ref().map(ToString::to_string);
        let ids = self
            .agents
            .iter()
            .map(|gates| id(gates).unwrap_or_default());
        let place = place_of(&ids.collect::<Vec<_>>(), name)?;
        Ok(self.agents.swap_remove(place))
    }

    /// The tools for files and commands that `caller` may use through `gate`. Each description names
    /// the directories: nothing else tells whoever comes.
    fn offers(&self, caller: &AgentGates, gate: &Gate, output: &mut Output<'_>) -> Vec<ToolOffer> {
        let mut members = self.team.iter().flat_map(|team| &team.members);
        let member = members.find(|member| caller.agent.as_ref() == Some(&member.id));
        let config = member.map(|member| &member.config);
        let menu = Menu {
            allowed: config.and_then(|config| config.tools.allowed.as_deref()),
            excluded: config.map_or(&[], |config| &config.tools.excluded),
            permissions: gate.manager(),
            directories: Directories::Named,
            commands: Commands::run_in(gate.commands()),
        };
        if gate.commands().is_none() && config.is_some_and(|config| config.commands.is_some()) {
            output.warning(
                "commands are not offered: nothing on this machine holds them, see `massgen doctor`",
            );
        }
        program::offers(gate).unwrap_or_else(|| menu.offers())
    }
}

/// Where the agent of this name stands among those with `ids`; without a name, the only one.
fn place_of(ids: &[String], name: Option<&str>) -> Result<usize> {
    let place = match name {
        Some(name) => ids.iter().position(|id| id == name),
        None => (ids.len() == 1).then_some(0),
    };
    let known = || format!("the agents are: {}", ids.join(", "));
    place.ok_or_else(|| match name {
        Some(name) => usage(format!("there is no agent `{name}`")).hint(known()),
        None => usage("`--agent` is missing, and there are several agents").hint(known()),
    })
}
