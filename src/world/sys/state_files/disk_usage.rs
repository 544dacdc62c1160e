//! Measures massgen's own directories: how much disk space they use, counting each file once
//! however many hard links it has. It follows no symlink, and counts unreadable entries as nothing.
#![expect(clippy::disallowed_methods, reason = "only world::sys touches files")]

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use crate::path::AbsPath;

/// The unit of a file's block count, whatever the file system's own block size.
const BLOCK_BYTES: u64 = 512;

/// Measures directories that may share files.
#[derive(Debug, Default)]
pub(crate) struct DiskUsage {
    /// Files with several hard links that were counted already.
    counted_files: BTreeSet<(u64, u64)>,
}

impl DiskUsage {
    /// Returns how many bytes on the disk `path` and everything below it use that were not counted
    /// before.
    pub(crate) fn bytes(&mut self, path: &AbsPath) -> u64 {
        let mut bytes: u64 = 0;
        let mut paths_left = vec![path.as_path().to_owned()];
        while let Some(path) = paths_left.pop() {
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            let is_new = metadata.is_dir()
                || metadata.nlink() < 2
                || self.counted_files.insert((metadata.dev(), metadata.ino()));
            if is_new {
                bytes = bytes.saturating_add(metadata.blocks().saturating_mul(BLOCK_BYTES));
            }
            if metadata.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                paths_left.extend(entries.map(|entry: DirEntry| entry.path()));
            }
        }
        bytes
    }
}

/// Returns how long ago `path` itself was last modified; `None` if it does not exist.
pub(crate) fn unchanged_for(path: &AbsPath) -> Option<Duration> {
    let modified = fs::symlink_metadata(path.as_path()).ok()?.modified().ok()?;
    Some(
        SystemTime::now()
            .duration_since(modified)
            .unwrap_or_default(),
    )
}
