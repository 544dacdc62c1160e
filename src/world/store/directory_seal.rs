//! Seal that distinguishes a directory that massgen created in this place from one that was copied
//! here with other files; the content of an unsealed directory is not trusted.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::slot;
use crate::world::sys::state_files::dir::{StagingDirectory, has_trusted_owner};
use crate::world::sys::state_files::json_file;

/// File that holds the seal, in a directory that has no other file to keep it in.
pub(in crate::world) const SEAL: &str = "seal.json";
/// Largest such file that is read, in bytes.
const SEAL_BYTES_MAX: u64 = 4096;

/// Identity of the directory that something was written for. A copy of the directory has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::world) struct DirectorySeal {
    inode: u64,
    born_ns: i64,
}

impl DirectorySeal {
    /// Reads the identity of the directory at `path`, which must not be a symlink.
    pub(in crate::world) fn from_directory(path: &AbsPath) -> Result<Self> {
        let identity = DirectoryHandle::open_own(path).and_then(|dir| {
            let readable = dir.handle(&RelPath::default())?;
            slot::birth_identity(readable)
        });
        let (inode, born_ns) = identity.map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot inspect `{path}`: {error}"))
        })?;
        Ok(Self { inode, born_ns })
    }

    /// Returns whether it is that of the directory at `path`, and nobody else could have made it.
    pub(in crate::world) fn holds(self, path: &AbsPath) -> Result<bool> {
        Ok(has_trusted_owner(path)? && Self::from_directory(path)? == self)
    }

    /// Returns when the directory was created, by the clock of file timestamps, in nanoseconds
    /// since 1970.
    pub(in crate::world) fn born_ns(self) -> i64 {
        self.born_ns
    }

    /// Writes the seal of the directory at `path` into it, unless it is there. It stays valid when
    /// the directory is renamed.
    pub(in crate::world) fn write(path: &AbsPath) -> Result<()> {
        if is_sealed(path)? {
            return Ok(());
        }
        json_file::replace(&path.join(SEAL), &Self::from_directory(path)?)
    }
}

/// Creates a directory at `path` that has its seal from the beginning.
///
/// # Errors
/// It exists and is not empty, or it cannot be written.
pub(in crate::world) fn create_sealed(path: &AbsPath) -> Result<()> {
    let parent = path.parent().unwrap_or_else(|| path.clone());
    let staging = StagingDirectory::new(&parent)?;
    DirectorySeal::write(staging.path())?;
    staging.publish(path)
}

/// Returns whether the directory at `path` holds the seal that [`DirectorySeal::write`] gave it.
///
/// # Errors
/// The seal or the directory cannot be read.
pub(in crate::world) fn is_sealed(path: &AbsPath) -> Result<bool> {
    let seal: Option<DirectorySeal> = json_file::read(&path.join(SEAL), SEAL_BYTES_MAX)?;
    seal.map_or(Ok(false), |seal| seal.holds(path))
}

/// Error for a directory `path` whose content was not created there.
pub(in crate::world) fn foreign_directory_error(path: &AbsPath) -> Error {
    Error::new(
        ErrorKind::Environment,
        format!("ignoring `{path}`: it was not created by massgen in this directory"),
    )
    .with_hint("it may be part of a copied directory; remove it if you do not need it")
}
