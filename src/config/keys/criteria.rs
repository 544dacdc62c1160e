//! The keys of a criterion by which voters score answers.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Text};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape,
};

pub(crate) const TEXT: TypedKey<Text> = TypedKey::required(
    &["text"],
    shape::text(),
    "What an answer has to be like, as the agents read it.",
    Harmless,
);

/// A criterion of the voters' checklist.
pub static CRITERION: KeySection = KeySection {
    path: "orchestrator.coordination.checklist_criteria_inline[]",
    doc: "A criterion that voters give a score from 0 to 10.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        TEXT.row(),
        ConfigKey::unsupported(
            &["category", "verify_by", "anti_patterns", "score_anchors"],
            ValueShape::Any,
            "all criteria count alike, and agents read their texts",
            IgnoredEffect::Convenience,
        ),
    ],
};
