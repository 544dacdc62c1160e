//! The keys about how massgen signs in to an MCP server.

use crate::config::keys::found_config::FoundConfigUse::Named;
use crate::config::keys::shape::{self, Text, TextList};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys, ValueShape};

pub(crate) const CLIENT_ID: ServedKey<Text> = ServedKey::optional(
    &["client_id"],
    shape::text(),
    "What massgen is known as there, if it was registered by hand.",
    Named("sends what agents work on to a server"),
);

pub(crate) const CLIENT_SECRET: ServedKey<Text> = ServedKey::optional(
    &["client_secret"],
    shape::text(),
    "What proves that, if anything does: best `${VARIABLE}`.",
    Named("sends what agents work on to a server"),
);

pub(crate) const SCOPES: ServedKey<TextList> = ServedKey::optional(
    &["scopes"],
    shape::texts(&ValueShape::Text),
    "The rights that are asked for. Without any, those that the server names.",
    Named("sends what agents work on to a server"),
)
.with_default("[]");

/// How massgen signs in to a server.
pub static OAUTH: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[].oauth",
    doc: "How massgen signs in at a server on the network. Nothing of it is needed where the server \
          takes programs that register themselves.",
    others: UnknownKeys::Refused,
    keys: &[CLIENT_ID.row(), CLIENT_SECRET.row(), SCOPES.row()],
};
