//! Builds the result of a process from its events and from how it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::check_results::CheckResult;
use crate::cli::result::{
    CastVote, DeniedCall, ErrorReport, GivenAnswer, ProcessOutcome, ResultKind, RunResult,
    UsageSummary, VoteCount, WinningAnswer,
};
use crate::error::{Error, ExitStatus};
use crate::event::{CoordinationEvent, Event, ModelEvent, RunEvent, SetupProblem, ToolEvent};
use crate::id::AgentId;
use crate::run_view::RunView;
use crate::run_view::ballot::BallotAnswer;
use crate::world::io::clock::milliseconds;

/// Maximum number of denials that are listed; the rest are counted.
const DENIALS_MAX: usize = 1000;

/// A run that is about to begin.
#[derive(Clone, Debug)]
pub(crate) struct RunStart {
    /// Its session.
    pub(crate) session_id: String,
    /// The directory of its logs.
    pub(crate) log_dir: String,
    /// The task as the user gave it.
    pub(crate) task: String,
}

/// The end of a process, as its result reports it.
#[derive(Debug)]
pub(crate) struct ProcessEnd<'a> {
    /// Its exit status.
    pub(crate) status: ExitStatus,
    /// The error that ended it, if there is one.
    pub(crate) error: Option<&'a Error>,
    /// The warnings that were shown to the user.
    pub(crate) warnings: &'a [String],
    /// Its duration.
    pub(crate) elapsed: Duration,
}

/// Collects the events of a process for its result.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResultBuilder {
    run_start: Option<RunStart>,
    /// What the events so far make of the run.
    pub(crate) view: RunView,
    baseline: Vec<CheckResult>,
    /// The agents that dropped out of the last coordination, each with the reason.
    failures: Vec<(AgentId, String)>,
    denials: Vec<DeniedCall>,
    /// The number of denials that are not listed.
    more_denials: u64,
    /// The arguments of calls that are in progress, by agent and id.
    open_call_arguments: BTreeMap<(AgentId, String), String>,
    /// What the user has to change.
    problems: BTreeSet<SetupProblem>,
}

impl ResultBuilder {
    /// Starts with a run in which nothing has happened yet.
    pub(crate) fn new(run_start: RunStart) -> Self {
        Self {
            run_start: Some(run_start),
            ..Self::default()
        }
    }

    /// Adds the next event.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.view.apply_next(event, 0);
        if let Event::Run(RunEvent::RunStarted { .. }) = event {
            self.failures.clear();
            self.problems.clear();
        } else if let Event::Model(ModelEvent::Failed { problem, .. }) = event {
            self.problems.extend(problem);
        } else if let Event::Run(RunEvent::BaselineChecked { finding }) = event {
            self.baseline.push(finding.clone());
        } else if let Event::Coordination(CoordinationEvent::DroppedOut { agent, reason, .. }) =
            event
        {
            self.failures.push((agent.clone(), reason.clone()));
        } else if let Event::Tool(event) = event {
            self.apply_call(event);
        } else if let Some(event) = event.as_scoped_tool_event() {
            self.apply_call(&event);
        }
    }

    /// Adds the denials of a call: before it is carried out, or by a rule that applies only on
    /// disk.
    fn apply_call(&mut self, event: &ToolEvent) {
        if let ToolEvent::ToolCalled {
            agent,
            call_id,
            tool,
            arguments,
            denied,
            rule,
        } = event
        {
            match (denied, rule) {
                (None, _) => {
                    let call = (agent.clone(), call_id.clone());
                    self.open_call_arguments.insert(call, arguments.clone());
                }
                (Some(reason), Some(_)) => self.add_denial(DeniedCall {
                    agent: agent.clone(),
                    tool: tool.clone(),
                    arguments: arguments.clone(),
                    rule: rule.clone(),
                    reason: reason.clone(),
                }),
                // The end of the call reports it.
                (Some(_), None) => {}
            }
        } else if let ToolEvent::ToolFinished {
            agent,
            call_id,
            tool,
            denied,
            summary,
            refused,
            ..
        } = event
        {
            let arguments = self
                .open_call_arguments
                .remove(&(agent.clone(), call_id.clone()));
            for refusal in refused {
                self.add_denial(DeniedCall {
                    agent: agent.clone(),
                    tool: tool.clone(),
                    arguments: arguments.clone().unwrap_or_default(),
                    rule: Some(refusal.rule.clone()),
                    reason: refusal.reason.clone(),
                });
            }
            if *denied {
                self.add_denial(DeniedCall {
                    agent: agent.clone(),
                    tool: tool.clone(),
                    arguments: arguments.unwrap_or_default(),
                    rule: None,
                    reason: summary.clone(),
                });
            }
        }
    }

    fn add_denial(&mut self, denial: DeniedCall) {
        if self.denials.len() < DENIALS_MAX {
            self.denials.push(denial);
        } else {
            self.more_denials = self.more_denials.saturating_add(1);
        }
    }

    /// Builds the result.
    pub(crate) fn build(&self, end: &ProcessEnd<'_>) -> RunResult {
        let (run, ballot, delivery) = (self.view.run(), self.view.ballot(), self.view.delivery());
        let run_start = self.run_start.as_ref();
        let run_summary = || run.summary.clone().unwrap_or_default();
        let summary = end.error.map_or_else(run_summary, ToString::to_string);
        let failed_without_answer = delivery.answer.is_none() && end.status != ExitStatus::Success;
        let error = match end.error {
            Some(error) => Some(error_report(error)),
            None if failed_without_answer && !self.failures.is_empty() => {
                let failures = self.failures.iter();
                Some(ErrorReport {
                    message: summary.clone(),
                    caused_by: failures
                        .map(|(agent, reason)| format!("{agent}: {reason}"))
                        .collect(),
                    hints: self.remedies(),
                })
            }
            None => None,
        };
        let votes_by_candidate = ballot.winner.iter().flat_map(|winner| &winner.votes);
        let usage = self.view.usage();
        RunResult {
            kind: ResultKind::Result,
            outcome: ProcessOutcome::from_status(end.status, delivery.answer.as_deref()),
            exit_code: end.status.code(),
            status: end.status,
            summary,
            error,
            session_id: run_start.map(|start| start.session_id.clone()),
            log_dir: run_start.map(|start| start.log_dir.clone()),
            task: run_start.map(|start| start.task.clone()),
            restarts: run.restart,
            answer: delivery.answer.clone(),
            winner: ballot.winner.as_ref().map(|winner| WinningAnswer {
                agent: winner.agent.clone(),
                label: winner.label,
                reason: winner.reason,
            }),
            votes: self.votes(),
            tally: votes_by_candidate
                .map(|votes| VoteCount {
                    agent: votes.agent.clone(),
                    votes: votes.count,
                })
                .collect(),
            baseline: self.baseline.clone(),
            answers: ballot.answers.iter().map(given_answer).collect(),
            worth: self.view.candidate_report(),
            delivered_files: delivery.rows.clone().unwrap_or_default(),
            permission_denials: self.denials.clone(),
            more_permission_denials: self.more_denials,
            cost_usd: usage.run().cost_usd,
            cost_is_complete: usage.run().cost_is_complete,
            usage: UsageSummary::from_totals(usage),
            warnings: end.warnings.to_vec(),
            duration_ms: milliseconds(end.elapsed),
        }
    }

    fn remedies(&self) -> Vec<String> {
        let problems = self.problems.iter();
        let remedies = problems.map(|problem| problem.remedy().to_owned());
        remedies.collect()
    }

    /// Returns the votes that count, in the order of the voters.
    fn votes(&self) -> Vec<CastVote> {
        let has_failed = |agent: &AgentId| self.failures.iter().any(|(failed, _)| failed == agent);
        let votes = self.view.ballot().current_votes();
        let votes = votes.filter(|vote| !has_failed(&vote.voter)).map(|vote| {
            let cast = CastVote {
                agent: vote.voter.clone(),
                candidate: vote.candidate.clone(),
                label: vote.label,
                reason: vote.reason.clone(),
            };
            (&vote.voter, cast)
        });
        votes.collect::<BTreeMap<_, _>>().into_values().collect()
    }
}

fn given_answer(answer: &BallotAnswer) -> GivenAnswer {
    GivenAnswer {
        label: answer.label,
        agent: answer.agent.clone(),
        chars: u64::try_from(answer.content.chars().count()).unwrap_or(u64::MAX),
        snapshot: answer.snapshot.clone(),
        check_results: answer.checks.clone(),
        plan: answer.plan.clone(),
    }
}

fn error_report(error: &Error) -> ErrorReport {
    ErrorReport {
        message: error.to_string(),
        caused_by: error.causes().map(ToString::to_string).collect(),
        hints: error.hints().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{DeliveryEvent, DeliveryOutcome, DeliveryRow};
    use crate::id::{AgentNumber, AnswerLabel};

    fn agent(id: &str) -> AgentId {
        AgentId::parse(id).unwrap()
    }

    fn label(ordinal: u32) -> AnswerLabel {
        AnswerLabel {
            agent: AgentNumber::from_index(0),
            ordinal,
        }
    }

    fn start_event(restart: u32) -> Event {
        Event::Run(RunEvent::RunStarted {
            question: Arc::from("?"),
            agents: vec![agent("a"), agent("b")],
            restart,
            cwd: None,
        })
    }

    fn answer_event(ordinal: u32) -> Event {
        Event::Coordination(CoordinationEvent::Answered {
            agent: agent("a"),
            label: label(ordinal),
            content: Arc::from("é"),
            snapshot: None,
            check_results: None,
            changes: None,
            plan: None,
        })
    }

    fn vote_event(id: &str) -> Event {
        Event::Coordination(CoordinationEvent::Voted {
            agent: agent(id),
            candidate: agent("a"),
            label: label(1),
            reason: String::new(),
        })
    }

    fn dropped_out(id: &str) -> Event {
        Event::Coordination(CoordinationEvent::DroppedOut {
            agent: agent(id),
            reason: String::new(),
            timed_out: false,
        })
    }

    fn call_event(call_id: &str, denied: Option<&str>, rule: Option<&str>) -> Event {
        Event::Tool(ToolEvent::ToolCalled {
            agent: agent("a"),
            call_id: call_id.to_owned(),
            tool: "write_file".to_owned(),
            arguments: format!("arguments of {call_id}"),
            denied: denied.map(str::to_owned),
            rule: rule.map(str::to_owned),
        })
    }

    fn finish_event(call_id: &str, denied: bool) -> Event {
        Event::Tool(ToolEvent::ToolFinished {
            agent: agent("a"),
            call_id: call_id.to_owned(),
            tool: "write_file".to_owned(),
            success: !denied,
            denied,
            refused: Vec::new(),
            elapsed_ms: 1,
            images: Vec::new(),
            summary: "unread".to_owned(),
            measure: None,
            content: None,
        })
    }

    fn result(events: &[Event]) -> RunResult {
        let mut builder = ResultBuilder::default();
        for event in events {
            builder.apply(event);
        }
        builder.build(&ProcessEnd {
            status: ExitStatus::Limit,
            error: None,
            warnings: &[],
            elapsed: Duration::from_millis(7),
        })
    }

    #[test]
    fn without_an_answer_the_failures_of_the_agents_are_the_error() {
        let failed = result(&[start_event(0), dropped_out("a"), dropped_out("b")]);
        assert_eq!(failed.error.unwrap().caused_by, ["a: ", "b: "]);
        let again = result(&[start_event(0), dropped_out("a"), start_event(1)]);
        assert!(again.error.is_none());
        let answer = Event::Delivery(DeliveryEvent::FinalAnswer {
            agent: agent("b"),
            content: Arc::from("yes"),
        });
        assert!(
            result(&[start_event(0), dropped_out("a"), answer])
                .error
                .is_none()
        );
    }

    #[track_caller]
    fn check_votes(events: &[Event], expected: &[&str]) {
        let counted = result(events).votes;
        let voters: Vec<&str> = counted.iter().map(|vote| vote.agent.as_str()).collect();
        assert_eq!(voters, expected, "{events:?}");
    }

    #[test]
    fn votes_count_until_they_are_void() {
        let voters = vec![agent("a"), agent("b")];
        let voided = Event::Coordination(CoordinationEvent::VotesVoided {
            voters,
            message: None,
        });
        check_votes(&[vote_event("b"), vote_event("a")], &["a", "b"]);
        check_votes(&[vote_event("a"), vote_event("a")], &["a"]);
        check_votes(&[vote_event("a"), voided, vote_event("b")], &["b"]);
        check_votes(
            &[vote_event("a"), vote_event("b"), dropped_out("a")],
            &["b"],
        );
        check_votes(&[start_event(0), vote_event("a"), start_event(1)], &[]);
    }

    #[test]
    fn answers_are_those_of_the_last_coordination() {
        let first = result(&[start_event(0), answer_event(1), answer_event(2)]);
        assert_eq!((first.answers.len(), first.restarts), (2, 0));
        assert_eq!(first.answers[0].chars, 1);
        let second = result(&[
            start_event(0),
            answer_event(1),
            start_event(1),
            answer_event(1),
        ]);
        assert_eq!((second.answers.len(), second.restarts), (1, 1));
    }

    /// `expected` is the reason and the arguments of each denial.
    #[track_caller]
    fn check_denials(events: &[Event], expected: &[(&str, &str)]) {
        let denials = result(events).permission_denials;
        let rows: Vec<(&str, &str)> = denials
            .iter()
            .map(|denial| (denial.reason.as_str(), denial.arguments.as_str()))
            .collect();
        assert_eq!(rows, expected, "{events:?}");
    }

    #[test]
    fn a_denial_is_a_call_that_a_rule_forbade() {
        let denied = call_event("1", Some("outside"), Some("outside-grants"));
        check_denials(&[denied], &[("outside", "arguments of 1")]);
        check_denials(&[call_event("1", Some("no JSON"), None)], &[]);
        let carried_out = call_event("1", None, None);
        check_denials(&[carried_out.clone(), finish_event("1", false)], &[]);
        check_denials(
            &[
                carried_out,
                call_event("2", None, None),
                finish_event("1", true),
            ],
            &[("unread", "arguments of 1")],
        );
    }

    #[test]
    fn denials_beyond_a_limit_are_counted() {
        let denied = call_event("1", Some("outside"), Some("outside-grants"));
        let result = result(&vec![denied; DENIALS_MAX + 3]);
        assert_eq!(result.permission_denials.len(), DENIALS_MAX);
        assert_eq!(result.more_permission_denials, 3);
    }

    #[test]
    fn the_rows_of_the_last_delivery_stand_for_all() {
        let row = |path: &str| DeliveryRow::new(path.to_owned(), DeliveryOutcome::Created);
        let delivered = |rows| Event::Delivery(DeliveryEvent::Delivered { rows, by: None });
        let both = vec![row("/a"), row("/b")];
        let events = [delivered(vec![row("/a")]), delivered(both.clone())];
        assert_eq!(result(&events).delivered_files, both);
    }
}
