//! The question of a run to the user that is shown on the dashboard: what it asks, the keys that
//! answer it, and its answer.

use crate::cli::approval_prompt::request_parts;
use crate::cli::dashboard::delivery_review::DeliveryReview;
use crate::cli::output::{StyledLine, TextStyle};
use crate::event::ApprovalAnswer;
use crate::id::AgentId;
use crate::orchestrator::review::{DeliverySelection, FailedCheckDecision, UserQuestion};
use crate::text::{count_noun, escape_line};

/// Time after a question appears on the screen during which no key answers it, in milliseconds:
/// what is typed then was meant for something else.
pub(super) const ANSWER_DELAY_MS: u64 = 700;

/// A question that waits for the user.
#[derive(Debug)]
pub(super) struct QuestionPanel {
    question: UserQuestion,
    /// What is asked.
    pub(super) lines: Vec<StyledLine>,
    /// The keys that answer it.
    pub(super) keys: &'static str,
    /// The review, if it is about a delivery.
    pub(super) review: Option<DeliveryReview>,
    /// When it appeared on the screen, in milliseconds after the start; `None` while it was not
    /// drawn yet, or other questions are before it.
    shown_ms: Option<u64>,
}

/// An answer to any question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QuestionAnswer {
    /// About a call.
    Call(ApprovalAnswer),
    /// The selected changes are applied.
    ApplySelected,
    /// Nothing is applied.
    ApplyNothing,
    /// About a delivery whose checks failed.
    FailedCheck(FailedCheckDecision),
    /// To an open question.
    Text(String),
    /// To an open question that the user does not answer.
    NoText,
    /// No to a call, and what the agent is to do instead.
    Instead(String),
}

impl QuestionPanel {
    /// Creates the panel of `question`, which is not on the screen yet.
    pub(super) fn new(question: UserQuestion) -> Self {
        let mut review = None;
        let (lines, keys) = match &question {
            UserQuestion::Apply { delivery, plan, .. } => {
                let new_review = DeliveryReview::open(delivery, plan);
                let lines = new_review.summary();
                review = Some(new_review);
                (
                    lines,
                    "d review  then y apply the selected changes, x nothing",
                )
            }
            UserQuestion::Call {
                agent,
                question,
                always,
                ..
            } => {
                let keys = if always.is_some() {
                    "o once  s this session  A always  n no  T no, and tell it what to do"
                } else {
                    "o once  s this session  n no  T no, and tell it what to do"
                };
                (request_parts(agent, question).concat(), keys)
            }
            UserQuestion::FailedCheck { reason, .. } => {
                let line = vec![(TextStyle::Warn, escape_line(reason))];
                (vec![line], "k keep the delivery  x revert it")
            }
            UserQuestion::Open {
                question,
                without_answer,
                ..
            } => {
                let question_lines = question.lines();
                let mut lines: Vec<_> = question_lines
                    .map(|line| vec![(TextStyle::Strong, escape_line(line))])
                    .collect();
                lines.push(vec![(TextStyle::Faint, escape_line(without_answer))]);
                (lines, "i answer  x no answer")
            }
        };
        Self {
            question,
            lines,
            keys,
            review,
            shown_ms: None,
        }
    }

    /// Returns whether the run no longer waits for the answer.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.question.is_withdrawn()
    }

    /// Returns whether it is an open question, which is answered by a line of text.
    pub(super) fn is_open_question(&self) -> bool {
        matches!(self.question, UserQuestion::Open { .. })
    }

    /// Returns the agent whose call it is about, if it is about one.
    pub(super) fn calling_agent(&self) -> Option<&AgentId> {
        match &self.question {
            UserQuestion::Call { agent, .. } => Some(agent),
            UserQuestion::Apply { .. }
            | UserQuestion::Open { .. }
            | UserQuestion::FailedCheck { .. } => None,
        }
    }

    /// Records that it is on the screen at this time.
    pub(super) fn set_shown(&mut self, now_ms: u64) {
        self.shown_ms.get_or_insert(now_ms);
    }

    /// Returns whether keys answer it at this time.
    pub(super) fn takes_answers(&self, now_ms: u64) -> bool {
        self.shown_ms
            .is_some_and(|shown_ms| now_ms.saturating_sub(shown_ms) >= ANSWER_DELAY_MS)
    }

    /// Returns the answer that the key `c` gives, if it gives one. A delivery is only answered
    /// while `is_review_open`.
    pub(super) fn answer_of_key(&self, c: char, is_review_open: bool) -> Option<QuestionAnswer> {
        let call = |answer| Some(QuestionAnswer::Call(answer));
        let check = |answer| Some(QuestionAnswer::FailedCheck(answer));
        match (&self.question, c) {
            (UserQuestion::Call { .. }, 'o' | 'y') => call(ApprovalAnswer::Once),
            (UserQuestion::Call { .. }, 's') => call(ApprovalAnswer::Session),
            (UserQuestion::Call { always, .. }, 'A') if always.is_some() => {
                call(ApprovalAnswer::Always)
            }
            (UserQuestion::Call { .. }, 'n' | 'x') => call(ApprovalAnswer::No),
            (UserQuestion::Apply { .. }, 'y') if is_review_open => {
                Some(QuestionAnswer::ApplySelected)
            }
            (UserQuestion::Apply { .. }, 'x') if is_review_open => {
                Some(QuestionAnswer::ApplyNothing)
            }
            (UserQuestion::FailedCheck { .. }, 'k') => check(FailedCheckDecision::Keep),
            (UserQuestion::FailedCheck { .. }, 'x') => check(FailedCheckDecision::Revert),
            (UserQuestion::Open { .. }, 'x') => Some(QuestionAnswer::NoText),
            (
                UserQuestion::Call { .. }
                | UserQuestion::Apply { .. }
                | UserQuestion::FailedCheck { .. }
                | UserQuestion::Open { .. },
                _,
            ) => None,
        }
    }

    /// Sends `reply` to the run; an answer to another kind of question has no effect.
    pub(super) fn send(self, reply: QuestionAnswer) {
        // The run may have stopped waiting.
        match (self.question, reply) {
            (UserQuestion::Call { answer, .. }, QuestionAnswer::Call(reply)) => {
                answer.send(reply).unwrap_or_default();
            }
            (UserQuestion::Call { answer, .. }, QuestionAnswer::Instead(_)) => {
                answer.send(ApprovalAnswer::No).unwrap_or_default();
            }
            (UserQuestion::FailedCheck { answer, .. }, QuestionAnswer::FailedCheck(reply)) => {
                answer.send(reply).unwrap_or_default();
            }
            (UserQuestion::Open { answer, .. }, QuestionAnswer::Text(reply)) => {
                answer.send(reply).unwrap_or_default();
            }
            (UserQuestion::Apply { answer, plan, .. }, QuestionAnswer::ApplyNothing) => {
                let nothing = DeliverySelection::take_none(&plan);
                answer.send(nothing).unwrap_or_default();
            }
            (UserQuestion::Apply { answer, plan, .. }, QuestionAnswer::ApplySelected) => {
                if let Some(review) = &self.review {
                    let selection = review.selection(&plan);
                    answer.send(selection).unwrap_or_default();
                }
            }
            // The run learns from the dropped sender that there is no answer.
            (_, _) => {}
        }
    }

    /// Returns the question, to be asked in lines.
    pub(super) fn into_question(self) -> UserQuestion {
        self.question
    }
}

/// Returns a line about the questions after the first, if there are any.
pub(super) fn more_questions_line(count: usize) -> Option<StyledLine> {
    let text = format!("and {}", count_noun(count, "more question"));
    (count > 0).then(|| vec![(TextStyle::Faint, text)])
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_question_takes_no_answers_before_it_is_seen() {
        let (answer, _answered) = oneshot::channel();
        let mut panel = QuestionPanel::new(UserQuestion::Open {
            question: "which port?".to_owned(),
            without_answer: "without an answer: 80".to_owned(),
            answer,
        });
        assert!(!panel.takes_answers(60_000));
        panel.set_shown(60_000);
        panel.set_shown(70_000);
        assert!(!panel.takes_answers(60_000 + ANSWER_DELAY_MS - 1));
        assert!(panel.takes_answers(60_000 + ANSWER_DELAY_MS));
    }
}
