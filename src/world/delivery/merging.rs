//! Three-way merge of files that both the user and an agent changed: if the changes do not overlap,
//! the plan gets a text with both.

use crate::delivery::line_diff::merge_texts;
use crate::delivery::path_state::PathState;
use crate::delivery::plan::{ContentOrigin, ContentSource, DeliveryConflict, DeliveryPlan};
use crate::error::Result;
use crate::world::delivery::contents::{self, FileContents};
use crate::world::delivery::planning::ConflictBaseline;
use crate::world::delivery::store::OpenDelivery;
use crate::world::delivery::transaction::write_made_content;
use crate::world::sys::dir::DirectoryHandle;

/// Resolves the conflicts in `plan` that can be merged.
pub fn merge(
    delivery: &OpenDelivery,
    plan: &mut DeliveryPlan,
    baseline: &ConflictBaseline,
) -> Result<()> {
    let Some(bases) = &baseline.merge_bases else {
        return Ok(());
    };
    let mut merged_files = Vec::new();
    for (index, entry) in plan.entries.iter().enumerate() {
        let are_files = matches!(
            (&entry.theirs, &entry.ours),
            (PathState::File(_), PathState::File(_))
        );
        if !are_files || entry.conflict != Some(DeliveryConflict::Changed) {
            continue;
        }
        let root = plan
            .roots
            .get(entry.root)
            .and_then(|root| DirectoryHandle::open_own(root).ok());
        let Some(real) = root.and_then(|root| root.real_path().ok()) else {
            continue;
        };
        let base = bases
            .get(&real.join(&entry.rel))
            .and_then(|base| base.content());
        let (theirs, ours) = (
            contents::read_theirs(plan, entry)?,
            contents::read_ours(delivery, plan, entry)?,
        );
        if let (Some(base), FileContents::Whole(theirs), FileContents::Whole(ours)) =
            (base, theirs, ours)
            && let Some(text) = merge_texts(&base, &theirs, &ours)
        {
            merged_files.push((index, text));
        }
    }
    for (index, text) in merged_files {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        write_made_content(delivery, number, &text)?;
        if let Some(entry) = plan.entries.get_mut(index) {
            entry.conflict = None;
            entry.source = ContentSource::Composed {
                number,
                origin: ContentOrigin::Merge,
            };
        }
    }
    Ok(())
}
