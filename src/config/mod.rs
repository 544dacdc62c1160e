//! Owns what a run is configured to be. `Config` is made only by [`load`], from a parsed YAML tree,
//! and by [`team`], and is valid by construction; it is no mirror of the YAML. Nothing here reads a
//! file.

use std::collections::BTreeSet;
use std::sync::Arc;

use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::config::checks::ChecksConfig;
use crate::config::code_mode::CodeModeConfig;
use crate::config::command_line::CommandLineConfig;
use crate::config::diagnostic::{ConfigSource, Diagnostic};
use crate::config::external_agents::ExternalAgentConfig;
use crate::config::found_config::RestrictedUse;
use crate::config::permissions::PermissionsConfig;
use crate::config::rates::RateLimit;
use crate::config::retention::RetentionConfig;
use crate::config::servers::ServerConfig;
use crate::config::storage_path::StoragePath;
use crate::config::vendors::{ImageInput, Vendor};
use crate::config::workflow::WorkflowConfig;
use crate::dotenv::ConfigVariables;
use crate::hooks::HookList;
use crate::id::AgentId;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::ReadBeforeDelete;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::spending::limits::BudgetLimits;
use crate::spending::models::KnownModel;

pub mod check;
pub mod checks;
pub mod command_line;
pub mod code_mode;
pub mod diagnostic;
pub mod docker;
pub mod examples;
pub mod execution_mode;
pub mod api_parameters;
pub mod found_config;
pub mod external_agents;
pub mod keys;
pub mod lookup;
pub mod yaml;
pub mod permissions;
pub mod storage_path;
pub mod rates;
pub mod recorded;
pub mod retention;
pub mod reference;
pub mod schema;
pub mod secrets;
pub mod pricing_vendor;
pub mod servers;
pub mod size;
pub mod team;
pub mod vendors;
pub mod workflow;

/// Where the text of a config comes from.
#[derive(Clone, Debug)]
pub struct ConfigOrigin {
    /// The name that diagnostics show: the file as the user wrote it, or the name of an example.
    pub name: String,
    /// The directory that holds the file; a built-in example has none.
    pub directory: Option<AbsPath>,
}

/// What a config is checked against besides its own text.
#[derive(Clone, Copy, Debug)]
pub struct ConfigContext<'a> {
    /// The directory that the user stands in; relative context paths start there.
    pub base: &'a AbsPath,
    /// The user's home directory, for `~`.
    pub home: Option<&'a AbsPath>,
    /// The variables that the text may name.
    pub env: &'a ConfigVariables,
}

/// A config that can be run, with what is worth a word about it.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The checked team.
    pub config: Config,
    /// What was written and will not happen, or not as written.
    pub warnings: Vec<Diagnostic>,
    /// What in it only a config may say that the user named.
    pub restricted_uses: Vec<RestrictedUse>,
    /// The text that was read, without keys.
    pub source: ConfigSource,
}

impl LoadedConfig {
    /// The warnings as text for a person, each with its line; empty if there are none.
    pub fn render(&self) -> String {
        diagnostic::render(&self.source, &self.warnings)
    }

    /// Each warning in one line.
    pub fn warning_lines(&self) -> Vec<String> {
        diagnostic::render_lines(&self.source, &self.warnings)
    }

    /// The result of the check for scripts.
    pub fn to_json(&self) -> Value {
        diagnostic::to_json(&self.source, &self.warnings)
    }
}

/// Why a config cannot be run: all that is wrong with it at once.
#[derive(Clone, Debug)]
pub struct InvalidConfig {
    /// Errors and warnings in the order of the file; at least one is an error.
    pub diagnostics: Vec<Diagnostic>,
    /// The text that was read, without keys.
    pub source: ConfigSource,
}

impl InvalidConfig {
    /// The diagnostics as text for a person, each with its line.
    pub fn render(&self) -> String {
        diagnostic::render(&self.source, &self.diagnostics)
    }

    /// The result of the check for scripts.
    pub fn to_json(&self) -> Value {
        diagnostic::to_json(&self.source, &self.diagnostics)
    }
}

/// Reads the text of a config (YAML or JSON) and checks all of it.
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

/// Reads the text of a file of models (YAML or JSON) and checks all of it. Gives the rows with what
/// is worth a word about them, or all that is wrong.
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

/// A checked team: who takes part, by which rules, within which limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// The agents in the order of the file, which breaks ties. Never empty; ids are unique.
    pub agents: Vec<AgentConfig>,
    /// How the agents work together, and on what.
    pub orchestrator: OrchestratorConfig,
    /// How long things may take.
    pub timeouts: TimeoutConfig,
    /// How often vendors may be asked.
    pub rate_limits: Vec<RateLimit>,
    /// How much the whole run may use.
    pub limits: BudgetLimits,
    /// Whether the user looks at what is delivered before it is.
    pub delivery: DeliveryMode,
    /// What is kept of the project's runs and sessions.
    pub retention: RetentionConfig,
    /// The session that a run goes on with, unless the command line says otherwise.
    pub session_id: Option<String>,
    /// What tells whether answers hold.
    pub checks: ChecksConfig,
    /// What is denied and asked of every agent.
    pub permissions: PermissionsConfig,
    /// The pipeline that the agents work in; without one, all have the same task at once.
    pub workflow: Option<WorkflowConfig>,
}

/// Whether the user looks at what is delivered before it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryMode {
    /// Everything is applied that may be.
    #[default]
    Auto,
    /// On a terminal, the user is shown what would change and chooses. Elsewhere as `Auto`.
    Review,
}

impl Config {
    /// Every path of the user's that is opened to an agent: context paths and folder guards.
    pub fn opened_paths(&self) -> impl Iterator<Item = &AbsPath> {
        let own = self.agents.iter().flat_map(|agent| &agent.context_paths);
        let listed = self.orchestrator.context_paths.iter().chain(own);
        let guarded = self
            .agents
            .iter()
            .flat_map(|agent| agent.folder_guard.directories());
        listed.map(|context| &context.path).chain(guarded)
    }

    /// Every path of the user's that is open to an agent for writing in the final phase.
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

    /// Holds a found config to the project at `project` and to the vendors' own hosts, where that is
    /// only seen when the run goes on.
    pub fn restrict_to_project(&mut self, project: &AbsPath) {
        for agent in &mut self.agents {
            let backend = &mut agent.backend;
            backend.key_hosts = KeyHosts::OfVendors;
            for model in &mut backend.fallback {
                model.key_hosts = KeyHosts::OfVendors;
            }
        }
        if let Some(workflow) = &mut self.workflow {
            workflow.within = Some(project.clone());
        }
    }

    /// From now on local commands of all agents are held so, whatever their keys say.
    pub fn override_sandbox(&mut self, choice: SandboxLevelChoice) {
        for agent in &mut self.agents {
            if let Some(commands) = &mut agent.commands {
                commands.sandbox = choice;
            }
            if let Some(programs) = &mut agent.programs {
                programs.sandbox = choice;
            }
            if let Some(guest) = &mut agent.backend.external_agent {
                Arc::make_mut(guest).sandbox.sandbox = choice;
            }
        }
        self.checks.sandbox = Some(choice);
    }

    /// Whether an agent's commands write to the user's paths themselves, because nothing holds them.
    pub fn writes_in_place(&self) -> bool {
        let agents = self.agents.iter();
        let mut commands = agents.filter_map(|agent| agent.commands.as_ref());
        let is_off = |commands: &CommandLineConfig| {
            let sandbox = commands.sandbox;
            commands.mode.is_local() && sandbox == SandboxLevelChoice::Only(SandboxLevel::Off)
        };
        commands.any(is_off)
    }

    /// Whether an agent may run commands or programs on this machine itself.
    pub fn has_local_commands(&self) -> bool {
        let is_local = |commands: &CommandLineConfig| commands.mode.is_local();
        let mut agents = self.agents.iter();
        agents.any(|agent| {
            let is_program = agent.programs.is_some() || agent.backend.external_agent.is_some();
            is_program || agent.commands.as_ref().is_some_and(is_local)
        })
    }

    /// The images that containers of the agents are made from, each once.
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

/// One agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Its name in logs and directories.
    pub id: AgentId,
    /// What the user tells this agent beside the task.
    pub system_message: Option<String>,
    /// The model that speaks for it.
    pub backend: BackendConfig,
    /// Its workspace (relative ones lie below `.massgen/workspaces`); without one it has no file
    /// tools.
    pub cwd: Option<StoragePath>,
    /// Paths that only this agent is given.
    pub context_paths: Vec<ContextPath>,
    /// Whether it is held to listed directories.
    pub folder_guard: FolderGuard,
    /// Whether it must read a file before deleting or overwriting it.
    pub read_before_delete: ReadBeforeDelete,
    /// Which of the tools it is offered.
    pub tools: ToolFilter,
    /// How its commands are run; without it, it runs none.
    pub commands: Option<CommandLineConfig>,
    /// How its programs are run; with it, the agent works by them and by nothing else.
    pub programs: Option<CodeModeConfig>,
    /// The servers whose tools it may use.
    pub servers: Vec<Arc<ServerConfig>>,
    /// The file that its model's replies are recorded in.
    pub record: Option<AbsPath>,
    /// How much it may use, within what the run may use.
    pub limits: BudgetLimits,
    /// What is denied and asked of it, with what is of every agent.
    pub permissions: PermissionsConfig,
    /// What is asked about what it does, with what is about every agent.
    pub hooks: HookList,
    /// Requests to its model in one round or presentation, so that it does not go on forever.
    pub steps_per_round_max: u32,
}

/// Requests in one round or presentation where the config says nothing.
const STEPS_PER_ROUND_DEFAULT: u32 = 200;

/// Which tools an agent is offered, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only these, if given (`allowed_tools`).
    pub allowed: Option<Vec<String>>,
    /// Never these (`exclude_tools`, `disallowed_tools`).
    pub excluded: Vec<String>,
}

/// Where a model is asked, and how.
#[derive(Clone, Debug)]
pub struct BackendConfig {
    /// The row of the vendor table that `type` names.
    pub vendor: &'static Vendor,
    /// The model's name at the vendor.
    pub model: String,
    /// The endpoint; the vendor's own unless the YAML or the environment names another.
    pub base_url: Option<String>,
    /// The key from the YAML; without one the vendor's environment variables are asked.
    pub api_key: Option<SecretString>,
    /// Which hosts the user's keys go to.
    pub key_hosts: KeyHosts,
    /// Keys that belong to the model's API and go into every request as they are.
    pub parameters: Map<String, Value>,
    /// The replies of a `scripted` backend.
    pub script: Option<ScriptSource>,
    /// The program that speaks in the place of a model, if the type is one.
    pub external_agent: Option<Arc<ExternalAgentConfig>>,
    /// Whether the model is given images.
    pub image_input: ImageInput,
    /// How long a reply may take.
    pub timeouts: ReplyTimeouts,
    /// The models that are asked when this one cannot go on, in this order; they have no fallback
    /// of their own.
    pub fallback: Vec<BackendConfig>,
}

impl BackendConfig {
    /// This model, and then those that are asked when it cannot go on.
    pub fn with_fallbacks(&self) -> impl Iterator<Item = &BackendConfig> {
        std::iter::once(self).chain(&self.fallback)
    }
}

/// Which hosts the keys of the user's environment go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyHosts {
    /// Those that the config names: it is the user's own, or they named it.
    #[default]
    Configured,
    /// The vendors' own.
    OfVendors,
}

/// How long a model's reply may take, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTimeouts {
    /// Until anything comes.
    pub first_byte_seconds: u64,
    /// How long nothing may come after that.
    pub idle_seconds: u64,
    /// Until it is complete.
    pub total_seconds: u64,
}

/// Vendors are silent for up to four minutes while a model reasons or writes a long call, and local
/// servers while they load one.
const SILENCE_SECONDS_DEFAULT: u64 = 300;
/// How long a reply may take, in seconds.
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

/// Where the replies of a scripted backend stand.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptSource {
    /// In the config itself, under `replies`.
    Inline(Value),
    /// In a YAML file of its own.
    File(AbsPath),
}

/// A path of the user's that agents are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPath {
    /// Where it is.
    pub path: AbsPath,
    /// What the final agent may do there; every agent may read while coordinating.
    pub permission: Permission,
    /// Paths inside that stay read-only.
    pub protected: Vec<RelPath>,
    /// Paths inside that are closed for reading too.
    pub hidden: Vec<RelPath>,
    /// Protected names that are open here.
    pub unprotected: Vec<String>,
}

impl ContextPath {
    /// A path that may be read and nothing else.
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
    /// Paths that every agent is given.
    pub context_paths: Vec<ContextPath>,
    /// Where the latest snapshot of each agent is found.
    pub snapshot_storage: StoragePath,
    /// Where agents see each other's snapshots.
    pub agent_temporary_workspace: StoragePath,
    /// Where sessions are kept.
    pub session_storage: StoragePath,
    /// How critical voters are asked to be.
    pub voting_sensitivity: VotingSensitivity,
    /// How many answers one agent may give.
    pub max_new_answers_per_agent: Option<u32>,
    /// How different a new answer must be from all others.
    pub answer_novelty: NoveltyRequirement,
    /// Whether the first answer is taken without voting.
    pub coordination: CoordinationMode,
    /// Whether agents only plan until the final phase, and with which words.
    pub planning: PlanningMode,
    /// How often the whole coordination may be started again after the final answer was judged.
    pub max_orchestration_restarts: u32,
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

/// How different a new answer must be from each existing one, as overlap of words.
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
    /// The first agent presents at once (`skip_coordination_rounds`).
    Skip,
}

/// Whether agents only plan until the final phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlanningMode {
    /// Agents do the work while coordinating.
    #[default]
    Off,
    /// Agents describe the work; the text is the config's, or massgen's own if it gives none.
    On {
        /// `planning_mode_instruction`.
        instruction: Option<String>,
    },
}

/// How long things may take, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutConfig {
    /// The whole coordination.
    pub orchestrator_seconds: u64,
    /// An agent's first round, before it is told to finish.
    pub initial_round_seconds: Option<u64>,
    /// Every later round, before the agent is told to finish.
    pub subsequent_round_seconds: Option<u64>,
    /// How long after that the agent may still use tools.
    pub round_grace_seconds: u64,
}

/// How long the whole coordination may take, in seconds: MassGen's own default.
const ORCHESTRATOR_SECONDS_DEFAULT: u64 = 1_800;
/// How long an agent may use tools after its round is over, in seconds: MassGen's own default.
const ROUND_GRACE_SECONDS_DEFAULT: u64 = 120;

impl Default for OrchestratorConfig {
    fn default() -> Self {
        Self {
            context_paths: Vec::new(),
            snapshot_storage: StoragePath::relocated(storage_path::SNAPSHOTS),
            agent_temporary_workspace: StoragePath::relocated(storage_path::TEMP_WORKSPACES),
            session_storage: StoragePath::relocated(storage_path::SESSIONS),
            voting_sensitivity: VotingSensitivity::default(),
            max_new_answers_per_agent: None,
            answer_novelty: NoveltyRequirement::default(),
            coordination: CoordinationMode::default(),
            planning: PlanningMode::default(),
            max_orchestration_restarts: 0,
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
