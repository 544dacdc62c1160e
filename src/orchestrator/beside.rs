//! Owns how what works beside an agent is held: its servers, and what checks and hooks start. Each is
//! held as the agent's commands are, but for what is its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::call_rules::{CallRule, CallRules};
use crate::config::AgentConfig;
use crate::config::command_line::{CommandLineConfig, ExecutionMode};
use crate::config::servers::{Instances, Link, ServerConfig};
use crate::confinement::network::Network;
use crate::confinement::tier::TierChoice;
use crate::error::{Error, Result};
use crate::tools::served::Catalogue;
use crate::world::exec::served;
use crate::world::gate::Gate;

/// A server of one agent.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    /// What the config says about it.
    pub(super) config: Arc<ServerConfig>,
    /// How it is held, if it is a program.
    pub(super) held: Option<CommandLineConfig>,
}

/// The servers of an agent, each with how it is held: as the agent's commands, but with a network and
/// variables of its own; a program that agents share as if it were nobody's. None runs in a container.
pub(super) fn servings(agent: &AgentConfig) -> Vec<Serving> {
    let serving = |config: &Arc<ServerConfig>| Serving {
        held: match &config.link {
            Link::Remote(_) => None,
            Link::Program(program) => Some(CommandLineConfig {
                mode: ExecutionMode::Local,
                network: program.network.clone(),
                env: program.env.clone(),
                ..for_checks(
                    match program.instances {
                        Instances::PerAgent => agent.commands.as_ref(),
                        Instances::One => None,
                    },
                    None,
                )
            }),
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

/// Finds out which tools the servers of a gate have. Only the first agent with a server waits for it.
pub(super) async fn met(gate: &Gate) -> Result<Vec<String>> {
    let gate = gate.clone();
    let met = tokio::task::spawn_blocking(move || served::meet(&gate)).await;
    met.map_err(|_| Error::bug("the servers could not be met"))?
}

/// How hooks about an agent with these commands are run: on this machine, without a network unless the
/// hook has one, and without variables of the user's.
pub(super) fn for_hooks(commands: Option<&CommandLineConfig>) -> CommandLineConfig {
    CommandLineConfig {
        mode: ExecutionMode::Local,
        network: Network::Off,
        env: BTreeMap::new(),
        ..for_checks(commands, None)
    }
}

/// How checks are run on the work of an agent with these commands: what the user lists is about what
/// agents may run.
pub(super) fn for_checks(
    commands: Option<&CommandLineConfig>,
    sandbox: Option<TierChoice>,
) -> CommandLineConfig {
    let commands = commands.cloned().unwrap_or_default();
    CommandLineConfig {
        allowed: None,
        blocked: Vec::new(),
        sandbox: sandbox.unwrap_or(commands.sandbox),
        ..commands
    }
}
