//! `replay.yaml`: what `massgen replay` needs in order to start as a run started.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::AgentId;
use crate::mentions::opened_paths::OpenedPath;

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
