//! Owns the seal by which massgen tells a directory that it made here from one that came along with
//! somebody else's files: what is in that one is not believed.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::sys::dir::Dir;
use crate::world::sys::slot;

/// Which directory something was written for. A copy of the directory is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seal {
    inode: u64,
    born_ns: i64,
}

impl Seal {
    /// That of the directory at `path`, which no link leads to.
    pub(super) fn of(path: &AbsPath) -> Result<Self> {
        let sealed = Dir::own(path).and_then(|dir| {
            let readable = dir.handle(&RelPath::default())?;
            slot::birth(readable)
        });
        let (inode, born_ns) = sealed.map_err(|fault| {
            Error::new(ErrorKind::Io, format!("cannot look at `{path}`: {fault}"))
        })?;
        Ok(Self { inode, born_ns })
    }
}

/// That what lies in `path` was not made there.
pub(super) fn foreign(path: &AbsPath) -> Error {
    Error::new(
        ErrorKind::Environment,
        format!("`{path}` was not made here, and is not believed"),
    )
    .hint("it may have come along with a copy of the directory; remove it if you do not need it")
}
