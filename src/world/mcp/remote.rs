//! Connections to remote servers. Their client connects only to the allowed addresses, and follows
//! no redirects, because they would forward the headers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rmcp::service::{ClientInitializeError, RoleClient, RunningService};
use rmcp::transport::streamable_http_client::{
    InsufficientScopeError, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};

use crate::config::servers::RemoteServer;
use crate::world::io::http::{causes, root_cause};
use crate::world::mcp::MESSAGE_BYTES_MAX;
use crate::world::mcp::client_handler::{McpClientHandler, ServerListener};
use crate::world::mcp::credentials::{Credentials, headers};
use crate::world::mcp::guarded_resolver::refused_address;
use crate::world::mcp::lifecycle::{HandshakeChoice, begin, has_misunderstood, transport_error};
use crate::world::mcp::remote_client::{RemoteHttpClient, RemoteHttpError};
use crate::world::mcp::watched_transport::{
    ClientTransport, ClientTransportError, WatchedTransport,
};

/// Status codes with which a server reports that it does not support Streamable HTTP.
const UNSUPPORTED_STATUSES: [&str; 3] = ["HTTP 400 ", "HTTP 404 ", "HTTP 405 "];

/// Begins a connection with a server through `client`. `tool_change_count` counts how often its
/// tools have changed; `credentials` are redacted from its messages.
pub(super) async fn initialize_remote(
    remote: &RemoteServer,
    client: RemoteHttpClient,
    listener: Option<&ServerListener>,
    tool_change_count: &Arc<AtomicUsize>,
    credentials: &Credentials,
) -> Result<RunningService<RoleClient, McpClientHandler>, RemoteConnectError> {
    let begin_with = |choice| {
        // Roots are paths of this machine, which a remote server cannot reach.
        let handler = McpClientHandler::new(&[], listener.cloned());
        let connection = streamable_transport(remote, client.clone());
        let transport = WatchedTransport::new(connection, tool_change_count, credentials);
        begin(handler, transport, choice)
    };
    let mut handshake = begin_with(HandshakeChoice::Newest).await;
    if handshake.as_ref().is_err_and(may_be_older) {
        handshake = begin_with(HandshakeChoice::Initialize).await;
    }
    handshake.map_err(|error| match unsupported_status(&error) {
        Some(status) => RemoteConnectError::Failed(format!(
            "it does not support streamable HTTP, the only transport that massgen has for servers \
             on the network: {status}"
        )),
        None => connect_error(&error),
    })
}

/// Returns whether a server may know only the older handshake: it misunderstood the first message,
/// or rejected it for lack of scopes, as some servers reject all requests that they do not know.
fn may_be_older(error: &ClientInitializeError) -> bool {
    has_misunderstood(error) || transport_error(error).and_then(missing_scopes).is_some()
}

/// Returns the status with which a server reports that it does not support Streamable HTTP. A
/// server that answers with a message supports it, whatever the status.
fn unsupported_status(error: &ClientInitializeError) -> Option<String> {
    // `rmcp` gives the status only in the message of this error.
    let ClientTransportError::Http(StreamableHttpError::UnexpectedServerResponse(message)) =
        transport_error(error)?.error.downcast_ref()?
    else {
        return None;
    };
    let is_unsupported = UNSUPPORTED_STATUSES
        .iter()
        .any(|status| message.starts_with(status));
    let status = message.split(':').next().filter(|_| is_unsupported);
    status.map(str::to_owned)
}

fn streamable_transport(remote: &RemoteServer, client: RemoteHttpClient) -> ClientTransport {
    let config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str())
        .custom_headers(headers(remote))
        .max_sse_event_size(MESSAGE_BYTES_MAX)
        .max_json_response_size(MESSAGE_BYTES_MAX);
    let transport = StreamableHttpClientTransport::with_client(client, config);
    ClientTransport::Http(transport)
}

/// Converts the error of a failed initialization.
fn connect_error(error: &ClientInitializeError) -> RemoteConnectError {
    let challenge = error
        .auth_challenge()
        .filter(|challenge| !challenge.is_empty());
    let sign_in = |scopes| RemoteConnectError::SignIn {
        missing_scopes: scopes,
        challenge: challenge.map(str::to_owned),
    };
    if error.is_authorization_required() {
        return sign_in(None);
    }
    if let Some(error) = transport_error(error) {
        if let scopes @ Some(_) = missing_scopes(error) {
            return sign_in(scopes);
        }
        return match refusal(error) {
            Some(reason) => RemoteConnectError::Refused(reason),
            None => RemoteConnectError::Failed(root_cause(error.error.as_ref()).to_string()),
        };
    }
    RemoteConnectError::Failed(root_cause(error).to_string())
}

/// Returns the scopes that a request needed, if it was rejected for lack of them; an empty text if
/// the server does not name them.
pub(super) fn missing_scopes(error: &DynamicTransportError) -> Option<String> {
    let mut causes = causes(error.error.as_ref());
    let scope_error = causes.find_map(|cause| cause.downcast_ref::<InsufficientScopeError>())?;
    Some(scope_error.required_scope.clone().unwrap_or_default())
}

/// Returns why massgen refused to send a request, if it failed for that reason: there was no token
/// for it, or the address is not allowed.
pub(super) fn refusal(error: &DynamicTransportError) -> Option<String> {
    match error.error.downcast_ref()? {
        ClientTransportError::Http(error) => refused_request(error),
        ClientTransportError::Pipes(_) => None,
    }
}

/// Returns why massgen refused to send a request, if it failed for that reason.
fn refused_request(error: &RemoteHttpError) -> Option<String> {
    if let StreamableHttpError::Client(error) = error {
        refused_address(error).map(str::to_owned)
    } else if let StreamableHttpError::Auth(error) = error {
        Some(root_cause(error).to_string())
    } else if let StreamableHttpError::ReservedHeaderConflict(_) = error {
        Some(error.to_string())
    } else {
        None
    }
}

/// Why a remote server cannot be used.
#[derive(Debug)]
pub(super) enum RemoteConnectError {
    /// It requires the user to sign in.
    SignIn {
        /// The scopes that the request needed, if it was rejected for lack of them.
        missing_scopes: Option<String>,
        /// The authentication challenge of the server.
        challenge: Option<String>,
    },
    /// massgen refused to send a request, for this reason.
    Refused(String),
    /// For another reason.
    Failed(String),
}
