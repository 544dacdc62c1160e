//! The root directory of a sandbox: a small file system of its own that holds the system read-only,
//! devices, the agent's own `/tmp`, and the paths that the policy opens. Nothing is ever created
//! outside of these: before a missing mount point is created, the mount that contains it is
//! checked.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, chmodat, fstat, mkdirat,
    openat, openat2, readlinkat, statx, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, UnmountFlags, unmount};
use rustix::process::{chdir, fchdir, pivot_root};

use crate::world::sys::sandbox::mount_plan::HiddenContent;
use crate::world::sys::sandbox::mounts::{MountHandle, NO_SETID_OR_DEVICES, READ_ONLY};
use crate::world::sys::sandbox::refusal::{SandboxResult, StepContext};

/// The capacity of `/dev/shm`, in bytes and in files.
const MEMORY_BYTES_MAX: &str = "2g";
const MEMORY_FILES_MAX: &str = "500k";

/// Directories that all users may write to.
const WORLD_WRITABLE_MODE: Mode = Mode::from_raw_mode(0o1777);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
const FILE_MODE: Mode = Mode::from_raw_mode(0o444);

/// The flags that create a new file.
const NEW_FILE_FLAGS: OFlags = OFlags::CREATE
    .union(OFlags::EXCL)
    .union(OFlags::WRONLY)
    .union(OFlags::CLOEXEC);

/// Where the directory and the file are that hide others. The kernel mounts only what has a name;
/// their names are at a place that `/proc` covers later.
const MASKS_DIRECTORY: &str = "proc";
const EMPTY_DIRECTORY: &str = "proc/directory";
const EMPTY_FILE: &str = "proc/file";

/// Read-only mounts of an empty directory and an empty file that all users may read. Their clones
/// are read-only, too.
#[derive(Debug)]
struct EmptyMasks {
    directory: MountHandle,
    file: MountHandle,
}

impl EmptyMasks {
    fn create_in(root: &MountHandle) -> std::io::Result<Self> {
        mkdirat(root, MASKS_DIRECTORY, DIRECTORY_MODE)?;
        mkdirat(root, EMPTY_DIRECTORY, DIRECTORY_MODE)?;
        // A writable handle would keep the root from becoming read-only.
        drop(openat(root, EMPTY_FILE, NEW_FILE_FLAGS, FILE_MODE)?);
        let mount_read_only = |path| {
            let handle = openat(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let mount = MountHandle::restricted_copy_from(&handle, READ_ONLY)?;
            // Only what is attached can be cloned again (before Linux 6.15).
            mount.attach(handle)?;
            Ok::<_, std::io::Error>(mount)
        };
        Ok(Self {
            directory: mount_read_only(EMPTY_DIRECTORY)?,
            file: mount_read_only(EMPTY_FILE)?,
        })
    }
}

/// The root of a sandbox under construction.
#[derive(Debug)]
pub(crate) struct SandboxRoot {
    mount: MountHandle,
    /// The IDs of the mounts in which mount points may be created.
    own_mounts: Vec<u64>,
    /// The sandbox's own file systems that become read-only at the end.
    late_read_only: Vec<MountHandle>,
    /// The empty file and directory that hide others.
    empty_masks: EmptyMasks,
}

impl SandboxRoot {
    /// Creates an empty root. It is attached over the machine's root, to which all paths still
    /// lead.
    pub(crate) fn new() -> SandboxResult<Self> {
        let options = [
            ("size", MEMORY_BYTES_MAX),
            ("nr_inodes", MEMORY_FILES_MAX),
            ("mode", "755"),
        ];
        let mount = MountHandle::new("tmpfs", &options, NO_SETID_OR_DEVICES)
            .in_step("making a file system")?;
        let root_mount_id = mount_id(&mount).in_step("looking at the new file system")?;
        let root_handle = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let attach_result = root_handle.and_then(|over| mount.attach(over));
        attach_result.in_step("attaching the new root")?;
        let empty_masks =
            EmptyMasks::create_in(&mount).in_step("making a place for what is hidden")?;
        Ok(Self {
            mount,
            own_mounts: vec![root_mount_id],
            late_read_only: Vec::new(),
            empty_masks,
        })
    }

    /// Shows the file or directory behind `source` at `path`.
    pub(crate) fn bind(
        &self,
        path: &Path,
        source: impl AsFd,
        attributes: MountAttrFlags,
    ) -> std::io::Result<()> {
        let is_directory = is_directory(&source)?;
        let copy = MountHandle::restricted_copy_from(source, attributes)?;
        self.attach_at(path, &copy, is_directory)
    }

    /// Shows the directory `source`, which belongs to the agent, at `path`. It is writable, and
    /// mount points may be created in it.
    pub(crate) fn bind_own(&mut self, path: &Path, source: impl AsFd) -> std::io::Result<()> {
        let copy = MountHandle::restricted_copy_from(source, NO_SETID_OR_DEVICES)?;
        self.own_mounts.push(mount_id(&copy)?);
        self.attach_at(path, &copy, IsDirectory::Yes)
    }

    /// Attaches `mount` at `path`.
    pub(crate) fn attach_at(
        &self,
        path: &Path,
        mount: &MountHandle,
        is_directory: IsDirectory,
    ) -> std::io::Result<()> {
        let point = match self.open_existing(path) {
            Err(Errno::NOENT) => self.create_path(path, is_directory)?,
            found => found?,
        };
        Ok(mount.attach(point)?)
    }

    /// Turns the file or directory at `path` in the sandbox into a mount of its own. Has no effect
    /// if it does not exist.
    pub(crate) fn mount_onto_itself(
        &self,
        path: &Path,
        attributes: MountAttrFlags,
    ) -> std::io::Result<()> {
        let handle = match self.open_existing(path) {
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        Ok(MountHandle::restricted_copy_from(&handle, attributes)?.attach(handle)?)
    }

    /// Hides `path` behind an empty directory or file. Has no effect if it does not exist.
    pub(crate) fn hide(&mut self, path: &Path, below: HiddenContent) -> std::io::Result<()> {
        let handle = match self.open_existing(path) {
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        let mask = match (is_directory(&handle)?, below) {
            (IsDirectory::No, _) => &self.empty_masks.file,
            (IsDirectory::Yes, HiddenContent::Nothing) => &self.empty_masks.directory,
            // A file system of its own, in which mount points for what is accessible can be made.
            (IsDirectory::Yes, HiddenContent::Openings) => {
                let own_mount = MountHandle::new(
                    "tmpfs",
                    &[("size", "64k"), ("mode", "755")],
                    NO_SETID_OR_DEVICES,
                )?;
                own_mount.attach(handle)?;
                self.own_mounts.push(mount_id(&own_mount)?);
                self.late_read_only.push(own_mount);
                return Ok(());
            }
        };
        Ok(MountHandle::copy_from(mask)?.attach(handle)?)
    }

    /// Creates a directory of the sandbox's own at `path`.
    pub(crate) fn make_directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.create_path(path, IsDirectory::Yes)
    }

    /// Copies the machine's symlink at `path`. Returns `false` if there is none.
    pub(crate) fn copy_machine_link(&self, path: &Path) -> Result<bool, Errno> {
        match readlinkat(CWD, path, Vec::new()) {
            Ok(target) => self.make_link(path, target.as_c_str()).map(|()| true),
            Err(Errno::INVAL | Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Creates a symlink to `target` at `path`, whose directory exists.
    pub(crate) fn make_link(
        &self,
        path: &Path,
        target: impl rustix::path::Arg,
    ) -> Result<(), Errno> {
        symlinkat(target, &self.mount, without_leading_slash(path))
    }

    /// Creates a writable directory of the sandbox's own at `path`.
    pub(crate) fn make_writable_directory(&mut self, path: &Path) -> std::io::Result<()> {
        let handle = self.create_path(path, IsDirectory::Yes)?;
        chmodat(
            &self.mount,
            without_leading_slash(path),
            WORLD_WRITABLE_MODE,
            AtFlags::empty(),
        )?;
        let copy = MountHandle::copy_from(&handle)?;
        self.own_mounts.push(mount_id(&copy)?);
        Ok(copy.attach(handle)?)
    }

    /// Makes it the root, and detaches the machine's. What belongs to the sandbox is read-only from
    /// here on, except for [writable directories](SandboxRoot::make_writable_directory).
    pub(crate) fn enter(self) -> SandboxResult<()> {
        fchdir(&self.mount).in_step("going to the new root")?;
        pivot_root(".", ".").in_step("changing the root")?;
        // The old root is mounted over the new one now, at the same place.
        unmount(".", UnmountFlags::DETACH).in_step("letting go of the old root")?;
        chdir("/").in_step("going to the new root")?;
        for mount in self.late_read_only.iter().chain([&self.mount]) {
            let result = mount.restrict_alone(READ_ONLY);
            result.in_step("making the new root read-only")?;
        }
        Ok(())
    }

    /// Opens the file or directory at `path` in the sandbox. Symlinks are refused.
    fn open_existing(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(
            &self.mount,
            without_leading_slash(path),
            flags,
            Mode::empty(),
            resolve,
        )
    }

    /// Opens `path`, after creating it and all directories on the way.
    fn create_path(&self, path: &Path, is_directory: IsDirectory) -> Result<OwnedFd, Errno> {
        let mut names = without_leading_slash(path).iter().peekable();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut handle = openat(&self.mount, ".", flags, Mode::empty())?;
        while let Some(name) = names.next() {
            let is_directory = match names.peek() {
                Some(_) => IsDirectory::Yes,
                None => is_directory,
            };
            handle = self.open_or_create(&handle, name, is_directory)?;
        }
        Ok(handle)
    }

    fn open_or_create(
        &self,
        handle: &OwnedFd,
        name: &OsStr,
        is_directory: IsDirectory,
    ) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(handle, name, flags, Mode::empty()) {
            Err(Errno::NOENT) if self.own_mounts.contains(&mount_id(handle)?) => {}
            result => return result,
        }
        let creation = match is_directory {
            IsDirectory::Yes => mkdirat(handle, name, DIRECTORY_MODE),
            IsDirectory::No => openat(handle, name, NEW_FILE_FLAGS, FILE_MODE).map(drop),
        };
        match creation {
            // Another command of the agent may create the same name in its `/tmp` at the same time.
            Ok(()) | Err(Errno::EXIST) => openat(handle, name, flags, Mode::empty()),
            Err(errno) => Err(errno),
        }
    }
}

/// Shows the file `source` as `name` in `directory`, which belongs to the sandbox.
pub(crate) fn show_file(
    directory: &OwnedFd,
    name: &str,
    source: impl AsFd,
    attributes: MountAttrFlags,
) -> std::io::Result<()> {
    let point = openat(directory, name, NEW_FILE_FLAGS, FILE_MODE)?;
    Ok(MountHandle::restricted_copy_from(source, attributes)?.attach(point)?)
}

/// Whether something is a directory or any other kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsDirectory {
    /// A directory.
    Yes,
    /// Anything else.
    No,
}

/// Returns whether `handle` refers to a directory.
pub(crate) fn is_directory(handle: impl AsFd) -> Result<IsDirectory, Errno> {
    let kind = FileType::from_raw_mode(fstat(handle)?.st_mode);
    Ok(if kind == FileType::Directory {
        IsDirectory::Yes
    } else {
        IsDirectory::No
    })
}

/// Returns the ID of the mount that `handle` leads through.
fn mount_id(handle: impl AsFd) -> Result<u64, Errno> {
    let stat = statx(handle, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let is_reported = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID);
    is_reported.then_some(stat.stx_mnt_id).ok_or(Errno::NOSYS)
}

/// Strips the leading slash of `path`.
fn without_leading_slash(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
