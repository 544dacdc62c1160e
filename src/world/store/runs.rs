//! Finds recorded runs: lists them, and reads their state and records. It never changes them.

use std::io::BufRead;

use serde_json::Value;

use crate::config::typed_yaml::read_typed;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::spending::limits::BudgetLimits;
use crate::world::store::directory_seal::{foreign_directory_error, is_sealed};
use crate::world::store::event_log::{self, LogReader};
use crate::world::store::naming::{LAST, NameScheme};
use crate::world::store::records::metadata;
use crate::world::store::records::metadata::ReplayManifest;
use crate::world::store::records::metadata::RunMetadata;
use crate::world::store::records::record_paths::{
    EVENTS, MANIFEST, METADATA, REPLIES, STATUS, TURN_PREFIX,
};
use crate::world::store::reject_symlinks_to;
use crate::world::sys::state_files::{self, archive, dir, file, json_file};

/// The prefix of run names.
const PREFIX: &str = "log_";
/// How runs are named.
const RUN_NAMES: NameScheme = NameScheme {
    noun: "run",
    name: "name",
    prefix: PREFIX,
};
/// The largest `status.json`, `replay.yaml` and `execution_metadata.yaml` that are read, in bytes.
const SUMMARY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The largest recording that is read, in bytes.
const RECORDING_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The records of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    dir: AbsPath,
    /// The directory of its only turn.
    turn: AbsPath,
}

/// The state of a run, as its records and the lock on its log show it.
#[derive(Clone, Debug)]
pub struct RunState {
    /// Whether it is running, has ended or was interrupted.
    pub status: RunStatus,
    /// The content of its `status.json`, if there is a readable one.
    pub status_file: Option<Value>,
}

/// Whether a run is running, has ended or was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// It is running.
    Running,
    /// It has ended.
    Ended,
    /// Its process is gone without having recorded an end.
    Interrupted,
}

/// Returns all runs below `logs`, newest first.
pub fn list(logs: &AbsPath) -> Result<Vec<RunDir>> {
    let runs = RUN_NAMES.list(logs)?.map(RunDir::open);
    runs.filter_map(Result::transpose).collect()
}

/// Returns the newest run below `logs` whose records were created there, if there is one.
pub fn find_last_own(logs: &AbsPath) -> Result<Option<RunDir>> {
    for run in list(logs)? {
        if run.is_own()? {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// Returns whether `name` can be the name of a run.
pub fn is_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Returns the name of the run whose records are in `dir` or in a directory above it.
pub fn name_of(dir: &AbsPath) -> Option<String> {
    // The project may be in a directory whose name looks like that of a run.
    let mut names = dir.as_path().iter().rev().filter_map(|name| name.to_str());
    names.find(|name| is_name(name)).map(str::to_owned)
}

/// Returns the run that `given_name` selects: `last`, a name below `logs` or the only one with this
/// prefix, or a log directory relative to `base`, the user's working directory.
pub fn find(given_name: &str, logs: &AbsPath, base: &AbsPath) -> Result<RunDir> {
    let runs = list(logs)?;
    if given_name == LAST {
        let no_runs = || not_found(format!("no runs in `{logs}`"));
        return runs.into_iter().next().ok_or_else(no_runs);
    }
    let resolved_run = RUN_NAMES.resolve(given_name, &runs, RunDir::name);
    if let Ok(Some(run)) = resolved_run {
        return Ok(run.clone());
    }
    if let Some(named_run) = RunDir::open(base.join(given_name))? {
        reject_symlinks_to(&named_run.dir)?;
        return Ok(named_run);
    }
    resolved_run?;
    Err(not_found(format!("no run `{given_name}`")))
}

/// Returns the run below `logs` with exactly this name, if there is one.
pub fn find_by_name(name: &str, logs: &AbsPath) -> Result<Option<RunDir>> {
    let dir = RUN_NAMES.path_of(name, logs)?;
    dir.map_or(Ok(None), RunDir::open)
}

fn not_found(message: String) -> Error {
    Error::new(ErrorKind::Usage, message)
        .with_hint("see `massgen logs list` for the runs of this directory")
        .with_hint("give the log directory of a run, its name, a prefix of the name, or `last`")
}

impl RunDir {
    /// Returns the run in `dir`; `None` if there is none, or if its records are another user's. The
    /// directory itself and all files that are read from it are inside it: a symlink that leads out
    /// of it was not created by massgen.
    fn open(dir: AbsPath) -> Result<Option<Self>> {
        if !file::is_directory(&dir)? || !file::is_accessible(&dir)? {
            return Ok(None);
        }
        let mut names = dir::names(&dir)?.into_iter();
        let Some(turn) = names.find(|name| name.starts_with(TURN_PREFIX)) else {
            return Ok(None);
        };
        let turn = dir.join(turn);
        let run = Self { dir, turn };
        let is_own = file::is_directory(&run.turn)? && run.contains_its_records()?;
        Ok(is_own.then_some(run))
    }

    /// Returns its name, such as `log_20261102_140322_123456`.
    pub fn name(&self) -> String {
        self.dir.name_lossy()
    }

    /// Returns the directory of all its records.
    pub fn log(&self) -> &AbsPath {
        &self.dir
    }

    /// Returns whether its records were created in this place. Records that came with a project
    /// were not.
    pub fn is_own(&self) -> Result<bool> {
        is_sealed(&self.dir)
    }

    /// Refuses records that came with a project.
    ///
    /// # Errors
    /// The records were not created in this place.
    pub fn expect_own(&self) -> Result<()> {
        if self.is_own()? {
            Ok(())
        } else {
            Err(foreign_directory_error(&self.dir))
        }
    }

    /// Returns the path of its event log.
    pub fn events_file(&self) -> AbsPath {
        self.turn.join(EVENTS)
    }

    /// Returns whether it has an event log; one that is just starting has none.
    pub fn has_log(&self) -> Result<bool> {
        let kind = file::kind(&self.events_file())?;
        Ok(kind.is_some_and(|kind| kind.is_file()))
    }

    /// Opens its event log.
    pub fn events(&self) -> Result<LogReader<impl BufRead + use<>>> {
        event_log::open(&self.events_file())
    }

    /// Reads its `status.json`; `None` if there is none, or if a crash damaged it.
    fn read_status_file(&self) -> Result<Option<Value>> {
        json_file::read(&self.turn.join(STATUS), SUMMARY_BYTES_MAX)
    }

    /// Reads how the run began.
    pub fn manifest(&self) -> Result<ReplayManifest> {
        let path = self.turn.join(MANIFEST);
        let replay_error = |reason: &str| {
            let message = format!("`{}` cannot be replayed: {reason}", self.name());
            Error::new(ErrorKind::Environment, message)
        };
        let bytes = match file::read_regular_capped(&path, SUMMARY_BYTES_MAX) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(replay_error("its `replay.yaml` is too large")),
            Err(error) => {
                let error = state_files::file_error("read", path.as_path(), error);
                return Err(replay_error("it does not record how it started").with_source(error));
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        read_typed(&text)
            .map_err(|error| replay_error(&format!("its `replay.yaml` is damaged: {error}")))
    }

    /// Reads what the run was started with; `None` if there is no readable record of it.
    pub fn metadata(&self) -> Option<RunMetadata> {
        let bytes =
            file::read_regular_capped(&self.turn.join(METADATA), SUMMARY_BYTES_MAX).ok()??;
        read_typed(&String::from_utf8_lossy(&bytes)).ok()
    }

    /// Reads the limits in force; `None` if its records do not have them.
    pub fn limits(&self) -> Option<BudgetLimits> {
        metadata::read_limits(&self.turn)
    }

    /// Returns the number of its turn in the session.
    pub fn turn_number(&self) -> Option<u32> {
        self.turn
            .name_lossy()
            .strip_prefix(TURN_PREFIX)?
            .parse()
            .ok()
    }

    /// Returns the recorded replies of `agent` as text; `None` if there are none.
    pub fn replies(&self, agent: &AgentId) -> Result<Option<String>> {
        let path = self.replies_file(agent);
        match file::read_regular_capped(&path, RECORDING_BYTES_MAX) {
            // A crash can also cut the last character; what remains of it is replaced.
            Ok(Some(bytes)) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Ok(None) => Err(state_files::file_error(
                "read",
                path.as_path(),
                std::io::ErrorKind::FileTooLarge.into(),
            )),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(state_files::file_error("read", path.as_path(), error)),
        }
    }

    /// Returns the file in which the replies of `agent` are recorded.
    pub fn replies_file(&self, agent: &AgentId) -> AbsPath {
        self.turn.join(REPLIES).join(format!("{agent}.yaml"))
    }

    /// Returns its state.
    ///
    /// # Errors
    /// Its log or its `status.json` cannot be read.
    pub fn state(&self) -> Result<RunState> {
        // The lock before the status: a run that ends meanwhile is not mistaken for an interrupted
        // one.
        let is_written = event_log::is_written(&self.events_file())?;
        let status_file = self.read_status_file()?;
        let is_complete = status_file
            .as_ref()
            .and_then(|file| file.get("is_complete"));
        let status = if is_complete == Some(&Value::Bool(true)) {
            RunStatus::Ended
        } else if is_written {
            RunStatus::Running
        } else {
            RunStatus::Interrupted
        };
        Ok(RunState {
            status,
            status_file,
        })
    }

    /// Packs all records into a new archive at `archive_path` and returns the number of files.
    pub fn export(&self, archive_path: &AbsPath) -> Result<usize> {
        archive::pack(&self.dir, &self.name(), archive_path)
    }

    /// Returns the first event of its log, if that can be read.
    pub fn first_event(&self) -> Option<Event> {
        let mut events = self.events().ok()?;
        events.find_map(|entry| entry.ok()?.event)
    }

    /// Returns whether all files that are read from it are inside it.
    fn contains_its_records(&self) -> Result<bool> {
        let log = dir::resolve(&self.dir)?;
        let replies = self.turn.join(REPLIES);
        let reply_files = dir::names_if_exists(&replies)
            .unwrap_or_default()
            .into_iter();
        let records =
            [EVENTS, STATUS, METADATA, MANIFEST, REPLIES].map(|name| self.turn.join(name));
        let mut records = records
            .into_iter()
            .chain(reply_files.map(|name| replies.join(name)));
        Ok(records.all(|record| match dir::resolve(&record) {
            Ok(real) => real.is_within(&log),
            // What does not resolve cannot be read.
            Err(_) => true,
        }))
    }
}
