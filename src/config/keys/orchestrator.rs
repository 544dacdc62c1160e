//! Owns the keys of `orchestrator`: storage, context paths, voting and coordination.

use crate::config::keys::found::FoundUse::{ByValue, Harmless, Inside};
use crate::config::keys::found::PathUse;
use crate::config::keys::hooks::{self, HOOKS};
use crate::config::keys::permissions::{DOC, PERMISSIONS};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::{Ignored, Key, Others, Section, Shape, values};

/// How demanding agents are asked to be, mildest first.
const DEGREES: &[&str] = &["lenient", "balanced", "strict"];
/// The most answers that one agent can be allowed.
const ANSWERS_MAX: i64 = 1_000;
/// The most restarts that can be allowed.
const RESTARTS_MAX: i64 = 100;

/// The rules of coordination and delivery.
pub static ORCHESTRATOR: Section = Section {
    path: "orchestrator",
    doc: "How the agents work together, and on what. Relative storage directories lie below \
          `.massgen/` in the directory that massgen is started in.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["context_paths"],
            Shape::List(&Shape::TextOr(&CONTEXT_PATH)),
            "Paths that every agent is given. A plain text is a path that may be read.",
            Inside(PathUse::Opened),
        )
        .or("[]"),
        Key::served(
            &["permissions"],
            Shape::Mapping(&PERMISSIONS),
            DOC,
            Harmless,
        ),
        Key::served(&["hooks"], Shape::Mapping(&HOOKS), hooks::DOC, Harmless),
        Key::served(
            &["snapshot_storage"],
            Shape::Text,
            "Where the latest snapshot of each agent is found.",
            Inside(PathUse::State),
        )
        .or("snapshots"),
        Key::served(
            &["agent_temporary_workspace"],
            Shape::Text,
            "Where agents see each other's snapshots.",
            Inside(PathUse::State),
        )
        .or("temp_workspaces"),
        Key::served(
            &["session_storage"],
            Shape::Text,
            "Where the records of sessions are kept.",
            Inside(PathUse::State),
        )
        .or("sessions"),
        Key::served(
            &["voting_sensitivity"],
            Shape::OneOf(DEGREES),
            "How critical agents are asked to be when they vote.",
            Harmless,
        )
        .or("lenient"),
        Key::served(
            &["max_new_answers_per_agent"],
            Shape::Integer(1, ANSWERS_MAX),
            "How many answers one agent may give; `null` sets no limit.",
            Harmless,
        )
        .or("null"),
        Key::served(
            &["answer_novelty_requirement"],
            Shape::OneOf(DEGREES),
            "How different a new answer must be from every other. The share of common words may be \
             at most 0.70 (`balanced`) or 0.50 (`strict`); `lenient` refuses only repetitions.",
            Harmless,
        )
        .or("lenient"),
        Key::served(
            &["skip_coordination_rounds"],
            Shape::Flag,
            "Whether the first agent delivers at once, without answers and votes.",
            Harmless,
        )
        .or("false"),
        Key::served(
            &["coordination"],
            Shape::Mapping(&COORDINATION),
            "How answers are found.",
            Harmless,
        ),
        Key::unserved(
            &["timeout"],
            Shape::Mapping(&TIMEOUT),
            "only the `timeout_settings` at the top of the file count",
            Ignored::Looks,
        ),
        Key::unserved(
            &["max_orchestration_restarts"],
            Shape::Any,
            "only the key in `coordination` counts",
            Ignored::Looks,
        ),
        Key::unserved(
            &["debug_final_answer"],
            Shape::Any,
            "agents find the answer",
            Ignored::Looks,
        ),
        Key::unserved(
            &["dspy"],
            Shape::Any,
            "every agent is given the task as it is",
            Ignored::Looks,
        ),
        Key::unserved(
            &["voting_threshold"],
            Shape::Any,
            "the vote ends when every agent has voted after the last new answer",
            Ignored::Looks,
        ),
        Key::unserved(
            &["max_new_answers_global"],
            Shape::Any,
            "write `max_new_answers_per_agent`, or a limit in `limits` at the top of the file",
            Ignored::Restricts,
        ),
        Key::unserved(
            &["docker"],
            Shape::Any,
            "write `command_line_execution_mode: docker` in each `backend`",
            Ignored::Restricts,
        ),
        Key::unserved(
            &["fairness_enabled"],
            Shape::Flag,
            "agents always wait for each other's answers",
            Ignored::Looks,
        )
        .or("true"),
        Key::unserved(
            &["fairness_lead_cap_answers"],
            Shape::Any,
            "agents wait for each other after every answer",
            Ignored::Looks,
        ),
        Key::unserved(
            &[
                "max_midstream_injections_per_round",
                "defer_peer_updates_until_restart",
                "allow_midstream_peer_updates_before_checklist_submit",
                "disable_injection",
            ],
            Shape::Any,
            "an agent hears of new answers at its next step",
            Ignored::Looks,
        ),
        Key::unserved(
            &["defer_voting_until_all_answered"],
            Shape::Flag,
            "agents always wait for each other's answers",
            Ignored::Looks,
        )
        .or("true"),
        Key::unserved(
            &["skip_voting"],
            Shape::Flag,
            "several agents always vote",
            Ignored::Looks,
        )
        .or("false"),
        Key::unserved(
            &["skip_final_presentation"],
            Shape::Flag,
            "the winner always delivers",
            Ignored::Looks,
        )
        .or("false"),
        Key::unserved(
            &["final_answer_strategy"],
            Shape::Text,
            "the winner delivers its own answer, knowing all others",
            Ignored::Looks,
        )
        .or("winner_present"),
        Key::unserved(
            &["coordination_mode"],
            Shape::Text,
            "agents work on the same task and vote",
            Ignored::Looks,
        )
        .or("voting"),
        Key::unserved(
            &["presenter_agent"],
            Shape::Any,
            "the winner of the vote delivers",
            Ignored::Looks,
        ),
        Key::unserved(
            &[
                "gap_report_mode",
                "max_checklist_calls_per_round",
                "checklist_first_answer",
                "checklist_require_gap_report",
            ],
            Shape::Any,
            "agents judge without a checklist",
            Ignored::Looks,
        ),
        Key::unserved(
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
            Shape::Any,
            "agents have massgen's own tools, and a run is one turn",
            Ignored::Looks,
        ),
    ],
};

/// A path of the user's that agents are given.
pub static CONTEXT_PATH: Section = Section {
    path: "context_paths[]",
    doc: "A directory of yours that agents are given. While they coordinate, all of them may read \
          it; the winner may write if `permission` says so. The same keys serve in \
          `orchestrator.context_paths` and in `agents[].backend.context_paths`; of two entries with \
          the same path, the one of `orchestrator` counts.",
    others: Others::Refused,
    keys: &[
        Key::required(
            &["path"],
            Shape::Text,
            "Where it is: absolute, below `~`, or relative to the directory that massgen is started \
             in.", Inside(PathUse::Opened),),
        Key::served(
            &["permission"],
            Shape::OneOf(&["read", "write"]),
            "What the winner may do there.", Harmless,)
        .or("read"),
        Key::served(
            &["protected_paths"],
            Shape::List(&Shape::Text),
            "Paths inside that nobody may write.", Harmless,)
        .or("[]"),
        Key::served(
            &["hidden_paths"],
            Shape::List(&Shape::Text),
            "Paths inside that nobody may even read.", Harmless,)
        .or("[]"),
        Key::served(
            &["unprotected"],
            Shape::List(&Shape::Text),
            "Names that are protected everywhere else, such as `.vscode`, and may be written here.", ByValue(values::unprotected),)
        .or("[]"),
        Key::served(
            &["allow_broad"],
            Shape::Flag,
            "Whether the path may be as wide as your home directory, a system directory, or a parent \
             of the directory that massgen is started in.", Harmless,)
        .or("false"),
    ],
};

/// How answers are found.
pub static COORDINATION: Section = Section {
    path: "orchestrator.coordination",
    doc: "How answers are found.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["enable_planning_mode"],
            Shape::Flag,
            "Whether agents only describe what they would do until the winner does it.", Harmless,)
        .or("false"),
        Key::served(
            &["planning_mode_instruction"],
            Shape::Text,
            "What agents are told in planning mode, instead of massgen's own words.", Harmless,),
        Key::served(
            &["max_orchestration_restarts"],
            Shape::Integer(0, RESTARTS_MAX),
            "How often the whole coordination may start again after the winner has judged the final \
             answer.", Harmless,)
        .or("0"),
        Key::unserved(
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
            Shape::Any,
            "agents answer, see each other's answers and vote", Ignored::Looks,)
        .or("false"),
        Key::unserved(
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
            Shape::Any,
            "agents answer, see each other's answers and vote", Ignored::Looks,),
        Key::unserved(
            &["web_review"],
            Shape::Flag,
            "write `delivery: review` at the top of the file",
            Ignored::Restricts,
        )
        .or("false"),
        Key::unserved(
            &["checkpoint_gated_patterns"],
            Shape::Any,
            "write them as `ask` or `deny` in `permissions`",
            Ignored::Restricts,
        ),
        Key::unserved(
            &["write_mode", "drift_conflict_policy"],
            Shape::Any,
            "the winner writes into the context paths, and never over a file that you changed \
             meanwhile", Ignored::Looks,),
    ],
};

/// The timeout that MassGen checks and does not use.
pub static TIMEOUT: Section = Section {
    path: "orchestrator.timeout",
    doc: "MassGen reads this section and does not act on it, and neither does massgen: use \
          `timeout_settings`.",
    others: Others::Refused,
    keys: &[Key::unserved(
        &[
            "orchestrator_timeout_seconds",
            "initial_round_timeout_seconds",
            "subsequent_round_timeout_seconds",
            "round_timeout_grace_seconds",
        ],
        Shape::Integer(0, SECONDS_MAX),
        "write it in `timeout_settings` at the top of the file",
        Ignored::Restricts,
    )],
};
