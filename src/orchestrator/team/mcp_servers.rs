//! The MCP servers of a run's members: the sandbox of each, where its output goes, and what members
//! share.

use std::sync::Arc;

use tokio::sync::mpsc::WeakSender;

use crate::agent::recorded_conversation::RecordedConversation;
use crate::call_rules::{CallRule, CallRules};
use crate::config::command_line::CommandLineConfig;
use crate::config::execution_mode::ExecutionMode;
use crate::config::servers::{
    InstanceSharing, ProgramPlace, ServerConfig, ServerProgram, ServerTransport,
};
use crate::config::{AgentConfig, PlanningMode, ToolFilter};
use crate::error::{Error, ErrorKind, Result};
use crate::world::io::event_sink::QueuedEvent;

use crate::id::AgentId;
use crate::orchestrator::grants;
use crate::orchestrator::process_specs::EnvironmentSpec;
use crate::orchestrator::team::{AgentTeam, DeliveryAccess, TeamMember, command_config_of_checks};
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, GrantKind, Phase};
use crate::tools::served::{SEPARATOR, SERVED_PREFIX, ServerName, ToolCatalogue, is_served_name};
use crate::world::access::gate::Gate;
use crate::world::access::policy::GatePolicy;
use crate::world::mcp::packages::PackageStore;
use crate::world::mcp::tokens::TokenFile;
use crate::world::mcp::{McpServers, ServerListener, ServerSetup, SideEffectPolicy};
use crate::world::store::redact::Redactor;

/// A server of one agent.
#[derive(Clone, Debug)]
pub(super) struct MemberServer {
    config: Arc<ServerConfig>,
    /// How it is sandboxed, if it is a program.
    sandbox_config: Option<CommandLineConfig>,
}

/// What the servers of a run use of the user and of the run.
#[derive(Clone, Debug)]
pub struct ServerContext {
    /// The directory for their standard error.
    pub logs: AbsPath,
    /// Removes the secrets that their output must not contain.
    pub redactor: Redactor,
    /// The user's OAuth tokens, if they have a home directory.
    pub tokens: Option<TokenFile>,
    /// The packages that the user has installed for servers, if they have a home directory.
    pub packages: Option<PackageStore>,
    /// The channel for events about their progress, as long as a run continues.
    pub events: Option<WeakSender<QueuedEvent>>,
}

impl AgentTeam {
    /// Returns the servers that are programs, and how they are sandboxed. In a replay there are
    /// none, because their answers are recorded.
    pub(super) fn server_specs(&self) -> impl Iterator<Item = (&ServerName, EnvironmentSpec<'_>)> {
        let members = self
            .members
            .iter()
            .filter(|_| self.delivery_access == DeliveryAccess::ReadWrite);
        members.flat_map(|member| {
            let workspace = member.workspace.as_ref().unwrap_or(&self.base);
            member.servers.iter().filter_map(move |server| {
                let spec = EnvironmentSpec {
                    id: &member.id,
                    config: server.sandbox_config.as_ref()?,
                    grants: &member.grants,
                    workspace,
                };
                Some((server.config.name(), spec))
            })
        })
    }

    /// Returns the servers of `member` in `phase`, none of them started; `None` if it has none.
    pub(super) fn servers(&self, member: &TeamMember, phase: Phase) -> Option<McpServers> {
        let context = self.resources.server_context.as_ref()?;
        if member.servers.is_empty() || self.delivery_access == DeliveryAccess::ReadOnly {
            return None;
        }
        let environments = self.resources.environments.as_ref();
        let approvals = self.resources.approvals.as_ref();
        let seconds = member.config.permissions.approval_timeout_seconds();
        let setup = |server: &MemberServer| {
            let name = server.config.name();
            ServerSetup {
                config: Arc::clone(&server.config),
                agent: member.id.clone(),
                agents: self.agents_with(&server.config),
                environment: environments
                    .and_then(|environments| environments.server_environment(&member.id, name))
                    .cloned(),
                log: context.logs.join(if server.config.is_shared() {
                    format!("{name}.shared.log")
                } else {
                    format!("{}.{name}.{phase}.log", member.id)
                }),
                redactor: context.redactor.clone(),
                tokens: context.tokens.clone(),
                packages: context.packages.clone(),
                listener: context.events.clone().map(|events| ServerListener {
                    server: name.clone(),
                    events,
                    person: approvals.and_then(|broker| broker.elicitation_responder(seconds)),
                }),
            }
        };
        let side_effects = match (&self.config.orchestrator.planning, phase) {
            (PlanningMode::On { .. }, Phase::Coordination | Phase::Attempt) => {
                SideEffectPolicy::Deferred
            }
            (PlanningMode::On { .. }, Phase::Final) | (PlanningMode::Off, _) => {
                SideEffectPolicy::Open
            }
        };
        let setups = member.servers.iter().map(setup).collect();
        Some(McpServers::new(
            setups,
            &server_tool_filter(&member.config),
            side_effects,
            &self.tool_lists,
            &self.server_pool,
        ))
    }

    /// Returns the members that have this server.
    fn agents_with(&self, server: &Arc<ServerConfig>) -> Vec<AgentId> {
        let has_server = |member: &&TeamMember| {
            let mut servers = member.servers.iter();
            servers.any(|other| Arc::ptr_eq(&other.config, server))
        };
        let members = self.members.iter().filter(has_server);
        members.map(|member| member.id.clone()).collect()
    }

    /// Returns warnings about rules of `member` for servers that match none of the tools that these
    /// offer. A server that is left out of the run offers none.
    pub(super) fn unmatched_rule_warnings(
        &self,
        member: &TeamMember,
        offered: &ToolCatalogue,
    ) -> Vec<String> {
        let servers = member.servers.iter();
        let used_servers = servers.filter(|server| !self.tool_lists.is_left_out(&server.config));
        unmatched_rule_warnings(&member.rules, used_servers, offered)
    }

    /// Fails if a recorded conversation would continue without a server whose calls have to be made
    /// again: their effects would be missing in the delivery.
    pub(super) fn require_called_servers(
        &self,
        member: &TeamMember,
        recorded: &RecordedConversation,
    ) -> Result<()> {
        let is_missing = |server: &&MemberServer| {
            let name = server.config.name();
            self.tool_lists.is_left_out(&server.config)
                && recorded.repeats_calls_of(&format!("{SERVED_PREFIX}{name}{SEPARATOR}"))
        };
        let Some(missing_server) = member.servers.iter().find(is_missing) else {
            return Ok(());
        };
        let message = format!(
            "`{}` has called tools of the server `{}`, which cannot be used now",
            member.id,
            missing_server.config.name()
        );
        Err(Error::new(ErrorKind::Environment, message)
            .with_hint("a warning says why; resume the run when the server works again"))
    }

    /// Returns the gate for the servers that `member` shares with others: it covers those context
    /// paths for which all members have the same grant. Returns `None` if it shares no server that
    /// is a program.
    pub(super) fn shared_server_gate(&self, member: &TeamMember) -> Result<Option<Gate>> {
        let is_shared = |server: &MemberServer| match &server.config.transport {
            ServerTransport::Program(program) => program.instances == InstanceSharing::One,
            ServerTransport::Remote(_) => false,
        };
        if !member.servers.iter().any(is_shared) {
            return Ok(None);
        }
        let is_common = |grant: &&Grant| {
            let mut members = self.members.iter();
            grant.kind == GrantKind::Context && members.all(|other| other.grants.contains(grant))
        };
        let grants: Vec<Grant> = member.grants.iter().filter(is_common).cloned().collect();
        let policy = GatePolicy::minimal(grants::real_path(&self.base)?);
        Gate::open(
            grants::permission_manager(&grants, Phase::Coordination),
            policy,
        )
        .map(Some)
    }
}

/// Returns the servers of an agent and how each is sandboxed: like the agent's commands, but with
/// its own network and variables. A shared program is sandboxed without any agent's settings. Only
/// those for which the config says so run in containers.
pub(super) fn member_servers(agent: &AgentConfig) -> Vec<MemberServer> {
    let external_agent = agent.backend.external_agent.as_ref();
    let own_level = external_agent.map(|external_agent| external_agent.sandbox.sandbox);
    let program_config = |program: &ServerProgram| {
        let (commands, sandbox) = match program.instances {
            InstanceSharing::PerAgent => (agent.commands.as_ref(), own_level),
            InstanceSharing::One => (None, None),
        };
        CommandLineConfig {
            mode: program_mode(&program.run_in, commands),
            network: program.network.clone(),
            env: program.env.clone(),
            ..command_config_of_checks(commands, sandbox)
        }
    };
    let member_server = |config: &Arc<ServerConfig>| MemberServer {
        sandbox_config: match &config.transport {
            ServerTransport::Remote(_) => None,
            ServerTransport::Program(program) => Some(program_config(program)),
        },
        config: Arc::clone(config),
    };
    agent.servers.iter().map(member_server).collect()
}

/// Returns where a program runs, for an agent with these commands.
fn program_mode(run_in: &ProgramPlace, commands: Option<&CommandLineConfig>) -> ExecutionMode {
    match run_in {
        ProgramPlace::Sandbox => ExecutionMode::default(),
        ProgramPlace::Container { image } => {
            let docker = commands.and_then(|commands| commands.mode.container());
            let docker = docker.cloned().unwrap_or_default();
            ExecutionMode::Docker(Box::new(docker.for_server(image.as_ref())))
        }
    }
}

/// Returns which tools of servers an agent uses. A list that names only native tools of an external
/// agent does not restrict them.
fn server_tool_filter(agent: &AgentConfig) -> ToolFilter {
    let is_external = agent.backend.external_agent.is_some();
    let names_servers =
        |list: &Vec<String>| !is_external || list.iter().any(|entry| is_served_name(entry));
    ToolFilter {
        allowed: agent.tools.allowed.clone().filter(names_servers),
        excluded: agent.tools.excluded.clone(),
    }
}

/// Returns warnings about `rules` for `servers` that match none of the tools that these offer.
fn unmatched_rule_warnings<'a>(
    rules: &CallRules,
    servers: impl Iterator<Item = &'a MemberServer>,
    offered: &ToolCatalogue,
) -> Vec<String> {
    let names: Vec<&str> = offered.names().collect();
    let warnings_about = |server: &MemberServer| {
        // A tool that the server's own keys exclude need not be offered.
        let server_rules = server.config.call_rules();
        let server = server.config.name().as_str();
        let rules = rules
            .unmatched_at_server(server, &names)
            .filter(|rule| server_rules.iter().all(|server_rule| server_rule != *rule));
        let warning = |rule: &CallRule| format!("`{rule}` matches no tool of `{server}`");
        rules.map(warning).collect::<Vec<_>>()
    };
    servers.flat_map(warnings_about).collect()
}
