//! Attempts at cells. Each begins with a file that one process creates and locks, by which an
//! earlier attempt learns that it is superseded. What an attempt has spent and how it ended is in a
//! second file, which only its process writes.

use serde::{Deserialize, Serialize};

use crate::batch::next_step::AttemptEnd;
use crate::batch::task::CellId;
use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::spending::money::Money;
use crate::world::io::clock;
use crate::world::store::batches::BatchDir;
use crate::world::sys::machine_facts::{boot_id, host_name};
use crate::world::sys::state_files::create_once::{LockedFile, create_once};
use crate::world::sys::state_files::{dir, file, json_file};

/// Maximum size of a mark and of a note, in bytes.
const NOTE_BYTES_MAX: u64 = 64 * 1024;

/// The process that made an attempt or a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// The name of its host.
    pub host: String,
    /// The id of the boot of its host's kernel: after another boot it has ended.
    pub boot: String,
    /// The submission and the index of its job, such as `2.17`; empty for a control process.
    pub job: String,
    /// Since when, as ISO 8601.
    pub since: String,
}

/// What is known about whether a process is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessLiveness {
    /// It has ended.
    Dead,
    /// It may be alive: it is on another host, or its lock cannot be read.
    Unknown,
    /// It is alive on this host.
    Alive,
}

impl ProcessMark {
    /// Returns the mark of this process, which runs the job `job`.
    pub fn of_this_process(job: String) -> Self {
        Self {
            host: host_name(),
            boot: boot_id(),
            job,
            since: clock::now().iso_format(),
        }
    }

    /// Returns whether the process is alive that left this mark in the file `path` and locks it.
    pub(super) fn liveness(&self, path: &AbsPath) -> ProcessLiveness {
        if self.boot != boot_id() {
            return if self.host == host_name() {
                ProcessLiveness::Dead
            } else {
                ProcessLiveness::Unknown
            };
        }
        match file::is_locked(path) {
            Ok(true) => ProcessLiveness::Alive,
            Ok(false) => ProcessLiveness::Dead,
            Err(_) => ProcessLiveness::Unknown,
        }
    }
}

/// What an attempt has spent so far, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptNote {
    /// What it spent in US dollars: what its run has cost, without what earlier attempts recorded.
    pub spent_usd: Money,
    /// How long it worked, in milliseconds.
    pub worked_ms: u64,
    /// How it ended, if it ended without a result.
    pub end: Option<AttemptEnd>,
    /// Why, in one sentence.
    pub reason: String,
    /// When this was written, as ISO 8601.
    pub at: String,
}

/// An attempt of this process at a cell. Its lock is free when the value is dropped.
#[derive(Debug)]
pub struct CellAttempt {
    batch: BatchDir,
    cell: CellId,
    number: u32,
    mark: ProcessMark,
    _lock: LockedFile,
}

/// The attempts at a cell before one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EarlierAttempts {
    notes: Vec<AttemptNote>,
    /// How many of them were lost since the user last asked for a repetition.
    pub losses: u32,
    /// The number of the last one whose run cannot be resumed; 0 if there is none.
    last_not_resumable: u32,
}

impl EarlierAttempts {
    /// Returns whether the run can be resumed in the work that the attempt `first` prepared.
    pub fn can_resume(&self, first: u32) -> bool {
        first > self.last_not_resumable
    }

    /// Returns what all of them have spent.
    pub fn spent(&self) -> Money {
        self.sum_since(1).0
    }

    /// Returns what the attempts from `first` on have spent, and how long they worked in
    /// milliseconds.
    pub fn sum_since(&self, first: u32) -> (Money, u64) {
        let skipped = usize::try_from(first).map_or(usize::MAX, |first| first.saturating_sub(1));
        let notes = self.notes.iter().skip(skipped);
        notes.fold((Money::ZERO, 0), |(spent, worked_ms), note| {
            (
                spent.saturating_add(note.spent_usd),
                worked_ms.saturating_add(note.worked_ms),
            )
        })
    }
}

impl CellAttempt {
    /// Returns the number of the attempt, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the mark of its process.
    pub fn mark(&self) -> &ProcessMark {
        &self.mark
    }

    /// Reads the attempts before it.
    pub fn earlier(&self) -> Result<EarlierAttempts> {
        let mut earlier = EarlierAttempts::default();
        for number in 1..self.number {
            let note = self.batch.attempt_note(&self.cell, number)?;
            let note = note.unwrap_or_default();
            if self.batch.is_withdrawn(&self.cell, number)? {
                earlier.losses = 0;
                earlier.last_not_resumable = number;
            } else if note.end.is_none() {
                earlier.losses = earlier.losses.saturating_add(1);
            } else if note.end == Some(AttemptEnd::EndpointsFailed) {
                earlier.last_not_resumable = number;
            }
            earlier.notes.push(note);
        }
        Ok(earlier)
    }

    /// Returns whether the process of the attempt before it still locks its file: it may be parking
    /// its run. On another host, that is known only if the file system has locks for all hosts.
    pub fn is_earlier_locked(&self) -> Result<bool> {
        let earlier = self.number.saturating_sub(1);
        Ok(earlier > 0 && file::is_locked(&self.batch.attempt_file(&self.cell, earlier))?)
    }

    /// Returns whether a newer attempt has begun.
    pub fn is_superseded(&self) -> Result<bool> {
        let newer = self.number.saturating_add(1);
        file::exists(&self.batch.attempt_file(&self.cell, newer))
    }

    /// Writes what the attempt has spent so far. The next note replaces it soon, and the log of the
    /// run has the same facts, so that it need not survive a power failure.
    pub fn write_progress(&self, note: &AttemptNote) -> Result<()> {
        let path = self.batch.note_file(&self.cell, self.number);
        file::replace_unsynced(
            &path,
            &serde_json::to_vec(note).map_err(Error::unserializable)?,
        )
    }

    /// Writes what the attempt has spent in all and how it ended.
    pub fn write(&self, note: &AttemptNote) -> Result<()> {
        json_file::replace(&self.batch.note_file(&self.cell, self.number), note)
    }
}

impl BatchDir {
    /// Begins an attempt at `cell` as the job `job`; `None` if the cell has its result. Earlier
    /// attempts are superseded.
    pub fn begin_attempt(&self, cell: &CellId, job: &str) -> Result<Option<CellAttempt>> {
        let mark = ProcessMark::of_this_process(job.to_owned());
        let text = serde_json::to_vec(&mark).map_err(Error::unserializable)?;
        let mut number = self.last_attempt(cell)?;
        while !self.has_result(cell)? {
            number = number.saturating_add(1);
            let lock = create_once(&self.attempt_file(cell, number), &text)?;
            if let Some(lock) = lock {
                return Ok(Some(CellAttempt {
                    batch: self.clone(),
                    cell: cell.clone(),
                    number,
                    mark,
                    _lock: lock,
                }));
            }
        }
        Ok(None)
    }

    /// Returns the number of the last attempt at `cell`; 0 if there was none.
    pub fn last_attempt(&self, cell: &CellId) -> Result<u32> {
        let mut last_number: u32 = 0;
        while file::exists(&self.attempt_file(cell, last_number.saturating_add(1)))? {
            last_number = last_number.saturating_add(1);
        }
        Ok(last_number)
    }

    /// Returns whose attempt this is.
    pub fn attempt_mark(&self, cell: &CellId, attempt: u32) -> Option<ProcessMark> {
        read_mark(&self.attempt_file(cell, attempt))
    }

    /// Returns whether the process of this attempt is alive, as far as this one can know.
    pub(super) fn attempt_liveness(&self, cell: &CellId, attempt: u32) -> ProcessLiveness {
        let mark = self.attempt_mark(cell, attempt);
        mark.map_or(ProcessLiveness::Dead, |mark| {
            mark.liveness(&self.attempt_file(cell, attempt))
        })
    }

    /// Reads the note of an attempt, if it wrote one. A damaged note was cut off with its host.
    pub fn attempt_note(&self, cell: &CellId, attempt: u32) -> Result<Option<AttemptNote>> {
        json_file::read(&self.note_file(cell, attempt), NOTE_BYTES_MAX)
    }

    /// Returns what the job `job` has spent on `cell`.
    pub fn spent_by_job(&self, cell: &CellId, job: &str) -> Result<Money> {
        let mut spent = Money::ZERO;
        for attempt in 1..=self.last_attempt(cell)? {
            let mark = self.attempt_mark(cell, attempt);
            if mark.is_some_and(|mark| mark.job == job) {
                let note = self.attempt_note(cell, attempt)?.unwrap_or_default();
                spent = spent.saturating_add(note.spent_usd);
            }
        }
        Ok(spent)
    }

    /// Returns what all attempts have spent.
    pub fn spent(&self) -> Result<Money> {
        let mut spent = Money::ZERO;
        for name in dir::names_if_exists(&self.dir.join("notes"))? {
            let parts = parse_attempt_name(&name);
            let parts = parts.and_then(|(cell, number)| Some((CellId::parse(cell)?, number)));
            if let Some((cell, number)) = parts {
                let note = self.attempt_note(&cell, number)?.unwrap_or_default();
                spent = spent.saturating_add(note.spent_usd);
            }
        }
        Ok(spent)
    }

    fn attempt_file(&self, cell: &CellId, attempt: u32) -> AbsPath {
        self.dir.join("attempts").join(format!("{cell}.{attempt}"))
    }

    fn note_file(&self, cell: &CellId, attempt: u32) -> AbsPath {
        self.dir.join("notes").join(format!("{cell}.{attempt}"))
    }
}

/// Splits the name of a file of an attempt into the id of its cell and its number.
pub(super) fn parse_attempt_name(name: &str) -> Option<(&str, u32)> {
    let (cell, number) = name.rsplit_once('.')?;
    Some((cell, number.parse().ok()?))
}

/// Reads who created the file `path`.
fn read_mark(path: &AbsPath) -> Option<ProcessMark> {
    json_file::read(path, NOTE_BYTES_MAX).ok()?
}
