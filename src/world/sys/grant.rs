//! Owns [`OpenGrant`]: a grant as a directory handle. What the grant's path names later, after a
//! rename or behind a new link, does not matter any more.

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
    /// Opens the root; of a granted file, the directory that holds it, so that the file can be
    /// replaced by a rename.
    pub(crate) fn open(grant: Grant) -> Result<Self, FileSystemError> {
        let root = grant_directory(&grant)?;
        let dir = DirectoryHandle::open(&root)?;
        if dir.real_path()? == root {
            Ok(Self { grant, root, dir })
        } else {
            Err(FileSystemError::Replaced)
        }
    }

    /// The grant on what is staged in the place of its directory.
    pub(crate) fn with_directory(
        grant: Grant,
        dir: DirectoryHandle,
    ) -> Result<Self, FileSystemError> {
        let root = grant_directory(&grant)?;
        Ok(Self { grant, root, dir })
    }

    /// The rule that the handle belongs to.
    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The directory beneath which everything of this grant is opened.
    pub(crate) fn directory(&self) -> &DirectoryHandle {
        &self.dir
    }

    /// The path that [`OpenGrant::dir`] had when it was opened.
    pub(crate) fn root(&self) -> &RealPath {
        &self.root
    }

    /// Where a path below the grant's root lies below [`OpenGrant::dir`].
    pub(crate) fn below_dir(&self, rel: &RelPath) -> RelPath {
        match (self.grant.scope, self.grant.root.name()) {
            (GrantScope::File, Some(name)) => RelPath::default().child(name).unwrap_or_default(),
            _ => rel.clone(),
        }
    }
}

/// The directory by whose handle a grant is held.
pub(crate) fn grant_directory(grant: &Grant) -> Result<RealPath, FileSystemError> {
    match grant.scope {
        GrantScope::Tree => Ok(grant.root.clone()),
        GrantScope::File => grant.root.parent().ok_or(FileSystemError::IsDirectory),
    }
}
