//! `replay.yaml`: what `massgen replay` needs in order to start as a run started.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::id::AgentId;
use crate::mentions::opened_paths::OpenedPath;
use crate::world::store::redact::Redactor;

/// How a run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayManifest {
    /// The task as the user wrote it.
    pub task: String,
    /// The user's working directory.
    pub cwd: String,
    /// The workspace of each agent that has one, as every path to it that may occur in a reply.
    pub workspaces: BTreeMap<AgentId, Vec<String>>,
    /// The directory in which the agents saw each other's snapshots, as every path to it.
    pub temp_workspaces: Vec<String>,
    /// The paths that the prompts of the session opened.
    pub opened: Vec<OpenedPath>,
    /// The team, as a config whose agents have recorded replies.
    pub team: Value,
}

impl ReplayManifest {
    /// Returns the content of the file.
    pub(crate) fn to_yaml(&self, redactor: &Redactor) -> Result<String> {
        let manifest_json = serde_json::to_value(self)
            .map_err(|error| Error::bug("how the run began has no JSON form").with_source(error))?;
        serde_yaml::to_string(&redactor.json(manifest_json))
            .map_err(|error| Error::bug("how the run began has no YAML form").with_source(error))
    }
}
