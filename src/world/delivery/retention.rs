//! Owns which deliveries are kept: the newest, as long as they are not too many and not too large.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::delivery::delivery_dir::{DeliveryDir, delivery_error};
use crate::world::delivery::journal;
use crate::world::store::delivery_names::names;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirLockAttempt};
use crate::world::sys::state_files::file;
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry, TreeListing};

/// How many deliveries are kept unless somebody says otherwise.
pub const DELIVERIES_MAX: usize = 100;

/// How much may be kept.
#[derive(Clone, Copy, Debug)]
pub struct RetentionLimits {
    /// How many deliveries.
    pub count: usize,
    /// How many bytes they take of the disk, all together; any if it is not said.
    pub bytes: Option<u64>,
}

/// Removes the oldest deliveries below `deliveries` until the limits are kept. One that somebody works
/// on, or that is still to be completed or taken back, stays. Gives the names of those that went.
pub fn prune(deliveries: &AbsPath, limits: RetentionLimits) -> Result<Vec<String>> {
    let mut gone = Vec::new();
    let mut bytes: u64 = 0;
    for (place, name) in names(deliveries)?.into_iter().enumerate() {
        let path = deliveries.join(&name);
        let mut is_over = place >= limits.count;
        if let (false, Some(bytes_max)) = (is_over, limits.bytes) {
            bytes = bytes.saturating_add(size(&path)?);
            is_over = bytes > bytes_max;
        }
        if is_over
            && is_closed(&path)
            && let Ok(DirLockAttempt::Acquired(_lock)) = dir::try_lock(&path)
        {
            clear::remove(&path)?;
            gone.push(name);
        }
    }
    Ok(gone)
}

fn is_closed(path: &AbsPath) -> bool {
    let journal = DeliveryDir(path.clone()).journal();
    file::kind(&journal).is_err() || journal::is_cleared(&journal)
}

fn size(path: &AbsPath) -> Result<u64> {
    let dir =
        DirectoryHandle::open_own(path).map_err(|fault| delivery_error("open", path, fault))?;
    let survey = TreeListing::list(&dir, &mut |_: &ListedEntry| EntrySelection::Deep);
    let sizes = survey
        .found
        .iter()
        .filter_map(|found| dir.meta(&found.rel).ok());
    Ok(sizes.map(|meta| meta.allocated_bytes).sum())
}
