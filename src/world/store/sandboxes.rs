//! Directories that the commands of a run, or of a single call, write to in addition to the user's
//! trees. They are removed with the run, or at the end of an interactive session; later runs clean
//! up what interrupted runs left behind, a few directories at a time, so that no run has to wait for
//! all of it. Nothing of the user's is in there.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::prompts::previous_turns::CommandHome;
use crate::world::sandbox::docker::container::AgentContainer;
use crate::world::sandbox::exec_environment::agent_directories::HOME;
use crate::world::sys::state_files::dir::{self, DirLock, DirLockAttempt, DirectoryAudience};
use crate::world::sys::state_files::{clear, process_directory};

/// How often creating a directory is retried if another run removes it before it is locked.
const TRIES_MAX: usize = 16;

/// How many leftover directories one run inspects. More than one, so that their number shrinks
/// however often runs are interrupted.
const LEFTOVERS_INSPECTED_MAX: usize = 8;

/// The prefix of the directories of runs.
const RUN_PREFIX: &str = "run";
/// The prefix of the directories of single calls, which lie among the files of other programs.
const CALL_PREFIX: &str = ".massgen_call";
/// The number of random digits in the names of both.
const UNIQUE_DIGITS: usize = 8;

/// The directory for the setup command.
const SETUP_DIR: &str = "setup";
/// The directory for the caller of a single call.
const CALLER_DIR: &str = "caller";

/// The directories of one run. They are removed on drop.
#[derive(Debug)]
pub struct SandboxDirs {
    dir: AbsPath,
    /// The numbers of agents, in the order in which they first got a directory.
    numbers: Mutex<BTreeMap<AgentId, usize>>,
    _lock: Option<DirLock>,
}

/// What the last turn of an interactive session leaves for the commands of its next one.
#[derive(Clone, Debug, Default)]
pub struct SessionSandboxes(Arc<Mutex<KeptSandboxes>>);

#[derive(Debug, Default)]
struct KeptSandboxes {
    dirs: Option<Arc<SandboxDirs>>,
    containers: BTreeMap<AgentId, Arc<AgentContainer>>,
}

impl SessionSandboxes {
    /// Returns the container of an agent in the last turn, if that has ended.
    pub fn take_container(&self, agent: &AgentId) -> Option<AgentContainer> {
        Arc::into_inner(self.0.lock().containers.remove(agent)?)
    }

    /// Keeps the container of an agent for the next turn. What runs in it ends with the result.
    #[must_use]
    pub fn keep_container(
        &self,
        agent: &AgentId,
        container: &Arc<AgentContainer>,
    ) -> TurnContainer {
        let containers = &mut self.0.lock().containers;
        containers.insert(agent.clone(), Arc::clone(container));
        TurnContainer(Arc::clone(container))
    }

    /// Returns the directories of the next turn, and whether homes are kept in them. Creates them
    /// inside `parent` if there are none, or if the last turn still uses them or has left what
    /// cannot be removed.
    pub fn begin_turn(&self, parent: &AbsPath) -> Result<(Arc<SandboxDirs>, CommandHome)> {
        let dirs = &mut self.0.lock().dirs;
        let is_free = |dirs: &&Arc<SandboxDirs>| {
            Arc::strong_count(dirs) == 1 && dirs.clear_all_but_homes().is_ok()
        };
        if let Some(dirs) = dirs.as_ref().filter(is_free) {
            return Ok((Arc::clone(dirs), CommandHome::Kept));
        }
        let new_dirs = Arc::new(SandboxDirs::make(parent)?);
        *dirs = Some(Arc::clone(&new_dirs));
        Ok((new_dirs, CommandHome::New))
    }
}

/// The container of an agent in one turn, which the next one continues.
#[derive(Debug)]
pub struct TurnContainer(Arc<AgentContainer>);

impl Drop for TurnContainer {
    fn drop(&mut self) {
        self.0.end_processes();
    }
}

impl SandboxDirs {
    /// Creates and locks a unique directory inside `parent`. Some of the leftover directories next
    /// to it, which no run has locked, are removed.
    pub fn make(parent: &AbsPath) -> Result<Self> {
        Self::make_named(parent, RUN_PREFIX)
    }

    /// Like [`SandboxDirs::make`], for a single call. `parent` may contain other programs' files.
    pub fn make_for_call(parent: &AbsPath) -> Result<Self> {
        Self::make_named(parent, CALL_PREFIX)
    }

    fn make_named(parent: &AbsPath, prefix: &str) -> Result<Self> {
        dir::create_all(parent, DirectoryAudience::User)?;
        for _ in 0..TRIES_MAX {
            let dir = dir::create_unique(parent, &format!("{prefix}_"), UNIQUE_DIGITS)?;
            let lock = match dir::lock_new(&dir) {
                DirLockAttempt::Acquired(lock) => Some(lock),
                DirLockAttempt::Unsupported => None,
                DirLockAttempt::Taken => continue,
            };
            clear_leftovers(parent, prefix, &dir)?;
            return Ok(Self {
                dir,
                numbers: Mutex::default(),
                _lock: lock,
            });
        }
        let busy = io::Error::from(io::ErrorKind::ResourceBusy);
        Err(
            Error::io(format!("cannot create a directory in `{parent}`"), busy)
                .with_hint("start the run again"),
        )
    }

    /// Returns the private directory of one agent's commands. Its path appears in files that other
    /// agents read, so it contains a number instead of the agent's id.
    pub fn agent(&self, id: &AgentId) -> Result<AbsPath> {
        self.make_dir(&self.number(id))
    }

    /// Returns the private directory of something else that works for an agent, such as its checks.
    pub fn part(&self, id: &AgentId, part: &str) -> Result<AbsPath> {
        self.make_dir(&format!("{}.{part}", self.number(id)))
    }

    /// Returns the directory of what the setup command of a run leaves.
    pub fn setup(&self) -> Result<AbsPath> {
        self.make_dir(SETUP_DIR)
    }

    /// Returns the directory of the commands of a single call's caller.
    pub fn caller(&self) -> Result<AbsPath> {
        self.make_dir(CALLER_DIR)
    }

    /// Removes everything but the homes of the agents' commands.
    fn clear_all_but_homes(&self) -> Result<()> {
        let numbers = self.numbers.lock();
        for name in dir::names(&self.dir)? {
            let path = self.dir.join(&name);
            let is_of_commands = numbers.values().any(|number| number.to_string() == name);
            if !is_of_commands {
                clear::remove(&path)?;
                continue;
            }
            for name in dir::names(&path)?.iter().filter(|name| *name != HOME) {
                clear::remove(&path.join(name))?;
            }
        }
        Ok(())
    }

    fn number(&self, id: &AgentId) -> String {
        let mut numbers = self.numbers.lock();
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
        // If that fails, a later run retries it.
        let _cleared = clear::remove(&self.dir);
    }
}

/// Removes directories in `parent` that belong to the user, have such a name and are not locked by
/// a run. It starts after the name of `own`, which is random, so that every directory gets its turn
/// and none blocks the others.
fn clear_leftovers(parent: &AbsPath, prefix: &str, own: &AbsPath) -> Result<()> {
    let mut names = dir::names(parent)?;
    names.retain(|name| is_named(name, prefix) && parent.join(name) != *own);
    names.sort();
    let earlier_count = names.partition_point(|name| parent.join(name) < *own);
    names.rotate_left(earlier_count);
    for name in names.into_iter().take(LEFTOVERS_INSPECTED_MAX) {
        process_directory::remove_abandoned(&parent.join(name));
    }
    Ok(())
}

/// Returns whether a directory with this `name` was created for `prefix`.
fn is_named(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix);
    let digits = rest.and_then(|rest| rest.strip_prefix('_'));
    digits.is_some_and(|digits| {
        digits.len() == UNIQUE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}
