//! Owns [`SandboxPolicy`]: all that a process which an agent starts may do, as a value. It is made
//! from the same grants as the gate, handed to the helper process that builds the sandbox, and
//! never changed after that. Nothing here touches the machine.

pub mod limits;
pub mod network;
pub mod public;
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

/// What one process, with all that it starts, is held to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// How it is enforced.
    pub tier: SandboxLevel,
    /// What is open, and nothing else of the user's. The deepest one speaks for a path.
    pub open: Vec<AccessiblePath>,
    /// What stood at directories when grants were opened there. Where something else stands now, the
    /// program is not started.
    pub identities: BTreeMap<AbsPath, FileIdentity>,
    /// Existing paths inside writable openings that stay as they are.
    pub masked: Vec<AbsPath>,
    /// Existing paths inside openings that show nothing.
    pub hidden: Vec<AbsPath>,
    /// Openings whose changes go to a layer of their own (tier A).
    pub layers: Vec<OverlayLayer>,
    /// Places outside every grant that toolchains are read from, such as `~/.cargo/bin`. What is
    /// not there is passed over.
    pub toolchains: Vec<AbsPath>,
    /// A private directory, writable, which `HOME` names.
    pub home: AbsPath,
    /// A private directory, writable, which is what `/tmp` shows in tiers A and B, and which `TMPDIR`
    /// names where `/tmp` is the machine's (tier C).
    pub scratch: AbsPath,
    /// The directory that the program begins in.
    pub dir: AbsPath,
    /// What it reaches of the network.
    pub reach: NetworkAccess,
    /// All of its environment.
    pub env: BTreeMap<String, String>,
    /// What it may use up.
    pub limits: ResourceLimits,
    /// The program and its arguments; the program is looked for in `PATH` of `env`, and where
    /// programs usually are.
    pub program: Vec<String>,
}

/// What tells one directory from all others, whatever its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The device that holds it.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// A path that is open to the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessiblePath {
    /// The directory or file. No part of it is a link.
    pub path: AbsPath,
    /// What may be done there.
    pub permission: Permission,
    /// Whether it is a tree or one file.
    pub scope: GrantScope,
}

/// Where the changes to an opening go instead of into it (an overlay).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayLayer {
    /// The opening.
    pub root: AbsPath,
    /// Holds what was changed; it is carried into `root` afterwards, through the gate.
    pub upper: AbsPath,
    /// The kernel's own, on the same file system as `upper`.
    pub work: AbsPath,
}

impl OverlayLayer {
    /// The layer over `root` whose directories are in `place`.
    pub fn new(root: AbsPath, place: &AbsPath) -> Self {
        Self {
            root,
            upper: place.join("upper"),
            work: place.join("work"),
        }
    }
}
