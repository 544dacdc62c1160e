//! Scratch directories: they are removed with all their contents on drop, unless they are kept.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};

/// A directory that is removed on drop.
#[derive(Debug)]
pub struct ScratchDir(StagingDirectory);

impl ScratchDir {
    /// Creates one inside `parent`, which is created if needed; its name starts with `prefix`.
    pub fn make(parent: &AbsPath, prefix: &str) -> Result<Self> {
        dir::create_all(parent, DirectoryAudience::User)?;
        StagingDirectory::with_prefix(parent, prefix).map(Self)
    }

    /// Returns its path.
    pub fn path(&self) -> &AbsPath {
        self.0.path()
    }

    /// Keeps the directory and returns its path.
    pub fn keep(self) -> AbsPath {
        self.0.keep()
    }
}
