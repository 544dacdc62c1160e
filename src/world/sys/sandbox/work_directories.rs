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
const KERNEL_DIRECTORY: &str = "work";

/// Where the state of an earlier mount is until it is removed. It has its own directory, so that
/// its removal does not touch the work directory, whose change time shows when the layer was
/// mounted.
const ASIDE_DIRECTORY: &str = "used";
const ASIDE_STATE: &str = "used/work";

/// The kernel's directories that are inaccessible, outer ones first. The inner ones record that the
/// layer is not synced at unmount.
const INACCESSIBLE_DIRECTORIES: [&str; 3] = ["", "/incompat", "/incompat/volatile"];

/// Moves what the kernel left in `layer` out of its way. Returns whether there was anything.
pub(crate) fn set_aside(layer: &OverlayLayer) -> io::Result<bool> {
    let work = open_machine_path(&layer.work)?;
    match chmodat(&work, KERNEL_DIRECTORY, Mode::RWXU, AtFlags::empty()) {
        Err(Errno::NOENT) => return Ok(false),
        chmod_result => chmod_result?,
    }
    match mkdirat(&work, ASIDE_DIRECTORY, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    match renameat(&work, KERNEL_DIRECTORY, &work, ASIDE_STATE) {
        Err(Errno::EXIST | Errno::NOTEMPTY) => {
            remove_set_aside(layer)?;
            renameat(&work, KERNEL_DIRECTORY, &work, ASIDE_STATE)?;
        }
        rename_result => rename_result?,
    }
    Ok(true)
}

/// Removes what was moved aside.
pub(crate) fn remove_set_aside(layer: &OverlayLayer) -> io::Result<()> {
    make_accessible(layer, ASIDE_STATE)?;
    fs::remove_dir_all(layer.work.join(ASIDE_STATE).as_path())
}

/// Gives the owner of `layer` access to what the kernel has just created in it, so that it can be
/// removed.
pub(crate) fn restore_owner_access(layer: &OverlayLayer) -> io::Result<()> {
    make_accessible(layer, KERNEL_DIRECTORY)
}

fn make_accessible(layer: &OverlayLayer, prefix: &str) -> io::Result<()> {
    let work = open_machine_path(&layer.work)?;
    for suffix in INACCESSIBLE_DIRECTORIES {
        let path = format!("{prefix}{suffix}");
        match chmodat(&work, path, Mode::RWXU, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
