//! The keys of `orchestrator.coordination`.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Inside, NeedsNamedConfig};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::shape::{self, Decimal, Flag, Integer, NodeList, Text, TextList};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape, criteria, preparation,
    subagent_model,
};

/// The highest limit of steps in a plan, which is also that of the tool.
const TASKS_PER_PLAN_MAX: i64 = 100;

/// The highest limit of restarts.
const RESTARTS_MAX: i64 = 100;

pub(crate) const ENABLE_PLANNING_MODE: TypedKey<Flag> = TypedKey::optional(
    &["enable_planning_mode"],
    shape::flag(),
    "Whether agents only plan during coordination, and the winner does the work.",
    Harmless,
)
.with_default("false");

/// The values of `write_mode`: MassGen's ways to keep an agent's changes apart all mean an attempt.
pub(crate) const WRITE_MODES: &[&str] = &["auto", "worktree", "isolated", LEGACY_WRITE_MODE];
/// The value of `write_mode` without attempts.
pub(crate) const LEGACY_WRITE_MODE: &str = "legacy";

pub(crate) const WRITE_MODE: TypedKey<Text> = TypedKey::optional(
    &["write_mode"],
    shape::one_of(WRITE_MODES),
    "Where agents write in write paths before the delivery. With `auto`, `worktree` or `isolated`, \
     each has a private copy of them, which it changes and tests at their own paths; the changes of \
     the answer that wins are delivered as they are. With `legacy` they only read them, and the \
     winner writes in a final phase.",
    Harmless,
)
.with_default("auto");

pub(crate) const DRIFT_CONFLICT_POLICY: TypedKey<Text> = TypedKey::optional(
    &["drift_conflict_policy"],
    shape::one_of(&["skip", "fail", "prefer_presenter"]),
    "What a delivery does about files that you changed since the run began and that cannot be \
     merged. `skip` keeps your versions. `fail` delivers nothing. `prefer_presenter` offers the \
     agents' versions in the review, and keeps yours where no one can be asked.",
    Harmless,
)
.with_default("skip");

pub(crate) const PLANNING_MODE_INSTRUCTION: TypedKey<Text> = TypedKey::optional(
    &["planning_mode_instruction"],
    shape::text(),
    "Instructions for planning mode, instead of massgen's.",
    Harmless,
);

pub(crate) const COMPRESSION_TARGET_RATIO: TypedKey<Decimal> = TypedKey::optional(
    &["compression_target_ratio"],
    shape::decimal(0.0, 1.0),
    "When a conversation is too long for its model: the share of its steps, the newest, that stay as \
     they are as long as that suffices; at least one. Default: the last three steps.",
    Harmless,
);

pub(crate) const MAX_ORCHESTRATION_RESTARTS: TypedKey<Integer> = TypedKey::optional(
    &["max_orchestration_restarts"],
    shape::integer(0, RESTARTS_MAX),
    "How often coordination may restart after the winner has evaluated the final answer.",
    Harmless,
)
.with_default("0");

pub(crate) const CHECKLIST_CRITERIA: TypedKey<NodeList> = TypedKey::optional(
    &["checklist_criteria_inline"],
    shape::nodes(const { &ValueShape::TextOr(&criteria::CRITERION) }),
    "The criteria of `voting_sensitivity: checklist_gated`, at most 16. A string is the text alone. \
     Default: four criteria about completeness, correctness, thoroughness and care.",
    Harmless,
);

pub(crate) const USE_SKILLS: TypedKey<Flag> = TypedKey::optional(
    &["use_skills"],
    shape::flag(),
    "Whether agents are offered skills: directories with a file `SKILL.md` in `skills_directory`, \
     `~/.massgen/skills` and `~/.agents/skills`, and in the project `.massgen/skills`, `.agents/skills` \
     and `.claude/skills`.",
    NeedsNamedConfig("gives agents skills that are in the project"),
)
.with_default("false");

pub(crate) const SKILLS_DIRECTORY: TypedKey<Text> = TypedKey::optional(
    &["skills_directory"],
    shape::text(),
    "A further directory of skills, which precedes the others unless the project contains it. Relative \
     paths start in the current directory.",
    Inside(PathPurpose::OpenedForReading),
);

pub(crate) const LOAD_PREVIOUS_SESSION_SKILLS: TypedKey<Flag> = TypedKey::optional(
    &["load_previous_session_skills"],
    shape::flag(),
    "With `use_skills`, whether agents are asked to leave a skill in `tasks/evolving_skill` of their \
     workspace, and are offered those that winners of earlier sessions here have left.",
    NeedsNamedConfig("gives agents skills that earlier agents have written"),
)
.with_default("false");

pub(crate) const ENABLE_MEMORY_FILESYSTEM_MODE: TypedKey<Flag> = TypedKey::optional(
    &["enable_memory_filesystem_mode"],
    shape::flag(),
    "Whether agents are given the notes of earlier sessions, and the winner's notes are kept in \
     `.massgen/memory`: Markdown files in `memory/` of its workspace.",
    NeedsNamedConfig("keeps notes of agents and gives them to later ones"),
)
.with_default("false");

pub(crate) const ENABLE_AGENT_TASK_PLANNING: TypedKey<Flag> = TypedKey::optional(
    &["enable_agent_task_planning"],
    shape::flag(),
    "Whether agents keep a plan with the tool `update_plan`. It is shown in every view and recorded \
     with each answer. External agents keep plans of their own, which are shown in any case.",
    Harmless,
)
.with_default("false");

pub(crate) const MAX_TASKS_PER_PLAN: TypedKey<Integer> = TypedKey::optional(
    &["max_tasks_per_plan"],
    shape::integer(1, TASKS_PER_PLAN_MAX),
    "The maximum number of steps in an agent's plan.",
    Harmless,
)
.with_default("30");

pub(crate) const TASK_PLANNING_FILES: TypedKey<Flag> = TypedKey::optional(
    &["task_planning_filesystem_mode"],
    shape::flag(),
    "Whether a plan is written to `tasks/plan.json` in the agent's workspace at each update.",
    Harmless,
)
.with_default("false");

/// The longest timeout of a subagent, in seconds.
const SUBAGENT_SECONDS_MAX: i64 = 86_400;
/// The most subagents of one call that work at the same time.
const SUBAGENTS_AT_ONCE_MAX: i64 = 8;

pub(crate) const ENABLE_SUBAGENTS: TypedKey<Flag> = TypedKey::optional(
    &["enable_subagents"],
    shape::flag(),
    "Whether agents may give parts of their work to subagents.",
    Harmless,
)
.with_default("false");

pub(crate) const SUBAGENT_DEFAULT_TIMEOUT: TypedKey<Integer> = TypedKey::optional(
    &["subagent_default_timeout"],
    shape::integer(1, SUBAGENT_SECONDS_MAX),
    "How long one subagent may work, in seconds.",
    Harmless,
)
.with_default("300");

pub(crate) const SUBAGENT_MAX_CONCURRENT: TypedKey<Integer> = TypedKey::optional(
    &["subagent_max_concurrent"],
    shape::integer(1, SUBAGENTS_AT_ONCE_MAX),
    "How many subagents of one agent work at the same time.",
    Harmless,
)
.with_default("3");

pub(crate) const SUBAGENT_TYPES: TypedKey<TextList> = TypedKey::optional(
    &["subagent_types"],
    shape::texts(&ValueShape::Text),
    "Types of subagents that agents may start, at most 16: built-in types, or directories that contain \
     a file `SUBAGENT.md` in `~/.massgen/subagent_types`, `.massgen/subagent_types` \
     and `.agent/subagent_types`. Default: `evaluator`, `explorer`, `researcher`, `critic` and \
     `execution_trace_analyzer`.",
    NeedsNamedConfig("gives subagents instructions that are in the project"),
);

/// The highest limit of checks and repairs in a round.
const LOOPS_PER_ROUND_MAX: i64 = 100;

pub(crate) const ENABLE_CHANGEDOC: TypedKey<Flag> = TypedKey::optional(
    &["enable_changedoc"],
    shape::flag(),
    "Whether agents are asked to write down their decisions and the reasons in `tasks/changedoc.md` of \
     their workspace, and to continue the document of the answer that they build on.",
    Harmless,
)
.with_default("false");

pub(crate) const FAST_ITERATION_MODE: TypedKey<Flag> = TypedKey::optional(
    &["fast_iteration_mode"],
    shape::flag(),
    "Whether agents are asked to submit as soon as their work holds together, and to leave what could \
     be better to the next round.",
    Harmless,
)
.with_default("false");

pub(crate) const MAX_VERIFICATIONS_PER_ROUND: TypedKey<Integer> = TypedKey::optional(
    &["max_verifications_per_round"],
    shape::integer(0, LOOPS_PER_ROUND_MAX),
    "How often agents are asked to check their work at most in a round.",
    Harmless,
)
.with_default("null");

pub(crate) const MAX_INTERNAL_FIX_LOOPS: TypedKey<Integer> = TypedKey::optional(
    &["max_internal_fix_loops"],
    shape::integer(0, LOOPS_PER_ROUND_MAX),
    "How often agents are asked to repair and check again at most in a round.",
    Harmless,
)
.with_default("null");

pub(crate) const SKIP_REDUNDANT_SCAFFOLDING: TypedKey<Flag> = TypedKey::optional(
    &["skip_redundant_scaffolding"],
    shape::flag(),
    "Whether agents are asked to continue the plans and documents that are in their workspace instead \
     of creating them again.",
    Harmless,
)
.with_default("false");

pub(crate) const LEARNING_CAPTURE_MODE: TypedKey<Text> = TypedKey::optional(
    &["learning_capture_mode"],
    shape::one_of(&["round", "verification_and_final_only", "final_only"]),
    "When agents are asked for notes for later sessions, with `enable_memory_filesystem_mode`: in every \
     round, or only the final agent. With `verification_and_final_only`, they note in every round how \
     they checked their answer.",
    Harmless,
)
.with_default("round");

/// The rules of coordination.
pub static COORDINATION: KeySection = KeySection {
    path: "orchestrator.coordination",
    doc: "How agents coordinate.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        WRITE_MODE.row(),
        DRIFT_CONFLICT_POLICY.row(),
        ENABLE_PLANNING_MODE.row(),
        PLANNING_MODE_INSTRUCTION.row(),
        MAX_ORCHESTRATION_RESTARTS.row(),
        CHECKLIST_CRITERIA.row(),
        USE_SKILLS.row(),
        SKILLS_DIRECTORY.row(),
        LOAD_PREVIOUS_SESSION_SKILLS.row(),
        ENABLE_MEMORY_FILESYSTEM_MODE.row(),
        ENABLE_AGENT_TASK_PLANNING.row(),
        MAX_TASKS_PER_PLAN.row(),
        COMPRESSION_TARGET_RATIO.row(),
        TASK_PLANNING_FILES.row(),
        ENABLE_SUBAGENTS.row(),
        SUBAGENT_DEFAULT_TIMEOUT.row(),
        SUBAGENT_MAX_CONCURRENT.row(),
        SUBAGENT_TYPES.row(),
        subagent_model::KEY.row(),
        ENABLE_CHANGEDOC.row(),
        FAST_ITERATION_MODE.row(),
        MAX_VERIFICATIONS_PER_ROUND.row(),
        MAX_INTERNAL_FIX_LOOPS.row(),
        SKIP_REDUNDANT_SCAFFOLDING.row(),
        LEARNING_CAPTURE_MODE.row(),
        preparation::PERSONAS.row(),
        preparation::CRITERIA.row(),
        ConfigKey::unsupported(
            &[
                "subagent_min_timeout",
                "subagent_max_timeout",
                "subagent_round_timeouts",
                "subagent_runtime_mode",
                "subagent_runtime_fallback_mode",
                "subagent_host_launch_prefix",
            ],
            ValueShape::Any,
            "a subagent is one agent in one process with its parent, and the parent waits for it; \
             `subagent_default_timeout` limits its time",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &[
                "background_subagents",
                "use_two_tier_workspace",
                "broadcast",
                "checkpoint_enabled",
                "evolving_criteria",
                "auto_trace_analysis",
                "round_evaluator_before_checklist",
                "orchestrator_managed_round_evaluator",
                "round_evaluator_skip_synthesis",
                "round_evaluator_refine",
                "enable_quality_rethink_on_iteration",
                "enable_novelty_on_iteration",
                "enable_execution_trace_analyzer",
                "enable_evaluator_personas",
            ],
            ValueShape::Any,
            "agents answer, see each other's answers and vote",
            IgnoredEffect::Convenience,
        )
        .with_default("false"),
        ConfigKey::unsupported(
            &[
                "plan_depth",
                "plan_target_steps",
                "plan_target_chunks",
                "broadcast_sensitivity",
                "response_depth",
                "broadcast_timeout",
                "broadcast_wait_by_default",
                "max_broadcasts_per_agent",
                "disable_final_only_round_capture_fallback",
                "prompt_improver",
                "task_decomposer",
                "pre_collab_voting_threshold",
                "round_evaluator_transformation_pressure",
                "evolving_criteria_score_threshold",
                "evolving_criteria_max_evolutions",
                "evolving_criteria_min_high_score_count",
                "evolving_criteria_timeout",
                "novelty_injection",
                "improvements",
                "checklist_criteria_preset",
                "criteria_mode",
                "bootstrap_max_per_agent_per_round",
                "bootstrap_max_total",
                "resume_from_log",
                "checkpoint_mode",
                "checkpoint_guidance",
                "standalone_checkpoint",
            ],
            ValueShape::Any,
            "agents answer, see each other's answers and vote",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &["massgen_skills"],
            ValueShape::Any,
            "massgen has no skills of its own: `use_skills` offers those in your directories",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &["web_review"],
            ValueShape::Flag,
            "write `delivery: review` at the top of the file",
            IgnoredEffect::Restricts,
        )
        .with_default("false"),
        ConfigKey::unsupported(
            &["checkpoint_gated_patterns"],
            ValueShape::Any,
            "write them as `ask` or `deny` in `permissions`",
            IgnoredEffect::Restricts,
        ),
    ],
};
