//! The events of a coordination: answers, votes, and who drops out or wins.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantNames;

use crate::answer_changes::AnswerChanges;
use crate::ballot::WinnerReason;
use crate::check_results::CheckResults;
use crate::id::{AgentId, AnswerLabel};
use crate::tools::task_plan::TaskPlan;

/// The beginning of the reason that an agent receives for an answer or a vote that does not count.
const NOT_COUNTED_PREFIX: &str = "not counted: ";

/// An event of a coordination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, VariantNames)]
#[serde(tag = "type", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CoordinationEvent {
    /// An answer was accepted.
    Answered {
        /// The agent.
        agent: AgentId,
        /// The label of the answer.
        label: AnswerLabel,
        /// The whole answer.
        content: Arc<str>,
        /// The path of the copy of the answer's files, if it has files.
        snapshot: Option<String>,
        /// What it changes in the user's paths; `None` if it was not made in an attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changes: Option<AnswerChanges>,
        /// The results of the config's checks; `None` without checks.
        #[serde(rename = "evidence", default, skip_serializing_if = "Option::is_none")]
        check_results: Option<CheckResults>,
        /// The agent's plan at that time; `None` if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<TaskPlan>,
    },
    /// A vote was accepted.
    Voted {
        /// The voter.
        agent: AgentId,
        /// The agent that the vote is for.
        candidate: AgentId,
        /// The answer that the vote is for.
        label: AnswerLabel,
        /// The reason that the voter gave.
        reason: String,
    },
    /// A new answer, or a message of the user, voided votes.
    VotesVoided {
        /// The agents whose votes are void.
        voters: Vec<AgentId>,
        /// The number of the user's message that voided them; `None` if an answer did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<u32>,
    },
    /// An answer or vote was rejected; the agent received the reason.
    SubmissionRejected {
        /// The agent.
        agent: AgentId,
        /// The reason.
        reason: String,
        /// The reason again if it is not one of the ballot: the user's hooks rejected it, or its files
        /// could not be captured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external: Option<String>,
    },
    /// An agent was shown new answers.
    AnswersShown {
        /// The agent.
        agent: AgentId,
        /// The answers.
        labels: Vec<AnswerLabel>,
    },
    /// An agent drops out of the run.
    DroppedOut {
        /// The agent.
        agent: AgentId,
        /// The reason.
        reason: String,
        /// Whether a timeout is the reason.
        timed_out: bool,
    },
    /// The ballot is closed and has a winner.
    WinnerSelected {
        /// The winner, which presents.
        agent: AgentId,
        /// The answer that won.
        label: AnswerLabel,
        /// What decided for it.
        reason: WinnerReason,
        /// The votes for each agent that has an answer, in the order of the config.
        votes: Vec<(AgentId, u32)>,
    },
}

/// Returns the reason of [`CoordinationEvent::SubmissionRejected`] without the words at its
/// beginning that say that the answer or vote does not count.
pub fn rejection_cause(reason: &str) -> &str {
    reason.strip_prefix(NOT_COUNTED_PREFIX).unwrap_or(reason)
}

impl CoordinationEvent {
    /// Returns the agent that the event is about, if there is one.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            CoordinationEvent::Answered { agent, .. }
            | CoordinationEvent::Voted { agent, .. }
            | CoordinationEvent::SubmissionRejected { agent, .. }
            | CoordinationEvent::AnswersShown { agent, .. }
            | CoordinationEvent::DroppedOut { agent, .. }
            | CoordinationEvent::WinnerSelected { agent, .. } => Some(agent),
            CoordinationEvent::VotesVoided { .. } => None,
        }
    }
}
