//! Selects the winner of a coordination: by the votes or, where agents answer alone, by the checks
//! and by a review that compares the answers that passed them.

use std::collections::BTreeSet;

use futures_util::FutureExt;

use crate::agent::deadline::RunDeadline;
use crate::agent::separate_requests::{SeparateConversations, SeparateRequest};
use crate::ballot::WinnerReason;
use crate::config::Strategy;
use crate::error::Result;
use crate::event::{CoordinationEvent, Event, RunEvent, SeparateCall};
use crate::id::AnswerLabel;
use crate::orchestrator::PreparedTurn;
use crate::orchestrator::coordination_result::{
    AcceptedAnswer, CoordinationEnd, CoordinationResult,
};
use crate::prompts::AnswerView;
use crate::prompts::comparison::{COMPARISON_SYSTEM_PROMPT, comparison_request, parse_comparison};
use crate::text::count_noun;

/// The most answers that are compared in one request; more are compared in pairs.
const COMPARED_MAX: usize = 4;

/// The answer that a coordination ends with, and what decided for it.
pub(super) type SelectedAnswer = (AnswerLabel, WinnerReason);

/// What selects the winner of a coordination besides its votes.
pub(super) struct Selection {
    /// The selection of the recording that the run follows.
    recorded: Option<SelectedAnswer>,
    /// The conversations in which the reviewer's model compares answers, with `best-of`.
    comparisons: Option<SeparateConversations>,
}

impl PreparedTurn {
    /// Prepares the selection of the winner of the next coordination.
    pub(super) fn begin_selection(&self) -> Result<Selection> {
        let replay = self.replay.as_ref();
        let recorded = replay.and_then(|replay| replay.coordinations.front()?.selection);
        let rules = &self.config.orchestrator;
        let reviewer = rules.reviewer.as_ref();
        let conversations = || self.separate_conversations(reviewer, SeparateCall::Comparison);
        let is_reviewed = rules.strategy == Strategy::BestOf;
        Ok(Selection {
            recorded,
            comparisons: is_reviewed.then(conversations).transpose()?,
        })
    }

    /// Selects the winner and announces it. Returns `None` if no answer wins: there is none, or agents
    /// answer alone and none passed the required checks.
    pub(super) async fn select_winner(
        &self,
        coordination: &CoordinationResult,
        selection: Selection,
        deadline: &RunDeadline,
    ) -> Result<Option<AnswerLabel>> {
        let Some(tally) = &coordination.tally else {
            return Ok(None);
        };
        let is_given = |(label, _): &SelectedAnswer| {
            coordination
                .answers
                .get(&label.agent)
                .is_some_and(|answer| answer.label == *label)
        };
        let selected_answer = if let Some(recorded) = selection.recorded.filter(is_given) {
            Some(recorded)
        } else {
            let selected = if self.config.orchestrator.strategy.is_independent() {
                self.select_independent(coordination, tally.winner, selection.comparisons, deadline)
                    .await
            } else {
                Some((tally.winner, tally.reason))
            };
            self.let_user_pick(coordination, selected).await
        };
        let Some((label, reason)) = selected_answer else {
            return Ok(None);
        };
        let id = |number| self.team.member(number).map(|member| member.id.clone());
        let votes = tally
            .votes
            .iter()
            .filter_map(|(agent, count)| Some((id(*agent)?, *count)));
        let Some(agent) = id(label.agent) else {
            return Ok(None);
        };
        let event = Event::Coordination(CoordinationEvent::WinnerSelected {
            agent,
            label,
            reason,
            votes: votes.collect(),
        });
        self.emit(event).await;
        Ok(Some(label))
    }

    /// Selects one of the answers that passed the required checks; `first` is the first of them, or
    /// of all answers.
    async fn select_independent(
        &self,
        coordination: &CoordinationResult,
        first: AnswerLabel,
        comparisons: Option<SeparateConversations>,
        deadline: &RunDeadline,
    ) -> Option<SelectedAnswer> {
        let answers = &coordination.answers;
        let mut passing: Vec<&AcceptedAnswer> = answers
            .values()
            .filter(|answer| answer.has_passed())
            .collect();
        let has_failing = passing.len() < answers.len();
        remove_equal_answers(&mut passing);
        let is_stopped = coordination.end != CoordinationEnd::Agreed;
        let found_by = |reason| Some((first, reason));
        match (passing.len(), comparisons) {
            // A run that was stopped still shows what it has.
            (0, _) => found_by(WinnerReason::FirstOfTie).filter(|_| is_stopped),
            (1, Some(_)) if answers.len() == 1 => found_by(WinnerReason::OnlyAnswer),
            (1, Some(_)) if !has_failing => found_by(WinnerReason::FirstPassing),
            (1, _) | (_, None) => found_by(WinnerReason::PassedChecks),
            _ if is_stopped => found_by(WinnerReason::FirstPassing),
            (_, Some(comparisons)) => match self.compare(passing, comparisons, deadline).await {
                Ok(label) => Some((label, WinnerReason::Review)),
                Err(reason) => {
                    let message = format!(
                        "the review of the answers has no result, so the first one that passes is \
                         taken: {reason}"
                    );
                    self.emit(RunEvent::Warning { message }).await;
                    found_by(WinnerReason::FirstPassing)
                }
            },
        }
    }

    /// Has the reviewer's model compare `answers`: in one request, or in pairs if they are many.
    /// There, each pair is compared in both orders, and the earlier answer stays unless the later
    /// one is better in both.
    async fn compare(
        &self,
        answers: Vec<&AcceptedAnswer>,
        conversations: SeparateConversations,
        deadline: &RunDeadline,
    ) -> std::result::Result<AnswerLabel, String> {
        let views: Vec<AnswerView> = answers.iter().map(|answer| answer.view(None)).collect();
        let comparison = AnswerComparison {
            task: &self.task.question,
            conversations,
            deadline,
        };
        match views.len() {
            0..=COMPARED_MAX => comparison.ask("answers".to_owned(), &views).await,
            _ => comparison.run_in_pairs(&views).await,
        }
    }
}

/// Removes answers with the same diff as an earlier one.
fn remove_equal_answers(answers: &mut Vec<&AcceptedAnswer>) {
    let mut diffs = BTreeSet::new();
    answers.retain(|answer| {
        let diff = answer.changes.as_ref().map(|changes| &changes.diff);
        diff.is_none_or(|diff| diffs.insert(diff))
    });
}

/// The comparison of the answers to a task.
struct AnswerComparison<'a> {
    task: &'a str,
    conversations: SeparateConversations,
    deadline: &'a RunDeadline,
}

impl AnswerComparison<'_> {
    async fn run_in_pairs(&self, views: &[AnswerView]) -> std::result::Result<AnswerLabel, String> {
        let [first, others @ ..] = views else {
            return Err("there is no answer".to_owned());
        };
        let mut best = first;
        for other in others {
            let name = |order| format!("{}-{}-{order}", best.label.agent, other.label.agent);
            let pair = [best.clone(), other.clone()];
            if self.ask(name(1), &pair).await? != other.label {
                continue;
            }
            let [earlier, later] = pair;
            if self.ask(name(2), &[later, earlier]).await? == other.label {
                best = other;
            }
        }
        Ok(best.label)
    }

    /// Asks which of the answers, in this order, is the best.
    async fn ask(
        &self,
        name: String,
        views: &[AnswerView],
    ) -> std::result::Result<AnswerLabel, String> {
        let request = SeparateRequest {
            call: SeparateCall::Comparison,
            name,
            purpose: format!("compare {}", count_noun(views.len(), "answer")),
            system: COMPARISON_SYSTEM_PROMPT,
            question: comparison_request(self.task, views),
        };
        let cancellation = self.deadline.wait().map(drop).boxed();
        let reply = self.conversations.ask(request, cancellation).await?;
        parse_comparison(&reply, views)
    }
}
