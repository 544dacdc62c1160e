//! Format of the result, with its usage totals: the last line of `--output-format stream-json`, and
//! the only object of `--output-format json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::ballot::WinnerReason;
use crate::check_results::{CheckResult, CheckResults};
use crate::error::ExitStatus;
use crate::event::DeliveryRow;
use crate::id::{AgentId, AnswerLabel};
use crate::run_view::candidates::CandidateReport;
use crate::spending::money::Money;
use crate::spending::totals::{RequestTotals, UsageTotals};
use crate::tools::task_plan::TaskPlan;

/// The result of a process: how it ended and what it produced. It is the last line.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RunResult {
    /// The type of the line, as in all others.
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
    /// The error that ended the process; without an answer, why the agents failed.
    pub(crate) error: Option<ErrorReport>,
    /// The session of the run, if it has one.
    pub(crate) session_id: Option<String>,
    /// The log directory of the run, if it has one.
    pub(crate) log_dir: Option<String>,
    /// The task as given by the user, if known.
    pub(crate) task: Option<String>,
    /// How often the coordination was restarted.
    pub(crate) restarts: u32,
    /// The final answer.
    pub(crate) answer: Option<Arc<str>>,
    /// The winner.
    pub(crate) winner: Option<WinningAnswer>,
    /// The votes that count.
    pub(crate) votes: Vec<CastVote>,
    /// The votes per agent with an answer, in the order of the config.
    pub(crate) tally: Vec<VoteCount>,
    /// What the checks said about the files as they were before any answer.
    pub(crate) baseline: Vec<CheckResult>,
    /// All answers of the last coordination, in order.
    pub(crate) answers: Vec<GivenAnswer>,
    /// The candidates of the last coordination, and what it cost to select one.
    pub(crate) worth: CandidateReport,
    /// The outcome of each file of the delivery.
    pub(crate) delivered_files: Vec<DeliveryRow>,
    /// The tool calls that were denied, in order.
    pub(crate) permission_denials: Vec<DeniedCall>,
    /// The number of denied calls that are not listed.
    pub(crate) more_permission_denials: u64,
    /// Requests, tokens, tool calls and costs.
    pub(crate) usage: UsageSummary,
    /// The cost of all requests in US dollars; `null` if it is unknown.
    pub(crate) cost_usd: Option<Money>,
    /// Whether it includes the cost of every request.
    pub(crate) cost_is_complete: bool,
    /// Warnings for the user.
    pub(crate) warnings: Vec<String>,
    /// The duration of the process in milliseconds.
    pub(crate) duration_ms: u64,
}

/// The type of the last line.
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
    /// The task is done.
    Completed,
    /// There is an answer, but it is incomplete because of a limit, a denial or a file that was not
    /// delivered.
    Partial,
    /// There is no usable result.
    Failed,
    /// The user interrupted it; an answer is the best one so far.
    Cancelled,
    /// It was stopped without an end and can be resumed.
    Parked,
}

impl ProcessOutcome {
    /// Returns the outcome of an exit status, with or without an answer.
    pub(crate) fn from_status(status: ExitStatus, answer: Option<&str>) -> Self {
        match (status, answer) {
            (ExitStatus::Success, _) => ProcessOutcome::Completed,
            (ExitStatus::Interrupted, _) => ProcessOutcome::Cancelled,
            (ExitStatus::Parked, _) => ProcessOutcome::Parked,
            (ExitStatus::Denied | ExitStatus::Limit | ExitStatus::Environment, Some(_)) => {
                ProcessOutcome::Partial
            }
            (
                ExitStatus::Failure
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
    /// Its causes, the nearest first.
    pub(crate) caused_by: Vec<String>,
    /// Suggested next steps.
    pub(crate) hints: Vec<String>,
}

/// The winner.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct WinningAnswer {
    /// The agent.
    pub(crate) agent: AgentId,
    /// Its answer.
    pub(crate) label: AnswerLabel,
    /// What decided for it.
    pub(crate) reason: WinnerReason,
}

/// A vote.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct CastVote {
    /// The voter.
    pub(crate) agent: AgentId,
    /// The candidate.
    pub(crate) candidate: AgentId,
    /// The candidate's answer.
    pub(crate) label: AnswerLabel,
    /// The voter's reason.
    pub(crate) reason: String,
}

/// The votes for one agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct VoteCount {
    /// The candidate.
    pub(crate) agent: AgentId,
    /// The number of votes.
    pub(crate) votes: u32,
}

/// An accepted answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct GivenAnswer {
    /// Its name.
    pub(crate) label: AnswerLabel,
    /// Its author.
    pub(crate) agent: AgentId,
    /// Its length in characters.
    pub(crate) chars: u64,
    /// The snapshot of the agent's workspace, if it had files.
    pub(crate) snapshot: Option<String>,
    /// Its check results; `null` without checks.
    #[serde(rename = "evidence")]
    pub(crate) check_results: Option<CheckResults>,
    /// The agent's plan when it gave the answer; absent without a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<TaskPlan>,
}

/// A denied tool call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DeniedCall {
    /// The agent that made the call.
    pub(crate) agent: AgentId,
    /// The tool.
    pub(crate) tool: String,
    /// The arguments as written by the model, truncated.
    pub(crate) arguments: String,
    /// The rule, if it has a name.
    pub(crate) rule: Option<String>,
    /// The reason, as shown to the model.
    pub(crate) reason: String,
}

/// Usage totals.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct UsageSummary {
    /// The total.
    pub(crate) total: RequestTotals,
    /// Per agent.
    pub(crate) by_agent: BTreeMap<String, RequestTotals>,
    /// Per model.
    pub(crate) by_model: BTreeMap<String, RequestTotals>,
    /// Per phase.
    pub(crate) by_phase: BTreeMap<String, RequestTotals>,
}

impl UsageSummary {
    /// Sums up `totals`.
    pub(crate) fn from_totals(totals: &UsageTotals) -> Self {
        let mut summary = Self {
            total: totals.run(),
            ..Self::default()
        };
        for (key, usage) in totals.entries() {
            let breakdowns = [
                (&mut summary.by_agent, key.agent.to_string()),
                (&mut summary.by_model, key.model.to_string()),
                (&mut summary.by_phase, key.phase.to_string()),
            ];
            for (breakdown, name) in breakdowns {
                let sum = breakdown.entry(name).or_default();
                *sum = sum.saturating_add(*usage);
            }
        }
        summary
    }
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
    fn the_outcome_depends_on_the_status_and_on_an_answer() {
        use ProcessOutcome::{Cancelled, Completed, Failed, Parked, Partial};
        check(ExitStatus::Success, Completed, Completed);
        check(ExitStatus::Failure, Failed, Failed);
        check(ExitStatus::Usage, Failed, Failed);
        check(ExitStatus::Environment, Partial, Failed);
        check(ExitStatus::Denied, Partial, Failed);
        check(ExitStatus::Limit, Partial, Failed);
        check(ExitStatus::Bug, Failed, Failed);
        check(ExitStatus::Interrupted, Cancelled, Cancelled);
        check(ExitStatus::Parked, Parked, Parked);
    }
}
