//! Owns the making of workspaces. Those that massgen makes are new directories that nobody else
//! has; a directory of the user's is used as it is and never emptied, by one run at a time.

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath};
use crate::world::store::snapshot;
use crate::world::sys::own::dir::{self, Audience, DirLock, Hold};

/// How many random digits end the name of a workspace.
const SUFFIX_DIGITS: usize = 8;

/// A workspace that stays this run's own as long as the value lives.
#[derive(Debug)]
pub struct Workspace {
    path: AbsPath,
    _lock: Option<DirLock>,
}

impl Workspace {
    /// Makes a new directory beside `planned` (a place below `.massgen/workspaces`): its name,
    /// `_` and random digits. `seed`, the workspace of an earlier turn, is copied into it.
    pub fn make(planned: &AbsPath, seed: Option<&RealPath>) -> Result<Self> {
        let name = planned.as_path().file_name();
        let (Some(parent), Some(name)) = (planned.parent(), name) else {
            return Err(Error::bug(format!("`{planned}` cannot hold a workspace")));
        };
        let path = dir::create_unique(&parent, &name.to_string_lossy(), SUFFIX_DIGITS)?;
        if let Some(seed) = seed {
            snapshot::restore(seed, &path)?;
        }
        Ok(Self { path, _lock: None })
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
        let path = cwd.clone();
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &AbsPath {
        &self.path
    }
}

/// Makes the directory in which all agents of one run see each other's snapshots: a new one inside
/// `parent` (`agent_temporary_workspace`), named after the run and random digits.
pub fn make_shared(parent: &AbsPath, run: &str) -> Result<AbsPath> {
    dir::create_unique(parent, run, SUFFIX_DIGITS)
}
