//! Limits how many deliveries are kept, by number and size; the oldest are removed.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::delivery::delivery_dir::{DeliveryDir, delivery_error};
use crate::world::delivery::journal;
use crate::world::store::delivery_names::list_names;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirLockAttempt};
use crate::world::sys::state_files::file;
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry, TreeListing};

/// The default for the most deliveries that are kept.
pub const DELIVERIES_MAX: usize = 100;

/// Limits on the deliveries that are kept.
#[derive(Clone, Copy, Debug)]
pub struct RetentionLimits {
    /// The most deliveries.
    pub count: usize,
    /// The most disk space that all of them use, in bytes; `None` means no limit.
    pub bytes: Option<u64>,
}

/// Removes the oldest deliveries below `deliveries` that exceed the limits. A delivery that is in
/// use, or that must still be completed or rolled back, stays. Returns the names of the removed
/// ones.
pub fn prune(deliveries: &AbsPath, limits: RetentionLimits) -> Result<Vec<String>> {
    let mut removed_names = Vec::new();
    let mut bytes: u64 = 0;
    for (index, name) in list_names(deliveries)?.into_iter().enumerate() {
        let path = deliveries.join(&name);
        let mut is_over = index >= limits.count;
        if let (false, Some(bytes_max)) = (is_over, limits.bytes) {
            bytes = bytes.saturating_add(size(&path)?);
            is_over = bytes > bytes_max;
        }
        if is_over
            && is_closed(&path)?
            && let Ok(DirLockAttempt::Acquired(_lock)) = dir::try_lock(&path)
        {
            clear::discard(&path)?;
            removed_names.push(name);
        }
    }
    Ok(removed_names)
}

/// Returns whether nothing of the delivery at `path` must still be completed or rolled back.
fn is_closed(path: &AbsPath) -> Result<bool> {
    let journal = DeliveryDir(path.clone()).journal();
    Ok(!file::exists(&journal)? || journal::is_cleared(&journal)?)
}

fn size(path: &AbsPath) -> Result<u64> {
    let dir =
        DirectoryHandle::open_own(path).map_err(|error| delivery_error("open", path, error))?;
    let listing = TreeListing::list(&dir, &mut |_: &ListedEntry| EntrySelection::Deep);
    let sizes = listing.entries.iter().map(|entry| {
        let meta = dir.meta(&entry.rel);
        meta.map(|meta| meta.allocated_bytes)
            .map_err(|error| delivery_error("look at", &path.join(entry.rel.as_path()), error))
    });
    sizes.sum()
}
