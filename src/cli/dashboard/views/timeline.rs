//! What each agent did when: a lane for each, on one scale, with a letter for each kind of action.

use crate::cli::cell_text::{format_clock, pad};
use crate::cli::dashboard::scene::Scene;
use crate::cli::output::{StyledLine, TextStyle};
use crate::run_view::timeline::{SpanKind, TimelineLane};

/// Width of the names of agents.
const NAME_WIDTH: usize = 18;
/// Minimum width of a lane.
const LANE_WIDTH_MIN: usize = 10;
/// What the signs mean.
const LEGEND: [&str; 2] = [
    "   = model  # tool  x denied  c check  A answer  V vote",
    "   waits: . to try again  - for other agents  ~ for its turn  ? for approval",
];

/// Returns the lines of the timeline.
pub(in crate::cli::dashboard) fn lines(scene: &Scene<'_>, width: u16) -> Vec<StyledLine> {
    let width = usize::from(width)
        .saturating_sub(NAME_WIDTH.saturating_add(2))
        .max(LANE_WIDTH_MIN);
    let end_ms = scene.now_ms.max(1);
    let end = format_clock(end_ms);
    let scale = format!("{:<1$}{end}", "00:00", width.saturating_sub(end.len()));
    let mut lines = vec![vec![
        (TextStyle::Plain, " ".repeat(NAME_WIDTH.saturating_add(1))),
        (TextStyle::Faint, scale),
    ]];
    let mut agent_lanes: Vec<&TimelineLane> = scene.run.timeline().lanes().iter().collect();
    agent_lanes.sort_by_key(|lane| scene.agent_position(&lane.agent));
    for lane in agent_lanes {
        let name = pad(lane.agent.as_str(), NAME_WIDTH);
        let mut line = vec![(TextStyle::AgentName, format!(" {name}"))];
        line.extend(lane_pieces(lane, width, end_ms));
        lines.push(line);
    }
    lines.push(Vec::new());
    let legend = LEGEND.iter();
    lines.extend(legend.map(|row| vec![(TextStyle::Faint, (*row).to_owned())]));
    lines
}

/// How a kind of span is drawn.
struct SpanSign {
    character: char,
    style: TextStyle,
    /// Its precedence over other kinds in the same cell.
    rank: u8,
}

fn sign(kind: SpanKind) -> SpanSign {
    let (character, style, rank) = match kind {
        SpanKind::OtherRole => ('~', TextStyle::Faint, 1),
        SpanKind::Others => ('-', TextStyle::Faint, 2),
        SpanKind::Wait => ('.', TextStyle::Warn, 3),
        SpanKind::Model => ('=', TextStyle::Faint, 4),
        SpanKind::Tool => ('#', TextStyle::Plain, 5),
        SpanKind::Check => ('c', TextStyle::Plain, 6),
        // A tool call takes the time of its approval, too.
        SpanKind::Approval => ('?', TextStyle::Warn, 7),
        SpanKind::Denied => ('x', TextStyle::Bad, 8),
        SpanKind::Vote => ('V', TextStyle::Good, 9),
        SpanKind::Answer => ('A', TextStyle::Good, 10),
    };
    SpanSign {
        character,
        style,
        rank,
    }
}

fn lane_pieces(lane: &TimelineLane, width: usize, end_ms: u64) -> StyledLine {
    let mut cells: Vec<Option<SpanKind>> = vec![None; width];
    let last_column = u64::try_from(width.saturating_sub(1)).unwrap_or_default();
    let column = |ms: u64| {
        let column = ms.min(end_ms).saturating_mul(last_column) / end_ms;
        usize::try_from(column).unwrap_or_default()
    };
    let spans = lane
        .spans
        .iter()
        .map(|span| (span.kind, span.from_ms, span.to_ms));
    let open_spans = lane
        .open
        .iter()
        .map(|span| (span.kind, span.from_ms, end_ms));
    for (kind, from_ms, to_ms) in spans.chain(open_spans) {
        let (from, to) = (column(from_ms), column(to_ms));
        for cell in cells.iter_mut().take(to.saturating_add(1)).skip(from) {
            let rank = cell.map_or(0, |kind| sign(kind).rank);
            if sign(kind).rank > rank {
                *cell = Some(kind);
            }
        }
    }
    let mut pieces = StyledLine::new();
    for cell in cells {
        let (character, style) = match cell.map(sign) {
            Some(sign) => (sign.character, sign.style),
            None => (' ', TextStyle::Plain),
        };
        match pieces.last_mut() {
            Some((last_style, text)) if *last_style == style => text.push(character),
            _ => pieces.push((style, character.to_string())),
        }
    }
    pieces
}
