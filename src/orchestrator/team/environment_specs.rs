//! Which processes of a team need environments, and how the commands, checks and hooks in them run.

use std::collections::BTreeMap;

use crate::config::AgentConfig;
use crate::config::checks::ChecksConfig;
use crate::config::command_line::CommandLineConfig;
use crate::config::execution_mode::ExecutionMode;
use crate::orchestrator::environments::EnvironmentSpecs;
use crate::orchestrator::process_specs::CodeModeSpec;
use crate::orchestrator::process_specs::EnvironmentSpec;
use crate::orchestrator::team::{AgentTeam, DeliveryAccess, TeamMember};
use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::program_environment::ProgramEnvironment;

impl AgentTeam {
    /// Returns the processes that need environments.
    pub fn environment_specs(&self) -> EnvironmentSpecs<'_> {
        EnvironmentSpecs {
            commands: self.command_specs().collect(),
            checks: self.check_specs().collect(),
            programs: self.code_mode_specs().collect(),
            servers: self.server_specs().collect(),
            external_agents: self.external_agent_specs().collect(),
            subagent_programs: self.subagent_program_specs().collect(),
            hooks: self.hook_specs().collect(),
            members: &self.members,
        }
    }

    /// Returns the members with hooks, and how the hooks run. In a replay there are none, because
    /// their answers are recorded.
    pub fn hook_specs(&self) -> impl Iterator<Item = EnvironmentSpec<'_>> {
        let members = self.members.iter().filter(|member| {
            self.delivery_access == DeliveryAccess::ReadWrite && !member.config.hooks.is_empty()
        });
        members.map(|member| EnvironmentSpec {
            id: &member.id,
            config: &member.hooks,
            grants: &member.grants,
            workspace: member.workspace.as_ref().unwrap_or(&self.base),
        })
    }

    /// Returns the members in code mode.
    fn code_mode_specs(&self) -> impl Iterator<Item = CodeModeSpec<'_>> {
        self.members.iter().filter_map(|member| {
            Some(CodeModeSpec {
                environment: EnvironmentSpec {
                    id: &member.id,
                    config: member.programs.as_ref()?,
                    grants: &member.grants,
                    workspace: member.workspace.as_ref()?,
                },
                dialect: member.config.programs?.dialect,
                tools: &member.config.tools,
            })
        })
    }

    /// Returns the members that may run commands.
    fn command_specs(&self) -> impl Iterator<Item = EnvironmentSpec<'_>> {
        self.members.iter().filter_map(|member| {
            Some(EnvironmentSpec {
                id: &member.id,
                config: member.config.commands.as_ref()?,
                grants: &member.grants,
                workspace: member.workspace.as_ref()?,
            })
        })
    }

    /// Returns the members whose work is checked, and how the checks run: like the agent's
    /// commands, without the lists of commands, which apply to agents. So does the setup command.
    fn check_specs(&self) -> impl Iterator<Item = EnvironmentSpec<'_>> {
        let is_checked = self.has_checks() || self.has_setup();
        let members = self.members.iter().filter(move |_| is_checked);
        members.map(|member| EnvironmentSpec {
            id: &member.id,
            config: &member.checks,
            grants: &member.check_grants,
            workspace: member.workspace.as_ref().unwrap_or(&self.base),
        })
    }

    /// Returns the environment of checks on `member`'s work, once it exists.
    pub(crate) fn check_environment(&self, member: &TeamMember) -> Option<&ExecEnvironment> {
        let environments = self.resources.environments.as_ref()?;
        environments.check_environment(&member.id)
    }

    /// Returns the environment of `member`'s commands, once it exists.
    pub(super) fn command_environment(&self, member: &TeamMember) -> Option<&ExecEnvironment> {
        self.resources
            .environments
            .as_ref()?
            .command_environment(&member.id)
    }

    /// Returns the environment of `member`'s programs, once it exists.
    pub(super) fn program_environment(&self, member: &TeamMember) -> Option<&ProgramEnvironment> {
        self.resources
            .environments
            .as_ref()?
            .program_environment(&member.id)
    }
}

/// Returns how hooks about an agent with these commands run: on this machine, without a network
/// unless the hook has one, and without the user's variables.
pub(super) fn hook_command_config(commands: Option<&CommandLineConfig>) -> CommandLineConfig {
    CommandLineConfig {
        mode: ExecutionMode::default(),
        network: NetworkPolicy::Off,
        env: BTreeMap::new(),
        ..command_config_of_checks(commands, None)
    }
}

/// Returns how these checks run on the work of `agent`.
pub(super) fn check_commands(agent: &AgentConfig, checks: &ChecksConfig) -> CommandLineConfig {
    let commands = checks.commands.as_ref().or(agent.commands.as_ref());
    command_config_of_checks(commands, checks.sandbox)
}

/// Returns how checks run on the work of an agent with these commands: without the user's lists of
/// commands, which apply only to agents.
pub fn command_config_of_checks(
    commands: Option<&CommandLineConfig>,
    sandbox: Option<SandboxLevelChoice>,
) -> CommandLineConfig {
    let commands = commands.cloned().unwrap_or_default();
    CommandLineConfig {
        allowed: None,
        blocked: Vec::new(),
        sandbox: sandbox.unwrap_or(commands.sandbox),
        ..commands
    }
}
