//! Owns the events of a run as a whole: its attempts, its sandbox, its limits and its end.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ExitStatus;
use crate::id::AgentId;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;

/// Something that concerns the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run begins.
    RunStarted {
        /// The task as the agents read it.
        question: Arc<str>,
        /// All agents, in the order of the config.
        agents: Vec<AgentId>,
        /// The attempt, from 1; more than 1 after a restart of the whole coordination.
        attempt: u32,
    },
    /// A limit of money, tokens or tool calls was met.
    LimitMet {
        /// Whose limit; the run's if it is nobody's.
        agent: Option<AgentId>,
        /// Which limit, in one sentence.
        limit: String,
    },
    /// The final agent judged its own answer and asks for another attempt.
    #[serde(alias = "restarting")]
    AttemptRestarted {
        /// Why.
        reason: String,
        /// What should be different.
        instructions: String,
    },
    /// How the commands of some agents are held to their grants.
    #[serde(alias = "confined")]
    SandboxSelected {
        /// Whose.
        agents: Vec<AgentId>,
        /// By what.
        by: ExecutionIsolation,
        /// What that leaves open, one thing each.
        leaves_open: Vec<String>,
    },
    /// The run may not go on: what there is by now counts as it stands.
    #[serde(alias = "cut_short")]
    CoordinationStopped {
        /// How the process will end.
        status: ExitStatus,
    },
    /// Something that the user should know and that ends nothing.
    Warning {
        /// What.
        message: String,
    },
    /// The run has ended; nothing follows.
    RunEnded {
        /// How the process will end.
        status: ExitStatus,
        /// One sentence for people.
        summary: String,
    },
}

impl RunEvent {
    /// The agent that it is about, if it is about one.
    pub fn agent(&self) -> Option<&AgentId> {
        if let RunEvent::LimitMet { agent, .. } = self {
            agent.as_ref()
        } else {
            None
        }
    }
}
