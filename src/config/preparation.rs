//! What the model of an agent writes before the first round, for the whole team.

use crate::id::AgentId;

/// What is written before the first round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparationConfig {
    /// Personas of the agents, if they are to have some (`persona_generator`).
    pub personas: Option<PersonaConfig>,
    /// Criteria by which voters score answers (`evaluation_criteria_generator`).
    pub criteria: Option<GeneratedCriteriaConfig>,
    /// The task in other words, for each agent (`dspy`).
    pub paraphrases: Option<ParaphraseConfig>,
}

/// The task in other words.
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
    /// In what they differ (`diversity_mode`).
    pub diversity: PersonaDiversity,
    /// What else the user asks of them (`persona_guidelines`).
    pub guidelines: Option<String>,
    /// How long they count (`after_first_answer`).
    pub lifetime: PersonaLifetime,
}

/// In what personas differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PersonaDiversity {
    /// In what matters most to them.
    #[default]
    Perspective,
    /// In the kind of solution that they aim for.
    Implementation,
    /// In how they go about the work.
    Methodology,
}

/// How long a persona counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PersonaLifetime {
    /// Until the agent sees another agent's answer.
    #[default]
    FirstAnswer,
    /// Then it is only a preference.
    Preference,
    /// For all answers.
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
