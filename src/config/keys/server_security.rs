//! The keys about the programs and addresses that are allowed for an MCP server.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, NeedsNamedConfig};
use crate::config::keys::shape::{self, Flag, Text};
use crate::config::keys::{ForeignValue, KeySection, TypedKey, UnknownKeys};

pub(crate) const LEVEL: TypedKey<Text> = TypedKey::optional(
    &["level"],
    shape::one_of(&["strict", "moderate", "permissive"]),
    "Allowed programs: interpreters and package runners; `moderate` adds `git` and \
     `nodejs`, `permissive` adds `curl`, `wget` and any program with an absolute path.",
    Harmless,
)
.with_default("strict")
.with_foreign_values(FOREIGN_LEVELS);

/// Levels that MassGen accepts and reads as the strictest.
const FOREIGN_LEVELS: &[ForeignValue] = &[
    ForeignValue {
        massgen_value: "high",
        read_as: "strict",
        doc: "there is no such level, and the strictest one applies, as in MassGen",
    },
    ForeignValue {
        massgen_value: "medium",
        read_as: "strict",
        doc: "there is no such level, and the strictest one applies, as in MassGen",
    },
    ForeignValue {
        massgen_value: "low",
        read_as: "strict",
        doc: "there is no such level, and the strictest one applies, as in MassGen",
    },
];

pub(crate) const ALLOW_LOCALHOST: TypedKey<Flag> = TypedKey::optional(
    &["allow_localhost"],
    shape::flag(),
    "Whether `url` may point to this machine.",
    NeedsNamedConfig("sends the agents' work to a server"),
)
.with_default("false");

pub(crate) const ALLOW_PRIVATE_IPS: TypedKey<Flag> = TypedKey::optional(
    &["allow_private_ips"],
    shape::flag(),
    "Whether `url` may point to a private network.",
    NeedsNamedConfig("sends the agents' work to a server"),
)
.with_default("false");

/// The programs and addresses that are allowed for a server.
pub static SECURITY: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[].security",
    doc: "Allowed programs and addresses. Programs always run in the agent's sandbox.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[LEVEL.row(), ALLOW_LOCALHOST.row(), ALLOW_PRIVATE_IPS.row()],
};
