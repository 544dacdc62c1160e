//! The keys about how massgen signs in to an MCP server.

use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;

/// The grant types of the protocol that massgen knows.
pub(crate) const AUTHORIZATION_CODE: &str = "authorization_code";
pub(crate) const CLIENT_CREDENTIALS: &str = "client_credentials";
pub(crate) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The first line of a private key (PKCS#8 in PEM).
pub(crate) const PRIVATE_KEY_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";

section! {
    /// How massgen signs in to a remote server. Not needed if the server supports dynamic client
    /// registration.
    pub static OAUTH = "agents[].backend.mcp_servers[].oauth";

    /// How massgen gets a token: you sign in with `massgen mcp login` (`authorization_code`), or it
    /// identifies itself with `client_secret` or `private_key` (`client_credentials`) or with
    /// `assertion` or `assertion_file` (`…:jwt-bearer`).
    const GRANT_TYPE = ["grant_type"] one_of(&[AUTHORIZATION_CODE, CLIENT_CREDENTIALS, JWT_BEARER])
        .in_found(NeedsNamedConfig("sends the agents' work to a server"))
        .with_default(AUTHORIZATION_CODE);

    /// The client id, if massgen was registered manually.
    const CLIENT_ID = ["client_id"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// The client secret, if there is one; preferably `${VARIABLE}`.
    const CLIENT_SECRET = ["client_secret"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// With `client_credentials`, instead of `client_secret`: the key that signs massgen's
    /// assertions (`private_key_jwt`), P-256 or RSA, as PKCS#8 in PEM; preferably `${VARIABLE}`.
    const PRIVATE_KEY = ["private_key"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// With `…:jwt-bearer`: the JSON Web Token that identifies this workload; preferably
    /// `${VARIABLE}`.
    const ASSERTION = ["assertion"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// With `…:jwt-bearer`, instead of `assertion`: a file with it, which is read for each token.
    const ASSERTION_FILE = ["assertion_file"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// The issuer URL of the authorization server that knows massgen, the only one that is used.
    /// Default: the one that the server names, which receives credentials of this config only if it
    /// has the origin of `url`.
    const ISSUER = ["issuer"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// The scopes to request. Default: those that the server announces.
    const SCOPES = ["scopes"] texts()
        .in_found(NeedsNamedConfig("sends the agents' work to a server")).with_default("[]");
}
