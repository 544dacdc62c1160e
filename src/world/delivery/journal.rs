//! The journal of a delivery: one line for each step before anything is changed, and one when a
//! transaction begins, is rolled back and ends, and when hidden directories for slots are created
//! and removed. Each line has a checksum; an incomplete last line was never acted upon.

use std::io::{BufRead, Read};

use serde::{Deserialize, Serialize};

use crate::delivery::path_state::PathState;
use crate::error::{Error, ErrorKind, Result};
use crate::event::HunkCount;
use crate::path::{AbsPath, RelPath};
use crate::world::store::directory_seal::DirectorySeal;
use crate::world::store::event_log::checksum;
use crate::world::sys::state_files::{self, file};

/// The version of the line format.
const VERSION: u32 = 1;

/// The size at which buffered lines are written, in bytes.
const BUFFER_BYTES_MAX: usize = 256 * 1024;

/// The longest line, in bytes: it can hold the numbers of all steps of a large delivery.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How much of the end of a journal is read to find its last line, in bytes; that of a finished
/// journal is shorter.
const END_BYTES_MAX: u64 = 256;

/// One line of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum JournalRecord {
    /// The journal begins.
    Opened {
        /// The version of its format.
        version: u32,
        /// The seal of the directory in which it was created.
        seal: DirectorySeal,
        /// The directories that contain the changed paths.
        roots: Vec<JournalRoot>,
    },
    /// A step that is prepared, or its new version.
    Step(DeliveryStep),
    /// A hidden directory for slots is about to be created next to the user's files, for one
    /// transaction.
    #[serde(rename = "room")]
    SlotDirectory {
        /// The number of the root that contains it.
        root: usize,
        /// Its name.
        name: String,
    },
    /// Everything is prepared: from now on the user's tree is changed.
    #[serde(rename = "begun")]
    TransactionBegun {
        /// The direction of the transaction.
        #[serde(rename = "way")]
        direction: StepDirection,
        /// The numbers of the steps that are applied; all if absent.
        #[serde(rename = "only")]
        selected_steps: Option<Vec<u32>>,
    },
    /// Something failed: the transaction is being rolled back.
    #[serde(rename = "turned")]
    RollbackBegun,
    /// The transaction has ended, and no file of the user's is in an intermediate state.
    #[serde(rename = "ended")]
    TransactionEnded,
    /// The hidden directories of the transaction have been removed: nothing is left to do.
    #[serde(rename = "cleared")]
    SlotDirectoriesRemoved,
}

/// A directory that contains changed paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalRoot {
    pub(super) path: AbsPath,
    /// Where its slots are during a transaction.
    pub(super) slots: SlotLocation,
}

/// Where slots are during a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SlotLocation {
    /// In the delivery's directory, which is on the same file system as the root.
    Delivery,
    /// In a hidden directory of the root, which is on another file system than the delivery's
    /// directory. Before and after a transaction the slots are in the delivery's directory too.
    Root,
}

/// The direction of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StepDirection {
    /// The agents' versions replace the user's.
    Forward,
    /// The previous versions are restored.
    Back,
}

impl StepDirection {
    /// Returns the opposite direction.
    pub(super) fn reversed(self) -> Self {
        match self {
            StepDirection::Forward => StepDirection::Back,
            StepDirection::Back => StepDirection::Forward,
        }
    }
}

/// The change of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeliveryStep {
    /// Its number, from 0, which is also the name of its slot.
    pub(super) number: u32,
    /// The number of the root that contains the path.
    pub(super) root: usize,
    /// The path relative to the root.
    pub(super) rel: RelPath,
    /// The state of the path before the step.
    pub(super) theirs: PathState,
    /// The state of the path after the step.
    pub(super) ours: PathState,
    /// How many hunks of the agents' version it takes; `None` if it takes the whole version, or if
    /// the hunks are not those of the agents' version alone.
    pub(super) hunks: Option<HunkCount>,
}

impl DeliveryStep {
    /// Returns the states of the path before and after a step in this direction.
    pub(super) fn before_and_after(&self, direction: StepDirection) -> (&PathState, &PathState) {
        match direction {
            StepDirection::Forward => (&self.theirs, &self.ours),
            StepDirection::Back => (&self.ours, &self.theirs),
        }
    }

    /// Returns the name of its slot.
    pub(super) fn slot(&self) -> String {
        self.number.to_string()
    }
}

/// A journal that is open for writing.
#[derive(Debug)]
pub(super) struct Journal {
    file: file::Appender,
    /// Lines that are not written yet.
    buffer: String,
}

impl Journal {
    /// Creates the journal `path`, which must not exist.
    pub(super) fn create(
        path: AbsPath,
        seal: DirectorySeal,
        roots: Vec<JournalRoot>,
    ) -> Result<Self> {
        let mut journal = Self {
            file: file::Appender::create(path)?,
            buffer: String::new(),
        };
        journal.add(&JournalRecord::Opened {
            version: VERSION,
            seal,
            roots,
        })?;
        journal.sync()?;
        Ok(journal)
    }

    /// Reopens a journal after it was read.
    pub(super) fn reopen(path: AbsPath, state: &JournalState) -> Result<Self> {
        Ok(Self {
            file: file::Appender::reopen(path, state.len)?,
            buffer: String::new(),
        })
    }

    /// Adds a line, which may stay buffered until [`Journal::sync`].
    pub(super) fn add(&mut self, record: &JournalRecord) -> Result<()> {
        let json = serde_json::to_string(record).map_err(Error::unserializable)?;
        let line = format!("{} {json}\n", checksum(&json));
        self.buffer.push_str(&line);
        if self.buffer.len() >= BUFFER_BYTES_MAX {
            self.write()?;
        }
        Ok(())
    }

    /// Returns the length in bytes, without buffered lines.
    pub(super) fn len(&self) -> u64 {
        self.file.len()
    }

    /// Truncates the journal to its first `len` bytes, which needs no disk space, and syncs it.
    pub(super) fn truncate(&mut self, len: u64) -> Result<()> {
        self.buffer.clear();
        self.file.truncate(len)?;
        self.file.sync()
    }

    /// Returns once all lines are on disk.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.write()?;
        self.file.sync()
    }

    fn write(&mut self) -> Result<()> {
        let lines = std::mem::take(&mut self.buffer);
        self.file.append(lines.as_bytes())
    }
}

/// The state of a delivery according to its journal.
#[derive(Debug)]
pub(super) struct JournalState {
    /// The seal of the directory in which the journal was created.
    pub(super) seal: DirectorySeal,
    /// The directories that contain the changed paths.
    pub(super) roots: Vec<JournalRoot>,
    /// The steps, by number.
    pub(super) steps: Vec<DeliveryStep>,
    /// How many of them belong to a transaction that has begun.
    pub(super) transaction_steps: usize,
    /// The offset of the line that begins the last transaction, in bytes.
    pub(super) transaction_start: u64,
    /// The hidden directories of the last transaction, each with the number of its root.
    pub(super) slot_directories: Vec<(usize, String)>,
    /// The progress of the delivery.
    pub(super) progress: DeliveryProgress,
    /// The length of the complete lines, in bytes.
    len: u64,
}

/// The progress of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeliveryProgress {
    /// No file of the user's has been changed yet.
    Prepared,
    /// A transaction is open.
    Open {
        /// Its direction.
        direction: StepDirection,
        /// The numbers of the steps that are applied; `None` means all.
        selected_steps: Option<Vec<u32>>,
        /// Whether it was being rolled back.
        is_rolling_back: bool,
    },
    /// No transaction is open.
    Closed,
}

/// Returns whether nothing is left to do: the journal at `path` ends with that record, or it was
/// never begun.
pub(super) fn is_cleared(path: &AbsPath) -> Result<bool> {
    let journal_end = match file::read_end(path, END_BYTES_MAX) {
        Ok(journal_end) => journal_end,
        Err(error) if state_files::is_missing(error.kind()) => return Ok(true),
        Err(error) => return Err(state_files::file_error("read", path.as_path(), error)),
    };
    let last_line = journal_end
        .split_inclusive(|byte| *byte == b'\n')
        .next_back();
    Ok(matches!(
        last_line.and_then(parse_record),
        Some(JournalRecord::SlotDirectoriesRemoved)
    ))
}

/// Reads the seal of the journal at `path`; `None` if it does not exist or does not begin with one.
pub(super) fn read_seal(path: &AbsPath) -> Result<Option<DirectorySeal>> {
    let failed = |error| state_files::file_error("read", path.as_path(), error);
    let source = match file::open(path) {
        Ok(source) => source,
        Err(error) if state_files::is_missing(error.kind()) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut line = Vec::new();
    let mut source = source.take(LINE_BYTES_MAX);
    source.read_until(b'\n', &mut line).map_err(failed)?;
    Ok(match parse_record(&line) {
        Some(JournalRecord::Opened { seal, .. }) => Some(seal),
        Some(_) | None => None,
    })
}

/// Reads the journal at `path`; `None` if it does not exist or not even its first line is complete.
pub(super) fn read(path: &AbsPath) -> Result<Option<JournalState>> {
    let mut source = match file::open(path) {
        Ok(source) => source,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(state_files::file_error("read", path.as_path(), error)),
    };
    let mut state: Option<JournalState> = None;
    let mut len = 0;
    loop {
        let mut bytes = Vec::new();
        let bytes_read = Read::by_ref(&mut source)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| state_files::file_error("read", path.as_path(), error))?;
        // At the end, and at an incomplete last line.
        let Some(record) = parse_record(&bytes) else {
            return Ok(state);
        };
        len += u64::try_from(bytes_read).unwrap_or(u64::MAX);
        match (&mut state, record) {
            (
                None,
                JournalRecord::Opened {
                    version,
                    seal,
                    roots,
                },
            ) if version == VERSION => {
                state = Some(JournalState {
                    seal,
                    roots,
                    steps: Vec::new(),
                    transaction_steps: 0,
                    transaction_start: 0,
                    slot_directories: Vec::new(),
                    progress: DeliveryProgress::Prepared,
                    len,
                });
            }
            (Some(state), record) => {
                if let JournalRecord::TransactionBegun { .. } = record {
                    state.transaction_start = state.len;
                }
                state.apply(record);
                state.len = len;
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
                let number = usize::try_from(step.number).ok();
                match number.and_then(|number| self.steps.get_mut(number)) {
                    Some(earlier_step) => *earlier_step = step,
                    None => self.steps.push(step),
                }
            }
            JournalRecord::SlotDirectory { root, name } => self.slot_directories.push((root, name)),
            JournalRecord::TransactionBegun {
                direction,
                selected_steps,
            } => {
                self.transaction_steps = self.steps.len();
                self.progress = DeliveryProgress::Open {
                    direction,
                    selected_steps,
                    is_rolling_back: false,
                };
            }
            JournalRecord::RollbackBegun => {
                if let DeliveryProgress::Open {
                    is_rolling_back, ..
                } = &mut self.progress
                {
                    *is_rolling_back = true;
                }
            }
            JournalRecord::TransactionEnded => self.progress = DeliveryProgress::Closed,
            JournalRecord::SlotDirectoriesRemoved => self.slot_directories.clear(),
        }
    }
}

fn unknown_record(path: &AbsPath) -> Error {
    Error::new(
        ErrorKind::Environment,
        format!("`{path}` is not a journal that this version of massgen can read"),
    )
    .with_hint("it may have been written by a later version")
}

fn parse_record(line: &[u8]) -> Option<JournalRecord> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (expected_checksum, json) = text.split_once(' ')?;
    if checksum(json) != expected_checksum {
        return None;
    }
    serde_json::from_str(json).ok()
}
