//! The user's trees that an agent may write to.

use crate::permissions::grant::{Grant, GrantKind};
use crate::world::access::gate::{Gate, ResolvedPath};

/// Returns the writable roots of the user's trees.
pub(super) fn user_trees(gate: &Gate) -> Vec<ResolvedPath> {
    let is_user_grant =
        |grant: &&Grant| matches!(grant.kind, GrantKind::Context | GrantKind::BuiltIn);
    let user_grants = gate.manager().grants().iter().filter(is_user_grant);
    user_grants
        .filter_map(|grant| gate.writable_tree(&grant.root.to_abs()))
        .collect()
}
