//! The keys of `permissions.rules`: the lists of `permissions`, where MassGen has them.

use crate::config::keys::permissions::{ALLOW, ASK, DENY};

section! {
    /// The lists of `permissions`, where MassGen has them. Both are combined.
    pub static PERMISSION_RULES = "permissions.rules";
    row DENY.row();
    row ASK.row();
    row ALLOW.row();
}
