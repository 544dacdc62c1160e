//! The changes of the delivery: under review the files with their diffs and the selection,
//! afterwards the outcome for each file.

use ratatui_core::layout::Rect;

use crate::cli::cell_text::{clean_line, wrap_styled_line};
use crate::cli::dashboard::canvas::Canvas;
use crate::cli::dashboard::delivery_review::DeliveryReview;
use crate::cli::dashboard::scene::Scene;
use crate::cli::dashboard::views::draw_from_top;
use crate::cli::output::{StyledLine, TextStyle};
use crate::cli::render::event_lines::{OutcomeText, delivered_path, delivery_outcome};
use crate::event::DeliveryRow;

/// Minimum width of a body in which the list of files is beside the diff; else it is above.
const SIDE_BY_SIDE_WIDTH_MIN: u16 = 90;
/// Maximum width of the list of files.
const LIST_WIDTH_MAX: u16 = 50;

/// Draws the changes.
pub(in crate::cli::dashboard) fn draw(
    scene: &Scene<'_>,
    canvas: &mut Canvas<'_>,
    area: Rect,
) -> usize {
    let question = scene.questions.first();
    if let Some(review) = question.and_then(|question| question.review.as_ref()) {
        return draw_review(scene, canvas, area, review);
    }
    let lines = outcome_lines(scene);
    let rows: Vec<StyledLine> = lines
        .iter()
        .flat_map(|line| wrap_styled_line(line, area.width))
        .collect();
    draw_from_top(canvas, area, &rows, scene.state.scroll)
}

fn draw_review(
    scene: &Scene<'_>,
    canvas: &mut Canvas<'_>,
    area: Rect,
    review: &DeliveryReview,
) -> usize {
    let (list, diff) = split_body(area, review.files.len());
    let height = usize::from(list.height);
    let first_file = review.file_index.saturating_sub(height.saturating_sub(1));
    let visible_files = review.files.iter().enumerate().skip(first_file);
    for ((index, file), y) in visible_files.zip(list.y..list.bottom()) {
        canvas.line(list, y, &file.list_line());
        if index == review.file_index {
            canvas.select(Rect {
                y,
                height: 1,
                ..list
            });
        }
    }
    let Some(file) = review.current_file() else {
        return 0;
    };
    let title = vec![(TextStyle::Strong, format!(" {} ", file.name))];
    let inside = canvas.border(diff, &title, TextStyle::Faint);
    let (lines, hunk_line) = file.diff_lines(review.hunk_index);
    let (mut rows, mut hunk_row) = (Vec::new(), 0);
    for (index, line) in lines.iter().enumerate() {
        if index == hunk_line {
            hunk_row = rows.len();
        }
        rows.extend(wrap_styled_line(line, inside.width));
    }
    let scroll = hunk_row.saturating_add(scene.state.scroll);
    let scroll_max = draw_from_top(canvas, inside, &rows, scroll);
    scroll_max.saturating_sub(hunk_row)
}

/// Splits the body into the list of files and the diff.
fn split_body(area: Rect, file_count: usize) -> (Rect, Rect) {
    if area.width >= SIDE_BY_SIDE_WIDTH_MIN {
        let width = (area.width / 3).min(LIST_WIDTH_MAX);
        let diff = Rect {
            x: area.x.saturating_add(width),
            width: area.width.saturating_sub(width),
            ..area
        };
        return (Rect { width, ..area }, diff);
    }
    let file_rows = u16::try_from(file_count).unwrap_or(u16::MAX);
    let height = file_rows.min(area.height / 3).max(1);
    let diff = Rect {
        y: area.y.saturating_add(height),
        height: area.height.saturating_sub(height),
        ..area
    };
    (Rect { height, ..area }, diff)
}

fn outcome_line(row: &DeliveryRow) -> StyledLine {
    let OutcomeText { style, word, note } = delivery_outcome(&row.outcome);
    let path = delivered_path(row, &note);
    vec![(style, format!("   {word:<12} ")), (TextStyle::Plain, path)]
}

fn outcome_lines(scene: &Scene<'_>) -> Vec<StyledLine> {
    let delivery = scene.run.delivery();
    let mut lines = Vec::new();
    match &delivery.rows {
        None => {
            let none = " no delivery yet: what the winner changes appears here";
            lines.push(vec![(TextStyle::Faint, none.to_owned())]);
        }
        Some(rows) if rows.is_empty() => {
            lines.push(vec![(
                TextStyle::Faint,
                " no file was delivered".to_owned(),
            )]);
        }
        Some(rows) => {
            let (delivered, others): (Vec<_>, Vec<_>) =
                rows.iter().partition(|row| row.outcome.is_delivered());
            for (title, rows) in [(" Delivered", delivered), (" Not delivered", others)] {
                if !rows.is_empty() {
                    lines.push(vec![(TextStyle::Strong, title.to_owned())]);
                }
                lines.extend(rows.into_iter().map(outcome_line));
            }
        }
    }
    if !delivery.checks.is_empty() {
        lines.push(Vec::new());
        let title = " Checks after the delivery".to_owned();
        lines.push(vec![(TextStyle::Strong, title)]);
    }
    for check in &delivery.checks {
        let word = check.verdict.word();
        let style = if word == "passed" {
            TextStyle::Good
        } else {
            TextStyle::Bad
        };
        lines.push(vec![
            (style, format!("   {word:<12} ")),
            (TextStyle::Plain, clean_line(&check.check)),
        ]);
    }
    lines
}
