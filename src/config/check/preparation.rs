//! Checks the keys about what a model writes before the first round: personas, paraphrases and
//! criteria.

use crate::config::AgentConfig;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::MappingView;
use crate::config::diagnostic::Diagnostic;
use crate::config::keys::shape::Integer;
use crate::config::keys::{TypedKey, backend, orchestrator, preparation, root};
use crate::config::preparation::{
    GeneratedCriteriaConfig, ParaphraseConfig, ParaphraseFreedom, PersonaConfig, PersonaDiversity,
    PersonaLifetime, PreparationConfig,
};
use crate::id::AgentId;

/// The default minimum and maximum number of criteria, as in MassGen.
const CRITERIA_DEFAULT: [usize; 2] = [4, 7];
/// The default number of paraphrases, as in MassGen.
const PARAPHRASES_DEFAULT: usize = 3;

impl ConfigChecker<'_> {
    /// Returns what a model writes before the first round, from the section `orchestrator`.
    pub(super) fn preparation(&mut self, view: &MappingView<'_>) -> PreparationConfig {
        let Some(coordination) = view.section(&orchestrator::COORDINATION) else {
            return PreparationConfig::default();
        };
        PreparationConfig {
            personas: personas(&coordination),
            criteria: self.generated_criteria(view, &coordination),
            paraphrases: None,
        }
    }

    /// Returns the paraphrases of the task that a model writes for `agents`. Warns about a model
    /// that no agent has.
    pub(super) fn paraphrases(
        &mut self,
        root: &MappingView<'_>,
        agents: &[AgentConfig],
    ) -> Option<ParaphraseConfig> {
        let orchestrator = root.section(&root::ORCHESTRATOR)?;
        let view = orchestrator.section(&preparation::PARAPHRASES)?;
        if view.flag(&preparation::ENABLED) != Some(true) {
            return None;
        }
        let count = view
            .integer(&preparation::NUM_VARIANTS)
            .and_then(|count| usize::try_from(count).ok());
        let strategy = view.text(&preparation::STRATEGY);
        Some(ParaphraseConfig {
            count: count.unwrap_or(PARAPHRASES_DEFAULT),
            freedom: match strategy.map(|text| text.value) {
                Some("conservative") => ParaphraseFreedom::Close,
                Some("diverse") => ParaphraseFreedom::Free,
                Some(_) | None => ParaphraseFreedom::Balanced,
            },
            author: self.author(&view, agents),
        })
    }

    /// Returns the agent with the model that `backend` names.
    fn author(&mut self, view: &MappingView<'_>, agents: &[AgentConfig]) -> Option<AgentId> {
        let author_section = view.section(&preparation::AUTHOR)?;
        let vendor = author_section.text(&backend::TYPE)?.value;
        let model = author_section.text(&backend::MODEL).map(|text| text.value);
        let has_model = |agent: &&AgentConfig| {
            let backend = &agent.backend;
            backend.vendor.name == vendor && model.is_none_or(|model| model == backend.model)
        };
        let author = agents.iter().find(has_model);
        if author.is_none() {
            let message = "no agent has this model: that of the first agent writes the paraphrases";
            let key = &preparation::AUTHOR;
            let warning = Diagnostic::warning(view.key_path(key), message);
            self.findings.push(warning.with_span(view.key_span(key)));
        }
        author.map(|agent| agent.id.clone())
    }

    fn generated_criteria(
        &mut self,
        orchestrator: &MappingView<'_>,
        coordination: &MappingView<'_>,
    ) -> Option<GeneratedCriteriaConfig> {
        let view = coordination.section(&preparation::CRITERIA)?;
        if view.flag(&preparation::ENABLED) != Some(true) {
            return None;
        }
        let sensitivity = orchestrator.text(&orchestrator::VOTING_SENSITIVITY);
        if sensitivity.is_none_or(|text| text.value != "checklist_gated") {
            let key = &preparation::CRITERIA;
            let message = format!(
                "`{}` has no effect: agents score answers only with `voting_sensitivity: \
                 checklist_gated`",
                key.name()
            );
            let warning = Diagnostic::warning(coordination.key_path(key), message);
            self.findings
                .push(warning.with_span(coordination.key_span(key)));
            return None;
        }
        let [count_min, count_max] = CRITERIA_DEFAULT;
        let count = |key: &TypedKey<Integer>, default: usize| {
            let count = view.integer(key);
            count
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(default)
        };
        let count_max = count(&preparation::MAX_CRITERIA, count_max);
        let count_min = count(&preparation::MIN_CRITERIA, count_min).min(count_max);
        Some(GeneratedCriteriaConfig {
            count_min,
            count_max,
        })
    }
}

fn personas(coordination: &MappingView<'_>) -> Option<PersonaConfig> {
    let view = coordination.section(&preparation::PERSONAS)?;
    if view.flag(&preparation::ENABLED) != Some(true) {
        return None;
    }
    let diversity = view.text(&preparation::DIVERSITY_MODE);
    let after_first_answer = view.text(&preparation::AFTER_FIRST_ANSWER);
    Some(PersonaConfig {
        diversity: match diversity.map(|text| text.value) {
            Some("implementation") => PersonaDiversity::Implementation,
            Some("methodology") => PersonaDiversity::Methodology,
            Some(_) | None => PersonaDiversity::Perspective,
        },
        guidelines: view
            .text(&preparation::GUIDELINES)
            .map(|text| text.value.to_owned()),
        lifetime: match after_first_answer.map(|text| text.value) {
            Some("soften") => PersonaLifetime::Preference,
            Some("keep") => PersonaLifetime::AllAnswers,
            Some(_) | None => PersonaLifetime::FirstAnswer,
        },
    })
}
