//! Allows paths at level `landlock`: derives from a sandbox policy a handle and the rights for each
//! accessible path. Landlock can only add rights below a path, so a tree with something hidden
//! inside is allowed by its other entries, one by one: its names may be listed, and hidden content
//! stays closed. It must never allow more than was asked; what cannot be enforced is refused.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;

use crate::path::AbsPath;
use crate::permissions::grant::{GrantScope, Permission};
use crate::sandbox_policy::{AccessiblePath, SandboxPolicy};
use crate::world::sys::sandbox::domain::{LandlockDomain, PathRights};
use crate::world::sys::sandbox::open_granted::open_granted_path;

/// The most entries by which a tree with something hidden inside is allowed.
const ENTRIES_MAX: usize = 50_000;

/// Where a program queries its own state.
const PROC: &str = "/proc";
/// The entries of `/etc` that programs read. The rest of it is closed: it holds keys and passwords,
/// and a command that root runs owns them.
const READABLE_SETTINGS: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "gitconfig",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "locale.alias",
    "locale.conf",
    "login.defs",
    "lsb-release",
    "machine-id",
    "magic",
    "magic.mime",
    "manpath.config",
    "maven",
    "mime.types",
    "nanorc",
    "networks",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "perl",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "profile",
    "profile.d",
    "protocols",
    "redhat-release",
    "resolv.conf",
    "rpc",
    "services",
    "shells",
    "skel",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "vim",
    "xdg",
    "xml",
];
/// Prefixes of names of settings that contain a version.
const VERSIONED_SETTINGS: &[&str] = &["java", "openjdk", "php", "python", "ruby"];
/// Devices that hold no state of the machine. A command may use them freely.
const DEVICES: &[&str] = &[
    "/dev/full",
    "/dev/null",
    "/dev/ptmx",
    "/dev/random",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
];
/// Memory that processes share by name. It is the machine's: level `landlock` has no private one.
const SHARED_MEMORY: &str = "/dev/shm";

/// Flags for a handle that names a file and gives no access to its content.
const PATH_HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Checks that level `landlock` can enforce a policy; the error names the first path that it
/// cannot.
pub(crate) fn check_policy(policy: &SandboxPolicy) -> Result<(), String> {
    let read_only_open_paths = policy
        .open
        .iter()
        .filter(|open_path| open_path.permission == Permission::Read);
    let read_only = read_only_open_paths
        .map(|open_path| &open_path.path)
        .chain(&policy.masked)
        .map(|path| (path, "read-only"));
    let hidden_paths = policy.hidden.iter().map(|path| (path, "hidden"));
    for (path, restriction) in read_only.chain(hidden_paths) {
        for root in writable_paths(policy) {
            if path.is_within(root) && (path != root || restriction == "hidden") {
                return Err(format!(
                    "`{path}` cannot be {restriction}, because commands may write to `{root}`, which contains it; \
                     levels `overlay` and `namespaces` support this"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the user's trees that commands may write to, and their own.
pub(crate) fn writable_paths(policy: &SandboxPolicy) -> impl Iterator<Item = &AbsPath> {
    let open_paths = policy
        .open
        .iter()
        .filter(|open_path| open_path.permission == Permission::Write);
    let own_paths = [&policy.home, &policy.scratch];
    open_paths.map(|open_path| &open_path.path).chain(own_paths)
}

/// Allows in `domain` everything that the policy makes accessible.
pub(crate) fn allow_policy_paths(
    policy: &SandboxPolicy,
    domain: &mut LandlockDomain,
) -> io::Result<()> {
    let mut walk = LandlockWalk {
        hidden: &policy.hidden,
        entry_count: 0,
        domain,
    };
    walk.allow_system_paths()?;
    for toolchain in &policy.toolchains {
        if !policy
            .hidden
            .iter()
            .any(|hidden| toolchain.is_within(hidden))
        {
            walk.allow_tree_if_exists(toolchain)?;
        }
    }
    for open_path in &policy.open {
        walk.allow_accessible_path(open_path, &open_exact(policy, &open_path.path)?)?;
    }
    for own_path in [&policy.home, &policy.scratch] {
        walk.allow(&open_exact(policy, own_path)?, PathRights::Write)?;
    }
    Ok(())
}

/// Opens a path that contains no symlink and whose file is the one that was granted.
fn open_exact(policy: &SandboxPolicy, path: &AbsPath) -> io::Result<OwnedFd> {
    let result = open_granted_path(policy, path);
    result.map_err(|error| io::Error::other(format!("`{path}` cannot be opened: {error}")))
}

/// One pass over everything that is allowed.
struct LandlockWalk<'a> {
    hidden: &'a [AbsPath],
    entry_count: usize,
    domain: &'a mut LandlockDomain,
}

impl LandlockWalk<'_> {
    fn allow(&mut self, handle: &OwnedFd, rights: PathRights) -> io::Result<()> {
        let result = if kind(handle)? == FileType::Directory {
            self.domain.allow_tree(handle, rights)
        } else {
            self.domain.allow_file(handle, rights)
        };
        result.map_err(io::Error::other)
    }

    /// Allows what is accessible to every command, as far as it exists on this machine.
    fn allow_system_paths(&mut self) -> io::Result<()> {
        for path in PROGRAMS.iter().chain([&PROC]).filter_map(AbsPath::new) {
            self.allow_tree_if_exists(&path)?;
        }
        if let Some(settings) = AbsPath::new("/etc") {
            for name in READABLE_SETTINGS {
                self.allow_tree_if_exists(&settings.join(name))?;
            }
            self.allow_versioned_settings(&settings)?;
        }
        for device in DEVICES {
            if let Ok(handle) = open(*device, PATH_HANDLE, Mode::empty()) {
                self.allow(&handle, PathRights::Device)?;
            }
        }
        if let Ok(handle) = open(
            SHARED_MEMORY,
            PATH_HANDLE | OFlags::DIRECTORY,
            Mode::empty(),
        ) {
            self.allow(&handle, PathRights::Write)?;
        }
        Ok(())
    }

    fn allow_versioned_settings(&mut self, settings: &AbsPath) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(handle) = open(settings.as_path(), flags, Mode::empty()) else {
            return Ok(());
        };
        for name in read_names(&handle)? {
            let has_prefix = |prefix: &&str| name.starts_with(prefix.as_bytes());
            if VERSIONED_SETTINGS.iter().any(has_prefix) {
                self.allow_tree_if_exists(&settings.join(OsStr::from_bytes(&name)))?;
            }
        }
        Ok(())
    }

    /// Allows a tree that massgen chose; its path may be a symlink.
    fn allow_tree_if_exists(&mut self, path: &AbsPath) -> io::Result<()> {
        match open(path.as_path(), PATH_HANDLE, Mode::empty()) {
            Ok(handle) => self.allow_readable_tree(&handle, path),
            Err(_) => Ok(()),
        }
    }

    /// Allows a path that the user granted.
    fn allow_accessible_path(
        &mut self,
        open_path: &AccessiblePath,
        handle: &OwnedFd,
    ) -> io::Result<()> {
        let is_directory = kind(handle)? == FileType::Directory;
        if open_path.scope == GrantScope::File && is_directory {
            return Err(io::Error::other(
                "it was opened as a file and is a directory",
            ));
        }
        match open_path.permission {
            Permission::Write => self.allow(handle, PathRights::Write),
            Permission::Read => self.allow_readable_tree(handle, &open_path.path),
        }
    }

    /// Allows reading a tree, without what is hidden inside.
    fn allow_readable_tree(&mut self, handle: &OwnedFd, path: &AbsPath) -> io::Result<()> {
        if self.hidden.contains(path) {
            return Ok(());
        }
        if !self.hidden.iter().any(|hidden| hidden.is_within(path)) {
            return self.allow(handle, PathRights::Read);
        }
        self.allow(handle, PathRights::List)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(handle, ".", flags, Mode::empty())?;
        for name in read_names(&directory)? {
            self.count_entry()?;
            let entry = openat(
                &directory,
                &name,
                PATH_HANDLE | OFlags::NOFOLLOW,
                Mode::empty(),
            );
            let entry = match entry {
                Ok(entry) if kind(&entry)? != FileType::Symlink => entry,
                // A symlink allows nothing: its target is accessible or not by its own path.
                Ok(_) | Err(Errno::NOENT | Errno::ACCESS) => continue,
                Err(error) => return Err(error.into()),
            };
            self.allow_readable_tree(&entry, &path.join(OsStr::from_bytes(&name)))?;
        }
        Ok(())
    }

    fn count_entry(&mut self) -> io::Result<()> {
        self.entry_count += 1;
        if self.entry_count > ENTRIES_MAX {
            return Err(io::Error::other(format!(
                "something is hidden among more than {ENTRIES_MAX} entries"
            )));
        }
        Ok(())
    }
}

fn kind(handle: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(handle)?.st_mode))
}

/// Lists the names in a directory.
fn read_names(directory: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Directories that hold programs and their libraries, and what programs query about the machine.
pub(crate) const PROGRAMS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/sys/devices/system/cpu",
];
