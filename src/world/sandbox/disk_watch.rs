//! Owns the watch over the disks that a command writes to. No limit of a process can keep a disk
//! from being filled by many files, so it is ended before that.

use std::time::Duration;

use crate::confinement::Confinement;
use crate::confinement::limits::Limits;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::sys::trial;

/// The fastest that a disk is thought to be filled, in bytes per second.
const FILLED_BYTES_PER_SECOND: u64 = 4 * 1024 * 1024 * 1024;
/// The shortest time between two looks.
const LOOK_MIN: Duration = Duration::from_millis(20);
/// The longest time between two looks.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Looks how much is free where a command writes.
#[derive(Clone, Debug)]
pub(in crate::world) struct DiskWatch {
    places: Vec<AbsPath>,
    free_bytes_min: u64,
}

/// What a look shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum Look {
    /// Too little is free.
    Full,
    /// Enough is free; look again after this time.
    Free(Duration),
}

impl DiskWatch {
    /// Watches the places that `confinement` lets its program write to.
    pub(super) fn over(confinement: &Confinement) -> Self {
        let layer = |root: &AbsPath| {
            let mut layers = confinement.layers.iter();
            layers.find(|layer| layer.root == *root)
        };
        let writable = confinement.open.iter();
        let writable = writable.filter(|opening| opening.permission == Permission::Write);
        let written = writable.map(|opening| match layer(&opening.path) {
            Some(layer) => layer.upper.clone(),
            None => opening.path.clone(),
        });
        let own = [confinement.home.clone(), confinement.scratch.clone()];
        Self::of(written.chain(own).collect(), &confinement.limits)
    }

    /// Watches these places.
    pub(in crate::world) fn of(places: Vec<AbsPath>, limits: &Limits) -> Self {
        Self {
            places,
            free_bytes_min: limits.disk_free_bytes,
        }
    }

    /// Looks at all places. One that cannot be looked at counts as free.
    pub(in crate::world) fn look(&self) -> Look {
        let rooms = self
            .places
            .iter()
            .filter_map(|place| trial::room(place).ok());
        let free = rooms.map(|room| room.free_bytes).min();
        match free.unwrap_or(u64::MAX).checked_sub(self.free_bytes_min) {
            None => Look::Full,
            Some(above) => Look::Free(time_to_fill(above).clamp(LOOK_MIN, LOOK_MAX)),
        }
    }
}

fn time_to_fill(bytes: u64) -> Duration {
    Duration::from_millis(bytes / (FILLED_BYTES_PER_SECOND / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_looked_at_more_often_when_it_gets_full() {
        let look = |free_bytes_min| {
            let places = vec![
                AbsPath::new("/").unwrap(),
                AbsPath::new("/nowhere").unwrap(),
            ];
            DiskWatch {
                places,
                free_bytes_min,
            }
            .look()
        };
        assert_eq!(look(u64::MAX), Look::Full);
        assert!(matches!(look(0), Look::Free(_)));
        assert_eq!(
            time_to_fill(FILLED_BYTES_PER_SECOND / 2),
            Duration::from_millis(500)
        );
        assert_eq!(time_to_fill(0), Duration::ZERO);
    }
}
