//! Files of a delivery that were undone: the page offers to apply them again, as a whole or by
//! hunk.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cli::deliveries::display_path;
use crate::cli::deliveries::interactive_review::FileChoice;
use crate::cli::deliveries::reapplied_files::ReappliedFiles;
use crate::cli::web::change_json::change_json;
use crate::cli::web::delivery_choice::{RequestedFileChoice, duplicate_file_error};
use crate::cli::web::reply::ApiResult;
use crate::delivery::choice::DeliveryChoice;
use crate::error::Result;
use crate::path::AbsPath;
use crate::world::delivery::undo::{AppliedDelivery, RevertedChange};

/// Returns the files of `delivered` that were undone, by path, each as the change of which parts
/// can be applied again.
pub(super) fn reverted_json(
    delivered: &mut AppliedDelivery,
    cwd: &AbsPath,
) -> Result<BTreeMap<String, Value>> {
    let mut files = BTreeMap::new();
    for change in delivered.reverted_changes() {
        let mut file = change_json(&delivered.offered_difference(&change)?, None, cwd);
        if let Some(fields) = file.as_object_mut() {
            fields.insert("undone".to_owned(), true.into());
        }
        files.insert(display_path(&change.path, cwd), file);
    }
    Ok(files)
}

/// Offers the files that were undone in place of those in `files`, where they count as changed by
/// the user.
pub(super) fn offer_reverted(files: &mut Vec<Value>, mut reverted: BTreeMap<String, Value>) {
    for file in files.iter_mut() {
        let path = file.get("path").and_then(Value::as_str);
        if let Some(change) = path.and_then(|path| reverted.remove(path)) {
            *file = change;
        }
    }
    files.extend(reverted.into_values());
}

/// Divides the choices in `files` into those about files that were undone, and the others.
pub(super) fn split_reverted(
    delivered: &mut AppliedDelivery,
    files: &[RequestedFileChoice],
    cwd: &AbsPath,
) -> ApiResult<(ReappliedFiles, Vec<RequestedFileChoice>)> {
    let reverted_by_path: BTreeMap<String, RevertedChange> = delivered
        .reverted_changes()
        .into_iter()
        .map(|change| (display_path(&change.path, cwd), change))
        .collect();
    let (mut reapplied, mut other_files) = (ReappliedFiles::default(), Vec::new());
    let mut named_paths = BTreeSet::new();
    for file in files {
        let Some(change) = reverted_by_path.get(&file.path) else {
            other_files.push(file.clone());
            continue;
        };
        if !named_paths.insert(&file.path) {
            return Err(duplicate_file_error(&file.path));
        }
        match file.resolve(|| delivered.offered_difference(change))? {
            FileChoice::Whole(DeliveryChoice::Apply) if !file.names_hunks() => {
                reapplied.add_as_before(change);
            }
            choice @ (FileChoice::Whole(_) | FileChoice::Hunks(_)) => {
                reapplied.add(change, choice);
            }
        }
    }
    Ok((reapplied, other_files))
}
