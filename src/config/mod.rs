//! The configuration of a run. A [`Config`] is created only by [`load`], from the text of a file,
//! and by [`team`], without one, and is valid by construction; it does not mirror the YAML. Nothing
//! here reads a file.

use std::collections::BTreeSet;

use serde_json::Value;

pub use crate::config::agent::ContextPath;
use crate::config::agent::PermissionsConfig;
pub use crate::config::agent::{AgentConfig, ToolFilter};
pub use crate::config::backend::{
    BackendConfig, KeyHosts, MediaModels, ReplyTimeouts, ScriptSource,
};
use crate::config::checks::ChecksConfig;
use crate::config::command_line::CommandLineConfig;
use crate::config::diagnostic::{ConfigSource, Diagnostic};
use crate::config::docker::DockerConfig;
use crate::config::keys::found_config::RestrictedUse;
use crate::config::machine_policy::MachinePolicy;
pub use crate::config::orchestrator::{
    DriftConflictPolicy, NotesTiming, NoveltyRequirement, OrchestratorConfig, PlanningMode,
    PresentationMode, RoundGuidance, Strategy, SubagentsConfig, TaskPlanning, TimeoutConfig,
    VotingChecklist, VotingSensitivity, WriteMode,
};
use crate::config::rates::RateLimit;
use crate::config::retention::RetentionConfig;
use crate::config::settings::ConfigSetting;
use crate::config::storage_path::StoragePath;
use crate::config::uploads::UploadSource;
use crate::config::workflow::WorkflowConfig;
use crate::dotenv::ConfigVariables;
use crate::path::AbsPath;
use crate::permissions::grant::{GrantKind, Permission};
use crate::permissions::guard::FolderGuard;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::spending::limits::BudgetLimits;
use crate::spending::models::KnownModel;

mod agent;
mod backend;
pub mod check;
pub mod checks;
pub mod command_line;
pub mod copies;
pub mod diagnostic;
pub mod docker;
pub mod draft;
pub mod examples;
pub mod execution_mode;
pub mod api_parameters;
pub mod front_matter;
pub mod external_agents;
pub mod keys;
pub mod lookup;
pub mod machine_policy;
pub mod model_family;
pub mod yaml;
pub mod typed_yaml;
mod orchestrator;
pub mod storage_path;
pub mod rates;
pub mod recorded;
pub mod retention;
pub mod reference;
pub mod schema;
pub mod secrets;
pub mod settings;
pub mod preparation;
pub mod pricing_vendor;
pub mod custom_tools;
pub mod server_package;
pub mod servers;
pub mod size;
pub mod skills;
pub mod subagents;
pub mod team;
pub mod uploads;
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
    /// The policy of the machine.
    pub policy: &'a MachinePolicy,
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
    load_with_settings(text, &[], origin, context)
}

/// Like [`load`], with values that the command line sets; [`settings::append_settings`] has added
/// them to the text.
pub fn load_with_settings(
    text: &[u8],
    settings: &[ConfigSetting],
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
    let tree = yaml::parse(text).and_then(|mut tree| {
        settings::apply_settings(&mut tree, text, settings)?;
        Ok(tree)
    });
    let tree = match tree {
        Ok(tree) => tree,
        Err(diagnostic) => return Err(invalid(text, vec![*diagnostic])),
    };
    let (config, diagnostics) = check::check(tree, text, origin, context);
    match config {
        Some((config, restricted_uses)) => Ok(LoadedConfig {
            config,
            restricted_uses,
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
    // Not redacted: no key of a file of models holds an API key.
    let source = |text: &str| ConfigSource::new(&origin.name, text.to_owned());
    let invalid = |text: &str, diagnostics| {
        let source = source(text);
        Box::new(InvalidConfig {
            diagnostics,
            source,
        })
    };
    let text = yaml::decode(text).map_err(|diagnostic| invalid("", vec![*diagnostic]))?;
    let tree = yaml::parse(text).map_err(|diagnostic| invalid(text, vec![*diagnostic]))?;
    match check::check_models(tree, text, origin, context) {
        (Some(models), warnings) => {
            let warning_lines = diagnostic::render_lines(&source(text), &warnings);
            Ok((models, warning_lines))
        }
        (None, diagnostics) => Err(invalid(text, diagnostics)),
    }
}

/// Parses the text of the policy of a machine and checks all of it. A policy with any finding, even
/// a warning, is invalid.
pub fn load_machine_policy(
    text: &[u8],
    origin: &ConfigOrigin,
    context: &ConfigContext<'_>,
) -> Result<MachinePolicy, Vec<String>> {
    let lines = |text: &str, diagnostics: &[Diagnostic]| {
        diagnostic::render_lines(
            &ConfigSource::new(&origin.name, text.to_owned()),
            diagnostics,
        )
    };
    let text = yaml::decode(text).map_err(|diagnostic| lines("", &[*diagnostic]))?;
    let tree = yaml::parse(text).map_err(|diagnostic| lines(text, &[*diagnostic]))?;
    match check::check_machine_policy(tree, text, origin, context) {
        (Some(policy), diagnostics) if diagnostics.is_empty() => Ok(policy),
        (_, diagnostics) => Err(lines(text, &diagnostics)),
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
    /// The limits of the machine, above which nothing raises those of the run.
    pub limits_max: BudgetLimits,
    /// Whether the user reviews a delivery before it is applied.
    pub delivery: DeliveryMode,
    /// Who decides which answer is delivered.
    pub winner_choice: WinnerChoice,
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

/// A path of the user that the config opens.
#[derive(Debug)]
pub enum ConfigPath<'c> {
    /// A context path of all agents.
    Shared(&'c mut ContextPath),
    /// A context path of one agent.
    Own(&'c mut ContextPath),
    /// A directory of the folder guard of one agent, a file that is uploaded to its vendor, or a
    /// directory of the user that is its workspace.
    Bare(&'c mut AbsPath, Permission, GrantKind),
}

/// Who decides which answer is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WinnerChoice {
    /// The team: its votes, the checks or the review.
    #[default]
    Team,
    /// The user, who sees what the team has selected.
    User,
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
    /// Returns the context paths of all agents.
    pub fn context_paths(&self) -> impl Iterator<Item = &ContextPath> + Clone {
        let agent_paths = self.agents.iter().flat_map(|agent| &agent.context_paths);
        self.orchestrator.context_paths.iter().chain(agent_paths)
    }

    /// Returns how the agents that may run commands run them.
    pub fn commands(&self) -> impl Iterator<Item = &CommandLineConfig> + Clone {
        let agents = self.agents.iter();
        agents.filter_map(|agent| agent.commands.as_ref())
    }

    /// Returns the containers in which agents run commands.
    fn containers(&self) -> impl Iterator<Item = &DockerConfig> {
        self.commands()
            .filter_map(|commands| commands.mode.container())
    }

    /// Returns every path of the user that is open to an agent: context paths and folder guards.
    pub fn opened_paths(&self) -> impl Iterator<Item = &AbsPath> {
        let guard_directories = self
            .agents
            .iter()
            .flat_map(|agent| agent.folder_guard.directories());
        self.context_paths()
            .map(|context| &context.path)
            .chain(guard_directories)
    }

    /// Returns every path of the user that the config opens to agents, among them single files.
    pub fn user_paths_mut(&mut self) -> impl Iterator<Item = ConfigPath<'_>> {
        let own_paths = self.agents.iter_mut().flat_map(|agent| {
            let (read, write): (&mut [AbsPath], &mut [AbsPath]) = match &mut agent.folder_guard {
                FolderGuard::On { read, write, .. } => (read, write),
                FolderGuard::Off | FolderGuard::Role { .. } => (&mut [], &mut []),
            };
            let uploads = agent.uploaded_files.iter_mut();
            let uploads = uploads.filter_map(|file| match &mut file.source {
                UploadSource::Path(path) => Some(path),
                UploadSource::Url(_) => None,
            });
            let readable = read.iter_mut().chain(&mut agent.uploaded_images);
            let readable = readable.chain(uploads);
            let readable =
                readable.map(|path| ConfigPath::Bare(path, Permission::Read, GrantKind::Context));
            let writable = write.iter_mut();
            let writable =
                writable.map(|path| ConfigPath::Bare(path, Permission::Write, GrantKind::Context));
            let workspace = agent.cwd.iter_mut().filter_map(|cwd| match cwd {
                StoragePath::Absolute(path) => Some(ConfigPath::Bare(
                    path,
                    Permission::Write,
                    GrantKind::Workspace,
                )),
                StoragePath::Relocated(_) | StoragePath::InState(_) => None,
            });
            let context_paths = agent.context_paths.iter_mut().map(ConfigPath::Own);
            let bare_paths = readable.chain(writable);
            context_paths.chain(bare_paths).chain(workspace)
        });
        let shared_paths = self.orchestrator.context_paths.iter_mut();
        shared_paths.map(ConfigPath::Shared).chain(own_paths)
    }

    /// Returns every path of the user that an agent can write to in the final phase.
    pub fn write_paths(&self) -> impl Iterator<Item = &AbsPath> {
        let guard_directories = self
            .agents
            .iter()
            .flat_map(|agent| match &agent.folder_guard {
                FolderGuard::On { write, .. } => write.as_slice(),
                FolderGuard::Off | FolderGuard::Role { .. } => &[],
            });
        self.context_paths()
            .filter(|context| context.permission == Permission::Write)
            .map(|context| &context.path)
            .chain(guard_directories)
    }

    /// Restricts a found config to the project at `project` and to the vendors' own hosts, in the
    /// respects that can only be checked during the run.
    pub fn restrict_to_project(&mut self, project: &AbsPath) {
        for agent in &mut self.agents {
            let backend = &mut agent.backend;
            backend.key_hosts = KeyHosts::OfVendors;
            let fallbacks = backend.fallback.iter_mut();
            for model in fallbacks.chain(subagents::backends_mut(&mut backend.subagent_models)) {
                model.key_hosts = KeyHosts::OfVendors;
            }
        }
        if let Some(workflow) = &mut self.workflow {
            workflow.within = Some(project.clone());
        }
    }

    /// Overrides the sandbox level of local commands, programs and external agents for all agents,
    /// and that of checks.
    pub fn override_sandbox(&mut self, choice: SandboxLevelChoice) {
        for agent in &mut self.agents {
            if let Some(commands) = &mut agent.commands {
                commands.sandbox = choice;
            }
            if let Some(programs) = &mut agent.programs {
                programs.sandbox = choice;
            }
            agent.backend.override_external_agent_sandboxes(choice);
        }
        self.checks.sandbox = Some(choice);
    }

    /// Returns whether an agent's commands write directly to the user's paths, because they run
    /// without a sandbox.
    pub fn writes_in_place(&self) -> bool {
        let is_unsandboxed = |commands: &CommandLineConfig| {
            let sandbox = commands.sandbox;
            commands.mode.is_local() && sandbox == SandboxLevelChoice::Only(SandboxLevel::Off)
        };
        self.commands().any(is_unsandboxed)
    }

    /// Returns whether it has a pipeline that may work through its stages more than once.
    pub fn has_iterations(&self) -> bool {
        let workflow = self.workflow.as_ref();
        workflow.is_some_and(|workflow| workflow.pipeline.until.is_some())
    }

    /// Returns whether an agent may run commands or programs on this machine itself.
    pub fn has_local_commands(&self) -> bool {
        let is_local = |commands: &CommandLineConfig| commands.mode.is_local();
        let mut agents = self.agents.iter();
        agents.any(|agent| {
            let has_program = agent.programs.is_some() || agent.backend.has_external_agent();
            has_program || agent.commands.as_ref().is_some_and(is_local)
        })
    }

    /// Returns the images of the agents' containers and of those of their servers, without
    /// duplicates.
    pub fn images(&self) -> Vec<&str> {
        let command_images = self.containers().map(|docker| docker.image.as_str());
        let servers = self.agents.iter().flat_map(|agent| &agent.servers);
        let server_images = servers.filter_map(|server| server.container_image());
        let images: BTreeSet<&str> = command_images.chain(server_images).collect();
        images.into_iter().collect()
    }
}
