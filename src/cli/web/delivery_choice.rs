//! What the person at the page takes of a delivery: whole files, or some of their hunks. A choice
//! about something else than what the delivery contains now is refused.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::cli::deliveries::display_path;
use crate::cli::deliveries::interactive_review::FileReviewSelection;
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

/// The choice about one file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileDecision {
    /// The path, as the page was given it.
    pub(super) path: String,
    /// Whether the file is taken.
    pub(super) take: bool,
    /// The hunks that are taken; all of them if there is no list.
    hunks: Option<Vec<TakenHunk>>,
}

impl FileDecision {
    /// Returns whether it names the hunks that are taken.
    pub(super) fn names_hunks(&self) -> bool {
        self.hunks.is_some()
    }

    /// Returns what is taken of the file; `read_difference` returns its change.
    pub(super) fn selection(
        &self,
        read_difference: impl FnOnce() -> Result<DeliveryDifference>,
    ) -> ApiResult<FileReviewSelection> {
        let whole_file = FileReviewSelection::Whole;
        let Some(taken_hunks) = self.hunks.as_ref().filter(|_| self.take) else {
            return Ok(whole_file(if self.take {
                DeliveryChoice::Apply
            } else {
                DeliveryChoice::Leave
            }));
        };
        let hunks = choose_hunks(&read_difference()?, self, taken_hunks)?;
        Ok(if hunks.iter().all(|hunk| hunk.is_taken) {
            whole_file(DeliveryChoice::Apply)
        } else if hunks.iter().any(|hunk| hunk.is_taken) {
            FileReviewSelection::Hunks(hunks)
        } else {
            whole_file(DeliveryChoice::Leave)
        })
    }
}

/// A hunk that is taken.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TakenHunk {
    index: usize,
    digest: String,
}

/// Returns the selection that `files` make; files that are not named are left.
pub(super) fn select(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    files: &[FileDecision],
    cwd: &AbsPath,
) -> ApiResult<DeliverySelection> {
    let mut selection = DeliverySelection::take_none(plan);
    // Directories are created and removed together with the selected files in them.
    for (entry, choice) in plan.entries.iter().zip(&mut selection.choices) {
        if entry.ours.is_absent() && !entry.is_file() {
            *choice = DeliveryChoice::Apply;
        }
    }
    let items = plan.items();
    let mut chosen_items = BTreeSet::new();
    for file in files {
        let is_meant = |entry: &DeliveryEntry| display_path(&plan.path(entry), cwd) == file.path;
        let mut matching_items = items.iter().filter_map(|index| {
            let entry = plan.entries.get(*index)?;
            is_meant(entry).then_some((*index, entry))
        });
        let (Some((index, entry)), None) = (matching_items.next(), matching_items.next()) else {
            let message = format!("`{}` is not a change that can be applied", file.path);
            return Err(ApiError::conflict(message).with_hint("read the changes again"));
        };
        if !chosen_items.insert(index) {
            return Err(named_twice(&file.path));
        }
        if file.take && change_since_plan(plan, entry)?.is_some() {
            let message = format!("`{}` was changed while the review waited", file.path);
            return Err(ApiError::conflict(message).with_hint("read the changes again"));
        }
        let choice = match file.selection(|| difference(delivery, plan, entry))? {
            FileReviewSelection::Whole(choice) => choice,
            FileReviewSelection::Hunks(hunks) => {
                // The parts of a file take the place of the choice about the whole of it.
                selection.parts.insert(index, hunks);
                DeliveryChoice::Leave
            }
        };
        if let Some(entry_choice) = selection.choices.get_mut(index) {
            *entry_choice = choice;
        }
    }
    Ok(selection)
}

/// Returns the error of a request with two decisions about the file `path`.
pub(super) fn named_twice(path: &str) -> ApiError {
    ApiError::invalid(format!("`{path}` is named twice"))
}

/// Returns the choices about the hunks of a file.
fn choose_hunks(
    file_diff: &DeliveryDifference,
    file: &FileDecision,
    taken_hunks: &[TakenHunk],
) -> ApiResult<Vec<HunkChoice>> {
    let is_text = |side: &DiffSide| matches!(side, DiffSide::Text(_));
    let hunks = hunks_of(file_diff);
    if hunks.len() > 1 && !(is_text(&file_diff.before) && is_text(&file_diff.after)) {
        let message = format!("`{}` can only be taken as a whole", file.path);
        return Err(ApiError::conflict(message));
    }
    let mut is_chosen = vec![false; hunks.len()];
    for hunk in taken_hunks {
        let digest = hunks.get(hunk.index).map(hunk_digest);
        let (Some(is_selected), true) = (
            is_chosen.get_mut(hunk.index),
            digest.is_some_and(|digest| digest == hunk.digest),
        ) else {
            let message = format!(
                "hunk {} of `{}` is not the one that the page shows",
                hunk.index, file.path
            );
            return Err(ApiError::conflict(message).with_hint("read the changes again"));
        };
        *is_selected = true;
    }
    Ok(HunkChoice::list(&hunks, &is_chosen))
}
