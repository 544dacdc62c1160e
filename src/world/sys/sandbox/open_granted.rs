//! Opens granted paths: the file at the path must be the one that massgen's gate opened there, so
//! that no process can replace a directory between the decision and its use.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use crate::path::AbsPath;
use crate::sandbox_policy::{FileIdentity, SandboxPolicy};
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::sandbox::mounts::open_machine_path;

/// Opens the file or directory at `path`. For a file that was granted by itself, the identity of
/// its directory is checked.
pub(crate) fn open_granted_path(policy: &SandboxPolicy, path: &AbsPath) -> io::Result<OwnedFd> {
    if let Some(identity) = policy.identities.get(path) {
        return open_expected(path, identity);
    }
    let parent = path.parent();
    let known_parent = parent.and_then(|dir| policy.identities.get_key_value(&dir));
    match (known_parent, path.as_path().file_name()) {
        (Some((dir, known_parent)), Some(name)) => {
            let dir = open_expected(dir, known_parent)?;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            Ok(openat2(dir, name, flags, Mode::empty(), resolve)?)
        }
        _ => Ok(open_machine_path(path)?),
    }
}

/// Opens the file or directory at `path`, which must be the one that was granted.
pub(crate) fn open_expected(path: &AbsPath, identity: &FileIdentity) -> io::Result<OwnedFd> {
    let handle = open_machine_path(path)?;
    if file_identity(&handle)? == *identity {
        Ok(handle)
    } else {
        Err(io::Error::other(
            "it was replaced after it was granted: start again",
        ))
    }
}

/// Returns what distinguishes the file behind `handle` from all others.
fn file_identity(handle: impl AsFd) -> io::Result<FileIdentity> {
    let meta = FileMetadata::from_handle(handle)
        .map_err(|error: FileSystemError| io::Error::other(error.to_string()))?;
    Ok(meta.identity())
}
