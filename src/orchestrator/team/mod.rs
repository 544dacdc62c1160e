//! The members of a run: each agent's grants, tools, prompts and model, assembled once. A dry run
//! uses the same values, so that it shows what would be sent.

mod external_agents;
pub mod mcp_servers;
mod model_input;
pub mod project_instructions;
pub mod skills;
mod subagent_types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::Sender;

use crate::agent::budget::AgentBudget;
use crate::agent::crowding::ContextCrowding;
use crate::agent::debug_pause::DebugPause;
use crate::agent::message_reader::MessageReader;
use crate::agent::recorded_conversation::RecordedConversation;
use crate::agent::vendor_tools::VendorRequestCount;
use crate::agent::{ModelSession, emit};
use crate::backend::AvailableModel;
use crate::backend::conversation::Conversation;
use crate::call_rules::CallRules;
use crate::config::checks::ChecksConfig;
use crate::config::code_mode::CodeModeConfig;
use crate::config::command_line::CommandLineConfig;
use crate::config::execution_mode::ExecutionMode;
use crate::config::{AgentConfig, Config};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, RunEvent};
use crate::hooks::request::HookContext;
use crate::id::{AgentId, AgentNumber};
use crate::layout::{RunLayout, RunName};
use crate::orchestrator::approvals::ApprovalBroker;
use crate::orchestrator::check_runner::{CheckRunner, CheckedAgent};
use crate::orchestrator::coordination::Participant;
use crate::orchestrator::environments::{
    AgentEnvironments, CodeModeSpec, EnvironmentSpec, EnvironmentSpecs, HostEnvironment,
};
use crate::orchestrator::grants::{self, ContextGrants, InheritedPaths, apply_path_rules};
use crate::orchestrator::hooks::{self, HookRunContext, LoggingHookObserver};
use crate::orchestrator::overlays::{OverlayFactory, OverlayPurpose, PendingDelivery};
use crate::orchestrator::program_files::reject_agent_writable_programs;
use crate::orchestrator::review::DeliverySettings;
use crate::orchestrator::team::mcp_servers::{
    MemberServer, ServerContext, member_servers, unmatched_rule_warnings,
};
use crate::orchestrator::team::model_input::{media_kinds, vendor_tools};
use crate::orchestrator::team::project_instructions::ProjectInstructions;
use crate::orchestrator::team::skills::AgentSkills;
use crate::orchestrator::team::subagent_types::SubagentTypes;
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::AccessHistory;
use crate::prompts::WorkspaceOutput;
use crate::prompts::memory::MemoryPrompt;
use crate::sandbox_policy::network::NetworkPolicy;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;
use crate::spending::ledger::BudgetLedger;
use crate::tools::spec::PAGES;
use crate::tools::tool_selection::names_any;
use crate::world::access::gate::Gate;
use crate::world::access::hook_runner::{HookRunner, HookSandbox};
use crate::world::access::policy::{ConflictPolicy, GatePolicy, ParentDirPolicy};
use crate::world::delivery::store::OpenDelivery;
use crate::world::exec::server_calls;
use crate::world::io::page_fetcher::{PageAccess, PageFetcher};
use crate::world::mcp::{ConnectionPool, ToolListCache};
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sandbox::program_environment::ProgramEnvironment;

/// One agent and all that it works with.
#[derive(Debug)]
pub struct TeamMember {
    /// Its own name.
    pub id: AgentId,
    /// Its anonymous number.
    pub number: AgentNumber,
    /// Its workspace, if it has one.
    pub workspace: Option<AbsPath>,
    /// All its grants, for both phases.
    pub grants: Vec<Grant>,
    /// Its config.
    pub config: AgentConfig,
    /// The rules of `permissions` for its commands and tools.
    rules: Arc<CallRules>,
    /// How checks on its work run.
    checks: CommandLineConfig,
    /// How hooks about it run.
    hooks: CommandLineConfig,
    /// How its programs run, in code mode.
    programs: Option<CommandLineConfig>,
    /// Its servers.
    servers: Vec<MemberServer>,
    history: Arc<Mutex<AccessHistory>>,
    /// The instructions that the opened directories keep for agents.
    instructions: ProjectInstructions,
    /// The skills that it is offered.
    skills: AgentSkills,
}

impl TeamMember {
    /// Returns the instructions that the directories that are open to it keep for agents.
    pub fn instructions(&self) -> &ProjectInstructions {
        &self.instructions
    }

    /// Returns the user's paths that it may write to, including what people have approved
    /// meanwhile.
    pub fn write_grants(&self) -> Vec<Grant> {
        let agreed = self
            .history
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .approved_paths();
        let with_consent = |grant: &Grant| Grant {
            ruled: grant
                .ruled
                .iter()
                .map(|rule| rule.with_approvals(&agreed))
                .collect(),
            ..grant.clone()
        };
        let roots = grants::write_roots(&self.grants).into_iter();
        roots.map(with_consent).collect()
    }

    /// Returns what it can produce in its workspace.
    fn workspace_output(&self) -> WorkspaceOutput {
        let is_own = |grant: &Grant| {
            grant.kind == GrantKind::Workspace && grant.permission == Permission::Write
        };
        if self.grants.iter().any(is_own) {
            WorkspaceOutput::Files
        } else {
            WorkspaceOutput::Nothing
        }
    }

    /// Returns the directory for relative paths of its calls, if its guard or its workspace sets
    /// one.
    fn working_directory(&self) -> Option<AbsPath> {
        let workspace = self.workspace.as_ref();
        match self.config.folder_guard.resolve(workspace) {
            Some(guarded) => guarded.root,
            None => workspace.cloned(),
        }
    }
}

/// The members of a run in registration order.
#[derive(Debug)]
pub struct AgentTeam {
    /// The members.
    pub members: Vec<TeamMember>,
    config: Config,
    base: AbsPath,
    delivery_access: DeliveryAccess,
    resources: TeamResources,
    /// The tool lists that the servers of the run have sent.
    tool_lists: ToolListCache,
    /// What reads pages of the Web.
    page_fetcher: PageFetcher,
    /// The servers that members share.
    server_pool: ConnectionPool,
    /// The messages about servers that have been emitted: servers restart for each phase, and
    /// repeat them.
    reported: Mutex<BTreeSet<String>>,
    /// The sessions whose skills are offered, if the config says so.
    session_skills: Option<AbsPath>,
    /// Messages about directories with skills that are not used.
    skill_notices: Vec<String>,
    /// The types that agents may give their subagents.
    subagent_types: SubagentTypes,
    /// The notes of earlier sessions, if the config keeps notes.
    pub(super) memory: Option<MemoryPrompt>,
}

/// What the members of a team work with. A dry run has none of it, and a single call only what it
/// needs.
#[derive(Debug, Default)]
pub struct TeamResources {
    /// The environments in which agents' commands run.
    pub environments: Option<AgentEnvironments>,
    /// Where servers write their output; without it, none is started.
    pub server_context: Option<ServerContext>,
    /// The policy that a final agent does not overwrite what the user changed since the run began.
    pub conflicts: Option<ConflictPolicy>,
    /// How the final agent's changes are delivered.
    pub delivery: Option<DeliverySettings>,
    /// Creates the final agents' overlays.
    pub overlays: Option<OverlayFactory>,
    /// Requests approval of the calls for which `permissions` requires it.
    pub approvals: Option<ApprovalBroker>,
    /// Where hooks are reported.
    pub hook_context: Option<HookRunContext>,
}

/// Write access of the final agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryAccess {
    /// It may write where the grants allow it.
    ReadWrite,
    /// It may write to none of the user's paths: a replay delivers nothing.
    ReadOnly,
}

impl AgentTeam {
    /// Resolves all paths and assembles the team, without resources. Nothing is created and no
    /// model is asked.
    pub fn assemble(
        config: &Config,
        layout: &RunLayout,
        base: &AbsPath,
        inherited: InheritedPaths<'_>,
        delivery_access: DeliveryAccess,
    ) -> Result<Self> {
        let context = ContextGrants::resolve(config, layout, inherited)?;
        let mut sorted: Vec<&AgentId> = config.agents.iter().map(|agent| &agent.id).collect();
        sorted.sort();
        let shares_files = config.agents.iter().any(|agent| agent.cwd.is_some());
        let temp = shares_files.then_some(&layout.temp_workspaces);
        let mut members = Vec::new();
        for agent in &config.agents {
            let index = sorted
                .iter()
                .position(|id| **id == agent.id)
                .unwrap_or_default();
            let workspace = layout
                .workspaces
                .get(&agent.id)
                .map(|workspace| workspace.path.clone());
            members.push(TeamMember {
                id: agent.id.clone(),
                number: AgentNumber::from_index(index),
                grants: apply_path_rules(
                    external_agents::drop_unenforceable_grants(
                        agent,
                        context.agent_grants(agent, workspace.as_ref(), temp)?,
                    ),
                    &agent.permissions.rules,
                    base,
                )?,
                rules: Arc::new(agent.permissions.rules.clone()),
                workspace,
                config: agent.clone(),
                checks: check_command_config(agent.commands.as_ref(), config.checks.sandbox),
                hooks: hook_command_config(agent.commands.as_ref()),
                programs: agent.programs.as_ref().map(CodeModeConfig::sandbox_config),
                servers: member_servers(agent),
                history: Arc::default(),
                instructions: ProjectInstructions::default(),
                skills: AgentSkills::default(),
            });
        }
        let has_session_skills = config.orchestrator.skills.from_sessions;
        let session_skills = has_session_skills.then(|| layout.sessions.clone());
        let (config, base) = (config.clone(), base.clone());
        Ok(Self {
            members,
            config,
            base,
            delivery_access,
            resources: TeamResources::default(),
            tool_lists: ToolListCache::default(),
            page_fetcher: PageFetcher::default(),
            server_pool: ConnectionPool::default(),
            reported: Mutex::default(),
            session_skills,
            skill_notices: Vec::new(),
            subagent_types: SubagentTypes::default(),
            memory: None,
        })
    }

    /// Returns the team with what it works with.
    #[must_use]
    pub fn with_resources(self, resources: TeamResources) -> Self {
        Self { resources, ..self }
    }

    /// Starts the delivery of a final agent, if it delivers anything.
    pub async fn start_delivery(&self) -> Result<Option<Arc<OpenDelivery>>> {
        match self.delivery_settings() {
            Some((how, _)) => how.start_delivery().await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns how the final agent's changes are delivered, and the policy for conflicts with the
    /// user's changes; `None` if nothing is delivered.
    pub fn delivery_settings(&self) -> Option<(&DeliverySettings, &ConflictPolicy)> {
        match self.delivery_access {
            DeliveryAccess::ReadWrite => {
                let TeamResources {
                    delivery,
                    conflicts,
                    ..
                } = &self.resources;
                delivery.as_ref().zip(conflicts.as_ref())
            }
            DeliveryAccess::ReadOnly => None,
        }
    }

    /// Returns the directory that relative paths of the calls of `member` start from.
    pub fn working_directory(&self, member: &TeamMember) -> AbsPath {
        let own = member.working_directory();
        own.unwrap_or_else(|| self.base.clone())
    }

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
        }
    }

    /// Returns the members with hooks, and how the hooks run. In a replay there are none, because
    /// their answers are recorded.
    pub fn hook_specs(&self) -> impl Iterator<Item = EnvironmentSpec<'_>> {
        let members = self.members.iter();
        let members = members.filter(|member| {
            self.delivery_access == DeliveryAccess::ReadWrite && !member.config.hooks.is_empty()
        });
        members.map(|member| EnvironmentSpec {
            id: &member.id,
            config: &member.hooks,
            grants: &member.grants,
            workspace: member.workspace.as_ref().unwrap_or(&self.base),
        })
    }

    /// Rejects hooks that cannot run or that an agent can write to.
    pub fn validate_hooks(&self, machine: &HostEnvironment) -> Result<()> {
        match self.delivery_access {
            DeliveryAccess::ReadWrite => hooks::validate(&self.members, &self.base, machine),
            DeliveryAccess::ReadOnly => Ok(()),
        }
    }

    /// Rejects servers and tools with variables or a network of their own whose program an agent can
    /// write to.
    ///
    /// # Errors
    /// There is one.
    pub fn validate_programs(&self) -> Result<()> {
        match self.delivery_access {
            DeliveryAccess::ReadWrite => reject_agent_writable_programs(&self.members, &self.base),
            DeliveryAccess::ReadOnly => Ok(()),
        }
    }

    /// Returns the paths of a run of this team, with the state directory in `state_parent`.
    pub fn layout(&self, number: u32, state_parent: &AbsPath) -> RunLayout {
        RunLayout::plan(&self.config, state_parent, RunName::new(number))
    }

    /// Returns the hooks about `member`, if there are any.
    pub fn hooks(&self, member: &TeamMember) -> Result<Option<HookRunner>> {
        if member.config.hooks.is_empty() || self.delivery_access == DeliveryAccess::ReadOnly {
            return Ok(None);
        }
        let commands = self
            .resources
            .environments
            .as_ref()
            .and_then(|shells| shells.hook_environment(&member.id));
        let held = match commands {
            None => None,
            Some(commands) => Some(HookSandbox {
                commands: commands.clone(),
                readable: self.hook_read_permissions(member)?,
            }),
        };
        let ground = self.resources.hook_context.as_ref();
        let setting = HookContext {
            session_id: ground.map(|ground| ground.session_id.clone()),
            project: grants::real_path(&self.base)?.to_abs(),
            agent: Some(member.id.clone()),
            workspace: member.workspace.clone(),
        };
        let witness = match ground {
            Some(ground) => ground.observer(&member.id),
            None => Arc::new(LoggingHookObserver),
        };
        let listed = member.config.hooks.clone();
        Ok(Some(HookRunner::new(listed, setting, held, witness)))
    }

    /// Returns what hooks may read: the directory that massgen was started in, and what the agent
    /// may read. Hooks are the user's own, and rules about the agent's calls do not apply to them.
    fn hook_read_permissions(&self, member: &TeamMember) -> Result<PathPermissionManager> {
        let project = grants::real_path(&self.base)?;
        let project = Grant::tree(project, GrantKind::Context, Permission::Read);
        let agents = member.grants.iter().map(|grant| Grant {
            permission: Permission::Read,
            ruled: Arc::default(),
            ..grant.clone()
        });
        let grants = std::iter::once(project).chain(agents).collect();
        Ok(PathPermissionManager::new(grants, Phase::Coordination))
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
    /// commands, without the lists of commands, which apply to agents. Without checks, there are
    /// none.
    fn check_specs(&self) -> impl Iterator<Item = EnvironmentSpec<'_>> {
        let is_checked = self.has_checks();
        let members = self.members.iter().filter(move |_| is_checked);
        members.map(|member| EnvironmentSpec {
            id: &member.id,
            config: &member.checks,
            grants: &member.grants,
            workspace: member.workspace.as_ref().unwrap_or(&self.base),
        })
    }

    /// Returns the config of the checks.
    pub fn checks(&self) -> &ChecksConfig {
        &self.config.checks
    }

    /// Returns whether checks run at all. In a replay they do not, because their results are
    /// recorded.
    fn has_checks(&self) -> bool {
        !self.config.checks.list.is_empty() && self.delivery_access == DeliveryAccess::ReadWrite
    }

    /// Returns the runner of checks on answers and deliveries, if the config has checks and
    /// overlays are set.
    pub fn check_runner(&self) -> Option<CheckRunner> {
        let checks = &self.config.checks.list;
        let wings = self
            .resources
            .overlays
            .clone()
            .filter(|_| self.has_checks())?;
        let candidate = |member: &TeamMember| {
            let shells = self.resources.environments.as_ref()?;
            let candidate = CheckedAgent {
                grants: member.grants.clone(),
                commands: shells.check_environment(&member.id).cloned(),
                keeps_memory: self.memory.is_some(),
            };
            Some((member.id.clone(), candidate))
        };
        let candidates = self.members.iter().filter_map(candidate).collect();
        Some(CheckRunner::new(checks.clone(), candidates, wings))
    }

    /// Fails if an agent could replace the socket of `broker`.
    pub fn protect_socket(&self, broker: &ApprovalBroker) -> Result<()> {
        match broker.socket() {
            // A socket cannot be granted itself; its directory can.
            Some(socket) => {
                let holder = socket.parent().unwrap_or_else(AbsPath::top);
                self.protect_directory(&holder, "the approval socket")
            }
            None => Ok(()),
        }
    }

    /// Refuses a `directory` that agents may write to: they could act as the user there. `content`
    /// says what is in it.
    pub fn protect_directory(&self, directory: &AbsPath, content: &str) -> Result<()> {
        let real = grants::real_path(directory)?;
        let mut grants = self.members.iter().flat_map(|member| &member.grants);
        let is_open = |grant: &&Grant| {
            grant.permission == Permission::Write && grant.relative_path(&real).is_some()
        };
        let Some(grant) = grants.find(is_open) else {
            return Ok(());
        };
        let message = format!(
            "agents may write to `{}`, the location of {content}",
            grant.root
        );
        Err(Error::new(ErrorKind::Config, message)
            .with_hint("use a directory that is not open to them"))
    }

    /// Removes overlays that are no longer needed. None may be in use.
    pub fn clear_overlays(&self, rest: PendingDelivery) -> Result<()> {
        match &self.resources.overlays {
            Some(wings) => wings.clear(rest),
            None => Ok(()),
        }
    }

    /// Opens the overlay of `member` as the final agent of an attempt, if it gets one, and returns
    /// notes for the user.
    pub async fn open_overlay(
        &self,
        member: &TeamMember,
        attempt: u32,
    ) -> Result<(Option<WriteOverlay>, Vec<String>)> {
        match (&self.resources.overlays, self.delivery_access) {
            (Some(wings), DeliveryAccess::ReadWrite) => {
                let commands = self.command_environment(member);
                let performance = OverlayPurpose::Final(attempt);
                wings.open(performance, &member.grants, commands).await
            }
            (Some(_), DeliveryAccess::ReadOnly) | (None, _) => Ok((None, Vec::new())),
        }
    }

    /// Returns the member with this anonymous number.
    pub fn member(&self, number: AgentNumber) -> Option<&TeamMember> {
        self.members.iter().find(|member| member.number == number)
    }

    /// Returns the gate of `member` for `phase`, with an overlay if there is one; `None` if it has
    /// no grants and no tools that need none.
    pub fn gate(
        &self,
        member: &TeamMember,
        phase: Phase,
        stage: Option<&WriteOverlay>,
    ) -> Result<Option<Gate>> {
        let seconds = member.config.permissions.approval_timeout_seconds();
        let consult = self.resources.approvals.as_ref();
        let policy = GatePolicy {
            read_before_delete: member.config.read_before_delete,
            servers: self.servers(member, phase),
            plan_entries_max: self.plan_entries_max(member),
            plan_file: self.plan_file(member),
            pages: self.page_access(member),
            vendor_tools: vendor_tools(&member.config),
            media: media_kinds(&member.config),
            subagents: self.subagent_limits(member),
            hooks: self.hooks(member)?,
            approver: consult.map(|asker| asker.approver_for(&member.id, seconds)),
            ..self.gate_policy(member, stage)?
        };
        self.open_gate(member, phase, policy, self.shared_server_gate(member)?)
    }

    /// Returns the pages that `member` may read; `None` if the config opens no host to it, in a
    /// replay, which reads nothing, and for external agents, which have tools of their own.
    fn page_access(&self, member: &TeamMember) -> Option<PageAccess> {
        let is_external = member.config.backend.external_agent.is_some();
        let is_excluded = names_any(&member.config.tools.excluded, PAGES);
        let is_replay = self.delivery_access == DeliveryAccess::ReadOnly;
        let hosts = &member.config.pages;
        let is_closed = *hosts == NetworkPolicy::Off || is_external || is_excluded || is_replay;
        (!is_closed).then(|| PageAccess {
            hosts: hosts.clone(),
            fetcher: self.page_fetcher.clone(),
        })
    }

    /// Returns the gate that copies the winner's files to the user's paths, or to the overlay
    /// `stage`, if the winner has not done so itself.
    pub fn delivery_gate(
        &self,
        member: &TeamMember,
        stage: Option<&WriteOverlay>,
    ) -> Result<Option<Gate>> {
        self.open_gate(member, Phase::Final, self.gate_policy(member, stage)?, None)
    }

    /// Returns the policy that all gates of `member` share.
    fn gate_policy(&self, member: &TeamMember, stage: Option<&WriteOverlay>) -> Result<GatePolicy> {
        let base = grants::real_path(&self.working_directory(member))?;
        Ok(GatePolicy {
            parents: match member.config.folder_guard {
                FolderGuard::Off | FolderGuard::Role { .. } => ParentDirPolicy::Followed,
                FolderGuard::On { .. } => ParentDirPolicy::Refused,
            },
            history: Arc::clone(&member.history),
            conflicts: self.resources.conflicts.clone(),
            commands: self.command_environment(member).cloned(),
            programs: self.program_environment(member).cloned(),
            bases: self
                .resources
                .delivery
                .as_ref()
                .map(|how| how.merge_bases.clone()),
            overlay: stage.cloned(),
            rules: Arc::clone(&member.rules),
            ..GatePolicy::single_call(base)
        })
    }

    fn open_gate(
        &self,
        member: &TeamMember,
        phase: Phase,
        policy: GatePolicy,
        shared_servers: Option<Gate>,
    ) -> Result<Option<Gate>> {
        if member.grants.is_empty() && !policy.has_tools_without_files() {
            return Ok(None);
        }
        let phase = match self.delivery_access {
            DeliveryAccess::ReadWrite => phase,
            DeliveryAccess::ReadOnly => Phase::Coordination,
        };
        let manager = grants::permission_manager(&member.grants, phase);
        Gate::open_with_shared_servers(manager, policy, shared_servers).map(Some)
    }

    /// Returns whether `message` about servers is new, and remembers it.
    fn is_new_message(&self, message: &str) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.insert(message.to_owned())
    }

    /// Returns the environment of `member`'s commands, once it exists.
    fn command_environment(&self, member: &TeamMember) -> Option<&ExecEnvironment> {
        self.resources
            .environments
            .as_ref()?
            .command_environment(&member.id)
    }

    /// Returns the environment of `member`'s programs, once it exists.
    fn program_environment(&self, member: &TeamMember) -> Option<&ProgramEnvironment> {
        self.resources
            .environments
            .as_ref()?
            .program_environment(&member.id)
    }

    /// Returns `member` with its conversation started, with `task` as its first message.
    pub async fn participant(
        &self,
        member: &TeamMember,
        task: &str,
        line: ModelConnection,
    ) -> Result<Participant> {
        Ok(Participant {
            hooks: self.hooks(member)?,
            id: member.id.clone(),
            number: member.number,
            workspace: member.workspace.clone(),
            session: self
                .model_session(member, Phase::Coordination, None, task, line)
                .await?,
        })
    }

    /// Starts a conversation of `member` in `phase`, with an overlay if there is one, and `first`
    /// as its first message. Connects to its servers: one that cannot be used is an error.
    pub async fn model_session(
        &self,
        member: &TeamMember,
        phase: Phase,
        stage: Option<&WriteOverlay>,
        first: &str,
        line: ModelConnection,
    ) -> Result<ModelSession> {
        let gate = self.gate(member, phase, stage)?;
        if let Some(gate) = &gate {
            let mut warnings = server_calls::connect(gate).await?;
            warnings.extend(unmatched_rule_warnings(
                &member.rules,
                &member.servers,
                &gate.catalogue(),
            ));
            for message in warnings {
                if self.is_new_message(&message) {
                    emit(&line.events, RunEvent::Warning { message }).await;
                }
            }
        }
        let abandoned_models = line
            .recorded
            .as_ref()
            .map_or(0, |memory| memory.models_left);
        let last = line.models.len().saturating_sub(1);
        let subagents = self.subagent_setup(member, phase);
        let is_resumed = line.recorded.is_some();
        let programs = self.subagent_launchers(member, gate.as_ref());
        let subagents =
            subagents.map(|setup| setup.for_resumed(is_resumed).with_programs(programs));
        let models = self.with_agent_launcher(member, gate.as_ref(), line.models);
        let mut mind = ModelSession {
            agent: member.id.clone(),
            models: models
                .into_iter()
                .skip(abandoned_models.min(last))
                .collect(),
            phase,
            system: self.system_prompt(member, phase).into(),
            tools: self.tools(member, phase),
            served: Arc::default(),
            gate,
            conversation: Conversation::default(),
            pending_images: Vec::new(),
            steps_max: member.config.steps_per_round_max,
            deadline: None,
            tools_until: None,
            budget: AgentBudget::new(member.id.clone(), line.ledger),
            plan: Mutex::new(
                line.recorded
                    .as_ref()
                    .and_then(|memory| memory.plan.clone()),
            ),
            recorded: line.recorded,
            messages: line.messages,
            events: line.events,
            subagents,
            crowding: ContextCrowding::new(&self.config.orchestrator),
            debug_pause: member.config.debug_delay.map(DebugPause::new),
            vendor_requests: VendorRequestCount::default(),
            paid_media: self.paid_media(member, phase),
            call_scope: None,
        };
        mind.load_served_tools();
        mind.add_user_message(first);
        for message in mind.add_task_images(Self::mentioned_images(member)).await {
            if self.is_new_message(&message) {
                mind.emit(RunEvent::Warning { message }).await;
            }
        }
        Ok(mind)
    }
}

/// Returns how hooks about an agent with these commands run: on this machine, without a network
/// unless the hook has one, and without the user's variables.
fn hook_command_config(commands: Option<&CommandLineConfig>) -> CommandLineConfig {
    CommandLineConfig {
        mode: ExecutionMode::default(),
        network: NetworkPolicy::Off,
        env: BTreeMap::new(),
        ..check_command_config(commands, None)
    }
}

/// Returns how checks run on the work of an agent with these commands: without the user's lists of
/// commands, which apply only to agents.
pub fn check_command_config(
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

/// Connection of a conversation to its model, and the channel for its events.
#[derive(Debug)]
pub struct ModelConnection {
    /// The model, followed by its fallbacks.
    pub models: Vec<AvailableModel>,
    /// The ledger that its requests are charged to.
    pub ledger: Arc<Mutex<BudgetLedger>>,
    /// The recorded part of it, in a resumed run.
    pub recorded: Option<RecordedConversation>,
    /// The messages of the user.
    pub messages: MessageReader,
    /// The event channel.
    pub events: Sender<Event>,
}
