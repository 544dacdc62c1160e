//! [`SandboxPolicy`]: everything that a process started by an agent may do, as a value. It is
//! compiled from the same grants that the gate uses, passed to the helper process that builds the
//! sandbox, and never changed afterwards. Nothing here touches the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::path::AbsPath;
use crate::permissions::domains::{DomainPattern, HostName};
use crate::permissions::grant::{GrantScope, Permission};
use crate::sandbox_policy::sandbox_level::SandboxLevel;

pub mod public;
pub mod helper_protocol;
pub mod sandbox_level;
pub mod toolchains;
pub mod environment;
pub mod compile;

/// The restrictions on one process and everything that it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// The level at which it is enforced.
    pub level: SandboxLevel,
    /// The accessible paths; nothing else of the user is accessible. The deepest one applies to a
    /// path.
    pub open: Vec<AccessiblePath>,
    /// The identity of each directory when grants were opened there. If another directory has
    /// replaced one, the program is not started.
    pub identities: BTreeMap<AbsPath, FileIdentity>,
    /// Existing paths inside writable paths that stay read-only.
    pub masked: Vec<AbsPath>,
    /// Existing paths inside accessible paths that are hidden.
    pub hidden: Vec<AbsPath>,
    /// Overlay layers that receive changes (level `overlay`).
    pub layers: Vec<OverlayLayer>,
    /// Paths outside every grant that toolchains are read from, such as `~/.cargo/bin`. Missing
    /// ones are skipped.
    pub toolchains: Vec<AbsPath>,
    /// A private, writable directory, set as `HOME`.
    pub home: AbsPath,
    /// A private, writable directory, mounted at `/tmp` at levels `overlay` and `namespaces`, and
    /// set as `TMPDIR` where `/tmp` is the machine's (level `landlock`).
    pub scratch: AbsPath,
    /// The working directory.
    pub dir: AbsPath,
    /// The network access.
    pub network: NetworkAccess,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// The resource limits.
    pub limits: ResourceLimits,
    /// The program and its arguments; the program is searched for in `PATH` of `env` and in the
    /// usual directories.
    pub program: Vec<String>,
}

/// The identity of a directory, independent of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The device that holds it.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
}

/// A path that is accessible to the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessiblePath {
    /// The directory or file. No component of it is a symlink.
    pub path: AbsPath,
    /// The permission.
    pub permission: Permission,
    /// Whether it is a tree or one file.
    pub scope: GrantScope,
}

/// An overlay that receives changes instead of the writable path itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayLayer {
    /// The writable path.
    pub root: AbsPath,
    /// The upper directory, which holds the changes; they are applied to `root` afterwards, through
    /// the gate.
    pub upper: AbsPath,
    /// The kernel's work directory, on the same file system as `upper`.
    pub work: AbsPath,
    /// A read-only layer between `root` and `upper`, if there is one.
    pub between: Option<AbsPath>,
}

impl OverlayLayer {
    /// Returns the layer over `root` whose directories are in `dir`.
    pub fn new(root: AbsPath, dir: &AbsPath) -> Self {
        Self {
            root,
            upper: dir.join("upper"),
            work: dir.join("work"),
            between: None,
        }
    }
}

/// The resources that one command may use, including all processes that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Memory of all its processes, in bytes; `None` is unlimited.
    pub memory_bytes: Option<u64>,
    /// Number of processes and threads at the same time.
    pub processes: u64,
    /// The longest file that it may write, in bytes.
    pub file_bytes: u64,
    /// CPU time of each process, in seconds; `None` is unlimited.
    pub cpu_seconds: Option<u64>,
    /// Open file descriptors of each process. The kernel counts the descriptors that all of the
    /// user's processes have in flight over Unix sockets together, and lets a process send none
    /// while there are more than this limit of its own. The limit is therefore below 1024, the
    /// usual one of the user's other programs.
    pub open_files: u64,
    /// Free space to keep on the disk that it writes to, in bytes; with less it is killed.
    pub disk_free_bytes: u64,
    /// Free inodes to keep on that file system; with fewer the command is killed. On a small file
    /// system, a fraction of its inodes is enough.
    pub disk_free_files: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            processes: 1024,
            file_bytes: 4 * 1024 * 1024 * 1024,
            cpu_seconds: None,
            open_files: 512,
            disk_free_bytes: 256 * 1024 * 1024,
            disk_free_files: 16 * 1024,
        }
    }
}

/// The network access that the user allows (`command_line_network`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkPolicy {
    /// Only the sandbox's own loopback.
    #[default]
    Off,
    /// Everything that massgen itself can reach.
    On,
    /// Hosts of these domains, through a proxy that resolves and checks names.
    Domains(Vec<DomainPattern>),
}

impl NetworkPolicy {
    /// Returns whether it allows this host.
    pub fn allows(&self, host: &HostName) -> bool {
        match self {
            NetworkPolicy::Off => false,
            NetworkPolicy::On => true,
            NetworkPolicy::Domains(domains) => domains.iter().any(|domain| domain.matches(host)),
        }
    }
}

/// The network access that the sandbox is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkAccess {
    /// No network.
    None,
    /// The machine's network.
    Host,
    /// Only massgen's proxy. At levels `overlay` and `namespaces` the sandbox opens a listening
    /// socket on its own loopback and passes it to massgen, which serves it; at level `landlock`
    /// the process may connect to this port of the machine's loopback.
    Proxy {
        /// The port of the proxy, on 127.0.0.1 of the sandbox or of the machine.
        port: u16,
    },
}

/// The directory of the machine's settings.
pub const SETTINGS_DIRECTORY: &str = "/etc";

/// The settings that are closed to other users, as they were when they were searched for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestrictedFiles {
    /// Their paths, a directory before its content, or why they are not known.
    paths: Result<Vec<AbsPath>, String>,
}

impl RestrictedFiles {
    /// Creates it from the result of the search.
    pub fn new(paths: Result<Vec<AbsPath>, String>) -> Self {
        Self { paths }
    }

    /// Returns why they are not known.
    pub fn error(&self) -> Option<&str> {
        self.paths.as_ref().err().map(String::as_str)
    }

    /// Returns what is hidden from a command with this `policy`. Paths that the user opened and
    /// their parents are left out.
    ///
    /// # Errors
    /// Why they are not known.
    pub fn hidden_from(&self, policy: &SandboxPolicy) -> Result<Vec<&AbsPath>, String> {
        let paths = self.paths.as_ref().map_err(String::clone)?;
        let is_open = |path: &&AbsPath| {
            let mut roots = policy.open.iter().map(|open_path| &open_path.path);
            roots.any(|root| path.is_within(root) || root.is_within(path))
        };
        Ok(paths.iter().filter(|path| !is_open(path)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::permissions::grant::{GrantScope, Permission};
    use crate::sandbox_policy::sandbox_level::SandboxLevel;
    use crate::sandbox_policy::{AccessiblePath, NetworkAccess, ResourceLimits};

    fn paths(paths: &[&str]) -> Vec<AbsPath> {
        let paths = paths.iter().map(|path| AbsPath::new(path).unwrap());
        paths.collect()
    }

    fn policy(open: &[&str]) -> SandboxPolicy {
        let root = AbsPath::root();
        let open_path = |path| AccessiblePath {
            path,
            permission: Permission::Read,
            scope: GrantScope::Tree,
        };
        SandboxPolicy {
            level: SandboxLevel::Namespaces,
            open: paths(open).into_iter().map(open_path).collect(),
            identities: BTreeMap::new(),
            masked: Vec::new(),
            hidden: Vec::new(),
            layers: Vec::new(),
            toolchains: Vec::new(),
            home: root.clone(),
            scratch: root.clone(),
            dir: root,
            network: NetworkAccess::None,
            env: BTreeMap::new(),
            limits: ResourceLimits::default(),
            program: Vec::new(),
        }
    }

    #[track_caller]
    fn check(open: &[&str], hidden: &[&str]) {
        let restricted = ["/etc/a", "/etc/a/b", "/etc/a/c", "/etc/d"];
        let restricted = RestrictedFiles::new(Ok(paths(&restricted)));
        let hidden_paths = restricted.hidden_from(&policy(open)).unwrap();
        let expected = paths(hidden);
        assert_eq!(
            hidden_paths,
            expected.iter().collect::<Vec<_>>(),
            "{open:?}"
        );
    }

    #[test]
    fn restricted_files_that_the_user_opened_are_not_hidden() {
        check(&[], &["/etc/a", "/etc/a/b", "/etc/a/c", "/etc/d"]);
        check(
            &["/home", "/etc/ab"],
            &["/etc/a", "/etc/a/b", "/etc/a/c", "/etc/d"],
        );
        check(&["/etc/a"], &["/etc/d"]);
        check(&["/etc/a/b/x"], &["/etc/a/c", "/etc/d"]);
        check(&["/etc"], &[]);
    }

    #[test]
    fn an_unknown_list_of_restricted_files_is_an_error() {
        let unknown = RestrictedFiles::new(Err("too many".to_owned()));
        assert_eq!(
            unknown.hidden_from(&policy(&["/etc"])),
            Err("too many".to_owned())
        );
    }
}
