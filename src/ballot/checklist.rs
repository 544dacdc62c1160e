//! The checklist by which voters score answers: whether the scores of a vote are high enough for it
//! to count. The rule is MassGen's (`checklist_gated`): it asks for less as the voter uses up its
//! answers, so that a coordination ends.

use crate::tools::spec::CRITERION_SCORE_MAX;

/// Maximum number of answers of one agent if a config with a checklist sets no limit, as in
/// MassGen.
pub const CHECKLIST_ANSWERS_MAX: u32 = 5;
/// The lowest score that can ever meet a criterion.
const PASSING_SCORE_MIN: u8 = 4;

/// The rule that scores have to satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecklistRule {
    /// The number of criteria.
    pub criteria: usize,
    /// `voting_threshold`: from 0, which asks for the highest scores, to 10.
    pub threshold: u8,
}

/// What is wrong with the scores of a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScoreProblem {
    /// Another number of scores was expected.
    Count {
        /// The number of criteria.
        expected: usize,
    },
    /// Too few criteria are met: these, counted from 1, are not.
    UnmetCriteria(Vec<usize>),
}

impl ChecklistRule {
    /// Returns what is wrong with `scores`, one for each criterion, if anything is. The voter has
    /// given `answers_given` of at most `answers_max` answers.
    pub fn find_problem(
        self,
        scores: &[u8],
        answers_given: u32,
        answers_max: u32,
    ) -> Option<ScoreProblem> {
        if scores.len() != self.criteria {
            return Some(ScoreProblem::Count {
                expected: self.criteria,
            });
        }
        let threshold = self.effective_threshold(answers_given, answers_max);
        let score_min = passing_score(threshold);
        let unmet_criteria: Vec<usize> = (1..)
            .zip(scores)
            .filter(|(_, score)| **score < score_min)
            .map(|(criterion, _)| criterion)
            .collect();
        let met_count = self.criteria.saturating_sub(unmet_criteria.len());
        (met_count < required_count(threshold, self.criteria))
            .then_some(ScoreProblem::UnmetCriteria(unmet_criteria))
    }

    /// Returns the threshold, adjusted to the answers that the voter has left: higher, and so more
    /// lenient, with few of them, and lower with most of them.
    fn effective_threshold(self, answers_given: u32, answers_max: u32) -> u8 {
        let answers_left = u64::from(answers_max.saturating_sub(answers_given));
        let ten_times_left = answers_left.saturating_mul(10);
        let answers_max = u64::from(answers_max);
        let late_threshold = if answers_left <= 2 {
            self.threshold.saturating_add(2)
        } else if ten_times_left <= answers_max.saturating_mul(4) {
            self.threshold.saturating_add(1)
        } else {
            self.threshold
        };
        let threshold = if ten_times_left >= answers_max.saturating_mul(7) {
            late_threshold.saturating_sub(1)
        } else {
            late_threshold
        };
        threshold.min(CRITERION_SCORE_MAX)
    }
}

/// Returns the lowest score that meets a criterion.
fn passing_score(threshold: u8) -> u8 {
    let score = CRITERION_SCORE_MAX.saturating_sub(threshold.div_ceil(2));
    score.max(PASSING_SCORE_MIN)
}

/// Returns how many of `criteria` have to be met: all with the threshold 0, at least half of them
/// with 10.
fn required_count(threshold: u8, criteria: usize) -> usize {
    let required_min = criteria.div_ceil(2).max(1);
    let optional_max = criteria.saturating_sub(required_min);
    let optional_tenths = optional_max.saturating_mul(usize::from(threshold));
    // Half of a criterion is rounded to the even number, as in MassGen.
    let (whole, rest) = (optional_tenths / 10, optional_tenths % 10);
    let is_rounded_up = rest > 5 || (rest == 5 && whole % 2 == 1);
    let optional_count = whole.saturating_add(usize::from(is_rounded_up));
    criteria.saturating_sub(optional_count).max(required_min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores of a voter that has given this many of five answers, and the criteria that are not
    /// met if the vote does not count.
    #[test]
    fn fewer_and_lower_scores_suffice_with_a_higher_threshold_and_fewer_answers_left() {
        type Case = (u8, u32, [u8; 4], Option<&'static [usize]>);
        let cases: &[Case] = &[
            // At 5 of 10, after one of five answers, three scores of at least 8 are needed.
            (5, 1, [8, 8, 8, 8], None),
            (5, 1, [8, 8, 8, 0], None),
            (5, 1, [8, 8, 7, 7], Some(&[3, 4])),
            // At 0 all four have to be 10.
            (0, 1, [10, 10, 10, 10], None),
            (0, 1, [10, 10, 10, 9], Some(&[4])),
            // With two answers left, three of at least 6 suffice.
            (5, 3, [6, 6, 6, 0], None),
            (5, 3, [6, 6, 5, 5], Some(&[3, 4])),
            // At 10 half of the criteria suffice.
            (10, 3, [5, 5, 0, 0], None),
            (10, 3, [5, 4, 0, 0], Some(&[2, 3, 4])),
        ];
        for (threshold, answers, scores, below) in cases {
            let rule = ChecklistRule {
                criteria: 4,
                threshold: *threshold,
            };
            let expected = below.map(|below| ScoreProblem::UnmetCriteria(below.to_vec()));
            let actual = rule.find_problem(scores, *answers, 5);
            assert_eq!(actual, expected, "{threshold} {answers} {scores:?}");
        }
    }

    #[test]
    fn each_criterion_needs_a_score() {
        let rule = ChecklistRule {
            criteria: 4,
            threshold: 10,
        };
        for scores in [&[][..], &[10; 3], &[10; 5]] {
            let expected = Some(ScoreProblem::Count { expected: 4 });
            assert_eq!(rule.find_problem(scores, 0, 5), expected);
        }
    }
}
