//! The keys about what a model writes before the first round.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Flag, Integer, Section, Text};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape, backend,
};

/// The maximum number of criteria; every vote has a score for each.
pub(crate) const CRITERIA_MAX: usize = 16;
/// `CRITERIA_MAX` in the type of a key's bounds.
const CRITERIA_KEY_MAX: i64 = 16;
/// The maximum number of paraphrases.
const PARAPHRASES_MAX: i64 = 32;

pub(crate) const PERSONAS: TypedKey<Section> = TypedKey::optional(
    &["persona_generator"],
    shape::section(&PERSONA_GENERATOR),
    "Personas that a model writes for the agents before the first round.",
    Harmless,
);

pub(crate) const CRITERIA: TypedKey<Section> = TypedKey::optional(
    &["evaluation_criteria_generator"],
    shape::section(&CRITERIA_GENERATOR),
    "Criteria for the votes of `checklist_gated` that a model writes before the first round.",
    Harmless,
);

pub(crate) const ENABLED: TypedKey<Flag> = TypedKey::optional(
    &["enabled"],
    shape::flag(),
    "Whether they are written.",
    Harmless,
)
.with_default("false");

pub(crate) const DIVERSITY_MODE: TypedKey<Text> = TypedKey::optional(
    &["diversity_mode"],
    shape::one_of(&["perspective", "implementation", "methodology"]),
    "In what the personas differ: in what matters most to them, in the kind of solution, or in the way \
     of working.",
    Harmless,
)
.with_default("perspective");

pub(crate) const GUIDELINES: TypedKey<Text> = TypedKey::optional(
    &["persona_guidelines"],
    shape::text(),
    "What else the personas are to be like.",
    Harmless,
);

pub(crate) const AFTER_FIRST_ANSWER: TypedKey<Text> = TypedKey::optional(
    &["after_first_answer"],
    shape::one_of(&["drop", "soften", "keep"]),
    "What becomes of an agent's persona when the agent has seen other answers: it ends, it is only a \
     preference, or it stays.",
    Harmless,
)
.with_default("drop");

pub(crate) const MIN_CRITERIA: TypedKey<Integer> = TypedKey::optional(
    &["min_criteria"],
    shape::integer(1, CRITERIA_KEY_MAX),
    "The minimum number of criteria.",
    Harmless,
)
.with_default("4");

pub(crate) const MAX_CRITERIA: TypedKey<Integer> = TypedKey::optional(
    &["max_criteria"],
    shape::integer(1, CRITERIA_KEY_MAX),
    "The maximum number of criteria.",
    Harmless,
)
.with_default("7");

pub(crate) const PARAPHRASES: TypedKey<Section> = TypedKey::optional(
    &["dspy"],
    shape::section(&DSPY),
    "The task in other words, which a model writes for the agents before the first round.",
    Harmless,
);

pub(crate) const AUTHOR: TypedKey<Section> = TypedKey::optional(
    &["backend"],
    shape::section(&backend::BACKEND),
    "The model that writes them: one that an agent has.",
    Harmless,
);

pub(crate) const NUM_VARIANTS: TypedKey<Integer> = TypedKey::optional(
    &["num_variants"],
    shape::integer(1, PARAPHRASES_MAX),
    "The number of paraphrases. If there are more agents, several have the same.",
    Harmless,
)
.with_default("3");

pub(crate) const STRATEGY: TypedKey<Text> = TypedKey::optional(
    &["strategy"],
    shape::one_of(&["conservative", "balanced", "diverse", "adaptive"]),
    "How far they may differ from the task. `adaptive` is treated as `balanced`.",
    Harmless,
)
.with_default("balanced");

/// Reusing what was written in the turn before.
const PERSIST: ConfigKey = ConfigKey::unsupported(
    &["persist_across_turns"],
    ValueShape::Flag,
    "they are written for each turn",
    IgnoredEffect::Convenience,
)
.with_default("false");

/// Paraphrases of the task.
pub static DSPY: KeySection = KeySection {
    path: "orchestrator.dspy",
    doc: "Before the first round, one request writes the task in other words, and each agent reads one \
          of these paraphrases after the task itself. DSPy is not used. See \
          [voting.md](voting.md#paraphrases).",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        ENABLED.row(),
        AUTHOR.row(),
        NUM_VARIANTS.row(),
        STRATEGY.row(),
        ConfigKey::unsupported(
            &[
                "use_chain_of_thought",
                "cache_enabled",
                "cache_dir",
                "validate_semantics",
                "semantic_threshold",
                "temperature_range",
            ],
            ValueShape::Any,
            "one request writes them all, and agents read the task itself too",
            IgnoredEffect::Nothing,
        ),
    ],
};

/// The personas of agents.
pub static PERSONA_GENERATOR: KeySection = KeySection {
    path: "orchestrator.coordination.persona_generator",
    doc: "Before the first round, one request to the model of the first agent (of the first that is no \
          external agent, if there is one) writes a persona for each agent, which its first message \
          contains. See [voting.md](voting.md#personas).",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        ENABLED.row(),
        DIVERSITY_MODE.row(),
        GUIDELINES.row(),
        AFTER_FIRST_ANSWER.row(),
        PERSIST,
        ConfigKey::unsupported(
            &["backend", "strategy"],
            ValueShape::Any,
            "the model of an agent writes them",
            IgnoredEffect::Convenience,
        ),
    ],
};

/// The criteria of voters.
pub static CRITERIA_GENERATOR: KeySection = KeySection {
    path: "orchestrator.coordination.evaluation_criteria_generator",
    doc: "Before the first round, one request to the same model writes criteria for the task, by which \
          voters score answers instead of those in `checklist_criteria_inline`.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        ENABLED.row(),
        MIN_CRITERIA.row(),
        MAX_CRITERIA.row(),
        PERSIST,
    ],
};
