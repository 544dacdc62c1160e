//! The section of keys that are sent in requests under any name.

use crate::config::keys::{KeySection, UnknownKeys};

/// Additional keys for the model's API.
pub static EXTRA_BODY: KeySection = KeySection {
    path: "agents[].backend.extra_body",
    doc: "Keys that go into every request as they are, whatever they are called.",
    unknown_keys: UnknownKeys::PassedOn,
    keys: &[],
};
