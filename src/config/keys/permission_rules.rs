//! The keys of `permissions.rules`: the lists of `permissions`, where MassGen has them.

use crate::config::keys::permissions::{ALLOW, ASK, DENY};
use crate::config::keys::{KeySection, UnknownKeys};

/// The lists of rules.
pub static PERMISSION_RULES: KeySection = KeySection {
    path: "permissions.rules",
    doc: "The lists of `permissions`, where MassGen has them. Both are combined.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[DENY.row(), ASK.row(), ALLOW.row()],
};
