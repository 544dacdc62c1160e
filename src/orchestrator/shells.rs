//! Owns the preparation of what agents run commands in: the sandbox is found out once, and each
//! agent that may run commands gets directories of its own.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::confinement::tier::{Enclosure, Tier, TierChoice};
use crate::error::Result;
use crate::event::Event;
use crate::id::AgentId;
use crate::layout::Layout;
use crate::path::AbsPath;
use crate::world::commands::room::Room;
use crate::world::commands::{Commands, Origin};
use crate::world::sandbox::Sandbox;
use crate::world::store::sandboxes::Sandboxes;

/// What commands need to know about the process.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The program that is started as the helper of a sandbox.
    pub executable: AbsPath,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The user's home directory.
    pub home: Option<AbsPath>,
}

/// The commands of those agents of a run that may run some.
#[derive(Debug, Default)]
pub struct Shells {
    ready: BTreeMap<AgentId, Commands>,
    refused: BTreeMap<AgentId, Enclosure>,
    /// Their directories, which go at the end of the run.
    _sandboxes: Option<Sandboxes>,
}

impl Shells {
    /// Finds out what can hold commands, and makes the directories. Where the config names a tier
    /// that cannot be had, that is an error; where nothing can enforce, commands are refused.
    pub fn prepare(config: &Config, layout: &Layout, machine: &Machine) -> Result<Self> {
        let mut shells = Self::default();
        let mut opened = Vec::new();
        for agent in &config.agents {
            let (Some(commands), Some(_)) = (&agent.commands, &agent.cwd) else {
                continue;
            };
            let sandboxes = match &mut shells._sandboxes {
                Some(sandboxes) => sandboxes,
                none => none.insert(Sandboxes::make(&layout.sandboxes)?),
            };
            let room = sandboxes.agent(&agent.id)?;
            let open = || Sandbox::open(commands.sandbox, &machine.executable, &room);
            let sandbox = once(&mut opened, commands.sandbox, open)?;
            if sandbox.tier() == Tier::D {
                let reasons = sandbox.reasons().to_vec();
                let tier = Tier::D;
                let enclosure = Enclosure::Sandbox { tier, reasons };
                shells.refused.insert(agent.id.clone(), enclosure);
                continue;
            }
            let origin = Origin {
                config: commands,
                sandbox,
                room: Room::prepare(&room)?,
                env: &machine.env,
                home: machine.home.as_ref(),
            };
            shells.ready.insert(agent.id.clone(), Commands::new(origin));
        }
        Ok(shells)
    }

    /// What the commands of an agent run in; `None` where it may run none.
    pub fn of(&self, agent: &AgentId) -> Option<&Commands> {
        self.ready.get(agent)
    }

    /// Whether nothing on this machine can hold the commands of an agent.
    pub fn refuses(&self, agent: &AgentId) -> bool {
        self.refused.contains_key(agent)
    }

    /// What holds whose commands: one event for each kind of hold.
    pub fn told(&self) -> Vec<Event> {
        let ready = self.ready.iter();
        let ready = ready.map(|(agent, commands)| (agent, commands.enclosure()));
        let refused = self.refused.iter();
        let refused = refused.map(|(agent, by)| (agent, by.clone()));
        let mut held: Vec<(Enclosure, Vec<AgentId>)> = Vec::new();
        for (agent, by) in ready.chain(refused) {
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
        held.into_iter().map(event).collect()
    }
}

/// The sandbox of a choice, found out when it is first asked for.
fn once(
    opened: &mut Vec<(TierChoice, Sandbox)>,
    choice: TierChoice,
    open: impl FnOnce() -> Result<Sandbox>,
) -> Result<Sandbox> {
    if let Some((_, sandbox)) = opened.iter().find(|(known, _)| *known == choice) {
        return Ok(sandbox.clone());
    }
    let sandbox = open()?;
    opened.push((choice, sandbox.clone()));
    Ok(sandbox)
}
