//! Questions to the user in a pipeline: clarifies the task before any role works on it, and asks
//! for advice when a role cannot merge its work. If there is no reviewer, the assumptions apply and
//! are written down.

use crate::orchestrator::approvals::ApprovalChannel;
use crate::orchestrator::review::Reviewer;
use crate::pipeline::PipelineRun;
use crate::roles::RoleName;
use crate::roles::sections::open_questions;

impl PipelineRun {
    fn reviewer(&self) -> Option<&Reviewer> {
        match &self.context.run.approvals.channel {
            ApprovalChannel::Terminal(reviewer) => Some(reviewer),
            ApprovalChannel::Unavailable | ApprovalChannel::Socket(_) => None,
        }
    }

    /// Returns the shared understanding of the task: the text of `answer`, with the answers to its
    /// open questions.
    pub(super) async fn clarify_task(&self, answer: &str) -> String {
        let text = format!("# Shared understanding\n\n{}\n", answer.trim());
        if let Some(answers) = &self.context.answers {
            return format!("{text}\n## Answers of the user\n\n{}\n", answers.trim());
        }
        let questions = open_questions(answer);
        if questions.is_empty() {
            return text;
        }
        let mut parts = vec![text, "\n## Answers\n\n".to_owned()];
        for question in questions {
            let assumption = match question.assumption.as_str() {
                "" => "the role that works on it decides".to_owned(),
                text => format!("assumed: {text}"),
            };
            let without_answer = format!("without an answer, {assumption}");
            let result = match self.ask_user(question.text.clone(), without_answer).await {
                Some(user_answer) => {
                    // Further lines are indented, so that they stay part of the list item.
                    format!("the user: {}", user_answer.replace('\n', "\n  "))
                }
                None => format!("no answer; {assumption}"),
            };
            parts.push(format!("- {}\n  {result}\n", question.text));
        }
        parts.concat()
    }

    /// Asks the user for advice for a role that cannot merge its work; returns it if there is any.
    pub(super) async fn ask_for_advice(&self, role: &RoleName, reason: &str) -> Option<String> {
        let question =
            format!("the work of {role} still cannot be merged: {reason}. What should it do?");
        let without_answer = "without an answer, the pipeline ends here".to_owned();
        self.ask_user(question, without_answer).await
    }

    /// Returns the user's answer; `None` if there is no reviewer, if it is empty, or if the user
    /// wants to stop.
    async fn ask_user(&self, question: String, without_answer: String) -> Option<String> {
        let exchange = self.reviewer()?.ask_open_question(question, without_answer);
        let answer = tokio::select! {
            answer = exchange => answer?,
            () = self.shutdown.graceful.cancelled() => return None,
        };
        (!answer.is_empty()).then_some(answer)
    }
}
