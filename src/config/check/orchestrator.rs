//! Checks the sections `orchestrator`, which has the rules of coordination, `memory` and
//! `timeout_settings`.

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue, scalar_text};
use crate::config::keys::preparation::CRITERIA_MAX;
use crate::config::keys::{checks, coordination, limits, memory, orchestrator, root};
use crate::config::orchestrator::{NotesTiming, RoundGuidance};
use crate::config::skills::SkillsConfig;
use crate::config::storage_path::StoragePath;
use crate::config::yaml::YamlValue;
use crate::config::{
    DriftConflictPolicy, NoveltyRequirement, OrchestratorConfig, PlanningMode, PresentationMode,
    Strategy, SubagentsConfig, TaskPlanning, TimeoutConfig, VotingChecklist, VotingSensitivity,
    WriteMode,
};
use crate::text::single_line;

/// The value of `voting_sensitivity` by which voters score answers.
const CHECKLIST: &str = "checklist_gated";
/// The default of `voting_threshold`, as in MassGen.
const THRESHOLD_DEFAULT: u8 = 5;
/// The maximum length of a criterion, in characters.
const CRITERION_CHARS_MAX: usize = 1_000;
/// The criteria of a config that names none.
const CRITERIA_DEFAULT: [&str; 4] = [
    "Complete: everything that the task asks for is there.",
    "Correct: its claims were checked, and what it made works.",
    "Thorough: no part is only sketched, and unusual cases are covered.",
    "Careful: it is clear and well made, and in no respect worse than another answer.",
];

/// The default maximum number of entries of a plan.
const PLAN_ENTRIES_DEFAULT: usize = 30;

impl ConfigChecker<'_> {
    /// Returns the section `orchestrator`, or the defaults without it.
    pub(super) fn orchestrator(&mut self, root: &MappingView<'_>) -> OrchestratorConfig {
        let default = OrchestratorConfig::default();
        let view = root.section_or_empty(&root::ORCHESTRATOR);
        let coordination = view.section_or_empty(&orchestrator::COORDINATION);
        let sensitivity = view.word(&orchestrator::VOTING_SENSITIVITY);
        let session_storage = view.text(&orchestrator::SESSION_STORAGE);
        let session_storage = session_storage.and_then(|text| self.parse_storage_path(&text));
        OrchestratorConfig {
            session_storage: session_storage.unwrap_or(default.session_storage),
            context_paths: self.context_paths(&view),
            voting_sensitivity: match sensitivity {
                Some("balanced") => VotingSensitivity::Balanced,
                Some("strict" | CHECKLIST) => VotingSensitivity::Strict,
                _ => VotingSensitivity::Lenient,
            },
            checklist: (sensitivity == Some(CHECKLIST))
                .then(|| self.checklist(&view, &coordination)),
            max_new_answers_per_agent: view.integer(&orchestrator::MAX_NEW_ANSWERS_PER_AGENT),
            max_new_answers_global: view.integer(&orchestrator::MAX_NEW_ANSWERS_GLOBAL),
            answer_lead_max: answer_lead(&view, default.answer_lead_max),
            new_answers_shown_max: new_answers_shown(&view),
            answer_novelty: match view.word(&orchestrator::ANSWER_NOVELTY_REQUIREMENT) {
                Some("balanced") => NoveltyRequirement::Balanced,
                Some("strict") => NoveltyRequirement::Strict,
                _ => NoveltyRequirement::Lenient,
            },
            strategy: strategy(&view),
            // Checked when the agents are known: see `reviewer`.
            reviewer: None,
            skips_coordination: view.is_set(&orchestrator::SKIP_COORDINATION_ROUNDS),
            presentation: presentation(&view),
            write_mode: match coordination.word(&coordination::WRITE_MODE) {
                Some(coordination::LEGACY_WRITE_MODE) => WriteMode::Legacy,
                _ => WriteMode::Attempts,
            },
            deliver_ignored: self.file_globs(&view, &orchestrator::DELIVER_IGNORED),
            drift: match coordination.word(&coordination::DRIFT_CONFLICT_POLICY) {
                Some("fail") => DriftConflictPolicy::Fail,
                Some("prefer_presenter") => DriftConflictPolicy::PreferPresenter,
                _ => DriftConflictPolicy::Skip,
            },
            planning: planning_mode(&coordination),
            task_planning: task_planning(&coordination),
            max_orchestration_restarts: coordination
                .integer(&coordination::MAX_ORCHESTRATION_RESTARTS)
                .unwrap_or(default.max_orchestration_restarts),
            // The section `memory` has it: see `add_memory`.
            compaction_threshold: None,
            compression_target_ratio: coordination.float(&coordination::COMPRESSION_TARGET_RATIO),
            reads_project_instructions: view
                .flag(&orchestrator::PROJECT_INSTRUCTIONS)
                .unwrap_or(default.reads_project_instructions),
            skills: self.skills(&view, &coordination),
            keeps_memory: coordination.is_set(&coordination::ENABLE_MEMORY_FILESYSTEM_MODE),
            subagents: subagents(&coordination),
            subagent_types: self.subagent_types(&coordination),
            rounds: rounds(&coordination),
            preparation: self.preparation(&view, &coordination),
        }
    }

    /// Adds the settings of the section `memory` to those of `orchestrator`.
    pub(super) fn add_memory(&mut self, root: &MappingView<'_>, config: &mut OrchestratorConfig) {
        let view = root.section_or_empty(&memory::KEY);
        if !view.is_set(&memory::ENABLED) {
            return;
        }
        let persistent = view.section_or_empty(&memory::PERSISTENT);
        if persistent.is_set(&memory::PERSISTENT_ENABLED) {
            config.keeps_memory = true;
            let message = "long-term memory is notes in files, and no vector database is used";
            self.add_warning(view.at(&memory::PERSISTENT), message);
        }
        let compression = view.section_or_empty(&memory::COMPRESSION);
        config.compaction_threshold = compression.float(&memory::TRIGGER_THRESHOLD);
        config.compression_target_ratio = config
            .compression_target_ratio
            .or_else(|| compression.float(&memory::TARGET_RATIO));
    }

    /// Returns where massgen looks for skills: nowhere unless `use_skills` is set.
    fn skills(
        &mut self,
        orchestrator: &MappingView<'_>,
        coordination: &MappingView<'_>,
    ) -> SkillsConfig {
        let skills_directory = coordination
            .text(&coordination::SKILLS_DIRECTORY)
            .or_else(|| orchestrator.text(&coordination::SKILLS_DIRECTORY))
            .and_then(|text| self.path(&text));
        if !coordination.is_set(&coordination::USE_SKILLS) {
            return SkillsConfig::default();
        }
        SkillsConfig {
            from_sessions: coordination.is_set(&coordination::LOAD_PREVIOUS_SESSION_SKILLS),
            ..SkillsConfig::new(skills_directory, self.context.base, self.context.home)
        }
    }

    /// Returns the checklist of voters, with massgen's criteria unless the config has some.
    fn checklist(
        &mut self,
        orchestrator: &MappingView<'_>,
        coordination: &MappingView<'_>,
    ) -> VotingChecklist {
        let key = &coordination::CHECKLIST_CRITERIA;
        let items = coordination.items(key);
        let hint = "list fewer";
        let count = (items.len(), CRITERIA_MAX);
        self.limit_count(coordination.at(key), count, "criteria", hint);
        let mut criteria = Vec::new();
        for (path, item) in items.into_iter().take(CRITERIA_MAX) {
            let text = match item.value {
                YamlValue::Scalar(_) => scalar_text(item, path),
                YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => {
                    MappingView { node: item, path }.text(&checks::TEXT)
                }
            };
            criteria.extend(text.map(|text| single_line(text.value, CRITERION_CHARS_MAX)));
        }
        if criteria.is_empty() {
            criteria.extend(CRITERIA_DEFAULT.map(str::to_owned));
        }
        let threshold = orchestrator.integer(&orchestrator::VOTING_THRESHOLD);
        VotingChecklist {
            criteria,
            threshold: threshold.unwrap_or(THRESHOLD_DEFAULT),
        }
    }

    /// Returns the directory that a string names, below the state directory unless absolute. Adds
    /// an error if it is invalid.
    pub(super) fn parse_storage_path(&mut self, text: &TextValue<'_>) -> Option<StoragePath> {
        if text.value.starts_with('~') {
            return self.path(text).map(StoragePath::Absolute);
        }
        let storage = StoragePath::parse(text.value);
        if storage.is_none() {
            let hint =
                "use a name without `..`, which is then below `.massgen/`, or an absolute path";
            self.refuse_value(text, "a directory of massgen", hint);
        }
        storage
    }
}

/// Returns the section `timeout_settings`, or the defaults without it.
pub(super) fn timeouts(root: &MappingView<'_>) -> TimeoutConfig {
    let default = TimeoutConfig::default();
    let view = root.section_or_empty(&root::TIMEOUT_SETTINGS);
    TimeoutConfig {
        orchestrator_seconds: view
            .integer(&limits::ORCHESTRATOR_TIMEOUT_SECONDS)
            .unwrap_or(default.orchestrator_seconds),
        initial_round_seconds: view.integer(&limits::INITIAL_ROUND_TIMEOUT_SECONDS),
        subsequent_round_seconds: view.integer(&limits::SUBSEQUENT_ROUND_TIMEOUT_SECONDS),
        round_grace_seconds: view
            .integer(&limits::ROUND_TIMEOUT_GRACE_SECONDS)
            .unwrap_or(default.round_grace_seconds),
    }
}

/// Returns the maximum number of answers that an agent may be ahead of the others; `None` sets no
/// limit.
fn answer_lead(view: &MappingView<'_>, default: Option<u32>) -> Option<u32> {
    if view.flag(&orchestrator::FAIRNESS_ENABLED) == Some(false) {
        return None;
    }
    let lead_max: Option<u32> = view.integer(&orchestrator::FAIRNESS_LEAD_CAP_ANSWERS);
    // With 0, no agent could answer first.
    lead_max.map(|lead_max| lead_max.max(1)).or(default)
}

/// Returns the maximum number of new answers of others that an agent is shown during a round.
/// Scores are submitted with the vote, at the end of a round: a setting about the time before that
/// is about the whole round.
fn new_answers_shown(view: &MappingView<'_>) -> Option<usize> {
    let has_scores = view.has_text(&orchestrator::VOTING_SENSITIVITY, CHECKLIST);
    let is_before_scores = has_scores && view.is_set(&orchestrator::UPDATES_BEFORE_SCORES);
    let is_deferred = view.is_set(&orchestrator::DEFER_PEER_UPDATES) && !is_before_scores;
    if view.is_set(&orchestrator::DISABLE_INJECTION) || is_deferred {
        return Some(0);
    }
    let is_fairness_enabled = view.flag(&orchestrator::FAIRNESS_ENABLED) != Some(false);
    view.integer(&orchestrator::MAX_MIDSTREAM_INJECTIONS)
        .filter(|_| is_fairness_enabled)
}

fn presentation(view: &MappingView<'_>) -> PresentationMode {
    let strategy = view.word(&orchestrator::FINAL_ANSWER_STRATEGY);
    if strategy == Some(orchestrator::WINNER_PRESENTS) {
        PresentationMode::Always
    } else if view.is_set(&orchestrator::SKIP_FINAL_PRESENTATION) {
        PresentationMode::Skipped
    } else {
        PresentationMode::Presented
    }
}

/// Returns how the winner is found. A config of MassGen that skips the vote has agents that answer
/// alone.
fn strategy(view: &MappingView<'_>) -> Strategy {
    let named = view.word(&orchestrator::STRATEGY).and_then(|name| {
        let mut strategies = Strategy::ALL.into_iter();
        strategies.find(|strategy| strategy.name() == name)
    });
    let skips_vote = view.is_set(&orchestrator::SKIP_VOTING);
    named.unwrap_or(if skips_vote {
        Strategy::BestOf
    } else {
        Strategy::default()
    })
}

fn planning_mode(coordination: &MappingView<'_>) -> PlanningMode {
    if !coordination.is_set(&coordination::ENABLE_PLANNING_MODE) {
        return PlanningMode::Off;
    }
    let instruction = coordination.string(&coordination::PLANNING_MODE_INSTRUCTION);
    PlanningMode::On { instruction }
}

fn task_planning(coordination: &MappingView<'_>) -> TaskPlanning {
    if !coordination.is_set(&coordination::ENABLE_AGENT_TASK_PLANNING) {
        return TaskPlanning::Off;
    }
    let entries_max = coordination.integer(&coordination::MAX_TASKS_PER_PLAN);
    TaskPlanning::On {
        entries_max: entries_max.unwrap_or(PLAN_ENTRIES_DEFAULT),
        writes_file: coordination.is_set(&coordination::TASK_PLANNING_FILES),
    }
}

fn subagents(coordination: &MappingView<'_>) -> Option<SubagentsConfig> {
    let default = SubagentsConfig::default();
    let seconds = coordination.integer(&coordination::SUBAGENT_DEFAULT_TIMEOUT);
    let concurrent_max = coordination.integer(&coordination::SUBAGENT_MAX_CONCURRENT);
    let is_enabled = coordination.is_set(&coordination::ENABLE_SUBAGENTS);
    is_enabled.then(|| SubagentsConfig {
        timeout_seconds: seconds.unwrap_or(default.timeout_seconds),
        concurrent_max: concurrent_max.unwrap_or(default.concurrent_max),
    })
}

fn rounds(view: &MappingView<'_>) -> RoundGuidance {
    RoundGuidance {
        keeps_decisions: view.is_set(&coordination::ENABLE_CHANGEDOC),
        submits_early: view.is_set(&coordination::FAST_ITERATION_MODE),
        verifications_max: view.integer(&coordination::MAX_VERIFICATIONS_PER_ROUND),
        repairs_max: view.integer(&coordination::MAX_INTERNAL_FIX_LOOPS),
        leaves_skill: view.is_set(&coordination::USE_SKILLS)
            && view.is_set(&coordination::LOAD_PREVIOUS_SESSION_SKILLS),
        continues_documents: view.is_set(&coordination::SKIP_REDUNDANT_SCAFFOLDING),
        notes: match view.word(&coordination::LEARNING_CAPTURE_MODE) {
            Some("final_only") => NotesTiming::Final,
            Some("verification_and_final_only") => NotesTiming::VerificationsAndFinal,
            _ => NotesTiming::EveryRound,
        },
    }
}
