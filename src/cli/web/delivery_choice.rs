//! The choices of the person at the page about a delivery: whole files, or some of their hunks. A
//! choice about something else than what the delivery contains now is refused.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::cli::deliveries::display_path;
use crate::cli::deliveries::interactive_review::FileChoice;
use crate::cli::web::change_json::{hunk_digest, hunks_of};
use crate::cli::web::reply::{ApiError, ApiResult};
use crate::delivery::choice::DeliveryChoice;
use crate::delivery::hunks::HunkChoice;
use crate::delivery::plan::{DeliveryEntry, DeliveryPlan};
use crate::error::Result;
use crate::orchestrator::review::DeliverySelection;
use crate::path::AbsPath;
use crate::world::delivery::contents::{
    DeliveryDifference, DiffSide, change_since_plan, difference,
};
use crate::world::delivery::store::OpenDelivery;

/// The choice about one file, as the page sends it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestedFileChoice {
    /// The path, as the page was given it.
    pub(super) path: String,
    /// Whether the file is taken.
    pub(super) take: bool,
    /// The hunks that are taken; all of them if there is no list.
    hunks: Option<Vec<HunkReference>>,
}

impl RequestedFileChoice {
    /// Returns whether it names hunks.
    pub(super) fn names_hunks(&self) -> bool {
        self.hunks.is_some()
    }

    /// Resolves the choice against the change of the file, which `read_difference` returns.
    pub(super) fn resolve(
        &self,
        read_difference: impl FnOnce() -> Result<DeliveryDifference>,
    ) -> ApiResult<FileChoice> {
        let whole_file = FileChoice::Whole;
        let Some(taken_hunks) = self.hunks.as_ref().filter(|_| self.take) else {
            return Ok(whole_file(if self.take {
                DeliveryChoice::Apply
            } else {
                DeliveryChoice::Leave
            }));
        };
        let hunks = hunk_choices(&read_difference()?, self, taken_hunks)?;
        Ok(if hunks.iter().all(|hunk| hunk.is_applied) {
            whole_file(DeliveryChoice::Apply)
        } else if hunks.iter().any(|hunk| hunk.is_applied) {
            FileChoice::Hunks(hunks)
        } else {
            whole_file(DeliveryChoice::Leave)
        })
    }
}

/// A hunk of a file that is taken.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HunkReference {
    index: usize,
    digest: String,
}

/// Returns the selection that the choices in `files` make; files that are not named are left.
pub(super) fn delivery_selection(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    files: &[RequestedFileChoice],
    cwd: &AbsPath,
) -> ApiResult<DeliverySelection> {
    let mut selection = DeliverySelection::take_no_files(plan);
    let reviewable_entries = plan.reviewable_entries();
    let mut named_entries = BTreeSet::new();
    for file in files {
        let is_named = |entry: &DeliveryEntry| display_path(&plan.path(entry), cwd) == file.path;
        let entries = reviewable_entries.iter().copied();
        let mut matching_entries = entries.filter(|(_, entry)| is_named(entry));
        let (Some((index, entry)), None) = (matching_entries.next(), matching_entries.next())
        else {
            let message = format!("`{}` is not a change that can be applied", file.path);
            return Err(ApiError::conflict(message).with_hint("read the changes again"));
        };
        if !named_entries.insert(index) {
            return Err(duplicate_file_error(&file.path));
        }
        if file.take && change_since_plan(plan, entry)?.is_some() {
            let message = format!("`{}` was changed while the review waited", file.path);
            return Err(ApiError::conflict(message).with_hint("read the changes again"));
        }
        let choice = file.resolve(|| difference(delivery, plan, entry))?;
        choice.enter_into(&mut selection, index);
    }
    Ok(selection)
}

/// Returns the error of a request with two choices about the file `path`.
pub(super) fn duplicate_file_error(path: &str) -> ApiError {
    ApiError::invalid(format!("`{path}` is named twice"))
}

/// Returns the choices about the hunks of a file.
fn hunk_choices(
    file_diff: &DeliveryDifference,
    file: &RequestedFileChoice,
    taken_hunks: &[HunkReference],
) -> ApiResult<Vec<HunkChoice>> {
    let is_text = |side: &DiffSide| matches!(side, DiffSide::Text(_));
    let hunks = hunks_of(file_diff);
    if hunks.len() > 1 && !(is_text(&file_diff.before) && is_text(&file_diff.after)) {
        let message = format!("`{}` can only be applied as a whole", file.path);
        return Err(ApiError::conflict(message));
    }
    let mut is_taken = vec![false; hunks.len()];
    for hunk in taken_hunks {
        let digest = hunks.get(hunk.index).map(hunk_digest);
        let (Some(is_hunk_taken), true) = (
            is_taken.get_mut(hunk.index),
            digest.is_some_and(|digest| digest == hunk.digest),
        ) else {
            let message = format!(
                "hunk {} of `{}` is not the one that the page shows",
                hunk.index, file.path
            );
            return Err(ApiError::conflict(message).with_hint("read the changes again"));
        };
        *is_hunk_taken = true;
    }
    Ok(HunkChoice::list(&hunks, &is_taken))
}
