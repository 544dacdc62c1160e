//! The keys about how massgen signs in to an MCP server.

use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;

section! {
    /// How massgen signs in to a remote server. Not needed if the server supports dynamic client
    /// registration.
    pub static OAUTH = "agents[].backend.mcp_servers[].oauth";

    /// The client id, if massgen was registered manually.
    const CLIENT_ID = ["client_id"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// The client secret, if there is one; preferably `${VARIABLE}`.
    const CLIENT_SECRET = ["client_secret"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    refused ["grant_type", "private_key", "assertion", "assertion_file"],
        "massgen gets no token without a user: sign in with `massgen mcp login`, or add a token to \
         `headers`";

    /// The issuer URL of the authorization server that knows massgen, the only one that is used.
    /// Default: the one that the server names, which receives `client_secret` only if it has the
    /// origin of `url`.
    const ISSUER = ["issuer"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// The scopes to request. Default: those that the server announces.
    const SCOPES = ["scopes"] texts()
        .in_found(NeedsNamedConfig("sends the agents' work to a server")).with_default("[]");
}
