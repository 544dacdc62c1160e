//! Owns the seal by which massgen tells a directory that it made here from one that came along with
//! somebody else's files: what is in that one is not believed.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::slot;
use crate::world::sys::state_files::file::{self, FileDurability};

/// The file that holds the seal of a directory whose other files have no room for it.
const SEAL: &str = "seal.json";
/// The largest such file that is read, in bytes.
const SEAL_BYTES_MAX: u64 = 4096;

/// Which directory something was written for. A copy of the directory is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::world) struct DirectorySeal {
    inode: u64,
    born_ns: i64,
}

impl DirectorySeal {
    /// That of the directory at `path`, which no link leads to.
    pub(in crate::world) fn from_directory(path: &AbsPath) -> Result<Self> {
        let sealed = DirectoryHandle::open_own(path).and_then(|dir| {
            let readable = dir.handle(&RelPath::default())?;
            slot::birth_identity(readable)
        });
        let (inode, born_ns) = sealed.map_err(|fault| {
            Error::new(ErrorKind::Io, format!("cannot look at `{path}`: {fault}"))
        })?;
        Ok(Self { inode, born_ns })
    }

    /// Writes the seal of the directory at `path` into it. It stays true when the directory is renamed.
    pub(in crate::world) fn write(path: &AbsPath) -> Result<()> {
        let seal = serde_json::to_vec(&Self::from_directory(path)?);
        let seal =
            seal.map_err(|error| Error::bug("a seal has no JSON form").with_source(error))?;
        file::replace(&path.join(SEAL), &seal, FileDurability::Process)
    }
}

/// Whether the directory at `path` holds the seal that [`DirectorySeal::write`] gave to it.
pub(in crate::world) fn is_sealed(path: &AbsPath) -> bool {
    let bytes = file::read_regular_capped(&path.join(SEAL), SEAL_BYTES_MAX);
    let written = bytes.ok().flatten();
    let written = written.and_then(|bytes| serde_json::from_slice::<DirectorySeal>(&bytes).ok());
    written.is_some_and(|written| {
        DirectorySeal::from_directory(path).is_ok_and(|seal| seal == written)
    })
}

/// That what lies in `path` was not made there.
pub(in crate::world) fn foreign_directory_error(path: &AbsPath) -> Error {
    Error::new(
        ErrorKind::Environment,
        format!("`{path}` was not made here, and is not believed"),
    )
    .with_hint(
        "it may have come along with a copy of the directory; remove it if you do not need it",
    )
}
