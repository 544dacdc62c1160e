//! Owns the pipelines of a directory: which there are, which one is meant, where the parts of one lie,
//! and what is written down of how it began. What it has come to is told by its shared branch.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::mentions::opened_paths::OpenedPath;
use crate::path::{AbsPath, RelPath};
use crate::roles::RoleName;
use crate::world::io::clock;
use crate::world::io::files::read_found;
use crate::world::store::directory_seal::{DirectorySeal, foreign_directory_error};
use crate::world::store::naming::{LAST, NameScheme};
use crate::world::store::redact::Redactor;
use crate::world::store::reject_symlinks_to;
use crate::world::store::runs;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirLock, DirLockAttempt, DirectoryAudience};
use crate::world::sys::state_files::disk_usage::unchanged_for;
use crate::world::sys::state_files::file::{self, FileDurability};

/// What the names of pipelines begin with.
const PREFIX: &str = "pipeline_";
/// How pipelines are named.
const PIPELINE: NameScheme = NameScheme {
    noun: "pipeline",
    name: "name",
    prefix: PREFIX,
};
/// How many random digits end the name of a pipeline, after the five of its microsecond: names sort by
/// the moment when they were made.
const RANDOM_DIGITS: usize = 3;
/// How many digits of a name tell when something began: a day and a time.
const MOMENT_DIGITS: usize = 14;
/// How the locks of git end, and how directories begin that are removed after use.
const LOCK: &str = ".lock";
const IN_THE_MAKING: &str = ".massgen-";
/// How long a pipeline that never began stays.
const UNBEGUN_MIN: Duration = Duration::from_mins(1);
/// The file that tells how a pipeline began.
const RECORD: &str = "pipeline.json";
/// The file that lists the runs of its parts.
const RUNS: &str = "runs.txt";
/// The largest of both that is read, in bytes.
const RECORD_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A pipeline on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineDir {
    dir: AbsPath,
}

/// A pipeline that this process works on: as long as this lives, no other does.
#[derive(Debug)]
pub struct PipelineLock {
    _lock: DirLock,
}

/// How a pipeline began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineRecord {
    /// The task as the user wrote it.
    pub task: String,
    /// What the prompt opened.
    pub opened: Vec<OpenedPath>,
    /// The directory that the user stood in.
    pub cwd: AbsPath,
    /// When it began, as [`clock::LocalDateTime::iso_format`] writes it.
    pub began: String,
    /// The config file, if there was one.
    pub config_path: Option<AbsPath>,
    /// The config's text, without keys.
    pub config: Option<String>,
    /// The words of the command line.
    pub arguments: Vec<String>,
    /// The roles of the stages, in their order.
    pub roles: Vec<RoleName>,
    /// The directory of the tree in which roles have theirs; empty for its root.
    pub directory: RelPath,
    /// Where the checkouts of the roles lie.
    pub workspace: AbsPath,
    /// The project that it works on; none if it began empty.
    pub project: Option<ProjectOrigin>,
}

/// The project that a pipeline works on, as it was at its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectOrigin {
    /// The directory of its tree.
    pub root: AbsPath,
    /// The branch that was checked out, if one was.
    pub branch: Option<String>,
    /// The commit that was checked out, if there was one.
    pub head: Option<String>,
}

/// `pipeline.json`.
#[derive(Serialize, Deserialize)]
struct PipelineFile {
    seal: DirectorySeal,
    #[serde(flatten)]
    record: PipelineRecord,
}

/// Removes the pipelines below `pipelines` that nobody works on and that never came to begin.
pub fn clear_unstarted(pipelines: &AbsPath) -> Result<()> {
    for name in dir::names_if_exists(pipelines)? {
        let pipeline = PipelineDir {
            dir: pipelines.join(&name),
        };
        let is_directory = file::is_directory(&pipeline.dir);
        // One that another process is just making stays.
        let is_old = || unchanged_for(&pipeline.dir).is_some_and(|age| age > UNBEGUN_MIN);
        if !name.starts_with(PREFIX) || !is_directory || pipeline.exists() || !is_old() {
            continue;
        }
        if let Ok(_held) = pipeline.lock() {
            // It may have begun meanwhile.
            if !pipeline.exists() {
                pipeline.remove()?;
            }
        }
    }
    Ok(())
}

/// All pipelines below `pipelines`, newest first.
pub fn list(pipelines: &AbsPath) -> Result<Vec<PipelineDir>> {
    reject_symlinks_to(pipelines)?;
    let mut names = dir::names_if_exists(pipelines)?;
    names.retain(|name| name.starts_with(PREFIX));
    names.sort_unstable_by(|a, b| b.cmp(a));
    let found = names.into_iter().map(|name| PipelineDir {
        dir: pipelines.join(name),
    });
    Ok(found.filter(PipelineDir::exists).collect())
}

/// The pipeline that `wanted` means: `last`, a name, or the only one that begins or ends so; `None` if
/// none does.
pub fn lookup(wanted: &str, pipelines: &AbsPath) -> Result<Option<PipelineDir>> {
    let all = list(pipelines)?;
    if wanted == LAST {
        return Ok(all.into_iter().next());
    }
    if let Some(short) = all.iter().find(|pipeline| pipeline.short() == wanted) {
        return Ok(Some(short.clone()));
    }
    let meant = PIPELINE.resolve(wanted, &all, PipelineDir::name)?;
    Ok(meant.cloned())
}

/// As [`lookup`]; it is an error if no pipeline is meant.
pub fn find(wanted: &str, pipelines: &AbsPath) -> Result<PipelineDir> {
    lookup(wanted, pipelines)?.ok_or_else(|| {
        let message = match wanted {
            LAST => format!("there is no pipeline in `{pipelines}`"),
            _ => format!("there is no pipeline `{wanted}`"),
        };
        Error::new(ErrorKind::Usage, message)
            .with_hint("`massgen branches` shows the last pipeline of this directory")
            .with_hint("name a pipeline by its name, the beginning of it, or `last`")
    })
}

impl PipelineDir {
    /// Makes the directory of a new pipeline below `pipelines`.
    pub fn make(pipelines: &AbsPath) -> Result<Self> {
        dir::create_all(pipelines, DirectoryAudience::User)?;
        let now = clock::now();
        let stem = format!(
            "{PREFIX}{}_{:05x}",
            now.short_name_format(),
            now.microsecond()
        );
        let dir = dir::create_unique(pipelines, &stem, RANDOM_DIGITS)?;
        Ok(Self { dir })
    }

    /// Its name, such as `pipeline_20261102_140322_0a1b2c3d`.
    pub fn name(&self) -> String {
        let name = self.dir.as_path().file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The end of its name, which its branches carry.
    pub fn short(&self) -> String {
        let name = self.name();
        let short = name.rsplit_once('_').map(|(_, short)| short.to_owned());
        short.unwrap_or(name)
    }

    /// Whether it began after the run whose logs have this name.
    pub fn is_newer(&self, run: &str) -> bool {
        let moment = |name: &str| -> String { name.chars().filter(char::is_ascii_digit).collect() };
        let (own, other) = (moment(&self.name()), moment(run));
        own.get(..MOMENT_DIGITS) >= other.get(..MOMENT_DIGITS)
    }

    /// The directory of all its parts.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// The file of what its last role said.
    pub fn answer(&self) -> AbsPath {
        self.dir.join("answer.txt")
    }

    /// Its repository.
    pub fn hub(&self) -> AbsPath {
        self.dir.join("hub.git")
    }

    /// Where git's notes lie on the checkout of this name.
    pub fn index(&self, checkout: &str) -> AbsPath {
        self.dir.join("index").join(checkout)
    }

    /// The directory of all those notes.
    pub fn indexes(&self) -> AbsPath {
        self.dir.join("index")
    }

    /// Where the sessions of a seat lie.
    pub fn sessions(&self, seat: &str) -> AbsPath {
        self.dir.join("agents").join(seat)
    }

    /// Notes that the run of these logs plays a part of it, or goes on with one.
    pub fn record_run(&self, log_dir: &AbsPath) -> Result<()> {
        let name = log_dir.as_path().iter().find_map(|name| {
            let name = name.to_str()?;
            runs::is_name(name).then_some(name)
        });
        match name {
            Some(name) if !self.runs()?.contains(name) => {
                file::append(&self.dir.join(RUNS), format!("{name}\n").as_bytes())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The names of all runs that played parts of it.
    pub fn runs(&self) -> Result<BTreeSet<String>> {
        let noted = read_found(&self.dir.join(RUNS), RECORD_BYTES_MAX)?;
        let noted = noted.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(noted
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect())
    }

    /// Where the checkouts lie unless the config names another place.
    pub fn workspace(&self) -> AbsPath {
        self.dir.join("workspace")
    }

    /// The checkout in which checks run on what would be merged.
    pub fn merge(&self) -> AbsPath {
        self.dir.join("merge")
    }

    /// The names of the checkouts in `workspace`, in their order.
    pub fn checkouts(workspace: &AbsPath) -> Result<Vec<String>> {
        let mut names = dir::names_if_exists(workspace)?;
        names.sort_unstable();
        Ok(names)
    }

    /// Removes the checkouts, git's notes on them and the sessions whose names are meant.
    pub fn remove_checkouts(
        &self,
        workspace: &AbsPath,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<()> {
        for place in [workspace, &self.indexes(), &self.dir.join("agents")] {
            for name in dir::names_if_exists(place)? {
                if is_meant(&name) {
                    clear::remove(&place.join(name))?;
                }
            }
        }
        Ok(())
    }

    /// Holds it for this process. It is an error if another one works on it.
    pub fn lock(&self) -> Result<PipelineLock> {
        match dir::try_lock(&self.dir)? {
            DirLockAttempt::Acquired(lock) => Ok(PipelineLock { _lock: lock }),
            DirLockAttempt::Taken => {
                let message = format!("another process works on `{}`", self.name());
                Err(Error::new(ErrorKind::Environment, message)
                    .with_hint("wait until it has ended"))
            }
            DirLockAttempt::Unsupported => {
                let message = format!(
                    "the file system of `{}` cannot tell who works on it",
                    self.dir
                );
                Err(Error::new(ErrorKind::Environment, message)
                    .with_hint("work in a directory of a local file system"))
            }
        }
    }

    /// Removes what a git that was killed has left: its locks, and directories that it worked in. Only
    /// whoever holds the pipeline may do that.
    pub fn clear_stale(&self) -> Result<()> {
        let hub = self.hub();
        let mut waiting = vec![hub.join("refs"), self.indexes()];
        while let Some(place) = waiting.pop() {
            for name in dir::names_if_exists(&place)? {
                let path = place.join(&name);
                match file::kind(&path) {
                    Ok(kind) if kind.is_dir() => waiting.push(path),
                    Ok(_) if name.ends_with(LOCK) => clear::remove(&path)?,
                    Ok(_) | Err(_) => {}
                }
            }
        }
        for name in dir::names_if_exists(&hub)? {
            if name.ends_with(LOCK) || name.starts_with(IN_THE_MAKING) {
                clear::remove(&hub.join(name))?;
            }
        }
        Ok(())
    }

    /// Whether a process works on it.
    pub fn is_running(&self) -> bool {
        matches!(dir::try_lock(&self.dir), Ok(DirLockAttempt::Taken))
    }

    /// How it began.
    ///
    /// # Errors
    /// It cannot be read, or was not made here: what somebody else's files brought along is not believed,
    /// for git goes by the settings of its repository.
    pub fn record(&self) -> Result<PipelineRecord> {
        let unreadable = || {
            let message = format!("`{}` does not tell how it began", self.name());
            Error::new(ErrorKind::Environment, message)
                .with_hint(format!("if nobody needs it, remove `{}`", self.dir))
        };
        let bytes = file::read_regular_capped(&self.dir.join(RECORD), RECORD_BYTES_MAX)
            .map_err(|error| unreadable().with_source(error))?;
        let bytes = bytes.ok_or_else(unreadable)?;
        let filed: PipelineFile =
            serde_json::from_slice(&bytes).map_err(|error| unreadable().with_source(error))?;
        if filed.seal != DirectorySeal::from_directory(&self.dir)? {
            return Err(foreign_directory_error(&self.dir));
        }
        Ok(filed.record)
    }

    /// Writes down how it begins.
    pub fn write_record(&self, record: &PipelineRecord, redactor: &Redactor) -> Result<()> {
        let filed = PipelineFile {
            seal: DirectorySeal::from_directory(&self.dir)?,
            record: record.clone(),
        };
        let written = serde_json::to_value(filed)
            .map_err(|error| Error::bug("how a pipeline began has no form").with_source(error))?;
        let text = format!("{:#}\n", redactor.json(written));
        file::replace(
            &self.dir.join(RECORD),
            text.as_bytes(),
            FileDurability::Power,
        )
    }

    /// A directory that changes whenever one of its branches moves.
    pub fn branches(&self) -> AbsPath {
        self.hub().join("refs/heads")
    }

    /// Removes it with all its parts.
    pub fn remove(&self) -> Result<()> {
        clear::remove(&self.dir)
    }

    /// Whether it stands there itself, with a record: a link would lead wherever whoever made it wanted.
    fn exists(&self) -> bool {
        file::is_directory(&self.dir) && file::kind(&self.dir.join(RECORD)).is_ok()
    }
}
