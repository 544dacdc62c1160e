//! The keys of a hook.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, NeedsNamedConfig};
use crate::config::keys::shape::{self, Integer, Text, TextOrList};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys};
use crate::hooks::TIMEOUT_SECONDS_MAX;

/// The longest timeout of a hook, in seconds.
const SECONDS_MAX: i64 = {
    assert!(TIMEOUT_SECONDS_MAX == 600, "the reference says it");
    600
};

pub(crate) const TYPE: TypedKey<Text> = TypedKey::optional(
    &["type"],
    shape::one_of(&["command"]),
    "The kind of hook; only commands exist.",
    Harmless,
)
.with_default("command");

pub(crate) const COMMAND: TypedKey<Text> = TypedKey::required(
    &["command"],
    shape::verbatim_text(),
    "The shell command, run in the directory in which massgen is started.",
    NeedsNamedConfig("runs its own command"),
);

pub(crate) const TIMEOUT: TypedKey<Integer> = TypedKey::optional(
    &["timeout"],
    shape::integer(1, SECONDS_MAX),
    "Timeout in seconds.",
    Harmless,
)
.with_default("60");

pub(crate) const NETWORK: TypedKey<TextOrList> = TypedKey::optional(
    &["network"],
    shape::one_of_or_list(&["off", "on"]),
    "Its network access: none, full, or the hosts of these domains, as in \
     `command_line_network`.",
    NeedsNamedConfig("runs its own command"),
)
.with_default("off");

/// One hook.
pub static HOOK: KeySection = KeySection {
    path: "hook",
    doc: "A hook command: an item of `hooks` in a group.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[TYPE.row(), COMMAND.row(), TIMEOUT.row(), NETWORK.row()],
};
