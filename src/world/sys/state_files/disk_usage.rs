//! Owns the measuring of massgen's own directories: how much they take up, each file once however many
//! names it has. It follows no link, and what cannot be read counts as nothing.
#![expect(clippy::disallowed_methods, reason = "this is where the disk is")]

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use crate::path::AbsPath;

/// How many bytes a block of a file's size on the disk has, whatever the file system's own are.
const BLOCK_BYTES: u64 = 512;

/// Measures directories that may share files.
#[derive(Debug, Default)]
pub(crate) struct DiskUsage {
    /// Files of several names that were counted.
    counted: BTreeSet<(u64, u64)>,
}

impl DiskUsage {
    /// How many bytes on the disk `path` and all below it take up that were not counted before.
    pub(crate) fn bytes(&mut self, path: &AbsPath) -> u64 {
        let mut bytes: u64 = 0;
        let mut left = vec![path.as_path().to_owned()];
        while let Some(path) = left.pop() {
            let Ok(found) = fs::symlink_metadata(&path) else {
                continue;
            };
            let is_new = found.is_dir()
                || found.nlink() < 2
                || self.counted.insert((found.dev(), found.ino()));
            if is_new {
                bytes = bytes.saturating_add(found.blocks().saturating_mul(BLOCK_BYTES));
            }
            if found.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                left.extend(entries.map(|entry: DirEntry| entry.path()));
            }
        }
        bytes
    }
}

/// How long ago `path` itself was last changed; `None` if it is not there.
pub(crate) fn unchanged_for(path: &AbsPath) -> Option<Duration> {
    let changed = fs::symlink_metadata(path.as_path()).ok()?.modified().ok()?;
    Some(
        SystemTime::now()
            .duration_since(changed)
            .unwrap_or_default(),
    )
}
