//! Claims of cells. Each attempt at a cell begins with a claim, a file that one process creates and
//! locks; it ends with a result, with a note of how it ended, or with the death of the process,
//! which the lock shows.

use serde::{Deserialize, Serialize};

use crate::batch::next_step::{AttemptCounts, AttemptEnd};
use crate::batch::task::CellId;
use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::spending::money::Money;
use crate::world::io::clock;
use crate::world::io::files::read_regular_file;
use crate::world::store::batches::BatchDir;
use crate::world::sys::machine_facts::{boot_id, host_name};
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::create_once::{LockedFile, create_once};
use crate::world::sys::state_files::file;

/// Maximum size of a claim and of a note, in bytes.
const NOTE_BYTES_MAX: u64 = 64 * 1024;

/// The process that works on a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimOwner {
    /// The name of its host.
    pub host: String,
    /// The id of the boot of its host's kernel: after another boot it has ended.
    pub boot: String,
    /// Its number.
    pub pid: u32,
    /// The scheduler that started it.
    pub engine: String,
    /// The job of that scheduler, if it has any.
    pub job: Option<String>,
    /// Since when, as ISO 8601.
    pub since: String,
}

impl ClaimOwner {
    /// Returns this process, which the scheduler `engine` started as its job `job`.
    pub fn this_process(engine: &str, job: Option<&str>) -> Self {
        Self {
            host: host_name(),
            boot: boot_id(),
            pid: std::process::id(),
            engine: engine.to_owned(),
            job: job.map(str::to_owned),
            since: clock::now().iso_format(),
        }
    }
}

/// What is known about whether a process is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerLiveness {
    /// It has ended.
    Dead,
    /// It is on another host, where it may be alive.
    Unknown,
    /// It is alive on this host.
    Alive,
}

/// Returns whether `owner`, which has created and locked the file `path`, is alive, as far as
/// `this_process` can know.
pub(super) fn owner_liveness(
    owner: Option<&ClaimOwner>,
    path: &AbsPath,
    this_process: &ClaimOwner,
) -> OwnerLiveness {
    match owner {
        Some(owner) if owner.boot != this_process.boot && owner.host == this_process.host => {
            OwnerLiveness::Dead
        }
        Some(owner) if owner.boot != this_process.boot => OwnerLiveness::Unknown,
        Some(_) | None if file::is_locked(path) => OwnerLiveness::Alive,
        Some(_) | None => OwnerLiveness::Dead,
    }
}

/// Reads who created the file `path`.
pub(super) fn read_owner(path: &AbsPath) -> Option<ClaimOwner> {
    let bytes = file::read_regular_capped(path, NOTE_BYTES_MAX).ok()??;
    serde_json::from_slice(&bytes).ok()
}

/// How an attempt without a result ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptNote {
    /// In which way.
    pub end: AttemptEnd,
    /// Why, in one sentence.
    pub reason: String,
    /// What a run cost that is not resumed, in millionths of a millionth of a US dollar.
    pub spent_picodollars: u64,
    /// When, as ISO 8601.
    pub at: String,
}

impl AttemptNote {
    /// Creates a note of now.
    pub fn new(end: AttemptEnd, reason: impl Into<String>) -> Self {
        Self {
            end,
            reason: reason.into(),
            spent_picodollars: 0,
            at: clock::now().iso_format(),
        }
    }

    fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| Error::bug("a note has no JSON form").with_source(error))
    }
}

/// A cell that this process works on: the claim is free again when the value is dropped.
#[derive(Debug)]
pub struct CellClaim {
    batch: BatchDir,
    cell: CellId,
    /// The number of the attempt, from 1.
    attempt: u32,
    earlier_attempts: EarlierAttempts,
    _lock: LockedFile,
}

/// The attempts at a cell before one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlierAttempts {
    /// The faults among them.
    pub counts: AttemptCounts,
    /// How the last one ended, if there was one.
    pub last: Option<AttemptEnd>,
    /// What runs cost that are not resumed.
    pub spent: Money,
    /// The number of the last one whose run cannot be resumed; 0 if there is none.
    pub last_not_resumable: u32,
}

impl EarlierAttempts {
    /// Returns whether the run in a cell's work can be resumed. `first` is the attempt that began
    /// that work, `None` if that is not recorded: an attempt whose process was lost may have left
    /// the work of an earlier attempt, whose run cannot be resumed.
    pub fn can_resume(self, first: Option<u32>) -> bool {
        let is_resumable = self.last.is_some_and(AttemptEnd::is_resumable);
        is_resumable && first.is_none_or(|first| first > self.last_not_resumable)
    }
}

/// The result of trying to claim a cell.
#[derive(Debug)]
pub enum ClaimAttempt {
    /// The cell is claimed.
    Acquired(Box<CellClaim>),
    /// Another process works on it.
    Taken,
    /// It has its result.
    Finished,
}

impl CellClaim {
    /// Returns the number of the attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the attempts before this one.
    pub fn earlier_attempts(&self) -> EarlierAttempts {
        self.earlier_attempts
    }

    /// Records that the attempt ended without a result.
    pub fn end(self, note: &AttemptNote) -> Result<()> {
        self.batch.write_note(&self.cell, self.attempt, note)
    }

    /// Removes the claim as if it had never been made.
    fn withdraw(self) -> Result<()> {
        clear::remove(&self.batch.claim_file(&self.cell, self.attempt))
    }
}

impl BatchDir {
    /// Claims `cell` for `owner`. If the last attempt has no end and its process is gone, this is
    /// recorded as its end.
    pub fn claim(&self, cell: &CellId, owner: &ClaimOwner) -> Result<ClaimAttempt> {
        if self.has_result(cell)? {
            return Ok(ClaimAttempt::Finished);
        }
        let last_number = self.last_attempt(cell)?;
        if last_number > 0 && !self.has_note(cell, last_number)? {
            if self.is_attempt_alive(cell, last_number, owner) {
                return Ok(ClaimAttempt::Taken);
            }
            let note = AttemptNote::new(AttemptEnd::ProcessLost, "its process is gone");
            self.write_note(cell, last_number, &note)?;
        }
        let attempt = last_number.saturating_add(1);
        let text = serde_json::to_vec(owner)
            .map_err(|error| Error::bug("a claim has no JSON form").with_source(error))?;
        let path = self.claim_file(cell, attempt);
        let Some(lock) = create_once(&path, &text)? else {
            return Ok(ClaimAttempt::Taken);
        };
        let claim = CellClaim {
            batch: self.clone(),
            cell: cell.clone(),
            attempt,
            earlier_attempts: self.earlier_attempts(cell, attempt)?,
            _lock: lock,
        };
        // The process of the earlier attempt may have published its result after the first check.
        if self.has_result(cell)? {
            claim.withdraw()?;
            return Ok(ClaimAttempt::Finished);
        }
        Ok(ClaimAttempt::Acquired(Box::new(claim)))
    }

    /// Returns the number of the last attempt at `cell`; 0 if there was none.
    pub fn last_attempt(&self, cell: &CellId) -> Result<u32> {
        let mut last_number: u32 = 0;
        while file::exists(&self.claim_file(cell, last_number.saturating_add(1)))? {
            last_number = last_number.saturating_add(1);
        }
        Ok(last_number)
    }

    /// Returns whether a process works on `cell`: on another host it does until its scheduler says
    /// otherwise.
    pub fn is_attempt_alive(&self, cell: &CellId, attempt: u32, this_process: &ClaimOwner) -> bool {
        let owner = self.claim_owner(cell, attempt);
        self.is_owner_alive(owner.as_ref(), cell, attempt, this_process)
    }

    /// Returns whether `owner`, who claimed `cell` for this attempt, works on it.
    pub(super) fn is_owner_alive(
        &self,
        owner: Option<&ClaimOwner>,
        cell: &CellId,
        attempt: u32,
        this_process: &ClaimOwner,
    ) -> bool {
        owner_liveness(owner, &self.claim_file(cell, attempt), this_process) != OwnerLiveness::Dead
    }

    /// Returns whether the process of this attempt still holds its claim, even if the attempt was
    /// recorded as lost. On another host that is known only if the file system has locks for all.
    pub fn is_claim_locked(&self, cell: &CellId, attempt: u32) -> bool {
        attempt > 0 && file::is_locked(&self.claim_file(cell, attempt))
    }

    /// Reads who claimed `cell` for this attempt.
    pub fn claim_owner(&self, cell: &CellId, attempt: u32) -> Option<ClaimOwner> {
        read_owner(&self.claim_file(cell, attempt))
    }

    /// Reads how this attempt ended, if it ended without a result. A damaged note was cut off with
    /// its process.
    pub fn attempt_note(&self, cell: &CellId, attempt: u32) -> Result<Option<AttemptNote>> {
        let bytes = read_regular_file(&self.note_file(cell, attempt), NOTE_BYTES_MAX)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Records how an attempt without a result ended, unless that is recorded already.
    pub fn write_note(&self, cell: &CellId, attempt: u32, note: &AttemptNote) -> Result<()> {
        let path = self.note_file(cell, attempt);
        create_once(&path, &note.to_json()?).map(drop)
    }

    /// Records that the result of this attempt is withdrawn, and what it cost. A note that the
    /// attempt was lost is replaced: it may have been written just before the result.
    pub fn replace_note(&self, cell: &CellId, attempt: u32, note: &AttemptNote) -> Result<()> {
        let path = self.note_file(cell, attempt);
        file::replace(&path, &note.to_json()?)
    }

    /// Returns what runs of attempts before `attempt` cost that were not resumed.
    pub fn spent_before(&self, cell: &CellId, attempt: u32) -> Result<Money> {
        Ok(self.earlier_attempts(cell, attempt)?.spent)
    }

    fn earlier_attempts(&self, cell: &CellId, attempt: u32) -> Result<EarlierAttempts> {
        let mut earlier_attempts = EarlierAttempts::default();
        for number in 1..attempt {
            let note = self.attempt_note(cell, number)?;
            let end = note
                .as_ref()
                .map_or(AttemptEnd::ProcessLost, |note| note.end);
            earlier_attempts.counts.add(end);
            earlier_attempts.last = Some(end);
            if !end.is_resumable() {
                earlier_attempts.last_not_resumable = number;
            }
            let spent = note.map_or(0, |note| note.spent_picodollars);
            earlier_attempts.spent = earlier_attempts
                .spent
                .saturating_add(Money::from_picodollars(spent));
        }
        Ok(earlier_attempts)
    }

    fn has_note(&self, cell: &CellId, attempt: u32) -> Result<bool> {
        file::exists(&self.note_file(cell, attempt))
    }

    fn claim_file(&self, cell: &CellId, attempt: u32) -> AbsPath {
        self.dir.join("claims").join(format!("{cell}.{attempt}"))
    }

    fn note_file(&self, cell: &CellId, attempt: u32) -> AbsPath {
        self.dir.join("ends").join(format!("{cell}.{attempt}"))
    }
}
