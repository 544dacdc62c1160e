//! Owns the following of a run's event log while it is written: each line as it comes, until the run
//! has ended or its process is gone.

use crate::error::{Error, ErrorKind, Result};
use crate::world::store::event_log::{Entry, LiveReader, LogFault};
use crate::world::store::runs::RunDir;
use crate::world::sys::own::watch::{Watch, Woken};

/// An event log that may still grow.
#[derive(Debug)]
pub struct Tail {
    reader: LiveReader,
    watch: Watch,
    writer: Writer,
}

/// Whether more can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Lives,
    Gone,
    /// What it left unfinished has been told.
    Told,
}

impl Tail {
    /// Follows the log of `run` from its beginning.
    pub fn open(run: &RunDir) -> Result<Self> {
        let path = run.events_file();
        let reader = LiveReader::open(&path)?;
        let watch = Watch::on(&path).map_err(|error| {
            Error::new(ErrorKind::Environment, format!("cannot watch `{path}`"))
                .caused_by(error)
                .hint("see `fs.inotify.max_user_instances`, or use `massgen logs show`")
        })?;
        Ok(Self {
            reader,
            watch,
            writer: Writer::Lives,
        })
    }
}

impl Iterator for Tail {
    type Item = std::result::Result<Entry, LogFault>;

    /// The next line; waits for it as long as somebody may write it.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reader.next_complete() {
                Some(Err(fault @ LogFault::Unreadable { .. })) if self.writer != Writer::Told => {
                    self.writer = Writer::Told;
                    return Some(Err(fault));
                }
                Some(Err(LogFault::Unreadable { .. })) => return None,
                Some(line) => return Some(line),
                None => {}
            }
            match self.writer {
                Writer::Lives if self.watch.wait() == Woken::Free => self.writer = Writer::Gone,
                Writer::Lives => {}
                Writer::Gone => {
                    self.writer = Writer::Told;
                    return self.reader.torn().map(Err);
                }
                Writer::Told => return None,
            }
        }
    }
}
