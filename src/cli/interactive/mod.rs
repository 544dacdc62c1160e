//! Interactive session on a terminal: prompts become turns of one session, commands show its state,
//! and no error of a turn ends it. It must hold no rules about access; a turn is prepared and
//! executed like a single run.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::cli::args::RunArguments;
use crate::cli::deliveries::finish_interrupted_deliveries;
use crate::cli::directory_question::{DirectoryAnswer, parse_answer};
use crate::cli::editor::choices::CommandValues;
use crate::cli::editor::{
    EditorConfig, EditorStyle, LineOutcome, LinePurpose, LineRequest, PromptEditor, TypedLine,
};
use crate::cli::execution::execute;
use crate::cli::format::OutputFormat;
use crate::cli::interactive::commands::{InteractiveInput, OFFERED_COMMANDS, parse_input};
use crate::cli::interactive::session_state::SessionState;
use crate::cli::interactive::shell_command::ShellCommandEnd;
use crate::cli::interrupts::{SHUTDOWN_TIMEOUT, SignalListener, SignalRequest, runtime};
use crate::cli::output::{CliOutput, ColourChoice, SCREEN_READER};
use crate::cli::resume::{find_interrupted_run, resume};
use crate::cli::run_frontend::OutputMode;
use crate::cli::typed_message::TypedMessageLine;
use crate::config::storage_path::STATE_DIR;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::{Host, StreamTarget};
use crate::orchestrator::execution::ShutdownSignal;
use crate::resume::{InterruptedRun, InterruptionCause};
use crate::world::io::file_finder::FileFinder;
use crate::world::io::terminal_mode::TerminalModeGuard;
use crate::world::store::input_history::InputHistory;

mod add_directory;
mod command_handlers;
pub(crate) mod commands;
mod pasted_mentions;
mod run_reports;
mod shell_command;
mod session_state;

/// Prompt of the line editor.
const PROMPT_MARK: &str = "> ";
/// Maximum length of the text that is kept of what was typed ahead, in bytes.
const TYPED_AHEAD_BYTES_MAX: usize = 128 * 1024;
/// Terminals that can only print one line after another.
const SIMPLE_TERMINALS: [&str; 3] = ["dumb", "cons25", "emacs"];

/// Returns whether the command line asks for an interactive session: there is no task, standard
/// input and output are a terminal, and no flag applies only to a single run.
pub(crate) fn is_wanted(host: &Host, arguments: &RunArguments) -> bool {
    let is_terminal = host.stdin == StreamTarget::Terminal && host.stdout == StreamTarget::Terminal;
    let is_single = arguments.automation
        || arguments.dry_run
        || arguments.park
        || arguments.print
        || arguments.output_file.is_some()
        || arguments.keep_attempts.is_some()
        || arguments.summary_file.is_some()
        || arguments.junit_file.is_some()
        || arguments.output_format != OutputFormat::Text;
    is_terminal && arguments.task.is_empty() && !is_single
}

/// Runs a session until the user leaves.
pub(crate) fn run(host: &Host, arguments: &RunArguments) -> Result<ExitStatus> {
    let runtime = runtime()?;
    let result = runtime.block_on(Box::pin(run_session(host, arguments)));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

async fn run_session(host: &Host, arguments: &RunArguments) -> Result<ExitStatus> {
    let interrupts = SignalListener::subscribe(host.hangup)?;
    let keyboard = TerminalModeGuard::from_stdin()
        .ok_or_else(|| Error::bug("standard input is not a terminal"))?;
    let style = editor_style(host, arguments);
    let mut output = CliOutput::for_run_log(host).with_session_notices();
    if style != EditorStyle::Full {
        output = output.without_transients();
    }
    finish_interrupted_deliveries(host, &mut output)?;
    let mut state = SessionState::open(host, arguments, &mut output).await?;
    state.settle_missing_keys(&mut output)?;
    state.require_model().await?;
    let file_finder = Arc::new(FileFinder::new(host.cwd.clone(), host.home.clone()));
    let history = InputHistory::new(host.state_parent.join(STATE_DIR));
    let inputs = history.read().unwrap_or_else(|error| {
        output.warning(&format!("cannot read the input history: {error:#}"));
        Vec::new()
    });
    let values = CommandValues::default();
    let editor = PromptEditor::start(EditorConfig {
        style,
        values: values.clone(),
        colours: ColourChoice::from_host(host),
        file_finder: Arc::clone(&file_finder),
        commands: OFFERED_COMMANDS,
        history: inputs,
        env: host.env.clone(),
    });
    keyboard.disable_echo();
    let session = InteractiveSession {
        style,
        arguments: arguments.clone(),
        output,
        state,
        editor,
        values,
        file_finder,
        history,
        keyboard,
        interrupts: Arc::new(Mutex::new(interrupts)),
        typed_ahead: String::new(),
    };
    session.run_loop().await
}

/// Chooses the style of the line editor.
fn editor_style(host: &Host, arguments: &RunArguments) -> EditorStyle {
    let is_simple = host
        .env("TERM")
        .is_none_or(|term| SIMPLE_TERMINALS.contains(&term));
    if is_simple {
        EditorStyle::Simple
    } else if arguments.display.screen_reader || host.env(SCREEN_READER).is_some() {
        EditorStyle::Plain
    } else {
        EditorStyle::Full
    }
}

/// An interactive session.
#[derive(Debug)]
struct InteractiveSession {
    style: EditorStyle,
    arguments: RunArguments,
    output: CliOutput<'static>,
    state: SessionState,
    editor: PromptEditor,
    /// The values of commands, which the editor offers.
    values: CommandValues,
    file_finder: Arc<FileFinder>,
    history: InputHistory,
    keyboard: TerminalModeGuard,
    interrupts: Arc<Mutex<SignalListener>>,
    /// Text that was typed during a turn. The terminal did not mark which of it was pasted.
    typed_ahead: String,
}

/// Input of the next turn.
#[derive(Debug)]
enum TurnInput<'p> {
    /// A prompt that was typed.
    Typed(&'p str),
    /// An interrupted run of the session.
    Interrupted(InterruptedRun),
}

/// Whether the session continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopControl {
    Continue,
    Leave,
}

/// Result of reading a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UserInput {
    Text(TypedLine),
    /// The user ends the session.
    Leave,
    /// massgen was asked to end, or the terminal has ended.
    End,
}

impl InteractiveSession {
    async fn run_loop(mut self) -> Result<ExitStatus> {
        let status = self.run_turns().await?;
        self.say_goodbye();
        Ok(status)
    }

    async fn run_turns(&mut self) -> Result<ExitStatus> {
        self.file_finder.refresh();
        self.greet();
        if self.state.needs_directory_question()
            && self.add_directory().await? == LoopControl::Leave
        {
            return Ok(ExitStatus::Success);
        }
        if self.resume_interrupted_turn().await? == LoopControl::Leave {
            return Ok(ExitStatus::Success);
        }
        loop {
            self.offer_values();
            let typed_ahead = std::mem::take(&mut self.typed_ahead);
            let mut line = match self
                .read_input(PROMPT_MARK, typed_ahead.clone(), LinePurpose::Prompt)
                .await?
            {
                UserInput::Text(line) => line,
                UserInput::Leave => return Ok(ExitStatus::Success),
                UserInput::End => return Ok(ExitStatus::Interrupted),
            };
            // It may have been pasted, so its mentions are confirmed like those of pasted text.
            if !typed_ahead.is_empty() {
                line.pasted_texts.push(typed_ahead);
            }
            // A `\` at the end of a line only kept Enter from sending it.
            let text = line.text.replace("\\\n", "\n");
            let control = match parse_input(&text) {
                Ok(InteractiveInput::Empty) => LoopControl::Continue,
                Ok(InteractiveInput::Command(command, rest)) => {
                    self.remember_line(&text);
                    self.run_command(command, rest)
                }
                Ok(InteractiveInput::Shell(command)) => {
                    match self.run_shell_command(command, &line.pasted_texts).await {
                        ShellCommandEnd::Refused => {}
                        ShellCommandEnd::Ended => self.remember_line(&text),
                        ShellCommandEnd::Terminated => return Ok(ExitStatus::Interrupted),
                    }
                    LoopControl::Continue
                }
                Ok(InteractiveInput::Prompt(prompt)) => {
                    match self
                        .confirm_pasted_mentions(prompt, &line.pasted_texts)
                        .await?
                    {
                        Some(prompt) => {
                            self.remember_line(&prompt);
                            self.run_turn(TurnInput::Typed(&prompt)).await
                        }
                        None => LoopControl::Leave,
                    }
                }
                Err(error) => {
                    self.output.error(&error);
                    LoopControl::Continue
                }
            };
            if control == LoopControl::Leave {
                return Ok(ExitStatus::Success);
            }
        }
    }

    /// Saves a line in the history of this session and of later ones.
    fn remember_line(&mut self, text: &str) {
        self.editor.remember(text.trim());
        if let Err(error) = self.history.add(text.trim()) {
            self.output
                .warning(&format!("cannot save the input history: {error:#}"));
        }
    }

    /// Reads a line after `prompt`. If the terminal itself edits the line, its echo is on
    /// meanwhile.
    async fn read_input(
        &mut self,
        prompt: &'static str,
        initial_text: String,
        purpose: LinePurpose,
    ) -> Result<UserInput> {
        if self.style == EditorStyle::Simple {
            self.keyboard.restore();
        }
        let input = self.next_line(prompt, initial_text, purpose).await;
        self.keyboard.disable_echo();
        input
    }

    /// Reads a line. A first Ctrl-C only warns that the next one leaves.
    async fn next_line(
        &mut self,
        prompt: &'static str,
        initial_text: String,
        purpose: LinePurpose,
    ) -> Result<UserInput> {
        let mut line_request = LineRequest {
            prompt,
            initial_text,
            purpose,
        };
        self.editor.request_line(line_request.clone());
        let mut interrupts = 0;
        loop {
            let outcome = tokio::select! {
                outcome = self.editor.next_outcome() => outcome,
                signal = next_signal(&self.interrupts) => match signal {
                    SignalRequest::End => return Ok(UserInput::End),
                    SignalRequest::Interrupt => LineOutcome::InterruptSignal,
                },
            };
            match outcome {
                LineOutcome::Text(line) => return Ok(UserInput::Text(line)),
                LineOutcome::Quit => return Ok(UserInput::Leave),
                LineOutcome::Failed(error) => return Err(error),
                LineOutcome::EditorFailed(error) => {
                    self.output.error(&error);
                    continue;
                }
                LineOutcome::Interrupted | LineOutcome::InterruptSignal if interrupts > 0 => {
                    return Ok(UserInput::Leave);
                }
                LineOutcome::Interrupted => {
                    self.output.note("press Ctrl-C again to exit");
                    line_request.initial_text.clear();
                    self.editor.request_line(line_request.clone());
                }
                LineOutcome::InterruptSignal => self.output.note("\npress Ctrl-C again to exit"),
            }
            interrupts += 1;
        }
    }

    /// Keeps what was typed in the meantime as the beginning of the next line. Keys that edit a
    /// line edit it, and other special keys, such as arrows, have no effect.
    fn keep_typed_ahead(&mut self) {
        let new_keys = self.keyboard.read_typed_ahead();
        let keys = format!("{}{new_keys}", self.typed_ahead);
        let mut line = TypedMessageLine::with_limit(TYPED_AHEAD_BYTES_MAX);
        line.push(keys.trim_end_matches('\n').as_bytes());
        self.typed_ahead = line.take_text().replace('\t', "");
    }

    /// Runs a turn. A line that is typed during the turn and not ended becomes the beginning of the
    /// next prompt.
    async fn run_turn(&mut self, turn: TurnInput<'_>) -> LoopControl {
        let result = self.execute_turn(turn).await;
        self.keep_typed_ahead();
        self.file_finder.refresh();
        match result {
            Ok(control) => control,
            Err(error) => {
                self.output.error(&error);
                if error.kind() == ErrorKind::Interrupted {
                    LoopControl::Leave
                } else {
                    LoopControl::Continue
                }
            }
        }
    }

    /// Executes a turn. A first signal stops it gracefully and keeps its results; a second one
    /// stops it immediately and leaves.
    async fn execute_turn(&mut self, turn: TurnInput<'_>) -> Result<LoopControl> {
        let stop = ShutdownSignal::default();
        let (output, state) = (&mut self.output, &mut self.state);
        let arguments = &self.arguments;
        let leave = CancellationToken::new();
        // In a separate task, because this one blocks on the keyboard while the user is asked
        // something.
        let signal_watcher = tokio::spawn(watch_signals(
            Arc::clone(&self.interrupts),
            stop.clone(),
            leave.clone(),
        ));
        let is_resumption = matches!(turn, TurnInput::Interrupted(_));
        let outcome = match turn {
            TurnInput::Typed(prompt) => match state.prepare(prompt, &stop.graceful, output).await {
                Ok(prepared) => {
                    let mode = OutputMode::new(&state.host, None);
                    let outcome = execute(prepared, arguments, stop, output, mode);
                    Box::pin(outcome).await
                }
                Err(error) => Err(error),
            },
            TurnInput::Interrupted(interrupted_run) => {
                let host = &state.host;
                let outcome = resume(interrupted_run, host, arguments, stop, output, None);
                Box::pin(outcome).await
            }
        };
        signal_watcher.abort();
        self.output.set_run_end(None);
        let control = if leave.is_cancelled() {
            LoopControl::Leave
        } else {
            LoopControl::Continue
        };
        match outcome {
            Ok(outcome) if is_resumption => {
                self.state
                    .record_resumed_outcome(&outcome, &mut self.output)?;
                self.typed_ahead = outcome.unsent_text;
            }
            Ok(outcome) => {
                if outcome.kept_files.is_some() {
                    self.output
                        .note("to let the winner write here: /context add . write");
                }
                self.state.record_outcome(&outcome);
                self.typed_ahead = outcome.unsent_text;
            }
            Err(error) if control == LoopControl::Continue => return Err(error),
            Err(error) => self.output.error(&error),
        }
        Ok(control)
    }
}

/// Waits for the next signal.
async fn next_signal(interrupts: &Mutex<SignalListener>) -> SignalRequest {
    interrupts.lock().await.next_request().await
}

/// Watches for signals during a turn: the first Ctrl-C stops it gracefully. A second signal stops
/// it immediately and cancels `leave`; the end of the terminal also cancels `leave`.
async fn watch_signals(
    interrupts: Arc<Mutex<SignalListener>>,
    stop: ShutdownSignal,
    leave: CancellationToken,
) {
    loop {
        let signal = next_signal(&interrupts).await;
        let is_second = stop.graceful.is_cancelled();
        if signal == SignalRequest::End || is_second {
            leave.cancel();
        }
        if is_second {
            stop.immediate.cancel();
        }
        stop.graceful.cancel();
    }
}

/// Question about a turn that the user stopped.
const QUESTION: &str = "The last turn was stopped. Resume it? [Y]es (default) / [N]o: ";

impl InteractiveSession {
    /// Resumes the interrupted turn of the session, if there is one.
    pub(super) async fn resume_interrupted_turn(&mut self) -> Result<LoopControl> {
        let Some(interrupted_run) = find_interrupted_run(&self.arguments, &self.state.host)? else {
            return Ok(LoopControl::Continue);
        };
        if interrupted_run.cause == InterruptionCause::Killed {
            return Ok(self.run_turn(TurnInput::Interrupted(interrupted_run)).await);
        }
        loop {
            let input = self
                .read_input(QUESTION, String::new(), LinePurpose::Question)
                .await?;
            let UserInput::Text(line) = input else {
                return Ok(LoopControl::Leave);
            };
            match parse_answer(&line.text) {
                Some(DirectoryAnswer::Yes) => break,
                Some(DirectoryAnswer::No) => return Ok(LoopControl::Continue),
                Some(DirectoryAnswer::Custom | DirectoryAnswer::Protect) | None => {
                    self.output.note("   expected `y` or `n`");
                }
            }
        }
        Ok(self.run_turn(TurnInput::Interrupted(interrupted_run)).await)
    }
}
