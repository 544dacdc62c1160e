//! The keys of `timeout_settings`.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::shape::{self, Integer};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys};

pub(crate) const ORCHESTRATOR_TIMEOUT_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["orchestrator_timeout_seconds"],
    shape::integer(1, SECONDS_MAX),
    "The whole run. On timeout, the best answer so far is the result, and no files are \
     delivered.",
    Harmless,
)
.with_default("1800");

pub(crate) const INITIAL_ROUND_TIMEOUT_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["initial_round_timeout_seconds"],
    shape::integer(1, SECONDS_MAX),
    "An agent's first round, before it is told to finish; `null` sets no limit.",
    Harmless,
)
.with_default("null");

pub(crate) const SUBSEQUENT_ROUND_TIMEOUT_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["subsequent_round_timeout_seconds"],
    shape::integer(1, SECONDS_MAX),
    "Every later round, before the agent is told to finish; `null` sets no limit.",
    Harmless,
)
.with_default("null");

pub(crate) const ROUND_TIMEOUT_GRACE_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["round_timeout_grace_seconds"],
    shape::integer(0, SECONDS_MAX),
    "How long after that the agent may still use tools.",
    Harmless,
)
.with_default("120");

/// Timeouts.
pub static TIMEOUT_SETTINGS: KeySection = KeySection {
    path: "timeout_settings",
    doc: "Timeouts in whole seconds.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        ORCHESTRATOR_TIMEOUT_SECONDS.row(),
        INITIAL_ROUND_TIMEOUT_SECONDS.row(),
        SUBSEQUENT_ROUND_TIMEOUT_SECONDS.row(),
        ROUND_TIMEOUT_GRACE_SECONDS.row(),
    ],
};
