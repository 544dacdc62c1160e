//! The subagents of agents: the models that they may have, and the types that they may be given.

use crate::config::BackendConfig;
use crate::config::storage_path::STATE_DIR;
use crate::path::AbsPath;

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

/// The types that agents may give their subagents, and where they are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubagentTypesConfig {
    /// Their names, in lower case and the order of the config, each once.
    pub names: Vec<String>,
    /// The directory of the user's own types. It need not exist.
    pub own: Option<AbsPath>,
    /// The directories of the project's types, in the order of their rank. They need not exist.
    pub of_project: Vec<AbsPath>,
}

impl SubagentTypesConfig {
    /// Returns the types with these names, for a run that is started in `base`.
    pub fn new(names: Vec<String>, base: &AbsPath, home: Option<&AbsPath>) -> Self {
        let in_state = |directory: &AbsPath| directory.join(STATE_DIR).join(TYPES);
        let own = home.map(in_state);
        let mut of_project = vec![in_state(base), base.join(AGENT_TYPES)];
        of_project.retain(|directory| own.as_ref() != Some(directory));
        Self {
            names,
            own,
            of_project,
        }
    }
}
