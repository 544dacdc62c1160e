//! Checks the keys about the models and the types of subagents.

use serde_json::Value;

use crate::config::MediaModels;
use crate::config::api_parameters::unsent_reason;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue};
use crate::config::diagnostic::{Span, quote};
use crate::config::keys::found_config::is_empty;
use crate::config::keys::{
    ConfigKey, agents, backend, coordination, hooks, orchestrator, permissions, root,
};
use crate::config::subagents::{SubagentBackend, SubagentTypesConfig};
use crate::id::{AGENT_ID_BYTES_MAX, AgentId};

/// The parameter with which a vendor's model searches the Web.
const WEB_SEARCH: &str = "enable_web_search";
/// The beginning of the name of a model that has no `id`; its number in the list follows.
const UNNAMED_PREFIX: &str = "agent_";
/// The value that stands for the subagents of all types, and those without one.
const ALL_TYPES: &str = "*";
/// The types of a config that names none, which are those of the Python `MassGen`.
const TYPES_DEFAULT: [&str; 5] = [
    "evaluator",
    "explorer",
    "researcher",
    "critic",
    "execution_trace_analyzer",
];
/// The maximum number of types that a config names.
const TYPES_MAX: usize = 16;

impl ConfigChecker<'_> {
    /// Returns the models of all subagents, in the order of the config.
    pub(super) fn subagent_models(&mut self, root: &MappingView<'_>) -> Vec<SubagentBackend> {
        let section = root
            .section_or_empty(&root::ORCHESTRATOR)
            .section_or_empty(&orchestrator::COORDINATION)
            .section_or_empty(&agents::SUBAGENTS);
        if !section.is_set(&agents::SUBAGENTS_ENABLED) {
            return Vec::new();
        }
        let enables_web_search = section.is_set(&agents::WEB_SEARCH);
        let entries = section.views(&agents::SUBAGENT_MODELS);
        let mut models: Vec<SubagentBackend> = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let name = self.subagent_name(&entry, index, &models);
            let backend_section = entry.section(&agents::BACKEND);
            if let Some(backend_section) = &backend_section {
                self.refuse_restrictions(backend_section);
            }
            let backend = backend_section.and_then(|backend| self.backend(&backend));
            let (Some(name), Some(mut backend)) = (name, backend) else {
                continue;
            };
            // Subagents are offered no tools for media.
            backend.media = MediaModels::default();
            if enables_web_search
                && unsent_reason(WEB_SEARCH, backend.vendor, &backend.model).is_none()
            {
                let parameters = &mut backend.parameters;
                parameters.insert(WEB_SEARCH.to_owned(), Value::Bool(true));
            }
            models.push(SubagentBackend { name, backend });
        }
        models
    }

    /// Refuses keys that would restrict an agent with this backend: they do not restrict subagents.
    fn refuse_restrictions(&mut self, backend: &MappingView<'_>) {
        let keys: [&ConfigKey; 4] = [
            &backend::ALLOWED_TOOLS,
            &backend::EXCLUDE_TOOLS,
            &permissions::KEY,
            &hooks::KEY,
        ];
        let is_set = |key: &ConfigKey| backend.get(key).is_some_and(|value| !is_empty(value));
        for key in keys.into_iter().filter(|key| is_set(key)) {
            let message = format!(
                "`{}` would have no effect: a subagent has the tools, rules and hooks of its agent",
                key.name()
            );
            let hint = "write it for the agents that start subagents";
            self.refuse(backend.at(key), message, hint);
        }
    }

    /// Returns the name of the model at `index`, counted from 0; `None` if it is not a name, or an
    /// earlier model has it.
    fn subagent_name(
        &mut self,
        entry: &MappingView<'_>,
        index: usize,
        earlier_models: &[SubagentBackend],
    ) -> Option<String> {
        let id = entry.text(&agents::SUBAGENT_ID);
        let default_name = format!("{UNNAMED_PREFIX}{}", index.saturating_add(1));
        let name = id.as_ref().map_or(default_name.as_str(), |id| id.value);
        let problem = if earlier_models.iter().any(|model| model.name == name) {
            "is the name of an earlier one"
        } else if AgentId::parse(name).is_ok() {
            return Some(name.to_owned());
        } else {
            "is not a name"
        };
        match &id {
            Some(id) => self.refuse_name(name, &id.path, id.span, problem),
            None => self.refuse_name(name, &entry.path, &entry.node.span, problem),
        }
        None
    }

    /// Returns the types of subagents that the section `coordination` names.
    pub(super) fn subagent_types(&mut self, coordination: &MappingView<'_>) -> SubagentTypesConfig {
        let key = &coordination::SUBAGENT_TYPES;
        let types_with_models = self.types_with_models(coordination);
        let names = if coordination.get(key).is_some() {
            self.type_names(coordination.texts(key))
        } else if coordination.is_set(&coordination::ENABLE_SUBAGENTS) {
            Vec::from(TYPES_DEFAULT.map(str::to_owned))
        } else {
            Vec::new()
        };
        let hint = "list fewer";
        let count = (names.len(), TYPES_MAX);
        self.limit_count(coordination.at(key), count, "types of subagents", hint);
        let types = if names.is_empty() {
            SubagentTypesConfig::default()
        } else {
            SubagentTypesConfig::new(names, self.context.base, self.context.home)
        };
        SubagentTypesConfig {
            types_with_models,
            ..types
        }
    }

    /// Returns the types whose subagents have the models that the config names for subagents, and
    /// not the model of their agent; `None` if all subagents have them, as by default.
    fn types_with_models(&mut self, coordination: &MappingView<'_>) -> Option<Vec<String>> {
        let view = coordination.section(&agents::SUBAGENTS)?;
        view.get(&agents::SHARED_TYPES)?;
        let shared_types = view.texts(&agents::SHARED_TYPES);
        if shared_types.iter().any(|text| text.value == ALL_TYPES) {
            return None;
        }
        Some(self.type_names(shared_types))
    }

    /// Returns the names of types in `texts`, each once.
    fn type_names(&mut self, texts: Vec<TextValue<'_>>) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for text in texts {
            let name = text.value.to_lowercase();
            if AgentId::parse(&name).is_err() {
                self.refuse_name(text.value, &text.path, text.span, "is not a name");
            } else if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn refuse_name(&mut self, name: &str, path: &str, span: &Span, problem: &str) {
        let message = format!("{} {problem}", quote(name));
        let hint = format!(
            "another name of at most {AGENT_ID_BYTES_MAX} letters, digits, `_`, `-` and `.`"
        );
        self.refuse((path, span), message, hint);
    }
}
