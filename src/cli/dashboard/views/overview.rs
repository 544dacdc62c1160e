//! The overview: a cell for each agent, side by side or in two rows, or a table with a row for each
//! if the cells would be too narrow.

use ratatui_core::layout::Rect;

use crate::cli::cell_text::{clean_line, format_count, pad};
use crate::cli::dashboard::canvas::Canvas;
use crate::cli::dashboard::scene::Scene;
use crate::cli::dashboard::views::agent::TranscriptRows;
use crate::cli::dashboard::views::agent_lines::{
    agent_state, call_line, checks_text, current_answer, plan_line, state_line, unread_text,
    winner_mark,
};
use crate::cli::dashboard::views::{split_columns, split_rows};
use crate::cli::output::{StyledLine, TextStyle};
use crate::run_view::agent::{AgentActivity, AgentView};

/// Minimum size of a cell.
const CELL_WIDTH_MIN: u16 = 36;
const CELL_HEIGHT_MIN: u16 = 5;
/// Maximum number of agents that have cells.
const CELLS_MAX: usize = 8;

/// How the agents are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OverviewLayout {
    /// A cell for each.
    Cells(Vec<Rect>),
    /// A row for each.
    Table,
}

/// Draws the overview.
pub(in crate::cli::dashboard) fn draw(
    scene: &Scene<'_>,
    canvas: &mut Canvas<'_>,
    area: Rect,
) -> usize {
    let agents = scene.run.agents();
    if agents.is_empty() {
        let starting_line = vec![(TextStyle::Faint, " the run starts".to_owned())];
        canvas.line(area, area.y, &starting_line);
        return 0;
    }
    match layout(area, agents.len()) {
        OverviewLayout::Cells(cells) => {
            let mut scroll_max = 0;
            for ((index, agent), cell) in agents.iter().enumerate().zip(cells) {
                let cell_scroll_max = draw_cell(scene, canvas, cell, index, agent);
                scroll_max = scroll_max.max(cell_scroll_max);
            }
            scroll_max
        }
        OverviewLayout::Table => {
            draw_table(scene, canvas, area);
            0
        }
    }
}

fn layout(area: Rect, count: usize) -> OverviewLayout {
    if count == 0 || count > CELLS_MAX {
        return OverviewLayout::Table;
    }
    let all_fit = |cells: &[Rect]| {
        let fits = |cell: &Rect| cell.width >= CELL_WIDTH_MIN && cell.height >= CELL_HEIGHT_MIN;
        cells.iter().all(fits)
    };
    let one_row = split_columns(area, count);
    if all_fit(&one_row) {
        return OverviewLayout::Cells(one_row);
    }
    let upper_count = count.div_ceil(2);
    let rows = split_rows(area, 2);
    let counts = [upper_count, count.saturating_sub(upper_count)];
    let two_rows: Vec<Rect> = rows
        .into_iter()
        .zip(counts)
        .flat_map(|(row, count)| split_columns(row, count).into_iter().take(count))
        .collect();
    if count > 1 && all_fit(&two_rows) {
        OverviewLayout::Cells(two_rows)
    } else {
        OverviewLayout::Table
    }
}

/// Draws the cell of an agent. Returns how far the selected one can be scrolled.
fn draw_cell(
    scene: &Scene<'_>,
    canvas: &mut Canvas<'_>,
    cell: Rect,
    index: usize,
    agent: &AgentView,
) -> usize {
    let is_selected = scene.state.agent_index == index;
    let mark = if is_selected { ">" } else { " " };
    let number = scene.run.agent_number(&agent.id);
    let mut title = vec![
        (TextStyle::Strong, format!("{mark}{number} ")),
        (TextStyle::AgentName, agent.id.to_string()),
    ];
    if let Some((style, winner)) = winner_mark(scene.run, agent) {
        title.push((style, format!("  {winner}")));
    }
    if let Some(model) = &agent.model {
        title.push((TextStyle::Plain, format!("  {}", clean_line(model))));
    }
    title.push((TextStyle::Plain, " ".to_owned()));
    let style = if scene.run.is_winner(&agent.id) {
        TextStyle::Good
    } else if is_selected {
        TextStyle::AgentFrame(index)
    } else {
        TextStyle::Faint
    };
    let inside = canvas.border(cell, &title, style);
    let mut lines = vec![state_line(scene.run, agent, scene.now_ms)];
    lines.extend(unread_text(scene.run, agent).map(|text| vec![text]));
    lines.extend(plan_line(agent));
    let height = usize::from(inside.height);
    let room = height.saturating_sub(lines.len());
    let scroll = if is_selected { scene.state.scroll } else { 0 };
    let rows = TranscriptRows::of_cell(agent, inside.width, scroll.saturating_add(room));
    let scroll_max = rows.scroll_max(room);
    lines.extend(rows.visible(room, scroll.min(scroll_max)).iter().cloned());
    canvas.lines(inside, &lines);
    if is_selected { scroll_max } else { 0 }
}

/// A column of the table.
struct TableColumn {
    title: &'static str,
    width: usize,
    /// Minimum width of a screen that shows it.
    screen_width_min: u16,
}

const fn column(title: &'static str, width: usize, screen_width_min: u16) -> TableColumn {
    TableColumn {
        title,
        width,
        screen_width_min,
    }
}

/// The columns of the table, except for the last one, which takes the rest of the width.
const TABLE_COLUMNS: [TableColumn; 8] = [
    column("#", 3, 0),
    column("agent", 16, 0),
    column("state", 24, 0),
    column("answer", 11, 56),
    column("vote", 11, 68),
    column("checks", 18, 100),
    column("tokens", 8, 88),
    column("model", 20, 130),
];

fn draw_table(scene: &Scene<'_>, canvas: &mut Canvas<'_>, area: Rect) {
    let titles: Vec<(TextStyle, String)> = TABLE_COLUMNS
        .iter()
        .map(|column| (TextStyle::Faint, column.title.to_owned()))
        .collect();
    let mut heading = table_row(area.width, titles);
    heading.push((TextStyle::Faint, "last".to_owned()));
    canvas.line(area, area.y, &heading);
    let rows = Rect {
        y: area.y.saturating_add(1),
        height: area.height.saturating_sub(1),
        ..area
    };
    let height = usize::from(rows.height);
    let agents = scene.run.agents();
    // The selected agent stays in sight.
    let first_row = scene
        .state
        .agent_index
        .saturating_sub(height.saturating_sub(1));
    let visible_agents = agents.iter().enumerate().skip(first_row);
    for ((index, agent), y) in visible_agents.zip(rows.y..rows.bottom()) {
        canvas.line(rows, y, &agent_row(scene, agent, area.width));
        if index == scene.state.agent_index {
            let selected_row = Rect {
                y,
                height: 1,
                ..rows
            };
            canvas.select(selected_row);
        }
    }
}

fn agent_row(scene: &Scene<'_>, agent: &AgentView, width: u16) -> StyledLine {
    let state = state_cell(scene, agent);
    let label = |label: Option<crate::id::AnswerLabel>| {
        let text = label.map(|label| label.to_string());
        (TextStyle::Plain, text.unwrap_or_default())
    };
    let checks = current_answer(scene.run, agent).and_then(checks_text);
    let model = agent.model.as_deref().map(clean_line);
    let tokens = format_count(agent.usage.usage.total_tokens());
    let mut row = table_row(
        width,
        vec![
            (
                TextStyle::Plain,
                scene.run.agent_number(&agent.id).to_string(),
            ),
            (TextStyle::AgentName, agent.id.to_string()),
            state,
            label(agent.answer),
            label(agent.vote),
            checks.unwrap_or((TextStyle::Plain, String::new())),
            (TextStyle::Plain, tokens),
            (TextStyle::Plain, model.unwrap_or_default()),
        ],
    );
    if let Some((style, unread)) = unread_text(scene.run, agent) {
        row.push((style, format!("{unread}  ")));
    }
    if let Some(call) = agent.calls.back() {
        row.extend(call_line(call));
    } else {
        let last_line = agent.reply_tail.last_line().map(clean_line);
        row.push((TextStyle::Faint, last_line.unwrap_or_default()));
    }
    row
}

/// Returns the state of `agent` for the table, whose other columns have its answer and its vote:
/// the mark of the winner, and what it still does.
fn state_cell(scene: &Scene<'_>, agent: &AgentView) -> (TextStyle, String) {
    let state = agent_state(agent, scene.now_ms);
    let text = format!("{} {}", state.sign, state.text);
    match winner_mark(scene.run, agent) {
        Some((style, winner)) if agent.activity == AgentActivity::Idle => {
            (style, winner.to_owned())
        }
        Some((style, winner)) => (style, format!("{winner} {text}")),
        None => (state.style, text),
    }
}

/// Returns the cells of a row that a screen of this width shows, each as wide as its column.
fn table_row(screen_width: u16, cells: Vec<(TextStyle, String)>) -> StyledLine {
    let columns = TABLE_COLUMNS.iter().zip(cells);
    columns
        .filter(|(column, _)| screen_width >= column.screen_width_min)
        .map(|(column, (style, text))| (style, pad(&text, column.width)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_have_cells_as_long_as_these_are_wide_enough() {
        #[track_caller]
        fn check(width: u16, height: u16, count: usize, expected: Option<usize>) {
            let actual = match layout(Rect::new(0, 0, width, height), count) {
                OverviewLayout::Cells(cells) => {
                    let top = cells.first().map(|cell| cell.y);
                    Some(cells.iter().filter(|cell| Some(cell.y) == top).count())
                }
                OverviewLayout::Table => None,
            };
            assert_eq!(actual, expected, "{count} agents on {width}x{height}");
        }
        check(80, 20, 1, Some(1));
        check(80, 20, 2, Some(2));
        check(80, 20, 3, Some(2));
        check(80, 20, 4, Some(2));
        check(80, 20, 5, None);
        check(108, 20, 3, Some(3));
        check(200, 45, 5, Some(5));
        check(200, 45, 8, Some(4));
        check(400, 45, 9, None);
        check(35, 20, 1, None);
        check(80, 9, 4, None);
        check(80, 20, 0, None);
    }
}
