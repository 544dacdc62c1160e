//! The files of a delivery that were reverted and are applied again, as a whole or by hunk.

use std::collections::BTreeMap;

use crate::cli::deliveries::interactive_review::FileChoice;
use crate::delivery::choice::DeliveryChoice;
use crate::error::Result;
use crate::path::AbsPath;
use crate::world::delivery::undo::{AppliedDelivery, ReappliedPart, RevertedChange, UndoRow};

/// The reverted files that the user applies again.
#[derive(Debug, Default)]
pub(crate) struct ReappliedFiles {
    parts: BTreeMap<AbsPath, ReappliedPart>,
}

impl ReappliedFiles {
    /// Adds what `choice` applies of `change`.
    pub(crate) fn add(&mut self, change: &RevertedChange, choice: FileChoice) {
        let part = match choice {
            FileChoice::Whole(DeliveryChoice::Apply) => ReappliedPart::Whole,
            FileChoice::Hunks(hunks) if hunks.iter().any(|hunk| hunk.is_applied) => {
                ReappliedPart::Hunks(hunks)
            }
            FileChoice::Whole(DeliveryChoice::Leave) | FileChoice::Hunks(_) => {
                return;
            }
        };
        self.parts.insert(change.path.clone(), part);
    }

    /// Adds what was applied of `change` before.
    pub(crate) fn add_as_before(&mut self, change: &RevertedChange) {
        self.parts
            .insert(change.path.clone(), ReappliedPart::AsBefore);
    }

    /// Returns whether nothing is applied again.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the paths of the files.
    pub(crate) fn paths(&self) -> Vec<AbsPath> {
        self.parts.keys().cloned().collect()
    }

    /// Applies the files again.
    pub(crate) fn apply(&self, delivered: AppliedDelivery) -> Result<Vec<UndoRow>> {
        delivered.reapply(&self.parts)
    }
}
