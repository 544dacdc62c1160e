//! One frame of the dashboard: the header, the open view, the ballot, the question that waits, and
//! the keys. It is drawn from the model of the run alone.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use crate::cli::approval_prompt::excerpt;
use crate::cli::cell_text::{
    clean_line, columns, fit_end, format_clock, format_count, wrap_styled_line,
};
use crate::cli::dashboard::canvas::Canvas;
use crate::cli::dashboard::key_lines::key_line;
use crate::cli::dashboard::question::{QuestionPanel, more_questions_line};
use crate::cli::dashboard::scene::Scene;
use crate::cli::dashboard::theme::Theme;
use crate::cli::dashboard::view_state::{ComposerPurpose, OpenView};
use crate::cli::dashboard::views::{
    agent, answers, ballot, changes, cost, draw_from_top, help, log, overview, stages, timeline,
    votes,
};
use crate::cli::output::{StyledLine, TextStyle};
use crate::cli::terminal_text::clean_text;
use crate::run_view::overview::RunPhase;
use crate::run_view::pipeline::StageProgress;
use crate::text::count_noun;

/// Minimum width of a frame whose header has one row; others have two.
const ONE_ROW_HEADER_WIDTH_MIN: u16 = 100;
/// Minimum height of a frame in which the ballot has a row of its own.
const BALLOT_HEIGHT_MIN: u16 = 14;
/// Minimum number of rows of a question, with its keys.
const QUESTION_ROWS_MIN: u16 = 3;

/// The areas of a frame.
#[derive(Clone, Copy, Debug)]
struct SceneAreas {
    header: Rect,
    body: Rect,
    ballot: Rect,
    question: Rect,
    input: Rect,
    keys: Rect,
}

impl Scene<'_> {
    /// Draws the frame. Returns how far the open view can be scrolled.
    pub(super) fn draw(&self, buffer: &mut Buffer, theme: Theme) -> usize {
        let canvas = &mut Canvas::new(buffer, theme);
        let areas = self.areas(canvas.area());
        self.draw_header(canvas, areas.header);
        let scroll_max = self.draw_body(canvas, areas.body);
        canvas.line(areas.ballot, areas.ballot.y, &ballot::line(self));
        self.draw_question(canvas, areas.question);
        if let Some(line) = self.input_line(areas.input.width) {
            canvas.line(areas.input, areas.input.y, &line);
        }
        let keys = key_line(self, areas.keys.width);
        canvas.line(areas.keys, areas.keys.y, &keys);
        scroll_max
    }

    /// Returns the body of a frame of this size, which the open view fills.
    pub(super) fn body(&self, area: Rect) -> Rect {
        self.areas(area).body
    }

    /// Returns how far the first question can be scrolled while it fills the body.
    pub(super) fn task_scroll_max(&self, area: Rect) -> usize {
        let area = self.areas(area).question;
        let rows = usize::from(area.height.saturating_sub(1));
        let question = self.questions.first();
        let lines = question.map(|question| question_lines(question, area.width).len());
        lines.unwrap_or_default().saturating_sub(rows)
    }

    fn areas(&self, area: Rect) -> SceneAreas {
        let mut free_area = area;
        let header = if area.width >= ONE_ROW_HEADER_WIDTH_MIN {
            take_top(&mut free_area, 1)
        } else {
            take_top(&mut free_area, 2)
        };
        let keys = take_bottom(&mut free_area, 1);
        let input = take_bottom(&mut free_area, u16::from(self.has_input_line()));
        let question_rows = self.question_rows(free_area);
        let question = take_bottom(&mut free_area, question_rows);
        let has_ballot = area.height >= BALLOT_HEIGHT_MIN && self.has_ballot();
        let ballot = take_bottom(&mut free_area, u16::from(has_ballot));
        SceneAreas {
            header,
            body: free_area,
            ballot,
            question,
            input,
            keys,
        }
    }

    fn has_ballot(&self) -> bool {
        !self.run.ballot().answers.is_empty()
    }

    fn question_rows(&self, free_area: Rect) -> u16 {
        let Some(question) = self.questions.first() else {
            return 0;
        };
        if self.state.is_task_open {
            return free_area.height;
        }
        let line_count = question_lines(question, free_area.width).len();
        let lines = u16::try_from(line_count).unwrap_or(u16::MAX);
        let rows_max = if self.is_review_open() {
            QUESTION_ROWS_MIN
        } else {
            QUESTION_ROWS_MIN.max(free_area.height / 3)
        };
        lines.saturating_add(1).min(rows_max).min(free_area.height)
    }

    fn draw_header(&self, canvas: &mut Canvas<'_>, area: Rect) {
        let task = clean_line(&self.run.run().task);
        let title = vec![(TextStyle::Strong, format!(" {task}"))];
        let facts = self.facts();
        if area.height > 1 {
            canvas.line(area, area.y, &title);
            canvas.line(area, area.y.saturating_add(1), &facts);
            return;
        }
        let width: usize = facts.iter().map(|(_, text)| columns(text)).sum();
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        let title_area = Rect {
            width: area.width.saturating_sub(width.saturating_add(1)),
            ..area
        };
        canvas.line(title_area, area.y, &title);
        canvas.line_at_right(area, area.y, &facts);
    }

    /// Returns the facts of the header, among them phase, time, cost and tokens.
    fn facts(&self) -> StyledLine {
        let run = self.run.run();
        let mut questions = self.questions.iter();
        let waits_for_review = questions.any(|question| question.review.is_some());
        let phase = match (run.phase, run.is_stopped) {
            (RunPhase::Ended, _) => "ended",
            (_, true) => "stopping",
            (_, false) if waits_for_review => "waits for review",
            (phase, false) => phase.word(),
        };
        let mut line = vec![(TextStyle::Strong, format!(" {phase}"))];
        let mut add = |style, text: String| line.push((style, format!("  {text}")));
        if run.restart > 0 {
            add(TextStyle::Warn, format!("restart {}", run.restart));
        }
        if let Some(stage) = self.stage_text() {
            add(TextStyle::Plain, stage);
        }
        add(TextStyle::Plain, format_clock(self.now_ms));
        if let Some(cost) = self.cost_text() {
            add(TextStyle::Plain, cost);
        }
        let tokens = format_count(run.usage.usage.total_tokens());
        let tokens = match self.limits.tokens {
            Some(max) => format!("{tokens} of {} tokens", format_count(max)),
            None => format!("{tokens} tokens"),
        };
        add(TextStyle::Plain, tokens);
        if let (Some(max), Some(calls)) = (self.limits.tool_calls, self.tool_calls()) {
            add(TextStyle::Plain, format!("{calls} of {max} tool calls"));
        }
        let unlisted_warnings = usize::try_from(run.more_warnings).unwrap_or(usize::MAX);
        let warning_count = run.warnings.len().saturating_add(unlisted_warnings);
        if warning_count > 0 {
            let warnings = count_noun(warning_count, "warning");
            add(TextStyle::Warn, format!("{warnings} (key e)"));
        }
        line.push((TextStyle::Plain, " ".to_owned()));
        line
    }

    fn cost_text(&self) -> Option<String> {
        let totals = &self.run.run().usage;
        let cost = totals.known_cost().round_up();
        let at_least = if totals.cost_is_complete {
            ""
        } else {
            "at least "
        };
        match self.limits.cost {
            Some(max) => Some(format!("{at_least}${cost} of ${max}")),
            None if totals.requests == 0 => None,
            None => Some(format!("{at_least}${cost}")),
        }
    }

    fn stage_text(&self) -> Option<String> {
        let pipeline = self.run.pipeline();
        let stage = pipeline.stages.last()?;
        let role = clean_line(&stage.role);
        let progress = match &stage.progress {
            StageProgress::Working => String::new(),
            StageProgress::Merged { .. } => ", merged".to_owned(),
            StageProgress::Rejected { .. } => ", not merged".to_owned(),
        };
        Some(format!(
            "{role}{progress}, stage {} of {}, iteration {}",
            stage.stage, pipeline.stage_count, stage.iteration
        ))
    }

    fn draw_body(&self, canvas: &mut Canvas<'_>, area: Rect) -> usize {
        if area.height == 0 {
            return self.state.scroll_max;
        }
        let lines = match self.state.view {
            // The log of a pipeline has its stages, and of their work only what it used.
            OpenView::Overview if self.is_record && self.has_stages() => {
                stages::lines(self, area.width)
            }
            OpenView::Overview => return overview::draw(self, canvas, area),
            OpenView::Agent => return agent::draw(self, canvas, area),
            OpenView::Answers => return answers::draw(self, canvas, area),
            OpenView::Changes => return changes::draw(self, canvas, area),
            OpenView::Log => return log::draw(self, canvas, area),
            OpenView::Votes => votes::lines(self, area.width),
            OpenView::Timeline => timeline::lines(self, area.width),
            OpenView::Cost => cost::lines(self),
            OpenView::Stages => stages::lines(self, area.width),
            OpenView::Help => help::lines(),
        };
        draw_from_top(canvas, area, &lines, self.state.scroll)
    }

    fn draw_question(&self, canvas: &mut Canvas<'_>, area: Rect) {
        let Some(question) = self.questions.first() else {
            return;
        };
        let rows = usize::from(area.height.saturating_sub(1));
        let lines = question_lines(question, area.width);
        let hidden_count = lines.len().saturating_sub(rows);
        let visible_lines = if self.state.is_task_open {
            let skipped_lines = self.state.task_scroll.min(hidden_count);
            lines.into_iter().skip(skipped_lines).take(rows).collect()
        } else {
            excerpt(&lines, rows)
        };
        canvas.lines(area, &visible_lines);
        let text = match &question.review {
            Some(review) if self.is_review_open() => {
                let selection = review.selection_text();
                format!("{selection}  y apply them, x nothing")
            }
            Some(_) | None => question.keys.to_owned(),
        };
        let mut keys = vec![
            (TextStyle::Warn, " ? ".to_owned()),
            (TextStyle::Strong, text),
        ];
        if hidden_count > 0 && !self.state.is_task_open {
            keys.push((TextStyle::Plain, "  z all of it".to_owned()));
        }
        if let Some(more) = more_questions_line(self.questions.len().saturating_sub(1)) {
            keys.push((TextStyle::Plain, "  ".to_owned()));
            keys.extend(more);
        }
        canvas.line(area, area.bottom().saturating_sub(1), &keys);
    }

    /// Returns whether a line is being typed, or there is a message about the last key.
    fn has_input_line(&self) -> bool {
        let state = self.state;
        state.note.is_some() || state.composer.is_some() || state.search.is_some()
    }

    /// Returns a message about the last key, and the line that is being typed, of which `width`
    /// columns show at least the end; `None` without both.
    fn input_line(&self, width: u16) -> Option<StyledLine> {
        let state = self.state;
        let note = state.note.map(|note| (TextStyle::Warn, format!(" {note}")));
        let mut input_line: StyledLine = note.into_iter().collect();
        let (label, text, cursor) = match (&state.composer, &state.search) {
            (Some(line), _) => {
                let label = match line.purpose {
                    ComposerPurpose::Answer => " your answer: ",
                    ComposerPurpose::Instead => " no; do this instead: ",
                    ComposerPurpose::Message => " to all, or NAME: text > ",
                };
                (label, line.text.display_line(), "_")
            }
            (None, Some(search)) => {
                let cursor = if search.is_typing { "_" } else { "" };
                (" find: ", search.text.display_line(), cursor)
            }
            (None, None) => return Some(input_line).filter(|line| !line.is_empty()),
        };
        input_line.push((TextStyle::Strong, label.to_owned()));
        let used_columns: usize = input_line.iter().map(|(_, text)| columns(text)).sum();
        let room = usize::from(width).saturating_sub(used_columns.saturating_add(columns(cursor)));
        input_line.push((TextStyle::Plain, fit_end(&text, room)));
        input_line.push((TextStyle::Plain, cursor.to_owned()));
        Some(input_line)
    }
}

/// Returns the lines of a question, wrapped, each after the mark of questions.
fn question_lines(question: &QuestionPanel, width: u16) -> Vec<StyledLine> {
    const MARK: &str = " ! ";
    let width = width.saturating_sub(u16::try_from(columns(MARK)).unwrap_or(u16::MAX));
    let clean = |line: &StyledLine| -> StyledLine {
        let pieces = line.iter();
        pieces
            .map(|(style, text)| (*style, clean_text(text).into_owned()))
            .collect()
    };
    let lines = question.lines.iter().map(clean);
    let rows = lines.flat_map(|line| wrap_styled_line(&line, width));
    rows.map(|mut row| {
        row.insert(0, (TextStyle::Warn, MARK.to_owned()));
        row
    })
    .collect()
}

/// Cuts at most `rows` rows off the top of `area` and returns them.
fn take_top(area: &mut Rect, rows: u16) -> Rect {
    let height = rows.min(area.height);
    let top = Rect { height, ..*area };
    area.y = area.y.saturating_add(height);
    area.height = area.height.saturating_sub(height);
    top
}

/// Cuts at most `rows` rows off the bottom of `area` and returns them.
fn take_bottom(area: &mut Rect, rows: u16) -> Rect {
    let height = rows.min(area.height);
    area.height = area.height.saturating_sub(height);
    Rect {
        y: area.bottom(),
        height,
        ..*area
    }
}
