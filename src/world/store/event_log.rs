//! `events.jsonl`: an append-only log with one line of JSON per event. Each line has a checksum, so
//! that a reader can distinguish a complete line from one that a crash or a full disk truncated.
//! All other records of events can be derived from the log. Every line is redacted.

use std::io::{BufRead, Read};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::path::AbsPath;
use crate::text::json_value_count::has_more_values;
use crate::world::io::clock::LocalDateTime;
use crate::world::store::json_line::JsonLine;
use crate::world::store::log_line::LogLine;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::{self, file};

/// The longest line that is read, in bytes; no answer comes near it.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The most values in a line that is read, as many as the delivery of some hundred thousand files
/// has: each takes up to some hundred bytes of memory, however short it is in the line.
const LINE_VALUES_MAX: usize = 4 * 1024 * 1024;

/// The separator between a line's content and its checksum.
const CHECKSUM_KEY: &str = ",\"checksum\":\"";
/// What follows the checksum.
const CHECKSUM_END: &str = "\"}";
/// The length of a checksum with its separator and its end, in bytes.
const CHECKSUM_FIELD_BYTES: usize = CHECKSUM_KEY.len() + 8 + CHECKSUM_END.len();

/// The log of one turn, open for writing.
#[derive(Debug)]
pub struct EventLog {
    file: file::Appender,
    /// The number of the last line.
    seq: u64,
    /// How many lines after it could not be written.
    lost_lines: u64,
}

impl EventLog {
    /// Creates the file `path`, which must not exist. The file is locked while the log is written,
    /// so that other processes can distinguish a running run from an interrupted one.
    pub fn create(path: AbsPath) -> Result<Self> {
        let file = file::Appender::create_locked(path)?;
        Ok(Self {
            file,
            seq: 0,
            lost_lines: 0,
        })
    }

    /// Reopens the log at `path` of an interrupted run for appending. Everything after the last
    /// complete line is truncated, and so is everything from the first line before which lines are
    /// missing because they could not be written. It is an error if another process holds the lock.
    pub fn reopen(path: &AbsPath) -> Result<ReopenedLog> {
        let mut file = file::Appender::open_locked(path.clone())?;
        let mut reader = open(path)?;
        let (mut events, mut line_ends) = (Vec::new(), Vec::new());
        let (mut seq, mut complete_extent) = (0, LogReadExtent::default());
        let mut truncation_reason = None;
        while let Some(line) = reader.next() {
            match line {
                Ok(entry) if entry.follows_a_gap() => {
                    let line = entry.seq;
                    truncation_reason = Some(format!("lines are missing before line {line}"));
                    break;
                }
                Ok(entry) => {
                    seq = entry.seq;
                    events.push(entry.into_event());
                }
                Err(error) => {
                    truncation_reason = Some(error.to_string());
                    break;
                }
            }
            complete_extent = reader.extent;
            line_ends.push(complete_extent.bytes);
        }
        file.truncate(complete_extent.bytes)?;
        // The last line is complete except for its line break.
        if complete_extent.ends_open {
            file.append(b"\n")?;
        }
        let log = Self {
            file,
            seq,
            lost_lines: 0,
        };
        Ok(ReopenedLog {
            log,
            events,
            truncation_reason,
            line_ends,
        })
    }

    /// Removes everything after `end`, the end of one of its lines.
    pub fn truncate(&mut self, end: LineEnd) -> Result<()> {
        self.file.truncate(end.bytes)?;
        self.seq = end.lines;
        Ok(())
    }

    /// Returns its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.file.len()
    }

    /// Returns another handle to its file, by which another thread can wait until it is on the disk.
    pub(crate) fn duplicate(&self) -> Result<file::Appender> {
        self.file.duplicate()
    }

    /// Appends a complete line for `event`, or nothing; the next line records how many lines could
    /// not be written.
    pub fn append(
        &mut self,
        event: &Event,
        time: &LocalDateTime,
        redactor: &Redactor,
    ) -> Result<()> {
        let append_result = self
            .line(event, time, redactor)
            .and_then(|line| self.file.append(line.as_bytes()));
        if append_result.is_ok() {
            self.seq = self.seq.saturating_add(1);
            self.lost_lines = 0;
        } else {
            self.lost_lines = self.lost_lines.saturating_add(1);
        }
        append_result
    }

    fn line(&self, event: &Event, time: &LocalDateTime, redactor: &Redactor) -> Result<String> {
        let mut line = JsonLine::new(self.seq.saturating_add(1), time, event, redactor)?;
        line.lost = Some(self.lost_lines).filter(|lost| *lost > 0);
        let mut text = line.text()?;
        text.pop();
        let checksum = checksum(&text);
        Ok(format!("{text}{CHECKSUM_KEY}{checksum}{CHECKSUM_END}\n"))
    }
}

/// A log that was reopened.
#[derive(Debug)]
pub struct ReopenedLog {
    /// The log, which ends with the last complete line.
    pub log: EventLog,
    /// The event of each of its lines with its time; `None` if this version cannot read the event
    /// or the time.
    pub events: Vec<Option<(Event, LocalDateTime)>>,
    /// Why the log was truncated, if it was.
    pub truncation_reason: Option<String>,
    /// Where each line ends, in bytes from the beginning.
    line_ends: Vec<u64>,
}

impl ReopenedLog {
    /// Returns the end of the first `count` lines, or of all if there are fewer.
    pub fn line_end(&self, count: usize) -> LineEnd {
        let mut ends = self.line_ends.iter().take(count);
        LineEnd {
            lines: u64::try_from(ends.len()).unwrap_or(u64::MAX),
            bytes: ends.next_back().copied().unwrap_or_default(),
        }
    }
}

/// The end of a line in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineEnd {
    /// The number of lines up to there.
    lines: u64,
    /// Their length in bytes.
    bytes: u64,
}

/// How much of a log was read.
#[derive(Clone, Copy, Debug, Default)]
struct LogReadExtent {
    /// The length of the lines that were read, in bytes.
    bytes: u64,
    /// Whether the last of them lacks a line break.
    ends_open: bool,
}

/// Returns a short checksum, which detects accidental damage but does not protect against forgery.
pub(crate) fn checksum(text: &str) -> String {
    let digest = Sha256::digest(text);
    let beginning = digest.first_chunk().copied().unwrap_or_default();
    format!("{:08x}", u32::from_be_bytes(beginning))
}

/// One line of a log that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// Its position in the log, from 1.
    pub seq: u64,
    /// The JSON object without the checksum: `schema_version`, `seq`, `time`, `type` and the fields
    /// of the event.
    pub json: String,
    /// The event; `None` if this version does not know it.
    pub event: Option<Event>,
    time: String,
    /// Whether lines directly before it could not be written.
    follows_a_gap: bool,
}

/// The time of the lines of a log since the first one.
#[derive(Debug, Default)]
pub struct EventLogClock {
    began: Option<LocalDateTime>,
    last: Duration,
}

impl EventLogClock {
    /// Returns how long after the first line `entry` was written; for a line whose time cannot be
    /// read, the time of the line before it.
    pub fn elapsed_at(&mut self, entry: &LogEntry) -> Duration {
        let time = entry.time();
        if self.began.is_none() {
            self.began.clone_from(&time);
        }
        if let (Some(time), Some(began)) = (&time, &self.began) {
            self.last = time.since(began);
        }
        self.last
    }

    /// Returns the time of the last line.
    pub fn last(&self) -> Duration {
        self.last
    }
}

impl LogEntry {
    /// Returns when the event happened.
    pub fn time(&self) -> Option<LocalDateTime> {
        LocalDateTime::parse(&self.time)
    }

    /// Returns the event with its time; `None` if this version cannot read the event or the time.
    fn into_event(self) -> Option<(Event, LocalDateTime)> {
        let time = self.time()?;
        Some((self.event?, time))
    }

    /// Returns whether lines directly before this one could not be written.
    pub fn follows_a_gap(&self) -> bool {
        self.follows_a_gap
    }
}

/// An error in a line.
#[derive(Debug, thiserror::Error)]
pub enum LogReadError {
    /// The last line is incomplete; the reader stops here.
    #[error("line {line} is truncated after {bytes} bytes")]
    Torn {
        /// The line number, from 1.
        line: u64,
        /// The number of bytes in the incomplete line.
        bytes: usize,
    },
    /// A line is not as it was written, or not where; the reader continues after it.
    #[error("line {line} is damaged")]
    Corrupt {
        /// The line number, from 1.
        line: u64,
    },
    /// The file cannot be read any further.
    #[error("line {line} cannot be read")]
    Unreadable {
        /// The line number, from 1.
        line: u64,
        /// The underlying error.
        #[source]
        source: std::io::Error,
    },
}

/// A line of a log that was read, or why it cannot be used.
pub type LogReadResult = std::result::Result<LogEntry, LogReadError>;

/// Reads a log from the beginning, line by line.
#[derive(Debug)]
pub struct LogReader<R> {
    source: R,
    line: u64,
    extent: LogReadExtent,
    has_ended: bool,
}

/// Returns whether a process writes the log at `path`.
pub fn is_written(path: &AbsPath) -> Result<bool> {
    file::is_locked(path)
}

/// Returns whether `text` is in the log at `path`.
///
/// # Errors
/// It cannot be read.
pub fn contains(path: &AbsPath, text: &str) -> Result<bool> {
    let error = |error| state_files::file_error("read", path.as_path(), error);
    for line in file::open(path).map_err(error)?.split(b'\n') {
        if String::from_utf8_lossy(&line.map_err(error)?).contains(text) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the length of the log at `path` in bytes; `None` if it cannot be determined.
pub fn length(path: &AbsPath) -> Option<u64> {
    file::regular_size(path).ok()?
}

/// Opens the log at `path`.
pub fn open(path: &AbsPath) -> Result<LogReader<impl BufRead + use<>>> {
    file::open(path)
        .map(LogReader::new)
        .map_err(|error| state_files::file_error("read", path.as_path(), error))
}

impl<R: BufRead> LogReader<R> {
    /// Creates a reader of `source`.
    pub fn new(source: R) -> Self {
        Self {
            source,
            line: 0,
            extent: LogReadExtent::default(),
            has_ended: false,
        }
    }

    /// Skips the lines up to this number without checking them, which is much faster than reading
    /// them.
    pub fn skip_lines(&mut self, last_line: u64) {
        while self.line < last_line {
            let skip_result = Read::by_ref(&mut self.source)
                .take(LINE_BYTES_MAX)
                .skip_until(b'\n');
            match skip_result {
                // An error occurs again when the next line is read.
                Ok(0) | Err(_) => return,
                Ok(bytes) => {
                    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                    self.extent.bytes = self.extent.bytes.saturating_add(bytes);
                    self.line = self.line.saturating_add(1);
                }
            }
        }
    }

    /// Returns the intact lines, without those that a crash cut off or damaged.
    ///
    /// # Errors
    /// The file cannot be read any further.
    pub fn intact_entries(self) -> impl Iterator<Item = Result<LogEntry>> {
        self.filter_map(|entry| match entry {
            Ok(entry) => Some(Ok(entry)),
            Err(LogReadError::Torn { .. } | LogReadError::Corrupt { .. }) => None,
            Err(error @ LogReadError::Unreadable { .. }) => {
                let message = "cannot read the event log";
                Some(Err(Error::new(ErrorKind::Io, message).with_source(error)))
            }
        })
    }

    fn read_line(&mut self) -> Option<LogReadResult> {
        let mut bytes = Vec::new();
        let read_result = Read::by_ref(&mut self.source)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes);
        let line = self.line.saturating_add(1);
        self.line = line;
        match read_result {
            Ok(0) => return None,
            Ok(bytes_read) => {
                let bytes_read = u64::try_from(bytes_read).unwrap_or(u64::MAX);
                self.extent.bytes = self.extent.bytes.saturating_add(bytes_read);
            }
            Err(source) => {
                self.has_ended = true;
                return Some(Err(LogReadError::Unreadable { line, source }));
            }
        }
        let is_complete = bytes.pop_if(|last| *last == b'\n').is_some();
        self.extent.ends_open = !is_complete;
        let length = bytes.len();
        match parse_entry(bytes, line) {
            Some(entry) => Some(Ok(entry)),
            None if is_complete => Some(Err(LogReadError::Corrupt { line })),
            None => {
                self.has_ended = true;
                let bytes = length;
                Some(Err(LogReadError::Torn { line, bytes }))
            }
        }
    }
}

/// Reads a log that may still be written: an incomplete line is kept until the rest arrives.
#[derive(Debug)]
pub struct LiveLogReader {
    source: file::FileReader,
    /// The start of the line that is not complete yet.
    partial_line: Vec<u8>,
    line: u64,
}

impl LiveLogReader {
    /// Opens the log at `path`.
    pub fn open(path: &AbsPath) -> Result<Self> {
        let source = file::open(path)
            .map_err(|error| state_files::file_error("read", path.as_path(), error))?;
        Ok(Self {
            source,
            partial_line: Vec::new(),
            line: 0,
        })
    }

    /// Returns the next line if it is complete.
    pub fn next_complete(&mut self) -> Option<LogReadResult> {
        let line = self.line.saturating_add(1);
        let bytes_left =
            LINE_BYTES_MAX.saturating_sub(u64::try_from(self.partial_line.len()).unwrap_or(0));
        let read_result = Read::by_ref(&mut self.source)
            .take(bytes_left)
            .read_until(b'\n', &mut self.partial_line);
        if let Err(source) = read_result {
            return Some(Err(LogReadError::Unreadable { line, source }));
        }
        self.partial_line.pop_if(|last| *last == b'\n')?;
        self.line = line;
        let bytes = std::mem::take(&mut self.partial_line);
        Some(parse_entry(bytes, line).ok_or(LogReadError::Corrupt { line }))
    }

    /// Returns the error of a log that ends in the middle of a line and will not grow.
    pub fn torn_end(&self) -> Option<LogReadError> {
        let bytes = self.partial_line.len();
        let line = self.line.saturating_add(1);
        (bytes > 0).then_some(LogReadError::Torn { line, bytes })
    }
}

impl<R: BufRead> Iterator for LogReader<R> {
    type Item = LogReadResult;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            None
        } else {
            self.read_line()
        }
    }
}

/// Parses the entry on the line with this number, if it is intact and at the position where it was
/// written.
fn parse_entry(bytes: Vec<u8>, line: u64) -> Option<LogEntry> {
    let mut json = String::from_utf8(bytes).ok()?;
    let content_bytes = json.len().checked_sub(CHECKSUM_FIELD_BYTES)?;
    let (content, end) = json.split_at_checked(content_bytes)?;
    let expected_checksum = end.strip_prefix(CHECKSUM_KEY)?.strip_suffix(CHECKSUM_END)?;
    if checksum(content) != expected_checksum {
        return None;
    }
    json.truncate(content_bytes);
    json.push('}');
    if has_more_values(json.as_bytes(), LINE_VALUES_MAX) {
        return None;
    }
    let LogLine { head, event } = LogLine::read(&json).ok()?;
    (head.seq == line).then_some(LogEntry {
        seq: head.seq,
        json,
        event,
        time: head.time,
        follows_a_gap: head.lost.is_some(),
    })
}
