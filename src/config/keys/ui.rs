//! The keys of `ui`: what is shown.

use crate::config::keys::{ConfigKey, IgnoredEffect, KeySection, UnknownKeys, ValueShape};

/// What the user interface shows.
pub static UI: KeySection = KeySection {
    path: "ui",
    doc: "Display settings, which do not change how agents work.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::unserved(
            &["display_type"],
            ValueShape::Text,
            "progress is shown as plain lines",
            IgnoredEffect::Cosmetic,
        )
        .with_default("simple"),
        ConfigKey::unserved(
            &["logging_enabled"],
            ValueShape::Flag,
            "a log is always kept",
            IgnoredEffect::Cosmetic,
        )
        .with_default("true"),
        ConfigKey::unserved(
            &["use_orchestrator_for_single_agent"],
            ValueShape::Flag,
            "a single agent answers once and does not vote",
            IgnoredEffect::Cosmetic,
        )
        .with_default("true"),
        ConfigKey::unserved(
            &["theme", "automation_mode", "web_host", "web_port"],
            ValueShape::Any,
            "progress is shown as plain lines",
            IgnoredEffect::Cosmetic,
        ),
    ],
};
