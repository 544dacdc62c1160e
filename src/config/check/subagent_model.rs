//! Checks the keys about the models and the types of subagents.

use serde_json::Value;

use crate::config::MediaModels;
use crate::config::api_parameters::unsent_reason;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue};
use crate::config::diagnostic::{Diagnostic, Span, quote};
use crate::config::keys::found_config::is_empty;
use crate::config::keys::{
    ConfigKey, agents, backend, coordination, hooks, orchestrator, permissions, root,
    subagent_model,
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
    /// Returns the models of all subagents, in the order of the config. Warns if the section is
    /// enabled without one.
    pub(super) fn subagent_models(&mut self, root: &MappingView<'_>) -> Vec<SubagentBackend> {
        let section = root
            .section(&root::ORCHESTRATOR)
            .and_then(|orchestrator| orchestrator.section(&orchestrator::COORDINATION))
            .and_then(|coordination| coordination.section(&subagent_model::KEY));
        let is_enabled =
            |section: &MappingView<'_>| section.flag(&subagent_model::ENABLED) == Some(true);
        let Some(section) = section.filter(is_enabled) else {
            return Vec::new();
        };
        let enables_web_search = section.flag(&subagent_model::WEB_SEARCH) == Some(true);
        let items = section.items(&subagent_model::AGENTS);
        let names_no_model = items.is_empty();
        let mut models: Vec<SubagentBackend> = Vec::new();
        for (index, (path, node)) in items.into_iter().enumerate() {
            let entry = MappingView { node, path };
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
        if names_no_model {
            let message = "it names no model: subagents have the model of their agent";
            let key = &subagent_model::AGENTS;
            let warning = Diagnostic::warning(section.key_path(key), message);
            self.findings.push(warning.with_span(section.key_span(key)));
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
            self.refuse_key(backend, key, &message, hint);
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
        let id = entry.text(&subagent_model::ID);
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

    /// Returns the types of subagents that the section `orchestrator` names.
    pub(super) fn subagent_types(&mut self, view: &MappingView<'_>) -> SubagentTypesConfig {
        let section = view.section(&orchestrator::COORDINATION);
        let section = section.as_ref();
        let types_with_models = section.and_then(|section| self.types_with_models(section));
        let type_names = section.and_then(|section| {
            section.get(&coordination::SUBAGENT_TYPES)?;
            Some(section.texts(&coordination::SUBAGENT_TYPES))
        });
        let has_subagents = section
            .is_some_and(|section| section.flag(&coordination::ENABLE_SUBAGENTS) == Some(true));
        let names = match type_names {
            Some(type_names) => self.type_names(type_names),
            None if has_subagents => Vec::from(TYPES_DEFAULT.map(str::to_owned)),
            None => Vec::new(),
        };
        if names.len() > TYPES_MAX {
            let message = format!("{} types of subagents are too many", names.len());
            let error = Diagnostic::error("orchestrator.coordination.subagent_types", message);
            let hint = format!("keep at most {TYPES_MAX}");
            self.findings.push(error.with_suggestion(hint));
        }
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
        let view = coordination.section(&subagent_model::KEY)?;
        view.get(&subagent_model::SHARED_TYPES)?;
        let shared_types = view.texts(&subagent_model::SHARED_TYPES);
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
        let error = Diagnostic::error(path, message);
        self.findings
            .push(error.with_span(span).with_suggestion(hint));
    }
}
