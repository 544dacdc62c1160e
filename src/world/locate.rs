//! Owns the step from a path that the user named to a real path that can be granted. It is for the
//! user's own words only; what a model writes goes through [`crate::world::gate`].

use std::fmt::Display;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath};
use crate::tools::call::FinalLink;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::follow::{Followed, Ground, follow};
use crate::world::sys::meta::Kind;

/// What stands at a path that the user named, with all links followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// A directory.
    Directory(RealPath),
    /// A regular file.
    File(RealPath),
    /// Nothing; the real path is where it would be made.
    Missing(RealPath),
}

impl Located {
    /// Where the path leads, whether or not something is there.
    pub fn into_real(self) -> RealPath {
        match self {
            Located::Directory(real) | Located::File(real) | Located::Missing(real) => real,
        }
    }
}

/// Follows `path` and says what stands there. Pipes, sockets and devices are errors.
pub fn locate(path: &AbsPath) -> Result<Located> {
    let root = Dir::root().map_err(|fault| failed(path, fault))?;
    let ground = root.try_clone().map(Ground::Machine);
    let ground = ground.map_err(|fault| failed(path, fault))?;
    let place = match follow(&ground, path.as_path(), FinalLink::Followed) {
        Ok(Followed::Place(place)) => place,
        Ok(Followed::Stuck(_, obstacle)) => return Err(cannot_open(path, obstacle)),
        Ok(Followed::Nowhere) => return Err(cannot_open(path, "its links lead nowhere")),
        Err(fault) => return Err(failed(path, fault)),
    };
    let below = |root: &RealPath| place.below(root).unwrap_or_default();
    let kind = root.real_path().and_then(|path| root.meta(&below(&path)));
    match kind.map(|meta| meta.kind) {
        Ok(Kind::Directory) => Ok(Located::Directory(place)),
        Ok(Kind::File) => Ok(Located::File(place)),
        Ok(kind) => Err(cannot_open(path, format!("it is {kind}"))),
        Err(Fault::Missing) => Ok(Located::Missing(place)),
        Err(fault) => Err(failed(path, fault)),
    }
}

/// A path that cannot be opened is a mistake of the config, unless nothing can be opened any more.
fn failed(path: &AbsPath, fault: Fault) -> Error {
    if fault.is_exhaustion() {
        return Error::new(
            ErrorKind::Environment,
            format!("cannot open `{path}`: {fault}"),
        )
        .hint("see whether the limit of open files is met: `ulimit -n`");
    }
    cannot_open(path, fault)
}

fn cannot_open(path: &AbsPath, why: impl Display) -> Error {
    Error::new(ErrorKind::Config, format!("cannot open `{path}`: {why}"))
}
