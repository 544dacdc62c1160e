//! Owns the opening of what was granted: what stands at its path must be what massgen's gate opened
//! there, so that nobody can put another directory in its place between the decision and its use.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use crate::confinement::{Confinement, Identity};
use crate::path::AbsPath;
use crate::permissions::history::Version;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Meta;
use crate::world::sys::sandbox::mounts::machine;

/// A handle on what stands at `path`. Of a file that was granted by itself, the directory is known.
pub(crate) fn granted(confinement: &Confinement, path: &AbsPath) -> io::Result<OwnedFd> {
    if let Some(known) = confinement.identities.get(path) {
        return expected(path, known);
    }
    let parent = path.parent();
    let known = parent.and_then(|dir| confinement.identities.get_key_value(&dir));
    match (known, path.as_path().file_name()) {
        (Some((dir, known)), Some(name)) => {
            let dir = expected(dir, known)?;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            Ok(openat2(dir, name, flags, Mode::empty(), resolve)?)
        }
        _ => Ok(machine(path)?),
    }
}

fn expected(path: &AbsPath, known: &Identity) -> io::Result<OwnedFd> {
    let handle = machine(path)?;
    if identity(&handle)? == *known {
        Ok(handle)
    } else {
        Err(io::Error::other(
            "something else stands there than when it was granted: start again",
        ))
    }
}

/// What tells what `handle` stands for from all others.
pub(crate) fn identity(handle: impl AsFd) -> io::Result<Identity> {
    let meta = Meta::of(handle).map_err(|fault: Fault| io::Error::other(fault.to_string()))?;
    let Version { device, inode, .. } = meta.version;
    Ok(Identity { device, inode })
}
