//! The parts in which a run or a pipeline delivered: each is a delivery that is reverted alone.

use crate::error::{ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::delivery::planning::EarlierFiles;
use crate::world::delivery::store::{OpenDelivery, used_deliveries};
use crate::world::delivery::undo::{AppliedDelivery, DeliveredState};
use crate::world::store::delivery_names::{names_of, names_of_pipeline, pipeline_of, run_of};
use crate::world::store::pipelines;

/// Returns the names of the deliveries of the run or pipeline `name` that offered or applied
/// something, newest first.
pub(crate) fn parts_of(name: &str, deliveries: &AbsPath) -> Result<Vec<String>> {
    let names = if pipelines::is_name(name) {
        names_of_pipeline(pipelines::short_name(name), deliveries)?
    } else {
        names_of(name, deliveries)?
    };
    used_deliveries(names, deliveries)
}

/// Returns the newest delivery of the run or pipeline `name` that can be reverted, or else its
/// newest one; `None` if it delivered nothing.
pub(super) fn newest_part(name: &str, deliveries: &AbsPath) -> Result<Option<String>> {
    let parts = parts_of(name, deliveries)?;
    let applied_part = revertible_parts(&parts, deliveries)?.into_iter().next();
    Ok(applied_part.or_else(|| parts.into_iter().next()))
}

/// Returns the names of the deliveries that the same run or pipeline made before `delivery`, newest
/// first.
pub(super) fn earlier_parts(delivery: &str, deliveries: &AbsPath) -> Result<Vec<String>> {
    let parts = match pipeline_of(delivery) {
        Some(pipeline) => names_of_pipeline(pipeline, deliveries)?,
        None => parts_of(run_of(delivery), deliveries)?,
    };
    let tail = parts
        .into_iter()
        .skip_while(|part| part.as_str() != delivery);
    Ok(tail.skip(1).collect())
}

/// Returns those of `parts`, newest first, that can be reverted one after the other: the first has
/// paths that are as it delivered them, the others may have such paths once the later ones are
/// reverted. Leaves out a damaged part; the attempt to revert it reports why.
pub(crate) fn revertible_parts(parts: &[String], deliveries: &AbsPath) -> Result<Vec<String>> {
    let mut revertible_parts = Vec::new();
    for part in parts {
        let Some(delivered) = open_applied(part, deliveries)? else {
            continue;
        };
        let is_earlier = !revertible_parts.is_empty() && delivered.is_in_effect();
        if is_earlier || delivered.is_applied() {
            revertible_parts.push(part.clone());
        }
    }
    Ok(revertible_parts)
}

/// Returns the files that the deliveries of the run of `delivery` changed. A damaged delivery counts
/// as none.
pub(crate) fn earlier_files(delivery: &str, deliveries: &AbsPath) -> Result<EarlierFiles> {
    let mut files = EarlierFiles::default();
    for part in parts_of(run_of(delivery), deliveries)? {
        let Some(delivered) = open_applied(&part, deliveries)? else {
            continue;
        };
        for (path, _, state) in delivered.listed_paths() {
            match state {
                DeliveredState::Applied => files.applied.insert(path),
                DeliveredState::Reverted => files.restored.insert(path),
                DeliveredState::Changed => false,
            };
        }
    }
    Ok(files)
}

/// Opens what was applied of `part`; `None` if that is nothing, or if the part is damaged or in use.
fn open_applied(part: &str, deliveries: &AbsPath) -> Result<Option<AppliedDelivery>> {
    match OpenDelivery::open(deliveries, part).and_then(AppliedDelivery::open) {
        Err(error) if error.kind() != ErrorKind::Io => Ok(None),
        applied => applied,
    }
}
