//! The keys about the programs and addresses that are allowed for an MCP server.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Named};
use crate::config::keys::shape::{self, Flag, Text};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys};

pub(crate) const LEVEL: ServedKey<Text> = ServedKey::optional(
    &["level"],
    shape::one_of(&["strict", "moderate", "permissive"]),
    "Which programs a server may be: interpreters and what starts packages; `moderate` adds \
     `git` and `nodejs`, `permissive` adds `curl`, `wget` and any program that is named by its \
     whole path.",
    Harmless,
)
.with_default("strict");

pub(crate) const ALLOW_LOCALHOST: ServedKey<Flag> = ServedKey::optional(
    &["allow_localhost"],
    shape::flag(),
    "Whether `url` may lead to this machine.",
    Named("sends what agents work on to a server"),
)
.with_default("false");

pub(crate) const ALLOW_PRIVATE_IPS: ServedKey<Flag> = ServedKey::optional(
    &["allow_private_ips"],
    shape::flag(),
    "Whether `url` may lead into a private network.",
    Named("sends what agents work on to a server"),
)
.with_default("false");

/// The programs and addresses that are allowed for a server.
pub static SECURITY: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[].security",
    doc: "What may be started and reached. Whatever this says, programs run in the agent's sandbox.",
    others: UnknownKeys::Refused,
    keys: &[LEVEL.row(), ALLOW_LOCALHOST.row(), ALLOW_PRIVATE_IPS.row()],
};
