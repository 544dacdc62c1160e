//! Owns [`MountHandle`]: a mount that hangs nowhere yet or in the sandbox's root. Mounts are made from
//! handles and attached to handles, so no path is looked up twice.

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

/// What everything is mounted with: no program gains rights from its file, no file is a device.
pub(crate) const PLAIN: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// The same, read-only.
pub(crate) const READ_ONLY: MountAttrFlags = PLAIN.union(MountAttrFlags::MOUNT_ATTR_RDONLY);

/// A mount.
#[derive(Debug)]
pub(crate) struct MountHandle(OwnedFd);

impl MountHandle {
    /// A file system of its own.
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

    /// What `handle` stands for, with all that is mounted below it.
    pub(crate) fn copy_from(handle: impl AsFd) -> Result<Self, Errno> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        Ok(Self(open_tree(handle, "", flags)?))
    }

    /// The directory `lower`, whose changes go to `layer`.
    pub(crate) fn overlay(lower: impl AsFd, layer: &OverlayLayer) -> Result<Self, Errno> {
        let (upper, work) = (
            open_machine_path(&layer.upper)?,
            open_machine_path(&layer.work)?,
        );
        let by_number = |handle: BorrowedFd<'_>| format!("/proc/self/fd/{}", handle.as_raw_fd());
        // Without `volatile`, all of the file system below would be brought to the disk when the
        // sandbox ends. Nothing in the layer has to outlive a crash of the machine: what counts is
        // carried out of it while the run goes on.
        let options = [
            ("userxattr", ""),
            ("volatile", ""),
            ("index", "off"),
            ("lowerdir", &by_number(lower.as_fd())),
            ("upperdir", &by_number(upper.as_fd())),
            ("workdir", &by_number(work.as_fd())),
        ];
        Self::new("overlay", &options, PLAIN)
    }

    /// Takes `attributes` on, together with all mounts below it.
    pub(crate) fn restrict(&self, attributes: MountAttrFlags) -> std::io::Result<()> {
        self.change(libc::AT_RECURSIVE, attributes)
    }

    /// Takes `attributes` on; the mounts below it stay as they are.
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

    /// Hangs it over what `point` stands for.
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

/// A handle on a path of the machine, of which no part may be a link.
pub(crate) fn open_machine_path(path: &AbsPath) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path.as_path(), flags, Mode::empty(), resolve)
}
