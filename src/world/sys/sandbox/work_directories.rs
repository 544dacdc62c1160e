//! Cleans up what the kernel leaves in the work directory of an overlay. The kernel does not accept
//! a layer again while the state of the last mount is there, and it makes that state inaccessible.
//! massgen moves the state aside before the mount, which is quick, and removes it while the program
//! is already running, which may be slow.

use std::fs;
use std::io;

use rustix::fs::{AtFlags, Mode, chmodat, mkdirat, renameat};
use rustix::io::Errno;

use crate::sandbox_policy::OverlayLayer;
use crate::world::sys::sandbox::mounts::open_machine_path;

/// The kernel's directory, below the work directory of a layer.
const KERNELS: &str = "work";

/// Where the state of an earlier mount is until it is removed. It has its own directory, so that
/// its removal does not touch the work directory, whose change time shows when the layer was
/// mounted.
const ASIDE: &str = "used";
const SET_ASIDE: &str = "used/work";

/// The kernel's directories that are inaccessible, outer ones first. The inner ones record that the
/// layer is not synced at unmount.
const CLOSED: [&str; 3] = ["", "/incompat", "/incompat/volatile"];

/// Moves what the kernel left in `layer` out of its way. Returns whether there was anything.
pub(crate) fn set_aside(layer: &OverlayLayer) -> io::Result<bool> {
    let work = open_machine_path(&layer.work)?;
    match chmodat(&work, KERNELS, Mode::RWXU, AtFlags::empty()) {
        Err(Errno::NOENT) => return Ok(false),
        opened => opened?,
    }
    match mkdirat(&work, ASIDE, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    match renameat(&work, KERNELS, &work, SET_ASIDE) {
        Err(Errno::EXIST | Errno::NOTEMPTY) => {
            remove_set_aside(layer)?;
            renameat(&work, KERNELS, &work, SET_ASIDE)?;
        }
        moved => moved?,
    }
    Ok(true)
}

/// Removes what was moved aside.
pub(crate) fn remove_set_aside(layer: &OverlayLayer) -> io::Result<()> {
    make_accessible(layer, SET_ASIDE)?;
    fs::remove_dir_all(layer.work.join(SET_ASIDE).as_path())
}

/// Gives the owner of `layer` access to what the kernel has just created in it, so that it can be
/// removed.
pub(crate) fn restore_owner_access(layer: &OverlayLayer) -> io::Result<()> {
    make_accessible(layer, KERNELS)
}

fn make_accessible(layer: &OverlayLayer, prefix: &str) -> io::Result<()> {
    let work = open_machine_path(&layer.work)?;
    for closed in CLOSED {
        let path = format!("{prefix}{closed}");
        match chmodat(&work, path, Mode::RWXU, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
