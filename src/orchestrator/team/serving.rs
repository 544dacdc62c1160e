//! Owns the servers of the members of a run: how each is held, where it leaves what it says, and what
//! is shared of them.

use std::sync::Arc;

use tokio::sync::mpsc::WeakSender;

use crate::call_rules::{CallRule, CallRules};
use crate::config::command_line::{CommandLineConfig, ExecutionMode};
use crate::config::servers::{Instances, Link, ServerConfig, ServerProgram};
use crate::config::{AgentConfig, Planning};
use crate::error::Result;
use crate::event::Event;
use crate::orchestrator::grants;
use crate::orchestrator::shells::Runner;
use crate::orchestrator::team::{Member, Reach, Team, for_checks};
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, GrantKind, Phase};
use crate::tools::served::{Catalogue, ServerName};
use crate::world::gate::Gate;
use crate::world::mcp::tokens::TokenFile;
use crate::world::mcp::{Equipped, Listener, Outside, Servers};
use crate::world::policy::GatePolicy;
use crate::world::store::redact::Redactor;

/// A server of one agent.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    config: Arc<ServerConfig>,
    /// How it is held, if it is a program.
    held: Option<CommandLineConfig>,
}

/// Where servers leave something in a run.
#[derive(Clone, Debug)]
pub struct ServerGround {
    /// The directory of what they write on their standard error.
    pub logs: AbsPath,
    /// What must not get there.
    pub redactor: Redactor,
    /// What the user has signed in with, if they have a home directory.
    pub tokens: Option<TokenFile>,
    /// Where what they say of their work goes, as long as a run goes on.
    pub events: Option<WeakSender<Event>>,
}

impl Team {
    /// The programs that serve members, and how they are held. Those of a run that is played again
    /// have answered.
    pub(super) fn served(&self) -> impl Iterator<Item = (&ServerName, Runner<'_>)> {
        let members = self.members.iter();
        let members = members.filter(|_| self.reach == Reach::Delivers);
        members.flat_map(|member| {
            let workspace = member.workspace.as_ref().unwrap_or(&self.base);
            member.servers.iter().filter_map(move |serving| {
                let runner = Runner {
                    id: &member.id,
                    config: serving.held.as_ref()?,
                    grants: &member.grants,
                    workspace,
                };
                Some((serving.config.name(), runner))
            })
        })
    }

    /// From now on servers can be started, and leave what they have to say there.
    pub fn serve_from(&mut self, ground: ServerGround) {
        self.server_ground = Some(ground);
    }

    /// The servers of `member` in `phase`, none of them started; `None` if it has none.
    pub(super) fn servers(&self, member: &Member, phase: Phase) -> Option<Servers> {
        let ground = self.server_ground.as_ref()?;
        if member.servers.is_empty() || self.reach == Reach::OnlyReads {
            return None;
        }
        let shells = self.shells.as_ref();
        let asker = self.asker.as_ref();
        let seconds = member.config.permissions.ask_seconds();
        let equipped = |serving: &Serving| {
            let name = serving.config.name();
            Equipped {
                config: Arc::clone(&serving.config),
                commands: shells
                    .and_then(|shells| shells.serving(&member.id, name))
                    .cloned(),
                log: ground.logs.join(if serving.config.is_shared() {
                    format!("{name}.shared.log")
                } else {
                    format!("{}.{name}.{phase}.log", member.id)
                }),
                redactor: ground.redactor.clone(),
                tokens: ground.tokens.clone(),
                listener: ground.events.clone().map(|events| Listener {
                    server: name.clone(),
                    events,
                    person: asker.and_then(|asker| asker.informer(seconds)),
                }),
            }
        };
        let outside = match (&self.config.orchestrator.planning, phase) {
            (Planning::On { .. }, Phase::Coordination) => Outside::Waits,
            (Planning::On { .. }, Phase::Final) | (Planning::Off, _) => Outside::Open,
        };
        let equipped = member.servers.iter().map(equipped).collect();
        Some(Servers::new(
            equipped,
            &member.config.tools,
            outside,
            (&self.known, &self.pool),
        ))
    }

    /// What holds for the servers that `member` shares with others: what all members may read, each
    /// in the same way. `None` if it shares none that is a program.
    pub(super) fn common(&self, member: &Member) -> Result<Option<Gate>> {
        let is_one = |serving: &Serving| match &serving.config.link {
            Link::Program(program) => program.instances == Instances::One,
            Link::Remote(_) => false,
        };
        if !member.servers.iter().any(is_one) {
            return Ok(None);
        }
        let is_common = |grant: &&Grant| {
            let mut members = self.members.iter();
            grant.kind == GrantKind::Context && members.all(|other| other.grants.contains(grant))
        };
        let grants: Vec<Grant> = member.grants.iter().filter(is_common).cloned().collect();
        let policy = GatePolicy::single_call(grants::real(&self.base)?);
        Gate::open(grants::manager(&grants, Phase::Coordination), policy).map(Some)
    }
}

/// The servers of an agent, each with how it is held: as the agent's commands, but with a network and
/// variables of its own; a program that agents share as if it were nobody's. None runs in a container.
pub(super) fn servings(agent: &AgentConfig) -> Vec<Serving> {
    let guest = agent.backend.guest.as_ref();
    let of_guest = guest.map(|guest| guest.held.sandbox);
    let held = |program: &ServerProgram| {
        let (commands, sandbox) = match program.instances {
            Instances::PerAgent => (agent.commands.as_ref(), of_guest),
            Instances::One => (None, None),
        };
        CommandLineConfig {
            mode: ExecutionMode::Local,
            network: program.network.clone(),
            env: program.env.clone(),
            ..for_checks(commands, sandbox)
        }
    };
    let serving = |config: &Arc<ServerConfig>| Serving {
        held: match &config.link {
            Link::Remote(_) => None,
            Link::Program(program) => Some(held(program)),
        },
        config: Arc::clone(config),
    };
    agent.servers.iter().map(serving).collect()
}

/// Says which `rules` about `servers` fit none of the tools that they offer.
pub(super) fn unmatched(
    rules: &CallRules,
    servers: &[Serving],
    offered: &Catalogue,
) -> Vec<String> {
    let names: Vec<&str> = offered.names().collect();
    let of_server = |server: &Serving| {
        // What the server's own keys close need not be offered.
        let closed = server.config.call_rules();
        let server = server.config.name().as_str();
        let rules = rules.unmatched_at(server, &names);
        let rules = rules.filter(|rule| closed.iter().all(|closed| closed != *rule));
        let says = |rule: &CallRule| format!("`{rule}` fits no tool that `{server}` offers");
        rules.map(says).collect::<Vec<_>>()
    };
    servers.iter().flat_map(of_server).collect()
}
