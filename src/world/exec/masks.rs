//! Masks of an overlay: a few names at the root of each write path are read-only for a command, so
//! that it gets an error immediately where nothing would be delivered.

use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::{Permission, Phase};
use crate::permissions::protected::protected_name;
use crate::world::access::gate::Gate;
use crate::world::exec::user_trees::user_trees;
use crate::world::sys::file_kind::FileKind;

/// The protected names that are masked. Names that tools generate stay writable on an overlay, and
/// stay there.
const MASKED_NAMES: &[&str] = &[GIT_DIR, ".env", ".massgen"];

/// The directory of a repository. In an attempt, an agent may commit to its copy.
const GIT_DIR: &str = ".git";

/// Returns the paths to mask for a command: existing ones with these names at the roots of the
/// trees, and those that the config protects. Only a file or directory that is readable and not
/// writable is masked; if a grant opens such a path explicitly, it is not.
pub(super) fn masks(gate: &Gate) -> Vec<AbsPath> {
    let mut masks = Vec::new();
    for root in user_trees(gate) {
        let grant = root.grant();
        let entries = root.dir().dir(&root.below()).and_then(|dir| dir.entries());
        let masked_names = entries.unwrap_or_default().into_iter().filter_map(|entry| {
            let rel = RelPath::default().child(&entry.name)?;
            let protected_name = protected_name(&rel, &grant.unprotected)?;
            let is_own_repository = gate.phase() == Phase::Attempt && protected_name == GIT_DIR;
            let is_masked = MASKED_NAMES.contains(&protected_name) && !is_own_repository;
            is_masked.then_some(rel)
        });
        for rel in masked_names.chain(grant.protected.iter().cloned()) {
            let path = root.join(&rel);
            let metadata = path.dir().meta(&path.below());
            let can_be_masked = metadata
                .is_ok_and(|meta| matches!(meta.kind, FileKind::File | FileKind::Directory));
            let is_read_only = gate.allows(path.real(), Permission::Read)
                && !gate.allows(path.real(), Permission::Write);
            if can_be_masked && is_read_only {
                masks.push(path.real().to_abs());
            }
        }
    }
    masks
}
