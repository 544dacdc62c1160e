//! Owns what an agent has seen and made, and with it the rule that nothing is deleted or
//! overwritten unread. Pure: the caller says what happened and which version of a file it was.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use crate::path::{RealPath, RelPath};

/// A file's identity and state as the kernel reports them; two equal versions have equal content
/// unless someone set the clock back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The device that holds the file.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// When its content last changed, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// When its content or metadata last changed, in nanoseconds since 1970; nobody can set it.
    pub changed_ns: i128,
}

impl Version {
    /// Whether this is the same file with the content of `other`; a rename in between changes only
    /// [`Version::changed_ns`].
    pub fn has_content_of(&self, other: &Version) -> bool {
        let renamed = Version {
            changed_ns: self.changed_ns,
            ..*other
        };
        *self == renamed
    }
}

/// Whether the rule is on (`enforce_read_before_delete` in YAML).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBeforeDelete {
    /// Unread files may not be deleted or overwritten.
    Enforced,
    /// The config switched the rule off, or a single call has no history.
    Off,
}

/// Names that tools generate; they may be deleted and overwritten unread.
const GENERATED_NAMES: &[&str] = &[
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".coverage",
    ".tox",
    ".nox",
    "node_modules",
    ".next",
    ".nuxt",
    "dist",
    "build",
    "target",
    ".DS_Store",
    "Thumbs.db",
];
const GENERATED_SUFFIXES: &[&str] = &[".pyc", ".pyo", ".egg-info", ".log", ".swp", ".swo", "~"];

/// What one agent has read, written and made during a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    seen: BTreeMap<RealPath, Version>,
    made: BTreeMap<RealPath, Version>,
}

impl History {
    /// Notes that the agent has read `path` in this version.
    pub fn read(&mut self, path: RealPath, version: Version) {
        self.seen.insert(path, version);
    }

    /// Notes that the agent has created or replaced `path`, which now is in this version.
    pub fn wrote(&mut self, path: RealPath, version: Version) {
        self.made.insert(path.clone(), version);
        self.seen.insert(path, version);
    }

    /// Notes that `path`, and all below it, is gone.
    pub fn removed(&mut self, path: &RealPath) {
        self.seen.retain(|seen, _| !seen.is_within(path));
        self.made.retain(|made, _| !made.is_within(path));
    }

    /// Notes that what was at `from` is at `to` now, with all below it.
    pub fn moved(&mut self, from: &RealPath, to: &RealPath) {
        for versions in [&mut self.seen, &mut self.made] {
            let moved: Vec<(RealPath, Version)> = versions
                .iter()
                .filter_map(|(path, version)| Some((to.join(&path.below(from)?), *version)))
                .collect();
            versions.retain(|path, _| !path.is_within(from));
            versions.extend(moved);
        }
    }

    /// The version in which the agent itself last left `path`; someone may have changed it since.
    pub fn made(&self, path: &RealPath) -> Option<Version> {
        self.made.get(path).copied()
    }

    /// The version of `path` that the agent last saw or made.
    pub fn known(&self, path: &RealPath) -> Option<Version> {
        self.seen.get(path).copied()
    }

    /// Whether the agent made `path` itself, or read it.
    pub fn may_destroy(&self, path: &RealPath) -> bool {
        self.made.contains_key(path) || self.seen.contains_key(path)
    }
}

/// Whether a file is generated, judged only by the names below its grant's root.
pub fn is_generated(rel: &RelPath) -> bool {
    let named = |name: &OsStr| {
        let name = name.to_string_lossy();
        GENERATED_NAMES.contains(&name.as_ref())
            || GENERATED_SUFFIXES
                .iter()
                .any(|suffix| name.ends_with(suffix))
    };
    rel.names().any(named)
}
