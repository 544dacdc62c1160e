//! Owns the making of workspaces. Those that massgen makes are new directories that nobody else
//! has; a directory of the user's is used as it is and never emptied, by one run at a time.

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath};
use crate::world::store::snapshot::{self, Seed};
use crate::world::sys::own::dir::{self, Audience, DirLock, Hold, Made};

/// A workspace that stays this run's own as long as the value lives.
#[derive(Debug)]
pub struct Workspace {
    path: AbsPath,
    seed: Option<Seed>,
    _lock: Option<DirLock>,
}

impl Workspace {
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
    pub fn go_on(path: &AbsPath) -> Result<Self> {
        if !dir::is_users(path) {
            let message = format!("the workspace `{path}` is gone");
            return Err(Error::new(ErrorKind::Environment, message)
                .hint("the run cannot be gone on with: begin its task again"));
        }
        Ok(Self {
            path: path.clone(),
            seed: None,
            _lock: None,
        })
    }

    /// Takes the directory `cwd` that the user named. It is made if it is missing; what is in it
    /// stays. It is an error if another run, or another agent of this one, works in it.
    pub fn take(cwd: &AbsPath) -> Result<Self> {
        dir::create_all(cwd, Audience::Umask)?;
        let lock = match dir::hold(cwd)? {
            Hold::Held(lock) => Some(lock),
            Hold::Unsupported => None,
            Hold::Taken => {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("the workspace `{cwd}` is in use by another agent or another run"),
                )
                .hint(
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
    pub fn take_seed(&mut self) -> Option<Seed> {
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
        dir::create_all(&parent, Audience::User)?;
    }
    match dir::create(path)? {
        Made::Now => Ok(()),
        Made::Before => Err(Error::new(
            ErrorKind::Environment,
            format!("`{path}` exists already and may be another run's"),
        )
        .hint("start the run again; it will use another name")),
    }
}
