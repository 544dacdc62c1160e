//! Builds the content of a sandbox's root: the system and devices, which are the same for every
//! program, and the pieces of the policy.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::process::geteuid;

use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::sandbox_policy::{NetworkAccess, RestrictedFiles, SETTINGS_DIRECTORY, SandboxPolicy};
use crate::world::sys::sandbox::landlock_paths::PROGRAMS;
use crate::world::sys::sandbox::mount_plan::{HiddenContent, MountPiece, plan_pieces};
use crate::world::sys::sandbox::mounts::{
    MountHandle, NO_SETID_OR_DEVICES, READ_ONLY, open_machine_path,
};
use crate::world::sys::sandbox::open_granted::open_granted_path;
use crate::world::sys::sandbox::refusal::{SandboxResult, StepContext};
use crate::world::sys::sandbox::root::{IsDirectory, SandboxRoot, show_file};
use crate::world::sys::sandbox::work_directories;

/// What else toolchains read of the system. Where the machine has a symlink, the sandbox has the
/// same one.
const SYSTEM_PATHS: &[&str] = &[
    "/libx32",
    SETTINGS_DIRECTORY,
    "/gnu/store",
    "/var/lib/ca-certificates",
];

/// Those of them that hold secrets, whatever their mode is. Users other than root cannot read most
/// of them anyway.
const SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/krb5.keytab",
    "/etc/ssl/private",
    "/etc/ssh",
    "/etc/letsencrypt",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/etc/docker",
    "/etc/kubernetes",
];

/// Where devices are, and which ones exist: they hold no state of the machine.
pub(crate) const DEVICES: &str = "/dev";
const DEVICE_NAMES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// The attributes of a device mount. A device on a read-only mount can still be written to; its
/// owner, mode and times are those of the machine and cannot be changed.
const DEVICE_ATTRIBUTES: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_RDONLY);

/// Symlinks in `/dev`, and their targets.
const DEVICE_LINKS: &[(&str, &str)] = &[
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// The most pseudo terminals of a sandbox; all on the machine share one quota (`kernel.pty.max`).
const TERMINALS_MAX: &str = "64";

/// Where processes are seen, and what is shown there that no program needs: addresses and tables of
/// the kernel, physical memory, keys, hardware.
const PROC: &str = "/proc";
const HIDDEN_PROC_ENTRIES: &[&str] = &[
    "acpi",
    "asound",
    "bus",
    "interrupts",
    "iomem",
    "ioports",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "pagetypeinfo",
    "sched_debug",
    "scsi",
    "slabinfo",
    "sysrq-trigger",
    "timer_list",
    "timer_stats",
    "vmallocinfo",
];

/// Where the agent's directory for temporary files is, which all its commands share.
const TEMPORARY: &str = "/tmp";
/// Where shared memory has names. Each sandbox has its own.
const SHARED_MEMORY: &str = "/dev/shm";
/// The writable directories of every sandbox.
pub(crate) const WRITABLE_DIRECTORIES: &[&str] = &[TEMPORARY, SHARED_MEMORY];

/// The file that was at a path: its device and inode number.
pub(crate) type PathIdentities = BTreeMap<AbsPath, (u64, u64)>;

/// Returns the identity of each accessible path. Recorded before the sandbox is built, it shows
/// later whether a path was replaced.
pub(crate) fn path_identities(policy: &SandboxPolicy) -> SandboxResult<PathIdentities> {
    let mut identities = PathIdentities::new();
    for (path, piece) in plan_pieces(policy) {
        if let MountPiece::Open(_) | MountPiece::Layer(_) = piece {
            let identity = open_granted_path(policy, &path).and_then(|handle| {
                let stat = fstat(handle)?;
                Ok((stat.st_dev, stat.st_ino))
            });
            let identity = identity.in_step(format_args!("opening `{path}`"))?;
            identities.insert(path, identity);
        }
    }
    Ok(identities)
}

/// Builds a root that holds what `policy` opens, without the settings in `restricted_files`.
pub(crate) fn build_root(
    policy: &SandboxPolicy,
    identities: &PathIdentities,
    restricted_files: &RestrictedFiles,
) -> SandboxResult<SandboxRoot> {
    let mut root = SandboxRoot::new()?;
    mount_system(&root, policy.network)?;
    mount_devices(&root)?;
    hide_kernel(&mut root)?;
    let memory = root.make_writable_directory(Path::new(SHARED_MEMORY));
    memory.in_step(format_args!("making `{SHARED_MEMORY}`"))?;
    let temporary = open_machine_path(&policy.scratch)
        .map_err(io::Error::from)
        .and_then(|scratch| root.bind_own(Path::new(TEMPORARY), scratch));
    temporary.in_step(format_args!("mounting `{TEMPORARY}`"))?;
    mount_toolchains(&root, policy)?;
    for (path, piece) in plan_pieces(policy) {
        mount_piece(&mut root, &path, piece, identities)
            .in_step(format_args!("mounting `{path}`"))?;
    }
    // A command of root can read a file whatever its mode is.
    let secrets = if geteuid().is_root() { SECRETS } else { &[] };
    for path in secrets {
        let result = root.hide(Path::new(path), HiddenContent::Nothing);
        result.in_step(format_args!("hiding `{path}`"))?;
    }
    let hidden_paths = restricted_files.hidden_from(policy);
    let hidden_paths =
        hidden_paths.in_step(format_args!("looking through `{SETTINGS_DIRECTORY}`"))?;
    let is_known = |path: &&Path| secrets.iter().any(|secret| path.starts_with(secret));
    let hidden_paths = hidden_paths.into_iter().map(AbsPath::as_path);
    for path in hidden_paths.filter(|path| !is_known(path)) {
        let result = root.hide(path, HiddenContent::Nothing);
        result.in_step(format_args!("hiding `{}`", path.display()))?;
    }
    Ok(root)
}

fn mount_system(root: &SandboxRoot, network: NetworkAccess) -> SandboxResult<()> {
    for path in PROGRAMS.iter().chain(SYSTEM_PATHS) {
        let path = Path::new(path);
        let step = format_args!("mounting `{}`", path.display());
        let is_link = root.copy_machine_link(path).in_step(step)?;
        if !is_link {
            bind_if_exists(root, path).in_step(step)?;
        }
    }
    if network == NetworkAccess::Host {
        // It is often a symlink to a file outside `/etc`.
        let resolver_config = Path::new("/etc/resolv.conf");
        let target = std::fs::canonicalize(resolver_config).ok();
        if let Some(path) = target.filter(|path| !path.starts_with("/etc")) {
            bind_if_exists(root, &path).in_step("mounting the list of name servers")?;
        }
    }
    Ok(())
}

/// Shows a path of the machine read-only, if it exists and the user can reach it.
fn bind_if_exists(root: &SandboxRoot, path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::ACCESS) => Ok(()),
        source => root.bind(path, source?, READ_ONLY),
    }
}

fn mount_devices(root: &SandboxRoot) -> SandboxResult<()> {
    let devices = Path::new(DEVICES);
    let directory = root.make_directory(devices).in_step("making `/dev`")?;
    for name in DEVICE_NAMES {
        let step = format_args!("mounting `{DEVICES}/{name}`");
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let source = openat(CWD, devices.join(name), flags, Mode::empty()).in_step(step)?;
        show_file(&directory, name, source, DEVICE_ATTRIBUTES).in_step(step)?;
    }
    for (path, target) in DEVICE_LINKS {
        let result = root.make_link(Path::new(path), *target);
        result.in_step(format_args!("making `{path}`"))?;
    }
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let terminals = [("ptmxmode", "666"), ("mode", "620"), ("max", TERMINALS_MAX)];
    mount_new_system(root, "devpts", "/dev/pts", &terminals, attributes)?;
    // Root owns the kernel's settings in there, and needs no capability to change them.
    mount_new_system(root, "proc", PROC, &[], attributes | READ_ONLY)
}

/// Hides the files of `/proc` that expose the machine's kernel and its other users. Most of them
/// can be read by root alone, and a command that root starts is root there.
fn hide_kernel(root: &mut SandboxRoot) -> SandboxResult<()> {
    for name in HIDDEN_PROC_ENTRIES {
        let path = Path::new(PROC).join(name);
        let result = root.hide(&path, HiddenContent::Nothing);
        result.in_step(format_args!("hiding `{}`", path.display()))?;
    }
    Ok(())
}

fn mount_new_system(
    root: &SandboxRoot,
    kind: &str,
    path: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> SandboxResult<()> {
    let step = format_args!("mounting `{path}`");
    let mount = MountHandle::new(kind, options, attributes).in_step(step)?;
    let attach_result = root.attach_at(Path::new(path), &mount, IsDirectory::Yes);
    attach_result.in_step(step)
}

/// Mounts the toolchains, which lie outside of the accessible paths. A symlink on the way to one is
/// followed, because the machine's `PATH` uses it.
fn mount_toolchains(root: &SandboxRoot, policy: &SandboxPolicy) -> SandboxResult<()> {
    let is_open = |path: &AbsPath| {
        let open_paths = policy.open.iter();
        open_paths
            .clone()
            .any(|open_path| path.is_within(&open_path.path))
            || PROGRAMS
                .iter()
                .chain(SYSTEM_PATHS)
                .any(|system| path.as_path().starts_with(system))
    };
    for path in policy.toolchains.iter().filter(|path| !is_open(path)) {
        let result = bind_if_exists(root, path.as_path());
        result.in_step(format_args!("mounting `{path}`"))?;
    }
    Ok(())
}

fn mount_piece(
    root: &mut SandboxRoot,
    path: &AbsPath,
    piece: MountPiece<'_>,
    identities: &PathIdentities,
) -> io::Result<()> {
    let target = path.as_path();
    match piece {
        MountPiece::Open(permission) => {
            let source = open_known_source(path, identities)?;
            let attributes = match permission {
                Permission::Read => READ_ONLY,
                Permission::Write => NO_SETID_OR_DEVICES,
            };
            root.bind(target, source, attributes)
        }
        MountPiece::Layer(layer) => {
            let source = open_known_source(path, identities)?;
            let overlay = MountHandle::overlay(source, layer)?;
            root.attach_at(target, &overlay, IsDirectory::Yes)?;
            work_directories::restore_owner_access(layer)
        }
        MountPiece::Pin => root.mount_onto_itself(target, NO_SETID_OR_DEVICES),
        MountPiece::Mask => root.mount_onto_itself(target, READ_ONLY),
        MountPiece::Hide(below) => root.hide(target, below),
    }
}

/// Opens the same file that was at `path` before the sandbox was built.
fn open_known_source(path: &AbsPath, identities: &PathIdentities) -> io::Result<OwnedFd> {
    let source = open_machine_path(path)?;
    let stat = fstat(&source)?;
    if identities.get(path) == Some(&(stat.st_dev, stat.st_ino)) {
        Ok(source)
    } else {
        Err(io::Error::other("it was replaced meanwhile"))
    }
}
