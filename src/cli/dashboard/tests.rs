//! Frames of the dashboard: what it draws of events, at several sizes, with their styles. One
//! snapshot for each case.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ratatui_core::backend::{Backend as _, TestBackend};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use serde_json::{Value, json};

use super::*;
use crate::cli::cell_text;
use crate::cli::dashboard::theme::{CharacterSet, Theme};
use crate::cli::dashboard::typed_text::TypedText;
use crate::cli::dashboard::view_state::{ComposerLine, ComposerPurpose};
use crate::cli::output::ColourChoice;
use crate::spending::limits::BudgetLimits;
use crate::spending::money::Money;

/// Time between two events, in milliseconds.
const STEP_MS: u64 = 400;

const COLOURS: Theme = Theme {
    colours: ColourChoice::Terminals,
    characters: CharacterSet::Unicode,
};
const NO_COLOURS: Theme = Theme {
    colours: ColourChoice::Never,
    characters: CharacterSet::Unicode,
};
const ASCII: Theme = Theme {
    colours: ColourChoice::Never,
    characters: CharacterSet::Ascii,
};

/// A frame to draw.
struct Case {
    name: &'static str,
    size: (u16, u16),
    events: Vec<Value>,
    state: ViewState,
    theme: Theme,
    is_record: bool,
}

impl Case {
    fn new(name: &'static str, size: (u16, u16), events: Vec<Value>) -> Self {
        Self {
            name,
            size,
            events,
            state: ViewState::default(),
            theme: COLOURS,
            is_record: false,
        }
    }

    fn view(mut self, view: OpenView) -> Self {
        self.state.view = view;
        self
    }

    fn theme(self, theme: Theme) -> Self {
        Self { theme, ..self }
    }

    fn draw(&self) -> Buffer {
        let (mut run, mut history) = (RunView::default(), LineHistory::default());
        for (number, event) in (1..).zip(&self.events) {
            let event: Event = serde_json::from_value(event.clone()).unwrap();
            let elapsed_ms = number * STEP_MS;
            run.apply_next(&event, elapsed_ms);
            history.push(&event, Duration::from_millis(elapsed_ms));
        }
        let scene = Scene {
            now_ms: run.run().elapsed_ms + 1500,
            run: &run,
            history: &history,
            state: &self.state,
            questions: &[],
            limits: BudgetLimits {
                cost: Money::from_dollars("0.50"),
                tokens: None,
                tool_calls: None,
                user_limits: None,
            },
            is_over: false,
            is_record: self.is_record,
        };
        let (width, height) = self.size;
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        scene.draw(&mut buffer, self.theme);
        buffer
    }
}

/// Returns the text of a frame, and below it the cells of each row that have a style.
fn describe(buffer: &Buffer) -> String {
    let mut backend = TestBackend::new(buffer.area.width, buffer.area.height);
    let blank = Buffer::empty(buffer.area);
    backend.draw(blank.diff(buffer).into_iter()).unwrap();
    let frame = backend.buffer();
    let (mut rows, mut styles) = (Vec::new(), Vec::new());
    for y in 0..frame.area.height {
        let cells: Vec<&Cell> = (0..frame.area.width).map(|x| &frame[(x, y)]).collect();
        let mut row = String::new();
        let mut x = 0;
        while let Some(cell) = cells.get(x) {
            row.push_str(cell.symbol());
            x += cell_text::columns(cell.symbol()).max(1);
        }
        rows.push(row.trim_end().to_owned());
        styles.push(style_runs(&cells).join(", "));
    }
    format!("{}--- styles\n{}", number_rows(&rows), number_rows(&styles))
}

/// Returns rows with their numbers; equal rows after each other are one.
fn number_rows(rows: &[String]) -> String {
    let mut out = String::new();
    let mut begin = 0;
    for same in rows.chunk_by(|one, other| one == other) {
        let end = begin + same.len() - 1;
        let range = if begin == end {
            begin.to_string()
        } else {
            format!("{begin}-{end}")
        };
        if !same[0].is_empty() {
            writeln!(out, "{range:>5} {}", same[0]).unwrap();
        }
        begin = end + 1;
    }
    out
}

fn style_runs(cells: &[&Cell]) -> Vec<String> {
    let mut runs: Vec<(usize, usize, String)> = Vec::new();
    for (x, cell) in cells.iter().enumerate() {
        let name = style_name(cell);
        match runs.last_mut() {
            Some((_, end, last)) if *last == name && *end + 1 == x => *end = x,
            _ => runs.push((x, x, name)),
        }
    }
    runs.retain(|(_, _, name)| !name.is_empty());
    let runs = runs.into_iter();
    runs.map(|(begin, end, name)| format!("{begin}-{end} {name}"))
        .collect()
}

fn style_name(cell: &Cell) -> String {
    let mut words = Vec::new();
    if cell.fg != Color::Reset {
        words.push(format!("{:?}", cell.fg).to_lowercase());
    }
    for (modifier, word) in [
        (Modifier::BOLD, "bold"),
        (Modifier::DIM, "dim"),
        (Modifier::UNDERLINED, "underlined"),
        (Modifier::REVERSED, "reversed"),
    ] {
        if cell.modifier.contains(modifier) {
            words.push(word.to_owned());
        }
    }
    words.join(" ")
}

fn start_event(agents: &[&str]) -> Value {
    json!({"type": "run_started", "question": "Add a --verbose flag to the tool and test it",
        "agents": agents, "restart": 0})
}

fn team(count: usize) -> Value {
    let names: Vec<String> = (1..=count)
        .map(|number| format!("agent-{number:02}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    start_event(&names)
}

fn request_event(agent: &str) -> Value {
    json!({"type": "model_request_started", "agent": agent, "model": "gpt-5"})
}

fn finish_event(agent: &str) -> Value {
    json!({"type": "model_request_finished", "agent": agent, "model": "gpt-5",
        "phase": "coordination", "input_tokens": 12000, "cached_tokens": 800,
        "cache_write_tokens": 0, "output_tokens": 700, "reasoning_tokens": 0,
        "cost_usd": 0.0215, "elapsed_ms": 900})
}

fn text(agent: &str, text: &str) -> Value {
    json!({"type": "text", "agent": agent, "text": text})
}

fn call_event(agent: &str, id: &str, tool: &str, denied: Option<&str>) -> Value {
    json!({"type": "tool_called", "agent": agent, "call_id": id, "tool": tool,
        "arguments": "{\"path\":\"src/main.rs\"}", "denied": denied,
        "rule": denied.map(|_| "permissions.yaml:7")})
}

fn return_event(agent: &str, id: &str, tool: &str, success: bool) -> Value {
    json!({"type": "tool_finished", "agent": agent, "call_id": id, "tool": tool,
        "success": success, "denied": false, "summary": "wrote 31 lines", "elapsed_ms": 12})
}

fn approval(agent: &str) -> Value {
    json!({"type": "approval", "agent": agent, "call_id": "c", "tool": "execute_command",
        "effects": ["run `rm -r target`"], "reason": "a rule", "answer": null})
}

fn plan_event(agent: &str) -> Value {
    json!({"type": "plan_updated", "agent": agent, "entries": [
        {"content": "read the parser", "status": "completed"},
        {"content": "add the flag\u{1b}[31m", "status": "in_progress"},
        {"content": "test it", "status": "pending"},
    ]})
}

fn answer_event(agent: &str, label: &str, verdict: Option<&str>) -> Value {
    let check = |verdict: &str| {
        let tail = if verdict == "failed" {
            "expected 3, found 4"
        } else {
            ""
        };
        json!({"checks": [{"check": "tests", "need": "required", "verdict": verdict,
            "how": "exit status 1", "tail": tail, "elapsed_ms": 5}], "changes": null})
    };
    json!({"type": "answered", "agent": agent, "label": label,
        "content": "I added the flag to the parser.\n\nIt sets the log level, and two tests cover it.",
        "snapshot": "/s", "evidence": verdict.map(check)})
}

fn vote_event(agent: &str, candidate: &str, label: &str) -> Value {
    json!({"type": "voted", "agent": agent, "candidate": candidate, "label": label,
        "reason": "It is smaller, and its tests cover the error as well."})
}

fn void_event(voters: &[&str]) -> Value {
    json!({"type": "votes_voided", "voters": voters})
}

fn winner(agent: &str, label: &str, votes: &[(&str, u32)]) -> Value {
    let is_tie = matches!(votes, [(_, first), (_, second)] if first == second);
    let reason = if is_tie { "first_of_tie" } else { "most_votes" };
    json!({
        "type": "winner_selected", "agent": agent, "label": label, "reason": reason, "votes": votes
    })
}

/// Personas are written before the first round.
fn preparing() -> Vec<Value> {
    vec![
        start_event(&["careful", "quick"]),
        json!({"type": "subagent_started", "agent": "careful", "call_id": "preparation",
            "subagent": "personas", "task": "write personas for 2 agents"}),
    ]
}

/// Three agents at work: tools, speech and an answer.
fn at_work() -> Vec<Value> {
    vec![
        start_event(&["careful", "quick", "third"]),
        request_event("careful"),
        request_event("quick"),
        request_event("third"),
        text("careful", "The parser needs a new flag. I read it first.\n"),
        plan_event("careful"),
        call_event("careful", "1", "read_file", None),
        return_event("careful", "1", "read_file", true),
        call_event(
            "careful",
            "2",
            "write_file",
            Some("outside of your write paths"),
        ),
        finish_event("careful"),
        answer_event("careful", "agent1.1", Some("passed")),
        text("quick", "The log level belongs to the config, so I would "),
        text("quick", "rather add a key there and let the flag set it.\n"),
        call_event("quick", "3", "execute_command", None),
        json!({"type": "reasoning", "agent": "third", "text": "What does main do with it?"}),
    ]
}

/// All answers and votes of a run with a void vote.
fn decided_run() -> Vec<Value> {
    vec![
        start_event(&["careful", "quick", "third"]),
        request_event("careful"),
        finish_event("careful"),
        answer_event("careful", "agent1.1", Some("passed")),
        answer_event("quick", "agent2.1", Some("failed")),
        vote_event("third", "quick", "agent2.1"),
        answer_event("careful", "agent1.2", Some("passed")),
        void_event(&["third"]),
        json!({"type": "answers_shown", "agent": "third", "labels": ["agent1.2"]}),
        vote_event("third", "careful", "agent1.2"),
        vote_event("quick", "careful", "agent1.2"),
        winner("careful", "agent1.2", &[("careful", 2), ("quick", 0)]),
    ]
}

fn tie() -> Vec<Value> {
    vec![
        start_event(&["careful", "quick"]),
        answer_event("careful", "agent1.1", None),
        answer_event("quick", "agent2.1", None),
        vote_event("careful", "quick", "agent2.1"),
        vote_event("quick", "careful", "agent1.1"),
        winner("careful", "agent1.1", &[("careful", 1), ("quick", 1)]),
        json!({"type": "final_started", "agent": "careful"}),
    ]
}

fn troubled_run() -> Vec<Value> {
    vec![
        start_event(&["careful", "quick"]),
        request_event("careful"),
        json!({"type": "retrying", "agent": "careful", "reason": "busy", "wait_ms": 12000}),
        json!({"type": "dropped_out", "agent": "quick", "reason": "no key", "timed_out": false}),
        json!({"type": "limit_met", "agent": null, "limit": "the run may use $0.50"}),
        json!({"type": "coordination_stopped", "status": "limit"}),
    ]
}

fn delivered_run() -> Vec<Value> {
    let mut events = tie();
    events.extend([
        json!({"type": "final_answer", "agent": "careful", "content": "The flag is there."}),
        json!({"type": "delivered", "rows": [
            {"path": "src/main.rs", "outcome": "changed"},
            {"path": "src/new.rs", "outcome": "created"},
            {"path": "Cargo.lock", "outcome": "denied", "reason": "protected"}]}),
    ]);
    events
}

/// A pipeline whose first role is done, whose second one must repair its work, and whose third one
/// works.
fn pipeline_run() -> Vec<Value> {
    let works = |role: &str, stage: u32, agents: &[&str]| {
        json!({"type": "pipeline", "step": "works", "iteration": 1, "role": role, "stage": stage,
            "stages": 3, "agents": agents})
    };
    vec![
        start_event(&["understand", "ann", "ben", "tester"]),
        works("understand", 1, &["understand"]),
        json!({"type": "pipeline", "step": "merged", "iteration": 1, "role": "understand",
            "commit": "0123456789abcdef", "files": 1}),
        works("implementer", 2, &["ann", "ben"]),
        json!({"type": "pipeline", "step": "refused", "role": "implementer",
            "reason": "the check `tests` does not pass", "tried": 1, "tries_max": 3}),
        works("tester", 3, &["tester"]),
    ]
}

/// Text in many scripts, and text that a terminal would obey.
fn foreign() -> Vec<Value> {
    vec![
        start_event(&["careful", "quick"]),
        request_event("careful"),
        text(
            "careful",
            "日本語のテキストは二桁ずつ進むので、端で切れない。\n",
        ),
        text(
            "careful",
            "e\u{301}te\u{301} 👩\u{200d}👩\u{200d}👧 مرحبا\ttab\n",
        ),
        request_event("quick"),
        text(
            "quick",
            "\u{1b}]0;title\u{7}\u{1b}[2Jred\u{1b}[31m\rx\u{202e}y\u{200b}z\n",
        ),
    ]
}

fn cases() -> Vec<Case> {
    let full = |count| {
        let mut events = vec![team(count)];
        events.push(request_event("agent-01"));
        events.push(text("agent-01", "I begin with the parser.\n"));
        events
    };
    let mut small_agent = Case::new("agent_in_full", (80, 24), at_work()).view(OpenView::Agent);
    small_agent.state.folds_results = true;
    vec![
        Case::new("start", (80, 24), vec![start_event(&["careful", "quick"])]),
        Case::new("preparing", (80, 24), preparing()),
        Case::new("at_work", (120, 40), at_work()),
        Case::new("at_work_small", (60, 16), at_work()),
        Case::new("at_work_tiny", (40, 10), at_work()),
        Case::new("at_work_large", (200, 50), at_work()),
        Case::new("no_colours", (120, 20), at_work()).theme(NO_COLOURS),
        Case::new("ascii", (80, 24), at_work()).theme(ASCII),
        Case::new(
            "approval",
            (80, 24),
            vec![start_event(&["careful", "quick"]), approval("quick")],
        ),
        Case::new("void_votes_and_failed_checks", (120, 40), decided_run()),
        Case::new("tie", (80, 24), tie()),
        Case::new("dropped_out_and_limit", (80, 24), troubled_run()),
        Case::new("foreign_text", (80, 24), foreign()),
        Case::new("one_agent", (80, 24), full(1)),
        Case::new("eight_agents", (200, 50), full(8)),
        Case::new("eight_agents_small", (80, 24), full(8)),
        Case::new("many_agents", (120, 40), full(32)),
        small_agent,
        Case::new("answers", (120, 40), decided_run()).view(OpenView::Answers),
        Case::new("votes", (80, 24), decided_run()).view(OpenView::Votes),
        Case::new("timeline", (80, 24), at_work()).view(OpenView::Timeline),
        Case::new("cost", (120, 40), decided_run()).view(OpenView::Cost),
        Case::new("stages", (80, 24), pipeline_run()).view(OpenView::Stages),
        Case::new("log", (80, 24), decided_run()).view(OpenView::Log),
        Case::new("delivery", (80, 24), delivered_run()).view(OpenView::Changes),
        Case::new("help", (80, 24), at_work()).view(OpenView::Help),
    ]
}

#[test]
fn every_frame_is_as_it_was() {
    for case in cases() {
        insta::assert_snapshot!(case.name, describe(&case.draw()));
    }
}

#[test]
fn tool_calls_that_the_log_of_a_pipeline_lacks_are_not_shown() {
    let mut case = Case::new("stages", (80, 24), pipeline_run()).view(OpenView::Cost);
    assert!(describe(&case.draw()).contains("tool calls: 0"));
    case.is_record = true;
    assert!(!describe(&case.draw()).contains("tool calls"));
}

#[test]
fn messages_are_offered_in_a_live_pipeline() {
    let mut case = Case::new("stages", (120, 24), pipeline_run());
    assert!(describe(&case.draw()).contains("p stages  i message"));
    case.is_record = true;
    assert!(!describe(&case.draw()).contains("i message"));
}

#[test]
fn no_frame_has_half_a_character_or_one_that_a_terminal_obeys() {
    for case in cases() {
        let mut sizes = vec![case.size];
        sizes.extend([(1, 1), (2, 2), (10, 3), (33, 7), (41, 11), (300, 100)]);
        for size in sizes {
            let frame = Case {
                size,
                ..Case::new(case.name, size, case.events.clone())
            };
            let frame = Case {
                state: case.state.clone(),
                ..frame
            }
            .draw();
            for y in 0..frame.area.height {
                let mut x = 0;
                while x < frame.area.width {
                    let symbol = frame[(x, y)].symbol();
                    assert!(
                        !symbol.contains(char::is_control),
                        "{} {symbol:?}",
                        case.name
                    );
                    x += u16::try_from(cell_text::columns(symbol)).unwrap().max(1);
                }
                assert_eq!(x, frame.area.width, "{} at {size:?}", case.name);
            }
        }
    }
}

#[test]
fn events_of_different_agents_may_come_in_any_order() {
    let first = [
        request_event("careful"),
        text("careful", "one\n"),
        call_event("careful", "1", "t", None),
    ];
    let second = [
        request_event("quick"),
        text("quick", "two\n"),
        call_event("quick", "2", "t", None),
    ];
    let begin = start_event(&["careful", "quick"]);
    let draw = |middle: [&[Value]; 2]| {
        let mut events = vec![begin.clone()];
        events.extend(middle.concat());
        // The same last event, so that the clock is the same.
        events.push(json!({"type": "warning", "message": "w"}));
        let mut case = Case::new("order", (80, 24), events);
        case.state.view = OpenView::Overview;
        let text = describe(&case.draw());
        let seconds = regex::Regex::new(r" \d s ").unwrap();
        seconds.replace_all(&text, " N s ").into_owned()
    };
    assert_eq!(draw([&first, &second]), draw([&second, &first]));
}

#[test]
fn messages_that_an_agent_has_not_read_are_counted_until_it_reads_them() {
    let message = |number: u32, agent: Option<&str>| {
        json!({"type": "user_message", "number": number, "agent": agent,
            "text": "prefer short names", "by": "terminal"})
    };
    let draw = |size, view, more: &[Value]| {
        let mut events = vec![
            start_event(&["careful", "quick"]),
            message(1, None),
            message(2, Some("quick")),
        ];
        events.extend_from_slice(more);
        let mut case = Case::new("unread", size, events).view(view);
        case.state.agent_index = 1;
        describe(&case.draw())
    };
    let (small, overview) = ((80, 24), OpenView::Overview);
    let drawn = draw(small, overview, &[]);
    assert!(drawn.contains("│1 message not read yet "), "{drawn}");
    assert!(drawn.contains("│2 messages not read yet "), "{drawn}");
    let drawn = draw(small, OpenView::Agent, &[]);
    assert!(drawn.contains(". idle  2 messages not read yet"), "{drawn}");
    let read = json!({"type": "user_messages_shown", "agent": "careful", "numbers": [1]});
    let drawn = draw(small, overview, &[read]);
    assert!(!drawn.contains("1 message not read yet"), "{drawn}");
    assert!(drawn.contains("2 messages not read yet"), "{drawn}");
    let ended = json!({"type": "run_ended", "status": "delivered", "summary": "s"});
    let drawn = draw(small, overview, &[ended]);
    assert!(!drawn.contains("not read yet"), "{drawn}");
    let table = Case::new("unread", (120, 20), vec![team(9), message(1, None)]);
    let drawn = describe(&table.draw());
    assert!(drawn.contains("1 message not read yet"), "{drawn}");
}

#[test]
fn the_end_of_a_long_line_is_in_sight_and_a_pasted_text_is_folded() {
    let mut case = Case::new("composer", (60, 16), at_work());
    let mut text = TypedText::new("agent: read ".to_owned());
    assert!(text.paste("first\nsecond\nthird", 1000));
    for c in " and the words at the end of it".chars() {
        text.push(c, 1000);
    }
    case.state.composer = Some(ComposerLine {
        purpose: ComposerPurpose::Message,
        text,
    });
    let drawn = describe(&case.draw());
    let line = " to all, or NAME: text > …s] and the words at the end of it_";
    assert!(drawn.contains(line), "{drawn}");
    case.size = (120, 16);
    case.state.note = Some("too long");
    let drawn = describe(&case.draw());
    let line = " too long to all, or NAME: text > agent: read [pasted 3 lines] and the words";
    assert!(drawn.contains(line), "{drawn}");
}

#[test]
fn the_dashboard_opens_only_where_a_person_can_use_it() {
    use crate::cli::dashboard::theme::CharacterSet;
    let env = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    assert_eq!(
        CharacterSet::from_env(&env(&[("LANG", "en_US.UTF-8")])),
        CharacterSet::Unicode
    );
    assert_eq!(
        CharacterSet::from_env(&env(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")])),
        CharacterSet::Ascii
    );
    assert_eq!(CharacterSet::from_env(&env(&[])), CharacterSet::Ascii);
    let size = |columns, rows| Some(TerminalSize { columns, rows });
    let opens = |pairs, size| !settings::asks_for_lines(&env(pairs)) && settings::is_large(size);
    assert!(opens(&[("TERM", "xterm")], size(80, 24)));
    for (pairs, size) in [
        (&[("TERM", "xterm"), ("CI", "1")][..], size(80, 24)),
        (&[("TERM", "dumb")], size(80, 24)),
        (&[("TERM", "xterm")], size(59, 24)),
        (&[("TERM", "xterm")], None),
    ] {
        assert!(!opens(pairs, size), "{pairs:?}");
    }
    let colours = |pairs| settings::theme(&env(pairs)).colours;
    assert_eq!(colours(&[("TERM", "xterm")]), ColourChoice::Terminals);
    assert_eq!(colours(&[("TERM", "xterm-mono")]), ColourChoice::Never);
    assert_eq!(
        colours(&[("TERM", "xterm"), ("NO_COLOR", "1")]),
        ColourChoice::Never
    );
}

/// Text and background of common terminals as red, green and blue: xterm, GNOME and VS Code, each
/// dark and light.
const PALETTES: [([u8; 3], [u8; 3]); 6] = [
    ([229, 229, 229], [0, 0, 0]),
    ([0, 0, 0], [255, 255, 255]),
    ([208, 207, 204], [23, 20, 33]),
    ([23, 20, 33], [255, 255, 255]),
    ([204, 204, 204], [30, 30, 30]),
    ([51, 51, 51], [255, 255, 255]),
];

/// Returns the relative luminance of a colour; see
/// <https://www.w3.org/TR/WCAG22/#dfn-relative-luminance>.
fn luminance(colour: [u8; 3]) -> f64 {
    let linear = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

/// Returns the contrast of a cell with the background, where it is in the text colour. Dim text has
/// half of its strength.
fn contrast(cell: &Cell, (text, background): ([u8; 3], [u8; 3])) -> Option<f64> {
    let is_dim = cell.modifier.contains(Modifier::DIM);
    let mut colour = text;
    for (part, back) in colour.iter_mut().zip(background) {
        if is_dim {
            *part = u8::midpoint(*part, back);
        }
    }
    let (one, other) = (luminance(colour), luminance(background));
    let (lighter, darker) = (one.max(other), one.min(other));
    (cell.fg == Color::Reset).then(|| (lighter + 0.05) / (darker + 0.05))
}

#[test]
fn names_of_agents_are_readable_on_common_terminals() {
    let mut name_count = 0;
    for case in cases() {
        let buffer = case.draw();
        let area = buffer.area;
        for y in 0..area.height {
            let row: String = (0..area.width).map(|x| buffer[(x, y)].symbol()).collect();
            for name in ["careful", "quick", "third"] {
                let Some((before, _)) = row.split_once(&format!("{name}  gpt-5")) else {
                    continue;
                };
                let x = u16::try_from(before.chars().count()).unwrap();
                for palette in PALETTES {
                    let found = contrast(&buffer[(x, y)], palette);
                    let is_readable = found.is_some_and(|found| found >= 4.5);
                    assert!(is_readable, "{}: {name}: {found:?} {palette:?}", case.name);
                }
                name_count += 1;
            }
        }
    }
    assert!(name_count > 8, "{name_count}");
}
