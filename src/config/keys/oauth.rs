//! The keys about how massgen signs in to an MCP server.

use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;
use crate::config::keys::shape::{self, Text, TextList};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape};

/// The grant types of the protocol that massgen knows.
pub(crate) const AUTHORIZATION_CODE: &str = "authorization_code";
pub(crate) const CLIENT_CREDENTIALS: &str = "client_credentials";
pub(crate) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The first line of a private key (PKCS#8 in PEM).
pub(crate) const PRIVATE_KEY_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";

pub(crate) const GRANT_TYPE: TypedKey<Text> = TypedKey::optional(
    &["grant_type"],
    shape::one_of(&[AUTHORIZATION_CODE, CLIENT_CREDENTIALS, JWT_BEARER]),
    "How massgen gets a token: you sign in with `massgen mcp login` (`authorization_code`), or it \
     identifies itself with `client_secret` or `private_key` (`client_credentials`) or \
     with `assertion` or `assertion_file` (`…:jwt-bearer`).",
    NeedsNamedConfig("sends the agents' work to a server"),
)
.with_default(AUTHORIZATION_CODE);

pub(crate) const CLIENT_ID: TypedKey<Text> = TypedKey::optional(
    &["client_id"],
    shape::text(),
    "The client id, if massgen was registered manually.",
    NeedsNamedConfig("sends the agents' work to a server"),
);

pub(crate) const CLIENT_SECRET: TypedKey<Text> = TypedKey::optional(
    &["client_secret"],
    shape::text(),
    "The client secret, if there is one; preferably `${VARIABLE}`.",
    NeedsNamedConfig("sends the agents' work to a server"),
);

pub(crate) const PRIVATE_KEY: TypedKey<Text> = TypedKey::optional(
    &["private_key"],
    shape::text(),
    "With `client_credentials`, instead of `client_secret`: the key that signs massgen's \
     assertions (`private_key_jwt`), P-256 or RSA, as PKCS#8 in PEM; preferably \
     `${VARIABLE}`.",
    NeedsNamedConfig("sends the agents' work to a server"),
);

pub(crate) const ASSERTION: TypedKey<Text> = TypedKey::optional(
    &["assertion"],
    shape::text(),
    "With `…:jwt-bearer`: the JSON Web Token that identifies this workload; preferably \
     `${VARIABLE}`.",
    NeedsNamedConfig("sends the agents' work to a server"),
);

pub(crate) const ASSERTION_FILE: TypedKey<Text> = TypedKey::optional(
    &["assertion_file"],
    shape::text(),
    "With `…:jwt-bearer`, instead of `assertion`: a file with it, which is read for each token.",
    NeedsNamedConfig("sends the agents' work to a server"),
);

pub(crate) const ISSUER: TypedKey<Text> = TypedKey::optional(
    &["issuer"],
    shape::text(),
    "The issuer URL of the authorization server that knows massgen, the only one that is used. \
     Default: the one that the server names, which receives credentials of this config \
     only if it has the origin of `url`.",
    NeedsNamedConfig("sends the agents' work to a server"),
);

pub(crate) const SCOPES: TypedKey<TextList> = TypedKey::optional(
    &["scopes"],
    shape::texts(&ValueShape::Text),
    "The scopes to request. Default: those that the server announces.",
    NeedsNamedConfig("sends the agents' work to a server"),
)
.with_default("[]");

/// How massgen signs in to a server.
pub static OAUTH: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[].oauth",
    doc: "How massgen signs in to a remote server. Not needed if the server supports dynamic \
          client registration.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        GRANT_TYPE.row(),
        CLIENT_ID.row(),
        CLIENT_SECRET.row(),
        PRIVATE_KEY.row(),
        ASSERTION.row(),
        ASSERTION_FILE.row(),
        ISSUER.row(),
        SCOPES.row(),
    ],
};
