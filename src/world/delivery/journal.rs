//! Owns the journal of a delivery: a line for each step before anything is done, and one when a
//! session of steps begins, turns back and ends. Each line has a checksum; what was cut short at the
//! end was never acted upon.

use std::io::{BufRead, Read};

use serde::{Deserialize, Serialize};

use crate::delivery::path_state::PathState;
use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::directory_seal::DirectorySeal;
use crate::world::store::event_log::checksum;
use crate::world::sys::state_files::{self, file};

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
pub(super) enum JournalRecord {
    /// The journal begins.
    Opened {
        /// The version of its shape.
        version: u32,
        /// Which directory it was made in.
        seal: DirectorySeal,
        /// The directories that steps lie below.
        roots: Vec<JournalRoot>,
    },
    /// A step that is prepared, or what became of one since.
    Step(DeliveryStep),
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
        way: StepDirection,
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
    pub(super) slots: SlotLocation,
}

/// Where slots are while a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SlotLocation {
    /// In the delivery's directory, which is on the same file system as the root.
    Delivery,
    /// In a hidden directory of the root, which is on another one. Before and after a session they are
    /// in the delivery's directory too.
    Root,
}

/// The direction of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StepDirection {
    /// What the agents made comes to the user's tree.
    Forward,
    /// What stood there comes back.
    Back,
}

impl StepDirection {
    /// The other one.
    pub(super) fn reversed(self) -> Self {
        match self {
            StepDirection::Forward => StepDirection::Back,
            StepDirection::Back => StepDirection::Forward,
        }
    }
}

/// One name that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeliveryStep {
    /// Its number, from 0, which is the name of its slot.
    pub(super) number: u32,
    /// Below which root.
    pub(super) root: usize,
    /// Where, seen from the root.
    pub(super) rel: RelPath,
    /// What stands there before.
    pub(super) theirs: PathState,
    /// What stands there after.
    pub(super) ours: PathState,
}

impl DeliveryStep {
    /// What stands at the name before and after a step in this direction.
    pub(super) fn before_and_after(&self, way: StepDirection) -> (&PathState, &PathState) {
        match way {
            StepDirection::Forward => (&self.theirs, &self.ours),
            StepDirection::Back => (&self.ours, &self.theirs),
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
    pub(super) fn create(
        path: AbsPath,
        seal: DirectorySeal,
        roots: Vec<JournalRoot>,
    ) -> Result<Self> {
        let mut journal = Self {
            file: file::Appender::create(path)?,
            gathered: String::new(),
        };
        journal.add(&JournalRecord::Opened {
            version: VERSION,
            seal,
            roots,
        })?;
        journal.sync()?;
        Ok(journal)
    }

    /// Goes on with what was read.
    pub(super) fn reopen(path: AbsPath, told: &JournalState) -> Result<Self> {
        Ok(Self {
            file: file::Appender::reopen(path, told.len)?,
            gathered: String::new(),
        })
    }

    /// Adds a line, which may wait until [`Journal::sync`].
    pub(super) fn add(&mut self, record: &JournalRecord) -> Result<()> {
        let text = serde_json::to_string(record)
            .map_err(|error| Error::bug("a step has no JSON form").with_source(error))?;
        let line = format!("{} {text}\n", checksum(&text));
        self.gathered.push_str(&line);
        if self.gathered.len() >= GATHERED_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// How long it is, in bytes, without the lines that wait.
    pub(super) fn len(&self) -> u64 {
        self.file.len()
    }

    /// Takes back all lines after the first `len` bytes, which needs no space; returns once that is on
    /// the disk.
    pub(super) fn truncate(&mut self, len: u64) -> Result<()> {
        self.gathered.clear();
        self.file.truncate(len)?;
        self.file.sync()
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
pub(super) struct JournalState {
    /// Which directory it was made in.
    pub(super) seal: DirectorySeal,
    /// The directories that steps lie below.
    pub(super) roots: Vec<JournalRoot>,
    /// The steps, by their numbers.
    pub(super) steps: Vec<DeliveryStep>,
    /// How many of them belong to a session that has begun.
    pub(super) begun: usize,
    /// Where in the journal the line of the last session begins, in bytes.
    pub(super) session_start: u64,
    /// The hidden directories of the last session.
    pub(super) rooms: Vec<(usize, String)>,
    /// How far it has come.
    pub(super) state: DeliveryProgress,
    /// How many bytes hold whole lines.
    len: u64,
}

/// How far a delivery has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeliveryProgress {
    /// Nothing of the user's was changed yet.
    Prepared,
    /// A session is open.
    Open {
        /// Its direction.
        way: StepDirection,
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
    matches!(line.and_then(parse_record), Some(JournalRecord::Cleared))
}

/// Reads the journal at `path`; `None` if there is none, or if not even its first line is whole.
pub(super) fn read(path: &AbsPath) -> Result<Option<JournalState>> {
    let mut source = match file::open(path) {
        Ok(source) => source,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(state_files::file_error("read", path.as_path(), error)),
    };
    let mut told: Option<JournalState> = None;
    let mut len = 0;
    loop {
        let mut bytes = Vec::new();
        let read = Read::by_ref(&mut source)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| state_files::file_error("read", path.as_path(), error))?;
        let Some(record) = parse_record(&bytes) else {
            return Ok(told);
        };
        len += u64::try_from(read).unwrap_or(u64::MAX);
        match (&mut told, record) {
            (
                None,
                JournalRecord::Opened {
                    version,
                    seal,
                    roots,
                },
            ) if version == VERSION => {
                told = Some(JournalState {
                    seal,
                    roots,
                    steps: Vec::new(),
                    begun: 0,
                    session_start: 0,
                    rooms: Vec::new(),
                    state: DeliveryProgress::Prepared,
                    len,
                });
            }
            (Some(told), record) => {
                if let JournalRecord::Begun { .. } = record {
                    told.session_start = told.len;
                }
                told.apply(record);
                told.len = len;
            }
            (None, _) => return Err(unknown_record(path)),
        }
    }
}

impl JournalState {
    fn apply(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::Opened { .. } => {}
            JournalRecord::Step(step) => {
                let known = usize::try_from(step.number).ok();
                match known.and_then(|number| self.steps.get_mut(number)) {
                    Some(known) => *known = step,
                    None => self.steps.push(step),
                }
            }
            JournalRecord::Room { root, name } => self.rooms.push((root, name)),
            JournalRecord::Begun { way, only } => {
                self.begun = self.steps.len();
                self.state = DeliveryProgress::Open {
                    way,
                    only,
                    turned: false,
                };
            }
            JournalRecord::Turned => {
                if let DeliveryProgress::Open { turned, .. } = &mut self.state {
                    *turned = true;
                }
            }
            JournalRecord::Ended => self.state = DeliveryProgress::Closed,
            JournalRecord::Cleared => self.rooms.clear(),
        }
    }
}

fn unknown_record(path: &AbsPath) -> Error {
    Error::new(
        ErrorKind::Environment,
        format!("`{path}` is no journal that this version of massgen can read"),
    )
    .with_hint("it may have been written by a later version")
}

fn parse_record(line: &[u8]) -> Option<JournalRecord> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, text) = text.split_once(' ')?;
    if checksum(text) != sum {
        return None;
    }
    serde_json::from_str(text).ok()
}
