//! Checks the keys about what a model writes before the first round: personas, paraphrases and
//! criteria.

use crate::config::AgentConfig;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::MappingView;
use crate::config::keys::{backend, orchestrator, preparation, root};
use crate::config::preparation::{
    GeneratedCriteriaConfig, ParaphraseConfig, ParaphraseFreedom, PersonaConfig, PersonaDiversity,
    PersonaLifetime, PreparationConfig,
};
use crate::id::AgentId;

/// The default minimum and maximum number of criteria, as in MassGen.
const CRITERIA_MIN_DEFAULT: usize = 4;
const CRITERIA_MAX_DEFAULT: usize = 7;
/// The default number of paraphrases, as in MassGen.
const PARAPHRASES_DEFAULT: usize = 3;

impl ConfigChecker<'_> {
    /// Returns what a model writes before the first round.
    pub(super) fn preparation(
        &mut self,
        orchestrator: &MappingView<'_>,
        coordination: &MappingView<'_>,
    ) -> PreparationConfig {
        PreparationConfig {
            personas: personas(coordination),
            criteria: self.generated_criteria(orchestrator, coordination),
            paraphrases: None,
        }
    }

    fn generated_criteria(
        &mut self,
        orchestrator: &MappingView<'_>,
        coordination: &MappingView<'_>,
    ) -> Option<GeneratedCriteriaConfig> {
        let view = coordination.section(&preparation::CRITERIA)?;
        if !view.is_set(&preparation::ENABLED) {
            return None;
        }
        if !orchestrator.has_text(&orchestrator::VOTING_SENSITIVITY, "checklist_gated") {
            let key = &preparation::CRITERIA;
            let message = format!(
                "`{}` has no effect: agents score answers only with `voting_sensitivity: \
                 checklist_gated`",
                key.name()
            );
            self.add_warning(coordination.at(key), message);
            return None;
        }
        let count_max = view.integer(&preparation::MAX_CRITERIA);
        let count_max = count_max.unwrap_or(CRITERIA_MAX_DEFAULT);
        let count_min = view.integer(&preparation::MIN_CRITERIA);
        Some(GeneratedCriteriaConfig {
            count_min: count_min.unwrap_or(CRITERIA_MIN_DEFAULT).min(count_max),
            count_max,
        })
    }
}

fn personas(coordination: &MappingView<'_>) -> Option<PersonaConfig> {
    let view = coordination.section(&preparation::PERSONAS)?;
    view.is_set(&preparation::ENABLED).then(|| PersonaConfig {
        diversity: match view.word(&preparation::DIVERSITY_MODE) {
            Some("implementation") => PersonaDiversity::Implementation,
            Some("methodology") => PersonaDiversity::Methodology,
            Some(_) | None => PersonaDiversity::Perspective,
        },
        guidelines: view.string(&preparation::GUIDELINES),
        lifetime: match view.word(&preparation::AFTER_FIRST_ANSWER) {
            Some("soften") => PersonaLifetime::Preference,
            Some("keep") => PersonaLifetime::AllAnswers,
            Some(_) | None => PersonaLifetime::FirstAnswer,
        },
    })
}

/// Returns the agent with the model that `backend` names.
fn author(view: &MappingView<'_>, agents: &[AgentConfig]) -> Option<AgentId> {
    let author = view.section(&preparation::AUTHOR)?;
    let vendor = author.word(&backend::TYPE)?;
    let model = author.word(&backend::MODEL);
    let has_model = |agent: &&AgentConfig| {
        let backend = &agent.backend;
        backend.vendor.name == vendor && model.is_none_or(|model| model == backend.model)
    };
    agents.iter().find(has_model).map(|agent| agent.id.clone())
}

/// Returns the paraphrases of the task that a model writes for `agents`.
pub(super) fn paraphrases(
    root: &MappingView<'_>,
    agents: &[AgentConfig],
) -> Option<ParaphraseConfig> {
    let orchestrator = root.section(&root::ORCHESTRATOR)?;
    let view = orchestrator.section(&preparation::PARAPHRASES)?;
    let count = view.integer(&preparation::NUM_VARIANTS);
    view.is_set(&preparation::ENABLED)
        .then(|| ParaphraseConfig {
            count: count.unwrap_or(PARAPHRASES_DEFAULT),
            freedom: match view.word(&preparation::STRATEGY) {
                Some("conservative") => ParaphraseFreedom::Close,
                Some("diverse") => ParaphraseFreedom::Free,
                Some(_) | None => ParaphraseFreedom::Balanced,
            },
            author: author(&view, agents),
        })
}
