//! One agent in full: everything that it said and did, scrolled from the end. Reasoning and the
//! results of tools can be folded, and text can be searched.

use ratatui_core::layout::Rect;

use crate::cli::cell_text::{clean_line, columns, format_clock, wrap_untrusted_text};
use crate::cli::dashboard::canvas::Canvas;
use crate::cli::dashboard::scene::Scene;
use crate::cli::dashboard::view_state::ViewState;
use crate::cli::dashboard::views::agent_lines::{plan_lines, state_line, unread_text, winner_mark};
use crate::cli::markdown_lines::markdown_lines;
use crate::cli::output::{StyledLine, TextStyle};
use crate::cli::render::event_lines::usage_text;
use crate::markdown::parse;
use crate::run_view::agent::AgentView;
use crate::run_view::transcript::{EntryKind, TranscriptEntry};
use crate::text::count_noun;

/// Maximum number of steps of a plan that are shown.
const PLAN_ROWS_MAX: usize = 8;

/// Draws the selected agent.
pub(in crate::cli::dashboard) fn draw(
    scene: &Scene<'_>,
    canvas: &mut Canvas<'_>,
    area: Rect,
) -> usize {
    let index = scene.state.agent_index;
    let Some(agent) = scene.run.agents().get(index) else {
        return 0;
    };
    let number = scene.run.agent_number(&agent.id);
    let mut title = vec![
        (TextStyle::Strong, format!(" {number} ")),
        (TextStyle::AgentName, agent.id.to_string()),
    ];
    if let Some((style, winner)) = winner_mark(scene.run, agent) {
        title.push((style, format!("  {winner}")));
    }
    if let Some(model) = &agent.model {
        title.push((TextStyle::Plain, format!("  {}", clean_line(model))));
    }
    if let Some(usage) = usage_text(&agent.usage) {
        title.push((TextStyle::Faint, format!("  {usage}")));
    }
    title.push((TextStyle::Plain, " ".to_owned()));
    let inside = canvas.border(area, &title, TextStyle::AgentFrame(index));
    let mut state = state_line(scene.run, agent, scene.now_ms);
    if let Some((style, unread)) = unread_text(scene.run, agent) {
        state.push((style, format!("  {unread}")));
    }
    canvas.line(inside, inside.y, &state);
    let inside = below_first_rows(inside, 1);
    let plan = plan_lines(agent, plan_rows_max(inside.height));
    canvas.lines(inside, &plan);
    let inside = below_first_rows(inside, plan.len());
    let height = usize::from(inside.height);
    let needed_rows = scene.state.scroll.saturating_add(height);
    let rows = TranscriptRows::from_end(agent, scene.state, inside.width, needed_rows);
    let scroll_max = rows.scroll_max(height);
    let visible_rows = rows.visible(height, scene.state.scroll.min(scroll_max));
    canvas.lines(inside, visible_rows);
    if let Some(search) = &scene.state.search {
        for (line, y) in visible_rows.iter().zip(inside.y..inside.bottom()) {
            if contains(line, search.text.as_str()) {
                canvas.select(Rect {
                    y,
                    height: 1,
                    ..inside
                });
            }
        }
    }
    scroll_max
}

/// Returns the offset from the end at which the next older row with the text of the search is
/// visible; `None` if there is none.
pub(in crate::cli::dashboard) fn find_older(
    agent: &AgentView,
    state: &ViewState,
    body: Rect,
) -> Option<usize> {
    let search = state.search.as_ref()?;
    let width = body.width.saturating_sub(2);
    let rows = TranscriptRows::from_end(agent, state, width, usize::MAX);
    let from_end = rows.lines.iter().rev().enumerate();
    let matches: Vec<usize> = from_end
        .filter(|(_, line)| contains(line, search.text.as_str()))
        .map(|(offset, _)| offset)
        .collect();
    // The border has two rows, and the state of the agent one.
    let rows_below_state = body.height.saturating_sub(3);
    let plan_rows = plan_lines(agent, plan_rows_max(rows_below_state)).len();
    let height = usize::from(rows_below_state).saturating_sub(plan_rows);
    // A match above the visible rows; after the oldest match, the newest one again.
    let offset_min = state.scroll.saturating_add(height);
    let older = matches.iter().find(|offset| **offset >= offset_min);
    let offset = older.or_else(|| matches.first())?;
    Some(offset.saturating_sub(height / 2))
}

/// Returns the maximum number of steps of a plan that are shown above a transcript, if both have so
/// many rows.
fn plan_rows_max(rows: u16) -> usize {
    usize::from(rows / 3).min(PLAN_ROWS_MAX)
}

fn below_first_rows(area: Rect, rows: usize) -> Rect {
    let rows = u16::try_from(rows).unwrap_or(u16::MAX).min(area.height);
    Rect {
        y: area.y.saturating_add(rows),
        height: area.height.saturating_sub(rows),
        ..area
    }
}

fn contains(line: &StyledLine, text: &str) -> bool {
    let line_text: String = line.iter().map(|(_, piece)| piece.as_str()).collect();
    !text.is_empty() && line_text.to_lowercase().contains(&text.to_lowercase())
}

/// The end of a transcript in rows.
pub(super) struct TranscriptRows {
    lines: Vec<StyledLine>,
    extent: RowsExtent,
}

/// How much of a transcript the rows are.
enum RowsExtent {
    /// All of it.
    All,
    /// Its end only.
    End,
}

impl TranscriptRows {
    /// Returns at least `needed_rows` rows from the end, or all.
    fn from_end(agent: &AgentView, state: &ViewState, width: u16, needed_rows: usize) -> Self {
        Self::collect(agent, needed_rows, |entry| entry_lines(entry, state, width))
    }

    /// Like [`Self::from_end`], for the narrow cell of an agent: without times, and with the
    /// results of calls in the lines of these.
    pub(super) fn of_cell(agent: &AgentView, width: u16, needed_rows: usize) -> Self {
        Self::collect(agent, needed_rows, |entry| cell_lines(entry, width))
    }

    /// Returns how far a view of this height can be scrolled from the end.
    pub(super) fn scroll_max(&self, height: usize) -> usize {
        match self.extent {
            RowsExtent::All => self.lines.len().saturating_sub(height),
            RowsExtent::End => usize::MAX,
        }
    }

    /// Returns the rows of a view of this height that is scrolled from the end.
    pub(super) fn visible(&self, height: usize, scroll: usize) -> &[StyledLine] {
        let end = self.lines.len().saturating_sub(scroll);
        let begin = end.saturating_sub(height);
        self.lines.get(begin..end).unwrap_or_default()
    }

    fn collect(
        agent: &AgentView,
        needed_rows: usize,
        lines_of: impl Fn(&TranscriptEntry) -> Vec<StyledLine>,
    ) -> Self {
        let mut blocks = Vec::new();
        let mut count = 0_usize;
        let mut extent = RowsExtent::All;
        for entry in agent.transcript.entries().rev() {
            if count >= needed_rows {
                extent = RowsExtent::End;
                break;
            }
            let block = lines_of(entry);
            count = count.saturating_add(block.len());
            blocks.push(block);
        }
        let dropped_count = agent.transcript.dropped_count();
        if matches!(extent, RowsExtent::All) && dropped_count > 0 {
            let dropped_count = usize::try_from(dropped_count).unwrap_or(usize::MAX);
            let text = format!("{} not kept here", count_noun(dropped_count, "older entry"));
            blocks.push(vec![vec![(TextStyle::Faint, text)]]);
        }
        blocks.reverse();
        Self {
            lines: blocks.concat(),
            extent,
        }
    }
}

/// Returns the style and the sign of an entry.
fn entry_style(kind: EntryKind) -> (TextStyle, &'static str) {
    match kind {
        EntryKind::Text => (TextStyle::Plain, "  "),
        EntryKind::Reasoning => (TextStyle::Faint, "~ "),
        EntryKind::Call => (TextStyle::Strong, "> "),
        EntryKind::Result => (TextStyle::Faint, "+ "),
        EntryKind::Failure => (TextStyle::Warn, "! "),
        EntryKind::Denial => (TextStyle::Bad, "x "),
        EntryKind::Note => (TextStyle::Good, "* "),
    }
}

/// Returns the Markdown of a reply in rows after `indent`.
fn reply_lines(text: &str, indent: &str, width: u16) -> Vec<StyledLine> {
    let room = usize::from(width).saturating_sub(columns(indent)).max(1);
    let mut rows = markdown_lines(&parse(text), room);
    for row in &mut rows {
        row.insert(0, (TextStyle::Plain, indent.to_owned()));
    }
    rows
}

/// Returns the rows of an entry in a cell.
fn cell_lines(entry: &TranscriptEntry, width: u16) -> Vec<StyledLine> {
    let (style, sign) = entry_style(entry.kind);
    match entry.kind {
        EntryKind::Text => reply_lines(&entry.text, "", width),
        // The line of the call says how it ended.
        EntryKind::Result | EntryKind::Failure | EntryKind::Denial => Vec::new(),
        EntryKind::Reasoning | EntryKind::Call | EntryKind::Note => {
            let style = if entry.kind == EntryKind::Call {
                TextStyle::Plain
            } else {
                style
            };
            let mut rows = wrap_untrusted_text(&entry.text, "  ", style, width);
            if let Some((_, indent)) = rows.first_mut().and_then(|row| row.first_mut()) {
                sign.clone_into(indent);
            }
            rows
        }
    }
}

fn entry_lines(entry: &TranscriptEntry, state: &ViewState, width: u16) -> Vec<StyledLine> {
    let is_folded = match entry.kind {
        EntryKind::Reasoning => state.folds_reasoning,
        EntryKind::Result | EntryKind::Failure => state.folds_results,
        EntryKind::Text | EntryKind::Call | EntryKind::Denial | EntryKind::Note => false,
    };
    let (style, sign) = entry_style(entry.kind);
    let time = format_clock(entry.at_ms);
    let indent = " ".repeat(time.len().saturating_add(3));
    if is_folded {
        let lines = count_noun(entry.text.lines().count(), "line");
        let text = format!("({lines} folded)");
        return vec![vec![
            (TextStyle::Faint, format!("{time} ")),
            (style, format!("{sign}{text}")),
        ]];
    }
    let mut lines = if entry.kind == EntryKind::Text {
        reply_lines(&entry.text, &indent, width)
    } else {
        wrap_untrusted_text(&entry.text, &indent, style, width)
    };
    if let Some(first_line) = lines.first_mut()
        && let Some(prefix) = first_line.first_mut()
    {
        *prefix = (TextStyle::Faint, format!("{time} {sign}"));
    }
    lines
}
