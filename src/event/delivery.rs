//! The events of a delivery: the final answer, the checks of what would be delivered, and the
//! outcome for each file.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::check_results::CheckResult;
use crate::event::InputChannel;
use crate::id::AgentId;

/// An event of a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, VariantNames)]
#[serde(tag = "type", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DeliveryEvent {
    /// The final agent starts to present.
    FinalStarted {
        /// The agent.
        agent: AgentId,
    },
    /// What the final agent presented does not count: its answer is delivered as it was voted on.
    AnswerKept {
        /// The agent.
        agent: AgentId,
        /// The reason.
        reason: String,
    },
    /// The final answer.
    FinalAnswer {
        /// The agent.
        agent: AgentId,
        /// The whole text.
        content: Arc<str>,
    },
    /// The delivery has ended.
    Delivered {
        /// The outcome for each file.
        rows: Vec<DeliveryRow>,
        /// Where the user selected the changes to apply; `None` if they were not asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<InputChannel>,
    },
    /// A check of the config starts.
    Checking {
        /// The agent whose work is checked.
        agent: AgentId,
        /// The name of the check.
        check: String,
    },
    /// A check of the config has ended.
    Checked {
        /// The agent whose work was checked.
        agent: AgentId,
        /// Which tree was checked.
        subject: CheckedTree,
        /// The result.
        finding: CheckResult,
    },
}

impl DeliveryEvent {
    /// Returns the agent that the event is about, if there is one.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            DeliveryEvent::FinalStarted { agent }
            | DeliveryEvent::AnswerKept { agent, .. }
            | DeliveryEvent::FinalAnswer { agent, .. }
            | DeliveryEvent::Checking { agent, .. }
            | DeliveryEvent::Checked { agent, .. } => Some(agent),
            DeliveryEvent::Delivered { .. } => None,
        }
    }
}

/// The tree that a check inspects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckedTree {
    /// The user's trees as an answer would leave them.
    Answer,
    /// The user's trees as the delivery has left them.
    Delivery,
}

/// One file of a delivery and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryRow {
    /// The file in the user's tree; for a denied write, the path as the agent wrote it.
    pub path: String,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: DeliveryOutcome,
    /// What is changed in addition to the content, escaped: the kind, the target of a symlink, the
    /// permission bits, and whether the file instructs agents or is run later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// The SHA-256 of the file after the delivery, in hexadecimal digits; `None` if it was not
    /// delivered or no longer exists, or the delivered files are too long.
    pub sha256: Option<String>,
    /// The size of that file in bytes.
    pub bytes: Option<u64>,
}

impl DeliveryRow {
    /// Creates the row of a file that has not been inspected on disk yet.
    pub fn new(path: String, outcome: DeliveryOutcome) -> Self {
        Self {
            path,
            outcome,
            details: None,
            sha256: None,
            bytes: None,
        }
    }
}

/// How many hunks of a change were taken, if some were left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HunkCount {
    /// The number of hunks that were taken.
    pub taken: u32,
    /// The number of hunks of the change.
    pub total: u32,
}

impl HunkCount {
    /// Counts the hunks of a change that are applied; `None` if all are.
    pub fn of(are_applied: &[bool]) -> Option<Self> {
        let to_u32 = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let applied_count = are_applied.iter().filter(|is_applied| **is_applied).count();
        (applied_count < are_applied.len()).then(|| Self {
            taken: to_u32(applied_count),
            total: to_u32(are_applied.len()),
        })
    }
}

/// The outcome for one file of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DeliveryOutcome {
    /// It did not exist before.
    Created,
    /// It existed and was replaced.
    Changed {
        /// How many hunks of the change the user took; `None` if it was taken as a whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hunks: Option<HunkCount>,
    },
    /// It was removed.
    Deleted,
    /// It is a directory whose permission bits changed, or a new one that is world-writable.
    Mode {
        /// The previous bits, in octal digits; `None` for a new directory.
        before: Option<String>,
        /// The new bits, in octal digits.
        after: String,
    },
    /// The user reviewed and declined it; it can still be applied.
    Declined,
    /// The gate denied it.
    Denied {
        /// The reason.
        reason: String,
    },
    /// The user changed the file during the run; it was not touched.
    Conflict {
        /// The path of the version of the agents.
        kept: String,
    },
    /// The file could not be written; the winner's workspace still has it.
    Failed {
        /// The reason.
        reason: String,
    },
    /// The file was delivered and reverted because a check failed afterwards.
    #[serde(rename = "taken_back")]
    #[strum(serialize = "taken_back")]
    Reverted {
        /// The check that failed.
        reason: String,
    },
}

impl DeliveryOutcome {
    /// Returns it in the word of its JSON form.
    pub fn word(&self) -> &'static str {
        self.into()
    }

    /// Returns whether the agents' version of the file, or a part of it, is not delivered.
    pub fn has_undelivered_part(&self) -> bool {
        !self.is_delivered() || matches!(self, DeliveryOutcome::Changed { hunks: Some(_) })
    }

    /// Returns whether the file is now as the agents want it.
    pub fn is_delivered(&self) -> bool {
        match self {
            DeliveryOutcome::Created
            | DeliveryOutcome::Changed { .. }
            | DeliveryOutcome::Deleted
            | DeliveryOutcome::Mode { .. } => true,
            DeliveryOutcome::Declined
            | DeliveryOutcome::Denied { .. }
            | DeliveryOutcome::Conflict { .. }
            | DeliveryOutcome::Failed { .. }
            | DeliveryOutcome::Reverted { .. } => false,
        }
    }
}
