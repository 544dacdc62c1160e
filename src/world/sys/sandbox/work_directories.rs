//! Owns what the kernel leaves in the work directory of a layer. It will not use a layer again as
//! long as its notes of the last time lie there, and it closes them to everybody. They are moved
//! aside before, which is quick, and removed while the program already runs, which may not be.

use std::fs;
use std::io;

use rustix::fs::{AtFlags, Mode, chmodat, mkdirat, renameat};
use rustix::io::Errno;

use crate::sandbox_policy::OverlayLayer;
use crate::world::sys::sandbox::mounts::open_machine_path;

/// The kernel's directory, below the work directory of a layer.
const KERNELS: &str = "work";

/// Where one of an earlier time lies until it is removed. It has a directory of its own, so that
/// its end does not touch the work directory, whose time of change says when the layer was laid.
const ASIDE: &str = "used";
const SET_ASIDE: &str = "used/work";

/// The directories of the kernel's that are closed, outer ones first. The inner ones note that the
/// layer is not brought to the disk when it is let go.
const CLOSED: [&str; 3] = ["", "/incompat", "/incompat/volatile"];

/// Moves what the kernel left in `layer` out of its way. Whether there was something comes back.
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

/// Removes what was moved.
pub(crate) fn remove_set_aside(layer: &OverlayLayer) -> io::Result<()> {
    make_accessible(layer, SET_ASIDE)?;
    fs::remove_dir_all(layer.work.join(SET_ASIDE).as_path())
}

/// Lets the owner of `layer` remove what the kernel has just made in it.
pub(crate) fn restore_owner_access(layer: &OverlayLayer) -> io::Result<()> {
    make_accessible(layer, KERNELS)
}

fn make_accessible(layer: &OverlayLayer, place: &str) -> io::Result<()> {
    let work = open_machine_path(&layer.work)?;
    for closed in CLOSED {
        let path = format!("{place}{closed}");
        match chmodat(&work, path, Mode::RWXU, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
