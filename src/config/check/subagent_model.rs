//! Checks the keys about the model of subagents.

use serde_json::Value;

use crate::config::api_parameters::unsent_reason;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::MappingView;
use crate::config::diagnostic::Diagnostic;
use crate::config::keys::{agents, orchestrator, root, subagent_model};
use crate::config::{BackendConfig, MediaModels};

/// The parameter of models that search the Web.
const WEB_SEARCH: &str = "enable_web_search";

impl ConfigChecker<'_> {
    /// Returns the model of all subagents, if the config names one. Warns about entries that do not
    /// count.
    pub(super) fn subagent_model(&mut self, root: &MappingView<'_>) -> Option<BackendConfig> {
        let view = root.section(&root::ORCHESTRATOR)?;
        let view = view.section(&orchestrator::COORDINATION)?;
        let view = view.section(&subagent_model::KEY)?;
        if view.flag(&subagent_model::ENABLED) != Some(true) {
            return None;
        }
        let items = view.items(&subagent_model::AGENTS);
        let count = items.len();
        let models = items.into_iter().filter_map(|(path, node)| {
            let backend = MappingView { node, path }.section(&agents::BACKEND)?;
            let model = self.backend(&backend)?;
            model.external_agent.is_none().then_some(model)
        });
        // All entries are checked.
        let models: Vec<BackendConfig> = models.collect();
        if count > 1 || models.is_empty() {
            let message = "a subagent is one agent with a model of an API: of `agents`, the first such \
                           model counts, and without one subagents have the model of their agent";
            let key = &subagent_model::AGENTS;
            let warning = Diagnostic::warning(view.key_path(key), message);
            self.findings.push(warning.with_span(view.key_span(key)));
        }
        let mut model = models.into_iter().next()?;
        model.media = MediaModels::default();
        let is_sent = unsent_reason(WEB_SEARCH, model.vendor, &model.model).is_none();
        if view.flag(&subagent_model::WEB_SEARCH) == Some(true) && is_sent {
            model
                .parameters
                .insert(WEB_SEARCH.to_owned(), Value::Bool(true));
        }
        Some(model)
    }
}
