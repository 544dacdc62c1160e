//! Owns the masks of a stage: a few names at the root of each write path that a command finds
//! read-only, so that it sees an error at once where nothing would be delivered.

use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::protected::protected_name;
use crate::world::access::gate::Gate;
use crate::world::exec::command_sync::user_trees;
use crate::world::sys::meta::FileKind;

/// The protected names that are masked. What tools generate can be written on a stage and stays
/// there.
const MASKED: &[&str] = &[".git", ".env", ".massgen"];

/// What is to be masked for a command: what stands at these names at the roots of the trees, and at
/// the paths that the config protects. A mask lies on a file or a directory that may be read and not
/// written: where a grant opens such a path by itself, there is none.
pub(super) fn masks(gate: &Gate) -> Vec<AbsPath> {
    let mut masks = Vec::new();
    for root in user_trees(gate) {
        let grant = root.grant();
        let entries = root.dir().dir(&root.below()).and_then(|dir| dir.entries());
        let named = entries.unwrap_or_default().into_iter().filter_map(|entry| {
            let rel = RelPath::default().child(&entry.name)?;
            let protected = protected_name(&rel, &grant.unprotected)?;
            MASKED.contains(&protected).then_some(rel)
        });
        for rel in named.chain(grant.protected.iter().cloned()) {
            let place = root.join(&rel);
            let found = place.dir().meta(&place.below());
            let is_there =
                found.is_ok_and(|meta| matches!(meta.kind, FileKind::File | FileKind::Directory));
            let only_read = gate.allows(place.real(), Permission::Read)
                && !gate.allows(place.real(), Permission::Write);
            if is_there && only_read {
                masks.push(place.real().to_abs());
            }
        }
    }
    masks
}
