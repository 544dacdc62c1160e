//! Owns connections to servers on the network: to which addresses they lead, and that they lead
//! nowhere else. A name is looked up here, and what it stands for is judged before it is connected
//! to; redirects are not followed, because they would take the headers along.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rmcp::service::ClientInitializeError;
use rmcp::transport::streamable_http_client::{
    InsufficientScopeError, StreamableHttpClient, StreamableHttpClientTransportConfig,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use secrecy::ExposeSecret;

use crate::config::servers::{Addresses, RemoteServer};
use crate::world::http::{innermost, only_to};

/// The longest message of a server that is read, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What requests to addresses that are allowed are made with.
pub(super) fn client(addresses: Addresses) -> Result<Client, String> {
    only_to(Arc::new(Judging(addresses))).map_err(|error| error.to_string())
}

/// What a server on the network is spoken with over, by `client`.
pub(super) fn transport<C: StreamableHttpClient>(
    remote: &RemoteServer,
    client: C,
) -> StreamableHttpClientTransport<C> {
    let header = |(name, value): (&String, &secrecy::SecretString)| {
        let mut value = HeaderValue::from_str(value.expose_secret()).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_str(name).ok()?, value))
    };
    let headers = remote.headers.iter().filter_map(header).collect();
    let config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(MESSAGE_BYTES_MAX)
        .max_json_response_size(MESSAGE_BYTES_MAX);
    StreamableHttpClientTransport::with_client(client, config)
}

/// Whether the config itself says who asks, so that nobody needs to sign in.
pub(super) fn says_who(remote: &RemoteServer) -> bool {
    let mut names = remote.headers.keys();
    names.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()))
}

/// Why nobody could be spoken with.
pub(super) fn told(error: &ClientInitializeError) -> Refusal {
    if error.is_authorization_required() {
        return Refusal::SignIn(None);
    }
    if let ClientInitializeError::TransportError { error, .. } = error {
        if let missing @ Some(_) = missing_scopes(error) {
            return Refusal::SignIn(missing);
        }
        return Refusal::Failed(innermost(error.error.as_ref()).to_string());
    }
    Refusal::Failed(innermost(error).to_string())
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
pub(super) enum Refusal {
    /// It wants the user to sign in, perhaps for these rights.
    SignIn(Option<String>),
    /// For this reason.
    Failed(String),
}

/// Looks names up, and gives away only the addresses that the config allows.
struct Judging(Addresses);

impl Resolve for Judging {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let all: Vec<SocketAddr> = found.collect();
            let mut fault = None;
            let mut allowed = Vec::new();
            for address in all {
                match addresses.fault_of(address.ip()) {
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
