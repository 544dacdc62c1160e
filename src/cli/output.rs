//! Owns the two standard streams: results go to standard output, all that is told meanwhile to
//! standard error. Nothing else in massgen prints. A reader that goes away is no error: what would
//! have been written to it goes nowhere.

use std::error::Error as _;
use std::io::{self, ErrorKind, Write};

use crate::cli::terminal_text::strip_control_sequences;
use crate::error::{Error, Result};
use crate::host::{Host, StreamTarget};

/// How a piece of text looks where colours are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextStyle {
    /// As it is.
    Plain,
    /// What matters most on its line.
    Strong,
    /// What can be passed over.
    Faint,
    /// Something went well.
    Good,
    /// Something to look at.
    Warn,
    /// Something failed or was denied.
    Bad,
    /// The name of the agent at this place of the config.
    Agent(usize),
}

/// How a command prints what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

impl From<bool> for ReportFormat {
    /// The form that a `--json` flag asks for.
    fn from(json: bool) -> Self {
        if json {
            ReportFormat::Json
        } else {
            ReportFormat::Text
        }
    }
}

const RESET: &str = "\u{1b}[0m";
/// Cyan, magenta, blue, yellow, green and their bright kin: none is the red of errors.
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
/// Goes to the first column and clears the line.
const CLEAR_LINE: &str = "\r\u{1b}[2K";

impl TextStyle {
    fn ansi_code(self) -> &'static str {
        match self {
            TextStyle::Plain => "",
            TextStyle::Strong => "\u{1b}[1m",
            TextStyle::Faint => "\u{1b}[2m",
            TextStyle::Good => "\u{1b}[32m",
            TextStyle::Warn => "\u{1b}[33m",
            TextStyle::Bad => "\u{1b}[31m",
            TextStyle::Agent(place) => place
                .checked_rem(AGENT_COLOURS.len())
                .and_then(|index| AGENT_COLOURS.get(index).copied())
                .unwrap_or_default(),
        }
    }
}

/// A piece of a line, with its look.
pub(crate) type StyledPiece<'t> = (TextStyle, &'t str);

/// A stream that may be closed by its reader.
struct OutputStream<'w> {
    writer: Box<dyn Write + Send + 'w>,
    stream: StreamTarget,
    colours: ColourChoice,
    is_closed: bool,
}

/// The most warnings that are remembered.
const WARNED_MAX: usize = 1000;

/// The two standard streams of the process.
pub(crate) struct CliOutput<'w> {
    out: OutputStream<'w>,
    err: OutputStream<'w>,
    transient_line: TransientLine,
    /// The warnings so far.
    warned: Vec<String>,
}

/// Whether a line that will be overwritten stands on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransientLine {
    Shown,
    None,
    /// None may ever: the terminal, or whoever listens to it, cannot take a line back.
    Unwanted,
}

/// Whether the user wants colours where they can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColourChoice {
    /// On terminals.
    Terminals,
    /// Nowhere.
    Never,
}

impl ColourChoice {
    /// Colours are for users who have not set `NO_COLOR` (<https://no-color.org>) and whose
    /// terminal is not dumb.
    pub(crate) fn from_host(host: &Host) -> Self {
        if host.env("NO_COLOR").is_some() || host.env("TERM") == Some("dumb") {
            ColourChoice::Never
        } else {
            ColourChoice::Terminals
        }
    }
}

impl CliOutput<'static> {
    /// The streams of this process.
    pub(crate) fn from_host(host: &Host) -> Self {
        let colours = ColourChoice::from_host(host);
        Self {
            out: OutputStream::new(io::stdout(), host.stdout, colours),
            err: OutputStream::new(io::stderr(), host.stderr, colours),
            transient_line: TransientLine::None,
            warned: Vec::new(),
        }
    }

    /// As [`Self::from_host`], for what is told on standard error of a run and is a result here: all of it
    /// goes to standard output.
    pub(crate) fn for_run_log(host: &Host) -> Self {
        let colours = ColourChoice::from_host(host);
        Self {
            out: OutputStream::new(io::stdout(), host.stdout, colours),
            err: OutputStream::new(io::stdout(), host.stdout, colours),
            transient_line: TransientLine::None,
            warned: Vec::new(),
        }
    }

    /// The same, with no line that would be overwritten.
    pub(crate) fn without_transients(mut self) -> Self {
        self.transient_line = TransientLine::Unwanted;
        self
    }

    /// As [`Self::from_host`], for a result that a pager shows on the terminal.
    pub(crate) fn paged(host: &Host, pager: impl Write + Send + 'static) -> Self {
        Self {
            out: OutputStream::new(pager, StreamTarget::Terminal, ColourChoice::from_host(host)),
            ..Self::from_host(host)
        }
    }

    /// The streams of a process about which nothing is known.
    pub(crate) fn plain() -> Self {
        CliOutput::with_writers(io::stdout(), io::stderr())
    }
}

impl<'w> CliOutput<'w> {
    /// Writes to `out` and `err`, which are no terminals.
    pub(crate) fn with_writers(out: impl Write + Send + 'w, err: impl Write + Send + 'w) -> Self {
        Self {
            out: OutputStream::new(out, StreamTarget::Plain, ColourChoice::Never),
            err: OutputStream::new(err, StreamTarget::Plain, ColourChoice::Never),
            transient_line: TransientLine::None,
            warned: Vec::new(),
        }
    }

    /// Writes to `out` and `err` as if both were terminals that show colours.
    #[cfg(test)]
    pub(crate) fn with_terminals(out: impl Write + Send + 'w, err: impl Write + Send + 'w) -> Self {
        Self {
            out: OutputStream::new(out, StreamTarget::Terminal, ColourChoice::Terminals),
            err: OutputStream::new(err, StreamTarget::Terminal, ColourChoice::Terminals),
            transient_line: TransientLine::None,
            warned: Vec::new(),
        }
    }

    /// Writes a result to standard output: to a terminal cleaned, elsewhere byte for byte.
    pub(crate) fn result(&mut self, text: &str) -> Result<()> {
        match self.out.stream {
            StreamTarget::Terminal => self.write_result(&strip_control_sequences(text)),
            StreamTarget::Plain => self.write_result(text),
        }
    }

    fn write_result(&mut self, text: &str) -> Result<()> {
        self.clear_transient();
        self.out.write(text).map_err(|error| {
            Error::io("the result could not be written to standard output", error)
                .with_hint("see where the output goes: a full disk takes nothing")
        })
    }

    /// Writes one line of a result to standard output, with colours where a terminal shows them.
    pub(crate) fn result_line(&mut self, pieces: &[StyledPiece<'_>]) -> Result<()> {
        let mut line = self.out.render_pieces(pieces);
        line.push('\n');
        self.write_result(&line)
    }

    /// Writes one line of progress to standard error. That it cannot be written ends nothing.
    pub(crate) fn line(&mut self, pieces: &[StyledPiece<'_>]) {
        self.clear_transient();
        let mut line = self.err.render_pieces(pieces);
        line.push('\n');
        self.err.write_or_close(&line);
    }

    /// Whether it is a terminal that progress is shown on.
    pub(crate) fn has_terminal(&self) -> bool {
        self.err.stream == StreamTarget::Terminal
    }

    /// Whether progress and results are shown on a terminal, one below the other.
    pub(crate) fn is_one_terminal(&self) -> bool {
        self.has_terminal() && self.out.stream == StreamTarget::Terminal
    }

    /// Shows a line that the next one overwrites. Only a terminal gets it.
    pub(crate) fn transient(&mut self, text: &str) {
        if self.has_terminal() && self.transient_line != TransientLine::Unwanted {
            let line = self.err.render_pieces(&[(TextStyle::Faint, text)]);
            self.transient_line = TransientLine::Shown;
            self.err.write_or_close(&format!("{CLEAR_LINE}{line}"));
        }
    }

    /// Tells the user about an error: what happened, what led to it, what to do.
    pub(crate) fn error(&mut self, error: &Error) {
        self.write_labelled((TextStyle::Bad, "error"), &error.to_string());
        let mut cause = error.source();
        while let Some(inner) = cause {
            self.write_labelled((TextStyle::Faint, "caused by"), &inner.to_string());
            cause = inner.source();
        }
        for hint in error.hints() {
            self.write_labelled((TextStyle::Good, "hint"), hint);
        }
    }

    /// Asks the user something; the answer follows on the same line.
    pub(crate) fn ask(&mut self, question: &str) {
        self.clear_transient();
        let question = self
            .err
            .render_pieces(&[(TextStyle::Strong, question), (TextStyle::Plain, " ")]);
        self.err.write_or_close(&question);
    }

    /// Tells the user something as it is, on one line or more.
    pub(crate) fn note(&mut self, text: &str) {
        self.line(&[(TextStyle::Plain, text)]);
    }

    /// Tells the user something that ends nothing, on one line: a name in it cannot make another.
    pub(crate) fn warning(&mut self, message: &str) {
        let message = &message.replace('\n', "\\n");
        if self.warned.len() < WARNED_MAX {
            self.warned.push(message.to_owned());
        }
        self.write_labelled((TextStyle::Warn, "warning"), message);
    }

    /// Whether nobody reads standard output any more, or it cannot be written.
    pub(crate) fn is_closed(&self) -> bool {
        self.out.is_closed || self.err.is_closed
    }

    /// What the user was warned about so far.
    pub(crate) fn warned(&self) -> &[String] {
        &self.warned
    }

    /// Standard output for results that stream. A reader that has gone away is an error here, so
    /// that the stream can end.
    pub(crate) fn stream(&mut self) -> impl Write {
        self.clear_transient();
        &mut self.out.writer
    }

    fn write_labelled(&mut self, label: StyledPiece<'_>, text: &str) {
        self.line(&[label, (TextStyle::Plain, ": "), (TextStyle::Plain, text)]);
    }

    fn clear_transient(&mut self) {
        if self.transient_line == TransientLine::Shown {
            self.transient_line = TransientLine::None;
            self.err.write_or_close(CLEAR_LINE);
        }
    }
}

impl std::fmt::Debug for CliOutput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
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
            match (self.stream, self.colours, style.ansi_code()) {
                (StreamTarget::Terminal, ColourChoice::Terminals, code) if !code.is_empty() => {
                    line.extend([code, &text, RESET]);
                }
                _ => line.push_str(&text),
            }
        }
        line
    }

    /// Writes `text` at once. After a reader has gone away, or any other error, nothing more is
    /// written.
    fn write(&mut self, text: &str) -> io::Result<()> {
        let written = self
            .writer
            .write_all(text.as_bytes())
            .and_then(|()| self.writer.flush());
        let Err(error) = written else {
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
        // An error has closed the pipe; there is nobody left to tell about it.
        self.write(text).unwrap_or_default();
    }
}
