//! Watches the free space of the disks that agents write to. No resource limit can keep many files
//! from filling a disk, with bytes or by their number, so a command is killed before that, and a
//! write of a file tool is refused.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::sandbox_policy::{ResourceLimits, SandboxPolicy};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::file_system_features::{self, FileSystemSpace, InodeSpace};

/// Highest assumed rate at which a disk is filled, in bytes per second.
const FILLED_BYTES_PER_SECOND: u64 = 4 * 1024 * 1024 * 1024;
/// Highest assumed rate at which files are created, in files per second.
const FILES_PER_SECOND: u64 = 500_000;
/// Denominator of the largest share of a file system that is reserved, of its inodes and, for file
/// tools, of its bytes, so that a small file system needs less than
/// [`ResourceLimits::disk_free_files`] and [`ResourceLimits::disk_free_bytes`].
const RESERVED_DENOMINATOR: u64 = 4;
/// Shortest interval between two checks.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// Longest interval between two checks.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Checks the free space where a command writes.
#[derive(Clone, Debug)]
pub(in crate::world) struct DiskWatch {
    paths: Vec<AbsPath>,
    free_bytes_min: u64,
    free_files_min: u64,
}

/// What a disk is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskShortage {
    /// Space for the content of files.
    Bytes,
    /// Space for more files (inodes).
    Files,
}

impl fmt::Display for DiskShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DiskShortage::Bytes => "the disk was nearly full",
            DiskShortage::Files => "the disk had room for only a few more files (inodes)",
        })
    }
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum DiskStatus {
    /// Too little is free.
    Full(DiskShortage),
    /// Enough is free; check again after this time.
    Free(Duration),
}

/// The space that the file tools of a run leave free on every disk for the records of runs.
#[derive(Clone, Debug, Default)]
pub struct DiskReserve {
    was_met: Arc<AtomicBool>,
}

impl DiskReserve {
    /// Checks that `bytes` more, in one more file, fit into the disk of `dir` above the reserve.
    pub(in crate::world) fn expect_room(
        &self,
        dir: &DirectoryHandle,
        bytes: u64,
    ) -> Result<(), FileSystemError> {
        let dir = dir.real_path()?.to_abs();
        let space = file_system_features::file_system_space(&dir)?;
        let space_left = FileSystemSpace {
            free_bytes: space.free_bytes.saturating_sub(bytes),
            files: space.files.map(|files| InodeSpace {
                free: files.free.saturating_sub(1),
                ..files
            }),
            ..space
        };
        let limits = ResourceLimits::default();
        let share = space.all_bytes / RESERVED_DENOMINATOR;
        let watch = DiskWatch {
            free_bytes_min: limits.disk_free_bytes.min(share),
            ..DiskWatch::new(Vec::new(), &limits)
        };
        watch.time_to_fill(space_left).map(drop).map_err(|_| {
            self.was_met.store(true, Ordering::Relaxed);
            let reason = "the disk is nearly full: the rest is reserved for massgen's records";
            FileSystemError::Limit(reason)
        })
    }

    /// Returns whether a write was refused.
    pub fn was_met(&self) -> bool {
        self.was_met.load(Ordering::Relaxed)
    }
}

impl DiskWatch {
    /// Watches the paths that `policy` lets its program write to.
    pub(super) fn for_policy(policy: &SandboxPolicy) -> Self {
        let layer = |root: &AbsPath| {
            let mut layers = policy.layers.iter();
            layers.find(|layer| layer.root == *root)
        };
        let writable_paths = policy
            .open
            .iter()
            .filter(|open_path| open_path.permission == Permission::Write);
        let written_paths = writable_paths.map(|open_path| match layer(&open_path.path) {
            Some(layer) => layer.upper.clone(),
            None => open_path.path.clone(),
        });
        let own_directories = [policy.home.clone(), policy.scratch.clone()];
        Self::new(
            written_paths.chain(own_directories).collect(),
            &policy.limits,
        )
    }

    /// Watches these paths.
    pub(in crate::world) fn new(paths: Vec<AbsPath>, limits: &ResourceLimits) -> Self {
        Self {
            paths,
            free_bytes_min: limits.disk_free_bytes,
            free_files_min: limits.disk_free_files,
        }
    }

    /// Checks all paths. A path that cannot be checked counts as free.
    pub(in crate::world) fn check(&self) -> DiskStatus {
        let spaces = self
            .paths
            .iter()
            .filter_map(|path| file_system_features::file_system_space(path).ok());
        let mut pause = CHECK_INTERVAL_MAX;
        for space in spaces {
            match self.time_to_fill(space) {
                Ok(time) => pause = pause.min(time),
                Err(shortage) => return DiskStatus::Full(shortage),
            }
        }
        DiskStatus::Free(pause.max(CHECK_INTERVAL_MIN))
    }

    /// Returns how soon a file system with this free space may be full.
    fn time_to_fill(&self, space: FileSystemSpace) -> Result<Duration, DiskShortage> {
        let usable_bytes = space.free_bytes.checked_sub(self.free_bytes_min);
        let time_for_bytes = time_until_used(
            usable_bytes.ok_or(DiskShortage::Bytes)?,
            FILLED_BYTES_PER_SECOND,
        );
        let Some(files) = space.files else {
            return Ok(time_for_bytes);
        };
        let reserve = self.free_files_min.min(files.all / RESERVED_DENOMINATOR);
        let usable = files.free.checked_sub(reserve).ok_or(DiskShortage::Files)?;
        Ok(time_for_bytes.min(time_until_used(usable, FILES_PER_SECOND)))
    }
}

/// Returns how long it takes to use up `amount` at the rate `per_second`.
fn time_until_used(amount: u64, per_second: u64) -> Duration {
    Duration::from_millis(amount / (per_second / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(free_bytes_min: u64, free_files_min: u64) -> DiskWatch {
        let paths = ["/", "/nowhere"].map(|path| AbsPath::new(path).unwrap());
        DiskWatch {
            paths: paths.to_vec(),
            free_bytes_min,
            free_files_min,
        }
    }

    #[test]
    fn a_disk_is_checked_more_often_as_it_fills() {
        assert_eq!(
            watch(u64::MAX, 0).check(),
            DiskStatus::Full(DiskShortage::Bytes)
        );
        assert!(matches!(watch(0, 0).check(), DiskStatus::Free(_)));
        let half = FILLED_BYTES_PER_SECOND / 2;
        assert_eq!(
            time_until_used(half, FILLED_BYTES_PER_SECOND),
            Duration::from_millis(500)
        );
        assert_eq!(time_until_used(0, FILLED_BYTES_PER_SECOND), Duration::ZERO);
    }

    #[test]
    fn files_are_counted_as_well_as_bytes() {
        #[track_caller]
        fn check(files: Option<(u64, u64)>, expected: Result<Duration, DiskShortage>) {
            let space = FileSystemSpace {
                free_bytes: u64::MAX,
                all_bytes: u64::MAX,
                files: files.map(|(free, all)| InodeSpace { free, all }),
                magic: 0,
            };
            assert_eq!(watch(0, 1000).time_to_fill(space), expected, "{files:?}");
        }
        let long = time_until_used(u64::MAX, FILLED_BYTES_PER_SECOND);
        check(None, Ok(long));
        check(Some((999, 1_000_000)), Err(DiskShortage::Files));
        check(Some((1000, 1_000_000)), Ok(Duration::ZERO));
        let second = Duration::from_secs(1);
        check(Some((1000 + FILES_PER_SECOND, 1_000_000)), Ok(second));
        // A small file system cannot keep a thousand files free.
        check(Some((499, 2000)), Err(DiskShortage::Files));
        check(Some((500, 2000)), Ok(Duration::ZERO));
    }
}
