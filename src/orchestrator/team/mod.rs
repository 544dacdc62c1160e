//! The members of a run: each agent's grants, tools, prompts and model, assembled once. A dry run
//! uses the same values, so that it shows what would be sent.

mod environment_specs;
mod external_agents;
mod hooks;
pub mod mcp_servers;
mod conversations;
mod model_input;
mod gates;
pub mod project_instructions;
pub mod skills;
mod subagent_types;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;

use crate::answer_changes::ChangeLayers;
use crate::call_rules::CallRules;
use crate::config::checks::ChecksConfig;
use crate::config::command_line::{CodeModeConfig, CommandLineConfig};
use crate::config::{AgentConfig, Config, OrchestratorConfig, PlanningMode, WriteMode};
use crate::error::{Error, ErrorKind, Result};
use crate::id::{AgentId, AgentNumber};
use crate::layout::{RunLayout, RunName};
use crate::orchestrator::approvals::ApprovalBroker;
use crate::orchestrator::attempts::Attempt;
use crate::orchestrator::check_runner::{CheckRunner, CheckedAgent, CheckedWorkspace};
use crate::orchestrator::environments::{AgentEnvironments, LayerVisibility};
use crate::orchestrator::grants::copy_all_call;
use crate::orchestrator::grants::{
    self, ContextGrants, InheritedPaths, apply_path_rules, open_linked_repositories,
};
use crate::orchestrator::hooks::HookRunContext;
use crate::orchestrator::overlays::{OverlayFactory, OverlayPurpose, PendingDelivery};
use crate::orchestrator::program_files::{
    privileged_files, reject_agent_writable_files, reject_agent_writable_programs,
    reject_agent_writable_subagent,
};
use crate::orchestrator::review::{DeliverySettings, Reviewer};
pub use crate::orchestrator::team::conversations::ModelConnection;
pub use crate::orchestrator::team::environment_specs::command_config_of_checks;
use crate::orchestrator::team::environment_specs::hook_command_config;
use crate::orchestrator::team::mcp_servers::{MemberServer, ServerContext, member_servers};
use crate::orchestrator::team::project_instructions::ProjectInstructions;
use crate::orchestrator::team::skills::AgentSkills;
use crate::orchestrator::team::subagent_types::SubagentTypes;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::AccessHistory;
use crate::prompts::WorkspaceOutput;
use crate::prompts::memory::MemoryPrompt;
use crate::tools::call::{SUBAGENTS_DIRECTORY, ToolCall};
use crate::world::access::gate::Gate;
use crate::world::access::policy::ConflictPolicy;
use crate::world::delivery::store::OpenDelivery;
use crate::world::io::page_fetcher::PageFetcher;
use crate::world::mcp::ConnectionPool;
use crate::world::mcp::tool_list_cache::ToolListCache;
use crate::world::sandbox::disk_watch::DiskReserve;
use crate::world::sandbox::overlay::{LayerOrigin, WriteOverlay};
use crate::world::store::memory::MEMORY;

/// Why an agent works without an attempt although its layer could be made.
const HIDDEN_LAYER: &str = "its sandbox cannot show it a private layer";

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
    /// Where it writes in its write paths before the delivery.
    pub(super) write_mode: WriteMode,
    /// Its config.
    pub config: AgentConfig,
    /// The rules of `permissions` for its commands and tools.
    rules: Arc<CallRules>,
    /// How checks on its work run.
    checks: CommandLineConfig,
    /// What they may access.
    check_grants: Vec<Grant>,
    /// How hooks about it run.
    hooks: CommandLineConfig,
    /// How its programs run, in code mode.
    programs: Option<CommandLineConfig>,
    servers: Vec<MemberServer>,
    /// What it has read and written, and what was approved.
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
        let approved_paths = self.history.lock().approved_paths();
        let with_approvals = |grant: &Grant| Grant {
            path_rules: grant
                .path_rules
                .iter()
                .map(|rule| rule.with_approvals(&approved_paths))
                .collect(),
            ..grant.clone()
        };
        let roots = grants::write_roots(&self.grants).into_iter();
        roots.map(with_approvals).collect()
    }

    /// Returns whether it has a role in a pipeline, so that its workspace is a whole checkout.
    pub(super) fn is_role(&self) -> bool {
        matches!(self.config.folder_guard, FolderGuard::Role { .. })
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

    /// Returns the directory for relative paths of its calls, if its guard, its attempt or its
    /// workspace sets one.
    fn working_directory(&self) -> Option<AbsPath> {
        let workspace = self.workspace.as_ref();
        match self.config.folder_guard.resolve(workspace) {
            Some(guarded) => guarded.root,
            None if self.write_mode == WriteMode::Attempts => {
                grants::first_write_tree(&self.grants).map(RealPath::to_abs)
            }
            None => workspace.cloned(),
        }
    }

    /// Lets it work without an attempt, and returns the note about it.
    fn leave_attempt(&mut self, reason: impl Display) -> String {
        self.write_mode = WriteMode::Legacy;
        let id = &self.id;
        format!(
            "{id} only reads the write paths before the final phase, as with `write_mode: legacy`: \
             {reason}"
        )
    }

    /// Returns the phase in which it works before the delivery.
    pub fn working_phase(&self) -> Phase {
        match self.write_mode {
            WriteMode::Attempts => Phase::Attempt,
            WriteMode::Legacy => Phase::Coordination,
        }
    }
}

/// The members of a run in registration order.
#[derive(Debug)]
pub struct AgentTeam {
    /// The members.
    pub members: Vec<TeamMember>,
    /// The files of the run itself that lie where its agents may write, and that are protected.
    pub(super) protected_files: BTreeSet<RealPath>,
    config: Config,
    /// The directory that massgen was started in.
    base: AbsPath,
    delivery_access: DeliveryAccess,
    resources: TeamResources,
    /// The tool lists that the servers of the run have sent.
    tool_lists: ToolListCache,
    /// What reads pages of the Web.
    page_fetcher: PageFetcher,
    /// The servers that members share.
    server_pool: ConnectionPool,
    /// The warnings that have been emitted: servers restart for each phase, and repeat theirs.
    reported_messages: Mutex<BTreeSet<String>>,
    /// The sessions whose skills are offered, if the config says so.
    session_skills: Option<AbsPath>,
    /// Whether workspaces begin with the files of an earlier turn.
    inherits_workspace: bool,
    /// Messages about members that work in no attempt although the config says so.
    attempt_notes: Vec<String>,
    /// Messages about directories with skills that are not used.
    skill_notices: Vec<String>,
    /// Whether a model has written the criteria by which voters score answers.
    has_generated_criteria: bool,
    /// The types of subagents that agents may start.
    subagent_types: SubagentTypes,
    /// The notes of earlier sessions, if the config keeps notes.
    pub(super) memory: Option<MemoryPrompt>,
    /// The warning about stored files that agents are not given as notes.
    pub(super) memory_warning: Option<String>,
    /// What its file tools leave free on each disk.
    pub(super) disk_reserve: DiskReserve,
}

/// The attempt of a member, as it begins.
#[derive(Debug)]
pub struct BegunAttempt {
    /// The attempt.
    pub attempt: Attempt,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// What its layer begins with.
    pub origin: LayerOrigin,
}

/// The resources of a team's members. A dry run has none of them, and a single call only those that
/// it needs.
#[derive(Debug, Default)]
pub struct TeamResources {
    /// The environments in which agents' commands run.
    pub environments: Option<AgentEnvironments>,
    /// The directory of the run's records.
    pub records: Option<AbsPath>,
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
        let named_files = config.agents.iter().flat_map(|agent| {
            let workspace = layout.workspaces.get(&agent.id);
            let workspace = workspace.map_or(base, |workspace| &workspace.path);
            privileged_files(agent, workspace, base)
        });
        let obeyed_files = inherited.own_files.iter().cloned();
        let own_files: Vec<AbsPath> = obeyed_files.chain(named_files).collect();
        let all_inherited = InheritedPaths {
            own_files: &own_files,
            ..inherited
        };
        let context = ContextGrants::resolve(config, layout, base, all_inherited)?;
        let mut sorted_ids: Vec<&AgentId> = config.agents.iter().map(|agent| &agent.id).collect();
        sorted_ids.sort();
        let shares_files = config.agents.iter().any(|agent| agent.cwd.is_some())
            && !config.orchestrator.strategy.is_independent();
        let temp_workspaces = shares_files.then_some(&layout.temp_workspaces);
        let mut members = Vec::new();
        let mut protected_files = BTreeSet::new();
        for agent in &config.agents {
            let index = sorted_ids.binary_search(&&agent.id).unwrap_or_default();
            let workspace = layout
                .workspaces
                .get(&agent.id)
                .map(|workspace| workspace.path.clone());
            let mut grants = context.agent_grants(agent, workspace.as_ref(), temp_workspaces)?;
            protected_files.extend(context.protect_own_files(&mut grants));
            let grants = apply_path_rules(
                external_agents::drop_unenforceable_grants(agent, grants),
                &agent.permissions.rules,
                base,
            )?;
            // A folder guard lists all that is open.
            let grants = match agent.folder_guard {
                FolderGuard::Off => open_linked_repositories(grants)?,
                FolderGuard::On { .. } | FolderGuard::Role { .. } => grants,
            };
            let check_grants = grants::check_grants(agent, workspace.as_ref(), &grants)?;
            members.push(TeamMember {
                id: agent.id.clone(),
                number: AgentNumber::from_index(index),
                write_mode: write_mode(&config.orchestrator, &grants),
                grants,
                rules: Arc::new(agent.permissions.rules.clone()),
                workspace,
                config: agent.clone(),
                checks: environment_specs::check_commands(agent, &config.checks),
                check_grants,
                hooks: hook_command_config(agent.commands.as_ref()),
                programs: agent.programs.as_ref().map(CodeModeConfig::sandbox_config),
                servers: member_servers(agent),
                history: Arc::default(),
                instructions: ProjectInstructions::default(),
                skills: AgentSkills::default(),
            });
        }
        reject_agent_writable_files(inherited.own_files, &members)?;
        let has_session_skills = config.orchestrator.skills.from_sessions;
        let session_skills = has_session_skills.then(|| layout.sessions.clone());
        let (config, base) = (config.clone(), base.clone());
        Ok(Self {
            members,
            protected_files,
            config,
            base,
            delivery_access,
            resources: TeamResources::default(),
            tool_lists: ToolListCache::default(),
            page_fetcher: PageFetcher::default(),
            server_pool: ConnectionPool::default(),
            reported_messages: Mutex::default(),
            session_skills,
            inherits_workspace: !inherited.workspaces.is_empty(),
            attempt_notes: Vec::new(),
            skill_notices: Vec::new(),
            has_generated_criteria: false,
            subagent_types: SubagentTypes::default(),
            memory: None,
            memory_warning: None,
            disk_reserve: DiskReserve::default(),
        })
    }

    /// Returns the team with these resources. Calls outside of a run are part of no attempt; nor is
    /// an agent whose sandbox cannot show its commands a private layer.
    #[must_use]
    pub fn with_resources(mut self, resources: TeamResources) -> Self {
        let attempting_members = self
            .members
            .iter_mut()
            .filter(|member| member.write_mode == WriteMode::Attempts);
        for member in attempting_members {
            let environments = resources.environments.as_ref();
            let visibility = environments.map(|some| some.layer_visibility(&member.id));
            if resources.overlays.is_none() {
                member.write_mode = WriteMode::Legacy;
            } else if visibility == Some(LayerVisibility::Hidden) {
                self.attempt_notes.push(member.leave_attempt(HIDDEN_LAYER));
            }
        }
        Self { resources, ..self }
    }

    /// Starts the delivery of a final agent, if it delivers anything.
    pub async fn start_delivery(&self) -> Result<Option<Arc<OpenDelivery>>> {
        match self.delivery_settings() {
            Some((settings, _)) => settings.start_delivery().await.map(Some),
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
        let own_directory = member.working_directory();
        own_directory.unwrap_or_else(|| self.base.clone())
    }

    /// Rejects servers, tools and external agents that work as subagents, with variables or a
    /// network of their own, whose program an agent can write to. Programs are looked up in `PATH`
    /// of `env`.
    ///
    /// # Errors
    /// There is one.
    pub fn validate_programs(&self, env: &BTreeMap<String, String>) -> Result<()> {
        match self.delivery_access {
            DeliveryAccess::ReadWrite => {
                let members = &self.members;
                reject_agent_writable_programs(members, &self.base, env)?;
                let mut specs = self.subagent_program_specs();
                specs.try_for_each(|spec| reject_agent_writable_subagent(&spec, members, env))
            }
            DeliveryAccess::ReadOnly => Ok(()),
        }
    }

    /// Returns the paths of a run of this team, with the state directory in `state_parent`.
    pub fn layout(&self, number: u32, state_parent: &AbsPath) -> RunLayout {
        RunLayout::plan(&self.config, state_parent, RunName::new(number))
    }

    /// Returns how many agents see each other's answers: one, where each answers alone.
    pub fn collaborators(&self) -> usize {
        if self.config.orchestrator.strategy.is_independent() {
            1
        } else {
            self.members.len()
        }
    }

    /// Returns the config of the checks.
    pub fn checks(&self) -> &ChecksConfig {
        &self.config.checks
    }

    /// Returns whether checks run at all. In a replay they do not, because their results are
    /// recorded.
    fn has_checks(&self) -> bool {
        !self.config.checks.is_empty() && self.delivery_access == DeliveryAccess::ReadWrite
    }

    /// Returns whether a setup command runs. In a replay it does not.
    fn has_setup(&self) -> bool {
        self.config.checks.setup.is_some() && self.delivery_access == DeliveryAccess::ReadWrite
    }

    /// Returns the names of the directories of workspaces that are not part of an answer: that of
    /// subagents, and that of notes for later agents, which are kept elsewhere.
    pub(super) fn left_out_of_answers(&self) -> Vec<&'static str> {
        let mut members = self.members.iter();
        let has_subagents = members.any(|member| self.subagent_limits(member).is_some());
        let subagents = has_subagents.then_some(SUBAGENTS_DIRECTORY);
        let memory = self.memory().map(|_| MEMORY);
        subagents.into_iter().chain(memory).collect()
    }

    /// Returns the notes for the user about members that work in no attempt although the config says
    /// so.
    pub(super) fn attempt_notes(&self) -> Vec<String> {
        self.attempt_notes.clone()
    }

    /// Returns what asks the user about deliveries, if anyone answers.
    pub(super) fn reviewer(&self) -> Option<&Reviewer> {
        self.resources.delivery.as_ref()?.reviewer.as_ref()
    }

    /// Returns the runner of checks on answers and deliveries, if the config has checks and
    /// overlays are set.
    pub fn check_runner(&self) -> Option<CheckRunner> {
        let checks = &self.config.checks;
        let overlays = self
            .resources
            .overlays
            .clone()
            .filter(|_| self.has_checks())?;
        let checked_agent = |member: &TeamMember| {
            let environments = self.resources.environments.as_ref()?;
            let agent = CheckedAgent {
                grants: member.check_grants.clone(),
                environment: environments.check_environment(&member.id).cloned(),
                left_out: self.left_out_of_answers(),
                files: if member.is_role() {
                    CheckedWorkspace::Tree
                } else {
                    CheckedWorkspace::Copy
                },
            };
            Some((member.id.clone(), agent))
        };
        let agents = self.members.iter().filter_map(checked_agent).collect();
        Some(CheckRunner::new(checks, agents, overlays))
    }

    /// Fails if an agent could replace the socket of `broker`.
    pub fn protect_socket(&self, broker: &ApprovalBroker) -> Result<()> {
        match broker.socket() {
            // A socket cannot be granted itself; its directory can.
            Some(socket) => {
                let directory = socket.parent().unwrap_or_else(AbsPath::root);
                self.protect_directory(&directory, "the approval socket")
            }
            None => Ok(()),
        }
    }

    /// Rejects a `directory` that agents may write to: they could act as the user there. `content`
    /// says what it contains.
    pub fn protect_directory(&self, directory: &AbsPath, content: &str) -> Result<()> {
        let real_directory = grants::real_path(directory)?;
        let mut grants = self.members.iter().flat_map(|member| &member.grants);
        let is_writable_there = |grant: &&Grant| {
            grant.permission == Permission::Write && grant.relative_path(&real_directory).is_some()
        };
        let Some(grant) = grants.find(is_writable_there) else {
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
    pub fn clear_overlays(&self, pending: PendingDelivery) -> Result<()> {
        match &self.resources.overlays {
            Some(overlays) => overlays.clear(pending),
            None => Ok(()),
        }
    }

    /// Opens the overlay of `member` for `purpose`, which begins with `changes`, if it gets one, and
    /// returns notes for the user.
    pub async fn open_overlay(
        &self,
        member: &TeamMember,
        purpose: OverlayPurpose,
        changes: &ChangeLayers,
    ) -> Result<(Option<WriteOverlay>, Vec<String>)> {
        let Some(overlays) = self.overlays() else {
            return Ok((None, Vec::new()));
        };
        let commands = self.command_environment(member);
        overlays
            .open(purpose, &member.grants, commands, changes)
            .await
    }

    /// Returns what creates the overlays of agents that may write.
    pub(super) fn overlays(&self) -> Option<&OverlayFactory> {
        match self.delivery_access {
            DeliveryAccess::ReadWrite => self.resources.overlays.as_ref(),
            DeliveryAccess::ReadOnly => None,
        }
    }

    /// Begins the attempts of all members that work in one, after `restart` restarts. A member whose
    /// layer cannot be made works without. Returns the attempts, and notes about those that are
    /// missing.
    pub async fn begin_attempts(
        &mut self,
        restart: u32,
    ) -> (BTreeMap<AgentNumber, BegunAttempt>, Vec<String>) {
        let members = self.members.iter();
        let beginnings = join_all(members.map(|member| self.begin_attempt(member, restart))).await;
        let (mut attempts, mut notes) = (BTreeMap::new(), Vec::new());
        for (member, begun) in self.members.iter_mut().zip(beginnings) {
            match begun {
                Ok(Some(attempt)) => drop(attempts.insert(member.number, attempt)),
                Ok(None) => {}
                Err(error) => notes.push(member.leave_attempt(format_args!("{error:#}"))),
            }
        }
        (attempts, notes)
    }

    async fn begin_attempt(
        &self,
        member: &TeamMember,
        restart: u32,
    ) -> Result<Option<BegunAttempt>> {
        let is_attempt = member.write_mode == WriteMode::Attempts;
        let Some(overlays) = self.overlays().filter(|_| is_attempt) else {
            return Ok(None);
        };
        let commands = self.command_environment(member);
        let (overlay, notes, origin) = overlays
            .open_attempt((restart, member.number), &member.grants, commands)
            .await?;
        let Some(overlay) = overlay else {
            return Ok(None);
        };
        let attempt = self.attempt(member, &overlay, restart)?;
        let has_processes = commands.is_some()
            || self.program_environment(member).is_some()
            || member.config.backend.external_agent.is_some();
        if has_processes && !overlay.is_fully_visible() {
            return Err(Error::new(ErrorKind::Environment, HIDDEN_LAYER));
        }
        Ok(attempt.map(|attempt| BegunAttempt {
            attempt,
            notes,
            origin,
        }))
    }

    /// Returns the attempt of `member` that works on `overlay`.
    pub(super) fn attempt(
        &self,
        member: &TeamMember,
        overlay: &WriteOverlay,
        restart: u32,
    ) -> Result<Option<Attempt>> {
        // What earlier turns left in the workspace is not part of an answer.
        let workspace_copy = if self.inherits_workspace {
            None
        } else {
            self.workspace_copy(member, overlay)?
        };
        let permissions = grants::permission_manager(&member.grants, Phase::Attempt);
        Ok(self.overlays().map(|overlays| {
            let (overlay, overlays) = (overlay.clone(), overlays.clone());
            Attempt::new(
                overlay,
                permissions,
                workspace_copy,
                self.command_environment(member).cloned(),
                overlays,
                restart,
                &self.config,
            )
        }))
    }

    /// Returns the call that copies the workspace of `member` to the first write path that is a
    /// directory, on `overlay`, with its gate.
    pub(super) fn workspace_copy(
        &self,
        member: &TeamMember,
        overlay: &WriteOverlay,
    ) -> Result<Option<(Gate, ToolCall)>> {
        let tree = grants::first_write_tree(&member.grants);
        let workspace_and_tree = member.workspace.as_ref().zip(tree);
        let call = workspace_and_tree.and_then(|(workspace, tree)| {
            copy_all_call(workspace, tree, self.left_out_of_answers())
        });
        Ok(self.delivery_gate(member, Some(overlay))?.zip(call))
    }

    /// Returns the member with this anonymous number.
    pub fn member(&self, number: AgentNumber) -> Option<&TeamMember> {
        self.members.iter().find(|member| member.number == number)
    }
}

/// Returns where an agent with these grants writes before the delivery, if its sandbox allows that.
fn write_mode(config: &OrchestratorConfig, grants: &[Grant]) -> WriteMode {
    let only_plans = config.planning != PlanningMode::Off;
    if only_plans || config.skips_coordination || grants::first_write_tree(grants).is_none() {
        WriteMode::Legacy
    } else {
        config.write_mode
    }
}
