//! The events of a pipeline of roles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::AgentId;

/// A step in the progress of a pipeline of roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum PipelineEvent {
    /// A role starts to work.
    Works {
        /// The iteration, from 1.
        iteration: u32,
        /// The role; instances of a replicated role have a number after its name.
        role: String,
        /// The stage, from 1.
        stage: usize,
        /// The number of stages.
        stages: usize,
        /// The agents of the role.
        agents: Vec<AgentId>,
    },
    /// A run in which a role works has started, or was resumed.
    StageRun {
        /// The role; instances of a replicated role have a number after its name.
        role: String,
        /// The name of the run, such as `log_20261102_140322_123456`.
        run: String,
    },
    /// The work of a role was merged into the shared branch.
    Merged {
        /// The iteration, from 1.
        iteration: u32,
        /// The role; instances of a replicated role have a number after its name.
        role: String,
        /// The merge commit of the shared branch.
        commit: String,
        /// The number of files that the role changed.
        files: usize,
    },
    /// The work of a role was rejected and goes back to the role.
    Refused {
        /// The role; instances of a replicated role have a number after its name.
        role: String,
        /// The reason.
        reason: String,
        /// The attempt that was rejected, from 1.
        tried: u32,
        /// The maximum number of attempts.
        tries_max: u32,
    },
}
