//! Owns connections to servers on the network: to which addresses they lead, and that they lead
//! nowhere else. A name is looked up here, and what it stands for is judged before it is connected
//! to; redirects are not followed, because they would take the headers along.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rmcp::service::{ClientInitializeError, RoleClient, RunningService, serve_client};
use rmcp::transport::streamable_http_client::{
    InsufficientScopeError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use secrecy::ExposeSecret;

use crate::config::servers::{AddressPolicy, RemoteProtocol, RemoteServer};
use crate::config::vendors::is_local_name;
use crate::world::http::{client_with_resolver, loopback, root_cause};
use crate::world::mcp::MESSAGE_BYTES_MAX;
use crate::world::mcp::client_handler::{McpClientHandler, ServerListener};
use crate::world::mcp::credentials::Credentials;
use crate::world::mcp::message_size::BoundedClient;
use crate::world::mcp::sse::{SseHttpClient, SseTransport};
use crate::world::mcp::watched_transport::WatchedTransport;

/// The statuses by which a server says that it does not know Streamable HTTP.
const UNKNOWN_THERE: [&str; 3] = ["HTTP 400 ", "HTTP 404 ", "HTTP 405 "];

/// What requests to a server are made with, if its address is one that is allowed. One that stands
/// in the URL itself is nowhere looked up, so it is judged here.
pub(super) fn client(remote: &RemoteServer) -> Result<Client, String> {
    let addresses = remote.addresses;
    match addresses.url_fault(&remote.url) {
        Some(why) => Err(why.to_owned()),
        None => client_with_resolver(Arc::new(GuardedResolver(addresses)))
            .map_err(|error| error.to_string()),
    }
}

/// Greets a server by `client`, in the protocol that the config names. One that does not know
/// Streamable HTTP is greeted in the older one. `changes` counts how often its tools have changed;
/// `credentials` are taken out of what it says.
pub(super) async fn initialize_remote<C: SseHttpClient>(
    (remote, client): (&RemoteServer, C),
    listener: Option<&ServerListener>,
    changes: &Arc<AtomicUsize>,
    credentials: &Credentials,
) -> Result<RunningService<RoleClient, McpClientHandler>, RemoteConnectError> {
    let client = BoundedClient(client);
    let host = || McpClientHandler::new(&[], listener.cloned());
    let mut before = None;
    if remote.protocol == RemoteProtocol::Streamable {
        let transport =
            WatchedTransport::new(streamable(remote, client.clone()), changes, credentials);
        match serve_client(host(), transport).await {
            Ok(service) => return Ok(service),
            Err(error) => {
                before = Some(unsupported_status(&error).ok_or_else(|| connect_error(&error))?);
            }
        }
    }
    let events = SseTransport::open(remote, client).await.map_err(|error| {
        let refusal = connect_error(&ClientInitializeError::transport::<
            SseTransport<BoundedClient<C>>,
        >(error, "sse"));
        refusal.without_sse(before)
    })?;
    let greeted = serve_client(host(), WatchedTransport::new(events, changes, credentials)).await;
    greeted.map_err(|error| connect_error(&error))
}

/// The status by which a server says that it does not know Streamable HTTP. One that answers with a
/// message knows it, whatever the status.
fn unsupported_status(error: &ClientInitializeError) -> Option<String> {
    let ClientInitializeError::TransportError { error, .. } = error else {
        return None;
    };
    // The status is told in these words only.
    let error: &StreamableHttpError<reqwest::Error> = error.error.downcast_ref()?;
    let StreamableHttpError::UnexpectedServerResponse(said) = error else {
        return None;
    };
    let is_unknown = UNKNOWN_THERE.iter().any(|known| said.starts_with(known));
    let status = said.split(':').next().filter(|_| is_unknown);
    status.map(str::to_owned)
}

fn streamable<C: StreamableHttpClient>(
    remote: &RemoteServer,
    client: C,
) -> StreamableHttpClientTransport<C> {
    let config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str())
        .custom_headers(headers(remote))
        .max_sse_event_size(MESSAGE_BYTES_MAX)
        .max_json_response_size(MESSAGE_BYTES_MAX);
    StreamableHttpClientTransport::with_client(client, config)
}

/// What the config says that every request carries.
pub(super) fn headers<H>(remote: &RemoteServer) -> H
where
    H: FromIterator<(HeaderName, HeaderValue)>,
{
    let header = |(name, value): (&String, &secrecy::SecretString)| {
        let mut value = HeaderValue::from_str(value.expose_secret()).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_str(name).ok()?, value))
    };
    remote.headers.iter().filter_map(header).collect()
}

/// Whether the config itself says who asks, so that nobody needs to sign in.
pub(super) fn has_own_credentials(remote: &RemoteServer) -> bool {
    let mut names = remote.headers.keys();
    names.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()))
}

/// Why nobody could be spoken with.
fn connect_error(error: &ClientInitializeError) -> RemoteConnectError {
    let challenge = error.auth_challenge().filter(|said| !said.is_empty());
    let sign_in = |missing| RemoteConnectError::SignIn {
        missing,
        challenge: challenge.map(str::to_owned),
    };
    if error.is_authorization_required() {
        return sign_in(None);
    }
    if let ClientInitializeError::TransportError { error, .. } = error {
        if let missing @ Some(_) = missing_scopes(error) {
            return sign_in(missing);
        }
        return RemoteConnectError::Failed(root_cause(error.error.as_ref()).to_string());
    }
    RemoteConnectError::Failed(root_cause(error).to_string())
}

/// The rights that the user has not given yet, if nothing was sent for want of them.
pub(super) fn missing_scopes(error: &DynamicTransportError) -> Option<String> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error.error.as_ref());
    while let Some(current) = source {
        if let Some(missing) = current.downcast_ref::<InsufficientScopeError>() {
            return Some(missing.required_scope.clone().unwrap_or_default());
        }
        source = current.source();
    }
    None
}

/// Why a server on the network does not answer.
#[derive(Debug)]
pub(super) enum RemoteConnectError {
    /// It wants the user to sign in.
    SignIn {
        /// For these rights that they have not given yet.
        missing: Option<String>,
        /// What it said when it turned them away.
        challenge: Option<String>,
    },
    /// For this reason.
    Failed(String),
}

impl RemoteConnectError {
    /// That there is no stream of events; `before` is what was answered in the newer protocol.
    fn without_sse(self, before: Option<String>) -> Self {
        match (self, before) {
            (Self::Failed(why), Some(before)) => Self::Failed(format!(
                "it answers neither streamable http nor sse: {before}; {why}"
            )),
            (Self::Failed(why), None) => Self::Failed(format!("it does not answer sse: {why}")),
            (refusal @ Self::SignIn { .. }, _) => refusal,
        }
    }
}

/// Looks names up, and gives away only the addresses that the config allows. `localhost` and the names
/// below it are this machine, whatever anybody else says of them.
struct GuardedResolver(AddressPolicy);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = self.0;
        Box::pin(async move {
            let all: Vec<SocketAddr> = if is_local_name(name.as_str()) {
                loopback().collect()
            } else {
                let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
                found.collect()
            };
            let mut fault = None;
            let mut allowed = Vec::new();
            for address in all {
                match addresses.address_fault(address.ip()) {
                    None => allowed.push(address),
                    Some(why) => fault = Some(why),
                }
            }
            match fault {
                Some(why) if allowed.is_empty() => Err(why.into()),
                Some(_) | None => {
                    let allowed: Addrs = Box::new(allowed.into_iter());
                    Ok(allowed)
                }
            }
        })
    }
}
