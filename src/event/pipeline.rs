//! Owns the events of a pipeline of roles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::AgentId;

/// How a pipeline of roles has got further.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum PipelineEvent {
    /// A role begins to work.
    Works {
        /// In which iteration, from 1.
        iteration: u32,
        /// Which role; copies of one have a number behind its name.
        role: String,
        /// Which stage, from 1.
        stage: usize,
        /// How many stages there are.
        stages: usize,
        /// The agents of the role.
        agents: Vec<AgentId>,
    },
    /// The work of a role is part of what all roles share.
    Merged {
        /// In which iteration, from 1.
        iteration: u32,
        /// Which role; copies of one have a number behind its name.
        role: String,
        /// The commit of the shared branch.
        commit: String,
        /// How many files the role changed.
        files: usize,
    },
    /// The work of a role cannot become part of what all roles share, and goes back to it.
    Refused {
        /// Which role; copies of one have a number behind its name.
        role: String,
        /// Why.
        reason: String,
        /// Which try that was, from 1.
        tried: u32,
        /// How many tries there may be.
        tries_max: u32,
    },
}
