//! The current answers side by side, as many as fit, from the selected one on, each with the checks
//! that it did not pass.

use ratatui_core::layout::Rect;

use crate::check_results::{CheckRequirement, CheckVerdict};
use crate::cli::cell_text::wrap_untrusted_text;
use crate::cli::dashboard::canvas::Canvas;
use crate::cli::dashboard::scene::Scene;
use crate::cli::dashboard::views::agent_lines::{checks_text, plan_progress};
use crate::cli::dashboard::views::ballot::votes_text;
use crate::cli::dashboard::views::{draw_from_top, split_columns};
use crate::cli::markdown_lines::markdown_lines;
use crate::cli::output::{StyledLine, TextStyle};
use crate::markdown::parse;
use crate::run_view::ballot::BallotAnswer;
use crate::text::join_with_commas;

/// Minimum width of an answer.
const ANSWER_WIDTH_MIN: u16 = 40;
/// Maximum length of an answer that is shown, in bytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of rows of the output of a check.
const OUTPUT_ROWS_MAX: usize = 8;

/// Draws the answers.
pub(in crate::cli::dashboard) fn draw(
    scene: &Scene<'_>,
    canvas: &mut Canvas<'_>,
    area: Rect,
) -> usize {
    let final_answer = scene.run.delivery().answer.as_deref();
    let answers: Vec<&BallotAnswer> = scene.run.ballot().current_answers().collect();
    if answers.is_empty() {
        let empty_line = vec![(TextStyle::Faint, " no answer yet".to_owned())];
        canvas.line(area, area.y, &empty_line);
        return 0;
    }
    let columns = usize::from((area.width / ANSWER_WIDTH_MIN).max(1));
    let first_max = answers.len().saturating_sub(columns);
    let first_answer = scene.state.answer_index.min(first_max);
    let visible_answers: Vec<(usize, &&BallotAnswer)> = answers
        .iter()
        .enumerate()
        .skip(first_answer)
        .take(columns)
        .collect();
    let mut scroll_max = 0;
    for ((index, answer), column) in visible_answers
        .iter()
        .zip(split_columns(area, visible_answers.len()))
    {
        let agent = scene.run.agent_index(&answer.agent).unwrap_or_default();
        let is_selected = *index == scene.state.answer_index;
        let mark = if is_selected { ">" } else { " " };
        let mut title = vec![
            (TextStyle::Strong, format!("{mark}{} ", answer.label)),
            (TextStyle::AgentName, format!("{} ", answer.agent)),
        ];
        if visible_answers.len() < answers.len() {
            let number = index.saturating_add(1);
            let position = format!("{number} of {} ", answers.len());
            title.push((TextStyle::Plain, position));
        }
        let style = if is_selected {
            TextStyle::AgentFrame(agent)
        } else {
            TextStyle::Faint
        };
        let inside = canvas.border(column, &title, style);
        let winner = scene.run.ballot().winner.as_ref();
        let is_winner = winner.is_some_and(|winner| winner.label == answer.label);
        let content = match final_answer {
            Some(content) if is_winner => content,
            _ => &answer.content,
        };
        let mut lines = vec![facts(scene, answer)];
        lines.extend(check_lines(answer, inside.width));
        if is_winner && final_answer.is_some() {
            lines.push(vec![(TextStyle::Good, "the final answer:".to_owned())]);
        }
        let end = content.floor_char_boundary(ANSWER_BYTES_MAX);
        let content = content.get(..end).unwrap_or_default();
        let rows = markdown_lines(&parse(content), usize::from(inside.width));
        lines.extend(rows);
        let answer_scroll_max = draw_from_top(canvas, inside, &lines, scene.state.scroll);
        scroll_max = scroll_max.max(answer_scroll_max);
    }
    scroll_max
}

/// Returns the checks that an answer did not pass, each with the end of its output, and an empty
/// row after them.
fn check_lines(answer: &BallotAnswer, width: u16) -> Vec<StyledLine> {
    let checks = answer.checks.iter().flat_map(|results| &results.checks);
    let mut lines = Vec::new();
    for check in checks.filter(|check| check.verdict != CheckVerdict::Passed) {
        let (sign, style) = match check.need {
            CheckRequirement::Required => ("x", TextStyle::Bad),
            CheckRequirement::Informational => ("!", TextStyle::Warn),
        };
        let text = format!("{sign} {} {}", check.check, check.verdict);
        lines.extend(wrap_untrusted_text(&text, "", style, width));
        if !check.tail.is_empty() {
            let output = wrap_untrusted_text(&check.tail, "  ", TextStyle::Faint, width);
            let hidden_rows = output.len().saturating_sub(OUTPUT_ROWS_MAX);
            lines.extend(output.into_iter().skip(hidden_rows));
        }
    }
    if !lines.is_empty() {
        lines.push(StyledLine::new());
    }
    lines
}

/// Returns the votes for an answer, its checks, what it changes, and who has seen it.
fn facts(scene: &Scene<'_>, answer: &BallotAnswer) -> StyledLine {
    let ballot = scene.run.ballot();
    let mut line = StyledLine::new();
    let winner = ballot.winner.as_ref();
    if winner.is_some_and(|winner| winner.label == answer.label) {
        line.push((TextStyle::Good, "* winner  ".to_owned()));
    }
    line.push((TextStyle::Plain, votes_text(ballot, answer)));
    if let Some((style, checks)) = checks_text(answer) {
        line.push((style, format!("  {checks}")));
    }
    let changes = answer.checks.as_ref().and_then(|results| results.changes);
    if let Some(changes) = changes {
        line.push((TextStyle::Plain, format!("  {changes}")));
    }
    if let Some(plan) = &answer.plan {
        line.push((TextStyle::Plain, format!("  plan {}", plan_progress(plan))));
    }
    if !answer.seen_by.is_empty() {
        let viewers = join_with_commas(&answer.seen_by);
        line.push((TextStyle::Faint, format!("  seen by {viewers}")));
    }
    line
}
