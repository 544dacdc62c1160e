//! [`OpenGrant`]: a grant as a directory handle. What the grant's path names later, after a rename
//! or behind a new symlink, no longer matters.

use crate::path::{RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantScope};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;

/// A grant whose root was opened once.
#[derive(Debug)]
pub(crate) struct OpenGrant {
    grant: Grant,
    /// Where `dir` was when it was opened.
    root: RealPath,
    dir: DirectoryHandle,
}

impl OpenGrant {
    /// Opens the root. For a granted file that is the directory that holds it, so that the file can
    /// be replaced by a rename.
    pub(crate) fn open(grant: Grant) -> Result<Self, FileSystemError> {
        let root = grant_directory(&grant)?;
        let dir = DirectoryHandle::open(&root)?;
        if dir.real_path()? == root {
            Ok(Self { grant, root, dir })
        } else {
            Err(FileSystemError::Replaced)
        }
    }

    /// Opens the grant on an overlay that replaces its directory.
    pub(crate) fn with_directory(
        grant: Grant,
        dir: DirectoryHandle,
    ) -> Result<Self, FileSystemError> {
        let root = grant_directory(&grant)?;
        Ok(Self { grant, root, dir })
    }

    /// Returns the grant that the handle belongs to.
    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Returns the directory beneath which everything of this grant is opened.
    pub(crate) fn directory(&self) -> &DirectoryHandle {
        &self.dir
    }

    /// Returns the path that [`OpenGrant::directory`] had when it was opened.
    pub(crate) fn root(&self) -> &RealPath {
        &self.root
    }

    /// Converts a path below the grant's root to a path below [`OpenGrant::directory`].
    pub(crate) fn below_dir(&self, rel: &RelPath) -> RelPath {
        match (self.grant.scope, self.grant.root.name()) {
            (GrantScope::File, Some(name)) => RelPath::default().child(name).unwrap_or_default(),
            _ => rel.clone(),
        }
    }
}

/// Returns the directory whose handle represents a grant.
pub(crate) fn grant_directory(grant: &Grant) -> Result<RealPath, FileSystemError> {
    match grant.scope {
        GrantScope::Tree => Ok(grant.root.clone()),
        GrantScope::File => grant.root.parent().ok_or(FileSystemError::IsDirectory),
    }
}
