//! Owns which deliveries are kept: the newest, as long as they are not too many and not too large.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::delivery::journal;
use crate::world::delivery::place::{Place, cannot};
use crate::world::delivery::store::names;
use crate::world::sys::dir::Dir;
use crate::world::sys::own::clear;
use crate::world::sys::own::dir::{self, Hold};
use crate::world::sys::own::file;
use crate::world::sys::survey::{Found, Keep, Survey};

/// How many deliveries are kept unless somebody says otherwise.
pub const DELIVERIES_MAX: usize = 100;

/// How much may be kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many deliveries.
    pub count: usize,
    /// How many bytes they take of the disk, all together; any if it is not said.
    pub bytes: Option<u64>,
}

/// Removes the oldest deliveries below `deliveries` until the limits are kept. One that somebody works
/// on, or that is still to be completed or taken back, stays. Gives the names of those that went.
pub fn prune(deliveries: &AbsPath, limits: Limits) -> Result<Vec<String>> {
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
            && let Ok(Hold::Held(_lock)) = dir::hold(&path)
        {
            clear::remove(&path)?;
            gone.push(name);
        }
    }
    Ok(gone)
}

fn is_closed(path: &AbsPath) -> bool {
    let journal = Place(path.clone()).journal();
    file::kind(&journal).is_err() || journal::is_cleared(&journal)
}

fn size(path: &AbsPath) -> Result<u64> {
    let dir = Dir::own(path).map_err(|fault| cannot("open", path, fault))?;
    let survey = Survey::of(&dir, &mut |_: &Found| Keep::Deep);
    let sizes = survey
        .found
        .iter()
        .filter_map(|found| dir.meta(&found.rel).ok());
    Ok(sizes.map(|meta| meta.allocated_bytes).sum())
}
