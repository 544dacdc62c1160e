//! The ballot in one row: the answers with their votes, the void votes, and the winner. Pure.

use crate::cli::dashboard::cell_text::clean_line;
use crate::cli::dashboard::scene::Scene;
use crate::cli::output::{StyledRow, TextStyle};
use crate::run_view::ballot::{BallotAnswer, BallotView};
use crate::text::count_noun;

/// Returns the ballot in one row.
pub(in crate::cli::dashboard) fn strip(scene: &Scene<'_>) -> StyledRow {
    let ballot = scene.run.ballot();
    if ballot.answers.is_empty() {
        return StyledRow::new();
    }
    let mut line = vec![(TextStyle::Strong, " ballot".to_owned())];
    if let Some(winner) = &ballot.winner {
        let reason = winner.reason.text();
        let text = format!("  + {} wins with {}: {reason}", winner.agent, winner.label);
        line.push((TextStyle::Good, text));
    }
    for answer in ballot.current_answers() {
        let index = scene.run.agent_index(&answer.agent).unwrap_or_default();
        line.push((TextStyle::Plain, format!("  {} ", answer.label)));
        line.push((TextStyle::Agent(index), answer.agent.to_string()));
        line.push((TextStyle::Plain, format!(" {}", votes_text(ballot, answer))));
        if answer.fails_checks() {
            line.push((TextStyle::Bad, " checks failed".to_owned()));
        }
    }
    let void = ballot.votes.iter().filter(|vote| vote.is_void);
    let void: Vec<String> = void
        .map(|vote| format!("{}->{}", clean_line(vote.voter.as_str()), vote.label))
        .collect();
    if !void.is_empty() {
        line.push((TextStyle::Faint, format!("  void: {}", void.join(", "))));
    }
    line
}

/// Returns the number of votes that count for an answer, in words.
pub(super) fn votes_text(ballot: &BallotView, answer: &BallotAnswer) -> String {
    let votes = ballot.current_votes();
    let votes = votes.filter(|vote| vote.label == answer.label).count();
    count_noun(votes, "vote")
}
