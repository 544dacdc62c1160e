//! What an agent has read, written and moved, which writes a person approved, and which names are
//! those of generated files. On this rests the rule that no file is deleted or overwritten unread.
//! The caller reports what happened and to which version of a file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use serde::{Deserialize, Serialize};

use crate::path::{AbsPath, RealPath, RelPath};

/// The identity and state of a file as the kernel reports them; two equal versions have equal
/// content unless someone set the clock back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileFingerprint {
    /// The device that holds the file.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// When its content last changed, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// When its content or metadata last changed, in nanoseconds since 1970; no program can set it.
    pub changed_ns: i128,
}

impl FileFingerprint {
    /// Returns whether this is the same file with the content of `other`; a rename in between
    /// changes only [`FileFingerprint::changed_ns`].
    pub fn has_content_of(&self, other: &FileFingerprint) -> bool {
        let renamed_version = FileFingerprint {
            changed_ns: self.changed_ns,
            ..*other
        };
        *self == renamed_version
    }
}

/// Whether the rule is enforced (`enforce_read_before_delete` in YAML).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBeforeDelete {
    /// Unread files cannot be deleted or overwritten.
    Enforced,
    /// The config disabled the rule, or a single call has no history.
    Off,
}

/// Names of generated files, which may be deleted and overwritten unread.
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

/// Suffixes of the names of other generated files.
const GENERATED_SUFFIXES: &[&str] = &[".pyc", ".pyo", ".egg-info", ".log", ".swp", ".swo", "~"];

/// The files that one agent has read, written, created and moved during a run, and the paths that a
/// person approved.
#[derive(Clone, Debug, Default)]
pub struct AccessHistory {
    /// The versions that the agent last saw.
    seen_versions: BTreeMap<RealPath, FileFingerprint>,
    /// The versions in which the agent itself left files.
    own_versions: BTreeMap<RealPath, FileFingerprint>,
    /// The user's versions that the agent's copies in an overlay started from.
    base_versions: BTreeMap<RealPath, FileFingerprint>,
    /// Paths that the agent moved without having seen their content.
    moved_unread: BTreeSet<RealPath>,
    /// Paths for which a person approved a write.
    approved_paths: BTreeSet<RealPath>,
}

impl AccessHistory {
    /// Records that a person approved a call that writes to `path`.
    pub fn record_approval(&mut self, path: RealPath) {
        self.approved_paths.insert(path);
    }

    /// Returns the paths for which a person approved a write.
    pub fn approved_paths(&self) -> Vec<AbsPath> {
        self.approved_paths.iter().map(RealPath::to_abs).collect()
    }

    /// Records that the agent has read `path` in this version.
    pub fn record_read(&mut self, path: RealPath, version: FileFingerprint) {
        self.moved_unread.remove(&path);
        self.seen_versions.insert(path, version);
    }

    /// Records that the agent has created or replaced `path`, which is now in this version.
    pub fn record_write(&mut self, path: RealPath, version: FileFingerprint) {
        self.own_versions.insert(path.clone(), version);
        self.record_read(path, version);
    }

    /// Records that a call moved a file that the agent had not seen to `path`.
    pub fn record_unread_move(&mut self, path: RealPath) {
        self.moved_unread.insert(path);
    }

    /// Records the user's version that the agent's copy of `path` in an overlay started from.
    pub fn record_base(&mut self, path: RealPath, version: FileFingerprint) {
        self.base_versions.insert(path, version);
    }

    /// Returns the user's version that the agent's copy of `path` in an overlay started from, if
    /// known.
    pub fn base_version(&self, path: &RealPath) -> Option<FileFingerprint> {
        self.base_versions.get(path).copied()
    }

    /// Records that `path` and everything below it was removed.
    pub fn record_removal(&mut self, path: &RealPath) {
        for versions in [&mut self.seen_versions, &mut self.own_versions] {
            versions.retain(|known, _| !known.is_within(path));
        }
        self.moved_unread.retain(|known| !known.is_within(path));
    }

    /// Records that `from` and everything below it was moved to `to`.
    pub fn record_move(&mut self, from: &RealPath, to: &RealPath) {
        for versions in [&mut self.seen_versions, &mut self.own_versions] {
            let moved_versions: Vec<(RealPath, FileFingerprint)> = versions
                .iter()
                .filter_map(|(path, version)| Some((to.join(&path.below(from)?), *version)))
                .collect();
            versions.retain(|path, _| !path.is_within(from));
            versions.extend(moved_versions);
        }
        let unread_paths = self.moved_unread.iter();
        let moved_paths: Vec<RealPath> = unread_paths
            .filter_map(|path| Some(to.join(&path.below(from)?)))
            .collect();
        self.moved_unread.retain(|path| !path.is_within(from));
        self.moved_unread.extend(moved_paths);
    }

    /// Returns the version in which the agent itself last left `path`; it may have been changed
    /// since.
    pub fn own_version(&self, path: &RealPath) -> Option<FileFingerprint> {
        self.own_versions.get(path).copied()
    }

    /// Returns the version of `path` that the agent last saw or made.
    pub fn known_version(&self, path: &RealPath) -> Option<FileFingerprint> {
        self.seen_versions.get(path).copied()
    }

    /// Returns whether the agent made `path` itself or has read it.
    pub fn knows_content(&self, path: &RealPath) -> bool {
        let is_known =
            self.own_versions.contains_key(path) || self.seen_versions.contains_key(path);
        is_known && !self.moved_unread.contains(path)
    }
}

/// Returns whether a file is generated, judging only by the names below its grant's root.
pub fn is_generated(rel: &RelPath) -> bool {
    let is_generated_name = |name: &OsStr| {
        let name = name.to_string_lossy();
        GENERATED_NAMES.contains(&name.as_ref())
            || GENERATED_SUFFIXES
                .iter()
                .any(|suffix| name.ends_with(suffix))
    };
    rel.names().any(is_generated_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "paths in tests need not exist")]
    fn real(path: &str) -> RealPath {
        RealPath::vouch(path)
    }

    fn version(inode: u64) -> FileFingerprint {
        FileFingerprint {
            device: 1,
            inode,
            size_bytes: 1,
            modified_ns: 0,
            changed_ns: 0,
        }
    }

    #[test]
    fn files_that_were_read_or_created_may_be_deleted() {
        let mut history = AccessHistory::default();
        history.record_read(real("/w/read"), version(1));
        history.record_write(real("/w/made"), version(2));
        assert!(history.knows_content(&real("/w/read")));
        assert!(history.knows_content(&real("/w/made")));
        assert!(!history.knows_content(&real("/w/other")));
        history.record_removal(&real("/w"));
        assert!(!history.knows_content(&real("/w/read")));
    }

    #[test]
    fn a_file_is_ours_only_in_the_version_that_we_left() {
        let mut history = AccessHistory::default();
        history.record_write(real("/w/a"), version(1));
        history.record_read(real("/w/a"), version(2));
        assert_eq!(history.own_version(&real("/w/a")), Some(version(1)));
        assert_eq!(history.known_version(&real("/w/a")), Some(version(2)));
        assert_eq!(history.own_version(&real("/w/b")), None);
    }

    #[test]
    fn the_known_version_moves_with_the_file() {
        let mut history = AccessHistory::default();
        history.record_write(real("/w/d/a"), version(1));
        history.record_read(real("/w/e"), version(2));
        history.record_move(&real("/w/d"), &real("/w/new"));
        assert_eq!(history.own_version(&real("/w/new/a")), Some(version(1)));
        assert_eq!(history.known_version(&real("/w/d/a")), None);
        assert_eq!(history.known_version(&real("/w/e")), Some(version(2)));
    }

    #[test]
    fn a_file_that_was_moved_unread_is_known_after_it_is_read() {
        let mut history = AccessHistory::default();
        history.record_write(real("/w/d/a"), version(1));
        history.record_unread_move(real("/w/d/a"));
        history.record_move(&real("/w/d"), &real("/w/new"));
        assert!(!history.knows_content(&real("/w/new/a")));
        assert_eq!(history.own_version(&real("/w/new/a")), Some(version(1)));
        history.record_read(real("/w/new/a"), version(1));
        assert!(history.knows_content(&real("/w/new/a")));
    }

    #[test]
    fn generated_files_are_known_by_their_names() {
        let check = |path: &str, expected: bool| {
            assert_eq!(
                is_generated(&RelPath::new(path).unwrap()),
                expected,
                "{path}"
            );
        };
        check("target/debug/a", true);
        check("a/b.pyc", true);
        check("run.log", true);
        check("src/target.rs", false);
        check("builder/a", false);
        check("", false);
    }
}
