//! Owns the journal of a delivery: a line for each step before anything is done, and one when a
//! session of steps begins, turns back and ends. Each line has a checksum; what was cut short at the
//! end was never acted upon.

use std::io::{BufRead, Read};

use serde::{Deserialize, Serialize};

use crate::delivery::stand::Stand;
use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::seal::Seal;
use crate::world::store::event_log::checksum;
use crate::world::sys::own::{self, file};

/// The version of the shape of the lines.
const VERSION: u32 = 1;

/// How much is gathered before it is written, in bytes.
const GATHERED_BYTES: usize = 256 * 1024;

/// The longest line, in bytes: the numbers of all steps of a large delivery fit.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// More bytes than the last line of a journal has that is closed.
const END_BYTES_MAX: u64 = 256;

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Record {
    /// The journal begins.
    Opened {
        /// The version of its shape.
        version: u32,
        /// Which directory it was made in.
        seal: Seal,
        /// The directories that steps lie below.
        roots: Vec<JournalRoot>,
    },
    /// A step that is prepared, or what became of one since.
    Step(Step),
    /// A directory beside the user's files is about to be made, where slots wait for a session.
    Room {
        /// Below which root.
        root: usize,
        /// Its name.
        name: String,
    },
    /// Everything is prepared: from now on the user's tree is changed.
    Begun {
        /// In which direction.
        way: Way,
        /// Which steps are taken; all if it is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<Vec<u32>>,
    },
    /// Something failed: what the session did is taken back.
    Turned,
    /// The session has ended, and no file of the user's is in between.
    Ended,
    /// The hidden directories of the session are removed: nothing is left to do.
    Cleared,
}

/// A directory that steps lie below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalRoot {
    /// Where it is.
    pub(super) path: AbsPath,
    /// Where its slots are while a session goes on.
    pub(super) slots: SlotPlace,
}

/// Where slots are while a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SlotPlace {
    /// In the delivery's directory, which is on the same file system as the root.
    Delivery,
    /// In a hidden directory of the root, which is on another one. Before and after a session they are
    /// in the delivery's directory too.
    Root,
}

/// The direction of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Way {
    /// What the agents made comes to the user's tree.
    Forward,
    /// What stood there comes back.
    Back,
}

impl Way {
    /// The other one.
    pub(super) fn turned(self) -> Self {
        match self {
            Way::Forward => Way::Back,
            Way::Back => Way::Forward,
        }
    }
}

/// One name that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    /// Its number, from 0, which is the name of its slot.
    pub(super) number: u32,
    /// Below which root.
    pub(super) root: usize,
    /// Where, seen from the root.
    pub(super) rel: RelPath,
    /// What stands there before.
    pub(super) theirs: Stand,
    /// What stands there after.
    pub(super) ours: Stand,
}

impl Step {
    /// What stands at the name before and after a step in this direction.
    pub(super) fn ends(&self, way: Way) -> (&Stand, &Stand) {
        match way {
            Way::Forward => (&self.theirs, &self.ours),
            Way::Back => (&self.ours, &self.theirs),
        }
    }

    /// The name of its slot.
    pub(super) fn slot(&self) -> String {
        self.number.to_string()
    }
}

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Journal {
    file: file::Appender,
    gathered: String,
}

impl Journal {
    /// Begins the journal `path`, which must be new.
    pub(super) fn create(path: AbsPath, seal: Seal, roots: Vec<JournalRoot>) -> Result<Self> {
        let mut journal = Self {
            file: file::Appender::create(path)?,
            gathered: String::new(),
        };
        journal.add(&Record::Opened {
            version: VERSION,
            seal,
            roots,
        })?;
        journal.sync()?;
        Ok(journal)
    }

    /// Goes on with what was read.
    pub(super) fn go_on(path: AbsPath, told: &Told) -> Result<Self> {
        Ok(Self {
            file: file::Appender::reopen(path, told.len)?,
            gathered: String::new(),
        })
    }

    /// Adds a line, which may wait until [`Journal::sync`].
    pub(super) fn add(&mut self, record: &Record) -> Result<()> {
        let text = serde_json::to_string(record)
            .map_err(|error| Error::bug("a step has no JSON form").caused_by(error))?;
        let line = format!("{} {text}\n", checksum(&text));
        self.gathered.push_str(&line);
        if self.gathered.len() >= GATHERED_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Returns once all lines are on the disk.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.write()?;
        self.file.sync()
    }

    fn write(&mut self) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        self.file.append(gathered.as_bytes())
    }
}

/// What a journal tells.
#[derive(Debug)]
pub(super) struct Told {
    /// Which directory it was made in.
    pub(super) seal: Seal,
    /// The directories that steps lie below.
    pub(super) roots: Vec<JournalRoot>,
    /// The steps, by their numbers.
    pub(super) steps: Vec<Step>,
    /// How many of them belong to a session that has begun.
    pub(super) begun: usize,
    /// The hidden directories of the last session.
    pub(super) rooms: Vec<(usize, String)>,
    /// How far it has come.
    pub(super) state: State,
    /// How many bytes hold whole lines.
    len: u64,
}

/// How far a delivery has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing of the user's was changed yet.
    Prepared,
    /// A session is open.
    Open {
        /// Its direction.
        way: Way,
        /// Which steps are taken.
        only: Option<Vec<u32>>,
        /// Whether it was turning back.
        turned: bool,
    },
    /// No session is open.
    Closed,
}

/// Whether the journal at `path` says at its end that nothing is left to do.
pub(super) fn is_cleared(path: &AbsPath) -> bool {
    let end = file::read_end(path, END_BYTES_MAX).unwrap_or_default();
    let line = end.split_inclusive(|byte| *byte == b'\n').next_back();
    matches!(line.and_then(record), Some(Record::Cleared))
}

/// Reads the journal at `path`; `None` if there is none, or if not even its first line is whole.
pub(super) fn read(path: &AbsPath) -> Result<Option<Told>> {
    let mut source = match file::open(path) {
        Ok(source) => source,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(own::fault("read", path.as_path(), error)),
    };
    let mut told: Option<Told> = None;
    let mut len = 0;
    loop {
        let mut bytes = Vec::new();
        let read = Read::by_ref(&mut source)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| own::fault("read", path.as_path(), error))?;
        let Some(record) = record(&bytes) else {
            return Ok(told);
        };
        len += u64::try_from(read).unwrap_or(u64::MAX);
        match (&mut told, record) {
            (
                None,
                Record::Opened {
                    version,
                    seal,
                    roots,
                },
            ) if version == VERSION => {
                told = Some(Told {
                    seal,
                    roots,
                    steps: Vec::new(),
                    begun: 0,
                    rooms: Vec::new(),
                    state: State::Prepared,
                    len,
                });
            }
            (Some(told), record) => {
                told.take(record);
                told.len = len;
            }
            (None, _) => return Err(unknown(path)),
        }
    }
}

impl Told {
    fn take(&mut self, record: Record) {
        match record {
            Record::Opened { .. } => {}
            Record::Step(step) => {
                let known = usize::try_from(step.number).ok();
                match known.and_then(|number| self.steps.get_mut(number)) {
                    Some(known) => *known = step,
                    None => self.steps.push(step),
                }
            }
            Record::Room { root, name } => self.rooms.push((root, name)),
            Record::Begun { way, only } => {
                self.begun = self.steps.len();
                self.state = State::Open {
                    way,
                    only,
                    turned: false,
                };
            }
            Record::Turned => {
                if let State::Open { turned, .. } = &mut self.state {
                    *turned = true;
                }
            }
            Record::Ended => self.state = State::Closed,
            Record::Cleared => self.rooms.clear(),
        }
    }
}

fn unknown(path: &AbsPath) -> Error {
    Error::new(
        ErrorKind::Environment,
        format!("`{path}` is no journal that this version of massgen can read"),
    )
    .hint("it may have been written by a later version")
}

fn record(line: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, text) = text.split_once(' ')?;
    if checksum(text) != sum {
        return None;
    }
    serde_json::from_str(text).ok()
}
