//! The agent that a container is created for.

use std::collections::BTreeMap;

use crate::id::AgentId;
use crate::path::AbsPath;
use crate::sandbox_policy::limits::ResourceLimits;
use crate::world::sandbox::origin_labels::ContainerOrigin;

/// Owner of a container, and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct ContainerOwner<'a> {
    /// The agent.
    pub agent: &'a AgentId,
    /// The run.
    pub origin: ContainerOrigin<'a>,
    /// The agent's workspace.
    pub workspace: &'a AbsPath,
    /// Limits of its processes.
    pub limits: &'a ResourceLimits,
    /// Variables that the user sets in the config (`env`).
    pub config_env: &'a BTreeMap<String, String>,
}
