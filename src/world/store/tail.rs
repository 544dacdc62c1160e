//! Follows an event log while it is written, line by line, until the run has ended or its
//! process is gone.

use std::panic::resume_unwind;
use std::thread;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::store::event_log::{
    LiveLogReader, LogReadError, LogReadResult, RawLogLine, RawReadResult,
};
use crate::world::sys::state_files::watch::{FileWakeup, FileWatch};

/// Number of lines from which on two threads parse them faster than one.
const TWO_THREADS_LINES_MIN: usize = 64;

/// An event log that may still grow.
#[derive(Debug)]
pub struct LogTail {
    reader: LiveLogReader,
    watch: FileWatch,
    writer: WriterState,
}

/// Whether the log can still grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterState {
    Lives,
    Gone,
    /// The process is gone, and a last incomplete line has been reported.
    Reported,
}

impl LogTail {
    /// Opens the log at `path` at its beginning.
    pub fn open(path: &AbsPath) -> Result<Self> {
        let reader = LiveLogReader::open(path)?;
        let watch = FileWatch::new(path).map_err(|error| {
            Error::new(ErrorKind::Environment, format!("cannot watch `{path}`"))
                .with_source(error)
                .with_hint("see `fs.inotify.max_user_instances`, or use `massgen logs show`")
        })?;
        Ok(Self {
            reader,
            watch,
            writer: WriterState::Lives,
        })
    }

    /// Returns the next lines that are written already, `lines_max` at most. Fewer lines, or none, are
    /// all that there are.
    pub fn next_written(&mut self, lines_max: usize) -> Vec<LogReadResult> {
        let mut lines = Vec::new();
        while lines.len() < lines_max
            && let Some(line) = self.next_raw()
        {
            lines.push(line);
        }
        parse_lines(lines)
    }

    fn next_raw(&mut self) -> Option<RawReadResult> {
        match self.reader.next_complete() {
            Some(Err(fault @ LogReadError::Unreadable { .. })) => {
                let is_new = self.writer != WriterState::Reported;
                self.writer = WriterState::Reported;
                is_new.then_some(Err(fault))
            }
            Some(line) => Some(line),
            None if self.writer == WriterState::Gone => {
                self.writer = WriterState::Reported;
                self.reader.torn_end().map(Err)
            }
            None => None,
        }
    }

    /// Waits until more may be written. Returns whether there can be more: `false` when all lines
    /// have been returned and no process writes them any more.
    pub fn wait(&mut self) -> bool {
        if self.writer == WriterState::Lives && self.watch.wait() == FileWakeup::Unlocked {
            self.writer = WriterState::Gone;
        }
        self.writer != WriterState::Reported
    }
}

impl Iterator for LogTail {
    type Item = LogReadResult;

    /// Returns the next line; blocks while another process may still write it.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.next_raw() {
                return Some(parse_line(line));
            }
            if !self.wait() {
                return None;
            }
        }
    }
}

/// Parses lines, and keeps their order: half of them on another thread if there are many.
fn parse_lines(mut first: Vec<RawReadResult>) -> Vec<LogReadResult> {
    let is_long = first.len() >= TWO_THREADS_LINES_MIN;
    let mut second = is_long.then(|| first.split_off(first.len() / 2));
    let mut parsed = Vec::new();
    let parsed_there = thread::scope(|scope| {
        let there = || second.take().map(parse_each);
        let thread = thread::Builder::new().name("log".to_owned());
        let thread = is_long.then(|| thread.spawn_scoped(scope, there).ok());
        parsed = parse_each(first);
        let joined = thread.flatten()?.join();
        joined.unwrap_or_else(|panic| resume_unwind(panic))
    });
    // Without a thread, they are still here.
    parsed.extend(
        parsed_there
            .or_else(|| second.map(parse_each))
            .unwrap_or_default(),
    );
    parsed
}

fn parse_each(lines: Vec<RawReadResult>) -> Vec<LogReadResult> {
    lines.into_iter().map(parse_line).collect()
}

fn parse_line(line: RawReadResult) -> LogReadResult {
    line.and_then(RawLogLine::parse)
}
