//! The views that fill the body of the dashboard, from the model of the run. Each returns its
//! lines, or draws itself and returns how far it can be scrolled.

use ratatui_core::layout::Rect;

use crate::cli::dashboard::canvas::Canvas;
use crate::cli::output::StyledLine;

pub(super) mod agent;
pub(super) mod agent_lines;
pub(super) mod answers;
pub(super) mod ballot;
pub(super) mod changes;
pub(super) mod cost;
pub(super) mod help;
pub(super) mod log;
pub(super) mod overview;
pub(super) mod stages;
pub(super) mod timeline;
pub(super) mod votes;

/// Draws `lines` from the row `scroll` on. Returns how far they can be scrolled.
pub(super) fn draw_from_top(
    canvas: &mut Canvas<'_>,
    area: Rect,
    lines: &[StyledLine],
    scroll: usize,
) -> usize {
    let scroll_max = lines.len().saturating_sub(usize::from(area.height));
    let visible_lines = lines.get(scroll.min(scroll_max)..).unwrap_or_default();
    canvas.lines(area, visible_lines);
    scroll_max
}

/// Splits `area` into `count` columns of nearly equal width.
fn split_columns(area: Rect, count: usize) -> Vec<Rect> {
    split(area.x, area.width, count)
        .map(|(x, width)| Rect { x, width, ..area })
        .collect()
}

/// Splits `area` into `count` rows of nearly equal height.
fn split_rows(area: Rect, count: usize) -> Vec<Rect> {
    split(area.y, area.height, count)
        .map(|(y, height)| Rect { y, height, ..area })
        .collect()
}

/// Returns the beginnings and lengths of `count` parts of a length that begins at `start`.
fn split(start: u16, length: u16, count: usize) -> impl Iterator<Item = (u16, u16)> {
    let count = u16::try_from(count).unwrap_or(u16::MAX).max(1);
    let (length_min, longer_count) = (length / count, length % count);
    let mut next_start = start;
    (0..count).map(move |index| {
        let (begin, size) = (
            next_start,
            length_min.saturating_add(u16::from(index < longer_count)),
        );
        next_start = next_start.saturating_add(size);
        (begin, size)
    })
}
