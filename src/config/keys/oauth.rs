//! The keys about how massgen signs in to an MCP server.

use crate::config::keys::found_config::FoundConfigUse::Named;
use crate::config::keys::shape::{self, Text, TextList};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys, ValueShape};

pub(crate) const CLIENT_ID: ServedKey<Text> = ServedKey::optional(
    &["client_id"],
    shape::text(),
    "The client id, if massgen was registered manually.",
    Named("sends the agents' work to a server"),
);

pub(crate) const CLIENT_SECRET: ServedKey<Text> = ServedKey::optional(
    &["client_secret"],
    shape::text(),
    "The client secret, if there is one; preferably `${VARIABLE}`.",
    Named("sends the agents' work to a server"),
);

pub(crate) const SCOPES: ServedKey<TextList> = ServedKey::optional(
    &["scopes"],
    shape::texts(&ValueShape::Text),
    "The scopes to request. Default: those that the server announces.",
    Named("sends the agents' work to a server"),
)
.with_default("[]");

/// How massgen signs in to a server.
pub static OAUTH: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[].oauth",
    doc: "How massgen signs in to a remote server. Not needed if the server supports dynamic \
          client registration.",
    others: UnknownKeys::Refused,
    keys: &[CLIENT_ID.row(), CLIENT_SECRET.row(), SCOPES.row()],
};
