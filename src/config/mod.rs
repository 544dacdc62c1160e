//! Owns the configuration of a run. `Config` is created only by [`load`], from a parsed YAML tree,
//! and by [`team`], and is valid by construction; it does not mirror the YAML. Nothing here reads a
//! file.

use std::collections::BTreeSet;
use std::sync::Arc;

use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::config::checks::ChecksConfig;
use crate::config::code_mode::CodeModeConfig;
use crate::config::command_line::CommandLineConfig;
use crate::config::diagnostic::{ConfigSource, Diagnostic};
use crate::config::engine_host::SshEngineHost;
use crate::config::external_agents::ExternalAgentConfig;
use crate::config::found_config::RestrictedUse;
use crate::config::permissions::PermissionsConfig;
use crate::config::preparation::PreparationConfig;
use crate::config::rates::RateLimit;
use crate::config::retention::RetentionConfig;
use crate::config::round_guidance::RoundGuidance;
use crate::config::servers::ServerConfig;
use crate::config::skills::SkillsConfig;
use crate::config::storage_path::StoragePath;
use crate::config::vendors::{ImageInput, ReasoningEcho, Vendor};
use crate::config::workflow::WorkflowConfig;
use crate::dotenv::ConfigVariables;
use crate::hooks::HookList;
use crate::id::AgentId;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::ReadBeforeDelete;
use crate::sandbox_policy::network::NetworkPolicy;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::spending::limits::BudgetLimits;
use crate::spending::models::KnownModel;
use crate::tools::media::MediaKind;
use crate::tools::spec::ToolSpec;
use crate::tools::tool_selection::names_tool;

pub mod check;
pub mod checks;
pub mod command_line;
pub mod code_mode;
pub mod diagnostic;
pub mod docker;
pub mod draft;
pub mod engine_host;
pub mod examples;
pub mod execution_mode;
pub mod api_parameters;
pub mod found_config;
pub mod front_matter;
pub mod external_agents;
pub mod keys;
pub mod lookup;
pub mod yaml;
pub mod permissions;
pub mod storage_path;
pub mod rates;
pub mod recorded;
pub mod retention;
pub mod round_guidance;
pub mod reference;
pub mod schema;
pub mod secrets;
pub mod preparation;
pub mod pricing_vendor;
pub mod custom_tools;
pub mod server_package;
pub mod servers;
pub mod size;
pub mod skills;
pub mod subagents;
pub mod team;
pub mod vendors;
pub mod workflow;

/// The origin of a config's text.
#[derive(Clone, Debug)]
pub struct ConfigOrigin {
    /// The name in diagnostics: the file as the user wrote it, or the name of an example.
    pub name: String,
    /// The directory that contains the file; `None` for a built-in example.
    pub directory: Option<AbsPath>,
}

/// The context that a config is checked in.
#[derive(Clone, Copy, Debug)]
pub struct ConfigContext<'a> {
    /// The user's current directory; relative context paths start there.
    pub base: &'a AbsPath,
    /// The directory in which massgen's state directory is, or would be created.
    pub state_parent: &'a AbsPath,
    /// The user's home directory, for `~`.
    pub home: Option<&'a AbsPath>,
    /// The variables that the text can refer to.
    pub env: &'a ConfigVariables,
    /// The keys of the packages that are installed for servers.
    pub packages: &'a BTreeSet<String>,
}

/// A config that can be run, with its warnings.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The validated config.
    pub config: Config,
    /// Settings that have no effect, or not the effect as written.
    pub warnings: Vec<Diagnostic>,
    /// The uses that only a named config may have.
    pub restricted_uses: Vec<RestrictedUse>,
    /// The text of the config, without keys.
    pub source: ConfigSource,
}

impl LoadedConfig {
    /// Renders the warnings for a person, each with its line; empty if there are none.
    pub fn render(&self) -> String {
        diagnostic::render(&self.source, &self.warnings)
    }

    /// Renders each warning in one line.
    pub fn warning_lines(&self) -> Vec<String> {
        diagnostic::render_lines(&self.source, &self.warnings)
    }

    /// Returns the result of the check for scripts.
    pub fn to_json(&self) -> Value {
        diagnostic::to_json(&self.source, &self.warnings)
    }
}

/// The reason why a config cannot be run: all findings together.
#[derive(Clone, Debug)]
pub struct InvalidConfig {
    /// Errors and warnings in the order of the file; at least one is an error.
    pub diagnostics: Vec<Diagnostic>,
    /// The text of the config, without keys.
    pub source: ConfigSource,
}

impl InvalidConfig {
    /// Renders the diagnostics for a person, each with its line.
    pub fn render(&self) -> String {
        diagnostic::render(&self.source, &self.diagnostics)
    }

    /// Returns the result of the check for scripts.
    pub fn to_json(&self) -> Value {
        diagnostic::to_json(&self.source, &self.diagnostics)
    }
}

/// Parses the text of a config (YAML or JSON) and checks all of it.
pub fn load(
    text: &[u8],
    origin: &ConfigOrigin,
    context: &ConfigContext<'_>,
) -> Result<LoadedConfig, Box<InvalidConfig>> {
    let invalid = |text: &str, diagnostics| {
        Box::new(InvalidConfig {
            diagnostics,
            source: ConfigSource::new(&origin.name, secrets::redact(text)),
        })
    };
    let text = match yaml::decode(text) {
        Ok(text) => text,
        Err(diagnostic) => return Err(invalid("", vec![*diagnostic])),
    };
    let tree = match yaml::parse(text) {
        Ok(tree) => tree,
        Err(diagnostic) => return Err(invalid(text, vec![*diagnostic])),
    };
    let (config, diagnostics) = check::check(tree, text, origin, context);
    match config {
        Some((config, reaches)) => Ok(LoadedConfig {
            config,
            restricted_uses: reaches,
            warnings: diagnostics,
            source: ConfigSource::new(&origin.name, secrets::redact(text)),
        }),
        None => Err(invalid(text, diagnostics)),
    }
}

/// Parses the text of a file of models (YAML or JSON) and checks all of it. Returns the rows with
/// any warnings, or all errors.
pub fn load_models(
    text: &[u8],
    origin: &ConfigOrigin,
    context: &ConfigContext<'_>,
) -> Result<(Vec<KnownModel>, Vec<String>), Box<InvalidConfig>> {
    let source = |text: &str| ConfigSource::new(&origin.name, text.to_owned());
    let invalid = |text: &str, diagnostics| {
        let source = source(text);
        Box::new(InvalidConfig {
            diagnostics,
            source,
        })
    };
    let text = yaml::decode(text).map_err(|found| invalid("", vec![*found]))?;
    let tree = yaml::parse(text).map_err(|found| invalid(text, vec![*found]))?;
    match check::check_models(tree, text, origin, context) {
        (Some(models), found) => Ok((models, diagnostic::render_lines(&source(text), &found))),
        (None, found) => Err(invalid(text, found)),
    }
}

/// A validated config: the agents, the rules and the limits of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The agents in the order of the file, which breaks ties. Never empty; ids are unique.
    pub agents: Vec<AgentConfig>,
    /// How the agents work together, and on which paths.
    pub orchestrator: OrchestratorConfig,
    /// The timeouts.
    pub timeouts: TimeoutConfig,
    /// The rate limits of vendors.
    pub rate_limits: Vec<RateLimit>,
    /// The limits of the whole run.
    pub limits: BudgetLimits,
    /// Whether the user reviews a delivery before it is applied.
    pub delivery: DeliveryMode,
    /// When a run is shown on the whole terminal.
    pub dashboard: DashboardMode,
    /// The retention of the project's runs and sessions.
    pub retention: RetentionConfig,
    /// The session that a run continues, unless the command line names another.
    pub session_id: Option<String>,
    /// The checks of answers.
    pub checks: ChecksConfig,
    /// The permission rules for every agent.
    pub permissions: PermissionsConfig,
    /// The pipeline that the agents work in; `None` gives all of them the same task at the same
    /// time.
    pub workflow: Option<WorkflowConfig>,
}

/// Whether the user reviews a delivery before it is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryMode {
    /// Everything that may be applied is applied.
    #[default]
    Auto,
    /// On a terminal, the user is shown the changes and chooses. Elsewhere like `Auto`.
    Review,
}

/// When a run is shown on the whole terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DashboardMode {
    /// If there are two or more agents.
    #[default]
    Auto,
    /// Also with one agent.
    Always,
    /// Never.
    Never,
}

impl Config {
    /// Returns every path of the user that is open to an agent: context paths and folder guards.
    pub fn opened_paths(&self) -> impl Iterator<Item = &AbsPath> {
        let own = self.agents.iter().flat_map(|agent| &agent.context_paths);
        let listed = self.orchestrator.context_paths.iter().chain(own);
        let guarded = self
            .agents
            .iter()
            .flat_map(|agent| agent.folder_guard.directories());
        listed.map(|context| &context.path).chain(guarded)
    }

    /// Returns every path of the user that an agent can write to in the final phase.
    pub fn write_paths(&self) -> impl Iterator<Item = &AbsPath> {
        let own = self.agents.iter().flat_map(|agent| &agent.context_paths);
        let listed = self.orchestrator.context_paths.iter().chain(own);
        let listed = listed.filter(|context| context.permission == Permission::Write);
        let guarded = self
            .agents
            .iter()
            .flat_map(|agent| match &agent.folder_guard {
                FolderGuard::On { write, .. } => write.as_slice(),
                FolderGuard::Off | FolderGuard::Role { .. } => &[],
            });
        listed.map(|context| &context.path).chain(guarded)
    }

    /// Restricts a found config to the project at `project` and to the vendors' own hosts, in the
    /// respects that can only be checked during the run.
    pub fn restrict_to_project(&mut self, project: &AbsPath) {
        for agent in &mut self.agents {
            let backend = &mut agent.backend;
            backend.key_hosts = KeyHosts::OfVendors;
            let others = backend.fallback.iter_mut();
            for model in others.chain(subagents::backends_mut(&mut backend.subagent_models)) {
                model.key_hosts = KeyHosts::OfVendors;
            }
        }
        if let Some(workflow) = &mut self.workflow {
            workflow.within = Some(project.clone());
        }
    }

    /// Overrides the sandbox level of local commands for all agents and checks.
    pub fn override_sandbox(&mut self, choice: SandboxLevelChoice) {
        for agent in &mut self.agents {
            if let Some(commands) = &mut agent.commands {
                commands.sandbox = choice;
            }
            if let Some(programs) = &mut agent.programs {
                programs.sandbox = choice;
            }
            agent.backend.override_program_sandboxes(choice);
        }
        self.checks.sandbox = Some(choice);
    }

    /// Returns whether an agent's commands write directly to the user's paths, because they run
    /// without a sandbox.
    pub fn writes_in_place(&self) -> bool {
        let agents = self.agents.iter();
        let mut commands = agents.filter_map(|agent| agent.commands.as_ref());
        let is_off = |commands: &CommandLineConfig| {
            let sandbox = commands.sandbox;
            commands.mode.is_local() && sandbox == SandboxLevelChoice::Only(SandboxLevel::Off)
        };
        commands.any(is_off)
    }

    /// Returns whether an agent may run commands or programs on this machine itself.
    pub fn has_local_commands(&self) -> bool {
        let is_local = |commands: &CommandLineConfig| commands.mode.is_local();
        let mut agents = self.agents.iter();
        agents.any(|agent| {
            let is_program = agent.programs.is_some() || agent.backend.has_program();
            is_program || agent.commands.as_ref().is_some_and(is_local)
        })
    }

    /// Returns the machines whose engines run the agents' containers, without duplicates; `None` is
    /// the engine of the user's environment.
    pub fn engine_hosts(&self) -> BTreeSet<Option<&SshEngineHost>> {
        let commands = self
            .agents
            .iter()
            .filter_map(|agent| agent.commands.as_ref());
        let containers = commands.filter_map(|commands| commands.mode.container());
        containers.map(|docker| docker.host.as_ref()).collect()
    }

    /// Returns the images of the agents' containers, without duplicates.
    pub fn images(&self) -> Vec<&str> {
        let commands = self
            .agents
            .iter()
            .filter_map(|agent| agent.commands.as_ref());
        let images = commands.filter_map(|commands| commands.mode.image());
        let images: BTreeSet<&str> = images.collect();
        images.into_iter().collect()
    }
}

/// An agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Its name in logs and directories.
    pub id: AgentId,
    /// The user's instructions for this agent, in addition to the task.
    pub system_message: Option<String>,
    /// Its model.
    pub backend: BackendConfig,
    /// Its workspace (relative paths start at `.massgen/workspaces`); `None` leaves it without file
    /// tools.
    pub cwd: Option<StoragePath>,
    /// Paths that are opened to this agent only.
    pub context_paths: Vec<ContextPath>,
    /// Image files that are part of its first message; it may read them.
    pub uploaded_images: Vec<AbsPath>,
    /// Whether it is restricted to listed directories.
    pub folder_guard: FolderGuard,
    /// Whether it must read a file before deleting or overwriting it.
    pub read_before_delete: ReadBeforeDelete,
    /// The tools that it is offered.
    pub tools: ToolFilter,
    /// How its commands are run; `None` if it may run none.
    pub commands: Option<CommandLineConfig>,
    /// How its programs are run; if set, the agent makes all its calls through programs.
    pub programs: Option<CodeModeConfig>,
    /// Its pause for a test, if it makes one.
    pub debug_delay: Option<DebugDelay>,
    /// Whether it is asked to make one file of those that all agents left, as the final agent.
    pub merges_files: bool,
    /// The hosts whose pages it may read with `fetch_url`.
    pub pages: NetworkPolicy,
    /// The servers with tools that it may use.
    pub servers: Vec<Arc<ServerConfig>>,
    /// The file to which its model's replies are recorded.
    pub record: Option<AbsPath>,
    /// Its limits, within those of the run.
    pub limits: BudgetLimits,
    /// The permission rules for it, including those for every agent.
    pub permissions: PermissionsConfig,
    /// The hooks for it, including those for every agent.
    pub hooks: HookList,
    /// The maximum number of requests to its model in one round or presentation, which stops an
    /// endless loop.
    pub steps_per_round_max: u32,
}

/// The default maximum of requests in one round or presentation.
const STEPS_PER_ROUND_DEFAULT: u32 = 200;

/// The tools that an agent is offered, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// If set, only these tools (`allowed_tools`).
    pub allowed: Option<Vec<String>>,
    /// Tools that are excluded (`exclude_tools`, `disallowed_tools`).
    pub excluded: Vec<String>,
}

impl ToolFilter {
    /// Returns whether the lists leave `tool` open.
    pub fn keeps(&self, tool: &ToolSpec) -> bool {
        let listed = |list: &[String]| list.iter().any(|entry| names_tool(entry, tool));
        self.allowed.as_deref().is_none_or(listed) && !listed(&self.excluded)
    }
}

/// The model of an agent, and how it is reached.
#[derive(Clone, Debug)]
pub struct BackendConfig {
    /// The row of the vendor table that `type` names.
    pub vendor: &'static Vendor,
    /// The model's name at the vendor.
    pub model: String,
    /// The endpoint; the vendor's own unless the YAML or the environment names another.
    pub base_url: Option<String>,
    /// The key from the YAML; `None` uses the vendor's environment variables.
    pub api_key: Option<SecretString>,
    /// The hosts that the user's keys are sent to.
    pub key_hosts: KeyHosts,
    /// Keys for the model's API, sent in every request unchanged.
    pub parameters: Map<String, Value>,
    /// The replies of a `scripted` backend.
    pub script: Option<ScriptSource>,
    /// The external agent that replaces a model, if the type is one.
    pub external_agent: Option<Arc<ExternalAgentConfig>>,
    /// The models of the same vendor that make media for the agent.
    pub media: MediaModels,
    /// Whether the model accepts images.
    pub image_input: ImageInput,
    /// Whether a Chat Completions model gets its reasoning back; `None` leaves that to what is
    /// known of host and model.
    pub reasoning_echo: Option<ReasoningEcho>,
    /// The timeouts of a reply.
    pub timeouts: ReplyTimeouts,
    /// The models of the agent's subagents, which take turns; without one, they have the agent's.
    pub subagent_models: Vec<subagents::SubagentBackend>,
    /// The models that are used when this one fails, in this order; they have no fallback of their
    /// own.
    pub fallback: Vec<BackendConfig>,
}

impl BackendConfig {
    /// Returns this model, followed by its fallback models.
    pub fn with_fallbacks(&self) -> impl Iterator<Item = &BackendConfig> {
        std::iter::once(self).chain(&self.fallback)
    }

    /// Returns all models that are asked for the agent: these, and those of its subagents.
    pub fn with_subagent(&self) -> impl Iterator<Item = &BackendConfig> {
        let subagents = self.subagent_models.iter().map(|one| &one.backend);
        self.with_fallbacks().chain(subagents)
    }
}

/// A pause of an agent, for tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DebugDelay {
    /// The number of calls after which it pauses.
    pub calls: u32,
    /// How long it pauses, in seconds.
    pub seconds: f64,
}

/// The models of a vendor that make media, as far as the agent may have it made.
#[derive(Clone, Debug, Default)]
pub struct MediaModels {
    /// The vendor; `None` is the agent's own, at the agent's endpoint.
    pub vendor: Option<&'static Vendor>,
    /// The one for images.
    pub image: Option<String>,
    /// The one for speech.
    pub audio: Option<String>,
}

impl MediaModels {
    /// Returns the kinds of media that can be made.
    pub fn kinds(&self) -> Vec<MediaKind> {
        let is_made = |kind: &MediaKind| match kind {
            MediaKind::Image => self.image.is_some(),
            MediaKind::Audio => self.audio.is_some(),
        };
        MediaKind::ALL.into_iter().filter(is_made).collect()
    }
}

/// The hosts that the keys in the user's environment are sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyHosts {
    /// Those that the config names: the config is the user's own, or the user named it.
    #[default]
    Configured,
    /// Only the vendors' own.
    OfVendors,
}

/// The timeouts of a model's reply, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTimeouts {
    /// Until the first byte.
    pub first_byte_seconds: u64,
    /// Between two bytes after that.
    pub idle_seconds: u64,
    /// Until it is complete.
    pub total_seconds: u64,
}

/// The default silence timeout, in seconds. Vendors are silent for up to four minutes while a model
/// reasons or writes a long call, and local servers while they load a model.
const SILENCE_SECONDS_DEFAULT: u64 = 300;
/// The default timeout of a complete reply, in seconds.
const REPLY_SECONDS_DEFAULT: u64 = 3_600;

impl Default for ReplyTimeouts {
    fn default() -> Self {
        Self {
            first_byte_seconds: SILENCE_SECONDS_DEFAULT,
            idle_seconds: SILENCE_SECONDS_DEFAULT,
            total_seconds: REPLY_SECONDS_DEFAULT,
        }
    }
}

/// The source of a scripted backend's replies.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptSource {
    /// In the config itself, under `replies`.
    Inline(Value),
    /// In a separate YAML file.
    File(AbsPath),
}

/// A path of the user that agents are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPath {
    /// The path.
    pub path: AbsPath,
    /// The permission of the final agent; every agent may read during coordination.
    pub permission: Permission,
    /// Paths inside that stay read-only.
    pub protected: Vec<RelPath>,
    /// Paths inside that cannot be read either.
    pub hidden: Vec<RelPath>,
    /// Names that are removed from the protected ones here.
    pub unprotected: Vec<String>,
}

impl ContextPath {
    /// Creates a read-only context path.
    pub fn read_only(path: AbsPath) -> Self {
        Self {
            path,
            permission: Permission::Read,
            protected: Vec::new(),
            hidden: Vec::new(),
            unprotected: Vec::new(),
        }
    }
}

/// The rules of coordination and delivery.
#[derive(Clone, Debug)]
pub struct OrchestratorConfig {
    /// Paths that are opened to every agent.
    pub context_paths: Vec<ContextPath>,
    /// The directory of the latest snapshot of each agent.
    pub snapshot_storage: StoragePath,
    /// The directory in which agents see each other's snapshots.
    pub agent_temporary_workspace: StoragePath,
    /// The directory of sessions.
    pub session_storage: StoragePath,
    /// How critical voters are asked to be.
    pub voting_sensitivity: VotingSensitivity,
    /// The criteria by which voters score answers, if they do.
    pub checklist: Option<VotingChecklist>,
    /// The maximum number of answers per agent.
    pub max_new_answers_per_agent: Option<u32>,
    /// The maximum number of answers of all agents together.
    pub max_new_answers_global: Option<u32>,
    /// What the final agent evaluates after the first attempt instead of its answer.
    pub debug_final_answer: Option<String>,
    /// The share of a model's context from which a conversation is compacted.
    pub compaction_threshold: Option<f64>,
    /// The share of a conversation's steps, the newest, that a compaction leaves as they are.
    pub compression_target_ratio: Option<f64>,
    /// How different a new answer must be from all others.
    pub answer_novelty: NoveltyRequirement,
    /// Whether the first answer wins without a vote.
    pub coordination: CoordinationMode,
    /// Whether agents only plan until the final phase, and the instruction for it.
    pub planning: PlanningMode,
    /// Whether agents keep plans of their tasks.
    pub task_planning: TaskPlanning,
    /// The maximum number of restarts of the whole coordination after the final answer was judged.
    pub max_orchestration_restarts: u32,
    /// Whether agents are given the instructions that opened directories keep for them.
    pub reads_project_instructions: bool,
    /// Where skills are looked for.
    pub skills: SkillsConfig,
    /// Whether agents keep notes for later sessions.
    pub keeps_memory: bool,
    /// The subagents of each agent; `None` if it may have none.
    pub subagents: Option<SubagentsConfig>,
    /// The types that agents may give their subagents.
    pub subagent_types: subagents::SubagentTypesConfig,
    /// How they are asked to work within a round.
    pub rounds: RoundGuidance,
    /// What a model writes before the first round.
    pub preparation: PreparationConfig,
}

/// The subagents of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubagentsConfig {
    /// How long one may work, in seconds.
    pub timeout_seconds: u64,
    /// How many work at the same time.
    pub concurrent_max: usize,
}

impl Default for SubagentsConfig {
    fn default() -> Self {
        Self {
            timeout_seconds: 300,
            concurrent_max: 3,
        }
    }
}

/// How critical voters are asked to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VotingSensitivity {
    /// Any answer that does the job is good enough.
    #[default]
    Lenient,
    /// The answer has to be complete and correct.
    Balanced,
    /// The answer has to be as good as the voter could make it.
    Strict,
}

/// The criteria by which voters score answers: a vote counts only if its scores are high enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VotingChecklist {
    /// The criteria, for agents; at least one.
    pub criteria: Vec<String>,
    /// `voting_threshold`: from 0, which asks for the highest scores, to 10.
    pub threshold: u8,
}

/// How different a new answer must be from each existing one, measured as word overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoveltyRequirement {
    /// Only an exact repetition is refused.
    #[default]
    Lenient,
    /// An overlap above 0.70 is refused.
    Balanced,
    /// An overlap above 0.50 is refused.
    Strict,
}

/// Whether agents vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoordinationMode {
    /// Agents answer, see each other's answers and vote.
    #[default]
    Vote,
    /// The first agent presents immediately (`skip_coordination_rounds`).
    Skip,
}

/// Whether agents only plan until the final phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlanningMode {
    /// Agents do the work while coordinating.
    #[default]
    Off,
    /// Agents describe the work; the instruction is the config's, or massgen's default.
    On {
        /// `planning_mode_instruction`.
        instruction: Option<String>,
    },
}

/// Whether agents keep plans of their tasks, with a tool for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskPlanning {
    /// They plan in their text.
    #[default]
    Off,
    /// Each has a plan (`enable_agent_task_planning`).
    On {
        /// The maximum number of entries of a plan (`max_tasks_per_plan`).
        entries_max: usize,
        /// Whether it is written to the agent's workspace (`task_planning_filesystem_mode`).
        writes_file: bool,
    },
}

impl TaskPlanning {
    /// Returns the maximum number of entries of a plan; `None` without plans.
    pub fn entries_max(self) -> Option<usize> {
        match self {
            TaskPlanning::Off => None,
            TaskPlanning::On { entries_max, .. } => Some(entries_max),
        }
    }

    /// Returns whether plans are written to workspaces.
    pub fn writes_file(self) -> bool {
        matches!(
            self,
            TaskPlanning::On {
                writes_file: true,
                ..
            }
        )
    }
}

/// Timeouts, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutConfig {
    /// The whole coordination.
    pub orchestrator_seconds: u64,
    /// An agent's first round, after which it is told to finish.
    pub initial_round_seconds: Option<u64>,
    /// Every later round, after which the agent is told to finish.
    pub subsequent_round_seconds: Option<u64>,
    /// The grace period after that in which the agent may still use tools.
    pub round_grace_seconds: u64,
}

/// The default timeout of the whole coordination, in seconds: the same as MassGen's.
const ORCHESTRATOR_SECONDS_DEFAULT: u64 = 1_800;
/// The default grace period after a round, in seconds: the same as MassGen's.
const ROUND_GRACE_SECONDS_DEFAULT: u64 = 120;

impl Default for OrchestratorConfig {
    fn default() -> Self {
        Self {
            context_paths: Vec::new(),
            snapshot_storage: StoragePath::relocated(storage_path::SNAPSHOTS),
            agent_temporary_workspace: StoragePath::relocated(storage_path::TEMP_WORKSPACES),
            session_storage: StoragePath::relocated(storage_path::SESSIONS),
            voting_sensitivity: VotingSensitivity::default(),
            checklist: None,
            max_new_answers_per_agent: None,
            max_new_answers_global: None,
            debug_final_answer: None,
            compaction_threshold: None,
            compression_target_ratio: None,
            answer_novelty: NoveltyRequirement::default(),
            coordination: CoordinationMode::default(),
            planning: PlanningMode::default(),
            task_planning: TaskPlanning::default(),
            max_orchestration_restarts: 0,
            reads_project_instructions: true,
            skills: SkillsConfig::default(),
            keeps_memory: false,
            subagents: None,
            subagent_types: subagents::SubagentTypesConfig::default(),
            rounds: RoundGuidance::default(),
            preparation: PreparationConfig::default(),
        }
    }
}

impl Default for TimeoutConfig {
    fn default() -> Self {
        Self {
            orchestrator_seconds: ORCHESTRATOR_SECONDS_DEFAULT,
            initial_round_seconds: None,
            subsequent_round_seconds: None,
            round_grace_seconds: ROUND_GRACE_SECONDS_DEFAULT,
        }
    }
}
