//! The two standard streams: results go to standard output, progress and messages to standard
//! error. Nothing else in massgen prints. A closed pipe is not an error: further output to it is
//! discarded. So is a reader who does not read when a run is to end.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};

use crate::cli::cell_text::wrap_styled_words;
use crate::cli::standard_stream::{RunEndSignal, StandardStream, StreamName, WriteLimit};
use crate::cli::terminal_text::strip_control_sequences;
use crate::error::{Error, Result};
use crate::host::{Host, StreamTarget};
use crate::orchestrator::execution::ShutdownSignal;
use crate::text::{escape_json, escape_line};
use crate::world::diagnostics::probe::terminal::{TerminalSize, stderr_size};

/// Style of a piece of text if colours are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextStyle {
    /// As it is.
    Plain,
    /// The most important part of its line.
    Strong,
    /// Less important text.
    Faint,
    /// Success.
    Good,
    /// Needs attention.
    Warn,
    /// Failed or denied.
    Bad,
    /// The title of a text.
    Title,
    /// Emphasized text.
    Emphasis,
    /// Code.
    Code,
    /// The text of a link.
    Link,
    /// The header of a hunk of a diff.
    HunkHeader,
    /// The name of an agent.
    AgentName,
    /// What surrounds the name or the cell of the agent at this index of the config. The colours
    /// of many terminals are hard to read, so that no text has it.
    AgentFrame(usize),
}

/// Format in which a command prints its findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    /// For the user.
    Text,
    /// For scripts.
    Json,
}

impl From<bool> for ReportFormat {
    /// Returns the format that a `--json` flag asks for.
    fn from(json: bool) -> Self {
        if json {
            ReportFormat::Json
        } else {
            ReportFormat::Text
        }
    }
}

/// Ends all styles.
const RESET: &str = "\u{1b}[0m";
/// Cyan, magenta, blue, yellow, green and their bright variants: none is the red of errors.
const AGENT_COLOURS: &[&str] = &[
    "\u{1b}[36m",
    "\u{1b}[35m",
    "\u{1b}[34m",
    "\u{1b}[33m",
    "\u{1b}[32m",
    "\u{1b}[96m",
    "\u{1b}[95m",
    "\u{1b}[94m",
];
/// Variable that is set where a screen reader reads the terminal.
pub(crate) const SCREEN_READER: &str = "MASSGEN_SCREEN_READER";
/// Moves to the first column and clears the line.
const CLEAR_LINE: &str = "\r\u{1b}[2K";

impl TextStyle {
    fn ansi_code(self) -> &'static str {
        match self {
            TextStyle::Plain => "",
            TextStyle::Strong | TextStyle::AgentName => "\u{1b}[1m",
            TextStyle::Faint => "\u{1b}[2m",
            TextStyle::Good => "\u{1b}[32m",
            TextStyle::Warn => "\u{1b}[33m",
            TextStyle::Bad => "\u{1b}[31m",
            TextStyle::Title => "\u{1b}[1;4m",
            TextStyle::Emphasis => "\u{1b}[3m",
            TextStyle::Code | TextStyle::HunkHeader => "\u{1b}[36m",
            TextStyle::Link => "\u{1b}[4m",
            TextStyle::AgentFrame(index) => index
                .checked_rem(AGENT_COLOURS.len())
                .and_then(|index| AGENT_COLOURS.get(index).copied())
                .unwrap_or_default(),
        }
    }
}

/// A piece of a line, with its style.
pub(crate) type StyledPiece<'t> = (TextStyle, &'t str);

/// A line as pieces of text with their styles.
pub(crate) type StyledLine = Vec<(TextStyle, String)>;

/// Borrows the pieces of `line`, as the methods of [`CliOutput`] expect them.
pub(crate) fn line_pieces(line: &StyledLine) -> Vec<StyledPiece<'_>> {
    line.iter()
        .map(|(style, text)| (*style, text.as_str()))
        .collect()
}

/// Returns the text of `line` without its styles.
pub(crate) fn plain_text(line: &StyledLine) -> String {
    line.iter().map(|(_, text)| text.as_str()).collect()
}

/// A stream whose reader may close it.
struct OutputStream<'w> {
    writer: Box<dyn Write + Send + 'w>,
    stream: StreamTarget,
    colours: ColourChoice,
    is_closed: bool,
}

/// Maximum number of warnings that are kept for the result.
const WARNINGS_KEPT_MAX: usize = 1000;

/// The two standard streams of the process.
pub(crate) struct CliOutput<'w> {
    out: OutputStream<'w>,
    err: OutputStream<'w>,
    write_limit: WriteLimit,
    transient_line: TransientLine,
    /// Returns the size of the terminal to whose width progress is wrapped.
    terminal_size: fn() -> Option<TerminalSize>,
    /// The warnings so far.
    warnings: Vec<String>,
    /// The last notice about each subject, if the output is that of a session.
    session_notices: Option<BTreeMap<String, String>>,
}

/// Whether the terminal shows a line that will be overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransientLine {
    Shown,
    Absent,
    /// Never: the terminal, or a screen reader, cannot take a line back.
    Disabled,
}

impl TransientLine {
    /// Returns `Disabled` if the terminal is dumb or the environment names a screen reader.
    fn from_host(host: &Host) -> Self {
        if host.env("TERM") == Some("dumb") || host.env(SCREEN_READER).is_some() {
            TransientLine::Disabled
        } else {
            TransientLine::Absent
        }
    }
}

/// Whether the user wants colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColourChoice {
    /// On terminals.
    Terminals,
    /// Nowhere.
    Never,
}

impl ColourChoice {
    /// Returns `Terminals` unless the user has set `NO_COLOR` (<https://no-color.org>) or the
    /// terminal is dumb.
    pub(crate) fn from_host(host: &Host) -> Self {
        if host.env("NO_COLOR").is_some() || host.env("TERM") == Some("dumb") {
            ColourChoice::Never
        } else {
            ColourChoice::Terminals
        }
    }
}

impl CliOutput<'static> {
    /// Opens the streams of this process.
    pub(crate) fn from_host(host: &Host) -> Self {
        let colours = ColourChoice::from_host(host);
        let write_limit = WriteLimit::default();
        let stream = |name| StandardStream::new(name, &write_limit);
        Self {
            out: OutputStream::new(stream(StreamName::Output), host.stdout, colours),
            err: OutputStream::new(stream(StreamName::Error), host.stderr, colours),
            write_limit,
            transient_line: TransientLine::from_host(host),
            terminal_size: stderr_size,
            warnings: Vec::new(),
            session_notices: None,
        }
    }

    /// Like [`Self::from_host`], but writes everything to standard output. For commands whose
    /// result is what a run prints on standard error.
    pub(crate) fn for_run_log(host: &Host) -> Self {
        let colours = ColourChoice::from_host(host);
        let output = Self::from_host(host);
        let stream = StandardStream::new(StreamName::Output, &output.write_limit);
        Self {
            err: OutputStream::new(stream, host.stdout, colours),
            ..output
        }
    }

    /// Remembers notices, so that the turns of a session do not repeat them.
    pub(crate) fn with_session_notices(mut self) -> Self {
        self.session_notices = Some(BTreeMap::new());
        self
    }

    /// Disables lines that would be overwritten.
    pub(crate) fn without_transients(mut self) -> Self {
        self.disable_transients();
        self
    }

    /// Like [`Self::from_host`], but sends results to a pager on the terminal.
    pub(crate) fn with_pager(host: &Host, pager: impl Write + Send + 'static) -> Self {
        Self {
            out: OutputStream::new(pager, StreamTarget::Terminal, ColourChoice::from_host(host)),
            ..Self::from_host(host)
        }
    }

    /// Opens the streams of this process for plain text, without colours, whatever they are
    /// connected to.
    pub(crate) fn plain() -> Self {
        CliOutput::with_writers(io::stdout(), io::stderr())
    }

    /// Opens standard error for the messages of a run of a server, which `stop` ends. Results are
    /// discarded: the client that started the run has them.
    pub(crate) fn for_server_run(stop: &ShutdownSignal) -> Self {
        let write_limit = WriteLimit::default();
        let messages = StandardStream::new(StreamName::Error, &write_limit);
        let output = Self {
            write_limit,
            ..CliOutput::with_writers(io::sink(), messages)
        };
        output.set_stop(stop);
        output
    }
}

impl<'w> CliOutput<'w> {
    /// Sets what ends the command: a reader who does not read does not prevent that.
    pub(crate) fn set_stop(&self, stop: &ShutdownSignal) {
        self.set_run_end(Some(RunEndSignal::new(stop, None)));
    }

    /// Sets when the run that is shown is to end: a reader who does not read does not prevent that.
    /// `None` after a run of a session.
    pub(crate) fn set_run_end(&self, end: Option<RunEndSignal>) {
        self.write_limit.set(end);
    }

    /// Returns whether the output is that of a session.
    pub(crate) fn is_of_session(&self) -> bool {
        self.session_notices.is_some()
    }

    /// Returns whether to show a notice. A session leaves out one that is the same as the last one
    /// about its subject.
    pub(crate) fn is_new_notice(&mut self, subject: &str, notice: &str) -> bool {
        let Some(notices) = &mut self.session_notices else {
            return true;
        };
        let last_notice = notices.insert(subject.to_owned(), notice.to_owned());
        last_notice.is_none_or(|last_notice| last_notice != notice)
    }

    /// Writes to `out` and `err`, which are not terminals.
    pub(crate) fn with_writers(out: impl Write + Send + 'w, err: impl Write + Send + 'w) -> Self {
        Self {
            out: OutputStream::new(out, StreamTarget::Plain, ColourChoice::Never),
            err: OutputStream::new(err, StreamTarget::Plain, ColourChoice::Never),
            write_limit: WriteLimit::default(),
            transient_line: TransientLine::Absent,
            terminal_size: || None,
            warnings: Vec::new(),
            session_notices: None,
        }
    }

    /// Writes to `out` and `err` as if both were terminals that show colours.
    #[cfg(test)]
    pub(crate) fn with_terminals(out: impl Write + Send + 'w, err: impl Write + Send + 'w) -> Self {
        Self {
            out: OutputStream::new(out, StreamTarget::Terminal, ColourChoice::Terminals),
            err: OutputStream::new(err, StreamTarget::Terminal, ColourChoice::Terminals),
            write_limit: WriteLimit::default(),
            transient_line: TransientLine::Absent,
            terminal_size: || None,
            warnings: Vec::new(),
            session_notices: None,
        }
    }

    /// Writes a result to standard output: without control sequences on a terminal, otherwise with
    /// hidden characters escaped as in JSON, because what is piped reaches a terminal later.
    pub(crate) fn result(&mut self, text: &str) -> Result<()> {
        match self.out.stream {
            StreamTarget::Terminal => self.write_result(&strip_control_sequences(text)),
            StreamTarget::Plain => self.write_result(&escape_json(text)),
        }
    }

    /// Writes the answer of a run to standard output like [`Self::result`], but byte for byte if
    /// that is not a terminal.
    pub(crate) fn answer(&mut self, text: &str) -> Result<()> {
        match self.out.stream {
            StreamTarget::Terminal => self.result(text),
            StreamTarget::Plain => self.write_result(text),
        }
    }

    fn write_result(&mut self, text: &str) -> Result<()> {
        self.clear_transient();
        self.out.write(text).map_err(|error| {
            Error::io("cannot write the result to standard output", error)
                .with_hint("check where the output goes, for example for a full disk")
        })
    }

    /// Writes one line of a result to standard output, with colours on a terminal that shows them.
    pub(crate) fn result_line(&mut self, pieces: &[StyledPiece<'_>]) -> Result<()> {
        let mut line = self.out.render_pieces(pieces);
        line.push('\n');
        self.write_result(&line)
    }

    /// Writes one line of progress to standard error. A write error is ignored.
    pub(crate) fn line(&mut self, pieces: &[StyledPiece<'_>]) {
        self.clear_transient();
        let mut text = String::new();
        let size = self.has_terminal().then(self.terminal_size).flatten();
        if let Some(size) = size {
            for row in wrap_styled_words(pieces, usize::from(size.columns)) {
                text.push_str(self.err.render_pieces(&line_pieces(&row)).trim_end());
                text.push('\n');
            }
        } else {
            text.push_str(&self.err.render_pieces(pieces));
            text.push('\n');
        }
        self.err.write_or_close(&text);
    }

    /// Disables lines that would be overwritten.
    pub(crate) fn disable_transients(&mut self) {
        self.clear_transient();
        self.transient_line = TransientLine::Disabled;
    }

    /// Returns whether progress is shown on a terminal.
    pub(crate) fn has_terminal(&self) -> bool {
        self.err.stream == StreamTarget::Terminal
    }

    /// Returns whether progress and results are both shown on a terminal.
    pub(crate) fn are_both_terminals(&self) -> bool {
        self.has_terminal() && self.out.stream == StreamTarget::Terminal
    }

    /// Returns whether results are shown on a terminal with styles, where Markdown is rendered.
    pub(crate) fn renders_markdown(&self) -> bool {
        self.out.stream == StreamTarget::Terminal && self.out.colours == ColourChoice::Terminals
    }

    /// Shows a line that the next one overwrites, on terminals only.
    pub(crate) fn transient(&mut self, text: &str) {
        if self.has_terminal() && self.transient_line != TransientLine::Disabled {
            let line = self.err.render_pieces(&[(TextStyle::Faint, text)]);
            self.transient_line = TransientLine::Shown;
            self.err.write_or_close(&format!("{CLEAR_LINE}{line}"));
        }
    }

    /// Prints an error to the user with its causes and hints, each on one line: a newline or
    /// another control character in a name is escaped.
    pub(crate) fn error(&mut self, error: &Error) {
        // What another program wrote ends with a newline.
        let line = |text: &str| escape_line(text.trim_end());
        self.write_labelled((TextStyle::Bad, "error"), &line(&error.to_string()));
        for cause in error.causes() {
            self.write_labelled((TextStyle::Faint, "caused by"), &line(&cause.to_string()));
        }
        for hint in error.hints() {
            self.write_labelled((TextStyle::Good, "hint"), &line(hint));
        }
    }

    /// Prints a question to the user; the answer follows on the same line.
    pub(crate) fn ask(&mut self, question: &str) {
        self.clear_transient();
        let question = self
            .err
            .render_pieces(&[(TextStyle::Strong, question), (TextStyle::Plain, " ")]);
        self.err.write_or_close(&question);
    }

    /// Prints a message to the user as it is, on one or more lines: it may be a command to copy.
    pub(crate) fn note(&mut self, text: &str) {
        self.clear_transient();
        let text = self.err.render_pieces(&[(TextStyle::Plain, text)]);
        self.err.write_or_close(&format!("{text}\n"));
    }

    /// Prints a warning to the user, on one line: a newline in a name is escaped.
    pub(crate) fn warning(&mut self, message: &str) {
        let message = &message.replace('\n', "\\n");
        if self.warnings.len() < WARNINGS_KEPT_MAX {
            self.warnings.push(message.to_owned());
        }
        self.write_labelled((TextStyle::Warn, "warning"), message);
    }

    /// Returns whether one of the two streams is closed or cannot be written.
    pub(crate) fn is_closed(&self) -> bool {
        self.out.is_closed || self.err.is_closed
    }

    /// Returns the warnings so far.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns standard output for streamed results. A closed pipe is an error here, so that the
    /// stream can end.
    pub(crate) fn stream(&mut self) -> impl Write {
        self.clear_transient();
        &mut self.out.writer
    }

    /// Writes control sequences and cells to the terminal of the progress, in one piece.
    pub(crate) fn draw(&mut self, bytes: &[u8]) {
        self.clear_transient();
        self.err.write_bytes(bytes).unwrap_or_default();
    }

    fn write_labelled(&mut self, label: StyledPiece<'_>, text: &str) {
        self.line(&[label, (TextStyle::Plain, ": "), (TextStyle::Plain, text)]);
    }

    fn clear_transient(&mut self) {
        if self.transient_line == TransientLine::Shown {
            self.transient_line = TransientLine::Absent;
            self.err.write_or_close(CLEAR_LINE);
        }
    }
}

/// Writes control sequences that restore the terminal while a panic unwinds, when no [`CliOutput`]
/// is within reach.
pub(crate) fn write_in_panic(bytes: &[u8]) {
    let mut stream = io::stderr();
    let result = stream.write_all(bytes).and_then(|()| stream.flush());
    result.unwrap_or_default();
}

impl std::fmt::Debug for CliOutput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CliOutput").finish_non_exhaustive()
    }
}

impl<'w> OutputStream<'w> {
    fn new(writer: impl Write + Send + 'w, stream: StreamTarget, colours: ColourChoice) -> Self {
        Self {
            writer: Box::new(writer),
            stream,
            colours,
            is_closed: false,
        }
    }

    fn render_pieces(&self, pieces: &[StyledPiece<'_>]) -> String {
        let mut line = String::new();
        for (style, text) in pieces {
            let text = strip_control_sequences(text);
            if text.is_empty() {
                continue;
            }
            match (self.stream, self.colours, style.ansi_code()) {
                (StreamTarget::Terminal, ColourChoice::Terminals, code) if !code.is_empty() => {
                    line.extend([code, &text, RESET]);
                }
                _ => line.push_str(&text),
            }
        }
        line
    }

    /// Writes and flushes `text`. After a closed pipe or any other error, nothing more is written.
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.write_bytes(text.as_bytes())
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let result = self
            .writer
            .write_all(bytes)
            .and_then(|()| self.writer.flush());
        let Err(error) = result else {
            return Ok(());
        };
        self.writer = Box::new(io::sink());
        self.is_closed = true;
        if error.kind() == ErrorKind::BrokenPipe {
            Ok(())
        } else {
            Err(error)
        }
    }

    fn write_or_close(&mut self, text: &str) {
        // The error has closed the stream; there is nowhere left to report it.
        self.write(text).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error;

    #[test]
    fn each_part_of_an_error_is_one_line_that_no_terminal_obeys() {
        let mut shown = Vec::new();
        let mut output = CliOutput::with_writers(io::sink(), &mut shown);
        let message = "`git add` failed: fatal:\nhint: \u{1b}]0;x\u{7}\u{202e}no\n";
        let error = Error::new(error::ErrorKind::Environment, message);
        output.error(&error.with_hint("see `git status`\n"));
        drop(output);
        assert_eq!(
            String::from_utf8(shown).unwrap(),
            "error: `git add` failed: fatal:\\nhint: \\u{1b}]0;x\\u{7}\\u{202e}no\n\
             hint: see `git status`\n"
        );
    }
}
