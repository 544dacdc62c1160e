//! Owns the making of workspaces. Those that massgen makes are new directories that nobody else
//! has; a directory of the user's is used as it is and never emptied, by one run at a time.

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath};
use crate::world::store::snapshot::{self, WorkspaceSeed};
use crate::world::sys::state_files::dir::{
    self, DirLock, DirLockAttempt, DirectoryAudience, DirectoryCreation,
};

/// A workspace that stays this run's own as long as the value lives.
#[derive(Debug)]
pub struct RunWorkspace {
    path: AbsPath,
    seed: Option<WorkspaceSeed>,
    _lock: Option<DirLock>,
}

impl RunWorkspace {
    /// Makes the new directory `planned`, whose name no other run uses. `seed`, the workspace of an
    /// earlier turn, is copied into it.
    pub fn make(planned: &AbsPath, seed: Option<&RealPath>) -> Result<Self> {
        make_new(planned)?;
        let seed = seed.map(|seed| snapshot::restore(seed, planned));
        Ok(Self {
            path: planned.clone(),
            seed: seed.transpose()?,
            _lock: None,
        })
    }

    /// Goes on with the workspace at `path`, which a run was broken off in. It is an error if it is
    /// gone.
    pub fn reopen(path: &AbsPath) -> Result<Self> {
        if !dir::is_owned_by_user(path) {
            let message = format!("the workspace `{path}` is gone");
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("the run cannot be gone on with: begin its task again"));
        }
        Ok(Self {
            path: path.clone(),
            seed: None,
            _lock: None,
        })
    }

    /// Takes the directory `cwd` that the user named. It is made if it is missing; what is in it
    /// stays. It is an error if another run, or another agent of this one, works in it.
    pub fn claim(cwd: &AbsPath) -> Result<Self> {
        dir::create_all(cwd, DirectoryAudience::Umask)?;
        let lock = match dir::try_lock(cwd)? {
            DirLockAttempt::Acquired(lock) => Some(lock),
            DirLockAttempt::Unsupported => None,
            DirLockAttempt::Taken => {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("the workspace `{cwd}` is in use by another agent or another run"),
                )
                .with_hint(
                    "give each agent a `cwd` of its own, or wait until the other run has ended",
                ));
            }
        };
        Ok(Self {
            path: cwd.clone(),
            seed: None,
            _lock: lock,
        })
    }

    /// What it began with, taken out.
    pub fn take_seed(&mut self) -> Option<WorkspaceSeed> {
        self.seed.take()
    }

    /// Where it is.
    pub fn path(&self) -> &AbsPath {
        &self.path
    }
}

/// Makes a directory that nobody else has: a workspace, or the place in which all agents of one
/// run see each other's snapshots.
pub fn make_new(path: &AbsPath) -> Result<()> {
    if let Some(parent) = path.parent() {
        dir::create_all(&parent, DirectoryAudience::User)?;
    }
    match dir::create(path)? {
        DirectoryCreation::Created => Ok(()),
        DirectoryCreation::Existed => Err(Error::new(
            ErrorKind::Environment,
            format!("`{path}` exists already and may be another run's"),
        )
        .with_hint("start the run again; it will use another name")),
    }
}
