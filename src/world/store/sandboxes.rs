//! Owns the directories that the commands of a run write into beside the user's trees. They go with
//! the run; what a run left behind that was broken off goes with the next. Only what was taken out
//! of the user's trees stays, because nobody can say whose it is.

use std::io;

use crate::error::{Error, Result};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::world::exec::unswept::sweep_left_over;
use crate::world::store::scratch::Scratch;
use crate::world::sys::own::clear;
use crate::world::sys::own::dir::{self, Audience, DirLock, Hold};

/// How often a directory is tried that another run takes away before it is held.
const TRIES_MAX: usize = 16;

/// What is in an agent's directory and outlasts the run.
const QUARANTINE: &str = "quarantine";

/// What the names of runs' directories begin with, and how many digits tell them apart.
const RUN: &str = "run";
const UNIQUE_DIGITS: usize = 8;

/// The directories of one run. They are cleared when it goes.
#[derive(Debug)]
pub struct Sandboxes {
    dir: AbsPath,
    swept: Vec<String>,
    _lock: Option<DirLock>,
}

impl Sandboxes {
    /// Makes a directory inside `parent` that nobody else has, and holds it. What is beside it and
    /// held by no run is left over, and cleared; what its commands left in the user's trees is swept.
    pub fn make(parent: &AbsPath) -> Result<Self> {
        dir::create_all(parent, Audience::User)?;
        let swept = clear_left_over(parent)?;
        for _ in 0..TRIES_MAX {
            let dir = dir::create_unique(parent, RUN, UNIQUE_DIGITS)?;
            let lock = match dir::hold(&dir) {
                Ok(Hold::Held(lock)) if lock.is_of(&dir) => Some(lock),
                Ok(Hold::Unsupported) => None,
                // Another run took it for one that was left over.
                Ok(Hold::Held(_) | Hold::Taken) | Err(_) => continue,
            };
            return Ok(Self {
                dir,
                swept,
                _lock: lock,
            });
        }
        let busy = io::Error::from(io::ErrorKind::ResourceBusy);
        Err(
            Error::io(format!("cannot keep a directory in `{parent}`"), busy)
                .hint("start the run again"),
        )
    }

    /// What was done about commands that a run was broken off with, for people.
    pub fn swept(&self) -> &[String] {
        &self.swept
    }

    /// The directory of one agent's commands, which nobody else uses.
    pub fn agent(&self, id: &AgentId) -> Result<AbsPath> {
        let path = self.dir.join(id.as_str());
        dir::create_all(&path, Audience::User)?;
        Ok(path)
    }
}

impl Drop for Sandboxes {
    fn drop(&mut self) {
        // What cannot be cleared now, the next run tries again.
        let _cleared = clear_run(&self.dir);
    }
}

/// The directory of the commands of a single call. It is cleared when it goes.
#[derive(Debug)]
pub struct CallSandbox(AbsPath);

impl CallSandbox {
    /// Makes one inside `parent`, which is made if it is missing; its name begins with `prefix`.
    pub fn make(parent: &AbsPath, prefix: &str) -> Result<Self> {
        Scratch::make(parent, prefix).map(|made| Self(made.keep()))
    }

    /// Where it is.
    pub fn path(&self) -> &AbsPath {
        &self.0
    }
}

impl Drop for CallSandbox {
    fn drop(&mut self) {
        // There is no run that could try again.
        let _cleared = clear_agent(&self.0);
    }
}

/// Clears the directories in `parent` that no run holds, and says what was done in the user's trees.
fn clear_left_over(parent: &AbsPath) -> Result<Vec<String>> {
    let mut swept = Vec::new();
    for name in dir::names(parent)? {
        let dir = parent.join(name);
        if let Ok(Hold::Held(_lock)) = dir::hold(&dir) {
            for agent in dir::names(&dir)? {
                swept.extend(sweep_left_over(&dir.join(agent)));
            }
            let _cleared = clear_run(&dir);
        }
    }
    Ok(swept)
}

/// Removes all of a run but what stands in quarantine.
fn clear_run(run: &AbsPath) -> Result<()> {
    for agent in dir::names(run)? {
        clear_agent(&run.join(agent))?;
    }
    dir::remove_empty(run);
    Ok(())
}

/// Removes the directory of an agent's commands but what stands in quarantine.
fn clear_agent(agent: &AbsPath) -> Result<()> {
    for name in dir::names(agent)? {
        if name != QUARANTINE {
            clear::remove(&agent.join(name))?;
        }
    }
    dir::remove_empty(&agent.join(QUARANTINE));
    dir::remove_empty(agent);
    Ok(())
}
