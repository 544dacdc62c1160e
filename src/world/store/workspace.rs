//! Creates workspaces. A workspace that massgen creates is a new directory of its own; a directory
//! of the user's is used as it is, never emptied, and used by one run at a time.

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath};
use crate::world::store::snapshot::{self, WorkspaceSeed};
use crate::world::sys::state_files::dir::{
    self, DirLock, DirLockAttempt, DirectoryAudience, DirectoryCreation,
};

/// A workspace that belongs to this run while the value lives.
#[derive(Debug)]
pub struct RunWorkspace {
    path: AbsPath,
    seed: Option<WorkspaceSeed>,
    _lock: Option<DirLock>,
}

impl RunWorkspace {
    /// Creates the new directory `path`, whose name no other run uses, and copies `seed`, the
    /// workspace of an earlier turn, into it.
    pub fn make(path: &AbsPath, seed: Option<&RealPath>) -> Result<Self> {
        make_new(path)?;
        let seed = seed.map(|seed| snapshot::restore(seed, path));
        Ok(Self {
            path: path.clone(),
            seed: seed.transpose()?,
            _lock: None,
        })
    }

    /// Reopens the workspace at `path` of an interrupted run. It is an error if it is gone.
    pub fn reopen(path: &AbsPath) -> Result<Self> {
        if !dir::is_owned_by_user(path)? {
            let message = format!("workspace `{path}` no longer exists");
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("the run cannot be resumed: start its task again"));
        }
        Ok(Self {
            path: path.clone(),
            seed: None,
            _lock: None,
        })
    }

    /// Locks the directory `cwd`, which the user named. It is created if needed, and its contents
    /// are kept. It is an error if another run, or another agent of this run, works in it.
    pub fn lock(cwd: &AbsPath) -> Result<Self> {
        dir::create_all(cwd, DirectoryAudience::Umask)?;
        let lock = match dir::try_lock(cwd)? {
            DirLockAttempt::Acquired(lock) => Some(lock),
            DirLockAttempt::Unsupported => None,
            DirLockAttempt::Taken => {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("workspace `{cwd}` is in use by another agent or another run"),
                )
                .with_hint("give each agent its own `cwd`, or wait until the other run ends"));
            }
        };
        Ok(Self {
            path: cwd.clone(),
            seed: None,
            _lock: lock,
        })
    }

    /// Takes the files that it started with.
    pub fn take_seed(&mut self) -> Option<WorkspaceSeed> {
        self.seed.take()
    }

    /// Returns its path.
    pub fn path(&self) -> &AbsPath {
        &self.path
    }
}

/// Creates a new directory: a workspace, or the directory in which the agents of one run see each
/// other's snapshots.
pub fn make_new(path: &AbsPath) -> Result<()> {
    if let Some(parent) = path.parent() {
        dir::create_all(&parent, DirectoryAudience::User)?;
    }
    match dir::create(path)? {
        DirectoryCreation::Created => Ok(()),
        DirectoryCreation::Existed => Err(Error::new(
            ErrorKind::Environment,
            format!("`{path}` already exists and may belong to another run"),
        )
        .with_hint("start the run again; it will use another name")),
    }
}
