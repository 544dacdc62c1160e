//! Callbacks of the line editor while a line is typed: hints below the line, completion, and
//! whether the line is complete.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use crate::cli::editor::LinePurpose;
use crate::cli::editor::choice_list::{SELECTION_MARK, render_choices};
use crate::cli::editor::choices::{CommandValues, CompletionChoices, SlashCommand, find_choices};
use crate::cli::editor::state::{LastKey, SharedEditorState};
use crate::cli::output::ColourChoice;
use crate::mentions::partial_mention::mention_at;
use crate::permissions::grant::Permission;
use crate::world::diagnostics::probe::terminal;
use crate::world::io::file_finder::{FileFinder, SearchExtent};

/// Maximum number of choices that are shown.
const CHOICES_SHOWN_MAX: usize = 8;
/// Maximum number of choices that are listed after Tab if none are shown while typing.
const CHOICES_LISTED_MAX: usize = 100;
/// Terminal lines that are reserved for the edited line and what is below the choices.
const RESERVED_LINES: usize = 4;
/// Timeout of the search for the first choices after a key: less than a frame of the screen.
const FIRST_SEARCH_TIMEOUT: Duration = Duration::from_millis(14);
/// Timeout of the search for a list after Tab.
const LIST_SEARCH_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of searches for all choices in the background, and the timeout of each.
const BACKGROUND_SEARCHES_MAX: usize = 20;
const BACKGROUND_SEARCH_TIMEOUT: Duration = Duration::from_secs(1);
/// Hint after the first Ctrl-C.
const EXIT_HINT: &str = "  press Ctrl-C again to exit";
/// Hint below a mention of which no file has the name.
const NO_MATCH_HINT: &str = "\n   no file matches";
/// Makes the editor redraw its lines in place.
const REDRAW: &str = "\u{1b}[A\n";

const STRONG: &str = "\u{1b}[1m";
const FAINT: &str = "\u{1b}[2m";
const RESET: &str = "\u{1b}[0m";

/// Redraws the line from another thread.
type RedrawCallback = Arc<Mutex<Option<Box<dyn FnMut(String) + Send>>>>;

/// Helper of the line editor.
pub(crate) struct LineEditorHelper {
    pub(super) shared: SharedEditorState,
    pub(super) file_finder: Arc<FileFinder>,
    pub(super) commands: &'static [SlashCommand],
    pub(super) values: CommandValues,
    pub(super) display: ChoiceDisplay,
    pub(super) colours: ColourChoice,
    pub(super) purpose: LinePurpose,
    pub(super) redraw: RedrawCallback,
}

/// When choices are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChoiceDisplay {
    /// While a line is typed.
    WhileTyping,
    /// As a list after Tab.
    AfterTab,
}

/// Hint below the line.
#[derive(Debug)]
pub(crate) struct ChoiceHint {
    first_drawing: String,
    /// What is shown instead once all choices are known.
    final_drawing: Arc<OnceLock<String>>,
}

impl Hint for ChoiceHint {
    fn display(&self) -> &str {
        self.final_drawing.get().unwrap_or(&self.first_drawing)
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl ChoiceHint {
    fn new(text: &str) -> Self {
        Self {
            first_drawing: text.to_owned(),
            final_drawing: Arc::default(),
        }
    }
}

impl Helper for LineEditorHelper {}

impl LineEditorHelper {
    fn choices(
        &self,
        line: &str,
        cursor: usize,
        count_max: usize,
        time_max: Duration,
    ) -> Option<CompletionChoices> {
        match self.purpose {
            LinePurpose::Prompt => find_choices(
                line,
                cursor,
                &self.file_finder,
                (self.commands, &self.values),
                count_max,
                time_max,
            ),
            LinePurpose::Question => None,
        }
    }

    /// Searches the remaining choices in the background, and shows them in as many lines as are
    /// shown now.
    fn complete_in_background(
        &self,
        line: &str,
        cursor: usize,
        generation: u64,
        lines: usize,
    ) -> Arc<OnceLock<String>> {
        let final_drawing = Arc::new(OnceLock::new());
        let (drawing_slot, line) = (Arc::clone(&final_drawing), line.to_owned());
        let (file_finder, commands) = (Arc::clone(&self.file_finder), self.commands);
        let values = self.values.clone();
        let (shared, redraw) = (self.shared.clone(), Arc::clone(&self.redraw));
        std::thread::spawn(move || {
            for _ in 0..BACKGROUND_SEARCHES_MAX {
                if shared.lock().generation != generation {
                    return;
                }
                let choices = find_choices(
                    &line,
                    cursor,
                    &file_finder,
                    (commands, &values),
                    CHOICES_SHOWN_MAX.min(lines),
                    BACKGROUND_SEARCH_TIMEOUT,
                );
                if choices
                    .as_ref()
                    .is_some_and(|choices| choices.extent == SearchExtent::Part)
                {
                    continue;
                }
                let replaced = shared.lock().replace_choices(generation, choices.as_ref());
                let Some(selected_index) = replaced else {
                    return;
                };
                let drawing = choices
                    .map(|choices| {
                        render_choices(&choices, selected_index, terminal::stdout_columns())
                    })
                    .unwrap_or_default();
                if drawing_slot.set(pad_to_lines(&drawing, lines)).is_ok()
                    && let Some(redraw) = redraw
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .as_mut()
                {
                    redraw(REDRAW.to_owned());
                }
                return;
            }
        });
        final_drawing
    }
}

impl Hinter for LineEditorHelper {
    type Hint = ChoiceHint;

    fn hint(&self, line: &str, cursor: usize, _: &Context<'_>) -> Option<ChoiceHint> {
        let mut state = self.shared.lock();
        state.pastes.end(line);
        if self.display == ChoiceDisplay::AfterTab {
            return None;
        }
        state.settle_recalled_line(line);
        if line.is_empty() {
            state.hide_choices();
            let is_interrupted = state.last_key == LastKey::Interrupt;
            return is_interrupted.then(|| ChoiceHint::new(EXIT_HINT));
        }
        state.last_key = LastKey::Other;
        let rows = terminal::stdout_size().map_or(0, |size| usize::from(size.rows));
        let room = rows
            .saturating_sub(RESERVED_LINES)
            .clamp(1, CHOICES_SHOWN_MAX);
        let choices = self.choices(line, cursor, room, FIRST_SEARCH_TIMEOUT);
        if choices.is_none()
            && self.purpose == LinePurpose::Prompt
            && mention_at(line, cursor).is_some_and(|mention| !mention.name.is_empty())
        {
            state.hide_choices();
            return Some(ChoiceHint::new(NO_MATCH_HINT));
        }
        let (choices, selected_index) = state.open(line, cursor, choices)?;
        let drawing = render_choices(choices, selected_index, terminal::stdout_columns());
        if choices.extent == SearchExtent::Whole {
            return Some(ChoiceHint::new(&drawing));
        }
        let lines = room.saturating_add(1);
        let generation = state.generation;
        let first_drawing = pad_to_lines(&drawing, lines);
        drop(state);
        Some(ChoiceHint {
            first_drawing,
            final_drawing: self.complete_in_background(line, cursor, generation, lines),
        })
    }
}

/// Pads `drawing` to the number of lines that must be overwritten.
fn pad_to_lines(drawing: &str, lines: usize) -> String {
    let line_breaks = drawing.matches('\n').count();
    let padding = "\n".repeat(lines.saturating_sub(line_breaks));
    format!("{drawing}{padding}")
}

impl Completer for LineEditorHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let none = (cursor, Vec::new());
        if self.display == ChoiceDisplay::WhileTyping {
            let choice = self.shared.lock().accept_choice(line, cursor);
            return Ok(choice.map_or(none, |(start, text)| (start, vec![text])));
        }
        let choices = self.choices(line, cursor, CHOICES_LISTED_MAX, LIST_SEARCH_TIMEOUT);
        Ok(choices.map_or(none, |choices| {
            let permission = choices.permission;
            let texts =
                choices
                    .list
                    .into_iter()
                    .map(|choice| match (permission, choice.write_text) {
                        (Permission::Write, Some(write_text)) => write_text,
                        (Permission::Write, None) | (Permission::Read, _) => choice.text,
                    });
            (choices.start, texts.collect())
        }))
    }
}

impl Highlighter for LineEditorHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        match self.colours {
            ColourChoice::Terminals => Cow::Owned(format!("{STRONG}{prompt}{RESET}")),
            ColourChoice::Never => Cow::Borrowed(prompt),
        }
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.colours == ColourChoice::Never {
            return Cow::Borrowed(hint);
        }
        let lines = hint
            .split('\n')
            .map(|line| match line.strip_prefix(SELECTION_MARK) {
                Some(_) => format!("{STRONG}{line}{RESET}"),
                None if line.is_empty() => String::new(),
                None => format!("{FAINT}{line}{RESET}"),
            });
        Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
    }

    fn highlight_char(&self, line: &str, cursor: usize, kind: CmdKind) -> bool {
        if kind != CmdKind::MoveCursor {
            return false;
        }
        let mut state = self.shared.lock();
        let has_left = state.is_shown() && !state.is_open(line, cursor);
        if has_left {
            state.hide_choices();
        }
        has_left
    }
}

impl Validator for LineEditorHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        // A backslash at the end continues on another line, where a paste is not recognized as a
        // whole.
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}
