//! The keys of `orchestrator`: storage, context paths and voting.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Inside};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::shape::{self, Flag, Integer, Section, Text, TextList};
use crate::config::keys::{
    ConfigKey, ForeignValue, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape,
    context_paths, coordination, hooks, media, permissions, preparation,
};

/// The values of `answer_novelty_requirement`, from the mildest.
const NOVELTY_REQUIREMENTS: &[&str] = &["lenient", "balanced", "strict"];

/// The values of `voting_sensitivity`.
const SENSITIVITIES: &[&str] = &["lenient", "balanced", "strict", "checklist_gated"];

/// The highest limit of answers per agent.
const ANSWERS_MAX: i64 = 1_000;

pub(crate) const SNAPSHOT_STORAGE: TypedKey<Text> = TypedKey::optional(
    &["snapshot_storage"],
    shape::text(),
    "Directory of the latest snapshot of each agent. A relative one that contains workspaces or \
     logs, or is inside one, is not used: the default is.",
    Inside(PathPurpose::State),
)
.with_default("snapshots");

pub(crate) const AGENT_TEMPORARY_WORKSPACE: TypedKey<Text> = TypedKey::optional(
    &["agent_temporary_workspace"],
    shape::text(),
    "Directory in which agents see each other's snapshots; the same applies to it.",
    Inside(PathPurpose::State),
)
.with_default("temp_workspaces");

pub(crate) const SESSION_STORAGE: TypedKey<Text> = TypedKey::optional(
    &["session_storage"],
    shape::text(),
    "Directory of sessions.",
    Inside(PathPurpose::State),
)
.with_default("sessions");

pub(crate) const VOTING_SENSITIVITY: TypedKey<Text> = TypedKey::optional(
    &["voting_sensitivity"],
    shape::one_of(SENSITIVITIES),
    "How critical agents should be when they vote. With `checklist_gated` they score the answer that \
     they vote for by the criteria of `coordination.checklist_criteria_inline`, and a vote whose \
     scores are too low does not count: the voter has to give a better answer, as long as \
     `max_new_answers_per_agent` (5 if it is not set) lets it.",
    Harmless,
)
.with_default("lenient")
.with_foreign_values(FOREIGN_SENSITIVITIES);

/// How `checklist_gated` differs from MassGen's modes in which agents score.
const HIDDEN_SCORES: &str = "agents score the criteria and are not shown which scores suffice";

pub(crate) const VOTING_THRESHOLD: TypedKey<Integer> = TypedKey::optional(
    &["voting_threshold"],
    shape::integer(0, 10),
    "With `voting_sensitivity: checklist_gated`, how low scores may be: from 0, where every criterion \
     needs a 10, to 10, where a 5 for half of them suffices. An agent with few answers left needs \
     lower scores.",
    Harmless,
)
.with_default("5");

/// Why massgen reads MassGen's other ways of judging as it does.
const NEAREST_DEGREE: &str = "it is the nearest degree that massgen has";

/// The values of `voting_sensitivity` that only MassGen has.
const FOREIGN_SENSITIVITIES: &[ForeignValue] = &[
    foreign("checklist_scored", "checklist_gated", HIDDEN_SCORES),
    foreign("checklist", "checklist_gated", HIDDEN_SCORES),
    foreign("roi", "balanced", NEAREST_DEGREE),
    foreign("roi_conservative", "lenient", NEAREST_DEGREE),
    foreign("roi_balanced", "balanced", NEAREST_DEGREE),
    foreign("roi_aggressive", "strict", NEAREST_DEGREE),
    foreign("sequential", "strict", NEAREST_DEGREE),
    foreign("adversarial", "strict", NEAREST_DEGREE),
    foreign("consistency", "balanced", NEAREST_DEGREE),
    foreign("diversity", "balanced", NEAREST_DEGREE),
    foreign("reflective", "balanced", NEAREST_DEGREE),
];

const fn foreign(
    massgen_value: &'static str,
    read_as: &'static str,
    doc: &'static str,
) -> ForeignValue {
    ForeignValue {
        massgen_value,
        read_as,
        doc,
    }
}

pub(crate) const MAX_NEW_ANSWERS_PER_AGENT: TypedKey<Integer> = TypedKey::optional(
    &["max_new_answers_per_agent"],
    shape::integer(1, ANSWERS_MAX),
    "Maximum number of answers per agent. `null` sets no limit where agents vote; where they answer \
     alone it means 3: an answer that fails a required check may be repaired twice.",
    Harmless,
)
.with_default("null");

pub(crate) const DEBUG_FINAL_ANSWER: TypedKey<Text> = TypedKey::optional(
    &["debug_final_answer"],
    shape::text(),
    "For tests of `max_orchestration_restarts`: the final agent evaluates this text after the first \
     coordination instead of its answer.",
    Harmless,
);

pub(crate) const MAX_NEW_ANSWERS_GLOBAL: TypedKey<Integer> = TypedKey::optional(
    &["max_new_answers_global"],
    shape::integer(1, ANSWERS_MAX),
    "Maximum number of answers of all agents together; `null` sets no limit.",
    Harmless,
)
.with_default("null");

pub(crate) const FAIRNESS_ENABLED: TypedKey<Flag> = TypedKey::optional(
    &["fairness_enabled"],
    shape::flag(),
    "Whether `fairness_lead_cap_answers` and `max_midstream_injections_per_round` apply.",
    Harmless,
)
.with_default("true");

pub(crate) const FAIRNESS_LEAD_CAP_ANSWERS: TypedKey<Integer> = TypedKey::optional(
    &["fairness_lead_cap_answers"],
    shape::integer(0, ANSWERS_MAX),
    "How many answers an agent may be ahead of those that have not voted: an agent whose next \
     answer would be further ahead waits for them. `0` is read as `1`, because no agent could \
     answer first.",
    Harmless,
)
.with_default("2");

pub(crate) const MAX_MIDSTREAM_INJECTIONS: TypedKey<Integer> = TypedKey::optional(
    &["max_midstream_injections_per_round"],
    shape::integer(1, ANSWERS_MAX),
    "Maximum number of new answers of others that an agent is shown in the course of a round; it \
     sees the rest when its round ends. `null` sets no limit.",
    Harmless,
)
.with_default("null");

pub(crate) const DEFER_PEER_UPDATES: TypedKey<Flag> = TypedKey::optional(
    &["defer_peer_updates_until_restart"],
    shape::flag(),
    "Whether agents see new answers of others only when a round ends, instead of at their next \
     step: after an answer of theirs, or when a vote does not count because it came before these \
     answers were shown.",
    Harmless,
)
.with_default("false");

pub(crate) const UPDATES_BEFORE_SCORES: TypedKey<Flag> = TypedKey::optional(
    &["allow_midstream_peer_updates_before_checklist_submit"],
    shape::flag(),
    "With `voting_sensitivity: checklist_gated`, whether `defer_peer_updates_until_restart` applies \
     only after scores have been submitted. They are part of the vote here, so that agents see new \
     answers at their next step.",
    Harmless,
)
.with_default("false");

pub(crate) const DISABLE_INJECTION: TypedKey<Flag> = TypedKey::optional(
    &["disable_injection"],
    shape::flag(),
    "The same as `defer_peer_updates_until_restart`, also with scores.",
    Harmless,
)
.with_default("false");

pub(crate) const ANSWER_NOVELTY_REQUIREMENT: TypedKey<Text> = TypedKey::optional(
    &["answer_novelty_requirement"],
    shape::one_of(NOVELTY_REQUIREMENTS),
    "How different a new answer must be from every other. The share of common words may be \
     at most 0.70 (`balanced`) or 0.50 (`strict`); `lenient` refuses only repetitions.",
    Harmless,
)
.with_default("lenient");

pub(crate) const STRATEGY: TypedKey<Text> = TypedKey::optional(
    &["strategy"],
    shape::one_of(&["consensus", "best-of", "first-pass"]),
    "How the winner is found. `consensus`: agents read each other's answers and vote. `best-of`: \
     each answers alone, and of the answers that pass the required checks, one review selects the \
     best. `first-pass`: the first answer that passes them wins, and the other agents are stopped.",
    Harmless,
)
.with_default("consensus");

pub(crate) const REVIEWER: TypedKey<Text> = TypedKey::optional(
    &["reviewer"],
    shape::text(),
    "The `id` of the agent whose model compares the answers of `best-of`. Default: the first \
     agent.",
    Harmless,
);

pub(crate) const SKIP_VOTING: TypedKey<Flag> = TypedKey::optional(
    &["skip_voting"],
    shape::flag(),
    "The same as `strategy: best-of`, if there is no `strategy`.",
    Harmless,
)
.with_default("false");

pub(crate) const DELIVER_IGNORED: TypedKey<TextList> = TypedKey::optional(
    &["deliver_ignored"],
    shape::texts(&ValueShape::Text),
    "Globs of files, such as `dist/**`, relative to the write path, that belong to an answer although \
     git ignores them.",
    Harmless,
);

pub(crate) const SKIP_COORDINATION_ROUNDS: TypedKey<Flag> = TypedKey::optional(
    &["skip_coordination_rounds"],
    shape::flag(),
    "Whether the first agent delivers immediately, without answers and votes.",
    Harmless,
)
.with_default("false");

pub(crate) const SKIP_FINAL_PRESENTATION: TypedKey<Flag> = TypedKey::optional(
    &["skip_final_presentation"],
    shape::flag(),
    "Whether the winner's answer is the result as it is, without another request. A winner that may \
     write to a path of yours, that judges its result (`max_orchestration_restarts`), or that only \
     planned (`enable_planning_mode`), is asked all the same.",
    Harmless,
)
.with_default("false");

/// The value with which the winner is always asked for the final answer.
pub(crate) const WINNER_PRESENTS: &str = "winner_present";

pub(crate) const FINAL_ANSWER_STRATEGY: TypedKey<Text> = TypedKey::optional(
    &["final_answer_strategy"],
    shape::one_of(&["winner_reuse", WINNER_PRESENTS]),
    "With `winner_present`, the winner presents the final answer, whatever `skip_final_presentation` \
     says, and may change what its attempt has changed; `winner_reuse` leaves that to that key.",
    Harmless,
)
.with_foreign_values(FOREIGN_STRATEGIES);

/// The strategies that only MassGen has.
const FOREIGN_STRATEGIES: &[ForeignValue] = &[foreign(
    "synthesize",
    "winner_present",
    "the winner presents its own answer, knowing all others",
)];

pub(crate) const PROJECT_INSTRUCTIONS: TypedKey<Flag> = TypedKey::optional(
    &["project_instructions"],
    shape::flag(),
    "Whether agents are given the `AGENTS.md` of directories that are open to them (where there \
     is none, `CLAUDE.md` or `GEMINI.md`).",
    Harmless,
)
.with_default("true");

pub(crate) const COORDINATION: TypedKey<Section> = TypedKey::optional(
    &["coordination"],
    shape::section(&coordination::COORDINATION),
    "How agents coordinate.",
    Harmless,
);

/// The storage, the context paths, and the rules of coordination.
pub static ORCHESTRATOR: KeySection = KeySection {
    path: "orchestrator",
    doc: "How the agents work together, and on what. Relative storage directories lie below \
          `.massgen/` in the directory that massgen is started in.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        context_paths::KEY
            .with_doc("Paths open to every agent. A string is a read-only path.")
            .row(),
        permissions::KEY.row(),
        hooks::KEY.row(),
        SNAPSHOT_STORAGE.row(),
        AGENT_TEMPORARY_WORKSPACE.row(),
        SESSION_STORAGE.row(),
        VOTING_SENSITIVITY.row(),
        VOTING_THRESHOLD.row(),
        MAX_NEW_ANSWERS_PER_AGENT.row(),
        MAX_NEW_ANSWERS_GLOBAL.row(),
        FAIRNESS_ENABLED.row(),
        FAIRNESS_LEAD_CAP_ANSWERS.row(),
        MAX_MIDSTREAM_INJECTIONS.row(),
        DEFER_PEER_UPDATES.row(),
        UPDATES_BEFORE_SCORES.row(),
        DISABLE_INJECTION.row(),
        ANSWER_NOVELTY_REQUIREMENT.row(),
        STRATEGY.row(),
        REVIEWER.row(),
        SKIP_VOTING.row(),
        SKIP_COORDINATION_ROUNDS.row(),
        DELIVER_IGNORED.row(),
        PROJECT_INSTRUCTIONS.row(),
        COORDINATION.row(),
        ConfigKey::unsupported(
            &["timeout"],
            ValueShape::Mapping(&TIMEOUT),
            "only the `timeout_settings` at the top of the file count",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &["max_orchestration_restarts"],
            ValueShape::Any,
            "only the key in `coordination` counts",
            IgnoredEffect::Convenience,
        ),
        DEBUG_FINAL_ANSWER.row(),
        preparation::PARAPHRASES.row(),
        ConfigKey::unsupported(
            &["docker"],
            ValueShape::Any,
            "write `command_line_execution_mode: docker` in each `backend`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unsupported(
            &["defer_voting_until_all_answered"],
            ValueShape::Flag,
            "agents vote when all have answered, voted or dropped out",
            IgnoredEffect::Convenience,
        )
        .with_default("true"),
        SKIP_FINAL_PRESENTATION.row(),
        FINAL_ANSWER_STRATEGY.row(),
        ConfigKey::unsupported(
            &["coordination_mode"],
            ValueShape::Text,
            "agents work on the same task and vote",
            IgnoredEffect::Convenience,
        )
        .with_default("voting"),
        ConfigKey::unsupported(
            &["presenter_agent"],
            ValueShape::Any,
            "the winner of the vote delivers",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &[
                "gap_report_mode",
                "max_checklist_calls_per_round",
                "checklist_first_answer",
                "checklist_require_gap_report",
            ],
            ValueShape::Any,
            "with `voting_sensitivity: checklist_gated`, the scores are part of the vote",
            IgnoredEffect::Convenience,
        ),
        coordination::SKILLS_DIRECTORY
            .with_doc("Same as in `coordination`, which takes precedence.")
            .row(),
        ConfigKey::unsupported(
            &[
                "interactive_mode",
                "multimodal_config",
                "enable_nlip",
                "nlip",
                "nlip_config",
            ],
            ValueShape::Any,
            "agents have massgen's own tools, and a run is one turn",
            IgnoredEffect::Convenience,
        ),
        media::MULTIMODAL.row(),
        media::IMAGE_VENDOR.row(),
        media::AUDIO_VENDOR.row(),
        media::VIDEO_VENDOR,
        ConfigKey::unsupported(
            &["type", "max_turns"],
            ValueShape::Any,
            "MassGen does nothing with it either",
            IgnoredEffect::Nothing,
        ),
    ],
};

/// The timeout that MassGen validates but does not use.
pub static TIMEOUT: KeySection = KeySection {
    path: "orchestrator.timeout",
    doc: "MassGen reads this section and does not act on it, and neither does massgen: use \
          `timeout_settings`.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[ConfigKey::unsupported(
        &[
            "orchestrator_timeout_seconds",
            "initial_round_timeout_seconds",
            "subsequent_round_timeout_seconds",
            "round_timeout_grace_seconds",
        ],
        ValueShape::Integer(0, SECONDS_MAX),
        "MassGen does not act on it either; write it in `timeout_settings` at the top of the file",
        IgnoredEffect::Convenience,
    )],
};
