//! Checks the sections `orchestrator`, which has the rules of coordination, `memory` and
//! `timeout_settings`.

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue, scalar_text};
use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::keys::preparation::CRITERIA_MAX;
use crate::config::keys::shape::{Flag, Integer, Text};
use crate::config::keys::{
    TypedKey, coordination, criteria, memory, orchestrator, root, timeout_settings,
};
use crate::config::round_guidance::{NotesTiming, RoundGuidance};
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
        let Some(view) = root.section(&root::ORCHESTRATOR) else {
            return default;
        };
        let text_of = |key: &TypedKey<Text>| view.text(key).map(|text| text.value);
        let coordination_view = view.section(&orchestrator::COORDINATION);
        OrchestratorConfig {
            context_paths: self.context_paths(&view),
            snapshot_storage: self.storage(
                &view,
                &orchestrator::SNAPSHOT_STORAGE,
                default.snapshot_storage,
            ),
            agent_temporary_workspace: self.storage(
                &view,
                &orchestrator::AGENT_TEMPORARY_WORKSPACE,
                default.agent_temporary_workspace,
            ),
            session_storage: self.storage(
                &view,
                &orchestrator::SESSION_STORAGE,
                default.session_storage,
            ),
            voting_sensitivity: match text_of(&orchestrator::VOTING_SENSITIVITY) {
                Some("balanced") => VotingSensitivity::Balanced,
                Some("strict" | CHECKLIST) => VotingSensitivity::Strict,
                _ => VotingSensitivity::Lenient,
            },
            checklist: (text_of(&orchestrator::VOTING_SENSITIVITY) == Some(CHECKLIST))
                .then(|| self.checklist(&view)),
            max_new_answers_per_agent: count(&view, &orchestrator::MAX_NEW_ANSWERS_PER_AGENT),
            max_new_answers_global: count(&view, &orchestrator::MAX_NEW_ANSWERS_GLOBAL),
            answer_lead_max: answer_lead(&view, default.answer_lead_max),
            new_answers_shown_max: new_answers_shown(&view),
            answer_novelty: match text_of(&orchestrator::ANSWER_NOVELTY_REQUIREMENT) {
                Some("balanced") => NoveltyRequirement::Balanced,
                Some("strict") => NoveltyRequirement::Strict,
                _ => NoveltyRequirement::Lenient,
            },
            strategy: strategy(&view),
            // Checked when the agents are known: see `reviewer`.
            reviewer: None,
            skips_coordination: view.flag(&orchestrator::SKIP_COORDINATION_ROUNDS) == Some(true),
            presentation: match view.flag(&orchestrator::SKIP_FINAL_PRESENTATION) {
                _ if text_of(&orchestrator::FINAL_ANSWER_STRATEGY)
                    == Some(orchestrator::WINNER_PRESENTS) =>
                {
                    PresentationMode::Always
                }
                Some(true) => PresentationMode::Skipped,
                Some(false) | None => PresentationMode::Presented,
            },
            write_mode: write_mode(coordination_view.as_ref()),
            deliver_ignored: self.file_globs(&view, &orchestrator::DELIVER_IGNORED),
            drift: drift_policy(coordination_view.as_ref()),
            planning: planning_mode(&view),
            task_planning: task_planning(&view),
            max_orchestration_restarts: coordination_view
                .as_ref()
                .and_then(|view| count(view, &coordination::MAX_ORCHESTRATION_RESTARTS))
                .unwrap_or(default.max_orchestration_restarts),
            // The section `memory` has it: see `add_memory`.
            compaction_threshold: None,
            debug_final_answer: view
                .text(&orchestrator::DEBUG_FINAL_ANSWER)
                .map(|text| text.value.to_owned()),
            compression_target_ratio: coordination_view
                .as_ref()
                .and_then(|view| view.float(&coordination::COMPRESSION_TARGET_RATIO)),
            reads_project_instructions: view
                .flag(&orchestrator::PROJECT_INSTRUCTIONS)
                .unwrap_or(default.reads_project_instructions),
            skills: self.skills(&view),
            keeps_memory: coordination_view
                .as_ref()
                .and_then(|view| view.flag(&coordination::ENABLE_MEMORY_FILESYSTEM_MODE))
                .unwrap_or(default.keeps_memory),
            subagents: subagents(&view),
            subagent_types: self.subagent_types(&view),
            rounds: rounds(&view),
            preparation: self.preparation(&view),
        }
    }

    /// Adds the settings of the section `memory` to those of `orchestrator`.
    pub(super) fn add_memory(&mut self, root: &MappingView<'_>, config: &mut OrchestratorConfig) {
        let section = root.section(&memory::KEY);
        let Some(view) = section.filter(|view| view.flag(&memory::ENABLED) == Some(true)) else {
            return;
        };
        if let Some(persistent) = view.section(&memory::PERSISTENT)
            && persistent.flag(&memory::PERSISTENT_ENABLED) == Some(true)
        {
            config.keeps_memory = true;
            let message = "long-term memory is notes in files, and no vector database is used";
            let warning = Diagnostic::warning(view.key_path(&memory::PERSISTENT), message);
            self.findings
                .push(warning.with_span(view.key_span(&memory::PERSISTENT)));
        }
        if let Some(compression) = view.section(&memory::COMPRESSION) {
            config.compaction_threshold = compression.float(&memory::TRIGGER_THRESHOLD);
            config.compression_target_ratio = config
                .compression_target_ratio
                .or_else(|| compression.float(&memory::TARGET_RATIO));
        }
    }

    /// Returns where massgen looks for skills: nowhere unless `use_skills` is set.
    fn skills(&mut self, orchestrator: &MappingView<'_>) -> SkillsConfig {
        let Some(view) = orchestrator.section(&orchestrator::COORDINATION) else {
            return SkillsConfig::default();
        };
        let skills_directory = view
            .text(&coordination::SKILLS_DIRECTORY)
            .or_else(|| orchestrator.text(&coordination::SKILLS_DIRECTORY))
            .and_then(|text| self.path(&text));
        match view.flag(&coordination::USE_SKILLS) {
            Some(true) => SkillsConfig {
                from_sessions: view.flag(&coordination::LOAD_PREVIOUS_SESSION_SKILLS) == Some(true),
                ..SkillsConfig::new(skills_directory, self.context.base, self.context.home)
            },
            _ => SkillsConfig::default(),
        }
    }

    /// Returns the checklist of voters, with massgen's criteria unless the config has some.
    fn checklist(&mut self, orchestrator: &MappingView<'_>) -> VotingChecklist {
        let coordination = orchestrator.section(&orchestrator::COORDINATION);
        let items = coordination
            .as_ref()
            .map(|view| view.items(&coordination::CHECKLIST_CRITERIA))
            .unwrap_or_default();
        if items.len() > CRITERIA_MAX {
            let error = Diagnostic::error(
                "orchestrator.coordination.checklist_criteria_inline",
                format!("{} criteria are too many", items.len()),
            );
            let hint = format!("keep at most {CRITERIA_MAX}");
            self.findings.push(error.with_suggestion(hint));
        }
        let mut criteria = Vec::new();
        for (path, item) in items.into_iter().take(CRITERIA_MAX) {
            let text = match item.value {
                YamlValue::Scalar(_) => scalar_text(item, path),
                YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => {
                    MappingView { node: item, path }.text(&criteria::TEXT)
                }
            };
            criteria.extend(text.map(|text| single_line(text.value, CRITERION_CHARS_MAX)));
        }
        if criteria.is_empty() {
            criteria.extend(CRITERIA_DEFAULT.map(str::to_owned));
        }
        let threshold = orchestrator
            .integer(&orchestrator::VOTING_THRESHOLD)
            .and_then(|threshold| u8::try_from(threshold).ok());
        VotingChecklist {
            criteria,
            threshold: threshold.unwrap_or(THRESHOLD_DEFAULT),
        }
    }

    fn storage(
        &mut self,
        view: &MappingView<'_>,
        key: &TypedKey<Text>,
        default: StoragePath,
    ) -> StoragePath {
        match view.text(key) {
            Some(text) => self.parse_storage_path(&text).unwrap_or(default),
            None => default,
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
            let message = format!("{} is not a directory of massgen", quote(text.value));
            let error = Diagnostic::error(&text.path, message).with_span(text.span);
            self.findings.push(error.with_suggestion(
                "use a name without `..`, which is then below `.massgen/`, or an absolute path",
            ));
        }
        storage
    }
}

/// Returns the section `timeout_settings`, or the defaults without it.
pub(super) fn timeouts(root: &MappingView<'_>) -> TimeoutConfig {
    let default = TimeoutConfig::default();
    let Some(view) = root.section(&root::TIMEOUT_SETTINGS) else {
        return default;
    };
    let seconds = |key: &TypedKey<Integer>| view.integer(key);
    TimeoutConfig {
        orchestrator_seconds: seconds(&timeout_settings::ORCHESTRATOR_TIMEOUT_SECONDS)
            .unwrap_or(default.orchestrator_seconds),
        initial_round_seconds: seconds(&timeout_settings::INITIAL_ROUND_TIMEOUT_SECONDS),
        subsequent_round_seconds: seconds(&timeout_settings::SUBSEQUENT_ROUND_TIMEOUT_SECONDS),
        round_grace_seconds: seconds(&timeout_settings::ROUND_TIMEOUT_GRACE_SECONDS)
            .unwrap_or(default.round_grace_seconds),
    }
}

/// Returns the maximum number of answers that an agent may be ahead of the others; `None` sets no
/// limit.
fn answer_lead(view: &MappingView<'_>, default: Option<u32>) -> Option<u32> {
    match view.flag(&orchestrator::FAIRNESS_ENABLED) {
        Some(false) => None,
        Some(true) | None => count(view, &orchestrator::FAIRNESS_LEAD_CAP_ANSWERS)
            // With 0, no agent could answer first.
            .map(|lead_max| lead_max.max(1))
            .or(default),
    }
}

/// Returns the maximum number of new answers of others that an agent is shown during a round.
/// Scores are submitted with the vote, at the end of a round: a setting about the time before that
/// is about the whole round.
fn new_answers_shown(view: &MappingView<'_>) -> Option<usize> {
    let is_set = |key: &TypedKey<Flag>| view.flag(key) == Some(true);
    let sensitivity = view.text(&orchestrator::VOTING_SENSITIVITY);
    let has_scores = sensitivity.is_some_and(|text| text.value == CHECKLIST);
    let is_before_scores = has_scores && is_set(&orchestrator::UPDATES_BEFORE_SCORES);
    let is_deferred = is_set(&orchestrator::DEFER_PEER_UPDATES) && !is_before_scores;
    if is_set(&orchestrator::DISABLE_INJECTION) || is_deferred {
        return Some(0);
    }
    let injections_max = view.integer(&orchestrator::MAX_MIDSTREAM_INJECTIONS);
    let is_fairness_enabled = view.flag(&orchestrator::FAIRNESS_ENABLED) != Some(false);
    injections_max
        .filter(|_| is_fairness_enabled)
        .and_then(|count| usize::try_from(count).ok())
}

fn write_mode(coordination: Option<&MappingView<'_>>) -> WriteMode {
    let mode = coordination.and_then(|view| view.text(&coordination::WRITE_MODE));
    match mode.map(|mode| mode.value) {
        Some(coordination::LEGACY_WRITE_MODE) => WriteMode::Legacy,
        _ => WriteMode::Attempts,
    }
}

fn drift_policy(coordination: Option<&MappingView<'_>>) -> DriftConflictPolicy {
    let policy = coordination.and_then(|view| view.text(&coordination::DRIFT_CONFLICT_POLICY));
    match policy.map(|policy| policy.value) {
        Some("fail") => DriftConflictPolicy::Fail,
        Some("prefer_presenter") => DriftConflictPolicy::PreferPresenter,
        _ => DriftConflictPolicy::Skip,
    }
}

/// Returns how the winner is found. A config of MassGen that skips the vote has agents that answer
/// alone.
fn strategy(view: &MappingView<'_>) -> Strategy {
    let named = view.text(&orchestrator::STRATEGY).and_then(|text| {
        let mut strategies = Strategy::ALL.into_iter();
        strategies.find(|strategy| strategy.name() == text.value)
    });
    let skips_vote = view.flag(&orchestrator::SKIP_VOTING) == Some(true);
    named.unwrap_or(if skips_vote {
        Strategy::BestOf
    } else {
        Strategy::default()
    })
}

fn planning_mode(view: &MappingView<'_>) -> PlanningMode {
    let Some(view) = view.section(&orchestrator::COORDINATION) else {
        return PlanningMode::Off;
    };
    let instruction = view.text(&coordination::PLANNING_MODE_INSTRUCTION);
    match view.flag(&coordination::ENABLE_PLANNING_MODE) {
        Some(true) => PlanningMode::On {
            instruction: instruction.map(|text| text.value.to_owned()),
        },
        _ => PlanningMode::Off,
    }
}

fn task_planning(view: &MappingView<'_>) -> TaskPlanning {
    let Some(view) = view.section(&orchestrator::COORDINATION) else {
        return TaskPlanning::Off;
    };
    let entries_max = view
        .integer(&coordination::MAX_TASKS_PER_PLAN)
        .and_then(|count| usize::try_from(count).ok());
    match view.flag(&coordination::ENABLE_AGENT_TASK_PLANNING) {
        Some(true) => TaskPlanning::On {
            entries_max: entries_max.unwrap_or(PLAN_ENTRIES_DEFAULT),
            writes_file: view.flag(&coordination::TASK_PLANNING_FILES) == Some(true),
        },
        _ => TaskPlanning::Off,
    }
}

fn subagents(view: &MappingView<'_>) -> Option<SubagentsConfig> {
    let view = view.section(&orchestrator::COORDINATION)?;
    let default = SubagentsConfig::default();
    let seconds = view.integer(&coordination::SUBAGENT_DEFAULT_TIMEOUT);
    let concurrent_max = view
        .integer(&coordination::SUBAGENT_MAX_CONCURRENT)
        .and_then(|concurrent_max| usize::try_from(concurrent_max).ok());
    let is_enabled = view.flag(&coordination::ENABLE_SUBAGENTS) == Some(true);
    is_enabled.then(|| SubagentsConfig {
        timeout_seconds: seconds.unwrap_or(default.timeout_seconds),
        concurrent_max: concurrent_max.unwrap_or(default.concurrent_max),
    })
}

fn rounds(view: &MappingView<'_>) -> RoundGuidance {
    let Some(view) = view.section(&orchestrator::COORDINATION) else {
        return RoundGuidance::default();
    };
    let is_set = |key: &TypedKey<Flag>| view.flag(key) == Some(true);
    RoundGuidance {
        keeps_decisions: is_set(&coordination::ENABLE_CHANGEDOC),
        submits_early: is_set(&coordination::FAST_ITERATION_MODE),
        verifications_max: count(&view, &coordination::MAX_VERIFICATIONS_PER_ROUND),
        repairs_max: count(&view, &coordination::MAX_INTERNAL_FIX_LOOPS),
        leaves_skill: is_set(&coordination::USE_SKILLS)
            && is_set(&coordination::LOAD_PREVIOUS_SESSION_SKILLS),
        continues_documents: is_set(&coordination::SKIP_REDUNDANT_SCAFFOLDING),
        notes: match view.text(&coordination::LEARNING_CAPTURE_MODE) {
            Some(mode) if mode.value == "final_only" => NotesTiming::Final,
            Some(mode) if mode.value == "verification_and_final_only" => {
                NotesTiming::VerificationsAndFinal
            }
            Some(_) | None => NotesTiming::EveryRound,
        },
    }
}

fn count(view: &MappingView<'_>, key: &TypedKey<Integer>) -> Option<u32> {
    view.integer(key)
        .and_then(|count| u32::try_from(count).ok())
}
