//! Owns the session that is typed on a terminal: prompts become turns of one session, commands show how it
//! stands, and no error of a turn ends it. It holds no rules about access; a turn is prepared and
//! conducted as a single run is.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::cli::args::RunArguments;
use crate::cli::conduct::{Reader, conduct};
use crate::cli::deliveries::recover;
use crate::cli::editor::{Ask, Editor, Purpose, Setup, Style, Typed, TypedLine};
use crate::cli::format::OutputFormat;
use crate::cli::interactive::commands::{Line, OFFERED, read};
use crate::cli::interactive::standing::Standing;
use crate::cli::interrupts::{Asked, Interrupts};
use crate::cli::output::{ColourChoice, Output};
use crate::cli::resume::{resume, unfinished};
use crate::cli::run::{CALLS_END_MAX, runtime};
use crate::config::place::STATE_DIR;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::{Host, Stream};
use crate::orchestrator::conduct::Stop;
use crate::resume::Unfinished;
use crate::world::browse::Browser;
use crate::world::store::history::History;
use crate::world::terminal::Keyboard;

mod adding;
mod answers;
mod commands;
mod pasted;
mod question;
mod recorded;
mod standing;

/// What stands before the line that is typed.
const BEFORE: &str = "> ";
/// The variable that asks for plain lines.
const SCREEN_READER: &str = "MASSGEN_SCREEN_READER";
/// Terminals that can do nothing but show one line after the other.
const SIMPLE_TERMINALS: [&str; 3] = ["dumb", "cons25", "emacs"];

/// Whether the command line asks for a session: there is no task, a person sits at the terminal, and
/// nothing asks for what only a single run has.
pub(crate) fn is_wanted(host: &Host, arguments: &RunArguments) -> bool {
    let is_terminal = host.stdin == Stream::Terminal && host.stdout == Stream::Terminal;
    let is_single = arguments.automation
        || arguments.dry_run
        || arguments.output_file.is_some()
        || arguments.output_format != OutputFormat::Text;
    is_terminal && arguments.task.is_empty() && !is_single
}

/// Holds a session until the user leaves.
pub(crate) fn run(host: &Host, arguments: &RunArguments) -> Result<ExitStatus> {
    let runtime = runtime()?;
    let ended = runtime.block_on(Box::pin(converse(host, arguments)));
    runtime.shutdown_timeout(CALLS_END_MAX);
    ended
}

async fn converse(host: &Host, arguments: &RunArguments) -> Result<ExitStatus> {
    let interrupts = Interrupts::receive(host.hangup)?;
    let keyboard = Keyboard::find();
    let keyboard = keyboard.ok_or_else(|| Error::bug("standard input is no terminal"))?;
    let style = style(host, arguments);
    let mut output = Output::story(host);
    if style != Style::Full {
        output = output.without_transients();
    }
    recover(host, &mut output)?;
    let standing = Standing::open(host, arguments, &mut output)?;
    let browser = Arc::new(Browser::new(host.cwd.clone(), host.home.clone()));
    let history = History::of(host.cwd.join(STATE_DIR));
    let editor = Editor::start(Setup {
        style,
        colours: ColourChoice::of(host),
        browser: Arc::clone(&browser),
        commands: OFFERED,
        history: history.read(),
    });
    keyboard.quieten();
    let conversation = Conversation {
        style,
        arguments: arguments.clone(),
        output,
        standing,
        editor,
        browser,
        history,
        keyboard,
        interrupts: Arc::new(Mutex::new(interrupts)),
        begun: String::new(),
    };
    conversation.hold().await
}

/// How the line editor is to show itself.
fn style(host: &Host, arguments: &RunArguments) -> Style {
    let is_simple = host
        .env("TERM")
        .is_none_or(|term| SIMPLE_TERMINALS.contains(&term));
    if is_simple {
        Style::Simple
    } else if arguments.typed.screen_reader || host.env(SCREEN_READER).is_some() {
        Style::Plain
    } else {
        Style::Full
    }
}

/// A session that is typed.
#[derive(Debug)]
struct Conversation {
    style: Style,
    arguments: RunArguments,
    output: Output<'static>,
    standing: Standing,
    editor: Editor,
    browser: Arc<Browser>,
    history: History,
    keyboard: Keyboard,
    interrupts: Arc<Mutex<Interrupts>>,
    /// What was typed while a turn went on. The terminal did not mark what of it was pasted.
    begun: String,
}

/// What runs next.
#[derive(Debug)]
enum Turn<'p> {
    /// What was typed.
    Typed(&'p str),
    /// A run of the session that was broken off.
    BrokenOff(Unfinished),
}

/// Whether the session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    GoOn,
    Leave,
}

/// A line that was typed, or that none will be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    Text(TypedLine),
    Leave,
    End,
}

impl Conversation {
    async fn hold(mut self) -> Result<ExitStatus> {
        self.browser.refresh();
        self.greet();
        if self.standing.is_open_question() && self.add_directory().await? == After::Leave {
            return Ok(ExitStatus::Delivered);
        }
        if let Some(unfinished) = unfinished(&self.arguments, &self.standing.host)?
            && self.take(Turn::BrokenOff(unfinished)).await == After::Leave
        {
            return Ok(ExitStatus::Delivered);
        }
        loop {
            let begun = std::mem::take(&mut self.begun);
            let typed_ahead = begun.clone();
            let mut line = match self.hear(BEFORE, begun, Purpose::Prompt).await? {
                Heard::Text(line) => line,
                Heard::Leave => return Ok(ExitStatus::Delivered),
                Heard::End => return Ok(ExitStatus::Interrupted),
            };
            if !typed_ahead.is_empty() {
                line.pasted.push(typed_ahead);
            }
            let text = line.text.replace("\\\n", "\n");
            let after = match read(&text) {
                Ok(Line::Empty) => After::GoOn,
                Ok(Line::Command(command, rest)) => {
                    self.keep(&text);
                    self.obey(command, rest)
                }
                Ok(Line::Prompt(prompt)) => match self.settle_pasted(prompt, &line.pasted).await? {
                    Some(prompt) => {
                        self.keep(&prompt);
                        self.take(Turn::Typed(&prompt)).await
                    }
                    None => After::Leave,
                },
                Err(error) => {
                    self.output.error(&error);
                    After::GoOn
                }
            };
            if after == After::Leave {
                return Ok(ExitStatus::Delivered);
            }
        }
    }

    /// Keeps what was typed for this session and for later ones.
    fn keep(&mut self, text: &str) {
        self.editor.remember(text.trim());
        if let Err(error) = self.history.add(text.trim()) {
            self.output
                .warning(&format!("what is typed is not kept: {error:#}"));
        }
    }

    /// Has a line typed after `before`. Where the terminal itself edits it, it shows what is typed.
    async fn hear(
        &mut self,
        before: &'static str,
        begun: String,
        purpose: Purpose,
    ) -> Result<Heard> {
        if self.style == Style::Simple {
            self.keyboard.restore();
        }
        let heard = self.line(before, begun, purpose).await;
        self.keyboard.quieten();
        heard
    }

    /// A first Ctrl-C says that the next one leaves.
    async fn line(
        &mut self,
        before: &'static str,
        begun: String,
        purpose: Purpose,
    ) -> Result<Heard> {
        let mut ask = Ask {
            before,
            begun,
            purpose,
        };
        self.editor.ask(ask.clone());
        let mut interrupts = 0;
        loop {
            let typed = tokio::select! {
                typed = self.editor.typed() => typed,
                asked = next(&self.interrupts) => match asked {
                    Asked::End => return Ok(Heard::End),
                    Asked::Interrupt => Typed::Signalled,
                },
            };
            match typed {
                Typed::Text(line) => return Ok(Heard::Text(line)),
                Typed::Left => return Ok(Heard::Leave),
                Typed::Failed(error) => return Err(error),
                Typed::Interrupted | Typed::Signalled if interrupts > 0 => return Ok(Heard::Leave),
                Typed::Interrupted => {
                    self.output.note("Ctrl-C again leaves");
                    ask.begun.clear();
                    self.editor.ask(ask.clone());
                }
                Typed::Signalled => self.output.note("\nCtrl-C again leaves"),
            }
            interrupts += 1;
        }
    }

    /// Lets a turn run. What is typed meanwhile waits for the next prompt.
    async fn take(&mut self, turn: Turn<'_>) -> After {
        let ended = self.conduct(turn).await;
        let ahead = self.keyboard.typed_ahead();
        self.begun = ahead
            .trim_end_matches('\n')
            .replace(|c: char| c.is_control() && c != '\n', "");
        self.browser.refresh();
        match ended {
            Ok(after) => after,
            Err(error) => {
                self.output.error(&error);
                if error.kind() == ErrorKind::Interrupted {
                    After::Leave
                } else {
                    After::GoOn
                }
            }
        }
    }

    /// A first signal ends the turn with what it has; a second one gives it up and leaves.
    async fn conduct(&mut self, turn: Turn<'_>) -> Result<After> {
        let stop = Stop::default();
        let (output, standing) = (&mut self.output, &mut self.standing);
        let arguments = &self.arguments;
        let leave = CancellationToken::new();
        // A task of its own: while the user is asked something, this one waits for the keyboard.
        let watching = watch(Arc::clone(&self.interrupts), stop.clone(), leave.clone());
        let watching = tokio::spawn(watching);
        let was_broken_off = matches!(turn, Turn::BrokenOff(_));
        let conducted = match turn {
            Turn::Typed(prompt) => match standing.prepare(prompt, output).await {
                Ok(prepared) => {
                    let conducted = conduct(prepared, arguments, stop, output, Reader::Streams);
                    Box::pin(conducted).await
                }
                Err(error) => Err(error),
            },
            Turn::BrokenOff(unfinished) => {
                let typed = (&standing.host, arguments);
                let conducted = resume(unfinished, typed, stop, output, None);
                Box::pin(conducted).await
            }
        };
        watching.abort();
        let after = if leave.is_cancelled() {
            After::Leave
        } else {
            After::GoOn
        };
        match conducted {
            Ok(conducted) if was_broken_off => {
                self.standing.resumed(&conducted, &mut self.output)?;
            }
            Ok(conducted) => self.standing.conducted(&conducted),
            Err(error) if after == After::GoOn => return Err(error),
            Err(error) => self.output.error(&error),
        }
        Ok(after)
    }
}

/// Waits for the next signal.
async fn next(interrupts: &Mutex<Interrupts>) -> Asked {
    interrupts.lock().await.next().await
}

/// While a turn runs: the first Ctrl-C stops it with what it has; whatever follows, and the end of the
/// terminal, gives it up and says that the user wants to `leave`.
async fn watch(interrupts: Arc<Mutex<Interrupts>>, stop: Stop, leave: CancellationToken) {
    loop {
        let asked = next(&interrupts).await;
        let is_second = stop.soon.is_cancelled();
        if asked == Asked::End || is_second {
            leave.cancel();
        }
        if is_second {
            stop.at_once.cancel();
        }
        stop.soon.cancel();
    }
}
