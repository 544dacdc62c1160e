//! Owns the making of a staged world: namespaces of its own in which some directories are seen with
//! changes that lie elsewhere, each at its own path. What is not staged is seen as it is. It must
//! never write to a directory that it stages.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::path::AbsPath;
use crate::world::sys::launch::staging::{Scene, StagedRoot, Staging};
use crate::world::sys::sandbox::granted::identity;
use crate::world::sys::sandbox::layers;
use crate::world::sys::sandbox::mounts::{Mount, machine};
use crate::world::sys::sandbox::namespaces::move_out;
use crate::world::sys::sandbox::refusal::{Built, During};

/// Moves this process into the world that `order` describes. The handles are on its root directory,
/// and on the staged directories in order.
pub(crate) fn enter(order: &Staging) -> Built<Vec<OwnedFd>> {
    move_out()?;
    // Every source is opened before the first mount: later, paths lead into the stage.
    let mut mounts = Vec::new();
    for root in &order.roots {
        let mount = scene(root).during(format_args!("staging `{}`", root.scene.root()))?;
        mounts.push((root.scene.root(), mount));
    }
    for path in &order.kept {
        if let Some(mount) = as_it_is(path).during(format_args!("keeping `{path}`"))? {
            mounts.push((path, mount));
        }
    }
    mounts.sort_by_key(|(path, _)| path.as_path().components().count());
    for (path, mount) in &mounts {
        let attached = machine(path).and_then(|point| mount.attach(point));
        attached.during(format_args!("mounting `{path}`"))?;
    }
    for root in &order.roots {
        if let Scene::Layered(layer) = &root.scene {
            let given = layers::give_back(layer);
            given.during(format_args!("opening the layer on `{}`", layer.root))?;
        }
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut handles = vec![openat(CWD, "/", flags, Mode::empty()).during("opening the world")?];
    for root in &order.roots {
        let path = root.scene.root();
        handles.push(machine(path).during(format_args!("opening `{path}`"))?);
    }
    Ok(handles)
}

/// What is seen in the place of a directory.
fn scene(root: &StagedRoot) -> io::Result<Mount> {
    let users = machine(root.scene.root())?;
    if identity(&users)? != root.identity {
        return Err(io::Error::other(
            "something else stands there than when it was granted: start again",
        ));
    }
    Ok(match &root.scene {
        Scene::Layered(layer) => Mount::overlay(users, layer)?,
        Scene::Copied { copy, .. } => Mount::copy_of(machine(copy)?)?,
    })
}

/// A directory with all that is in it now; `None` if it is not there.
fn as_it_is(path: &AbsPath) -> io::Result<Option<Mount>> {
    match machine(path) {
        Err(Errno::NOENT) => Ok(None),
        source => Ok(Some(Mount::copy_of(source?)?)),
    }
}
