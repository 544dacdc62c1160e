//! The votes with their reasons, also those that became void, and what decided.

use crate::cli::cell_text::wrap_untrusted_text;
use crate::cli::dashboard::scene::Scene;
use crate::cli::dashboard::views::agent_lines::checks_text;
use crate::cli::dashboard::views::ballot::votes_text;
use crate::cli::output::{StyledLine, TextStyle};
use crate::id::AgentId;

/// Indentation of a reason.
const INDENT: &str = "     ";

/// Returns the lines of the current answers, the winner with what decided, and all votes.
pub(in crate::cli::dashboard) fn lines(scene: &Scene<'_>, width: u16) -> Vec<StyledLine> {
    let ballot = scene.run.ballot();
    let name = |agent: &AgentId| (TextStyle::AgentName, agent.to_string());
    let mut lines = vec![vec![(TextStyle::Strong, " Answers".to_owned())]];
    for answer in ballot.current_answers() {
        let mut line = vec![
            (TextStyle::Plain, format!("   {} ", answer.label)),
            name(&answer.agent),
            (
                TextStyle::Plain,
                format!("  {}", votes_text(ballot, answer)),
            ),
        ];
        if let Some((style, checks)) = checks_text(answer) {
            line.push((style, format!("  {checks}")));
        }
        lines.push(line);
    }
    if let Some(winner) = &ballot.winner {
        lines.push(Vec::new());
        let text = format!(" + {} wins with {}:", winner.agent, winner.label);
        let reason = format!(" {}", winner.reason.text());
        lines.push(vec![(TextStyle::Good, text), (TextStyle::Plain, reason)]);
    }
    lines.push(Vec::new());
    lines.push(vec![(TextStyle::Strong, " Votes".to_owned())]);
    if ballot.votes.is_empty() {
        lines.push(vec![(TextStyle::Faint, "   no vote yet".to_owned())]);
    }
    for vote in &ballot.votes {
        let mut line = vec![
            (TextStyle::Plain, "   ".to_owned()),
            name(&vote.voter),
            (TextStyle::Plain, format!(" -> {} ", vote.label)),
            name(&vote.candidate),
        ];
        if vote.is_void {
            let cause = match vote.voiding_message {
                Some(_) => "your message",
                None => "a new answer",
            };
            line.push((TextStyle::Warn, format!("  void: {cause} came")));
        }
        lines.push(line);
        let style = if vote.is_void {
            TextStyle::Faint
        } else {
            TextStyle::Plain
        };
        lines.extend(wrap_untrusted_text(&vote.reason, INDENT, style, width));
    }
    lines
}
