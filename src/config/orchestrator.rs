//! How the agents work together: coordination, voting, plans, notes and the timeouts.

use crate::config::agent::ContextPath;
use crate::config::checks::FileGlobs;
use crate::config::preparation::PreparationConfig;
use crate::config::skills::SkillsConfig;
use crate::config::storage_path::{self, StoragePath};
use crate::config::subagents::SubagentTypesConfig;
use crate::id::AgentId;

/// The rules of coordination and delivery.
#[derive(Clone, Debug)]
pub struct OrchestratorConfig {
    /// Paths that are opened to every agent.
    pub context_paths: Vec<ContextPath>,
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
    /// The share of a model's context from which a conversation is compacted.
    pub compaction_threshold: Option<f64>,
    /// The share of a conversation's steps, the newest, that a compaction leaves as they are.
    pub compression_target_ratio: Option<f64>,
    /// How many answers more than the others an agent may give before it waits for those that have
    /// not voted; `None` sets no limit.
    pub answer_lead_max: Option<u32>,
    /// The maximum number of new answers of others that an agent is shown in the course of a round;
    /// `None` sets no limit.
    pub new_answers_shown_max: Option<usize>,
    /// How different a new answer must be from all others.
    pub answer_novelty: NoveltyRequirement,
    /// How the winner is found.
    pub strategy: Strategy,
    /// The agent whose model compares the answers that passed the checks; `None` is the first one.
    pub reviewer: Option<AgentId>,
    /// Whether the first agent presents at once, without answers (`skip_coordination_rounds`).
    pub skips_coordination: bool,
    /// Whether the winner presents its answer, if it has nowhere to deliver to.
    pub presentation: PresentationMode,
    /// Where agents write in the user's write paths before the delivery.
    pub write_mode: WriteMode,
    /// The names that are delivered although git ignores them.
    pub deliver_ignored: FileGlobs,
    /// What a delivery does about files that the user changed since the run began.
    pub drift: DriftConflictPolicy,
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
    /// The types of subagents that agents may start.
    pub subagent_types: SubagentTypesConfig,
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

/// How the winner is found (`strategy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Agents read each other's answers and vote.
    #[default]
    Consensus,
    /// Agents answer alone; of the answers that pass the required checks, a review selects one.
    BestOf,
    /// Agents answer alone; the first answer that passes the required checks ends the rest.
    FirstPass,
    /// As `FirstPass`, but an agent starts only when those before it in the config have failed.
    Cascade,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 4] = [
        Self::Consensus,
        Self::BestOf,
        Self::FirstPass,
        Self::Cascade,
    ];

    /// Returns its name in configs.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Consensus => "consensus",
            Strategy::BestOf => "best-of",
            Strategy::FirstPass => "first-pass",
            Strategy::Cascade => "cascade",
        }
    }

    /// Returns whether the first answer that passes the required checks wins.
    pub fn ends_at_first_pass(self) -> bool {
        matches!(self, Strategy::FirstPass | Strategy::Cascade)
    }

    /// Returns whether no agent sees the answer of another.
    pub fn is_independent(self) -> bool {
        self != Strategy::Consensus
    }
}

/// Whether the winner presents its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PresentationMode {
    /// It is asked for the final result, unless its answer was made in an attempt, whose changes are
    /// delivered as they are.
    #[default]
    Presented,
    /// It is always asked (`final_answer_strategy: winner_present`).
    Always,
    /// Its answer is the result as it is (`skip_final_presentation`).
    Skipped,
}

/// Where agents write in the user's write paths before the delivery (`write_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// Each agent in an attempt: a private layer over them.
    #[default]
    Attempts,
    /// Nowhere: the winner writes to them in the final phase.
    Legacy,
}

/// What a delivery does about files that the user changed since the run began, and that cannot be
/// merged (`drift_conflict_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriftConflictPolicy {
    /// It leaves them as they are.
    #[default]
    Skip,
    /// It delivers nothing.
    Fail,
    /// It offers the agents' versions, each for a choice by itself; without a user to ask, it leaves
    /// the files as they are.
    PreferPresenter,
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
    /// An agent's first round; the agent is then asked to finish.
    pub initial_round_seconds: Option<u64>,
    /// Every later round; the agent is then asked to finish.
    pub subsequent_round_seconds: Option<u64>,
    /// The grace period after that in which the agent may still use tools.
    pub round_grace_seconds: u64,
}

/// The default of `fairness_lead_cap_answers`, the same as MassGen's.
const ANSWER_LEAD_DEFAULT: u32 = 2;
/// The default timeout of the whole coordination, in seconds: the same as MassGen's.
const ORCHESTRATOR_SECONDS_DEFAULT: u64 = 1_800;
/// The default grace period after a round, in seconds: the same as MassGen's.
const ROUND_GRACE_SECONDS_DEFAULT: u64 = 120;

impl Default for OrchestratorConfig {
    fn default() -> Self {
        Self {
            context_paths: Vec::new(),
            session_storage: StoragePath::relocated(storage_path::SESSIONS),
            voting_sensitivity: VotingSensitivity::default(),
            checklist: None,
            max_new_answers_per_agent: None,
            max_new_answers_global: None,
            compaction_threshold: None,
            compression_target_ratio: None,
            answer_lead_max: Some(ANSWER_LEAD_DEFAULT),
            new_answers_shown_max: None,
            answer_novelty: NoveltyRequirement::default(),
            strategy: Strategy::default(),
            reviewer: None,
            skips_coordination: false,
            presentation: PresentationMode::default(),
            write_mode: WriteMode::default(),
            drift: DriftConflictPolicy::default(),
            deliver_ignored: FileGlobs::default(),
            planning: PlanningMode::default(),
            task_planning: TaskPlanning::default(),
            max_orchestration_restarts: 0,
            reads_project_instructions: true,
            skills: SkillsConfig::default(),
            keeps_memory: false,
            subagents: None,
            subagent_types: SubagentTypesConfig::default(),
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

/// How agents are asked to work within a round.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of the config, and they do not depend on each other"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundGuidance {
    /// Whether they write down their decisions (`enable_changedoc`).
    pub keeps_decisions: bool,
    /// Whether they submit as soon as their work holds together (`fast_iteration_mode`).
    pub submits_early: bool,
    /// How often they check their work (`max_verifications_per_round`).
    pub verifications_max: Option<u32>,
    /// How often they repair and check again (`max_internal_fix_loops`).
    pub repairs_max: Option<u32>,
    /// Whether they continue the documents in their workspace (`skip_redundant_scaffolding`).
    pub continues_documents: bool,
    /// Whether they leave a skill for later sessions (`load_previous_session_skills`).
    pub leaves_skill: bool,
    /// When they leave notes for later sessions (`learning_capture_mode`).
    pub notes: NotesTiming,
}

/// When agents leave notes for later sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotesTiming {
    /// In every round and in the final phase.
    #[default]
    EveryRound,
    /// In the final phase; in every round only how they checked their answer.
    VerificationsAndFinal,
    /// In the final phase.
    Final,
}
