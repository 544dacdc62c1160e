//! Owns the places of agents that are programs of their own: what holds each in a phase, and what is
//! not given to one that nothing holds.

use crate::backend::Model;
use crate::backend::guest::Seat;
use crate::brief::Work;
use crate::config::AgentConfig;
use crate::config::guests::GuestConfig;
use crate::confinement::tier::{Tier, TierChoice};
use crate::orchestrator::shells::Runner;
use crate::orchestrator::team::{Member, Reach, Team};
use crate::permissions::grant::{Grant, GrantKind, Permission};
use crate::world::exec::guest::Lodging;
use crate::world::gate::Gate;

impl Team {
    /// The agents that are programs of their own. Those of a run that is played again have spoken.
    pub(super) fn guests(&self) -> impl Iterator<Item = (&GuestConfig, Runner<'_>)> {
        let members = self.members.iter();
        let members = members.filter(|_| self.reach == Reach::Delivers);
        members.filter_map(|member| {
            let guest = member.config.backend.guest.as_deref()?;
            let runner = Runner {
                id: &member.id,
                config: &guest.held,
                grants: &member.grants,
                workspace: member.workspace.as_ref()?,
            };
            Some((guest, runner))
        })
    }

    /// What the user should know of agents that are programs and that nothing holds.
    pub fn unheld(&self) -> Vec<String> {
        let unheld = self
            .members
            .iter()
            .filter(|member| is_unheld(&member.config));
        let told = |member: &Member| {
            format!(
                "nothing holds the program of {}: it is given no path for writing but its workspace",
                member.id
            )
        };
        unheld.map(told).collect()
    }

    /// The models of `line`, each program among them in the place where it lives in a phase.
    pub(super) fn seated(
        &self,
        member: &Member,
        gate: Option<&Gate>,
        models: Vec<Model>,
    ) -> Vec<Model> {
        let lodging = || {
            let (commands, command) = self.shells.as_ref()?.guest(&member.id)?;
            let (gate, ground) = (gate?, self.server_ground.as_ref()?);
            let log = format!("{}.{}.log", member.id, gate.phase());
            Some(Seat {
                command: command.clone(),
                lodging: Lodging {
                    gate: gate.clone(),
                    commands: commands.clone(),
                    tools: member.config.tools.clone(),
                    log: ground.logs.join(log),
                    redactor: ground.redactor.clone(),
                },
            })
        };
        let Some(seat) = lodging() else {
            return models;
        };
        let place = |model: Model| match model.backend.seated(&seat) {
            Some(backend) => Model { backend, ..model },
            None => model,
        };
        models.into_iter().map(place).collect()
    }
}

/// Whether an agent is a program of its own that nothing holds.
fn is_unheld(agent: &AgentConfig) -> bool {
    let guest = agent.backend.guest.as_ref();
    guest.is_some_and(|guest| guest.held.sandbox == TierChoice::Only(Tier::Off))
}

/// What is given to an agent: one that nothing holds gets no path of the user's for writing.
pub(super) fn held_back(agent: &AgentConfig, mut grants: Vec<Grant>) -> Vec<Grant> {
    let users = |grant: &&mut Grant| grant.kind == GrantKind::Context && is_unheld(agent);
    for grant in grants.iter_mut().filter(users) {
        grant.permission = Permission::Read;
    }
    grants
}

/// How an agent does its work. One that is a program has tools of its own.
pub(super) fn work(agent: &AgentConfig) -> Work {
    match (&agent.programs, &agent.backend.guest) {
        (_, Some(_)) => Work::ByItself,
        (Some(_), None) => Work::ByPrograms,
        (None, None) => Work::ByCalls,
    }
}
