//! The keys of `orchestrator`: storage, context paths and voting.

use crate::config::keys::found_config::FoundConfigUse::Inside;
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::limits::SECONDS_MAX;
use crate::config::keys::{
    ForeignValue, ValueShape, context_paths, coordination, hooks, media, permissions, preparation,
};

/// The values of `answer_novelty_requirement`, from the mildest.
const NOVELTY_REQUIREMENTS: &[&str] = &["lenient", "balanced", "strict"];

/// The values of `voting_sensitivity`.
const SENSITIVITIES: &[&str] = &["lenient", "balanced", "strict", "checklist_gated"];

/// The highest limit of answers per agent.
const ANSWERS_MAX: i64 = 1_000;

/// How `checklist_gated` differs from MassGen's modes in which agents score.
const HIDDEN_SCORES: &str = "agents score the criteria and are not shown which scores suffice";

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

/// The value with which the winner is always asked for the final answer.
pub(crate) const WINNER_PRESENTS: &str = "winner_present";

/// The strategies that only MassGen has.
const FOREIGN_STRATEGIES: &[ForeignValue] = &[foreign(
    "synthesize",
    "winner_present",
    "the winner presents its own answer, knowing all others",
)];

section! {
    /// How the agents work together, and on what. Relative storage directories lie below
    /// `.massgen/` in the directory that massgen is started in.
    pub static ORCHESTRATOR = "orchestrator";
    row context_paths::KEY.with_doc("Paths open to every agent. A string is a read-only path.")
        .row();
    row permissions::KEY.row();
    row hooks::KEY.row();

    unsupported ["snapshot_storage", "agent_temporary_workspace"] Nothing,
        "snapshots, and what agents see of each other, are below `.massgen`";

    /// Directory of sessions.
    const SESSION_STORAGE = ["session_storage"] text().in_found(Inside(PathPurpose::State))
        .with_default("sessions");

    /// How critical agents should be when they vote. With `checklist_gated` they score the answer
    /// that they vote for by the criteria of `coordination.checklist_criteria_inline`, and a vote
    /// whose scores are too low does not count: the voter has to give a better answer, as long as
    /// `max_new_answers_per_agent` (5 if it is not set) lets it.
    const VOTING_SENSITIVITY = ["voting_sensitivity"] one_of(SENSITIVITIES).with_default("lenient")
        .with_foreign_values(FOREIGN_SENSITIVITIES);

    /// With `voting_sensitivity: checklist_gated`, how low scores may be: from 0, where every
    /// criterion needs a 10, to 10, where a 5 for half of them suffices. An agent with few answers
    /// left needs lower scores.
    const VOTING_THRESHOLD = ["voting_threshold"] integer(0, 10).with_default("5");

    /// Maximum number of answers per agent. `null` sets no limit where agents vote; where they
    /// answer alone it means 3: an answer that fails a required check may be repaired twice.
    const MAX_NEW_ANSWERS_PER_AGENT = ["max_new_answers_per_agent"] integer(1, ANSWERS_MAX)
        .with_default("null");

    /// Maximum number of answers of all agents together; `null` sets no limit.
    const MAX_NEW_ANSWERS_GLOBAL = ["max_new_answers_global"] integer(1, ANSWERS_MAX)
        .with_default("null");

    /// Whether `fairness_lead_cap_answers` and `max_midstream_injections_per_round` apply.
    const FAIRNESS_ENABLED = ["fairness_enabled"] flag().with_default("true");

    /// How many answers an agent may be ahead of those that have not voted: an agent whose next
    /// answer would be further ahead waits for them. `0` is read as `1`, because no agent could
    /// answer first.
    const FAIRNESS_LEAD_CAP_ANSWERS = ["fairness_lead_cap_answers"] integer(0, ANSWERS_MAX)
        .with_default("2");

    /// Maximum number of new answers of others that an agent is shown in the course of a round; it
    /// sees the rest when its round ends. `null` sets no limit.
    const MAX_MIDSTREAM_INJECTIONS = ["max_midstream_injections_per_round"] integer(1, ANSWERS_MAX)
        .with_default("null");

    /// Whether agents see new answers of others only when a round ends, instead of at their next
    /// step: after an answer of theirs, or when a vote does not count because it came before these
    /// answers were shown.
    const DEFER_PEER_UPDATES = ["defer_peer_updates_until_restart"] flag().with_default("false");

    /// With `voting_sensitivity: checklist_gated`, whether `defer_peer_updates_until_restart`
    /// applies only after scores have been submitted. They are part of the vote here, so that
    /// agents see new answers at their next step.
    const UPDATES_BEFORE_SCORES = ["allow_midstream_peer_updates_before_checklist_submit"] flag()
        .with_default("false");

    /// The same as `defer_peer_updates_until_restart`, also with scores.
    const DISABLE_INJECTION = ["disable_injection"] flag().with_default("false");

    /// How different a new answer must be from every other. The share of common words may be at
    /// most 0.70 (`balanced`) or 0.50 (`strict`); `lenient` refuses only repetitions.
    const ANSWER_NOVELTY_REQUIREMENT = ["answer_novelty_requirement"] one_of(NOVELTY_REQUIREMENTS)
        .with_default("lenient");

    /// How the winner is found. `consensus`: agents read each other's answers and vote. `best-of`:
    /// each answers alone, and of the answers that pass the required checks, one review selects the
    /// best. `first-pass`: the first answer that passes them wins, and the other agents are
    /// stopped. `cascade`: the same, but agents start one after another, in the order of the config.
    const STRATEGY = ["strategy"] one_of(&["consensus", "best-of", "first-pass", "cascade"])
        .with_default("consensus");

    /// The `id` of the agent whose model compares the answers of `best-of`. Default: the first
    /// agent.
    const REVIEWER = ["reviewer"] text();

    /// The same as `strategy: best-of`, if there is no `strategy`.
    const SKIP_VOTING = ["skip_voting"] flag().with_default("false");

    /// Whether the first agent delivers immediately, without answers and votes.
    const SKIP_COORDINATION_ROUNDS = ["skip_coordination_rounds"] flag().with_default("false");

    /// Globs of files, such as `dist/**`, relative to the write path, that belong to an answer
    /// although git ignores them.
    const DELIVER_IGNORED = ["deliver_ignored"] texts();

    /// Whether agents are given the `AGENTS.md` of directories that are open to them (where there
    /// is none, `CLAUDE.md` or `GEMINI.md`).
    const PROJECT_INSTRUCTIONS = ["project_instructions"] flag().with_default("true");

    /// How agents coordinate.
    const COORDINATION = ["coordination"] section(&coordination::COORDINATION);
    unsupported ["timeout"] Convenience.with_shape(ValueShape::Mapping(&TIMEOUT)),
        "only the `timeout_settings` at the top of the file count";
    unsupported ["max_orchestration_restarts"] Convenience, "only the key in `coordination` counts";
    unsupported ["debug_final_answer"] Convenience, "the final agent judges its own result";
    row preparation::PARAPHRASES.row();
    unsupported ["docker"] Restricts,
        "write `command_line_execution_mode: docker` in each `backend`";
    unsupported ["defer_voting_until_all_answered"] Convenience.with_shape(ValueShape::Flag)
        .with_default("true"), "agents vote when all have answered, voted or dropped out";

    /// Whether the winner's answer is the result as it is, without another request. A winner that
    /// may write to a path of yours, that judges its result (`max_orchestration_restarts`), or that
    /// only planned (`enable_planning_mode`), is asked all the same.
    const SKIP_FINAL_PRESENTATION = ["skip_final_presentation"] flag().with_default("false");

    /// With `winner_present`, the winner presents the final answer, whatever
    /// `skip_final_presentation` says, and may change what its attempt has changed; `winner_reuse`
    /// leaves that to that key.
    const FINAL_ANSWER_STRATEGY = ["final_answer_strategy"] one_of(&["winner_reuse",
        WINNER_PRESENTS]).with_foreign_values(FOREIGN_STRATEGIES);
    unsupported ["coordination_mode"] Convenience.with_shape(ValueShape::Text)
        .with_default("voting"), "agents work on the same task and vote";
    unsupported ["presenter_agent"] Convenience, "the winner of the vote delivers";
    unsupported ["gap_report_mode", "max_checklist_calls_per_round", "checklist_first_answer",
        "checklist_require_gap_report"] Convenience,
        "with `voting_sensitivity: checklist_gated`, the scores are part of the vote";
    row coordination::SKILLS_DIRECTORY
        .with_doc("Same as in `coordination`, which takes precedence.").row();
    unsupported ["interactive_mode", "multimodal_config", "enable_nlip", "nlip",
        "nlip_config"] Convenience, "agents have massgen's own tools, and a run is one turn";
    row media::MULTIMODAL.row();
    row media::IMAGE_VENDOR.row();
    row media::AUDIO_VENDOR.row();
    row media::VIDEO_VENDOR;
    unsupported ["type", "max_turns"] Nothing, "MassGen does nothing with it either";
}

section! {
    /// MassGen reads this section and does not act on it, and neither does massgen: use
    /// `timeout_settings`.
    pub static TIMEOUT = "orchestrator.timeout";
    unsupported ["orchestrator_timeout_seconds", "initial_round_timeout_seconds",
        "subsequent_round_timeout_seconds", "round_timeout_grace_seconds"] Convenience
        .with_shape(ValueShape::Integer(0, SECONDS_MAX)),
        "MassGen does not act on it either; write it in `timeout_settings` at the top of the file";
}
