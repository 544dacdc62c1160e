//! Owns the one HTTP client of the process. It must never be set up before the first request:
//! certificates take longer to load than a run without network takes to start.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use serde_json::Value;
use url::Url;

use crate::config::vendors::is_this_machine;

/// How long a connection may take to open, with its TLS handshake.
const CONNECT_SECONDS_MAX: u64 = 10;
/// How long a server on this machine may take to list its models.
const PROBE_MILLISECONDS_MAX: u64 = 1000;
/// The longest list of models that is read.
const PROBE_BYTES_MAX: usize = 4 << 20;

/// A client that is set up when it is first needed, and shared by whoever clones it.
#[derive(Clone, Debug, Default)]
pub struct HttpClient {
    clients: Arc<HttpClientPair>,
}

/// Servers on this machine are reached directly, all others through the system's proxy.
#[derive(Debug, Default)]
struct HttpClientPair {
    direct: OnceLock<Result<Client, HttpSetupError>>,
    proxied: OnceLock<Result<Client, HttpSetupError>>,
}

/// Why no request can be made at all.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub struct HttpSetupError(String);

impl HttpClient {
    /// A client that has done nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The client to reach `url` with. It follows no redirects, because they would take the key
    /// along.
    pub(crate) fn client_for(&self, url: &Url) -> Result<&Client, HttpSetupError> {
        let client = if is_this_machine(url) {
            let direct = || client_with_resolver(Arc::new(LoopbackResolver));
            self.clients.direct.get_or_init(direct)
        } else {
            let proxied = || build_client(Client::builder());
            self.clients.proxied.get_or_init(proxied)
        };
        client.as_ref().map_err(Clone::clone)
    }

    /// The models that the server at `base_url` lists; `None` if no such server answers at once.
    pub async fn probe_models(&self, base_url: &str) -> Option<Vec<String>> {
        let timeout = Duration::from_millis(PROBE_MILLISECONDS_MAX);
        tokio::time::timeout(timeout, self.list_models(base_url))
            .await
            .ok()?
    }

    async fn list_models(&self, base_url: &str) -> Option<Vec<String>> {
        let url = Url::parse(&format!("{}/models", base_url.trim_end_matches('/'))).ok()?;
        let response = self.client_for(&url).ok()?.get(url).send().await.ok()?;
        let mut response = response.error_for_status().ok()?;
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.ok()? {
            body.extend_from_slice(&bytes);
            if body.len() > PROBE_BYTES_MAX {
                return None;
            }
        }
        let listing: Value = serde_json::from_slice(&body).ok()?;
        let models = listing.get("data")?.as_array()?.iter();
        let names = models.filter_map(|model| model.get("id")?.as_str().map(str::to_owned));
        Some(names.collect())
    }
}

/// Finds the loopback addresses for every name, without asking anybody: what counts as this machine is
/// nowhere else.
#[derive(Debug)]
struct LoopbackResolver;

impl Resolve for LoopbackResolver {
    fn resolve(&self, _name: Name) -> Resolving {
        let found: Addrs = Box::new(loopback());
        Box::pin(async move { Ok(found) })
    }
}

/// The addresses of this machine that nobody else reaches. The port of a URL stands in for 0.
pub(crate) fn loopback() -> impl Iterator<Item = SocketAddr> + Send {
    let found = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    found.into_iter().map(|address| SocketAddr::new(address, 0))
}

/// A client that connects to nothing but the addresses that `resolver` gives, and knows no proxy,
/// which would look names up itself.
pub(crate) fn client_with_resolver<R: Resolve + 'static>(
    resolver: Arc<R>,
) -> Result<Client, HttpSetupError> {
    build_client(Client::builder().no_proxy().dns_resolver(resolver))
}

fn build_client(builder: ClientBuilder) -> Result<Client, HttpSetupError> {
    // Whoever installed a provider before chose the same one: there is no other in the program.
    drop(rustls::crypto::ring::default_provider().install_default());
    builder
        .user_agent(concat!("massgen/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(CONNECT_SECONDS_MAX))
        .redirect(Policy::none())
        .build()
        .map_err(|error| HttpSetupError(root_cause(&error).to_string()))
}

/// The URL without what may be secret in it: credentials and query.
pub(crate) fn display_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// The error at the bottom of a chain: what the system said, without the layers that passed it on.
pub(crate) fn root_cause<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a (dyn std::error::Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}
