//! Creates an overlay namespace: a process's own namespaces in which some directories are seen with
//! changes that are stored elsewhere, each at its own path. Everything else is seen as it is. It
//! must never write to a directory that it overlays.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::path::AbsPath;
use crate::world::sys::launch::overlay_request::{OverlayRequest, OverlayRoot, OverlaySource};
use crate::world::sys::sandbox::mounts::{MountHandle, open_machine_path};
use crate::world::sys::sandbox::namespaces::enter_private_namespaces;
use crate::world::sys::sandbox::open_granted::open_expected;
use crate::world::sys::sandbox::refusal::{SandboxResult, StepContext};
use crate::world::sys::sandbox::work_directories;

/// Moves this process into the namespace that `request` describes. The returned handles are on its
/// root directory, and on the overlaid directories in order.
pub(crate) fn enter_overlay(request: &OverlayRequest) -> SandboxResult<Vec<OwnedFd>> {
    enter_private_namespaces()?;
    // Every source is opened before the first mount: afterwards, paths lead into the overlays.
    let mut mounts = Vec::new();
    for root in &request.roots {
        let mount =
            overlay_mount(root).in_step(format_args!("staging `{}`", root.source.root()))?;
        mounts.push((root.source.root(), mount));
    }
    for path in &request.excluded {
        if let Some(mount) = unchanged_mount(path).in_step(format_args!("keeping `{path}`"))? {
            mounts.push((path, mount));
        }
    }
    mounts.sort_by_key(|(path, _)| path.as_path().components().count());
    for (path, mount) in &mounts {
        let attach_result = open_machine_path(path).and_then(|point| mount.attach(point));
        attach_result.in_step(format_args!("mounting `{path}`"))?;
    }
    for root in &request.roots {
        if let OverlaySource::Layered(layer) = &root.source {
            let result = work_directories::restore_owner_access(layer);
            result.in_step(format_args!("opening the layer on `{}`", layer.root))?;
        }
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut handles = vec![openat(CWD, "/", flags, Mode::empty()).in_step("opening the world")?];
    for root in &request.roots {
        let path = root.source.root();
        handles.push(open_machine_path(path).in_step(format_args!("opening `{path}`"))?);
    }
    Ok(handles)
}

/// Creates the mount that replaces a directory.
fn overlay_mount(root: &OverlayRoot) -> io::Result<MountHandle> {
    let user_tree = open_expected(root.source.root(), &root.identity)?;
    Ok(match &root.source {
        OverlaySource::Layered(layer) => MountHandle::overlay(user_tree, layer)?,
        OverlaySource::Copied { copy, .. } => MountHandle::copy_from(open_machine_path(copy)?)?,
    })
}

/// Clones a directory with its present content; `None` if it does not exist.
fn unchanged_mount(path: &AbsPath) -> io::Result<Option<MountHandle>> {
    match open_machine_path(path) {
        Err(Errno::NOENT) => Ok(None),
        source => Ok(Some(MountHandle::copy_from(source?)?)),
    }
}
