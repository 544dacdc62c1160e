//! Resolves a path as it was written: where the kernel would follow it to. The result is advice for
//! a decision and never a permission; the caller that acts opens the place again beneath a grant.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::path::{RealPath, RelPath};
use crate::tools::call::FinalSymlink;
use crate::world::sys::dir::{AGAIN_MAX, DirectoryHandle, real_path};
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;

/// How many symlinks on the way to a file are followed here: as many as the kernel follows
/// (`path_resolution(7)`).
pub(crate) const LINKS_MAX: usize = 40;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FollowedPath {
    /// To a place that exists, or could be created below an existing directory.
    Place(RealPath),
    /// Up to a place, but no further.
    Blocked(RealPath, FollowObstacle),
    /// In a loop, or through one of the magic links by which `/proc` leads anywhere.
    Broken,
}

/// Why a path cannot be followed to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowObstacle {
    /// `..` follows a name that does not exist.
    ParentOfMissing,
    /// `link/` would mean the target of the symlink, but the symlink itself is meant.
    SlashAfterLink,
    /// The kernel refuses.
    Kernel(FileSystemError),
}

impl fmt::Display for FollowObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FollowObstacle::ParentOfMissing => {
                f.write_str("`..` follows a name that does not exist")
            }
            FollowObstacle::SlashAfterLink => {
                f.write_str("it is a symbolic link; write it without the slash at its end")
            }
            FollowObstacle::Kernel(error) => error.fmt(f),
        }
    }
}

/// The result of one attempt: where the path leads, or the path to continue with behind a dangling
/// symlink.
enum FollowStep {
    Arrived(FollowedPath),
    Continue(PathBuf),
}

/// Where paths are resolved.
#[derive(Debug)]
pub(crate) enum FollowBase {
    /// On the machine; relative paths begin at this directory.
    Machine(DirectoryHandle),
    /// In an overlay, as a command sees it.
    Overlay {
        /// Its root directory.
        root: DirectoryHandle,
        /// Where relative paths begin.
        base: RealPath,
    },
}

impl FollowBase {
    /// Returns `path` as it is followed here: in an overlay, joined to its base.
    fn anchored_path<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        match self {
            FollowBase::Machine(_) => Cow::Borrowed(path),
            FollowBase::Overlay { base, .. } => Cow::Owned(base.as_path().join(path)),
        }
    }

    fn open(&self, path: &Path, link: FinalSymlink) -> Result<OwnedFd, Errno> {
        let flags = match link {
            FinalSymlink::Followed => OFlags::PATH | OFlags::CLOEXEC,
            FinalSymlink::NotFollowed => OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        };
        let (dir, resolve) = match self {
            FollowBase::Machine(base) => (base, ResolveFlags::NO_MAGICLINKS),
            FollowBase::Overlay { root, .. } => {
                let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
                (root, resolve)
            }
        };
        for _ in 0..AGAIN_MAX {
            match openat2(dir, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                result => return result,
            }
        }
        Err(Errno::AGAIN)
    }
}

/// Follows `path`, which begins at `base` unless it is absolute. Missing names at its
/// end are kept as plain names. An error means that the kernel lacks resources, not that the path
/// is wrong.
pub(crate) fn follow_path(
    base: &FollowBase,
    path: &Path,
    link: FinalSymlink,
) -> Result<FollowedPath, FileSystemError> {
    let path = base.anchored_path(path);
    if link == FinalSymlink::NotFollowed
        && let Some(target) = link_with_trailing_slash(base, &path)?
    {
        return Ok(FollowedPath::Blocked(
            target,
            FollowObstacle::SlashAfterLink,
        ));
    }
    let mut path = path.into_owned();
    for _ in 0..LINKS_MAX {
        match follow_once(base, &path, link)? {
            FollowStep::Arrived(followed) => return Ok(followed),
            FollowStep::Continue(next) => path = next,
        }
    }
    Ok(FollowedPath::Broken)
}

fn follow_once(
    base: &FollowBase,
    path: &Path,
    link: FinalSymlink,
) -> Result<FollowStep, FileSystemError> {
    match base.open(path, link) {
        Ok(handle) => Ok(FollowStep::Arrived(FollowedPath::Place(real_path(
            &handle,
        )?))),
        Err(Errno::LOOP) => Ok(FollowStep::Arrived(FollowedPath::Broken)),
        Err(errno) if is_path_error(errno) => resolve_missing_suffix(base, path, link, errno),
        Err(errno) => Err(errno.into()),
    }
}

/// Finds the deepest part of `path` that exists, and what the rest of the path means there.
fn resolve_missing_suffix(
    base: &FollowBase,
    path: &Path,
    link: FinalSymlink,
    errno: Errno,
) -> Result<FollowStep, FileSystemError> {
    let components: Vec<Component<'_>> = path.components().collect();
    let mut existing_count = components.len();
    let (ancestor, real) = loop {
        existing_count = existing_count.saturating_sub(1);
        let ancestor_path: PathBuf = components.iter().take(existing_count).collect();
        let existing_path = if existing_count == 0 {
            Path::new(".")
        } else {
            &ancestor_path
        };
        match base.open(existing_path, FinalSymlink::Followed) {
            Ok(handle) => {
                let real = real_path(&handle)?;
                break (handle, real);
            }
            Err(Errno::LOOP) => return Ok(FollowStep::Arrived(FollowedPath::Broken)),
            Err(_) if existing_count > 0 => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    let missing_path: PathBuf = components.iter().skip(existing_count).collect();
    let is_last = components.len() - existing_count == 1;
    if !(is_last && link == FinalSymlink::NotFollowed)
        && let Some(next) = resolve_link(&ancestor, &real, &missing_path)
    {
        return Ok(FollowStep::Continue(next));
    }
    let names = RelPath::new(&missing_path);
    let reached_path = names
        .as_ref()
        .map_or(real.clone(), |names| real.join(names));
    Ok(FollowStep::Arrived(match (errno, names) {
        (Errno::NOENT, Some(_)) => FollowedPath::Place(reached_path),
        (Errno::NOENT, None) => {
            FollowedPath::Blocked(reached_path, FollowObstacle::ParentOfMissing)
        }
        (errno, _) => FollowedPath::Blocked(reached_path, FollowObstacle::Kernel(errno.into())),
    }))
}

/// If the first name of `rest` is a symlink in the directory `ancestor`, returns the path behind
/// it.
fn resolve_link(ancestor: &OwnedFd, ancestor_path: &RealPath, rest: &Path) -> Option<PathBuf> {
    let mut names = rest.components();
    let first = RelPath::default().child(names.next()?.as_os_str())?;
    let dir = DirectoryHandle::from(ancestor.try_clone().ok()?);
    let target = dir.link_target(&first).ok()?;
    Some(ancestor_path.as_path().join(target).join(names.as_path()))
}

/// Returns the location of the symlink if `path` is a symlink with a slash at its end.
fn link_with_trailing_slash(
    base: &FollowBase,
    path: &Path,
) -> Result<Option<RealPath>, FileSystemError> {
    let mut bytes = path.as_os_str().as_bytes();
    while let [front @ .., b'/'] = bytes {
        bytes = front;
    }
    if bytes.len() == path.as_os_str().len() || bytes.is_empty() {
        return Ok(None);
    }
    let without_slash = Path::new(OsStr::from_bytes(bytes));
    match base.open(without_slash, FinalSymlink::NotFollowed) {
        Ok(handle) if FileMetadata::from_handle(&handle)?.kind == FileKind::Link => {
            Ok(Some(real_path(&handle)?))
        }
        _ => Ok(None),
    }
}

/// Returns whether the error is about the path, and not about the kernel's own memory or tables.
fn is_path_error(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::NAMETOOLONG | Errno::INVAL
    )
}
