//! The keys about what a model writes before the first round.

use crate::config::keys::{ConfigKey, IgnoredEffect, ValueShape, backend};

/// The maximum number of criteria; every vote has a score for each.
pub(crate) const CRITERIA_MAX: usize = 16;
/// `CRITERIA_MAX` in the type of a key's bounds.
const CRITERIA_KEY_MAX: i64 = 16;
/// The maximum number of paraphrases.
const PARAPHRASES_MAX: i64 = 32;

keys! {
    /// Personas that a model writes for the agents before the first round.
    const PERSONAS = ["persona_generator"] section(&PERSONA_GENERATOR);

    /// Criteria for the votes of `checklist_gated` that a model writes before the first round.
    const CRITERIA = ["evaluation_criteria_generator"] section(&CRITERIA_GENERATOR);

    /// The task in other words, which a model writes for the agents before the first round.
    const PARAPHRASES = ["dspy"] section(&DSPY);
}

/// Reusing what was written in the turn before.
const PERSIST: ConfigKey = ConfigKey::unsupported(
    &["persist_across_turns"],
    IgnoredEffect::Convenience,
    "they are written for each turn",
)
.with_shape(ValueShape::Flag)
.with_default("false");

section! {
    /// Before the first round, one request writes the task in other words, and each agent reads one
    /// of these paraphrases after the task itself. `DSPy` is not used. See
    /// [voting.md](voting.md#paraphrases).
    pub static DSPY = "orchestrator.dspy";

    /// Whether they are written.
    const ENABLED = ["enabled"] flag().with_default("false");

    /// The model that writes them: one that an agent has.
    const AUTHOR = ["backend"] section(&backend::BACKEND);

    /// The number of paraphrases. If there are more agents, several have the same.
    const NUM_VARIANTS = ["num_variants"] integer(1, PARAPHRASES_MAX).with_default("3");

    /// How far they may differ from the task. `adaptive` is treated as `balanced`.
    const STRATEGY = ["strategy"] one_of(&["conservative", "balanced", "diverse", "adaptive"])
        .with_default("balanced");
    unsupported ["use_chain_of_thought", "cache_enabled", "cache_dir", "validate_semantics",
        "semantic_threshold", "temperature_range"] Nothing,
        "one request writes them all, and agents read the task itself too";
}

section! {
    /// Before the first round, one request to the model of the first agent (of the first that is no
    /// external agent, if there is one) writes a persona for each agent, which its first message
    /// contains. See [voting.md](voting.md#personas).
    pub static PERSONA_GENERATOR = "orchestrator.coordination.persona_generator";
    row ENABLED.row();

    /// In what the personas differ: in what matters most to them, in the kind of solution, or in
    /// the way of working.
    const DIVERSITY_MODE = ["diversity_mode"] one_of(&["perspective", "implementation",
        "methodology"]).with_default("perspective");

    /// What else the personas are to be like.
    const GUIDELINES = ["persona_guidelines"] text();

    /// What becomes of an agent's persona when the agent has seen other answers: it ends, it is
    /// only a preference, or it stays.
    const AFTER_FIRST_ANSWER = ["after_first_answer"] one_of(&["drop", "soften", "keep"])
        .with_default("drop");
    row PERSIST;
    unsupported ["backend", "strategy"] Convenience, "the model of an agent writes them";
}

section! {
    /// Before the first round, one request to the same model writes criteria for the task, by which
    /// voters score answers instead of those in `checklist_criteria_inline`.
    pub static CRITERIA_GENERATOR = "orchestrator.coordination.evaluation_criteria_generator";
    row ENABLED.row();

    /// The minimum number of criteria.
    const MIN_CRITERIA = ["min_criteria"] integer(1, CRITERIA_KEY_MAX).with_default("4");

    /// The maximum number of criteria.
    const MAX_CRITERIA = ["max_criteria"] integer(1, CRITERIA_KEY_MAX).with_default("7");
    row PERSIST;
}
