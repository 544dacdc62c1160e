//! The keys of `ui`: what is shown.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Text};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape,
};

pub(crate) const DASHBOARD: TypedKey<Text> = TypedKey::optional(
    &["dashboard"],
    shape::one_of(&["auto", "always", "never"]),
    "Whether a run is shown on the whole terminal. `auto` does so on a terminal with two or more \
     agents, `always` also with one agent; neither does so \
     without a terminal. `--dashboard` and `--plain` take precedence.",
    Harmless,
)
.with_default("auto");

pub(crate) const DISPLAY_TYPE: TypedKey<Text> = TypedKey::optional(
    &["display_type"],
    shape::one_of(&[
        "textual_terminal",
        "rich_terminal",
        "web",
        "simple",
        "terminal",
        "silent",
        "none",
    ]),
    "With `simple`, `terminal`, `silent` or `none`, a run is shown as lines, unless `dashboard` is \
     set. The other values are `dashboard: auto`.",
    Harmless,
)
.with_default("textual_terminal");

/// What the user interface shows.
pub static UI: KeySection = KeySection {
    path: "ui",
    doc: "Display settings, which do not change how agents work.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        DASHBOARD.row(),
        DISPLAY_TYPE.row(),
        ConfigKey::unsupported(
            &["logging_enabled"],
            ValueShape::Flag,
            "a log is always kept",
            IgnoredEffect::Convenience,
        )
        .with_default("true"),
        ConfigKey::unsupported(
            &["type"],
            ValueShape::Any,
            "MassGen does nothing with it either",
            IgnoredEffect::Nothing,
        ),
        ConfigKey::unsupported(
            &["theme", "automation_mode", "web_host", "web_port"],
            ValueShape::Any,
            "flags select how a run is shown",
            IgnoredEffect::Nothing,
        ),
        ConfigKey::unsupported(
            &["use_orchestrator_for_single_agent"],
            ValueShape::Any,
            "a single agent answers once and does not vote",
            IgnoredEffect::Nothing,
        ),
    ],
};
