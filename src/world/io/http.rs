//! The HTTP client that is shared in the process, and what clients with a resolver of their own are
//! built from. No client may be set up before its first request: loading certificates takes longer
//! than the startup of a run that needs no network.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use url::{Host, Url};

use crate::config::vendors::is_this_machine;
use crate::world::io::tls::client_config;

/// Timeout for opening a connection, including its TLS handshake.
const CONNECT_SECONDS_MAX: u64 = 10;
/// The port with which names are looked up.
const HTTPS_PORT: u16 = 443;

/// A client that is set up on first use and shared by its clones.
#[derive(Clone, Debug, Default)]
pub struct HttpClient {
    clients: Arc<HttpClientPair>,
    reachability: Arc<Reachability>,
}

/// What is known of the way to the hosts of all endpoints.
#[derive(Debug, Default)]
struct Reachability {
    /// The names of the hosts.
    names: Mutex<BTreeSet<String>>,
    /// Whether a host has responded.
    is_reached: AtomicBool,
}

/// Servers on this machine are reached directly, all others through the system's proxy.
#[derive(Debug, Default)]
struct HttpClientPair {
    direct: OnceLock<Result<Client, HttpSetupError>>,
    proxied: OnceLock<Result<Client, HttpSetupError>>,
}

/// Why the client could not be set up.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot set up the HTTP client: {0}")]
pub struct HttpSetupError(String);

impl HttpClient {
    /// Creates a client without setting it up.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the host of an endpoint to those that show whether there is a network.
    pub(crate) fn add_host(&self, url: &Url) {
        if let Some(Host::Domain(name)) = url.host()
            && !is_this_machine(url)
        {
            let names = self.reachability.names.lock();
            let mut names = names.unwrap_or_else(PoisonError::into_inner);
            names.insert(name.to_owned());
        }
    }

    /// Notes that a host has responded.
    pub(crate) fn note_reached(&self) {
        self.reachability.is_reached.store(true, Ordering::Relaxed);
    }

    /// Returns whether no host has responded so far, and the name of none is found.
    pub(crate) async fn finds_no_host(&self) -> bool {
        if self.reachability.is_reached.load(Ordering::Relaxed) {
            return false;
        }
        let names = self.reachability.names.lock();
        let names = names.unwrap_or_else(PoisonError::into_inner).clone();
        let lookups = names.into_iter().map(|name| async move {
            let lookup = tokio::net::lookup_host((name.as_str(), HTTPS_PORT)).await;
            lookup.is_err()
        });
        join_all(lookups).await.into_iter().all(|is_lost| is_lost)
    }

    /// Returns the client for `url`. It follows no redirects, because they would forward the API
    /// key.
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
}

/// Resolves every name to the loopback addresses without a DNS query, because names that count as
/// this machine are nowhere else.
#[derive(Debug)]
struct LoopbackResolver;

impl Resolve for LoopbackResolver {
    fn resolve(&self, _name: Name) -> Resolving {
        let addresses: Addrs = Box::new(loopback());
        Box::pin(async move { Ok(addresses) })
    }
}

/// Returns the loopback addresses of this machine. Port 0 is replaced by that of the URL.
pub(crate) fn loopback() -> impl Iterator<Item = SocketAddr> + Send {
    let addresses = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    addresses
        .into_iter()
        .map(|address| SocketAddr::new(address, 0))
}

/// Builds a client that connects only to the addresses that `resolver` returns. It uses no proxy,
/// which would resolve names itself.
pub(crate) fn client_with_resolver<R: Resolve + 'static>(
    resolver: Arc<R>,
) -> Result<Client, HttpSetupError> {
    build_client(Client::builder().no_proxy().dns_resolver(resolver))
}

fn build_client(builder: ClientBuilder) -> Result<Client, HttpSetupError> {
    // An earlier installation is of the same provider: there is no other in the program.
    drop(rustls::crypto::ring::default_provider().install_default());
    let setup_error =
        |error: &(dyn std::error::Error + 'static)| HttpSetupError(root_cause(error).to_string());
    let tls = client_config().map_err(|error| setup_error(&error))?;
    builder
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("massgen/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(CONNECT_SECONDS_MAX))
        .redirect(Policy::none())
        .build()
        .map_err(|error| setup_error(&error))
}

/// Returns the URL without its credentials and query, which may be secret.
pub(crate) fn display_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// Returns an error and its causes, from the outermost to the innermost.
pub(crate) fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

/// Returns the innermost error of a chain: the system's message without the layers around it.
pub(crate) fn root_cause<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a (dyn std::error::Error + 'static) {
    causes(error).last().unwrap_or(error)
}
