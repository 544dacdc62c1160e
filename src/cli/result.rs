//! Format of the result: the last line of a stream and the one object of `json`. Pure.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::check_results::CheckResults;
use crate::cli::usage_summary::UsageSummary;
use crate::error::ExitStatus;
use crate::event::DeliveryRow;
use crate::id::{AgentId, AnswerLabel};
use crate::spending::money::Money;

/// How a process ended and what came of it. Nothing follows it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RunResult {
    /// What the line tells, as in all others.
    #[serde(rename = "type")]
    pub(crate) kind: ResultKind,
    /// How it ended.
    pub(crate) outcome: ProcessOutcome,
    /// The exit status of the process.
    pub(crate) exit_code: u8,
    /// The exit status as a word.
    pub(crate) status: ExitStatus,
    /// How it ended, in one sentence.
    pub(crate) summary: String,
    /// What ended the process, if it was an error.
    pub(crate) error: Option<ErrorReport>,
    /// The session of the run, once there is one.
    pub(crate) session_id: Option<String>,
    /// Where the logs of the run are, once there are any.
    pub(crate) log_dir: Option<String>,
    /// The task as the user gave it, once it is known.
    pub(crate) task: Option<String>,
    /// How often the agents coordinated.
    pub(crate) attempts: u32,
    /// The final answer.
    pub(crate) answer: Option<Arc<str>>,
    /// Whose answer won.
    pub(crate) winner: Option<WinningAnswer>,
    /// The votes that count.
    pub(crate) votes: Vec<CastVote>,
    /// How many votes each agent has that gave an answer, in the order of the config.
    pub(crate) tally: Vec<VoteCount>,
    /// All answers of the last attempt, in the order in which they came.
    pub(crate) answers: Vec<GivenAnswer>,
    /// What became of each file that was to be delivered.
    pub(crate) delivered_files: Vec<DeliveryRow>,
    /// The tool calls that a rule forbade, in the order in which they were made.
    pub(crate) permission_denials: Vec<DeniedCall>,
    /// How many more there were, which are not listed.
    pub(crate) more_permission_denials: u64,
    /// Requests, tokens, tool calls and costs.
    pub(crate) usage: UsageSummary,
    /// What all requests cost, in US dollars; nothing if none is known.
    pub(crate) cost_usd: Option<Money>,
    /// Whether the cost of every request is in it.
    pub(crate) cost_is_complete: bool,
    /// What the user was warned about.
    pub(crate) warnings: Vec<String>,
    /// How long the process took, in milliseconds.
    pub(crate) duration_ms: u64,
}

/// What the last line tells.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum ResultKind {
    /// How the process ended.
    Result,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProcessOutcome {
    /// All is done that was asked for.
    Completed,
    /// There is an answer, and a limit, a denial or a file that was not delivered keeps it from
    /// being whole.
    Partial,
    /// There is nothing to go on with.
    Failed,
    /// The user ended it; an answer is the best so far.
    Cancelled,
}

impl ProcessOutcome {
    /// Returns the outcome of an exit status, with or without an answer.
    pub(crate) fn from_status(status: ExitStatus, answer: Option<&str>) -> Self {
        match (status, answer) {
            (ExitStatus::Delivered, _) => ProcessOutcome::Completed,
            (ExitStatus::Interrupted, _) => ProcessOutcome::Cancelled,
            (ExitStatus::Denied | ExitStatus::Limit | ExitStatus::Environment, Some(_)) => {
                ProcessOutcome::Partial
            }
            (
                ExitStatus::NoAnswer
                | ExitStatus::Usage
                | ExitStatus::Environment
                | ExitStatus::Denied
                | ExitStatus::Limit
                | ExitStatus::Bug,
                _,
            ) => ProcessOutcome::Failed,
        }
    }
}

/// An error.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorReport {
    /// What happened.
    pub(crate) message: String,
    /// What led to it, the nearest cause first.
    pub(crate) caused_by: Vec<String>,
    /// What can be done about it.
    pub(crate) hints: Vec<String>,
}

/// Whose answer won.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct WinningAnswer {
    /// Who.
    pub(crate) agent: AgentId,
    /// With which answer.
    pub(crate) label: AnswerLabel,
}

/// A vote.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct CastVote {
    /// Who voted.
    pub(crate) agent: AgentId,
    /// For whom.
    pub(crate) candidate: AgentId,
    /// For which of the candidate's answers.
    pub(crate) label: AnswerLabel,
    /// Why, in the voter's words.
    pub(crate) reason: String,
}

/// The votes for one agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct VoteCount {
    /// For whom.
    pub(crate) agent: AgentId,
    /// How many.
    pub(crate) votes: u32,
}

/// An answer that was accepted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct GivenAnswer {
    /// Its name.
    pub(crate) label: AnswerLabel,
    /// Who gave it.
    pub(crate) agent: AgentId,
    /// How long it is, in characters.
    pub(crate) chars: u64,
    /// The snapshot of the agent's workspace, if it had files.
    pub(crate) snapshot: Option<String>,
    /// How the checks of the config ended on it; nothing without checks.
    pub(crate) evidence: Option<CheckResults>,
}

/// A tool call that a rule forbade.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DeniedCall {
    /// Who called.
    pub(crate) agent: AgentId,
    /// The tool.
    pub(crate) tool: String,
    /// The arguments as the model wrote them, shortened.
    pub(crate) arguments: String,
    /// The rule, if it has a name.
    pub(crate) rule: Option<String>,
    /// Why, as the model read it.
    pub(crate) reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: ExitStatus, with_answer: ProcessOutcome, without: ProcessOutcome) {
        assert_eq!(
            ProcessOutcome::from_status(status, Some("yes")),
            with_answer,
            "{status:?}"
        );
        assert_eq!(
            ProcessOutcome::from_status(status, None),
            without,
            "{status:?}"
        );
    }

    #[test]
    fn the_outcome_says_whether_there_is_something_to_go_on_with() {
        use ProcessOutcome::{Cancelled, Completed, Failed, Partial};
        check(ExitStatus::Delivered, Completed, Completed);
        check(ExitStatus::NoAnswer, Failed, Failed);
        check(ExitStatus::Usage, Failed, Failed);
        check(ExitStatus::Environment, Partial, Failed);
        check(ExitStatus::Denied, Partial, Failed);
        check(ExitStatus::Limit, Partial, Failed);
        check(ExitStatus::Bug, Failed, Failed);
        check(ExitStatus::Interrupted, Cancelled, Cancelled);
    }
}
