//! Owns connections to servers on the network: to which addresses they lead, and that they lead
//! nowhere else. A name is looked up here, and what it stands for is judged before it is connected
//! to; redirects are not followed, because they would take the headers along.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::service::ClientInitializeError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use secrecy::ExposeSecret;

use crate::config::servers::{Addresses, RemoteServer};
use crate::world::http::{innermost, only_to};

/// The longest message of a server that is read, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a server on the network is spoken with over.
pub(super) fn transport(
    remote: &RemoteServer,
) -> Result<StreamableHttpClientTransport<Client>, String> {
    let resolver = Arc::new(Judging(remote.addresses));
    let client = only_to(resolver).map_err(|error| error.to_string())?;
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
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Why nobody could be spoken with.
pub(super) fn told(error: &ClientInitializeError) -> String {
    if error.is_authorization_required() {
        return "it wants to know who asks: add its token to `headers`".to_owned();
    }
    if let ClientInitializeError::TransportError { error, .. } = error {
        return innermost(error.error.as_ref()).to_string();
    }
    innermost(error).to_string()
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
