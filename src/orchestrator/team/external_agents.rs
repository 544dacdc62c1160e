//! External agents in a team: the sandbox of each in a phase, and the grants that an unsandboxed
//! one does not get.

use std::collections::BTreeMap;

use crate::backend::available_model::AvailableModel;
use crate::config::AgentConfig;
use crate::config::external_agents::ExternalAgentConfig;
use crate::error::Result;
use crate::orchestrator::environments::PreparedProgram;
use crate::orchestrator::process_specs::EnvironmentSpec;
use crate::orchestrator::process_specs::SubagentProgramSpec;
use crate::orchestrator::team::{AgentTeam, DeliveryAccess, TeamMember};
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::prompts::WorkMode;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::world::access::gate::Gate;
use crate::world::exec::agent_launcher::{AgentLaunchSetup, AgentLauncher};

impl AgentTeam {
    /// Returns the external agents. In a replay there are none, because their output is recorded.
    pub(super) fn external_agent_specs(
        &self,
    ) -> impl Iterator<Item = (&ExternalAgentConfig, EnvironmentSpec<'_>)> {
        let members = self
            .members
            .iter()
            .filter(|_| self.delivery_access == DeliveryAccess::ReadWrite);
        members.filter_map(|member| {
            let external_agent = member.config.backend.external_agent.as_deref()?;
            let spec = EnvironmentSpec {
                id: &member.id,
                config: &external_agent.sandbox,
                grants: &member.grants,
                workspace: member.workspace.as_ref()?,
            };
            Some((external_agent, spec))
        })
    }

    /// Returns the external agents that may work as subagents of the members. In a replay there are
    /// none, because their output is recorded.
    pub(super) fn subagent_program_specs(&self) -> impl Iterator<Item = SubagentProgramSpec<'_>> {
        let members = self.members.iter().filter(|member| {
            self.delivery_access == DeliveryAccess::ReadWrite
                && self.subagent_limits(member).is_some()
        });
        members.flat_map(|member| {
            let models = member.config.backend.subagent_models.iter().enumerate();
            models.filter_map(move |(index, model)| {
                let program = model.backend.external_agent.as_deref()?;
                let environment = EnvironmentSpec {
                    id: &member.id,
                    config: &program.sandbox,
                    grants: &member.grants,
                    workspace: member.workspace.as_ref()?,
                };
                Some(SubagentProgramSpec {
                    index,
                    program,
                    environment,
                })
            })
        })
    }

    /// Returns what starts the external agents that may work as subagents of `member`, by the names
    /// of the models, in a conversation with this gate.
    pub(super) fn subagent_launch_setups(
        &self,
        member: &TeamMember,
        gate: Option<&Gate>,
    ) -> BTreeMap<String, AgentLaunchSetup> {
        let environments = self.resources.environments.as_ref();
        let (Some(gate), Some(environments)) = (gate, environments) else {
            return BTreeMap::new();
        };
        let models = member.config.backend.subagent_models.iter().enumerate();
        let setups = models.filter_map(|(index, model)| {
            let program = environments.subagent_program(&member.id, index)?;
            let log = format!("{}.{}.{}.log", member.id, gate.phase(), model.name);
            let setup = self.launch_setup(member, gate, program, &log)?;
            Some((model.name.clone(), setup))
        });
        setups.collect()
    }

    /// Returns what starts `program` for `member` in a conversation with this gate; its messages go
    /// to the file `log`. `None` if there are no logs.
    fn launch_setup(
        &self,
        member: &TeamMember,
        gate: &Gate,
        program: &PreparedProgram,
        log: &str,
    ) -> Option<AgentLaunchSetup> {
        let context = self.resources.server_context.as_ref()?;
        Some(AgentLaunchSetup {
            command: program.command.clone(),
            launcher: AgentLauncher {
                gate: gate.clone(),
                commands: program.environment.clone(),
                tools: member.config.tools.clone(),
                log: context.logs.join(log),
                redactor: context.redactor.clone(),
            },
        })
    }

    /// Returns the notes for the user about unsandboxed external agents.
    pub fn unsandboxed_notes(&self) -> Vec<String> {
        let unsandboxed_members = self
            .members
            .iter()
            .filter(|member| is_unsandboxed(&member.config));
        let note_about = |member: &TeamMember| {
            format!(
                "the program of {} runs without a sandbox: its workspace is its only write path",
                member.id
            )
        };
        unsandboxed_members.map(note_about).collect()
    }

    /// Returns the models of `member` as they can be asked in the coordination phase without the
    /// gate of a conversation.
    pub(in crate::orchestrator) fn launchable_models(
        &self,
        member: &TeamMember,
        models: Vec<AvailableModel>,
    ) -> Result<Vec<AvailableModel>> {
        let gate = self.gate(member, Phase::Coordination, None)?;
        Ok(self.with_agent_launcher(member, gate.as_ref(), models))
    }

    /// Returns the models, with the sandbox of this phase set for each external agent.
    pub(super) fn with_agent_launcher(
        &self,
        member: &TeamMember,
        gate: Option<&Gate>,
        models: Vec<AvailableModel>,
    ) -> Vec<AvailableModel> {
        let launch_setup = || {
            let environments = self.resources.environments.as_ref()?;
            let (program, gate) = (environments.external_agent(&member.id)?, gate?);
            let log = format!("{}.{}.log", member.id, gate.phase());
            self.launch_setup(member, gate, program, &log)
        };
        let Some(setup) = launch_setup() else {
            return models;
        };
        let models = models.into_iter();
        models.map(|model| model.with_launcher(&setup)).collect()
    }
}

/// Returns whether an agent is an external agent without a sandbox.
fn is_unsandboxed(agent: &AgentConfig) -> bool {
    let external_agent = agent.backend.external_agent.as_ref();
    external_agent.is_some_and(|external_agent| {
        external_agent.sandbox.sandbox == SandboxLevelChoice::Only(SandboxLevel::Off)
    })
}

/// Restricts an agent's grants: an unsandboxed external agent may not write to the user's paths.
pub(super) fn drop_unenforceable_grants(agent: &AgentConfig, mut grants: Vec<Grant>) -> Vec<Grant> {
    let is_user_path =
        |grant: &&mut Grant| grant.kind == GrantKind::Context && is_unsandboxed(agent);
    for grant in grants.iter_mut().filter(is_user_path) {
        grant.permission = Permission::Read;
    }
    grants
}

/// Returns how an agent works. An external agent has native tools.
pub(super) fn work_mode(agent: &AgentConfig) -> WorkMode {
    match (&agent.programs, &agent.backend.external_agent) {
        (_, Some(_)) => WorkMode::NativeTools,
        (Some(_), None) => WorkMode::Programs,
        (None, None) => WorkMode::ToolCalls,
    }
}
