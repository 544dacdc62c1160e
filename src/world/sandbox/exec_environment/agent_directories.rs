//! Owns the private directories of one agent's commands: its home, its temporary files, and the
//! stages that keep what it changed apart from the user's trees.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::path::{AbsPath, RealPath};
use crate::world::sandbox::home::populate_home;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};

/// The private directories of one agent. A clone is the same room.
#[derive(Clone, Debug)]
pub struct AgentDirectories(Arc<AgentDirectoriesInner>);

#[derive(Debug)]
struct AgentDirectoriesInner {
    root: AbsPath,
    stages: Mutex<BTreeMap<Vec<RealPath>, AbsPath>>,
    made: AtomicUsize,
}

impl AgentDirectories {
    /// Makes the directories inside `root`, which is the agent's alone and stays as long as the run.
    pub fn prepare(root: &AbsPath) -> Result<Self> {
        // The sandbox takes no path with a link in it.
        let root = dir::resolve(root)?.to_abs();
        let made = Self(Arc::new(AgentDirectoriesInner {
            root,
            stages: Mutex::default(),
            made: AtomicUsize::default(),
        }));
        populate_home(&made.home())?;
        dir::create_all(&made.scratch(), DirectoryAudience::User)?;
        Ok(made)
    }

    /// What holds all of it. Commands reach only what is in it.
    pub fn root(&self) -> &AbsPath {
        &self.0.root
    }

    /// What `HOME` names.
    pub fn home(&self) -> AbsPath {
        self.0.root.join("home")
    }

    /// What `/tmp` shows, and what `TMPDIR` names where `/tmp` is the machine's.
    pub fn scratch(&self) -> AbsPath {
        self.0.root.join("tmp")
    }

    /// The directory that a program of the agent's begins in, and may write to.
    pub fn program(&self) -> AbsPath {
        self.0.root.join("program")
    }

    /// What a program is made of, which it may read.
    pub fn package(&self) -> AbsPath {
        self.0.root.join("package")
    }

    /// A directory that no other guest uses, for the socket by which one reaches the run.
    pub fn new_socket_directory(&self) -> Result<AbsPath> {
        let number = self.0.made.fetch_add(1, Ordering::Relaxed);
        let path = self.0.root.join(format!("relay/{number}"));
        dir::create_all(&path, DirectoryAudience::User)?;
        Ok(path)
    }

    /// Where the stage over the trees `roots` lies; the same place for every command that is waited
    /// for, so that the next one finds what stays private.
    pub fn overlay_directory(&self, roots: Vec<RealPath>) -> AbsPath {
        let mut stages = self.0.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let place = stages
            .entry(roots)
            .or_insert_with(|| self.new_overlay_directory());
        place.clone()
    }

    /// Where a stage lies that no other command uses.
    pub fn new_overlay_directory(&self) -> AbsPath {
        let number = self.0.made.fetch_add(1, Ordering::Relaxed);
        self.0.root.join(format!("stages/{number}"))
    }
}
