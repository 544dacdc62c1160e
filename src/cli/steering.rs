//! Messages of the user to the agents of a run that is in progress: from the terminal and from the
//! directory of `--inbox-dir` to the run.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::agent::user_messages::{MessageRecipient, UserMessage, UserMessageSender};
use crate::cli::output::CliOutput;
use crate::cli::typed_message::{
    RunReport, TypedMessageLine, parse_message, reason_against_sending,
};
use crate::config::diagnostic::quote;
use crate::error::Result;
use crate::event::InputChannel;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::text::escape_name;
use crate::world::io::clock::Stopwatch;
use crate::world::io::message_inbox::{InboxItem, InboxMessage, MessageInbox};
use crate::world::io::terminal_input::{TerminalInput, TypedInput};
use crate::world::io::terminal_mode::{has_input, read_keys};

/// Time without a key after which a key answers a question: what is typed before was meant for
/// something else.
const ANSWER_PAUSE: Duration = Duration::from_millis(700);
/// Interval at which a question checks whether it is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// What Escape and Ctrl-D send.
const ESCAPE: u8 = 0x1b;
const END_OF_INPUT: u8 = 0x04;

/// Where messages to a run come from.
#[derive(Debug)]
pub(crate) struct SteeringInput {
    /// Sends them to the run.
    pub(crate) sender: UserMessageSender,
    /// The inbox directory, if there is one.
    pub(crate) inbox: Option<MessageInbox>,
    /// The terminal, if a user sits at it.
    pub(crate) keyboard: Option<TerminalInput>,
    /// What is being typed.
    pub(crate) line: TypedMessageLine,
    /// When the escape character that came last is the key Esc.
    pub(crate) escape_ends: Option<Instant>,
    /// What the user has asked about the run and was not shown yet.
    pub(crate) report: Option<RunReport>,
}

/// What reads the keyboard while a run works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyboardReader {
    /// The line of messages.
    MessageLine,
    /// The dashboard.
    Dashboard,
}

impl SteeringInput {
    /// Opens the inbox directory `inbox`, if there is one, and reads messages from it and from
    /// `keyboard` for `sender`.
    ///
    /// # Errors
    /// The directory cannot be watched, or others can change it.
    pub(crate) fn open(
        sender: UserMessageSender,
        inbox: Option<&AbsPath>,
        keyboard: Option<TerminalInput>,
    ) -> Result<Self> {
        Ok(Self {
            sender,
            inbox: inbox.map(MessageInbox::open).transpose()?,
            keyboard,
            line: TypedMessageLine::default(),
            escape_ends: None,
            report: None,
        })
    }

    /// Waits for input and sends the message that it completes; returns warnings about what was
    /// not sent. After `stop` is cancelled, or with another reader, nothing more is read from the
    /// terminal. Esc twice cancels it. Cancel-safe.
    pub(crate) async fn forward(
        &mut self,
        stop: &CancellationToken,
        reader: KeyboardReader,
    ) -> Vec<String> {
        let reads_keys = reader == KeyboardReader::MessageLine && !stop.is_cancelled();
        tokio::select! {
            item = next_item(self.inbox.as_mut()) => match item {
                InboxItem::Message(message) => self.send_to_recipients(message),
                InboxItem::Warning(warning) => vec![warning],
            },
            () = wait_for_keys(self.keyboard.as_mut()), if reads_keys => {
                let warnings = self.read_keys(stop);
                self.escape_ends = self.escape_end();
                self.stop_if_escaped(stop);
                warnings
            }
            () = wait_until(self.escape_ends), if reads_keys => {
                self.escape_ends = None;
                self.line.end_escape();
                self.stop_if_escaped(stop);
                Vec::new()
            }
        }
    }

    /// Returns when an escape character that came last is the key Esc.
    fn escape_end(&self) -> Option<Instant> {
        let keyboard = self.keyboard.as_ref()?;
        let is_open = self.line.is_after_escape();
        is_open.then(|| Instant::now().checked_add(keyboard.escape_delay()))?
    }

    fn stop_if_escaped(&self, stop: &CancellationToken) {
        if self.line.is_escaped_twice() {
            stop.cancel();
        }
    }

    /// Reads what was typed, and sends the line that it completes.
    fn read_keys(&mut self, stop: &CancellationToken) -> Vec<String> {
        let Some(keyboard) = self.keyboard.as_mut().filter(|_| !stop.is_cancelled()) else {
            return Vec::new();
        };
        let typed_line = match keyboard.read() {
            TypedInput::Line(bytes) | TypedInput::Keys(bytes) => self.line.push(&bytes),
            TypedInput::Nothing => None,
            TypedInput::Ended => {
                self.keyboard = None;
                None
            }
        };
        let warning = typed_line.and_then(|line| self.send_line(&line));
        warning.into_iter().collect()
    }

    /// Returns the next key that answers a question: one that is typed by itself, on an empty line,
    /// after [`ANSWER_PAUSE`] without a key. What is typed before is text of the line. Returns
    /// `None` if `is_over` becomes true, or the input ends.
    pub(crate) fn next_answer_key(
        &mut self,
        is_over: &dyn Fn() -> bool,
        output: &mut CliOutput<'_>,
    ) -> Option<char> {
        let mut since_key = Stopwatch::start();
        while !is_over() {
            if !has_input(POLL_INTERVAL) {
                continue;
            }
            let keys = read_keys()?;
            if self.line.is_empty()
                && since_key.elapsed() >= ANSWER_PAUSE
                && let Ok(&[key]) = <&[u8; 1]>::try_from(keys.as_slice())
                && key != ESCAPE
            {
                return (key != END_OF_INPUT).then(|| char::from(key).to_ascii_lowercase());
            }
            since_key = Stopwatch::start();
            let message = self.line.push(&keys);
            if let Some(warning) = message.and_then(|line| self.send_line(&line)) {
                output.warning(&warning);
            }
            if let Some(text) = self.line.display_text() {
                output.transient(&text);
            }
        }
        None
    }

    /// Adds what another reader of the keyboard left to the line that is being typed, and sends the
    /// line that it completes. Returns a warning if it was not sent.
    pub(crate) fn push_typed_text(
        &mut self,
        text: &str,
        stop: &CancellationToken,
    ) -> Option<String> {
        if self.keyboard.is_none() || stop.is_cancelled() {
            return None;
        }
        let line = self.line.push(text.as_bytes())?;
        self.send_line(&line)
    }

    /// Keeps a message that was not sent before the run ended, even if it is complete, as the line
    /// that is being typed.
    pub(crate) fn keep_unsent_message(&mut self, message: &str) {
        self.line.push(message.trim_end_matches('\n').as_bytes());
    }

    /// Sends a line that the user typed, unless it is a key or a command; a question about the run
    /// is kept for whoever shows it. Returns a warning if it
    /// was not sent.
    pub(crate) fn send_line(&mut self, line: &str) -> Option<String> {
        let line = line.trim();
        if let Some(report) = RunReport::parse(line) {
            self.report = Some(report);
            return None;
        }
        if let Some(reason) = reason_against_sending(line) {
            let line = quote(line);
            return Some(format!(
                "{line} was not sent: {reason}; Ctrl-C stops the run"
            ));
        }
        let message = parse_message(line, self.sender.agents());
        let error = self.sender.send(message).err();
        error.map(|reason| format!("your message was not sent: {reason}"))
    }

    /// Sends a message to each of its recipients.
    fn send_to_recipients(&self, message: InboxMessage) -> Vec<String> {
        let InboxMessage {
            content,
            target_agents,
            file,
        } = message;
        let to_agent = |name: String| {
            let agent = AgentId::parse(&name);
            agent
                .map(MessageRecipient::Agent)
                .map_err(|error| error.to_string())
        };
        let recipients = match target_agents {
            None => vec![Ok(MessageRecipient::All)],
            Some(names) => names.into_iter().map(to_agent).collect(),
        };
        let results = recipients.into_iter().map(|to| {
            let text = content.as_str().into();
            let by = InputChannel::InboxDir;
            let message = UserMessage { to: to?, text, by };
            self.sender.send(message).map_err(|error| error.to_string())
        });
        let errors = results.filter_map(std::result::Result::err);
        let file = escape_name(&file);
        errors
            .map(|reason| {
                format!(
                    "`{file}` in the inbox was not sent: {}",
                    escape_name(&reason)
                )
            })
            .collect()
    }
}

/// Waits for the next item of the inbox; forever if there is none.
async fn next_item(inbox: Option<&mut MessageInbox>) -> InboxItem {
    match inbox {
        Some(inbox) => inbox.next().await,
        None => pending().await,
    }
}

/// Waits until `time`; forever without one.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Waits until something is typed; forever if there is no terminal.
async fn wait_for_keys(keyboard: Option<&mut TerminalInput>) {
    match keyboard {
        Some(keyboard) => keyboard.wait().await,
        None => pending().await,
    }
}
