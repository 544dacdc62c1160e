//! The lines of the run so far, from the end.

use ratatui_core::layout::Rect;

use crate::cli::cell_text::{clean_line, format_clock};
use crate::cli::dashboard::canvas::Canvas;
use crate::cli::dashboard::line_history::LineEvent;
use crate::cli::dashboard::scene::Scene;
use crate::cli::output::{StyledLine, TextStyle};
use crate::cli::render::event_lines::event_line;
use crate::event::{CoordinationEvent, Event, PipelineEvent, RunEvent};
use crate::id::AgentId;
use crate::run_view::EventPosition;
use crate::run_view::tool_call::ToolCallView;
use crate::text::join_with_commas;
use crate::world::io::clock::milliseconds;

/// Draws the log.
pub(in crate::cli::dashboard) fn draw(
    scene: &Scene<'_>,
    canvas: &mut Canvas<'_>,
    area: Rect,
) -> usize {
    let height = usize::from(area.height);
    let needed_rows = scene.state.scroll.saturating_add(height);
    let lines_from_end = scene
        .history
        .events()
        .rev()
        .filter_map(|event| log_line(scene, event));
    let mut lines: Vec<StyledLine> = lines_from_end.take(needed_rows.saturating_add(1)).collect();
    let is_all = lines.len() <= needed_rows;
    lines.truncate(needed_rows);
    lines.reverse();
    let scroll_max = if is_all {
        lines.len().saturating_sub(height)
    } else {
        usize::MAX
    };
    let end = lines
        .len()
        .saturating_sub(scene.state.scroll.min(scroll_max));
    let visible_lines = lines
        .get(end.saturating_sub(height)..end)
        .unwrap_or_default();
    canvas.lines(area, visible_lines);
    scroll_max
}

fn log_line(scene: &Scene<'_>, entry: &LineEvent) -> Option<StyledLine> {
    let clock = format_clock(milliseconds(entry.elapsed));
    let time = (TextStyle::Faint, format!(" {clock} "));
    let position = EventPosition {
        seq: 0,
        elapsed_ms: milliseconds(entry.elapsed),
    };
    if let (Some(agent), Event::Tool(tool_event)) = (entry.event.agent(), &entry.event)
        && let Some(call) =
            ToolCallView::from_event(tool_event, scene.run.run().cwd.as_deref(), position)
    {
        return Some(vec![
            time,
            (TextStyle::AgentName, format!("[{agent}] ")),
            (TextStyle::Plain, clean_line(&call.sentence())),
        ]);
    }
    if let (Some(agent), Some(line)) = (entry.event.agent(), event_line(&entry.event)) {
        return Some(vec![
            time,
            (TextStyle::AgentName, format!("[{agent}] ")),
            (line.style, format!("{} ", line.verb)),
            (TextStyle::Plain, clean_line(&line.rest)),
        ]);
    }
    let (style, text) = run_line(&entry.event)?;
    Some(vec![time, (style, clean_line(&text))])
}

/// Describes an event that is not of one agent.
fn run_line(event: &Event) -> Option<(TextStyle, String)> {
    Some(match event {
        Event::Run(RunEvent::Warning { message }) => {
            (TextStyle::Warn, format!("warning: {message}"))
        }
        Event::Run(RunEvent::LimitMet { limit, .. }) => (TextStyle::Warn, limit.clone()),
        Event::Run(RunEvent::CoordinationRestarted { reason, .. }) => {
            (TextStyle::Warn, format!("starting again: {reason}"))
        }
        Event::Run(RunEvent::RunEnded { summary, .. }) => {
            (TextStyle::Strong, format!("ended: {summary}"))
        }
        Event::Run(RunEvent::UserMessage { agent, text, .. }) => {
            let to = agent.as_ref().map_or("all", AgentId::as_str);
            (TextStyle::Strong, format!("you to {to}: {text}"))
        }
        Event::Coordination(CoordinationEvent::VotesVoided { voters, .. }) => {
            let voters = join_with_commas(voters);
            (TextStyle::Faint, format!("votes void: {voters}"))
        }
        Event::Coordination(CoordinationEvent::WinnerSelected { agent, label, .. }) => {
            (TextStyle::Good, format!("winner: {agent} with {label}"))
        }
        Event::Pipeline(PipelineEvent::Works { role, .. }) => {
            (TextStyle::Strong, format!("stage: {role}"))
        }
        Event::Pipeline(PipelineEvent::Merged { role, .. }) => {
            (TextStyle::Good, format!("merged: {role}"))
        }
        Event::Pipeline(PipelineEvent::Refused { role, reason, .. }) => {
            (TextStyle::Warn, format!("not merged: {role}: {reason}"))
        }
        Event::Pipeline(_)
        | Event::Run(_)
        | Event::Model(_)
        | Event::Tool(_)
        | Event::Subagent(_)
        | Event::Coordination(_)
        | Event::Delivery(_) => return None,
    })
}
