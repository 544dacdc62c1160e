//! Line editor for a person at a terminal: runs on its own thread, with a history, completion of
//! paths while typing, and detection of pasted text. It must not know what is done with a line.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{ColorMode, CompletionType, Config, Editor as LineEditor, ExternalPrinter as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::cli::editor::choices::{CommandValues, SlashCommand};
use crate::cli::editor::helper::{ChoiceDisplay, LineEditorHelper};
use crate::cli::editor::state::SharedEditorState;
use crate::cli::output::ColourChoice;
use crate::error::{Error, ErrorKind};
use crate::world::io::file_finder::FileFinder;
use crate::world::io::terminal_input::escape_delay_ms;
use crate::world::io::terminal_mode::has_input;
use crate::world::io::user_terminal::edit_text;

mod helper;
pub(crate) mod choices;
mod keys;
mod paste;
mod choice_list;
mod state;

/// Maximum delay between lines that count as pasted on a simple terminal.
const PASTE_PAUSE_MAX: Duration = Duration::from_millis(20);
/// Moves to the beginning of the line above and clears it.
const LINE_ABOVE: &str = "\u{1b}[A\r\u{1b}[K";
/// Maximum number of lines in the editor's history.
const HISTORY_LINES_MAX: usize = 1000;

/// The line editor with massgen's callbacks.
type PromptLineEditor = LineEditor<LineEditorHelper, MemHistory>;

/// Purpose of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinePurpose {
    /// A prompt or a command, which the history keeps.
    Prompt,
    /// The answer to a question from massgen.
    Question,
}

/// A request for a line.
#[derive(Clone, Debug)]
pub(crate) struct LineRequest {
    /// The prompt before the line.
    pub(crate) prompt: &'static str,
    /// The initial content of the line.
    pub(crate) initial_text: String,
    pub(crate) purpose: LinePurpose,
}

/// Result of requesting a line.
#[derive(Debug)]
pub(crate) enum LineOutcome {
    /// A line was typed.
    Text(TypedLine),
    /// Ctrl-C ended the line.
    Interrupted,
    /// Ctrl-C was typed, and the line is still requested.
    InterruptSignal,
    /// The user wants to leave.
    Quit,
    /// The user's editor failed, and the line is still requested.
    EditorFailed(Error),
    /// The terminal failed.
    Failed(Error),
}

/// A line that was typed, with what was pasted into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypedLine {
    /// All of the line.
    pub(crate) text: String,
    /// Every text that was pasted into it, as reported by the terminal. A terminal that does not
    /// mark pasted text reports none.
    pub(crate) pasted_texts: Vec<String>,
}

/// A request to the editor thread.
#[derive(Debug)]
enum EditorRequest {
    /// Read a line.
    ReadLine(LineRequest),
    /// Add a line to the history.
    Remember(String),
}

/// Display style of the editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditorStyle {
    /// With choices while typing.
    Full,
    /// In plain lines that are never redrawn, for screen readers.
    Plain,
    /// In lines that the terminal itself edits, because it supports nothing else.
    Simple,
}

/// Configuration of the editor.
#[derive(Debug)]
pub(crate) struct EditorConfig {
    /// The display style.
    pub(crate) style: EditorStyle,
    /// Whether it uses colours.
    pub(crate) colours: ColourChoice,
    /// The source of path completions.
    pub(crate) file_finder: Arc<FileFinder>,
    /// The commands of the session.
    pub(crate) commands: &'static [SlashCommand],
    /// The values that they take.
    pub(crate) values: CommandValues,
    /// The lines of earlier sessions, the oldest first.
    pub(crate) history: Vec<String>,
    /// The process environment, which names the user's editor.
    pub(crate) env: BTreeMap<String, String>,
}

/// A line editor. It stops with the process, or when dropped.
#[derive(Debug)]
pub(crate) struct PromptEditor {
    request_sender: mpsc::Sender<EditorRequest>,
    outcomes: UnboundedReceiver<LineOutcome>,
}

impl PromptEditor {
    /// Starts the editor; nothing is shown yet.
    pub(crate) fn start(setup: EditorConfig) -> Self {
        let (request_sender, requests) = mpsc::channel();
        let (outcome_sender, outcomes) = unbounded_channel();
        std::thread::spawn(move || {
            if let Err(error) = run(setup, &requests, &outcome_sender) {
                // If sending fails, the receiver no longer exists.
                outcome_sender
                    .send(LineOutcome::Failed(readline_error(error)))
                    .unwrap_or_default();
            }
        });
        Self {
            request_sender,
            outcomes,
        }
    }

    /// Requests a line.
    pub(crate) fn request_line(&self, line_request: LineRequest) {
        // If the editor has stopped, waiting for the line reports it.
        self.request_sender
            .send(EditorRequest::ReadLine(line_request))
            .unwrap_or_default();
    }

    /// Adds a line to the history.
    pub(crate) fn remember(&self, line: &str) {
        let request = EditorRequest::Remember(line.to_owned());
        self.request_sender.send(request).unwrap_or_default();
    }

    /// Waits for the requested line.
    pub(crate) async fn next_outcome(&mut self) -> LineOutcome {
        let exit_outcome = || LineOutcome::Failed(Error::bug("the line editor has exited"));
        self.outcomes.recv().await.unwrap_or_else(exit_outcome)
    }
}

fn readline_error(error: ReadlineError) -> Error {
    Error::new(ErrorKind::Environment, "the terminal cannot be read")
        .with_source(error)
        .with_hint("give the task on the command line: massgen \"…\"")
}

/// Reads one line for each request.
fn run(
    setup: EditorConfig,
    requests: &mpsc::Receiver<EditorRequest>,
    outcome_sender: &UnboundedSender<LineOutcome>,
) -> rustyline::Result<()> {
    let (style, env) = (setup.style, setup.env.clone());
    let mut editor = line_editor(setup)?;
    while let Ok(request) = requests.recv() {
        let line_request = match request {
            EditorRequest::ReadLine(line_request) => line_request,
            EditorRequest::Remember(line) => {
                editor.add_history_entry(line)?;
                continue;
            }
        };
        let Some(result) = read_line(&mut editor, line_request, &env, outcome_sender) else {
            return Ok(());
        };
        let outcome = match result {
            Ok(text) => LineOutcome::Text(typed_line(&mut editor, &text, style)?),
            Err(ReadlineError::Interrupted) if style != EditorStyle::Full => {
                LineOutcome::Interrupted
            }
            // In the full style, the keys have let a first Ctrl-C only warn.
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => LineOutcome::Quit,
            Err(error) => return Err(error),
        };
        if outcome_sender.send(outcome).is_err() {
            break;
        }
    }
    Ok(())
}

/// Reads the requested line; if the user asks for it, their own editor edits the text so far.
/// Returns `None` if the receiver of `outcome_sender` is gone.
fn read_line(
    editor: &mut PromptLineEditor,
    line_request: LineRequest,
    env: &BTreeMap<String, String>,
    outcome_sender: &UnboundedSender<LineOutcome>,
) -> Option<rustyline::Result<String>> {
    if let Some(helper) = editor.helper_mut() {
        helper.purpose = line_request.purpose;
        helper.shared.lock().reset();
    }
    let mut initial_text = line_request.initial_text;
    loop {
        let result = editor.readline_with_initial(line_request.prompt, (&initial_text, ""));
        let helper = editor.helper_mut();
        let (opens_editor, chosen_command) = helper
            .map(|helper| {
                let mut state = helper.shared.lock();
                (
                    std::mem::take(&mut state.opens_editor),
                    state.chosen_command.take(),
                )
            })
            .unwrap_or_default();
        if let (Ok(_), Some(command)) = (&result, chosen_command) {
            show_chosen_command(line_request.prompt, &command);
            return Some(Ok(command));
        }
        match result {
            Ok(text) if opens_editor => match edit_text(&unfold(editor, &text), env) {
                Ok(edited_text) => edited_text
                    .trim_end_matches('\n')
                    .clone_into(&mut initial_text),
                Err(error) => {
                    initial_text = text;
                    outcome_sender.send(LineOutcome::EditorFailed(error)).ok()?;
                }
            },
            result => return Some(result),
        }
    }
}

/// Shows the command that was chosen in the place of the line above.
fn show_chosen_command(prompt: &str, command: &str) {
    let mut terminal = std::io::stdout();
    let line = format!("{LINE_ABOVE}{prompt}{command}\n");
    // A terminal that is gone shows nothing.
    terminal
        .write_all(line.as_bytes())
        .and_then(|()| terminal.flush())
        .unwrap_or_default();
}

/// Returns the line that was read as `text`, with what was pasted into it.
fn typed_line(
    editor: &mut PromptLineEditor,
    text: &str,
    style: EditorStyle,
) -> rustyline::Result<TypedLine> {
    let mut pasted_texts = editor
        .helper_mut()
        .map(|helper| helper.shared.lock().pastes.take_texts(text))
        .unwrap_or_default();
    let mut text = unfold(editor, text);
    // A simple terminal does not mark pasted text: lines that arrive without a pause were pasted.
    let mut is_pasted = false;
    while style == EditorStyle::Simple && has_input(PASTE_PAUSE_MAX) {
        text.push('\n');
        text.push_str(&editor.readline("")?);
        is_pasted = true;
    }
    if is_pasted {
        pasted_texts.push(text.clone());
    }
    Ok(TypedLine { text, pasted_texts })
}

/// Returns `line` with the pasted texts in place of their labels.
fn unfold(editor: &mut PromptLineEditor, line: &str) -> String {
    let helper = editor.helper_mut();
    helper.map_or_else(
        || line.to_owned(),
        |helper| helper.shared.lock().pastes.unfold(line),
    )
}

fn line_editor(setup: EditorConfig) -> rustyline::Result<PromptLineEditor> {
    let (display, colours) = match setup.style {
        EditorStyle::Full => (ChoiceDisplay::WhileTyping, ColorMode::Forced),
        EditorStyle::Plain | EditorStyle::Simple => (ChoiceDisplay::AfterTab, ColorMode::Disabled),
    };
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .color_mode(colours)
        .keyseq_timeout(Some(escape_delay_ms(&setup.env)))
        .bell_style(rustyline::config::BellStyle::None)
        .max_history_size(HISTORY_LINES_MAX)?
        .build();
    let mut editor = LineEditor::with_history(config.clone(), MemHistory::with_config(&config))?;
    for line in setup.history {
        editor.add_history_entry(line)?;
    }
    let shared = SharedEditorState::default();
    let redraw = Arc::new(Mutex::new(None));
    paste::bind(&mut editor, &shared, setup.style);
    if setup.style != EditorStyle::Simple {
        keys::bind_line_keys(&mut editor, &shared);
    }
    if setup.style == EditorStyle::Full {
        keys::bind_choice_keys(&mut editor, &shared);
        if let Ok(mut printer) = editor.create_external_printer() {
            let print = move |text: String| printer.print(text).unwrap_or_default();
            let print: Box<dyn FnMut(String) + Send> = Box::new(print);
            *redraw.lock().unwrap_or_else(PoisonError::into_inner) = Some(print);
        }
    }
    editor.set_helper(Some(LineEditorHelper {
        shared,
        file_finder: setup.file_finder,
        commands: setup.commands,
        values: setup.values,
        display,
        colours: setup.colours,
        purpose: LinePurpose::Prompt,
        redraw,
    }));
    Ok(editor)
}
