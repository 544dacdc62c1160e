//! Owns the step from a path that the user named to a real path that can be granted. It is for the
//! user's own words only; what a model writes goes through [`crate::world::access::gate`].

use std::fmt::Display;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath};
use crate::tools::call::FinalLink;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::follow::{FollowBase, FollowedPath, follow_path};
use crate::world::sys::meta::FileKind;

/// What stands at a path that the user named, with all links followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocatedPath {
    /// A directory.
    Directory(RealPath),
    /// A regular file.
    File(RealPath),
    /// Nothing; the real path is where it would be made.
    Missing(RealPath),
}

impl LocatedPath {
    /// Where the path leads, whether or not something is there.
    pub fn into_real(self) -> RealPath {
        match self {
            LocatedPath::Directory(real) | LocatedPath::File(real) | LocatedPath::Missing(real) => {
                real
            }
        }
    }
}

/// Follows `path` and says what stands there. Pipes, sockets and devices are errors.
pub fn locate(path: &AbsPath) -> Result<LocatedPath> {
    let root = DirectoryHandle::open_root().map_err(|fault| open_error(path, fault))?;
    let ground = root.try_clone().map(FollowBase::Machine);
    let ground = ground.map_err(|fault| open_error(path, fault))?;
    let place = match follow_path(&ground, path.as_path(), FinalLink::Followed) {
        Ok(FollowedPath::Place(place)) => place,
        Ok(FollowedPath::Stuck(_, obstacle)) => return Err(cannot_open_error(path, obstacle)),
        Ok(FollowedPath::Nowhere) => return Err(cannot_open_error(path, "its links lead nowhere")),
        Err(fault) => return Err(open_error(path, fault)),
    };
    let below = |root: &RealPath| place.below(root).unwrap_or_default();
    let kind = root.real_path().and_then(|path| root.meta(&below(&path)));
    match kind.map(|meta| meta.kind) {
        Ok(FileKind::Directory) => Ok(LocatedPath::Directory(place)),
        Ok(FileKind::File) => Ok(LocatedPath::File(place)),
        Ok(kind) => Err(cannot_open_error(path, format!("it is {kind}"))),
        Err(FileSystemError::Missing) => Ok(LocatedPath::Missing(place)),
        Err(fault) => Err(open_error(path, fault)),
    }
}

/// A path that cannot be opened is a mistake of the config, unless nothing can be opened any more.
fn open_error(path: &AbsPath, fault: FileSystemError) -> Error {
    if fault.is_exhaustion() {
        return Error::new(
            ErrorKind::Environment,
            format!("cannot open `{path}`: {fault}"),
        )
        .with_hint("see whether the limit of open files is met: `ulimit -n`");
    }
    cannot_open_error(path, fault)
}

fn cannot_open_error(path: &AbsPath, why: impl Display) -> Error {
    Error::new(ErrorKind::Config, format!("cannot open `{path}`: {why}"))
}
