//! The diagnostic log of a run: what massgen itself did, for debugging. A dedicated thread writes
//! it, so that a slow disk blocks nothing else. It must never hold a secret.

use std::io::{Error, Result as IoResult, Write};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::error::Result;
use crate::path::AbsPath;
use crate::text::escape_name;
use crate::world::io::clock;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::file::{self, Appender};

/// The most lines that may wait to be written; further lines are dropped and not counted.
const LINES_WAITING_MAX: usize = 10_000;

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogDetail {
    #[default]
    /// Steps of the run and errors, in `massgen.log`.
    Plain,
    /// Requests, timings and decisions too, in `massgen_debug.log`.
    Debug,
}

/// A log that is being written; dropping it writes the remaining lines.
#[derive(Debug)]
#[must_use]
pub struct DiagnosticLog {
    _flush_guard: WorkerGuard,
}

/// Creates the log in the directory `turn`, or appends to an existing one. A process has one log;
/// if another run of this process has started one, this one stays empty.
pub fn begin(turn: &AbsPath, detail: LogDetail, redactor: Redactor) -> Result<DiagnosticLog> {
    let (name, level) = match detail {
        LogDetail::Plain => ("massgen.log", LevelFilter::INFO),
        LogDetail::Debug => ("massgen_debug.log", LevelFilter::DEBUG),
    };
    let path = turn.join(name);
    let file = RedactingWriter {
        file: if file::exists(&path)? {
            Appender::open_locked(path)?
        } else {
            Appender::create(path)?
        },
        redactor,
    };
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_WAITING_MAX)
        .finish(file);
    let subscriber = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_ansi(false)
        .with_timer(LogClock)
        .with_max_level(level)
        .finish()
        .with(Targets::new().with_target("massgen", level));
    if set_global_default(subscriber).is_err() {
        tracing::debug!("another run of this process already has a log");
    }
    Ok(DiagnosticLog {
        _flush_guard: guard,
    })
}

/// A file that redacts secrets. Each event becomes one line: text of a model, a server or a file in
/// it can neither start another line nor control a terminal.
struct RedactingWriter {
    file: Appender,
    redactor: Redactor,
}

impl Write for RedactingWriter {
    fn write(&mut self, line: &[u8]) -> IoResult<usize> {
        let event = self.redactor.text(&String::from_utf8_lossy(line));
        let event = event.strip_suffix('\n').unwrap_or(&event);
        let line_text = format!("{}\n", escape_name(event));
        self.file
            .append(line_text.as_bytes())
            .map_err(Error::other)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}

struct LogClock;

impl tracing_subscriber::fmt::time::FormatTime for LogClock {
    fn format_time(&self, w: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        write!(w, "{}", clock::now().iso_format())
    }
}
