//! [`MountHandle`]: a mount that is detached or attached in the sandbox's root. Mounts are created
//! from handles and attached to handles, so no path is resolved twice.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use crate::path::AbsPath;
use crate::sandbox_policy::OverlayLayer;
use crate::world::sys::sandbox::raw::{self, MountAttributes};

/// The attributes of every mount: setuid bits have no effect, and no file is a device.
pub(crate) const NO_SETID_OR_DEVICES: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// Like [`NO_SETID_OR_DEVICES`], and read-only.
pub(crate) const READ_ONLY: MountAttrFlags =
    NO_SETID_OR_DEVICES.union(MountAttrFlags::MOUNT_ATTR_RDONLY);

/// A mount.
#[derive(Debug)]
pub(crate) struct MountHandle(OwnedFd);

impl MountHandle {
    /// Creates a new file system.
    pub(crate) fn new(
        kind: &str,
        options: &[(&str, &str)],
        attributes: MountAttrFlags,
    ) -> Result<Self, Errno> {
        let system = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in options {
            if value.is_empty() {
                fsconfig_set_flag(&system, *key)?;
            } else {
                fsconfig_set_string(&system, *key, *value)?;
            }
        }
        fsconfig_create(&system)?;
        let mount = fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Self(mount))
    }

    /// Clones the file or directory behind `handle`, with everything mounted below it.
    pub(crate) fn copy_from(handle: impl AsFd) -> Result<Self, Errno> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        Ok(Self(open_tree(handle, "", flags)?))
    }

    /// Like [`MountHandle::copy_from`], with `attributes` set on the clone and on all mounts below
    /// it.
    pub(crate) fn restricted_copy_from(
        handle: impl AsFd,
        attributes: MountAttrFlags,
    ) -> std::io::Result<Self> {
        let copy = Self::copy_from(handle)?;
        copy.change(libc::AT_RECURSIVE, attributes)?;
        Ok(copy)
    }

    /// Mounts an overlay on the directory `lower`, whose changes go to `layer`.
    pub(crate) fn overlay(lower: impl AsFd, layer: &OverlayLayer) -> Result<Self, Errno> {
        let (upper, work) = (
            open_machine_path(&layer.upper)?,
            open_machine_path(&layer.work)?,
        );
        let between = layer.between.as_ref().map(open_machine_path).transpose()?;
        let handle_path = |handle: BorrowedFd<'_>| format!("/proc/self/fd/{}", handle.as_raw_fd());
        let below = between.iter().map(AsFd::as_fd).chain([lower.as_fd()]);
        let below: Vec<String> = below.map(handle_path).collect();
        // Without `volatile`, the whole upper file system would be synced when the sandbox ends.
        // Nothing in the layer has to survive a crash of the machine: what matters is copied out of
        // it during the run.
        let options = [
            ("userxattr", ""),
            ("volatile", ""),
            ("index", "off"),
            ("lowerdir", &below.join(":")),
            ("upperdir", &handle_path(upper.as_fd())),
            ("workdir", &handle_path(work.as_fd())),
        ];
        Self::new("overlay", &options, NO_SETID_OR_DEVICES)
    }

    /// Sets `attributes` on it; the mounts below it stay as they are.
    pub(crate) fn restrict_alone(&self, attributes: MountAttrFlags) -> std::io::Result<()> {
        self.change(0, attributes)
    }

    fn change(&self, flags: i32, attributes: MountAttrFlags) -> std::io::Result<()> {
        let change = MountAttributes {
            set: attributes.bits().into(),
            ..MountAttributes::default()
        };
        raw::set_mount_attributes(self.0.as_fd(), flags, change)
    }

    /// Attaches it over what `point` refers to.
    pub(crate) fn attach(&self, point: impl AsFd) -> Result<(), Errno> {
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&self.0, "", point, "", flags)
    }
}

impl AsFd for MountHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Opens a path of the machine that contains no symlink.
pub(crate) fn open_machine_path(path: &AbsPath) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path.as_path(), flags, Mode::empty(), resolve)
}
