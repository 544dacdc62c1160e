//! Private directories of one agent's commands: its home, its temporary files, and the overlay
//! directories that keep its changes apart from the user's trees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::error::Result;
use crate::path::{AbsPath, RealPath};
use crate::world::sandbox::home::populate_home;
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};

/// The directory for `HOME` among the private ones.
pub const HOME: &str = "home";

/// The private directories of one agent. A clone refers to the same ones.
#[derive(Clone, Debug)]
pub struct AgentDirectories(Arc<AgentDirectoriesInner>);

#[derive(Debug)]
struct AgentDirectoriesInner {
    root: AbsPath,
    /// The overlay directories of foreground commands, by the trees below them.
    overlays: Mutex<BTreeMap<Vec<RealPath>, AbsPath>>,
    /// The number of the next numbered directory.
    next_number: AtomicUsize,
    /// Removes the directories on drop, if they do not exist until the run ends.
    _removal: Option<StagingDirectory>,
}

impl AgentDirectories {
    /// Creates the directories inside `root`, which belongs to the agent alone and exists until the
    /// run ends.
    pub fn prepare(root: &AbsPath) -> Result<Self> {
        Self::prepare_until(root, None)
    }

    fn prepare_until(root: &AbsPath, removal: Option<StagingDirectory>) -> Result<Self> {
        // The sandbox accepts no path with a symlink in it.
        let root = dir::resolve(root)?.to_abs();
        let directories = Self(Arc::new(AgentDirectoriesInner {
            root,
            overlays: Mutex::default(),
            next_number: AtomicUsize::default(),
            _removal: removal,
        }));
        populate_home(&directories.home())?;
        dir::create_all(&directories.scratch(), DirectoryAudience::User)?;
        Ok(directories)
    }

    /// Returns the directory that contains all others. Commands have access only to these others.
    pub fn root(&self) -> &AbsPath {
        &self.0.root
    }

    /// Returns the directory for `HOME`.
    pub fn home(&self) -> AbsPath {
        self.0.root.join(HOME)
    }

    /// Creates a directory for `HOME` apart from that of the others, the same for the same number.
    pub fn make_separate_home(&self, number: usize) -> Result<AbsPath> {
        let home = self.0.root.join(format!("{HOME}{number}"));
        populate_home(&home)?;
        Ok(home)
    }

    /// Creates the directory in which a program without a workspace starts: empty, inside that for
    /// `HOME`.
    pub fn make_working_directory(&self) -> Result<AbsPath> {
        let path = self.home().join("work");
        dir::create_all(&path, DirectoryAudience::User)?;
        Ok(path)
    }

    /// Returns the directory that appears as `/tmp`, or that `TMPDIR` names if `/tmp` is the
    /// machine's.
    pub fn scratch(&self) -> AbsPath {
        self.0.root.join("tmp")
    }

    /// Returns the working directory of the agent's programs, which they may write to.
    pub fn program(&self) -> AbsPath {
        self.0.root.join("program")
    }

    /// Returns the directory with the sources of a program, which it may read.
    pub fn package(&self) -> AbsPath {
        self.0.root.join("package")
    }

    /// Creates the private directories of a subagent. They end with the agent's.
    pub fn for_subagent(&self) -> Result<Self> {
        let number = self.0.next_number.fetch_add(1, Ordering::Relaxed);
        let path = self.0.root.join(format!("subagents/{number}"));
        dir::create_all(&path, DirectoryAudience::User)?;
        Self::prepare(&path)
    }

    /// Creates the private directories of one check. They are removed with the last clone.
    pub fn for_check(&self) -> Result<Self> {
        let directory = StagingDirectory::with_prefix(&self.0.root, "check")?;
        Self::prepare_until(&directory.path().clone(), Some(directory))
    }

    /// Creates a directory for the socket by which one external agent reaches the run.
    pub fn new_socket_directory(&self) -> Result<AbsPath> {
        let number = self.0.next_number.fetch_add(1, Ordering::Relaxed);
        let path = self.0.root.join(format!("ipc/{number}"));
        dir::create_all(&path, DirectoryAudience::User)?;
        Ok(path)
    }

    /// Returns the directory of the overlay over the trees `roots`. It is the same for every
    /// foreground command, so that the next one sees changes that were not applied.
    pub fn overlay_directory(&self, roots: Vec<RealPath>) -> AbsPath {
        let mut overlays = self.0.overlays.lock();
        let directory = overlays
            .entry(roots)
            .or_insert_with(|| self.new_overlay_directory());
        directory.clone()
    }

    /// Returns a directory for an overlay that no other command uses.
    pub fn new_overlay_directory(&self) -> AbsPath {
        let number = self.0.next_number.fetch_add(1, Ordering::Relaxed);
        self.0.root.join(format!("overlays/{number}"))
    }
}
