//! The money of a batch. Its limit is written by the command that sets it; the control process
//! writes the share of each job into its submission, and each attempt writes what it spent. So each
//! file has one writer, and no process waits for another one.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::path::AbsPath;
use crate::spending::money::Money;
use crate::spending::shared_budget::SharedBudget;
use crate::world::io::clock::{Stopwatch, milliseconds, now};
use crate::world::store::batches::attempts::{AttemptNote, CellAttempt};
use crate::world::store::batches::submissions::Submission;
use crate::world::store::batches::{BatchDir, BatchRecord};
use crate::world::sys::state_files::{damaged_error, file};

/// Maximum size of the file with the limit, in bytes.
const LIMIT_BYTES_MAX: u64 = 64;

/// What limits an attempt: the share of its job, and processes that supersede it. It records what
/// the attempt spends.
#[derive(Debug)]
pub struct AttemptBudget {
    batch: BatchDir,
    attempt: CellAttempt,
    submission: u32,
    /// What the attempt may spend; `None` without a limit.
    share: Option<Money>,
    /// What the run had cost when the attempt began, as earlier attempts recorded it.
    earlier_cost: Money,
    began: Stopwatch,
    /// Cancelled when the run must be parked.
    park: CancellationToken,
    is_exhausted: AtomicBool,
}

impl AttemptBudget {
    /// Creates the budget of `attempt` in a job of `submission` that has spent `spent_by_job` on its
    /// cells. The run had cost `earlier_cost`, as earlier attempts recorded it; when the attempt may
    /// ask no model any more, `park` is cancelled.
    pub fn new(
        batch: &BatchDir,
        attempt: CellAttempt,
        submission: &Submission,
        spent_by_job: Money,
        earlier_cost: Money,
        park: CancellationToken,
    ) -> Self {
        let share = submission.head.share_usd;
        Self {
            batch: batch.clone(),
            attempt,
            submission: submission.number,
            share: share.map(|share| share.saturating_sub(spent_by_job)),
            earlier_cost,
            began: Stopwatch::start(),
            park,
            is_exhausted: AtomicBool::new(false),
        }
    }

    /// Returns the attempt.
    pub fn attempt(&self) -> &CellAttempt {
        &self.attempt
    }

    /// Returns whether the share of the job was spent before a request.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted.load(Ordering::Relaxed)
    }

    /// Returns the note of an attempt whose run has cost `run_cost`.
    pub fn note(&self, run_cost: Money) -> AttemptNote {
        AttemptNote {
            spent_usd: run_cost.saturating_sub(self.earlier_cost),
            worked_ms: milliseconds(self.began.elapsed()),
            at: now().iso_format(),
            ..AttemptNote::default()
        }
    }

    /// Returns whether another process works on the cell or on all cells.
    pub fn is_superseded(&self) -> Result<bool> {
        Ok(
            self.attempt.is_superseded()?
                || self.batch.is_submission_superseded(self.submission)?,
        )
    }

    /// Records what is spent, and returns whether a further request may begin.
    fn may_continue(&self, run_cost: Money) -> Result<bool> {
        let note = self.note(run_cost);
        self.attempt.write_progress(&note)?;
        if self.share.is_some_and(|share| note.spent_usd >= share) {
            self.is_exhausted.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        Ok(!self.is_superseded()?)
    }
}

impl SharedBudget for AttemptBudget {
    fn limits_cost(&self) -> bool {
        self.share.is_some()
    }

    /// If the disk fails, no further request is covered.
    fn covers(&self, spent: Money) -> bool {
        let is_covered = matches!(self.may_continue(spent), Ok(true));
        if !is_covered {
            self.park.cancel();
        }
        is_covered
    }
}

impl BatchDir {
    /// Returns what the batch may spend; `None` without a limit.
    pub fn limit(&self, record: &BatchRecord) -> Result<Option<Money>> {
        let path = self.limit_file();
        if !file::exists(&path)? {
            return Ok(record.max_cost_usd);
        }
        let bytes = file::read_regular_capped(&path, LIMIT_BYTES_MAX)
            .ok()
            .flatten();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let limit = text.and_then(|text| Money::from_dollars(text.trim()));
        limit.ok_or_else(|| damaged_error(&path)).map(Some)
    }

    /// Sets what the batch may spend in all, from the next submission on.
    pub fn set_limit(&self, limit: Money) -> Result<()> {
        file::replace(&self.limit_file(), limit.to_string().as_bytes())
    }

    fn limit_file(&self) -> AbsPath {
        self.dir.join("limit")
    }
}
