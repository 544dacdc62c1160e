//! What the person at the page takes of a delivery: whole files, or some of their hunks. A choice
//! about something else than what the delivery contains now is refused.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::cli::deliveries::display_path;
use crate::cli::web::change_json::{hunk_digest, hunks_of};
use crate::cli::web::reply::{ApiError, ApiResult};
use crate::delivery::choice::DeliveryChoice;
use crate::delivery::hunks::HunkChoice;
use crate::delivery::plan::{DeliveryEntry, DeliveryPlan};
use crate::orchestrator::review::DeliverySelection;
use crate::path::AbsPath;
use crate::world::delivery::contents::{DiffSide, change_since_plan, difference};
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
    hunks: Option<Vec<HunkDecision>>,
}

impl FileDecision {
    /// Returns whether the file is taken without a choice of hunks.
    pub(super) fn takes_whole_file(&self) -> bool {
        self.take && self.hunks.is_none()
    }
}

/// A hunk that is taken.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HunkDecision {
    index: usize,
    digest: String,
}

/// Returns the selection that `files` make; files that are not named are left.
pub(super) fn select(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    files: &[FileDecision],
    here: &AbsPath,
) -> ApiResult<DeliverySelection> {
    let mut selection = DeliverySelection::take_none(plan);
    // Directories are created and removed together with the selected files in them.
    for (entry, choice) in plan.entries.iter().zip(&mut selection.choices) {
        if entry.ours.is_absent() && !entry.is_file() {
            *choice = DeliveryChoice::Apply;
        }
    }
    let items = plan.items();
    let mut chosen = BTreeSet::new();
    for file in files {
        let is_meant = |entry: &DeliveryEntry| display_path(&plan.path(entry), here) == file.path;
        let mut meant = items.iter().filter_map(|index| {
            let entry = plan.entries.get(*index)?;
            is_meant(entry).then_some((*index, entry))
        });
        let (Some((index, entry)), None) = (meant.next(), meant.next()) else {
            let message = format!("`{}` is not a change that can be applied", file.path);
            return Err(ApiError::conflict(message).with_hint("read the changes again"));
        };
        if !chosen.insert(index) {
            return Err(ApiError::invalid(format!("`{}` is named twice", file.path)));
        }
        let mut choice = DeliveryChoice::Leave;
        if file.take {
            if change_since_plan(plan, entry)?.is_some() {
                let message = format!("`{}` was changed while the review waited", file.path);
                return Err(ApiError::conflict(message).with_hint("read the changes again"));
            }
            match &file.hunks {
                None => choice = DeliveryChoice::Apply,
                Some(hunks) => {
                    let hunks = choose_hunks(delivery, plan, entry, file, hunks)?;
                    if hunks.iter().all(|hunk| hunk.is_taken) {
                        choice = DeliveryChoice::Apply;
                    } else if hunks.iter().any(|hunk| hunk.is_taken) {
                        selection.parts.insert(index, hunks);
                    }
                }
            }
        }
        if let Some(place) = selection.choices.get_mut(index) {
            *place = choice;
        }
    }
    Ok(selection)
}

/// Returns the choices about the hunks of a file.
fn choose_hunks(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    entry: &DeliveryEntry,
    file: &FileDecision,
    wanted: &[HunkDecision],
) -> ApiResult<Vec<HunkChoice>> {
    let file_diff = difference(delivery, plan, entry)?;
    let is_text = |side: &DiffSide| matches!(side, DiffSide::Text(_));
    let hunks = hunks_of(&file_diff);
    if hunks.len() > 1 && !(is_text(&file_diff.before) && is_text(&file_diff.after)) {
        let message = format!("`{}` can only be taken as a whole", file.path);
        return Err(ApiError::conflict(message));
    }
    let mut taken = vec![false; hunks.len()];
    for hunk in wanted {
        let known = hunks.get(hunk.index).map(hunk_digest);
        let (Some(place), true) = (
            taken.get_mut(hunk.index),
            known.is_some_and(|known| known == hunk.digest),
        ) else {
            let message = format!(
                "hunk {} of `{}` is not the one that the page shows",
                hunk.index, file.path
            );
            return Err(ApiError::conflict(message).with_hint("read the changes again"));
        };
        *place = true;
    }
    Ok(HunkChoice::list(&hunks, &taken))
}
