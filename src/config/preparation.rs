//! What the model of an agent writes before the first round, for the whole team.

use crate::id::AgentId;

/// What is written before the first round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparationConfig {
    /// Personas for the agents (`persona_generator`).
    pub personas: Option<PersonaConfig>,
    /// Criteria by which voters score answers (`evaluation_criteria_generator`).
    pub criteria: Option<GeneratedCriteriaConfig>,
    /// A paraphrase of the task for each agent (`dspy`).
    pub paraphrases: Option<ParaphraseConfig>,
}

/// Paraphrases of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParaphraseConfig {
    /// The number of paraphrases (`num_variants`).
    pub count: usize,
    /// How far they may differ from the task (`strategy`).
    pub freedom: ParaphraseFreedom,
    /// The agent whose model writes them; `None` is the one that writes everything else.
    pub author: Option<AgentId>,
}

/// How far paraphrases may differ from a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParaphraseFreedom {
    /// Only in single words.
    Close,
    /// In words and sentences.
    #[default]
    Balanced,
    /// In words, order and emphasis.
    Free,
}

/// The personas that agents are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonaConfig {
    /// What they differ in (`diversity_mode`).
    pub diversity: PersonaDiversity,
    /// The user's instructions for writing them (`persona_guidelines`).
    pub guidelines: Option<String>,
    /// The answers to which they apply (`after_first_answer`).
    pub lifetime: PersonaLifetime,
}

/// What personas differ in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PersonaDiversity {
    /// What matters most to them.
    #[default]
    Perspective,
    /// The kind of solution that they aim for.
    Implementation,
    /// How they go about the work.
    Methodology,
}

/// The answers to which a persona applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PersonaLifetime {
    /// Those before the agent sees another agent's answer.
    #[default]
    FirstAnswer,
    /// All, but it is only a preference once the agent sees another agent's answer.
    Preference,
    /// All.
    AllAnswers,
}

/// The criteria that a model writes for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedCriteriaConfig {
    /// The minimum number of criteria.
    pub count_min: usize,
    /// The maximum number of criteria.
    pub count_max: usize,
}
