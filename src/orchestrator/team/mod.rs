//! Owns the members of a run: each agent's grants, tools, texts and model, put together once. The
//! same values feed a dry run, so that what it shows is what would be sent.

mod external_agents;
pub mod mcp_servers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::Sender;

use crate::agent::budget::AgentBudget;
use crate::agent::recorded_conversation::RecordedConversation;
use crate::agent::{ModelSession, emit};
use crate::backend::AvailableModel;
use crate::backend::conversation::Conversation;
use crate::call_rules::CallRules;
use crate::code_mode::offer;
use crate::config::checks::ChecksConfig;
use crate::config::code_mode::CodeModeConfig;
use crate::config::command_line::{CommandLineConfig, ExecutionMode};
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
use crate::orchestrator::review::DeliverySettings;
use crate::orchestrator::team::mcp_servers::{
    MemberServer, ServerContext, member_servers, unmatched_rule_warnings,
};
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::AccessHistory;
use crate::prompts::commands::{CommandAccess, IsolationKind};
use crate::prompts::{self, SystemPromptInput, WorkspaceOutput};
use crate::sandbox_policy::network::NetworkPolicy;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::spending::ledger::BudgetLedger;
use crate::tools::spec::ToolOffer;
use crate::tools::tool_selection::{CommandOffering, DirectoryNaming, ToolSelection};
use crate::tools::workflow;
use crate::world::delivery::store::OpenDelivery;
use crate::world::exec::server_calls;
use crate::world::exec_environment::ExecEnvironment;
use crate::world::gate::Gate;
use crate::world::hook_runner::{HookRunner, HookSandbox};
use crate::world::mcp::{ConnectionPool, ToolListCache};
use crate::world::overlay::WriteOverlay;
use crate::world::policy::{ConflictPolicy, GatePolicy, ParentDirPolicy};
use crate::world::program_environment::ProgramEnvironment;

/// One agent with all that it works with.
#[derive(Debug)]
pub struct TeamMember {
    /// Its own name.
    pub id: AgentId,
    /// Its anonymous name.
    pub number: AgentNumber,
    /// Its workspace, if it has one.
    pub workspace: Option<AbsPath>,
    /// Everything that is opened for it, in both phases.
    pub grants: Vec<Grant>,
    /// What the config says about it.
    pub config: AgentConfig,
    /// What `permissions` says about its commands and tools.
    rules: Arc<CallRules>,
    /// How checks on its work are run.
    checks: CommandLineConfig,
    /// How hooks about it are run.
    hooks: CommandLineConfig,
    /// What holds its programs, if it works by them.
    programs: Option<CommandLineConfig>,
    /// Its servers.
    servers: Vec<MemberServer>,
    history: Arc<Mutex<AccessHistory>>,
}

impl TeamMember {
    /// The user's paths that it writes to, with what people have agreed to meanwhile.
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

    /// What it can make in its workspace.
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

    /// Where relative paths of its calls begin, if its guard or its workspace says so.
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
    conflicts: Option<ConflictPolicy>,
    delivery_access: DeliveryAccess,
    environments: Option<AgentEnvironments>,
    server_context: Option<ServerContext>,
    /// What the servers of the run have said of their tools.
    tool_lists: ToolListCache,
    /// The servers that members share.
    server_pool: ConnectionPool,
    delivery_settings: Option<DeliverySettings>,
    overlays: Option<OverlayFactory>,
    approvals: Option<ApprovalBroker>,
    hook_context: Option<HookRunContext>,
    /// What has been said of servers: they start anew for each phase, and say it again.
    reported: Mutex<BTreeSet<String>>,
}

/// How far the final agent reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryAccess {
    /// It writes what the grants open for writing.
    ReadWrite,
    /// It writes nothing of the user's: a run that is played again delivers nothing.
    ReadOnly,
}

impl AgentTeam {
    /// Follows all paths and puts the team together. Nothing is created and nobody is called.
    pub fn assemble(
        config: &Config,
        layout: &RunLayout,
        base: &AbsPath,
        inherited: InheritedPaths<'_>,
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
            });
        }
        let (config, base) = (config.clone(), base.clone());
        Ok(Self {
            members,
            config,
            base,
            conflicts: None,
            delivery_access: DeliveryAccess::ReadWrite,
            environments: None,
            server_context: None,
            tool_lists: ToolListCache::default(),
            server_pool: ConnectionPool::default(),
            delivery_settings: None,
            overlays: None,
            approvals: None,
            hook_context: None,
            reported: Mutex::default(),
        })
    }

    /// From now on a final agent does not replace what the user changed since the run began.
    pub fn set_conflicts(&mut self, conflicts: ConflictPolicy) {
        self.conflicts = Some(conflicts);
    }

    /// From now on what the final agent offers is delivered so.
    pub fn set_delivery_settings(&mut self, deliveries: DeliverySettings) {
        self.delivery_settings = Some(deliveries);
    }

    /// Begins the delivery of a final agent, if it delivers anything.
    pub async fn start_delivery(&self) -> Result<Option<Arc<OpenDelivery>>> {
        match self.delivery_settings() {
            Some((how, _)) => how.start_delivery().await.map(Some),
            None => Ok(None),
        }
    }

    /// How what the final agent offers is delivered, and the conflicts with what the user does
    /// meanwhile; `None` where nothing is.
    pub fn delivery_settings(&self) -> Option<(&DeliverySettings, &ConflictPolicy)> {
        match self.delivery_access {
            DeliveryAccess::ReadWrite => {
                Some((self.delivery_settings.as_ref()?, self.conflicts.as_ref()?))
            }
            DeliveryAccess::ReadOnly => None,
        }
    }

    /// Whose processes need something to run in.
    pub fn environment_specs(&self) -> EnvironmentSpecs<'_> {
        EnvironmentSpecs {
            commands: self.command_specs().collect(),
            checks: self.check_specs().collect(),
            programs: self.code_mode_specs().collect(),
            servers: self.server_specs().collect(),
            external_agents: self.external_agent_specs().collect(),
            hooks: self.hook_specs().collect(),
        }
    }

    /// Those that hooks are asked about, and how these are run. Those of a run that is played again have
    /// answered.
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

    /// Refuses hooks that could not be run or are not the user's own.
    pub fn validate_hooks(&self, machine: &HostEnvironment) -> Result<()> {
        match self.delivery_access {
            DeliveryAccess::ReadWrite => hooks::validate(&self.members, &self.base, machine),
            DeliveryAccess::ReadOnly => Ok(()),
        }
    }

    /// From now on what hooks say is told there.
    pub fn set_hook_context(&mut self, ground: HookRunContext) {
        self.hook_context = Some(ground);
    }

    /// Where the files of a run of this team would lie.
    pub fn layout(&self, number: u32) -> RunLayout {
        RunLayout::plan(&self.config, &self.base, RunName::new(number))
    }

    /// The hooks about `member`, if there are any.
    pub fn hooks(&self, member: &TeamMember) -> Result<Option<HookRunner>> {
        if member.config.hooks.is_empty() || self.delivery_access == DeliveryAccess::ReadOnly {
            return Ok(None);
        }
        let commands = self
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
        let ground = self.hook_context.as_ref();
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

    /// What hooks may read: the directory that massgen was started in, and what the agent may. They are
    /// the user's own, and rules about the agent's calls are not about them.
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

    /// The members that work by programs.
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

    /// The members that may run commands.
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

    /// Whose work is checked, and how the checks are run: as the agent's commands, but for the lists
    /// of commands, which are about agents. Without checks, nobody's.
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

    /// What tells whether answers hold.
    pub fn checks(&self) -> &ChecksConfig {
        &self.config.checks
    }

    /// Whether checks run at all. Those of a run that is played again have run.
    fn has_checks(&self) -> bool {
        !self.config.checks.list.is_empty() && self.delivery_access == DeliveryAccess::ReadWrite
    }

    /// What examines answers and deliveries, if the config has checks and something is made to
    /// deliver from.
    pub fn check_runner(&self) -> Option<CheckRunner> {
        let checks = &self.config.checks.list;
        let wings = self.overlays.clone().filter(|_| self.has_checks())?;
        let candidate = |member: &TeamMember| {
            let commands = self.environments.as_ref()?.check_environment(&member.id);
            let candidate = CheckedAgent {
                grants: member.grants.clone(),
                commands: commands.cloned(),
            };
            Some((member.id.clone(), candidate))
        };
        let candidates = self.members.iter().filter_map(candidate).collect();
        Some(CheckRunner::new(checks.clone(), candidates, wings))
    }

    /// From now on `asker` asks about the calls that `permissions` has asked. A socket that an agent
    /// could put its own in the place of is an error.
    pub fn set_approval_broker(&mut self, asker: ApprovalBroker) -> Result<()> {
        if let Some(socket) = asker.socket() {
            // A socket is nothing that could be granted; what holds it may be.
            let holder = socket.parent().unwrap_or_else(AbsPath::top);
            let real = grants::real_path(&holder)?;
            let mut grants = self.members.iter().flat_map(|member| &member.grants);
            let is_open = |grant: &&Grant| {
                grant.permission == Permission::Write && grant.relative_path(&real).is_some()
            };
            if let Some(grant) = grants.find(is_open) {
                let message = format!(
                    "agents may write to `{}`, where the answers come from",
                    grant.root
                );
                return Err(Error::new(ErrorKind::Config, message)
                    .with_hint("name a socket in a directory that is not opened to them"));
            }
        }
        self.approvals = Some(asker);
        Ok(())
    }

    /// From now on agents that may run commands run them in these.
    pub fn set_environments(&mut self, shells: AgentEnvironments) {
        self.environments = Some(shells);
    }

    /// From now on final agents work on stages that are made from these.
    pub fn set_overlays(&mut self, wings: OverlayFactory) {
        self.overlays = Some(wings);
    }

    /// Removes what nobody needs any more of what was changed on stages. Nobody works on one.
    pub fn clear_overlays(&self, rest: PendingDelivery) -> Result<()> {
        match &self.overlays {
            Some(wings) => wings.clear(rest),
            None => Ok(()),
        }
    }

    /// The stage of `member` as the final agent of an attempt, if it has one, and what the user should
    /// know of it.
    pub async fn open_overlay(
        &self,
        member: &TeamMember,
        attempt: u32,
    ) -> Result<(Option<WriteOverlay>, Vec<String>)> {
        match (&self.overlays, self.delivery_access) {
            (Some(wings), DeliveryAccess::ReadWrite) => {
                let commands = self.command_environment(member);
                let performance = OverlayPurpose::Final(attempt);
                wings.open(performance, &member.grants, commands).await
            }
            (Some(_), DeliveryAccess::ReadOnly) | (None, _) => Ok((None, Vec::new())),
        }
    }

    /// From now on nobody writes to the user's paths, not even the final agent.
    pub fn disable_delivery(&mut self) {
        self.delivery_access = DeliveryAccess::ReadOnly;
    }

    /// The member with this anonymous name.
    pub fn member(&self, number: AgentNumber) -> Option<&TeamMember> {
        self.members.iter().find(|member| member.number == number)
    }

    /// The gate of `member` for `phase`, on a stage if there is one; `None` if nothing is opened for
    /// it.
    pub fn gate(
        &self,
        member: &TeamMember,
        phase: Phase,
        stage: Option<&WriteOverlay>,
    ) -> Result<Option<Gate>> {
        let seconds = member.config.permissions.approval_timeout_seconds();
        let consult = self.approvals.as_ref();
        let policy = GatePolicy {
            read_before_delete: member.config.read_before_delete,
            servers: self.servers(member, phase),
            hooks: self.hooks(member)?,
            shared_gate: self.shared_server_gate(member)?,
            approver: consult.map(|asker| asker.approver_for(&member.id, seconds)),
            ..self.gate_policy(member, stage)?
        };
        self.open_gate(member, phase, policy)
    }

    /// The gate that carries the winner's files to the user, or to `stage` where it has not done so
    /// itself.
    pub fn delivery_gate(
        &self,
        member: &TeamMember,
        stage: Option<&WriteOverlay>,
    ) -> Result<Option<Gate>> {
        self.open_gate(member, Phase::Final, self.gate_policy(member, stage)?)
    }

    /// What every gate of `member` holds to.
    fn gate_policy(&self, member: &TeamMember, stage: Option<&WriteOverlay>) -> Result<GatePolicy> {
        let base = grants::real_path(member.working_directory().as_ref().unwrap_or(&self.base))?;
        Ok(GatePolicy {
            parents: match member.config.folder_guard {
                FolderGuard::Off | FolderGuard::Role { .. } => ParentDirPolicy::Followed,
                FolderGuard::On { .. } => ParentDirPolicy::Refused,
            },
            history: Arc::clone(&member.history),
            conflicts: self.conflicts.clone(),
            commands: self.command_environment(member).cloned(),
            programs: self.program_environment(member).cloned(),
            bases: self
                .delivery_settings
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
    ) -> Result<Option<Gate>> {
        if member.grants.is_empty() && policy.servers.is_none() {
            return Ok(None);
        }
        let phase = match self.delivery_access {
            DeliveryAccess::ReadWrite => phase,
            DeliveryAccess::ReadOnly => Phase::Coordination,
        };
        Gate::open(grants::permission_manager(&member.grants, phase), policy).map(Some)
    }

    /// Whether nothing like `message` has been said of servers before.
    fn is_new_message(&self, message: &str) -> bool {
        let mut said = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(message.to_owned())
    }

    /// What `member`'s model is told first in `phase`.
    pub fn system_prompt(&self, member: &TeamMember, phase: Phase) -> String {
        let places = grants::describe_grants(&grants::permission_manager(&member.grants, phase));
        let workspace = member.workspace.as_ref().map(ToString::to_string);
        let begin = member.working_directory();
        let begin = begin.filter(|begin| Some(begin) != member.workspace.as_ref());
        let begin = begin.as_ref().map(ToString::to_string);
        let standing = SystemPromptInput {
            begin: begin.as_deref(),
            system_message: member.config.system_message.as_deref(),
            me: member.number,
            agents: self.members.len(),
            sensitivity: self.config.orchestrator.voting_sensitivity,
            planning: &self.config.orchestrator.planning,
            places: &places,
            workspace: workspace.as_deref(),
            output: member.workspace_output(),
            shell: self.command_access(member),
            work: external_agents::work_mode(&member.config),
            checks: &self.config.checks.list,
        };
        match phase {
            Phase::Coordination => prompts::coordination_system(&standing),
            Phase::Final => {
                let roots = grants::write_roots(&member.grants);
                let roots: Vec<String> = roots.iter().map(|g| g.root.to_string()).collect();
                prompts::final_system(&standing, &roots)
            }
        }
    }

    /// What the commands of `member` run in, once that is made.
    fn command_environment(&self, member: &TeamMember) -> Option<&ExecEnvironment> {
        self.environments.as_ref()?.command_environment(&member.id)
    }

    /// What the programs of `member` run in, once that is made.
    fn program_environment(&self, member: &TeamMember) -> Option<&ProgramEnvironment> {
        self.environments.as_ref()?.program_environment(&member.id)
    }

    /// What `member` is told about its commands, if it may run some. As long as nothing is made,
    /// as in a dry run, the config alone says so.
    fn command_access<'a>(&self, member: &'a TeamMember) -> Option<CommandAccess<'a>> {
        let (commands, Some(_)) = (member.config.commands.as_ref()?, &member.workspace) else {
            return None;
        };
        let shells = self.environments.as_ref();
        if shells.is_some_and(|shells| shells.is_rejected(&member.id)) {
            return None;
        }
        let tier = match commands.sandbox {
            SandboxLevelChoice::Only(tier) => tier,
            SandboxLevelChoice::Auto => self
                .command_environment(member)
                .map_or(SandboxLevel::A, ExecEnvironment::sandbox_level),
        };
        Some(CommandAccess {
            network: &commands.network,
            isolation: match (&commands.mode, tier) {
                (ExecutionMode::Docker(_), _) => IsolationKind::Container,
                (ExecutionMode::Local, SandboxLevel::A | SandboxLevel::B | SandboxLevel::D) => {
                    IsolationKind::PrivateNamespaces
                }
                (ExecutionMode::Local, SandboxLevel::C) => IsolationKind::SharedWithHost,
                (ExecutionMode::Local, SandboxLevel::Off) => IsolationKind::Unsandboxed,
            },
        })
    }

    /// The tools that `member` is offered in `phase`.
    pub fn tools(&self, member: &TeamMember, phase: Phase) -> Arc<[ToolOffer]> {
        let permissions = grants::permission_manager(&member.grants, phase);
        let menu = ToolSelection {
            allowed: member.config.tools.allowed.as_deref(),
            excluded: &member.config.tools.excluded,
            permissions: &permissions,
            directories: match member.config.folder_guard {
                FolderGuard::Off => DirectoryNaming::Unnamed,
                FolderGuard::On { .. } | FolderGuard::Role { .. } => DirectoryNaming::Named,
            },
            commands: CommandOffering::from_environment(self.command_access(member).as_ref()),
        };
        let mut offers = match (
            &member.config.backend.external_agent,
            member.config.programs,
        ) {
            (Some(_), _) => Vec::new(),
            (None, Some(programs)) => offer::offers(programs.dialect, &offer::callable_tools(menu)),
            (None, None) => menu.offers(),
        };
        if phase == Phase::Coordination {
            offers.extend(workflow::coordination_offers(self.members.len()));
        }
        offers.into()
    }

    /// `member` with its conversation begun: `task` is told.
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
                .model_session(member, (Phase::Coordination, None), task, line)
                .await?,
        })
    }

    /// A new conversation of `member` in `phase`, on a stage if there is one, with `first` told. Its
    /// servers are met: one that cannot be used is an error.
    pub async fn model_session(
        &self,
        member: &TeamMember,
        (phase, stage): (Phase, Option<&WriteOverlay>),
        first: &str,
        line: ModelConnection,
    ) -> Result<ModelSession> {
        let gate = self.gate(member, phase, stage)?;
        if let Some(gate) = &gate {
            let mut said = server_calls::connect(gate).await?;
            said.extend(unmatched_rule_warnings(
                &member.rules,
                &member.servers,
                &gate.catalogue(),
            ));
            for message in said {
                if self.is_new_message(&message) {
                    emit(&line.events, RunEvent::Warning { message }).await;
                }
            }
        }
        let left = line
            .recorded
            .as_ref()
            .map_or(0, |memory| memory.models_left);
        let last = line.models.len().saturating_sub(1);
        let models = self.with_agent_launcher(member, gate.as_ref(), line.models);
        let mut mind = ModelSession {
            agent: member.id.clone(),
            models: models.into_iter().skip(left.min(last)).collect(),
            phase,
            system: self.system_prompt(member, phase).into(),
            tools: self.tools(member, phase),
            served: Arc::default(),
            gate,
            conversation: Conversation::default(),
            pending_images: Vec::new(),
            steps_max: member.config.steps_per_round_max,
            deadline: None,
            budget: AgentBudget::new(member.id.clone(), line.ledger),
            recorded: line.recorded,
            events: line.events,
        };
        mind.load_served_tools();
        mind.add_user_message(first);
        Ok(mind)
    }
}

/// How hooks about an agent with these commands are run: on this machine, without a network unless the
/// hook has one, and without variables of the user's.
fn hook_command_config(commands: Option<&CommandLineConfig>) -> CommandLineConfig {
    CommandLineConfig {
        mode: ExecutionMode::Local,
        network: NetworkPolicy::Off,
        env: BTreeMap::new(),
        ..check_command_config(commands, None)
    }
}

/// How checks are run on the work of an agent with these commands: what the user lists is about what
/// agents may run.
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

/// How a conversation reaches its model, and who hears of it.
#[derive(Clone, Debug)]
pub struct ModelConnection {
    /// The model, and after it those that are asked when it cannot go on.
    pub models: Vec<AvailableModel>,
    /// What is charged for it.
    pub ledger: Arc<Mutex<BudgetLedger>>,
    /// What is recorded of it, where a run is gone on with.
    pub recorded: Option<RecordedConversation>,
    /// Where events go.
    pub events: Sender<Event>,
}
