//! The subagents of agents: the models that they may have, and the types that they may be given.

use std::sync::Arc;

use crate::config::BackendConfig;
use crate::config::storage_path::STATE_DIR;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;

/// The directory of types in the state directories of the project and of the home directory.
const TYPES: &str = "subagent_types";
/// The directory of a project's types that the Python `MassGen` reads.
const MASSGEN_TYPES: &str = ".agent/subagent_types";

/// A model that the config names for subagents.
#[derive(Clone, Debug)]
pub struct SubagentBackend {
    /// The name by which agents choose it.
    pub name: String,
    /// The model, and how it is reached.
    pub backend: BackendConfig,
}

/// Returns mutable references to the configurations of the models.
pub(in crate::config) fn backends_mut(
    models: &mut [SubagentBackend],
) -> impl Iterator<Item = &mut BackendConfig> {
    models.iter_mut().map(|model| &mut model.backend)
}

impl BackendConfig {
    /// Overrides the sandbox level of the external agents among the agent's model and those of its
    /// subagents.
    pub(in crate::config) fn override_external_agent_sandboxes(
        &mut self,
        choice: SandboxLevelChoice,
    ) {
        let own_agent = self.external_agent.as_mut();
        let subagent_models = backends_mut(&mut self.subagent_models);
        let subagents = subagent_models.filter_map(|model| model.external_agent.as_mut());
        for external_agent in own_agent.into_iter().chain(subagents) {
            Arc::make_mut(external_agent).sandbox.sandbox = choice;
        }
    }

    /// Returns whether the agent's model or one of its subagents' is an external agent.
    pub(in crate::config) fn has_external_agent(&self) -> bool {
        let mut models = self.with_subagent_models();
        models.any(|model| model.external_agent.is_some())
    }
}

/// The types of subagents that agents may start, the directories in which their files are looked
/// up, and which of them have models of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubagentTypesConfig {
    /// Their names, in lower case and the order of the config, each once.
    pub names: Vec<String>,
    /// The directory of the user's own types. It need not exist.
    pub user_directory: Option<AbsPath>,
    /// The directories of the project's types, in the order of their rank. They need not exist.
    pub project_directories: Vec<AbsPath>,
    /// The types whose subagents have the models that the config names for subagents, in lower
    /// case; `None` if all subagents have them.
    pub types_with_models: Option<Vec<String>>,
}

impl SubagentTypesConfig {
    /// Returns the types with these names, for a run that is started in `base`.
    pub fn new(names: Vec<String>, base: &AbsPath, home: Option<&AbsPath>) -> Self {
        let in_state = |directory: &AbsPath| directory.join(STATE_DIR).join(TYPES);
        let user_directory = home.map(in_state);
        let mut project_directories = vec![in_state(base), base.join(MASSGEN_TYPES)];
        project_directories.retain(|directory| user_directory.as_ref() != Some(directory));
        Self {
            names,
            user_directory,
            project_directories,
            types_with_models: None,
        }
    }
}
