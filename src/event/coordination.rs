//! Owns the events of a coordination: answers, votes, and who drops out or wins.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check_results::CheckResults;
use crate::id::{AgentId, AnswerLabel};

/// Something that happened in a coordination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CoordinationEvent {
    /// An answer was accepted.
    Answered {
        /// Who.
        agent: AgentId,
        /// Its name.
        label: AnswerLabel,
        /// The whole answer.
        content: Arc<str>,
        /// The path of the snapshot of the agent's workspace, if it has files.
        snapshot: Option<String>,
        /// How the checks of the config ended on it; nothing without checks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<CheckResults>,
    },
    /// A vote was accepted.
    Voted {
        /// Who voted.
        agent: AgentId,
        /// For whom.
        candidate: AgentId,
        /// For which of the candidate's answers.
        label: AnswerLabel,
        /// Why, in the voter's words.
        reason: String,
    },
    /// Votes lost their meaning because a new answer came.
    VotesVoided {
        /// Whose votes.
        voters: Vec<AgentId>,
    },
    /// An answer or vote was not accepted; the agent was told why.
    #[serde(alias = "refused")]
    SubmissionRejected {
        /// Who.
        agent: AgentId,
        /// Why.
        reason: String,
        /// Why in the words of the user's hooks, if they refused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hook: Option<String>,
    },
    /// An agent was shown answers that it did not know.
    #[serde(alias = "informed")]
    AnswersShown {
        /// Who.
        agent: AgentId,
        /// Which answers.
        labels: Vec<AnswerLabel>,
    },
    /// An agent drops out of the run.
    DroppedOut {
        /// Who.
        agent: AgentId,
        /// Why.
        reason: String,
        /// Whether a timeout ended it.
        timed_out: bool,
    },
    /// The ballot is closed.
    WinnerSelected {
        /// Who presents.
        agent: AgentId,
        /// The answer that won.
        label: AnswerLabel,
        /// The votes for each agent that has an answer, in the order of the config.
        votes: Vec<(AgentId, u32)>,
    },
}

impl CoordinationEvent {
    /// The agent that it is about, if it is about one.
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
