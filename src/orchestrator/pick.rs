//! Lets the user pick the answer that is delivered, once the team has selected one.

use std::fmt::Write;

use crate::ballot::WinnerReason;
use crate::check_results::CheckResults;
use crate::config::WinnerChoice;
use crate::id::AnswerLabel;
use crate::orchestrator::PreparedTurn;
use crate::orchestrator::coordination_result::{AcceptedAnswer, CoordinationResult};
use crate::orchestrator::selection::SelectedAnswer;
use crate::spending::money::Money;
use crate::text::single_line;

/// Maximum length of the beginning of an answer in the list, in characters.
const CONTENT_CHARS_MAX: usize = 120;

impl PreparedTurn {
    /// Returns the answer that the user picks; without an answer of the user, `selected`, which is
    /// that of the team, if it has one.
    pub(super) async fn let_user_pick(
        &self,
        coordination: &CoordinationResult,
        selected: Option<SelectedAnswer>,
    ) -> Option<SelectedAnswer> {
        let (Some(reviewer), WinnerChoice::User) =
            (self.team.reviewer(), self.config.winner_choice)
        else {
            return selected;
        };
        let answers: Vec<&AcceptedAnswer> = coordination.answers.values().collect();
        if answers.len() < 2 {
            return selected;
        }
        let list = self.list_answers(&answers, selected.as_ref());
        let without_answer = match &selected {
            Some((label, reason)) => format!("without an answer, {label}: {}", reason.text()),
            None => {
                "without an answer, nothing is delivered: no answer passed the checks".to_owned()
            }
        };
        let mut note = String::new();
        loop {
            let question = format!(
                "{note}{list}Which answer is taken? Its number, or `d` and its number for its diff."
            );
            let reply = tokio::select! {
                reply = reviewer.ask_open_question(question, without_answer.clone()) => reply,
                () = self.stop.cancelled() => None,
            };
            let reply = reply.filter(|reply| !reply.is_empty());
            let Some(reply) = reply else {
                return selected;
            };
            let number = reply.trim_start_matches('d').trim().parse::<usize>();
            let answer = number
                .ok()
                .and_then(|number| answers.get(number.checked_sub(1)?));
            note = match answer {
                None => format!("There is no answer `{}`.\n", single_line(&reply, 40)),
                Some(answer) if reply.starts_with('d') => match &answer.changes {
                    Some(changes) => format!("{}\n", changes.diff.trim_end()),
                    None => "Its files are those of its workspace.\n".to_owned(),
                },
                Some(answer) => return Some((answer.label, WinnerReason::Picked)),
            };
        }
    }

    fn list_answers(
        &self,
        answers: &[&AcceptedAnswer],
        selected: Option<&SelectedAnswer>,
    ) -> String {
        let mut out = String::new();
        for (index, answer) in answers.iter().enumerate() {
            let AcceptedAnswer {
                label,
                content,
                changes,
                check_results,
                ..
            } = answer;
            let mut facts = Vec::new();
            let results = check_results.as_ref();
            facts.extend(results.map(checks_text));
            facts.extend(changes.as_ref().map(|changes| changes.counts.to_string()));
            facts.extend(self.cost_of(*label));
            if selected.is_some_and(|(selected, _)| selected == label) {
                facts.push("selected by the team".to_owned());
            }
            let number = index.saturating_add(1);
            let name = self
                .member(label.agent)
                .map_or_else(|_| String::new(), |member| member.id.to_string());
            let _ = writeln!(out, "{number}  {name} ({label}): {}", facts.join("; "));
            let _ = writeln!(out, "   {}", single_line(content, CONTENT_CHARS_MAX));
        }
        out
    }

    /// Returns what the agent of an answer has spent, if that is known.
    fn cost_of(&self, label: AnswerLabel) -> Option<String> {
        let member = self.member(label.agent).ok()?;
        let cost = self.ledger().totals().agent(&member.id).known_cost();
        (cost > Money::ZERO).then(|| format!("${}", cost.round_up()))
    }
}

/// Returns how the required checks of an answer ended.
fn checks_text(results: &CheckResults) -> String {
    let failed = results.failed_requirements();
    failed.unwrap_or_else(|| "passes the checks".to_owned())
}
