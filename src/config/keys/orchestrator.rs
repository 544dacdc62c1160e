//! The keys of `orchestrator`: storage, context paths, voting and coordination.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Inside};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::hooks::{self, HOOKS};
use crate::config::keys::permissions::{DOC, PERMISSIONS};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, UnknownKeys, ValueShape, value_rules,
};

/// How demanding agents are asked to be, from the mildest.
const DEGREES: &[&str] = &["lenient", "balanced", "strict"];
/// The highest limit of answers per agent.
const ANSWERS_MAX: i64 = 1_000;
/// The highest limit of restarts.
const RESTARTS_MAX: i64 = 100;

/// The rules of coordination and delivery.
pub static ORCHESTRATOR: KeySection = KeySection {
    path: "orchestrator",
    doc: "How the agents work together, and on what. Relative storage directories lie below \
          `.massgen/` in the directory that massgen is started in.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["context_paths"],
            ValueShape::List(&ValueShape::TextOr(&CONTEXT_PATH)),
            "Paths open to every agent. A string is a read-only path.",
            Inside(PathPurpose::Opened),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["permissions"],
            ValueShape::Mapping(&PERMISSIONS),
            DOC,
            Harmless,
        ),
        ConfigKey::served(
            &["hooks"],
            ValueShape::Mapping(&HOOKS),
            hooks::DOC,
            Harmless,
        ),
        ConfigKey::served(
            &["snapshot_storage"],
            ValueShape::Text,
            "Directory of the latest snapshot of each agent.",
            Inside(PathPurpose::State),
        )
        .with_default("snapshots"),
        ConfigKey::served(
            &["agent_temporary_workspace"],
            ValueShape::Text,
            "Directory in which agents see each other's snapshots.",
            Inside(PathPurpose::State),
        )
        .with_default("temp_workspaces"),
        ConfigKey::served(
            &["session_storage"],
            ValueShape::Text,
            "Directory of sessions.",
            Inside(PathPurpose::State),
        )
        .with_default("sessions"),
        ConfigKey::served(
            &["voting_sensitivity"],
            ValueShape::OneOf(DEGREES),
            "How critical agents should be when they vote.",
            Harmless,
        )
        .with_default("lenient"),
        ConfigKey::served(
            &["max_new_answers_per_agent"],
            ValueShape::Integer(1, ANSWERS_MAX),
            "Maximum number of answers per agent; `null` sets no limit.",
            Harmless,
        )
        .with_default("null"),
        ConfigKey::served(
            &["answer_novelty_requirement"],
            ValueShape::OneOf(DEGREES),
            "How different a new answer must be from every other. The share of common words may be \
             at most 0.70 (`balanced`) or 0.50 (`strict`); `lenient` refuses only repetitions.",
            Harmless,
        )
        .with_default("lenient"),
        ConfigKey::served(
            &["skip_coordination_rounds"],
            ValueShape::Flag,
            "Whether the first agent delivers immediately, without answers and votes.",
            Harmless,
        )
        .with_default("false"),
        ConfigKey::served(
            &["coordination"],
            ValueShape::Mapping(&COORDINATION),
            "How agents coordinate.",
            Harmless,
        ),
        ConfigKey::unserved(
            &["timeout"],
            ValueShape::Mapping(&TIMEOUT),
            "only the `timeout_settings` at the top of the file count",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &["max_orchestration_restarts"],
            ValueShape::Any,
            "only the key in `coordination` counts",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &["debug_final_answer"],
            ValueShape::Any,
            "agents find the answer",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &["dspy"],
            ValueShape::Any,
            "every agent is given the task as it is",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &["voting_threshold"],
            ValueShape::Any,
            "the vote ends when every agent has voted after the last new answer",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &["max_new_answers_global"],
            ValueShape::Any,
            "write `max_new_answers_per_agent`, or a limit in `limits` at the top of the file",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unserved(
            &["docker"],
            ValueShape::Any,
            "write `command_line_execution_mode: docker` in each `backend`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unserved(
            &["fairness_enabled"],
            ValueShape::Flag,
            "agents always wait for each other's answers",
            IgnoredEffect::Cosmetic,
        )
        .with_default("true"),
        ConfigKey::unserved(
            &["fairness_lead_cap_answers"],
            ValueShape::Any,
            "agents wait for each other after every answer",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &[
                "max_midstream_injections_per_round",
                "defer_peer_updates_until_restart",
                "allow_midstream_peer_updates_before_checklist_submit",
                "disable_injection",
            ],
            ValueShape::Any,
            "an agent sees new answers at its next step",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &["defer_voting_until_all_answered"],
            ValueShape::Flag,
            "agents always wait for each other's answers",
            IgnoredEffect::Cosmetic,
        )
        .with_default("true"),
        ConfigKey::unserved(
            &["skip_voting"],
            ValueShape::Flag,
            "several agents always vote",
            IgnoredEffect::Cosmetic,
        )
        .with_default("false"),
        ConfigKey::unserved(
            &["skip_final_presentation"],
            ValueShape::Flag,
            "the winner always delivers",
            IgnoredEffect::Cosmetic,
        )
        .with_default("false"),
        ConfigKey::unserved(
            &["final_answer_strategy"],
            ValueShape::Text,
            "the winner delivers its own answer, knowing all others",
            IgnoredEffect::Cosmetic,
        )
        .with_default("winner_present"),
        ConfigKey::unserved(
            &["coordination_mode"],
            ValueShape::Text,
            "agents work on the same task and vote",
            IgnoredEffect::Cosmetic,
        )
        .with_default("voting"),
        ConfigKey::unserved(
            &["presenter_agent"],
            ValueShape::Any,
            "the winner of the vote delivers",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &[
                "gap_report_mode",
                "max_checklist_calls_per_round",
                "checklist_first_answer",
                "checklist_require_gap_report",
            ],
            ValueShape::Any,
            "agents judge without a checklist",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &[
                "type",
                "interactive_mode",
                "max_turns",
                "skills_directory",
                "enable_multimodal_tools",
                "multimodal_config",
                "image_generation_backend",
                "video_generation_backend",
                "audio_generation_backend",
                "enable_nlip",
                "nlip",
                "nlip_config",
            ],
            ValueShape::Any,
            "agents have massgen's own tools, and a run is one turn",
            IgnoredEffect::Cosmetic,
        ),
    ],
};

/// A path of the user that agents are given.
pub static CONTEXT_PATH: KeySection = KeySection {
    path: "context_paths[]",
    doc: "A directory of yours that is open to agents. During coordination all agents may read it; \
          the winner may write if `permission` allows it. `orchestrator.context_paths` and \
          `agents[].backend.context_paths` have the same keys; of two entries with the same path, \
          the one of `orchestrator` takes precedence.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(
            &["path"],
            ValueShape::Text,
            "The path: absolute, below `~`, or relative to the directory in which massgen is \
             started.",
            Inside(PathPurpose::Opened),
        ),
        ConfigKey::served(
            &["permission"],
            ValueShape::OneOf(&["read", "write"]),
            "The access of the winner.",
            Harmless,
        )
        .with_default("read"),
        ConfigKey::served(
            &["protected_paths"],
            ValueShape::List(&ValueShape::Text),
            "Paths inside that are read-only.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["hidden_paths"],
            ValueShape::List(&ValueShape::Text),
            "Paths inside that are hidden.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["unprotected"],
            ValueShape::List(&ValueShape::Text),
            "Names that are protected by default, such as `.vscode`, but writable here.",
            ByValue(value_rules::unprotected),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["allow_broad"],
            ValueShape::Flag,
            "Whether the path may be your home directory, a system directory, or a parent of the \
             directory in which massgen is started.",
            Harmless,
        )
        .with_default("false"),
    ],
};

/// The rules of coordination.
pub static COORDINATION: KeySection = KeySection {
    path: "orchestrator.coordination",
    doc: "How agents coordinate.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["enable_planning_mode"],
            ValueShape::Flag,
            "Whether agents only plan during coordination, and the winner does the work.",
            Harmless,
        )
        .with_default("false"),
        ConfigKey::served(
            &["planning_mode_instruction"],
            ValueShape::Text,
            "Instructions for planning mode, instead of massgen's.",
            Harmless,
        ),
        ConfigKey::served(
            &["max_orchestration_restarts"],
            ValueShape::Integer(0, RESTARTS_MAX),
            "How often coordination may restart after the winner has evaluated the final answer.",
            Harmless,
        )
        .with_default("0"),
        ConfigKey::unserved(
            &[
                "enable_agent_task_planning",
                "task_planning_filesystem_mode",
                "enable_memory_filesystem_mode",
                "use_skills",
                "load_previous_session_skills",
                "enable_subagents",
                "background_subagents",
                "use_two_tier_workspace",
                "enable_changedoc",
                "broadcast",
                "fast_iteration_mode",
                "skip_redundant_scaffolding",
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
            IgnoredEffect::Cosmetic,
        )
        .with_default("false"),
        ConfigKey::unserved(
            &[
                "plan_depth",
                "plan_target_steps",
                "plan_target_chunks",
                "max_tasks_per_plan",
                "broadcast_sensitivity",
                "response_depth",
                "broadcast_timeout",
                "broadcast_wait_by_default",
                "max_broadcasts_per_agent",
                "learning_capture_mode",
                "disable_final_only_round_capture_fallback",
                "compression_target_ratio",
                "massgen_skills",
                "skills_directory",
                "persona_generator",
                "evaluation_criteria_generator",
                "prompt_improver",
                "task_decomposer",
                "pre_collab_voting_threshold",
                "subagent_default_timeout",
                "subagent_min_timeout",
                "subagent_max_timeout",
                "subagent_max_concurrent",
                "subagent_round_timeouts",
                "subagent_runtime_mode",
                "subagent_runtime_fallback_mode",
                "subagent_host_launch_prefix",
                "subagent_orchestrator",
                "subagent_types",
                "round_evaluator_transformation_pressure",
                "evolving_criteria_score_threshold",
                "evolving_criteria_max_evolutions",
                "evolving_criteria_min_high_score_count",
                "evolving_criteria_timeout",
                "novelty_injection",
                "improvements",
                "checklist_criteria_preset",
                "checklist_criteria_inline",
                "criteria_mode",
                "bootstrap_max_per_agent_per_round",
                "bootstrap_max_total",
                "resume_from_log",
                "checkpoint_mode",
                "checkpoint_guidance",
                "standalone_checkpoint",
                "max_verifications_per_round",
                "max_internal_fix_loops",
            ],
            ValueShape::Any,
            "agents answer, see each other's answers and vote",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &["web_review"],
            ValueShape::Flag,
            "write `delivery: review` at the top of the file",
            IgnoredEffect::Restricts,
        )
        .with_default("false"),
        ConfigKey::unserved(
            &["checkpoint_gated_patterns"],
            ValueShape::Any,
            "write them as `ask` or `deny` in `permissions`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unserved(
            &["write_mode", "drift_conflict_policy"],
            ValueShape::Any,
            "the winner writes to the context paths, but never overwrites a file that you changed \
             in the meantime",
            IgnoredEffect::Cosmetic,
        ),
    ],
};

/// The timeout that MassGen validates but does not use.
pub static TIMEOUT: KeySection = KeySection {
    path: "orchestrator.timeout",
    doc: "MassGen reads this section and does not act on it, and neither does massgen: use \
          `timeout_settings`.",
    others: UnknownKeys::Refused,
    keys: &[ConfigKey::unserved(
        &[
            "orchestrator_timeout_seconds",
            "initial_round_timeout_seconds",
            "subsequent_round_timeout_seconds",
            "round_timeout_grace_seconds",
        ],
        ValueShape::Integer(0, SECONDS_MAX),
        "write it in `timeout_settings` at the top of the file",
        IgnoredEffect::Restricts,
    )],
};
