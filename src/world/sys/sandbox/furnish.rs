//! Owns what a sandbox's root holds: the system and devices, which are the same for every program,
//! and the pieces of the confinement.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::process::geteuid;

use crate::confinement::Confinement;
use crate::confinement::network::Reach;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::sys::sandbox::granted::granted;
use crate::world::sys::sandbox::layers;
use crate::world::sys::sandbox::mounts::{Mount, PLAIN, READ_ONLY, machine};
use crate::world::sys::sandbox::plan::{Below, Piece, pieces};
use crate::world::sys::sandbox::refusal::{Built, During};
use crate::world::sys::sandbox::root::{IsDirectory, Root, show_file};
use crate::world::sys::sandbox::settings::{Kept, SETTINGS};
use crate::world::sys::sandbox::system::PROGRAMS;

/// What else toolchains read of the system. Where the machine has a link, the sandbox has the same
/// one.
const SYSTEM: &[&str] = &[
    "/libx32",
    SETTINGS,
    "/gnu/store",
    "/var/lib/ca-certificates",
];

/// What of them holds secrets, whatever its mode says. Others than root cannot read most of it
/// anyway.
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

/// Where devices stand, and which of them there are: they hold nothing of the machine's.
pub(crate) const DEVICES: &str = "/dev";
const EACH_DEVICE: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// What a device is mounted with. That can be written to on a read-only mount; who owns it, its mode
/// and its times are those of the machine and stay as they are.
const DEVICE: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_RDONLY);

/// Links in `/dev`, and what they point to.
const DEVICE_LINKS: &[(&str, &str)] = &[
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// The most pseudo terminals of a sandbox; all on the machine share one number (`kernel.pty.max`).
const TERMINALS_MAX: &str = "64";

/// Where processes are seen, and what else is told there that no program needs: addresses and tables of
/// the kernel, physical memory, keys, hardware.
const PROCESSES: &str = "/proc";
const OF_KERNEL: &[&str] = &[
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

/// Where the agent's directory for temporary files stands, which all its commands have.
const TEMPORARY: &str = "/tmp";
/// Where memory is shared by name. Each sandbox has its own.
const MEMORY: &str = "/dev/shm";
/// The writable places of every sandbox.
pub(crate) const SHARED: &[&str] = &[TEMPORARY, MEMORY];

/// Which file stood at a path: its device and its number there.
pub(crate) type Identities = BTreeMap<AbsPath, (u64, u64)>;

/// What stands at each path that is opened. Taken before the sandbox begins, it shows later whether
/// another thing was put in its place.
pub(crate) fn identities(confinement: &Confinement) -> Built<Identities> {
    let mut identities = Identities::new();
    for (path, piece) in pieces(confinement) {
        if let Piece::Open(_) | Piece::Layer(_) = piece {
            let identity = granted(confinement, &path).and_then(|handle| {
                let stat = fstat(handle)?;
                Ok((stat.st_dev, stat.st_ino))
            });
            let identity = identity.during(format_args!("opening `{path}`"))?;
            identities.insert(path, identity);
        }
    }
    Ok(identities)
}

/// Puts a root together that holds what `confinement` opens, and of the settings nothing that is
/// `kept` from others.
pub(crate) fn furnished(confinement: &Confinement, known: &Identities, kept: &Kept) -> Built<Root> {
    let mut root = Root::new()?;
    system(&root, confinement.reach)?;
    devices(&root)?;
    hide_kernel(&mut root)?;
    let memory = root.share(Path::new(MEMORY));
    memory.during(format_args!("making `{MEMORY}`"))?;
    let temporary = machine(&confinement.scratch)
        .map_err(io::Error::from)
        .and_then(|scratch| root.show_as_own(Path::new(TEMPORARY), scratch));
    temporary.during(format_args!("mounting `{TEMPORARY}`"))?;
    toolchains(&root, confinement)?;
    for (path, piece) in pieces(confinement) {
        put(&mut root, &path, piece, known).during(format_args!("mounting `{path}`"))?;
    }
    if geteuid().is_root() {
        for path in SECRETS {
            let hidden = root.hide(Path::new(path), Below::Nothing);
            hidden.during(format_args!("hiding `{path}`"))?;
        }
        let kept = kept.from(confinement);
        let kept = kept.during(format_args!("looking through `{SETTINGS}`"))?;
        let is_known = |path: &&Path| SECRETS.iter().any(|known| path.starts_with(known));
        for path in kept.into_iter().filter(|path| !is_known(path)) {
            let hidden = root.hide(path, Below::Nothing);
            hidden.during(format_args!("hiding `{}`", path.display()))?;
        }
    }
    Ok(root)
}

fn system(root: &Root, reach: Reach) -> Built<()> {
    for path in PROGRAMS.iter().chain(SYSTEM) {
        let path = Path::new(path);
        let step = format_args!("mounting `{}`", path.display());
        let is_link = root.link_like_the_machine(path).during(step)?;
        if !is_link {
            show_if_there(root, path).during(step)?;
        }
    }
    if reach == Reach::Host {
        let names = Path::new("/etc/resolv.conf");
        let elsewhere = std::fs::canonicalize(names).ok();
        if let Some(path) = elsewhere.filter(|path| !path.starts_with("/etc")) {
            show_if_there(root, &path).during("mounting the list of name servers")?;
        }
    }
    Ok(())
}

/// Shows a path of the machine read-only, if it is there.
fn show_if_there(root: &Root, path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::ACCESS) => Ok(()),
        source => root.show(path, source?, READ_ONLY),
    }
}

fn devices(root: &Root) -> Built<()> {
    let place = Path::new(DEVICES);
    let directory = root.directory(place).during("making `/dev`")?;
    for name in EACH_DEVICE {
        let step = format_args!("mounting `{DEVICES}/{name}`");
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let source = openat(CWD, place.join(name), flags, Mode::empty()).during(step)?;
        show_file(&directory, name, source, DEVICE).during(step)?;
    }
    for (path, target) in DEVICE_LINKS {
        let linked = root.link(Path::new(path), *target);
        linked.during(format_args!("making `{path}`"))?;
    }
    let quiet = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let terminals = [("ptmxmode", "666"), ("mode", "620"), ("max", TERMINALS_MAX)];
    new_system(root, "devpts", "/dev/pts", &terminals, quiet)?;
    // Root owns the switches of the kernel in there, and needs no capability to turn them.
    new_system(root, "proc", PROCESSES, &[], quiet | READ_ONLY)
}

/// Hides the files of `/proc` that tell of the machine's kernel and of its other users. Most of them can
/// be read by root alone, and a command of root's is root there.
fn hide_kernel(root: &mut Root) -> Built<()> {
    for name in OF_KERNEL {
        let path = Path::new(PROCESSES).join(name);
        let hidden = root.hide(&path, Below::Nothing);
        hidden.during(format_args!("hiding `{}`", path.display()))?;
    }
    Ok(())
}

fn new_system(
    root: &Root,
    kind: &str,
    path: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Built<()> {
    let step = format_args!("mounting `{path}`");
    let mount = Mount::new(kind, options, attributes).during(step)?;
    let placed = root.place(Path::new(path), &mount, IsDirectory::Yes);
    placed.during(step)
}

/// Toolchains lie outside of what is opened. A link on the way to one is followed, because the
/// machine's `PATH` names it like that.
fn toolchains(root: &Root, confinement: &Confinement) -> Built<()> {
    let is_open = |path: &AbsPath| {
        let openings = confinement.open.iter();
        openings
            .clone()
            .any(|opening| path.is_within(&opening.path))
            || PROGRAMS
                .iter()
                .chain(SYSTEM)
                .any(|system| path.as_path().starts_with(system))
    };
    for path in confinement.toolchains.iter().filter(|path| !is_open(path)) {
        let shown = show_if_there(root, path.as_path());
        shown.during(format_args!("mounting `{path}`"))?;
    }
    Ok(())
}

fn put(root: &mut Root, path: &AbsPath, piece: Piece<'_>, known: &Identities) -> io::Result<()> {
    let place = path.as_path();
    match piece {
        Piece::Open(permission) => {
            let source = known_source(path, known)?;
            let attributes = match permission {
                Permission::Read => READ_ONLY,
                Permission::Write => PLAIN,
            };
            root.show(place, source, attributes)
        }
        Piece::Layer(layer) => {
            let source = known_source(path, known)?;
            let overlay = Mount::overlay(source, layer)?;
            root.place(place, &overlay, IsDirectory::Yes)?;
            layers::give_back(layer)
        }
        Piece::Pin => root.cover_with_itself(place, PLAIN),
        Piece::Mask => root.cover_with_itself(place, READ_ONLY),
        Piece::Hide(below) => root.hide(place, below),
    }
}

/// A handle on the same file that stood at `path` before the sandbox began.
fn known_source(path: &AbsPath, known: &Identities) -> io::Result<OwnedFd> {
    let source = machine(path)?;
    let stat = fstat(&source)?;
    if known.get(path) == Some(&(stat.st_dev, stat.st_ino)) {
        Ok(source)
    } else {
        Err(io::Error::other("it was replaced meanwhile"))
    }
}
