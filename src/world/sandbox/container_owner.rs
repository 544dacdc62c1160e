//! The agent that a container or pod is created for, and what does not depend on its engine.

use std::collections::BTreeMap;

use crate::id::AgentId;
use crate::path::AbsPath;
use crate::sandbox_policy::limits::ResourceLimits;
use crate::world::sandbox::origin_labels::ContainerOrigin;

/// The first process of a container: it reaps orphaned processes. The number is the longest time
/// that every `sleep` accepts, in seconds.
pub(in crate::world::sandbox) const FIRST_PROCESS: &str =
    "while :; do sleep 2147483 & wait $!; done";

/// Owner of a container, and its parameters in every engine.
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
