//! The files of a delivery that were reverted and are applied again, as a whole or by hunk.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::deliveries::interactive_review::FileReviewSelection;
use crate::delivery::choice::DeliveryChoice;
use crate::delivery::hunks::HunkChoice;
use crate::error::Result;
use crate::path::AbsPath;
use crate::world::delivery::undo::{AppliedDelivery, RevertedChange, UndoRow};

/// What of the reverted files the user applies again.
#[derive(Debug, Default)]
pub(crate) struct ReappliedFiles {
    whole: BTreeSet<AbsPath>,
    parts: BTreeMap<AbsPath, Vec<HunkChoice>>,
}

impl ReappliedFiles {
    /// Adds what is selected of `change`.
    pub(crate) fn add(&mut self, change: &RevertedChange, selection: FileReviewSelection) {
        let path = change.path.clone();
        match selection {
            FileReviewSelection::Whole(DeliveryChoice::Apply) => {
                self.whole.insert(path);
            }
            FileReviewSelection::Hunks(hunks) if hunks.iter().any(|hunk| hunk.is_taken) => {
                self.parts.insert(path, hunks);
            }
            FileReviewSelection::Whole(DeliveryChoice::Leave) | FileReviewSelection::Hunks(_) => {}
        }
    }

    /// Returns whether nothing is applied again.
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.parts.is_empty()
    }

    /// Returns the paths of the files.
    pub(crate) fn paths(&self) -> Vec<AbsPath> {
        self.whole
            .iter()
            .chain(self.parts.keys())
            .cloned()
            .collect()
    }

    /// Applies the files again.
    pub(crate) fn apply(&self, delivered: &mut AppliedDelivery) -> Result<Vec<UndoRow>> {
        delivered.reapply(&self.whole, &self.parts)
    }
}
