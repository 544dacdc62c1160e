//! Submissions of a batch: each is an array of jobs, with the cells that had no result when it was
//! created and the share of each job in the money. A newer submission supersedes the jobs of the
//! earlier ones. Its file is created once by the control process, and locked as long as that lives.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::spending::money::Money;
use crate::world::store::batches::BatchDir;
use crate::world::store::batches::attempts::{ProcessLiveness, ProcessMark};
use crate::world::sys::state_files::create_once::{LockedFile, create_once};
use crate::world::sys::state_files::{damaged_error, dir, file, file_error};

/// Maximum size of the file of a submission, in bytes: a million cells.
const SUBMISSION_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The first line of a submission; the others are the numbers of its cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionHead {
    /// What starts the jobs: `local`, or another engine.
    pub engine: String,
    /// The number of jobs.
    pub indexes: u32,
    /// What each job may spend in US dollars; `None` without a limit.
    pub share_usd: Option<Money>,
    /// The control process that created it.
    pub mark: ProcessMark,
}

/// A submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Its number, from 1.
    pub number: u32,
    /// What all its jobs have in common.
    pub head: SubmissionHead,
    /// The numbers of its cells.
    pub cells: Vec<u32>,
}

/// A submission that this process created: it is locked until the value is dropped.
#[derive(Debug)]
pub struct OwnSubmission {
    /// The number of the submission, from 1.
    pub number: u32,
    /// The number of jobs.
    pub indexes: u32,
    _lock: LockedFile,
}

impl Submission {
    /// Returns the cells of the job with this index: of N jobs, those at I, I+N, and so on.
    pub fn cells_of(&self, index: u32) -> Vec<u32> {
        if index >= self.head.indexes {
            return Vec::new();
        }
        let [first, step] =
            [index, self.head.indexes].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        self.cells
            .iter()
            .skip(first)
            .step_by(step)
            .copied()
            .collect()
    }
}

impl BatchDir {
    /// Creates the next submission, of these `cells`; `None` if another process has just done so.
    pub fn submit(&self, head: &SubmissionHead, cells: &[u32]) -> Result<Option<OwnSubmission>> {
        let number = self.last_submission()?.saturating_add(1);
        let mut text = serde_json::to_string(head).map_err(Error::unserializable)?;
        for cell in cells {
            text.push('\n');
            text.push_str(&cell.to_string());
        }
        let lock = create_once(&self.submission_file(number), text.as_bytes())?;
        Ok(lock.map(|lock| OwnSubmission {
            number,
            indexes: head.indexes,
            _lock: lock,
        }))
    }

    /// Reads a submission.
    pub fn submission(&self, number: u32) -> Result<Submission> {
        let path = self.submission_file(number);
        let bytes = file::read_regular_capped(&path, SUBMISSION_BYTES_MAX)
            .map_err(|error| file_error("read", path.as_path(), error))?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let parse = |text: &str| {
            let mut lines = text.lines();
            let head = serde_json::from_str(lines.next()?).ok()?;
            let cells = lines.map(|line| line.parse().ok()).collect::<Option<_>>()?;
            Some(Submission {
                number,
                head,
                cells,
            })
        };
        text.as_deref()
            .and_then(parse)
            .ok_or_else(|| damaged_error(&path))
    }

    /// Returns the number of the last submission; 0 if there is none.
    pub fn last_submission(&self) -> Result<u32> {
        let names = dir::names_if_exists(&self.dir.join("submissions"))?;
        let numbers = names.iter().filter_map(|name| name.parse().ok());
        Ok(numbers.max().unwrap_or(0))
    }

    /// Returns whether there is a submission after this one.
    pub fn is_submission_superseded(&self, number: u32) -> Result<bool> {
        file::exists(&self.submission_file(number.saturating_add(1)))
    }

    /// Returns whether the control process of the last submission is alive, as far as this one can
    /// know.
    pub fn control_liveness(&self, submission: &Submission) -> ProcessLiveness {
        let path = self.submission_file(submission.number);
        submission.head.mark.liveness(&path)
    }

    fn submission_file(&self, number: u32) -> AbsPath {
        self.dir.join("submissions").join(number.to_string())
    }
}
