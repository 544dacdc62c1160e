//! Owns what becomes of a file that both the user and an agent changed: where their changes do not
//! meet, the plan gets a text that holds both.

use crate::delivery::merge::merged;
use crate::delivery::plan::{Clash, Made, Plan, Source};
use crate::delivery::stand::Stand;
use crate::error::Result;
use crate::world::delivery::contents::{self, Bytes};
use crate::world::delivery::planning::Since;
use crate::world::delivery::store::Delivery;
use crate::world::delivery::transaction::file_made;
use crate::world::sys::dir::Dir;

/// Merges what can be merged of what clashes in `plan`.
pub fn merge(delivery: &Delivery, plan: &mut Plan, since: &Since) -> Result<()> {
    let Some(bases) = &since.bases else {
        return Ok(());
    };
    let mut made = Vec::new();
    for (index, entry) in plan.entries.iter().enumerate() {
        let both_files = matches!(
            (&entry.theirs, &entry.ours),
            (Stand::File(_), Stand::File(_))
        );
        if !both_files || entry.clash != Some(Clash::Changed) {
            continue;
        }
        let root = plan
            .roots
            .get(entry.root)
            .and_then(|root| Dir::own(root).ok());
        let Some(real) = root.and_then(|root| root.real_path().ok()) else {
            continue;
        };
        let base = bases
            .of(&real.join(&entry.rel))
            .and_then(|base| base.content());
        let (theirs, ours) = (
            contents::theirs(plan, entry)?,
            contents::ours(delivery, plan, entry)?,
        );
        if let (Some(base), Bytes::Whole(theirs), Bytes::Whole(ours)) = (base, theirs, ours)
            && let Some(text) = merged(&base, &theirs, &ours)
        {
            made.push((index, text));
        }
    }
    for (index, text) in made {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        file_made(delivery, number, &text)?;
        if let Some(entry) = plan.entries.get_mut(index) {
            entry.clash = None;
            entry.source = Source::Made {
                number,
                how: Made::Merged,
            };
        }
    }
    Ok(())
}
