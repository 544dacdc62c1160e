//! Owns the directories that the commands of a run, or of a single call, write into beside the user's
//! trees. They go with the run; what runs left behind that were broken off goes with the next ones, a
//! few at a time, so that none of them waits for all of it. Nothing of the user's is in there.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::tools::served::ServerName;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirLock, DirLockAttempt, DirectoryAudience};

/// How often a directory is tried that another run takes away before it is held.
const TRIES_MAX: usize = 16;

/// How many directories one run looks at that others may have left behind. More than one, so that
/// they become fewer however often runs are broken off.
const LEFT_OVER_LOOKED_AT_MAX: usize = 8;

/// What the names of runs' directories begin with, and those of single calls, which stand among the
/// files of other programs. How many digits tell them apart.
const RUN: &str = "run";
const CALL: &str = ".massgen_call";
const UNIQUE_DIGITS: usize = 8;

/// The directory of whoever makes a single call.
const CALLER: &str = "caller";

/// The directories of one run. They are cleared when it goes.
#[derive(Debug)]
pub struct SandboxDirs {
    dir: AbsPath,
    /// The numbers of agents, in the order in which they were given a directory.
    numbers: Mutex<BTreeMap<AgentId, usize>>,
    _lock: Option<DirLock>,
}

impl SandboxDirs {
    /// Makes a directory inside `parent` that nobody else has, and holds it. Of what is beside it and
    /// held by no run, which is left over, a part is removed.
    pub fn make(parent: &AbsPath) -> Result<Self> {
        Self::make_named(parent, RUN)
    }

    /// As [`SandboxDirs::make`], for a single call. `parent` may hold what is not massgen's.
    pub fn make_for_call(parent: &AbsPath) -> Result<Self> {
        Self::make_named(parent, CALL)
    }

    fn make_named(parent: &AbsPath, stem: &str) -> Result<Self> {
        dir::create_all(parent, DirectoryAudience::User)?;
        for _ in 0..TRIES_MAX {
            let dir = dir::create_unique(parent, &format!("{stem}_"), UNIQUE_DIGITS)?;
            let lock = match dir::try_lock(&dir) {
                Ok(DirLockAttempt::Acquired(lock)) if lock.is_for(&dir) => Some(lock),
                Ok(DirLockAttempt::Unsupported) => None,
                // Another run took it for one that was left over.
                Ok(DirLockAttempt::Acquired(_) | DirLockAttempt::Taken) | Err(_) => continue,
            };
            clear_left_over(parent, stem, &dir)?;
            return Ok(Self {
                dir,
                numbers: Mutex::default(),
                _lock: lock,
            });
        }
        let busy = io::Error::from(io::ErrorKind::ResourceBusy);
        Err(
            Error::io(format!("cannot keep a directory in `{parent}`"), busy)
                .with_hint("start the run again"),
        )
    }

    /// The directory of one agent's commands, which nobody else uses. Its path gets into files that
    /// other agents read, so that it has a number in the place of the agent's id.
    pub fn agent(&self, id: &AgentId) -> Result<AbsPath> {
        self.make_dir(&self.number(id))
    }

    /// The directory of the checks on one agent's work, which nobody else uses.
    pub fn checks_of(&self, id: &AgentId) -> Result<AbsPath> {
        self.make_dir(&format!("{}.checks", self.number(id)))
    }

    /// The directory of one agent's programs, which nobody else uses.
    pub fn programs_of(&self, id: &AgentId) -> Result<AbsPath> {
        self.make_dir(&format!("{}.programs", self.number(id)))
    }

    /// The directory of the hooks that are asked about one agent, which nobody else uses.
    pub fn hooks_of(&self, id: &AgentId) -> Result<AbsPath> {
        self.make_dir(&format!("{}.hooks", self.number(id)))
    }

    /// The directory of one server of one agent, which nobody else uses.
    pub fn server_of(&self, id: &AgentId, server: &ServerName) -> Result<AbsPath> {
        self.make_dir(&format!("{}.server.{server}", self.number(id)))
    }

    /// The directory of the program that speaks for one agent, which nobody else uses.
    pub fn external_agent_of(&self, id: &AgentId) -> Result<AbsPath> {
        self.make_dir(&format!("{}.guest", self.number(id)))
    }

    /// The directory of the commands of whoever makes a single call.
    pub fn caller(&self) -> Result<AbsPath> {
        self.make_dir(CALLER)
    }

    fn number(&self, id: &AgentId) -> String {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let next = numbers.len().saturating_add(1);
        numbers.entry(id.clone()).or_insert(next).to_string()
    }

    fn make_dir(&self, name: &str) -> Result<AbsPath> {
        let path = self.dir.join(name);
        dir::create_all(&path, DirectoryAudience::User)?;
        Ok(path)
    }
}

impl Drop for SandboxDirs {
    fn drop(&mut self) {
        // What cannot be cleared now, the next run tries again.
        let _cleared = clear::remove(&self.dir);
    }
}

/// Removes directories of the user's in `parent` that are named so and that no run holds. It begins
/// behind the name of `own`, which is random: so each comes to its turn, and none is in the way of all.
fn clear_left_over(parent: &AbsPath, stem: &str, own: &AbsPath) -> Result<()> {
    let mut names = dir::names(parent)?;
    names.retain(|name| is_named(name, stem) && parent.join(name) != *own);
    names.sort();
    let behind = names.partition_point(|name| parent.join(name) < *own);
    names.rotate_left(behind);
    for name in names.into_iter().take(LEFT_OVER_LOOKED_AT_MAX) {
        let dir = parent.join(name);
        if dir::is_owned_by_user(&dir)
            && let Ok(DirLockAttempt::Acquired(_lock)) = dir::try_lock(&dir)
        {
            // What cannot be removed now, another run tries again.
            let _cleared = clear::remove(&dir);
        }
    }
    Ok(())
}

/// Whether a directory that is called `name` was made for `stem`.
fn is_named(name: &str, stem: &str) -> bool {
    let rest = name.strip_prefix(stem);
    let digits = rest.and_then(|rest| rest.strip_prefix('_'));
    digits.is_some_and(|digits| {
        digits.len() == UNIQUE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}
