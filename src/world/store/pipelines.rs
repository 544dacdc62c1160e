//! The pipelines of a directory: lists and looks them up, defines where their parts are stored, and
//! records how each began. Its progress is read from its shared branch.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::mentions::opened_paths::OpenedPath;
use crate::path::{AbsPath, RelPath};
use crate::roles::RoleName;
use crate::world::io::files::read_regular_file;
use crate::world::store::directory_seal::{DirectorySeal, foreign_directory_error};
use crate::world::store::naming::{LAST, NameScheme, new_name_time};
use crate::world::store::records::record_paths::EVENTS;
use crate::world::store::redact::Redactor;
use crate::world::store::{existing_directories, runs};
use crate::world::sys::state_files::dir::{self, DirLock, DirLockAttempt, DirectoryAudience};
use crate::world::sys::state_files::disk_usage::unchanged_for;
use crate::world::sys::state_files::{clear, file};

/// The prefix of pipeline names.
const PREFIX: &str = "pipeline_";
/// How pipelines are named.
const PIPELINE_NAMES: NameScheme = NameScheme {
    noun: "pipeline",
    name: "name",
    prefix: PREFIX,
};
/// How many random digits end a pipeline's name, after the five of its microsecond, which make
/// names sort by creation time.
const RANDOM_DIGITS: usize = 3;
/// How many digits of a name encode the date and time at which something began.
const TIME_DIGITS: usize = 14;
/// The suffix of git's lock files.
const LOCK_SUFFIX: &str = ".lock";
/// How long a pipeline that never began is kept.
const UNSTARTED_KEPT_MIN: Duration = Duration::from_mins(1);
/// The file that records how a pipeline began.
const RECORD_FILE: &str = "pipeline.json";
/// The file that lists the runs of its roles.
const RUNS_FILE: &str = "runs.txt";
/// The most that is read of either file, in bytes.
const RECORD_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A pipeline on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineDir {
    dir: AbsPath,
}

/// The lock on a pipeline: while this value lives, no other process works on it.
#[derive(Debug)]
pub struct PipelineLock {
    _lock: DirLock,
}

/// How a pipeline began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineRecord {
    /// The task as the user wrote it.
    pub task: String,
    /// The paths that the prompt opened.
    pub opened: Vec<OpenedPath>,
    /// The user's working directory.
    pub cwd: AbsPath,
    /// When it began, as [`LocalDateTime::iso_format`](crate::world::io::clock::LocalDateTime::iso_format) writes it.
    pub began: String,
    /// The config file, if there was one.
    pub config_path: Option<AbsPath>,
    /// The files that it obeys, which roles do not change for the user: its config, and what its
    /// hooks and servers run.
    pub own_files: Vec<AbsPath>,
    /// The config's text, without keys.
    pub config: Option<String>,
    /// The command line arguments.
    pub arguments: Vec<String>,
    /// The roles of the stages, in order.
    pub roles: Vec<RoleName>,
    /// The directory of the tree in which roles have their directories; empty for its root.
    pub directory: RelPath,
    /// The directory of the roles' checkouts.
    pub workspace: AbsPath,
    /// The project that it works on; `None` if it began empty.
    pub project: Option<ProjectOrigin>,
}

/// The project that a pipeline works on, as it was when the pipeline began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectOrigin {
    /// The directory of its working tree.
    pub root: AbsPath,
    /// The checked-out branch, if there was one.
    pub branch: Option<String>,
    /// The checked-out commit, if there was one.
    pub head: Option<String>,
}

/// `pipeline.json`.
#[derive(Serialize, Deserialize)]
struct PipelineFile {
    seal: DirectorySeal,
    #[serde(flatten)]
    record: PipelineRecord,
}

/// Removes the pipelines below `pipelines` that no process works on and that never began.
pub fn clear_unstarted(pipelines: &AbsPath) -> Result<()> {
    for name in dir::names_if_exists(pipelines)? {
        let pipeline = PipelineDir {
            dir: pipelines.join(&name),
        };
        let is_directory = file::is_directory(&pipeline.dir)?;
        // A pipeline that another process is creating right now stays.
        let is_old = || unchanged_for(&pipeline.dir).is_some_and(|age| age > UNSTARTED_KEPT_MIN);
        if !name.starts_with(PREFIX) || !is_directory || pipeline.exists()? || !is_old() {
            continue;
        }
        if let Ok(_lock) = pipeline.lock() {
            // It may have begun in the meantime.
            if !pipeline.exists()? {
                pipeline.remove()?;
            }
        }
    }
    Ok(())
}

/// Returns all pipelines below `pipelines`, newest first.
pub fn list(pipelines: &AbsPath) -> Result<Vec<PipelineDir>> {
    let dirs = PIPELINE_NAMES
        .list(pipelines)?
        .map(|dir| PipelineDir { dir });
    existing_directories(dirs, PipelineDir::exists)
}

/// Returns the pipeline that `given_name` selects: `last`, a name, the end of one, or the only one
/// with this prefix; `None` if there is none.
pub fn lookup(given_name: &str, pipelines: &AbsPath) -> Result<Option<PipelineDir>> {
    let pipeline_dirs = list(pipelines)?;
    if given_name == LAST {
        return Ok(pipeline_dirs.into_iter().next());
    }
    if let Some(pipeline) = pipeline_dirs
        .iter()
        .find(|pipeline| pipeline.short_name() == given_name)
    {
        return Ok(Some(pipeline.clone()));
    }
    let named_pipeline = PIPELINE_NAMES.resolve(given_name, &pipeline_dirs, PipelineDir::name)?;
    Ok(named_pipeline.cloned())
}

/// Returns whether `name` can be the name of a pipeline.
pub fn is_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Returns the end of the name of a pipeline, which the names of its branches and deliveries
/// contain.
pub fn short_name(name: &str) -> &str {
    name.rsplit_once('_').map_or(name, |(_, short)| short)
}

/// Returns the pipeline below `pipelines` with exactly this name, if there is one.
pub fn find_by_name(name: &str, pipelines: &AbsPath) -> Result<Option<PipelineDir>> {
    let dir = PIPELINE_NAMES.path_of(name, pipelines)?;
    let pipeline = dir.map(|dir| PipelineDir { dir });
    Ok(existing_directories(pipeline, PipelineDir::exists)?.pop())
}

/// Like [`lookup`], but it is an error if there is no such pipeline.
pub fn find(given_name: &str, pipelines: &AbsPath) -> Result<PipelineDir> {
    lookup(given_name, pipelines)?.ok_or_else(|| match given_name {
        LAST => Error::new(ErrorKind::Usage, format!("no pipelines in `{pipelines}`"))
            .with_hint("a run makes one if its config has a `workflow`: see `docs/pipelines.md`"),
        _ => Error::new(ErrorKind::Usage, format!("no pipeline `{given_name}`"))
            .with_hint("see `massgen pipeline branches` for the last pipeline of this directory")
            .with_hint("give the name of a pipeline, a prefix of it, or `last`"),
    })
}

impl PipelineDir {
    /// Creates the directory of a new pipeline below `pipelines`.
    pub fn create(pipelines: &AbsPath) -> Result<Self> {
        dir::create_all(pipelines, DirectoryAudience::User)?;
        let state = pipelines.parent().unwrap_or_else(AbsPath::root);
        let time = new_name_time(&state)?;
        let (second, microsecond) = time.rsplit_once('_').unwrap_or_default();
        let microsecond = microsecond.parse::<u32>().unwrap_or_default();
        let name_prefix = format!("{PREFIX}{second}_{microsecond:05x}");
        let dir = dir::create_unique(pipelines, &name_prefix, RANDOM_DIGITS)?;
        Ok(Self { dir })
    }

    /// Returns its name, such as `pipeline_20261102_140322_0a1b2c3d`.
    pub fn name(&self) -> String {
        self.dir.name_lossy()
    }

    /// Returns the end of its name, which the names of its branches contain.
    pub fn short_name(&self) -> String {
        short_name(&self.name()).to_owned()
    }

    /// Returns whether it began in the same second as the run whose log directory has this name, or
    /// later.
    pub fn is_newer(&self, run: &str) -> bool {
        let digits = |name: &str| -> String { name.chars().filter(char::is_ascii_digit).collect() };
        let (own_digits, run_digits) = (digits(&self.name()), digits(run));
        own_digits.get(..TIME_DIGITS) >= run_digits.get(..TIME_DIGITS)
    }

    /// Returns the directory of all its parts.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// Returns the file with the last role's answer.
    pub fn answer_file(&self) -> AbsPath {
        self.dir.join("answer.txt")
    }

    /// Returns the path of the log of its own events.
    pub fn events_file(&self) -> AbsPath {
        self.dir.join(EVENTS)
    }

    /// Returns whether it has that log. A symlink is none.
    pub fn has_log(&self) -> Result<bool> {
        let kind = file::kind(&self.events_file())?;
        Ok(kind.is_some_and(|kind| kind.is_file()))
    }

    /// Returns its repository.
    pub fn bare_repository(&self) -> AbsPath {
        self.dir.join("hub.git")
    }

    /// Returns git's index for the checkout with this name.
    pub fn index(&self, checkout: &str) -> AbsPath {
        self.dir.join("index").join(checkout)
    }

    /// Returns the directory of all those indexes.
    pub fn indexes(&self) -> AbsPath {
        self.dir.join("index")
    }

    /// Returns the directory of the sessions of an instance of a role.
    pub fn sessions(&self, instance: &str) -> AbsPath {
        self.dir.join("agents").join(instance)
    }

    /// Records that the run with these logs works on a role of it, or resumes one.
    pub fn record_run(&self, log_dir: &AbsPath) -> Result<()> {
        match runs::name_of(log_dir) {
            Some(name) if !self.runs()?.contains(&name) => {
                file::append(&self.dir.join(RUNS_FILE), format!("{name}\n").as_bytes())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the names of all runs that worked on its roles.
    pub fn runs(&self) -> Result<BTreeSet<String>> {
        let text = read_regular_file(&self.dir.join(RUNS_FILE), RECORD_BYTES_MAX)?
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(text
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect())
    }

    /// Returns the directory of the checkouts unless the config names another one.
    pub fn workspace(&self) -> AbsPath {
        self.dir.join("workspace")
    }

    /// Returns the checkout in which checks run on the result of a merge.
    pub fn merge_checkout(&self) -> AbsPath {
        self.dir.join("merge")
    }

    /// Returns the names of the checkouts in `workspace`, sorted.
    pub fn checkouts(workspace: &AbsPath) -> Result<Vec<String>> {
        let mut names = dir::names_if_exists(workspace)?;
        names.sort_unstable();
        Ok(names)
    }

    /// Removes the checkouts whose names satisfy `matches`, with their git indexes and sessions.
    pub fn remove_checkouts(
        &self,
        workspace: &AbsPath,
        matches: impl Fn(&str) -> bool,
    ) -> Result<()> {
        for dir in [workspace, &self.indexes(), &self.dir.join("agents")] {
            for name in dir::names_if_exists(dir)? {
                if matches(&name) {
                    clear::remove(&dir.join(name))?;
                }
            }
        }
        Ok(())
    }

    /// Locks it for this process. It is an error if another process works on it.
    pub fn lock(&self) -> Result<PipelineLock> {
        match dir::try_lock(&self.dir)? {
            DirLockAttempt::Acquired(lock) => Ok(PipelineLock { _lock: lock }),
            DirLockAttempt::Taken => {
                let message = format!("another process is working on `{}`", self.name());
                Err(Error::new(ErrorKind::Environment, message).with_hint("wait until it ends"))
            }
            DirLockAttempt::Unsupported => {
                let message = format!("the file system of `{}` does not support locks", self.dir);
                Err(Error::new(ErrorKind::Environment, message)
                    .with_hint("use a directory on a local file system"))
            }
        }
    }

    /// Removes what a killed git process left: its locks and temporary directories. The caller must
    /// hold the lock on the pipeline.
    pub fn clear_stale(&self) -> Result<()> {
        let bare_repository = self.bare_repository();
        let mut dirs_left = vec![bare_repository.join("refs"), self.indexes()];
        while let Some(dir) = dirs_left.pop() {
            for name in dir::names_if_exists(&dir)? {
                let path = dir.join(&name);
                match file::kind(&path)? {
                    Some(kind) if kind.is_dir() => dirs_left.push(path),
                    Some(_) if name.ends_with(LOCK_SUFFIX) => clear::remove(&path)?,
                    Some(_) | None => {}
                }
            }
        }
        for name in dir::names_if_exists(&bare_repository)? {
            if name.ends_with(LOCK_SUFFIX) || name.starts_with(dir::UNFINISHED_PREFIX) {
                clear::remove(&bare_repository.join(name))?;
            }
        }
        Ok(())
    }

    /// Returns whether a process works on it.
    pub fn is_running(&self) -> Result<bool> {
        dir::is_locked(&self.dir)
    }

    /// Reads how it began.
    ///
    /// # Errors
    /// The record cannot be read, or was not created here: a pipeline that came along with a
    /// project is not trusted, because git obeys the settings of its repository.
    pub fn record(&self) -> Result<PipelineRecord> {
        let unreadable = || {
            let message = format!("`{}` does not record how it started", self.name());
            Error::new(ErrorKind::Environment, message)
                .with_hint(format!("if it is not needed, remove `{}`", self.dir))
        };
        let bytes = file::read_regular_capped(&self.dir.join(RECORD_FILE), RECORD_BYTES_MAX)
            .map_err(|error| unreadable().with_source(error))?;
        let bytes = bytes.ok_or_else(unreadable)?;
        let pipeline_file: PipelineFile =
            serde_json::from_slice(&bytes).map_err(|error| unreadable().with_source(error))?;
        if !pipeline_file.seal.holds(&self.dir)? {
            return Err(foreign_directory_error(&self.dir));
        }
        Ok(pipeline_file.record)
    }

    /// Writes how it begins.
    pub fn write_record(&self, record: &PipelineRecord, redactor: &Redactor) -> Result<()> {
        let pipeline_file = PipelineFile {
            seal: DirectorySeal::from_directory(&self.dir)?,
            record: record.clone(),
        };
        let file_json = serde_json::to_value(pipeline_file).map_err(Error::unserializable)?;
        let text = format!("{:#}\n", redactor.json(file_json));
        file::replace(&self.dir.join(RECORD_FILE), text.as_bytes())
    }

    /// Returns a directory that changes whenever one of its branches moves.
    pub fn branches(&self) -> AbsPath {
        self.bare_repository().join("refs/heads")
    }

    /// Removes it with all its parts.
    pub fn remove(&self) -> Result<()> {
        clear::discard(&self.dir)
    }

    /// Returns whether the directory itself, not a symlink, exists and has a record: a symlink
    /// could lead anywhere.
    fn exists(&self) -> Result<bool> {
        Ok(file::is_directory(&self.dir)?
            && file::is_accessible(&self.dir)?
            && file::exists(&self.dir.join(RECORD_FILE))?)
    }
}
