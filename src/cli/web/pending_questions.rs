//! The questions of a run that wait for the person at the page. A question that nothing waits for
//! any more is forgotten.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::cli::approval_prompt::request_parts;
use crate::cli::output::plain_text;
use crate::event::ApprovalAnswer;
use crate::orchestrator::review::{FailedCheckDecision, UserQuestion};

/// The questions, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingQuestions {
    list: Vec<PendingQuestion>,
    /// Changes whenever a question comes or goes.
    version: u64,
}

/// A question and its id.
#[derive(Debug)]
struct PendingQuestion {
    /// It differs from the id of every earlier question, also of another server or before the run
    /// was resumed: an answer to another question never counts for this one.
    id: String,
    question: UserQuestion,
}

impl PendingQuestions {
    /// Adds a question.
    pub(super) fn push(&mut self, question: UserQuestion) {
        self.version = self.version.saturating_add(1);
        self.list.push(PendingQuestion {
            id: Uuid::new_v4().simple().to_string(),
            question,
        });
    }

    /// Forgets the questions that nothing waits for.
    pub(super) fn drop_closed(&mut self) {
        let count_before = self.list.len();
        self.list.retain(|pending| !pending.question.is_withdrawn());
        if self.list.len() != count_before {
            self.version = self.version.saturating_add(1);
        }
    }

    /// Returns a number that changes whenever a question comes or goes.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the first question that `is_wanted`.
    pub(super) fn find(
        &self,
        is_wanted: impl Fn(&str, &UserQuestion) -> bool,
    ) -> Option<&UserQuestion> {
        let mut list = self.list.iter();
        let pending = list.find(|pending| is_wanted(&pending.id, &pending.question));
        pending.map(|pending| &pending.question)
    }

    /// Removes the first question that `is_wanted`.
    pub(super) fn take(
        &mut self,
        is_wanted: impl Fn(&str, &UserQuestion) -> bool,
    ) -> Option<UserQuestion> {
        let mut list = self.list.iter();
        let index = list.position(|pending| is_wanted(&pending.id, &pending.question))?;
        self.version = self.version.saturating_add(1);
        Some(self.list.remove(index).question)
    }

    /// Returns all questions as the page reads them.
    pub(super) fn to_json(&self) -> Value {
        self.list.iter().map(PendingQuestion::to_json).collect()
    }
}

impl PendingQuestion {
    fn to_json(&self) -> Value {
        let id = &self.id;
        match &self.question {
            UserQuestion::Apply { plan, .. } => json!({
                "id": id,
                "kind": "delivery",
                "files": plan.reviewable_entries().len(),
                "refused": plan.refused.len(),
            }),
            UserQuestion::Call {
                agent, question, ..
            } => json!({
                "id": id,
                "kind": "approval",
                "agent": agent,
                "call_id": question.call_id,
                "tool": question.tool,
                "effects": question.effects,
                "input": question.input,
                "lines": request_parts(agent, question).concat().iter().map(plain_text).collect::<Vec<_>>(),
                "reason": question.reason,
                "phase": question.phase,
                "answers": ["once", "session", "no"],
            }),
            UserQuestion::FailedCheck { reason, .. } => json!({
                "id": id,
                "kind": "failed_check",
                "reason": reason,
                "answers": ["keep", "revert"],
            }),
            UserQuestion::Open {
                question,
                without_answer,
                ..
            } => json!({
                "id": id,
                "kind": "open",
                "question": question,
                "otherwise": without_answer,
            }),
        }
    }
}

/// Parses the answer to an approval request; `None` if it is not one of the answers to it.
pub(super) fn parse_approval(text: &str) -> Option<ApprovalAnswer> {
    match text {
        "once" => Some(ApprovalAnswer::Once),
        "session" => Some(ApprovalAnswer::Session),
        "no" => Some(ApprovalAnswer::No),
        _ => None,
    }
}

/// Parses the answer to the question whether a delivery whose checks failed is kept.
pub(super) fn parse_decision(text: &str) -> Option<FailedCheckDecision> {
    match text {
        "keep" => Some(FailedCheckDecision::Keep),
        "revert" => Some(FailedCheckDecision::Revert),
        _ => None,
    }
}
