//! Owns the events of what is delivered: the final answer, the checks of what would be delivered,
//! and what became of each file.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check_results::CheckResult;
use crate::id::AgentId;

/// Something that happened to what is delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DeliveryEvent {
    /// The final agent begins to present.
    FinalStarted {
        /// Who.
        agent: AgentId,
    },
    /// The final answer.
    FinalAnswer {
        /// Who.
        agent: AgentId,
        /// All of it.
        content: Arc<str>,
    },
    /// What became of the files that were to be delivered.
    Delivered {
        /// One row a file.
        rows: Vec<DeliveryRow>,
    },
    /// A check of the config begins.
    Checking {
        /// Whose work it looks at.
        agent: AgentId,
        /// The check's name.
        check: String,
    },
    /// A check of the config has ended.
    Checked {
        /// Whose work it looked at.
        agent: AgentId,
        /// What of it.
        subject: CheckedTree,
        /// How it ended.
        finding: CheckResult,
    },
}

impl DeliveryEvent {
    /// The agent that it is about, if it is about one.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            DeliveryEvent::FinalStarted { agent }
            | DeliveryEvent::FinalAnswer { agent, .. }
            | DeliveryEvent::Checking { agent, .. }
            | DeliveryEvent::Checked { agent, .. } => Some(agent),
            DeliveryEvent::Delivered { .. } => None,
        }
    }
}

/// What a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckedTree {
    /// The user's trees as an answer would leave them.
    Answer,
    /// The user's trees as the delivery has left them.
    Delivery,
}

/// What became of one file of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryRow {
    /// The file in the user's tree; of a refused write, the path as the agent wrote it.
    pub path: String,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: DeliveryOutcome,
    /// The SHA-256 of what stood there after the delivery, in hexadecimal digits; nothing for a
    /// file that was not delivered, and for what is no file any more.
    pub sha256: Option<String>,
    /// How much stood there, in bytes.
    pub bytes: Option<u64>,
}

impl DeliveryRow {
    /// A file of which nobody has looked yet at what stands on the disk.
    pub fn new(path: String, outcome: DeliveryOutcome) -> Self {
        Self {
            path,
            outcome,
            sha256: None,
            bytes: None,
        }
    }
}

/// What became of one file of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum DeliveryOutcome {
    /// It did not exist before.
    Created,
    /// It existed and was replaced.
    Changed,
    /// It was removed.
    Deleted,
    /// It is a directory that got other permission bits, or a new one that everybody may write to.
    Mode {
        /// The bits before, in octal digits; nothing of a new one.
        before: Option<String>,
        /// The bits now, in octal digits.
        after: String,
    },
    /// The user looked at it and did not take it; it can still be applied.
    Declined,
    /// It was refused by the gate.
    Denied {
        /// Why.
        reason: String,
    },
    /// The user changed it while the run went on; it was left alone.
    Conflict {
        /// The path of our version.
        kept: String,
    },
    /// It could not be written; the winner's workspace still has it.
    Failed {
        /// Why.
        reason: String,
    },
    /// It was delivered and taken back, because a check failed after that.
    TakenBack {
        /// Which check.
        reason: String,
    },
}

impl DeliveryOutcome {
    /// Whether the file is now as the agents want it.
    pub fn is_delivered(&self) -> bool {
        match self {
            DeliveryOutcome::Created
            | DeliveryOutcome::Changed
            | DeliveryOutcome::Deleted
            | DeliveryOutcome::Mode { .. } => true,
            DeliveryOutcome::Declined
            | DeliveryOutcome::Denied { .. }
            | DeliveryOutcome::Conflict { .. }
            | DeliveryOutcome::Failed { .. }
            | DeliveryOutcome::TakenBack { .. } => false,
        }
    }
}
