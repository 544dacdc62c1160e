//! What voters read about the checklist by which they score answers. The scores that suffice are
//! not shown, so that voters score honestly.

use std::fmt::Write as _;

use crate::text::join_with_commas;

/// Where voters read the criteria by which they score answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoringCriteria<'a> {
    /// Nowhere: they score no answers.
    None,
    /// In the system message, because the config or massgen has them.
    Listed(&'a [String]),
    /// In a frame in their first message, because a model has written them.
    InFirstMessage,
}

/// Adds the criteria, or where they are, to the system message of the coordination phase.
pub(super) fn describe_criteria(out: &mut String, criteria: ScoringCriteria<'_>) {
    let criteria_text = match criteria {
        ScoringCriteria::None => return,
        ScoringCriteria::Listed(_) => "each of these criteria",
        ScoringCriteria::InFirstMessage => {
            "each of the criteria in <scoring_criteria> in your first message"
        }
    };
    let _ = writeln!(
        out,
        "With a vote, pass `scores`: how well that answer meets {criteria_text}, from 0 to 10, in this \
         order. Score what you have checked. A 9 means that a demanding expert would change nothing; most \
         first answers deserve a 5 or 6. If the scores are too low, the vote does not count, and you \
         give a better answer."
    );
    if let ScoringCriteria::Listed(criteria) = criteria {
        for (number, criterion) in (1..).zip(criteria) {
            let _ = writeln!(out, "{number}. {criterion}");
        }
    }
}

/// Returns the reason of a vote with its scores, if it has some.
pub fn vote_reason(reason: String, scores: &[u8]) -> String {
    if scores.is_empty() {
        return reason;
    }
    format!("{reason} (scores: {})", join_with_commas(scores))
}

/// Explains to a voter that every criterion needs a score.
pub(super) fn scores_missing(expected: usize) -> String {
    format!(
        "not counted: pass `scores` with {expected} whole numbers from 0 to 10, one for each \
         criterion"
    )
}

/// Explains to a voter that its scores do not meet enough criteria.
pub(super) fn below_checklist(criteria: &[usize]) -> String {
    format!(
        "not counted: by your own scores the answer is not good enough yet. Give a better one with \
         `new_answer`: build on what is best in each, and improve what criterion {} asks for",
        join_with_commas(criteria)
    )
}

/// Explains to a voter that it cannot score the same answers again.
pub(super) fn already_scored() -> String {
    "not counted: you have scored these answers, and they are not good enough yet; give a better \
     one with `new_answer`"
        .to_owned()
}
