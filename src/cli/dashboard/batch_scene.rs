//! The frame of a batch: how far it is, its money, the cells that run now, and what failed last.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use crate::batch::cell_state::{BatchCounts, CellState};
use crate::cli::batch_report::{
    BatchActivity, BatchReport, CellFailure, RunningCell, WatchedCells,
};
use crate::cli::dashboard::canvas::Canvas;
use crate::cli::dashboard::cell_text::{clean_line, columns, format_clock, pad};
use crate::cli::dashboard::theme::{CharacterSet, Theme};
use crate::cli::output::{StyledLine, TextStyle};
use crate::world::io::clock::{LocalDateTime, milliseconds};

/// Rows of the frame above the running cells: its title, the bar, the states, and a row that is
/// empty unless the money does not fit next to the title.
const HEADER_ROWS: u16 = 4;
/// Widths of the columns of cells, states and times.
const CELL_WIDTH: usize = 24;
const STATE_WIDTH: usize = 16;
const TIME_WIDTH: usize = 10;
/// Where the time of day is in a timestamp of ISO 8601, without fractions of a second.
const TIME_OF_DAY: std::ops::Range<usize> = 11..19;

/// What is drawn of a batch.
#[derive(Debug)]
pub(super) struct BatchScene<'s> {
    /// The batch.
    pub(super) report: &'s BatchReport,
    /// The cells to watch.
    pub(super) cells: &'s WatchedCells,
    /// The present.
    pub(super) now: &'s LocalDateTime,
}

impl BatchScene<'_> {
    /// Draws the frame.
    pub(super) fn draw(&self, frame: &mut Buffer, theme: Theme) {
        let mut canvas = Canvas::new(frame, theme);
        let area = canvas.area();
        let (title, money) = (self.title(), self.money());
        let pieces = title.iter().chain(&money);
        let width: usize = pieces.map(|(_, text)| columns(text)).sum();
        canvas.line(area, area.y, &title);
        if width <= usize::from(area.width) {
            canvas.line_at_right(area, area.y, &money);
        } else {
            canvas.line(area, area.y.saturating_add(3), &money);
        }
        let bar = progress_bar(&self.report.counts, area.width, theme.characters);
        canvas.line(area, area.y.saturating_add(1), &bar);
        canvas.line(
            area,
            area.y.saturating_add(2),
            &state_counts_row(&self.report.counts),
        );
        let body = Rect {
            y: area.y.saturating_add(HEADER_ROWS),
            height: area.height.saturating_sub(HEADER_ROWS).saturating_sub(1),
            ..area
        };
        let running_rows: Vec<StyledLine> = self
            .cells
            .running
            .iter()
            .map(|cell| self.running_row(cell))
            .collect();
        let failures: Vec<StyledLine> = self.cells.failures.iter().map(failure_row).collect();
        // Below an empty row and their title, failures get the rows that running cells leave, and
        // at least half of the body if they need it.
        let needed_rows = u16::try_from(failures.len())
            .unwrap_or(u16::MAX)
            .saturating_add(2);
        let running_area = Rect {
            height: body.height.saturating_sub(needed_rows.min(body.height / 2)),
            ..body
        };
        let used_rows = if self.report.activity == BatchActivity::Stopped {
            let text = format!(" nothing runs: {}", self.report.resume_command());
            canvas.line(running_area, running_area.y, &vec![(TextStyle::Warn, text)]);
            running_area.height.min(1)
        } else {
            let count = self.report.counts.running;
            draw_list(&mut canvas, running_area, "running", count, &running_rows)
        };
        let failures_area = Rect {
            y: body.y.saturating_add(used_rows).saturating_add(1),
            height: body.height.saturating_sub(used_rows).saturating_sub(1),
            ..body
        };
        draw_list(
            &mut canvas,
            failures_area,
            "failed last",
            failures.len(),
            &failures,
        );
        let keys = " q close  l lines  Ctrl-C close; the batch continues".to_owned();
        let last_row = area.bottom().saturating_sub(1);
        canvas.line(area, last_row, &vec![(TextStyle::Faint, keys)]);
    }

    fn title(&self) -> StyledLine {
        let report = self.report;
        let mut title = vec![
            (TextStyle::Strong, format!(" {}", report.batch)),
            (TextStyle::Plain, format!("  {}", clean_line(&report.tasks))),
        ];
        if report.is_cancelled {
            title.push((TextStyle::Bad, "  cancelled".to_owned()));
        }
        let pause = report.pause.iter();
        title.extend(pause.map(|pause| (TextStyle::Warn, format!("  {}", clean_line(pause)))));
        title
    }

    fn money(&self) -> StyledLine {
        let cost = self.report.spent.round_up();
        let Some(budget) = self.report.budget else {
            return vec![(TextStyle::Plain, format!("  ${cost} "))];
        };
        let style = if budget.taken >= budget.limit {
            TextStyle::Bad
        } else {
            TextStyle::Plain
        };
        let (taken, limit) = (budget.taken.round_up(), budget.limit);
        vec![(style, format!("  ${cost}, ${taken} taken, of ${limit} "))]
    }

    fn running_row(&self, cell: &RunningCell) -> StyledLine {
        let since = LocalDateTime::parse(&cell.since);
        let clock = since.map(|since| format_clock(milliseconds(self.now.since(&since))));
        let attempt = match cell.attempt {
            1 => String::new(),
            attempt => format!("  attempt {attempt}"),
        };
        let elapsed = pad(&clock.unwrap_or_default(), TIME_WIDTH);
        let host = clean_line(&cell.host);
        vec![
            (
                TextStyle::Strong,
                format!(" {}", pad(cell.id.as_str(), CELL_WIDTH)),
            ),
            (TextStyle::Plain, format!("{elapsed}{host}{attempt}")),
        ]
    }
}

fn failure_row(failure: &CellFailure) -> StyledLine {
    let style = match failure.state {
        CellState::Failed => TextStyle::Bad,
        CellState::Completed
        | CellState::Partial
        | CellState::Running
        | CellState::Parked
        | CellState::Held
        | CellState::OutOfMoney
        | CellState::Faulty
        | CellState::Waiting => TextStyle::Warn,
    };
    let at = failure.at.get(TIME_OF_DAY).unwrap_or_default();
    vec![
        (
            TextStyle::Strong,
            format!(" {}", pad(failure.id.as_str(), CELL_WIDTH)),
        ),
        (TextStyle::Faint, pad(at, TIME_WIDTH)),
        (style, pad(failure.state.label(), STATE_WIDTH)),
        (TextStyle::Plain, clean_line(&failure.reason)),
    ]
}

/// Draws the title of a list of `count` rows, and below it those that are known, as far as they
/// fit. Returns the number of rows that this takes.
fn draw_list(
    canvas: &mut Canvas<'_>,
    area: Rect,
    title: &str,
    count: usize,
    rows: &[StyledLine],
) -> u16 {
    if area.height == 0 || count == 0 {
        return 0;
    }
    let room = usize::from(area.height.saturating_sub(1));
    let shown_count = if count > room {
        room.saturating_sub(1).min(rows.len())
    } else {
        rows.len()
    };
    let mut lines = vec![vec![(TextStyle::Faint, format!(" {title}"))]];
    lines.extend(rows.iter().take(shown_count).cloned());
    let hidden_count = count.saturating_sub(shown_count);
    if hidden_count > 0 {
        lines.push(vec![(TextStyle::Faint, format!(" … {hidden_count} more"))]);
    }
    canvas.lines(area, &lines);
    u16::try_from(lines.len())
        .unwrap_or(u16::MAX)
        .min(area.height)
}

/// Returns the bar of finished cells, with their number at its end.
fn progress_bar(counts: &BatchCounts, width: u16, characters: CharacterSet) -> StyledLine {
    let (bar_mark, gap_mark) = match characters {
        CharacterSet::Unicode => ("█", "░"),
        CharacterSet::Ascii => ("#", "."),
    };
    let share = |part: usize, room: usize| {
        part.saturating_mul(room)
            .checked_div(counts.cells)
            .unwrap_or(0)
    };
    let finished_cells = counts.finished_count();
    let percent = share(finished_cells, 100);
    let text = format!("  {finished_cells} of {} cells, {percent}% ", counts.cells);
    let room = usize::from(width)
        .saturating_sub(columns(&text))
        .saturating_sub(1);
    let failed_columns = share(counts.failed, room);
    let partial_columns = share(counts.partial, room);
    let finished_columns = share(finished_cells, room);
    let completed_columns = finished_columns
        .saturating_sub(failed_columns)
        .saturating_sub(partial_columns);
    vec![
        (TextStyle::Plain, " ".to_owned()),
        (TextStyle::Good, bar_mark.repeat(completed_columns)),
        (TextStyle::Warn, bar_mark.repeat(partial_columns)),
        (TextStyle::Bad, bar_mark.repeat(failed_columns)),
        (
            TextStyle::Faint,
            gap_mark.repeat(room.saturating_sub(finished_columns)),
        ),
        (TextStyle::Plain, text),
    ]
}

/// Returns the number of cells in each state that has any.
fn state_counts_row(counts: &BatchCounts) -> StyledLine {
    let mut row = vec![(TextStyle::Plain, " ".to_owned())];
    for state in CellState::ALL {
        let number = counts.count(state);
        if number > 0 {
            let style = match state {
                CellState::Completed => TextStyle::Good,
                CellState::Partial
                | CellState::Held
                | CellState::OutOfMoney
                | CellState::Faulty => TextStyle::Warn,
                CellState::Failed => TextStyle::Bad,
                CellState::Running => TextStyle::Strong,
                CellState::Parked | CellState::Waiting => TextStyle::Plain,
            };
            row.push((style, format!("{number} {}", state.label())));
            row.push((TextStyle::Plain, "  ".to_owned()));
        }
    }
    row
}
