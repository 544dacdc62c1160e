//! All accepted answers of a coordination, and which of them an agent sees.

use std::collections::BTreeSet;

use crate::id::{AgentNumber, AnswerLabel};
use crate::prompts::AnswerView;

/// All accepted answers so far, oldest first, as agents may see them.
#[derive(Debug, Default)]
pub struct AnswerLog {
    /// The answers, including those that their agents have replaced.
    pub answers: Vec<AnswerView>,
}

impl AnswerLog {
    /// Returns the new answers for `me`, who has seen the first `seen_count` and now sees those
    /// before `end`: the latest of each other agent. No agent is shown an answer of its own.
    pub(super) fn unseen_by(
        &self,
        me: AgentNumber,
        seen_count: usize,
        end: usize,
    ) -> Vec<AnswerView> {
        let new_answers = self.answers.get(seen_count..end).unwrap_or_default();
        let is_latest = |index: usize, answer: &AnswerView| {
            let mut later_answers = new_answers.iter().skip(index.saturating_add(1));
            !later_answers.any(|later| later.label.agent == answer.label.agent)
        };
        let shown_answers = new_answers
            .iter()
            .enumerate()
            .filter(|(index, answer)| answer.label.agent != me && is_latest(*index, answer));
        shown_answers.map(|(_, answer)| answer.clone()).collect()
    }

    /// Returns how many answers `me` has seen after the first `seen_count` when it is shown those
    /// of at most `shown_max` others, in their order: of each, it is shown the latest.
    pub(super) fn visible_length_limited(
        &self,
        me: AgentNumber,
        seen_count: usize,
        shown_max: usize,
    ) -> usize {
        let mut authors = BTreeSet::new();
        let unseen = self.answers.iter().skip(seen_count);
        let shown_answers = unseen.take_while(|answer| {
            let author = answer.label.agent;
            if author != me {
                authors.insert(author);
            }
            authors.len() <= shown_max
        });
        seen_count.saturating_add(shown_answers.count())
    }

    /// Returns how many answers an agent sees that is shown the answers with these labels; `None`
    /// while one is missing.
    pub(super) fn visible_length(&self, labels: &[AnswerLabel]) -> Option<usize> {
        let position = |label: &AnswerLabel| {
            let mut answers = self.answers.iter();
            answers.position(|answer| answer.label == *label)
        };
        let positions: Option<Vec<usize>> = labels.iter().map(position).collect();
        positions?
            .into_iter()
            .max()
            .map(|last| last.saturating_add(1))
    }

    /// Returns how many answers `me` sees after the first `seen_count`: every agent knows its own.
    pub(super) fn visible_with_own(&self, me: AgentNumber, seen_count: usize) -> usize {
        let unseen = self.answers.iter().skip(seen_count);
        let own_answers = unseen.take_while(|answer| answer.label.agent == me);
        seen_count.saturating_add(own_answers.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_answers_are_shown_of_as_many_others_as_the_round_allows() {
        let [me, ben, cleo] = [0, 1, 2].map(AgentNumber::from_index);
        let answer = |agent, ordinal| AnswerView {
            label: AnswerLabel { agent, ordinal },
            content: String::new().into(),
            files: None,
            diff: None,
            layers: None,
            check_results: None,
        };
        let answers = vec![
            answer(ben, 1),
            answer(me, 1),
            answer(ben, 2),
            answer(cleo, 1),
            answer(ben, 3),
        ];
        let log = AnswerLog { answers };
        let length = |seen_count, shown_max| log.visible_length_limited(me, seen_count, shown_max);
        assert_eq!([length(0, 0), length(1, 0)], [0, 2]);
        assert_eq!([length(0, 1), length(0, 2), length(3, 1)], [3, 5, 4]);
    }
}
