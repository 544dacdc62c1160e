//! The ballot in one row: the answers with their votes, the leading one first, the void votes, and
//! the winner.

use std::cmp::Reverse;

use crate::cli::cell_text::clean_line;
use crate::cli::dashboard::scene::Scene;
use crate::cli::output::{StyledLine, TextStyle};
use crate::run_view::ballot::{BallotAnswer, BallotView, BallotWinner, VotesForAgent};
use crate::text::count_noun;

/// Returns the ballot in one row.
pub(in crate::cli::dashboard) fn line(scene: &Scene<'_>) -> StyledLine {
    let ballot = scene.run.ballot();
    if ballot.answers.is_empty() {
        return StyledLine::new();
    }
    let mut line = vec![(TextStyle::Strong, " ballot".to_owned())];
    if let Some(winner) = &ballot.winner {
        line.extend(decision(scene, winner));
    } else {
        let mut answers: Vec<&BallotAnswer> = ballot.current_answers().collect();
        answers.sort_by_key(|answer| Reverse(vote_count(ballot, answer)));
        for answer in answers {
            line.push((TextStyle::Plain, format!("  {} ", answer.label)));
            line.push((TextStyle::AgentName, answer.agent.to_string()));
            line.push((TextStyle::Plain, format!(" {}", votes_text(ballot, answer))));
            if answer.fails_checks() {
                line.push((TextStyle::Bad, " checks failed".to_owned()));
            }
        }
    }
    let void_votes: Vec<String> = ballot
        .votes
        .iter()
        .filter(|vote| vote.is_void)
        .map(|vote| format!("{}->{}", clean_line(vote.voter.as_str()), vote.label))
        .collect();
    if !void_votes.is_empty() {
        line.push((
            TextStyle::Faint,
            format!("  void: {}", void_votes.join(", ")),
        ));
    }
    line
}

/// Returns the winner, what decided, and the number of votes for each agent with the winner first.
fn decision(scene: &Scene<'_>, winner: &BallotWinner) -> StyledLine {
    let text = format!("  + {} wins with {}", winner.agent, winner.label);
    let reason = format!(": {}", winner.reason.text());
    let mut line = vec![(TextStyle::Good, text), (TextStyle::Faint, reason)];
    let failing = scene.run.ballot().failing_agents();
    let is_first = |count: &&VotesForAgent| count.agent == winner.agent;
    let winner_count = winner.votes.iter().filter(is_first);
    let other_counts = winner.votes.iter().filter(|count| !is_first(count));
    for VotesForAgent { agent, count } in winner_count.chain(other_counts) {
        line.push((TextStyle::AgentName, format!("  {agent}")));
        line.push((TextStyle::Plain, format!(" {count}")));
        if failing.contains(&agent) {
            line.push((TextStyle::Bad, " checks failed".to_owned()));
        }
    }
    line
}

/// Returns the number of votes that count for an answer, in words.
pub(super) fn votes_text(ballot: &BallotView, answer: &BallotAnswer) -> String {
    count_noun(vote_count(ballot, answer), "vote")
}

fn vote_count(ballot: &BallotView, answer: &BallotAnswer) -> usize {
    let votes = ballot.current_votes();
    votes.filter(|vote| vote.label == answer.label).count()
}
