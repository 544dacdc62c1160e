//! Follows an event log while it is written, line by line, until the run has ended or its
//! process is gone.

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::store::event_log::{LiveLogReader, LogReadError, LogReadResult};
use crate::world::sys::state_files::watch::{FileWakeup, FileWatch};

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

    /// Returns the next line if it is written already.
    pub fn next_written(&mut self) -> Option<LogReadResult> {
        match self.reader.next_complete() {
            Some(Err(error @ LogReadError::Unreadable { .. })) => {
                let is_new = self.writer != WriterState::Reported;
                self.writer = WriterState::Reported;
                is_new.then_some(Err(error))
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
            if let Some(line) = self.next_written() {
                return Some(line);
            }
            if !self.wait() {
                return None;
            }
        }
    }
}
