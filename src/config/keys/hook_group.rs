//! The keys of a group of hooks for the same tools.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, NodeList, Text};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape, hook};

pub(crate) const MATCHER: TypedKey<Text> = TypedKey::optional(
    &["matcher"],
    shape::verbatim_text(),
    "A regular expression for the whole name of a tool, such as `mcp__git__.*`. `Bash`, \
     `Read`, `Write`, `Edit`, `Grep`, `Glob` and `LS` match the corresponding tools of \
     massgen. Default, and for `*`: all tools.",
    Harmless,
)
.with_default("'*'");

pub(crate) const HOOKS: TypedKey<NodeList> = TypedKey::required(
    &["hooks"],
    shape::nodes(const { &ValueShape::TextOr(&hook::HOOK) }),
    "The hooks. A string is the command alone.",
    Harmless,
);

/// Hooks for the same tools.
pub static HOOK_GROUP: KeySection = KeySection {
    path: "hooks.PreToolUse[]",
    doc: "Hooks for the same tools.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[MATCHER.row(), HOOKS.row()],
};
