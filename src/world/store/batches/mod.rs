//! The batches of a directory on disk. Files are the truth: each has one writer or is created once,
//! so that any number of processes on any number of hosts may work on a batch and be killed at any
//! moment.

pub mod attempts;
pub mod submissions;
pub mod budget;
pub mod cells;
pub mod survey;

use std::io::{BufRead as _, BufReader};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::batch::task::{BatchTask, CellId, TASK_FILE_BYTES_MAX};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::spending::money::Money;
use crate::text::{count_noun, to_hex};
use crate::world::io::files::read_regular_file;
use crate::world::store::directory_seal::{DirectorySeal, foreign_directory_error};
use crate::world::store::existing_directories;
use crate::world::store::naming::{LAST, NameScheme, new_name_time};
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::{clear, file, file_error, json_file};

/// The prefix of batch names.
const PREFIX: &str = "batch_";
/// How batches are named.
const BATCH_NAMES: NameScheme = NameScheme {
    noun: "batch",
    name: "name",
    prefix: PREFIX,
};
/// Number of random digits at the end of a batch's name.
const RANDOM_DIGITS: usize = 4;
/// The file that records how a batch began; it is written last.
const RECORD_FILE: &str = "batch.json";
/// The frozen task file.
const TASKS_FILE: &str = "tasks.jsonl";
/// Maximum size of the record, in bytes.
const RECORD_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum size of the settings of a start, in bytes.
const SETTINGS_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum size of a frozen config, in bytes.
const CONFIG_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A batch on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchDir {
    dir: AbsPath,
}

/// The batch that the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBatch {
    /// The batch.
    pub batch: BatchDir,
    /// What the user should know about newer batches that were skipped.
    pub warning: Option<String>,
}

/// How a batch began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchRecord {
    /// The user's directory.
    pub cwd: AbsPath,
    /// When it began, as ISO 8601.
    pub began: String,
    /// The name of the task file for the user.
    pub tasks_name: String,
    /// The number of cells.
    pub cells: u32,
    /// The digest of the frozen task file.
    pub tasks_sha256: String,
    /// The configs, that of the batch first.
    pub configs: Vec<FrozenConfig>,
    /// The file with model prices that the user named, if any.
    pub models: Option<String>,
    /// The paths that the texts of tasks may open for reading by mentioning them.
    pub allowed_mentions: Vec<AbsPath>,
    /// Maximum number of repetitions of a cell after faults of its node.
    pub retries: u32,
    /// The maximum cost of the whole batch, if there is one, when it began.
    pub max_cost_usd: Option<Money>,
}

impl BatchRecord {
    /// Returns the name of the config of the batch; empty if it has none.
    pub fn team(&self) -> &str {
        let config = self.configs.first();
        config.map_or("", |config| config.name.as_str())
    }
}

/// A config as it was when the batch began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrozenConfig {
    /// Its name for the user.
    pub name: String,
    /// The path of its file; `None` for a built-in config.
    pub path: Option<AbsPath>,
    /// The digest of its text.
    pub sha256: String,
}

/// `batch.json`.
#[derive(Serialize, Deserialize)]
struct BatchFile {
    seal: DirectorySeal,
    #[serde(flatten)]
    record: BatchRecord,
}

/// Returns all batches below `batches`, newest first.
pub fn list(batches: &AbsPath) -> Result<Vec<BatchDir>> {
    let dirs = BATCH_NAMES.list(batches)?.map(|dir| BatchDir { dir });
    existing_directories(dirs, BatchDir::exists)
}

/// Returns the batch that `given_name` selects: `last`, a name, or the only one with this prefix.
/// The last one is the newest that was created here and whose record can be read.
///
/// # Errors
/// There is no such batch. One that is named is found even if its record cannot be used.
pub fn find(given_name: &str, batches: &AbsPath) -> Result<FoundBatch> {
    let batch_dirs = list(batches)?;
    if given_name == LAST {
        return find_last(&batch_dirs, batches);
    }
    let named_batch = BATCH_NAMES
        .resolve(given_name, &batch_dirs, BatchDir::name)?
        .cloned();
    let batch = named_batch
        .ok_or_else(|| missing_error(ErrorKind::Usage, format!("no batch `{given_name}`")))?;
    Ok(FoundBatch {
        batch,
        warning: None,
    })
}

/// Finds the last usable one of `batch_dirs` below `batches`, which are sorted from new to old.
fn find_last(batch_dirs: &[BatchDir], batches: &AbsPath) -> Result<FoundBatch> {
    let mut newest_problem = None;
    for (skipped, batch) in batch_dirs.iter().enumerate() {
        if let Some(reason) = batch.unusable_reason() {
            newest_problem.get_or_insert_with(|| format!("`{}`: {reason}", batch.name()));
            continue;
        }
        let warning = newest_problem.map(|problem| {
            let skipped_batches = count_noun(skipped, "newer batch");
            let name = batch.name();
            format!(
                "taking `{name}` for the last batch: {skipped_batches} cannot be used: {problem}"
            )
        });
        return Ok(FoundBatch {
            batch: batch.clone(),
            warning,
        });
    }
    Err(match newest_problem {
        None => missing_error(ErrorKind::Usage, format!("no batches in `{batches}`")),
        Some(problem) => missing_error(
            ErrorKind::Environment,
            format!("no batch in `{batches}` can be used; the newest is {problem}"),
        ),
    })
}

fn missing_error(kind: ErrorKind, message: String) -> Error {
    Error::new(kind, message)
        .with_hint("see `massgen batch list` for the batches of this directory")
        .with_hint("start one: massgen batch run tasks.jsonl --config team.yaml")
}

/// Returns the batch below `batches` with exactly this name, if there is one.
pub fn find_by_name(name: &str, batches: &AbsPath) -> Result<Option<BatchDir>> {
    let batch = BATCH_NAMES
        .path_of(name, batches)?
        .map(|dir| BatchDir { dir });
    Ok(existing_directories(batch, BatchDir::exists)?.pop())
}

/// Returns the digest of `bytes` as hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

impl BatchDir {
    /// Creates a batch of `tasks` with the texts of its configs; `describe` completes its record
    /// with the digest of the task file. If that fails or the process is killed, there is no batch.
    pub fn create(
        batches: &AbsPath,
        tasks: &[BatchTask],
        configs: &[Vec<u8>],
        describe: impl FnOnce(String) -> BatchRecord,
    ) -> Result<Self> {
        let time = new_name_time(&batches.parent().unwrap_or_else(AbsPath::root))?;
        let (second, _) = time.rsplit_once('_').unwrap_or_default();
        let name_prefix = format!("{PREFIX}{second}_");
        let batch = Self {
            dir: dir::create_unique(batches, &name_prefix, RANDOM_DIGITS)?,
        };
        let write_result = batch.write(tasks, configs, describe);
        if write_result.is_err() {
            clear::remove(&batch.dir)?;
        }
        write_result.map(|()| batch)
    }

    /// Writes all files of a new batch, the record last.
    fn write(
        &self,
        tasks: &[BatchTask],
        configs: &[Vec<u8>],
        describe: impl FnOnce(String) -> BatchRecord,
    ) -> Result<()> {
        for path in self.directories() {
            dir::create_all(&path, DirectoryAudience::User)?;
        }
        let mut lines = Vec::new();
        for task in tasks {
            serde_json::to_writer(&mut lines, task).map_err(Error::unserializable)?;
            lines.push(b'\n');
        }
        for (number, text) in configs.iter().enumerate() {
            file::replace(&self.config_file(number), text)?;
        }
        file::replace(&self.dir.join(TASKS_FILE), &lines)?;
        let batch_file = BatchFile {
            seal: DirectorySeal::from_directory(&self.dir)?,
            record: describe(digest(&lines)),
        };
        let text = serde_json::to_vec_pretty(&batch_file).map_err(Error::unserializable)?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > RECORD_BYTES_MAX {
            let message =
                format!("the names of the configs take more than {RECORD_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint("start several batches, each with fewer configs"));
        }
        file::replace(&self.dir.join(RECORD_FILE), &text)
    }

    /// Returns its name, such as `batch_20261102_140322_0a1b`.
    pub fn name(&self) -> String {
        self.dir.name_lossy()
    }

    /// Returns its directory.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// Reads how it began.
    ///
    /// # Errors
    /// The record cannot be read, or was not created here: a batch names paths and configs, which
    /// are believed only where massgen wrote them.
    pub fn record(&self) -> Result<BatchRecord> {
        let batch_file = self.record_file()?;
        if !batch_file.seal.holds(&self.dir)? {
            return Err(foreign_directory_error(&self.dir));
        }
        Ok(batch_file.record)
    }

    /// Returns why its record cannot be used: it cannot be read, or was created elsewhere.
    fn unusable_reason(&self) -> Option<String> {
        let batch_file = match self.record_file() {
            Ok(batch_file) => batch_file,
            Err(error) => return Some(format!("{error:#}")),
        };
        let is_own = batch_file.seal.holds(&self.dir).is_ok_and(|holds| holds);
        (!is_own).then(|| "it was not created by massgen in this directory".to_owned())
    }

    fn record_file(&self) -> Result<BatchFile> {
        let path = self.dir.join(RECORD_FILE);
        json_file::read_written(&path, RECORD_BYTES_MAX).map_err(|error| {
            error.with_hint(format!("if the batch is not needed, remove `{}`", self.dir))
        })
    }

    /// Returns the task of the cell with this number, from 0.
    pub fn task(&self, number: u32) -> Result<BatchTask> {
        let path = self.dir.join(TASKS_FILE);
        let read_error = |error| file_error("read", path.as_path(), error);
        let tasks = BufReader::new(file::open(&path).map_err(read_error)?);
        let line = tasks
            .lines()
            .nth(usize::try_from(number).unwrap_or(usize::MAX));
        let line = line.transpose().map_err(read_error)?.unwrap_or_default();
        BatchTask::parse_frozen(&line).map_err(|reason| {
            let message = format!("task {number} of `{}` is damaged: {reason}", self.name());
            Error::new(ErrorKind::Environment, message)
        })
    }

    /// Returns the ids of all cells, in the order of the task file, after its digest was compared
    /// with `record`.
    pub fn cell_ids(&self, record: &BatchRecord) -> Result<Vec<CellId>> {
        /// The part of a task that is read.
        #[derive(Deserialize)]
        struct TaskId {
            id: CellId,
        }
        let path = self.dir.join(TASKS_FILE);
        let damaged_error = || {
            let message = format!("`{path}` has changed since the batch began");
            Error::new(ErrorKind::Environment, message)
                .with_hint("restore it, or start another batch")
        };
        let bytes = file::read_regular_capped(&path, TASK_FILE_BYTES_MAX)
            .map_err(|error| file_error("read", path.as_path(), error))?;
        let bytes = bytes.ok_or_else(damaged_error)?;
        if digest(&bytes) != record.tasks_sha256 {
            return Err(damaged_error());
        }
        let lines = bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines
            .map(|line| {
                let task: TaskId = serde_json::from_slice(line)
                    .map_err(|error| damaged_error().with_source(error))?;
                Ok(task.id)
            })
            .collect()
    }

    /// Reads the text of the config with this number, which must be as it was when the batch began.
    pub fn config_text(&self, record: &BatchRecord, number: usize) -> Result<Vec<u8>> {
        let path = self.config_file(number);
        let bytes = file::read_regular_capped(&path, CONFIG_BYTES_MAX)
            .map_err(|error| file_error("read", path.as_path(), error))?;
        let config = record.configs.get(number);
        match (bytes, config) {
            (Some(bytes), Some(config)) if digest(&bytes) == config.sha256 => Ok(bytes),
            _ => {
                let message = format!("`{path}` has changed since the batch began");
                Err(Error::new(ErrorKind::Environment, message)
                    .with_hint("restore it, or start another batch"))
            }
        }
    }

    /// Returns the directory of the output of jobs.
    pub fn jobs_dir(&self) -> Result<AbsPath> {
        let path = self.dir.join("jobs");
        dir::create_all(&path, DirectoryAudience::User)?;
        Ok(path)
    }

    /// Keeps how jobs are started, for the next start.
    pub fn keep_settings(&self, settings: &impl Serialize) -> Result<()> {
        json_file::replace(&self.settings_file(), settings)
    }

    /// Returns how jobs were started last, if that was recorded.
    pub fn settings<T: DeserializeOwned>(&self) -> Option<T> {
        json_file::read(&self.settings_file(), SETTINGS_BYTES_MAX).ok()?
    }

    fn settings_file(&self) -> AbsPath {
        self.dir.join("settings.json")
    }

    fn config_file(&self, number: usize) -> AbsPath {
        self.dir.join("configs").join(format!("{number}.yaml"))
    }

    fn directories(&self) -> [AbsPath; 7] {
        [
            "configs",
            "submissions",
            "attempts",
            "notes",
            "cells",
            "results",
            "earlier",
        ]
        .map(|name| self.dir.join(name))
    }

    /// Returns whether the directory itself, not a symlink, exists and has a record.
    fn exists(&self) -> Result<bool> {
        Ok(file::is_directory(&self.dir)?
            && file::is_accessible(&self.dir)?
            && file::exists(&self.dir.join(RECORD_FILE))?)
    }
}

/// Maximum size of the reason why endpoints fail, in bytes.
const REASON_BYTES_MAX: u64 = 64 * 1024;

impl BatchDir {
    /// Returns whether the user has cancelled the batch.
    pub fn is_cancelled(&self) -> Result<bool> {
        file::exists(&self.cancel_file())
    }

    /// Cancels the batch: no cell begins, and those in progress are parked.
    pub fn cancel(&self) -> Result<()> {
        file::replace_unsynced(&self.cancel_file(), b"")
    }

    /// Revokes the cancellation.
    pub fn revoke_cancellation(&self) -> Result<()> {
        clear::remove(&self.cancel_file())
    }

    /// Returns why a cell of the last submission is held, if one is.
    pub fn held_reason(&self) -> Result<Option<String>> {
        let reason = read_regular_file(&self.held_file(), REASON_BYTES_MAX)?;
        Ok(reason.map(|reason| String::from_utf8_lossy(&reason).into_owned()))
    }

    /// Records why a cell is held: its endpoints failed.
    pub fn hold(&self, reason: &str) -> Result<()> {
        file::replace_unsynced(&self.held_file(), reason.as_bytes())
    }

    /// Forgets that cells were held.
    pub fn release_held(&self) -> Result<()> {
        clear::remove(&self.held_file())
    }

    fn cancel_file(&self) -> AbsPath {
        self.dir.join("cancelled")
    }

    fn held_file(&self) -> AbsPath {
        self.dir.join("held")
    }
}
