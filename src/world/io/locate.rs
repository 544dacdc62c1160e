//! Resolves a path that the user named to a real path that can be granted. It is only for input
//! from the user; what a model writes goes through [`crate::world::access::gate`].

use std::borrow::Borrow;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::tools::call::FinalSymlink;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::follow::{FollowBase, FollowedPath, LINKS_MAX, follow_path};

/// What exists at a path that the user named, with all symlinks followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocatedPath {
    /// A directory.
    Directory(RealPath),
    /// A regular file.
    File(RealPath),
    /// Nothing; the real path is where it would be created.
    Missing(RealPath),
}

impl LocatedPath {
    /// Returns the real path, whether or not it exists.
    pub fn into_real(self) -> RealPath {
        match self {
            LocatedPath::Directory(real) | LocatedPath::File(real) | LocatedPath::Missing(real) => {
                real
            }
        }
    }
}

/// Returns `path` without the symlinks in the part of it that exists.
pub fn resolve_existing(path: &AbsPath) -> AbsPath {
    let mut missing_names = Vec::new();
    let mut existing = path.clone();
    loop {
        if let Ok(located) = locate(&existing) {
            let real = located.into_real().to_abs();
            return missing_names
                .iter()
                .rev()
                .fold(real, |path, name| path.join(name));
        }
        let name = existing.as_path().file_name().map(PathBuf::from);
        let (Some(name), Some(parent)) = (name, existing.parent()) else {
            return path.clone();
        };
        missing_names.push(name);
        existing = parent;
    }
}

/// Returns `path` without symlinks, if it can be resolved.
pub fn resolve_path(path: &AbsPath) -> Option<RealPath> {
    locate(path).ok().map(LocatedPath::into_real)
}

/// Returns whether `path`, with symlinks resolved, is inside one of `roots`. A path that cannot be
/// resolved is not.
pub fn is_inside<R: Borrow<RealPath>>(path: &AbsPath, roots: impl IntoIterator<Item = R>) -> bool {
    let mut roots = roots.into_iter();
    resolve_path(path).is_some_and(|path| roots.any(|root| path.is_within(root.borrow())))
}

/// Resolves `path` and determines what exists there. Pipes, sockets and devices are errors.
pub fn locate(path: &AbsPath) -> Result<LocatedPath> {
    let root = DirectoryHandle::open_root().map_err(|error| open_error(path, error))?;
    let base = root
        .try_clone()
        .map(FollowBase::Machine)
        .map_err(|error| open_error(path, error))?;
    let real = match follow_path(&base, path.as_path(), FinalSymlink::Followed) {
        Ok(FollowedPath::Place(real)) => real,
        Ok(FollowedPath::Blocked(_, obstacle)) => return Err(cannot_open_error(path, obstacle)),
        Ok(FollowedPath::Broken) => {
            return Err(cannot_open_error(
                path,
                "its symlinks form a loop or are broken",
            ));
        }
        Err(error) => return Err(open_error(path, error)),
    };
    let below = |root: &RealPath| real.below(root).unwrap_or_default();
    let kind = root.real_path().and_then(|path| root.meta(&below(&path)));
    match kind.map(|meta| meta.kind) {
        Ok(FileKind::Directory) => Ok(LocatedPath::Directory(real)),
        Ok(FileKind::File) => Ok(LocatedPath::File(real)),
        Ok(kind) => Err(cannot_open_error(path, format!("it is {kind}"))),
        Err(FileSystemError::Missing) => Ok(LocatedPath::Missing(real)),
        Err(error) => Err(open_error(path, error)),
    }
}

/// Returns the real path of every symlink that is followed on the way to `path`, and last the place
/// that it leads to, whether or not anything exists there. A program that can replace one of the
/// symlinks decides what is found at `path`.
///
/// # Errors
/// The path leads through too many symlinks, or the root directory cannot be opened.
pub fn places_on_way(path: &AbsPath) -> Result<Vec<RealPath>> {
    let root = DirectoryHandle::open_root().map_err(|error| open_error(path, error))?;
    let root_path = root.real_path().map_err(|error| open_error(path, error))?;
    let mut places = Vec::new();
    // Relative to the root directory.
    let mut place = RelPath::default();
    let mut names_left: Vec<OsString> = reversed_names(path.as_path());
    while let Some(name) = names_left.pop() {
        let Some(next) = place.child(&name) else {
            // `..`
            place = place.parent().unwrap_or_default();
            continue;
        };
        // What is no symlink has no target; nor has what does not exist.
        let Ok(target) = root.link_target(&next) else {
            place = next;
            continue;
        };
        places.push(root_path.join(&next));
        if places.len() > LINKS_MAX {
            return Err(cannot_open_error(
                path,
                "it leads through too many symlinks",
            ));
        }
        if target.is_absolute() {
            place = RelPath::default();
        }
        names_left.extend(reversed_names(&target));
    }
    places.push(root_path.join(&place));
    Ok(places)
}

/// Returns the names in `path`, the last first, without its slashes and `.`.
fn reversed_names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev();
    let names = names.filter(|name| matches!(name, Component::Normal(_) | Component::ParentDir));
    names.map(|name| name.as_os_str().to_owned()).collect()
}

/// Error for a path that cannot be opened: a mistake in the config, unless nothing can be opened at
/// all.
fn open_error(path: &AbsPath, error: FileSystemError) -> Error {
    if error.is_exhaustion() {
        return Error::new(
            ErrorKind::Environment,
            format!("cannot open `{path}`: {error}"),
        )
        .with_hint("check the limit of open files: `ulimit -n`");
    }
    cannot_open_error(path, error)
}

fn cannot_open_error(path: &AbsPath, reason: impl Display) -> Error {
    Error::new(ErrorKind::Config, format!("cannot open `{path}`: {reason}"))
}
