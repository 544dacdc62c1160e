//! Builds the result of a process from its events and from how it ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ballot::WinnerReason;
use crate::check_results::CheckResult;
use crate::cli::result::{
    CastVote, DeniedCall, ErrorReport, GivenAnswer, ProcessOutcome, ResultKind, RunResult,
    VoteCount, WinningAnswer,
};
use crate::cli::usage_summary::UsageSummary;
use crate::error::{Error, ExitStatus};
use crate::event::{CoordinationEvent, DeliveryEvent, DeliveryRow, Event, RunEvent, ToolEvent};
use crate::id::{AgentId, AnswerLabel};
use crate::spending::totals::UsageTotals;
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
    coordination: CoordinationSummary,
    answer: Option<Arc<str>>,
    delivery_rows: Vec<DeliveryRow>,
    baseline: Vec<CheckResult>,
    denials: Vec<DeniedCall>,
    /// The number of denials that are not listed.
    more_denials: u64,
    /// The arguments of calls that are in progress, by agent and id.
    open_call_arguments: BTreeMap<(AgentId, String), String>,
    usage: UsageTotals,
    /// How the run ended, in one sentence.
    summary: String,
}

/// The answers, the votes and the winner of the last coordination.
#[derive(Clone, Debug, Default)]
struct CoordinationSummary {
    restart: u32,
    answers: Vec<GivenAnswer>,
    /// The votes that count, by voter.
    votes: BTreeMap<AgentId, CastVote>,
    winner: Option<WinningAnswer>,
    tally: Vec<VoteCount>,
    /// Why agents dropped out, one sentence each.
    failures: Vec<String>,
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
        event.add_to_totals(&mut self.usage);
        match event {
            Event::Run(event) => self.apply_run_event(event),
            Event::Tool(event) => self.apply_call(event),
            Event::Coordination(event) => self.coordination.apply(event),
            Event::Delivery(event) => self.apply_delivery_event(event),
            Event::Model(_) | Event::Pipeline(_) => {}
            Event::Subagent(_) => {
                if let Some(event) = event.as_scoped_tool_event() {
                    self.apply_call(&event);
                }
            }
        }
    }

    fn apply_run_event(&mut self, event: &RunEvent) {
        if let RunEvent::RunStarted { restart, .. } = event {
            self.coordination = CoordinationSummary {
                restart: *restart,
                ..CoordinationSummary::default()
            };
        } else if let RunEvent::BaselineChecked { finding } = event {
            self.baseline.push(finding.clone());
        } else if let RunEvent::RunEnded { summary, .. } = event {
            self.summary.clone_from(summary);
        }
    }

    fn apply_delivery_event(&mut self, event: &DeliveryEvent) {
        if let DeliveryEvent::FinalAnswer { content, .. } = event {
            self.answer = Some(Arc::clone(content));
        } else if let DeliveryEvent::Delivered { rows, .. } = event {
            self.delivery_rows.clone_from(rows);
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
    pub(crate) fn build(self, end: &ProcessEnd<'_>) -> RunResult {
        let CoordinationSummary {
            restart,
            answers,
            votes,
            winner,
            tally,
            failures,
        } = self.coordination;
        let (session_id, log_dir, task) = match self.run_start {
            Some(run_start) => (
                Some(run_start.session_id),
                Some(run_start.log_dir),
                Some(run_start.task),
            ),
            None => (None, None, None),
        };
        let summary = end.error.map_or(self.summary, ToString::to_string);
        let failed_without_answer = self.answer.is_none() && end.status != ExitStatus::Success;
        let error = match end.error {
            Some(error) => Some(error_report(error)),
            None if failed_without_answer && !failures.is_empty() => Some(ErrorReport {
                message: summary.clone(),
                caused_by: failures,
                hints: Vec::new(),
            }),
            None => None,
        };
        RunResult {
            kind: ResultKind::Result,
            outcome: ProcessOutcome::from_status(end.status, self.answer.as_deref()),
            exit_code: end.status.code(),
            status: end.status,
            summary,
            error,
            session_id,
            log_dir,
            task,
            restarts: restart,
            answer: self.answer,
            winner,
            votes: votes.into_values().collect(),
            tally,
            baseline: self.baseline,
            answers,
            delivered_files: self.delivery_rows,
            permission_denials: self.denials,
            more_permission_denials: self.more_denials,
            cost_usd: self.usage.run().cost_usd,
            cost_is_complete: self.usage.run().cost_is_complete,
            usage: UsageSummary::from_totals(&self.usage),
            warnings: end.warnings.to_vec(),
            duration_ms: milliseconds(end.elapsed),
        }
    }
}

impl CoordinationSummary {
    fn apply(&mut self, event: &CoordinationEvent) {
        if let CoordinationEvent::Answered {
            agent,
            label,
            content,
            snapshot,
            check_results,
            plan,
            ..
        } = event
        {
            self.answers.push(GivenAnswer {
                check_results: check_results.clone(),
                plan: plan.clone(),
                label: *label,
                agent: agent.clone(),
                chars: u64::try_from(content.chars().count()).unwrap_or(u64::MAX),
                snapshot: snapshot.clone(),
            });
        } else if let CoordinationEvent::WinnerSelected {
            agent,
            label,
            reason,
            votes,
        } = event
        {
            self.set_winner(agent, (*label, *reason), votes);
        } else {
            self.apply_vote(event);
        }
    }

    fn apply_vote(&mut self, event: &CoordinationEvent) {
        if let CoordinationEvent::Voted {
            agent,
            candidate,
            label,
            reason,
        } = event
        {
            let vote = CastVote {
                agent: agent.clone(),
                candidate: candidate.clone(),
                label: *label,
                reason: reason.clone(),
            };
            self.votes.insert(agent.clone(), vote);
        } else if let CoordinationEvent::VotesVoided { voters, .. } = event {
            self.votes.retain(|voter, _| !voters.contains(voter));
        } else if let CoordinationEvent::DroppedOut { agent, reason, .. } = event {
            self.votes.remove(agent);
            self.failures.push(format!("{agent}: {reason}"));
        }
    }

    fn set_winner(
        &mut self,
        agent: &AgentId,
        (label, reason): (AnswerLabel, WinnerReason),
        votes: &[(AgentId, u32)],
    ) {
        self.winner = Some(WinningAnswer {
            agent: agent.clone(),
            label,
            reason,
        });
        let vote_count = |(agent, votes): &(AgentId, u32)| VoteCount {
            agent: agent.clone(),
            votes: *votes,
        };
        self.tally = votes.iter().map(vote_count).collect();
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
    use super::*;
    use crate::event::DeliveryOutcome;
    use crate::id::AgentNumber;

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
