//! Owns directories that last no longer than they are needed: they go with all that is in them, unless
//! they are kept.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};

/// A directory of massgen's own that is removed when this goes.
#[derive(Debug)]
pub struct ScratchDir(StagingDirectory);

impl ScratchDir {
    /// Makes one inside `parent`, which is made if it is missing; its name begins with `prefix`.
    pub fn make(parent: &AbsPath, prefix: &str) -> Result<Self> {
        dir::create_all(parent, DirectoryAudience::User)?;
        StagingDirectory::with_prefix(parent, prefix).map(Self)
    }

    /// Where it is.
    pub fn path(&self) -> &AbsPath {
        self.0.path()
    }

    /// Leaves it where it is.
    pub fn keep(self) -> AbsPath {
        self.0.keep()
    }
}
