//! Owns the preparation of what agents run commands in: what can hold them is found out, and each
//! agent that may run commands gets directories, and perhaps a container, of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use crate::config::ToolFilter;
use crate::config::command_line::{CommandLineConfig, ExecutionMode};
use crate::config::docker::DockerConfig;
use crate::config::guests::GuestConfig;
use crate::confinement::compile::reach;
use crate::confinement::tier::{Enclosure, Tier, TierChoice};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::id::AgentId;
use crate::layout::{Layout, RunName};
use crate::orchestrator::grants;
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, Phase, Scope};
use crate::programs::dialect::Dialect;
use crate::tools::served::ServerName;
use crate::world::commands::room::Room;
use crate::world::commands::{Commands, Origin, Place};
use crate::world::docker::container::{Container, Purpose};
use crate::world::docker::credentials::User;
use crate::world::docker::engine::Engine;
use crate::world::docker::mounts::Reachable;
use crate::world::exec::guest::found;
use crate::world::exec::program::try_language;
use crate::world::programs::Programs;
use crate::world::sandbox::Sandbox;
use crate::world::store::sandboxes::Sandboxes;

/// What commands need to know about the process.
#[derive(Clone, Debug)]
pub struct Machine {
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
pub struct Shells {
    ready: BTreeMap<AgentId, Commands>,
    refused: BTreeMap<AgentId, Enclosure>,
    /// What checks run in on the work of an agent.
    checking: BTreeMap<AgentId, Commands>,
    /// What the programs of an agent run in.
    programs: BTreeMap<AgentId, Programs>,
    /// What the servers of an agent run in.
    serving: BTreeMap<(AgentId, ServerName), Commands>,
    /// What the program runs in that speaks for an agent, and how it is started.
    guests: BTreeMap<AgentId, (Commands, Vec<String>)>,
    /// What the hooks of an agent run in.
    hooks: BTreeMap<AgentId, Commands>,
    /// On whose work checks cannot be run, and why.
    unfit: BTreeMap<AgentId, &'static str>,
    /// Their directories, which go at the end of the run.
    rooms: Option<Sandboxes>,
}

/// An agent that may run commands.
#[derive(Clone, Copy, Debug)]
pub struct Runner<'a> {
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
pub struct Programmer<'a> {
    /// Who, and how its programs are held.
    pub runner: Runner<'a>,
    /// What they are written in.
    pub dialect: Dialect,
    /// Which tools they may call.
    pub tools: &'a ToolFilter,
}

/// Whose processes need something to run in.
#[derive(Debug, Default)]
pub struct Runners<'a> {
    /// Those that may run commands.
    pub commands: Vec<Runner<'a>>,
    /// Those whose work is checked.
    pub checked: Vec<Runner<'a>>,
    /// Those that work by programs.
    pub programs: Vec<Programmer<'a>>,
    /// The servers that are programs, and those whom they serve.
    pub served: Vec<(&'a ServerName, Runner<'a>)>,
    /// The agents that are programs of their own.
    pub guests: Vec<(&'a GuestConfig, Runner<'a>)>,
    /// Those that the user's hooks are asked about.
    pub hooked: Vec<Runner<'a>>,
}

impl Runners<'_> {
    /// Whether nobody needs anything.
    fn are_none(&self) -> bool {
        let agents = self.commands.is_empty() && self.checked.is_empty();
        let others = self.served.is_empty() && self.guests.is_empty() && self.hooked.is_empty();
        agents && self.programs.is_empty() && others
    }
}

impl Shells {
    /// Finds out what can hold what `runners` run, and makes directories and containers. What the
    /// config names and cannot be had is an error; where nothing can enforce, commands are refused,
    /// an agent that works by programs is an error, for it could do nothing, and so is a server.
    pub fn prepare(runners: Runners<'_>, layout: &Layout, machine: &Machine) -> Result<Self> {
        if runners.are_none() {
            return Ok(Self::default());
        }
        let Runners {
            commands,
            checked,
            programs,
            served,
            guests,
            hooked,
        } = runners;
        let mut builder = Builder {
            rooms: Sandboxes::make(&layout.sandboxes)?,
            sandboxes: Vec::new(),
            layout,
            machine,
        };
        let mut shells = Self::default();
        for runner in commands {
            let room = builder.rooms.agent(runner.id)?;
            let commands = builder.commands(runner, &room)?;
            let id = runner.id.clone();
            if commands.tier() == Tier::D {
                shells.refused.insert(id, commands.enclosure());
            } else {
                shells.ready.insert(id, commands);
            }
        }
        for runner in checked {
            let room = builder.rooms.checks_of(runner.id)?;
            let commands = builder.commands(runner, &room)?;
            if let Some(why) = unfit(commands.tier(), runner.grants) {
                shells.unfit.insert(runner.id.clone(), why);
            }
            if commands.tier() != Tier::D {
                shells.checking.insert(runner.id.clone(), commands);
            }
        }
        for programmer in programs {
            let id = programmer.runner.id;
            let room = builder.rooms.programs_of(id)?;
            let held = builder.commands(programmer.runner, &room)?;
            shells.programs.insert(id.clone(), ready(programmer, held)?);
        }
        for (server, runner) in served {
            let room = builder.rooms.server_of(runner.id, server)?;
            let commands = builder.commands(runner, &room)?;
            if commands.tier() == Tier::D {
                let what = format!("the server `{server}` of `{}`", runner.id);
                return Err(nothing_holds(&what, &commands.enclosure()));
            }
            let key = (runner.id.clone(), server.clone());
            shells.serving.insert(key, commands);
        }
        for (guest, runner) in guests {
            let held = builder.guest(guest, runner)?;
            shells.guests.insert(runner.id.clone(), held);
        }
        for runner in hooked {
            let held = builder.hooks(runner)?;
            shells.hooks.insert(runner.id.clone(), held);
        }
        shells.rooms = Some(builder.rooms);
        Ok(shells)
    }

    /// What the programs of an agent run in; `None` where it works by none.
    pub fn programs(&self, agent: &AgentId) -> Option<&Programs> {
        self.programs.get(agent)
    }

    /// What a server of an agent runs in; `None` if it is no program.
    pub fn serving(&self, agent: &AgentId, server: &ServerName) -> Option<&Commands> {
        self.serving.get(&(agent.clone(), server.clone()))
    }

    /// What the program of an agent runs in and how it is started; `None` if it is none.
    pub fn guest(&self, agent: &AgentId) -> Option<&(Commands, Vec<String>)> {
        self.guests.get(agent)
    }

    /// What the hooks about an agent run in; `None` where there are none.
    pub fn hooks(&self, agent: &AgentId) -> Option<&Commands> {
        self.hooks.get(agent)
    }

    /// What checks on the work of an agent run in; `None` where nothing on this machine can hold them.
    pub fn checking(&self, agent: &AgentId) -> Option<&Commands> {
        self.checking.get(agent)
    }

    /// The first agent on whose work checks cannot be run, and why.
    pub fn unfit(&self) -> Option<(&AgentId, &'static str)> {
        let first = self.unfit.first_key_value();
        first.map(|(agent, why)| (agent, *why))
    }

    /// What the commands of an agent run in; `None` where it may run none.
    pub fn of(&self, agent: &AgentId) -> Option<&Commands> {
        self.ready.get(agent)
    }

    /// Whether nothing on this machine can hold the commands of an agent.
    pub fn refuses(&self, agent: &AgentId) -> bool {
        self.refused.contains_key(agent)
    }

    /// What the user should know: one event for each kind of hold, and what could not be had.
    pub fn told(&self) -> Vec<Event> {
        let ready = self.ready.iter();
        let ready = ready.map(|(agent, commands)| (agent, commands.enclosure()));
        let refused = self.refused.iter();
        let refused = refused.map(|(agent, by)| (agent, by.clone()));
        let only = self.programs.iter();
        let only = only.filter(|(agent, _)| !self.ready.contains_key(*agent));
        let only = only.map(|(agent, programs)| (agent, programs.held().enclosure()));
        let guests = self.guests.iter();
        let guests = guests.map(|(agent, (commands, _))| (agent, commands.enclosure()));
        let mut held: Vec<(Enclosure, Vec<AgentId>)> = Vec::new();
        for (agent, by) in ready.chain(refused).chain(only).chain(guests) {
            match held.iter_mut().find(|(known, _)| *known == by) {
                Some((_, agents)) => agents.push(agent.clone()),
                None => held.push((by, vec![agent.clone()])),
            }
        }
        let event = |(by, agents): (Enclosure, Vec<AgentId>)| Event::Confined {
            agents,
            leaves_open: by.leaves_open().iter().map(ToString::to_string).collect(),
            by,
        };
        let notes = self.ready.iter().flat_map(|(agent, commands)| {
            let notes = commands.notes().iter();
            notes.map(move |note| format!("commands of {agent}: {note}"))
        });
        let warning = |message| Event::Warning { message };
        held.into_iter()
            .map(event)
            .chain(notes.map(warning))
            .collect()
    }
}

/// The programs of an agent, once one of them has run.
fn ready(programmer: Programmer<'_>, held: Commands) -> Result<Programs> {
    let Programmer {
        runner,
        dialect,
        tools,
    } = programmer;
    let id = runner.id;
    if held.tier() == Tier::D {
        let message = format!("nothing on this machine can hold the programs of `{id}`");
        let error = Error::new(ErrorKind::Environment, message);
        return Err(error
            .hint("see `massgen doctor` for what is missing")
            .hint("remove `enable_code_based_tools`: the agent then has its tools one by one"));
    }
    let programs = Programs::new(dialect, tools.clone(), held);
    try_language(&programs).map_err(|why| {
        let title = dialect.language().title();
        let message = format!("the programs of `{id}` cannot be run in {title}: {why}");
        Error::new(ErrorKind::Environment, message).hint(dialect.remedy())
    })?;
    Ok(programs)
}

/// That something cannot be started, because it could do whatever the user may do.
fn nothing_holds(what: &str, by: &Enclosure) -> Error {
    let reasons = match by {
        Enclosure::Sandbox { reasons, .. } => reasons.join("; "),
        Enclosure::Container { .. } => String::new(),
    };
    let message = format!("nothing on this machine can hold {what}: {reasons}");
    Error::new(ErrorKind::Environment, message)
        .hint("see `massgen doctor` for what is missing, or remove them from the config")
}

/// Why an agent's program cannot be started: nothing would hold it, or it could not reach the run.
fn nothing_holds_guest(agent: &AgentId, commands: &Commands) -> Option<Error> {
    let (why, hint) = match (commands.tier(), commands.enclosure()) {
        (Tier::D, Enclosure::Sandbox { reasons, .. }) => (
            format!(
                "nothing on this machine can hold the program of `{agent}`: {}",
                reasons.join("; ")
            ),
            "see `massgen doctor` for what is missing, or give the agent a type that is asked over the network",
        ),
        (Tier::C, _) => (
            format!(
                "in tier C the program of `{agent}` cannot be used: it reaches the run over a Unix socket, which that tier closes"
            ),
            "see `massgen doctor` for what keeps tiers A and B away, or give the agent a type that is asked over the network",
        ),
        (Tier::A | Tier::B | Tier::D | Tier::Off, _) => return None,
    };
    Some(Error::new(ErrorKind::Environment, why).hint(hint))
}

/// Why checks cannot be run in `tier` on the work of an agent with these grants. Where it has no
/// directory to write to, they look at a copy of its files, which every tier can hold.
fn unfit(tier: Tier, grants: &[Grant]) -> Option<&'static str> {
    let roots = grants::write_roots(grants);
    let has_tree = roots.iter().any(|grant| grant.scope == Scope::Tree);
    match tier {
        Tier::C if has_tree => Some("in tier C commands cannot be shown what would be delivered"),
        Tier::Off if has_tree => {
            Some("with the sandbox off commands cannot be shown what would be delivered")
        }
        Tier::A | Tier::B | Tier::C | Tier::Off => None,
        Tier::D => Some("nothing on this machine can hold them"),
    }
}

/// Makes what commands run in; agents that are held alike share a sandbox.
struct Builder<'b> {
    rooms: Sandboxes,
    sandboxes: Vec<((TierChoice, Vec<AbsPath>), Sandbox)>,
    layout: &'b Layout,
    machine: &'b Machine,
}

impl Builder<'_> {
    fn commands(&mut self, runner: Runner<'_>, room: &AbsPath) -> Result<Commands> {
        let room = Room::prepare(room)?;
        let place = match &runner.config.mode {
            ExecutionMode::Docker(docker) => {
                let part = (self.layout.run, &self.layout.state);
                let container = container(runner, docker, part, self.machine)?;
                Place::Container(Arc::new(container))
            }
            ExecutionMode::Local => Place::Sandbox(self.sandbox(runner, &room)?),
        };
        Ok(Commands::new(Origin {
            config: runner.config,
            place,
            executable: &self.machine.executable,
            room,
            env: &self.machine.env,
            variables: &self.machine.variables,
            home: self.machine.home.as_ref(),
        }))
    }

    /// What a guest runs in, and its command as it is found.
    fn guest(
        &mut self,
        guest: &GuestConfig,
        runner: Runner<'_>,
    ) -> Result<(Commands, Vec<String>)> {
        let path = self.machine.env.get("PATH").map_or("", String::as_str);
        let command = found(&guest.command, path, guest.package)?;
        let room = self.rooms.guest_of(runner.id)?;
        let commands = self.commands(runner, &room)?;
        match nothing_holds_guest(runner.id, &commands) {
            Some(error) => Err(error),
            None => Ok((commands, command)),
        }
    }

    /// What the hooks about an agent run in.
    fn hooks(&mut self, runner: Runner<'_>) -> Result<Commands> {
        let room = self.rooms.hooks_of(runner.id)?;
        let commands = self.commands(runner, &room)?;
        if commands.tier() == Tier::D {
            let what = format!("the hooks about `{}`", runner.id);
            return Err(nothing_holds(&what, &commands.enclosure()));
        }
        Ok(commands)
    }

    fn sandbox(&mut self, runner: Runner<'_>, room: &Room) -> Result<Sandbox> {
        let trees = grants::write_roots(runner.grants).into_iter();
        let trees = trees.filter(|grant| grant.scope == Scope::Tree);
        let trees: Vec<AbsPath> = trees.map(|grant| grant.root.to_abs()).collect();
        let asked = (runner.config.sandbox, trees);
        if let Some((_, known)) = self.sandboxes.iter().find(|(known, _)| *known == asked) {
            return Ok(known.clone());
        }
        let (executable, place) = (&self.machine.executable, room.home());
        let sandbox = Sandbox::open_over(asked.0, executable, &place, &asked.1)?;
        self.sandboxes.push((asked, sandbox.clone()));
        Ok(sandbox)
    }
}

/// The container of one agent in a run whose state lies in a directory. The engine is spoken with on
/// a thread of its own, because the caller may be part of an event loop.
pub fn container(
    runner: Runner<'_>,
    docker: &DockerConfig,
    (run, state): (RunName, &AbsPath),
    machine: &Machine,
) -> Result<Container> {
    let manager = grants::manager(runner.grants, Phase::Coordination);
    let (open, hidden) = reach(&manager, Tier::B);
    let reachable = Reachable {
        open,
        masked: Vec::new(),
        hidden,
        copies: BTreeMap::new(),
    };
    let opening = || {
        let engine = Engine::open(machine.env.get("DOCKER_HOST").map(String::as_str))?;
        engine.remove_leftovers(state)?;
        let purpose = Purpose {
            agent: runner.id,
            run,
            state,
            config: docker,
            limits: &runner.config.limits,
            workspace: runner.workspace,
            added: &runner.config.added_env(&machine.variables),
            user: User {
                home: machine.home.as_ref(),
                env: &machine.env,
                variables: &machine.variables,
            },
        };
        Container::open(&engine, purpose, &reachable)
    };
    let opened = thread::scope(|scope| scope.spawn(opening).join());
    opened.map_err(|panic| Error::panicked(&*panic))?
}
