//! Owns what a run is configured to be. `Config` is made only by [`check`], from a parsed YAML tree,
//! and is valid by construction; it is no mirror of the YAML. Nothing here reads a file.

use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::config::vendors::Vendor;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::ReadBeforeDelete;

pub mod vendors;

/// A checked team: who takes part, by which rules, within which limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// The agents in the order of the file, which breaks ties. Never empty; ids are unique.
    pub agents: Vec<AgentConfig>,
    /// How the agents work together, and on what.
    pub orchestrator: OrchestratorConfig,
    /// How long things may take.
    pub timeouts: TimeoutConfig,
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
    /// Its workspace as written in the YAML (relative: below `.massgen/workspaces`); without one it
    /// has no file tools.
    pub cwd: Option<String>,
    /// Paths that only this agent is given.
    pub context_paths: Vec<ContextPath>,
    /// Whether it is held to listed directories.
    pub folder_guard: FolderGuard,
    /// Whether it must read a file before deleting or overwriting it.
    pub read_before_delete: ReadBeforeDelete,
    /// Which of the tools it is offered.
    pub tools: ToolFilter,
}

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
    /// Keys that belong to the model's API and go into every request as they are.
    pub parameters: Map<String, Value>,
    /// The replies of a `scripted` backend.
    pub script: Option<Script>,
}

/// Where the replies of a scripted backend stand.
#[derive(Clone, Debug, PartialEq)]
pub enum Script {
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
    /// Paths inside that stay read-only, relative to the path or absolute.
    pub protected: Vec<String>,
    /// Paths inside that are closed for reading too.
    pub hidden: Vec<String>,
    /// Protected names that are open here.
    pub unprotected: Vec<String>,
}

/// The rules of coordination and delivery.
#[derive(Clone, Debug)]
pub struct OrchestratorConfig {
    /// Paths that every agent is given.
    pub context_paths: Vec<ContextPath>,
    /// Where the latest snapshot of each agent is found.
    pub snapshot_storage: Option<String>,
    /// Where agents see each other's snapshots.
    pub agent_temporary_workspace: Option<String>,
    /// Where sessions are kept.
    pub session_storage: Option<String>,
    /// How critical voters are asked to be.
    pub voting_sensitivity: VotingSensitivity,
    /// How many answers one agent may give.
    pub max_new_answers_per_agent: Option<u32>,
    /// How different a new answer must be from all others.
    pub answer_novelty: NoveltyRequirement,
    /// Whether the first answer is taken without voting.
    pub coordination: Rounds,
    /// Whether agents only plan until the final phase, and with which words.
    pub planning: Planning,
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
pub enum Rounds {
    /// Agents answer, see each other's answers and vote.
    #[default]
    Vote,
    /// The first agent presents at once (`skip_coordination_rounds`).
    Skip,
}

/// Whether agents only plan until the final phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Planning {
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
