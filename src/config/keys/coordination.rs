//! The keys of `orchestrator.coordination`.

use crate::config::keys::found_config::FoundConfigUse::{Inside, NeedsNamedConfig};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::{ValueShape, agents, checks, preparation};

/// The highest limit of steps in a plan, which is also that of the tool.
const TASKS_PER_PLAN_MAX: i64 = 100;

/// The highest limit of restarts.
const RESTARTS_MAX: i64 = 100;

/// The values of `write_mode`: MassGen's ways to keep an agent's changes apart all mean an attempt.
pub(crate) const WRITE_MODES: &[&str] = &["auto", "worktree", "isolated", LEGACY_WRITE_MODE];
/// The value of `write_mode` without attempts.
pub(crate) const LEGACY_WRITE_MODE: &str = "legacy";

/// The longest timeout of a subagent, in seconds.
const SUBAGENT_SECONDS_MAX: i64 = 86_400;
/// The most subagents of one call that work at the same time.
const SUBAGENTS_AT_ONCE_MAX: i64 = 8;

/// The highest limit of checks and repairs in a round.
const LOOPS_PER_ROUND_MAX: i64 = 100;

section! {
    /// How agents coordinate.
    pub static COORDINATION = "orchestrator.coordination";

    /// Where agents write in write paths before the delivery. With `auto`, `worktree` or
    /// `isolated`, each has a private copy of them, which it changes and tests at their own paths;
    /// the changes of the answer that wins are delivered as they are. With `legacy` they only read
    /// them, and the winner writes in a final phase.
    const WRITE_MODE = ["write_mode"] one_of(WRITE_MODES).with_default("auto");

    /// What a delivery does about files that you changed since the run began and that cannot be
    /// merged. `skip` keeps your versions. `fail` delivers nothing. `prefer_presenter` offers the
    /// agents' versions in the review, and keeps yours where no one can be asked.
    const DRIFT_CONFLICT_POLICY = ["drift_conflict_policy"] one_of(&["skip", "fail",
        "prefer_presenter"]).with_default("skip");

    /// Whether agents only plan during coordination, and the winner does the work.
    const ENABLE_PLANNING_MODE = ["enable_planning_mode"] flag().with_default("false");

    /// Instructions for planning mode, instead of massgen's.
    const PLANNING_MODE_INSTRUCTION = ["planning_mode_instruction"] text();

    /// How often coordination may restart after the winner has evaluated the final answer.
    const MAX_ORCHESTRATION_RESTARTS = ["max_orchestration_restarts"] integer(0, RESTARTS_MAX)
        .with_default("0");

    /// The criteria of `voting_sensitivity: checklist_gated`, at most 16. A string is the text
    /// alone. Default: four criteria about completeness, correctness, thoroughness and care.
    const CHECKLIST_CRITERIA = ["checklist_criteria_inline"]
        nodes(const { &ValueShape::TextOr(&checks::CRITERION) });



    /// Whether agents are offered skills: directories with a file `SKILL.md` in `skills_directory`,
    /// `~/.massgen/skills` and `~/.agents/skills`, and in the project `.massgen/skills`,
    /// `.agents/skills` and `.claude/skills`.
    const USE_SKILLS = ["use_skills"] flag()
        .in_found(NeedsNamedConfig("gives agents skills that are in the project"))
        .with_default("false");

    /// A further directory of skills, which precedes the others unless the project contains it.
    /// Relative paths start in the current directory.
    const SKILLS_DIRECTORY = ["skills_directory"] text()
        .in_found(Inside(PathPurpose::OpenedForReading));

    /// With `use_skills`, whether agents are asked to leave a skill in `tasks/evolving_skill` of
    /// their workspace, and are offered those that winners of earlier sessions here have left.
    const LOAD_PREVIOUS_SESSION_SKILLS = ["load_previous_session_skills"] flag()
        .in_found(NeedsNamedConfig("gives agents skills that earlier agents have written"))
        .with_default("false");

    /// Whether agents are given the notes of earlier sessions, and the winner's notes are kept in
    /// `.massgen/memory`: Markdown files in `memory/` of its workspace.
    const ENABLE_MEMORY_FILESYSTEM_MODE = ["enable_memory_filesystem_mode"] flag()
        .in_found(NeedsNamedConfig("keeps notes of agents and gives them to later ones"))
        .with_default("false");

    /// Whether agents keep a plan with the tool `update_plan`. It is shown in every view and
    /// recorded with each answer. External agents keep plans of their own, which are shown in any
    /// case.
    const ENABLE_AGENT_TASK_PLANNING = ["enable_agent_task_planning"] flag().with_default("false");

    /// The maximum number of steps in an agent's plan.
    const MAX_TASKS_PER_PLAN = ["max_tasks_per_plan"] integer(1, TASKS_PER_PLAN_MAX)
        .with_default("30");

    /// When a conversation is too long for its model: the share of its steps, the newest, that stay
    /// as they are as long as that suffices; at least one. Default: the last three steps.
    const COMPRESSION_TARGET_RATIO = ["compression_target_ratio"] decimal(0.0, 1.0);

    /// Whether a plan is written to `tasks/plan.json` in the agent's workspace at each update.
    const TASK_PLANNING_FILES = ["task_planning_filesystem_mode"] flag().with_default("false");

    /// Whether agents may give parts of their work to subagents.
    const ENABLE_SUBAGENTS = ["enable_subagents"] flag().with_default("false");

    /// How long one subagent may work, in seconds.
    const SUBAGENT_DEFAULT_TIMEOUT = ["subagent_default_timeout"] integer(1, SUBAGENT_SECONDS_MAX)
        .with_default("300");

    /// How many subagents of one agent work at the same time.
    const SUBAGENT_MAX_CONCURRENT = ["subagent_max_concurrent"] integer(1, SUBAGENTS_AT_ONCE_MAX)
        .with_default("3");

    /// Types of subagents that agents may start, at most 16: built-in types, or directories that
    /// contain a file `SUBAGENT.md` in `~/.massgen/subagent_types`, `.massgen/subagent_types` and
    /// `.agent/subagent_types`. Default: `evaluator`, `explorer`, `researcher`, `critic` and
    /// `execution_trace_analyzer`.
    const SUBAGENT_TYPES = ["subagent_types"] texts()
        .in_found(NeedsNamedConfig("gives subagents instructions that are in the project"));
    row agents::SUBAGENTS.row();

    /// Whether agents are asked to write down their decisions and the reasons in
    /// `tasks/changedoc.md` of their workspace, and to continue the document of the answer that
    /// they build on.
    const ENABLE_CHANGEDOC = ["enable_changedoc"] flag().with_default("false");

    /// Whether agents are asked to submit as soon as their work holds together, and to leave what
    /// could be better to the next round.
    const FAST_ITERATION_MODE = ["fast_iteration_mode"] flag().with_default("false");

    /// How often agents are asked to check their work at most in a round.
    const MAX_VERIFICATIONS_PER_ROUND = ["max_verifications_per_round"] integer(0,
        LOOPS_PER_ROUND_MAX).with_default("null");

    /// How often agents are asked to repair and check again at most in a round.
    const MAX_INTERNAL_FIX_LOOPS = ["max_internal_fix_loops"] integer(0, LOOPS_PER_ROUND_MAX)
        .with_default("null");

    /// Whether agents are asked to continue the plans and documents that are in their workspace
    /// instead of creating them again.
    const SKIP_REDUNDANT_SCAFFOLDING = ["skip_redundant_scaffolding"] flag().with_default("false");

    /// When agents are asked for notes for later sessions, with `enable_memory_filesystem_mode`: in
    /// every round, or only the final agent. With `verification_and_final_only`, they note in every
    /// round how they checked their answer.
    const LEARNING_CAPTURE_MODE = ["learning_capture_mode"] one_of(&["round",
        "verification_and_final_only", "final_only"]).with_default("round");
    row preparation::PERSONAS.row();
    row preparation::CRITERIA.row();
    unsupported ["subagent_min_timeout", "subagent_max_timeout", "subagent_round_timeouts",
        "subagent_runtime_mode", "subagent_runtime_fallback_mode",
        "subagent_host_launch_prefix"] Convenience,
        "a subagent is one agent in one process with its parent, and the parent waits for it; \
        `subagent_default_timeout` limits its time";
    unsupported ["background_subagents", "use_two_tier_workspace", "broadcast",
        "checkpoint_enabled", "evolving_criteria", "auto_trace_analysis",
        "round_evaluator_before_checklist", "orchestrator_managed_round_evaluator",
        "round_evaluator_skip_synthesis", "round_evaluator_refine",
        "enable_quality_rethink_on_iteration", "enable_novelty_on_iteration",
        "enable_execution_trace_analyzer", "enable_evaluator_personas"] Convenience
        .with_default("false"), "agents answer, see each other's answers and vote";
    unsupported ["plan_depth", "plan_target_steps", "plan_target_chunks", "broadcast_sensitivity",
        "response_depth", "broadcast_timeout", "broadcast_wait_by_default",
        "max_broadcasts_per_agent", "disable_final_only_round_capture_fallback", "prompt_improver",
        "task_decomposer", "pre_collab_voting_threshold", "round_evaluator_transformation_pressure",
        "evolving_criteria_score_threshold", "evolving_criteria_max_evolutions",
        "evolving_criteria_min_high_score_count", "evolving_criteria_timeout", "novelty_injection",
        "improvements", "checklist_criteria_preset", "criteria_mode",
        "bootstrap_max_per_agent_per_round", "bootstrap_max_total", "resume_from_log",
        "checkpoint_mode", "checkpoint_guidance", "standalone_checkpoint"] Convenience,
        "agents answer, see each other's answers and vote";
    unsupported ["massgen_skills"] Convenience,
        "massgen has no skills of its own: `use_skills` offers those in your directories";
    unsupported ["web_review"] Restricts.with_shape(ValueShape::Flag).with_default("false"),
        "write `delivery: review` at the top of the file";
    unsupported ["checkpoint_gated_patterns"] Restricts,
        "write them as `ask` or `deny` in `permissions`";
}
