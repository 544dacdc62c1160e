//! The subagents of agents: the models that they may have, and the types that they may be given.

use std::sync::Arc;

use crate::config::BackendConfig;
use crate::config::storage_path::STATE_DIR;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;

/// The directory of types in a state directory: the project's, and that in the home directory.
const TYPES: &str = "subagent_types";
/// The directory of a project's types that the Python `MassGen` reads.
const AGENT_TYPES: &str = ".agent/subagent_types";

/// A model that the config names for subagents.
#[derive(Clone, Debug)]
pub struct SubagentBackend {
    /// The name by which agents choose it.
    pub name: String,
    /// The model, and how it is reached.
    pub backend: BackendConfig,
}

/// Returns the models, to be changed.
pub(in crate::config) fn backends_mut(
    models: &mut [SubagentBackend],
) -> impl Iterator<Item = &mut BackendConfig> {
    models.iter_mut().map(|model| &mut model.backend)
}

impl BackendConfig {
    /// Overrides the sandbox level of the external agents among the agent's model and those of its
    /// subagents.
    pub(in crate::config) fn override_program_sandboxes(&mut self, choice: SandboxLevelChoice) {
        let own_agent = self.external_agent.as_mut();
        let models = backends_mut(&mut self.subagent_models);
        let external_agents = models.filter_map(|model| model.external_agent.as_mut());
        for program in own_agent.into_iter().chain(external_agents) {
            Arc::make_mut(program).sandbox.sandbox = choice;
        }
    }

    /// Returns whether the agent's model or one of its subagents' is an external agent.
    pub(in crate::config) fn has_program(&self) -> bool {
        let mut models = self.with_subagent();
        models.any(|model| model.external_agent.is_some())
    }
}

/// The types of subagents that agents may start, where they are looked for, and which have models
/// of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubagentTypesConfig {
    /// Their names, in lower case and the order of the config, each once.
    pub names: Vec<String>,
    /// The directory of the user's own types. It need not exist.
    pub own: Option<AbsPath>,
    /// The directories of the project's types, in the order of their rank. They need not exist.
    pub of_project: Vec<AbsPath>,
    /// The types whose subagents have the models that the config names for subagents, in lower
    /// case; `None` if all subagents have them.
    pub with_models: Option<Vec<String>>,
}

impl SubagentTypesConfig {
    /// Returns the types with these names, for a run that is started in `base`.
    pub fn new(names: Vec<String>, base: &AbsPath, home: Option<&AbsPath>) -> Self {
        let in_state = |directory: &AbsPath| directory.join(STATE_DIR).join(TYPES);
        let users_dirs = home.map(in_state);
        let mut of_project = vec![in_state(base), base.join(AGENT_TYPES)];
        of_project.retain(|directory| users_dirs.as_ref() != Some(directory));
        Self {
            names,
            own: users_dirs,
            of_project,
            with_models: None,
        }
    }
}
