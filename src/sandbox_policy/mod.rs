//! [`SandboxPolicy`]: everything that a process started by an agent may do, as a value. It is
//! compiled from the same grants that the gate uses, passed to the helper process that builds the
//! sandbox, and never changed afterwards. Nothing here touches the machine.

pub mod limits;
pub mod network;
pub mod public;
pub mod restricted_files;
pub mod helper_protocol;
pub mod sandbox_level;
pub mod toolchains;
pub mod environment;
pub mod compile;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::path::AbsPath;
use crate::permissions::grant::{GrantScope, Permission};
use crate::sandbox_policy::limits::ResourceLimits;
use crate::sandbox_policy::network::NetworkAccess;
use crate::sandbox_policy::sandbox_level::SandboxLevel;

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
