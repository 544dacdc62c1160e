//! Resolves the names of remote servers, and checks the resulting addresses before connecting.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::config::servers::{AddressPolicy, RemoteServer};
use crate::config::vendors::is_local_name;
use crate::world::io::http::{causes, client_with_resolver, loopback};

/// The error for a name that has only addresses to which the config allows no connection.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RefusedAddress(&'static str);

/// Returns why massgen did not connect to any address of a name, if a request failed for that
/// reason.
pub(super) fn refused_address(error: &reqwest::Error) -> Option<&'static str> {
    causes(error).find_map(|cause| Some(cause.downcast_ref::<RefusedAddress>()?.0))
}

/// Builds the HTTP client for a server, if its address is allowed. An address that occurs literally
/// in the URL is never resolved, so it is checked here.
pub(super) fn guarded_client(remote: &RemoteServer) -> Result<Client, String> {
    let addresses = remote.addresses;
    match addresses.url_problem(&remote.url) {
        Some(reason) => Err(reason.to_owned()),
        None => client_with_resolver(Arc::new(GuardedResolver(addresses)))
            .map_err(|error| error.to_string()),
    }
}

/// Resolves names, and returns only addresses that the config allows. `localhost` and its
/// subdomains always resolve to this machine, whatever DNS returns.
struct GuardedResolver(AddressPolicy);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = self.0;
        Box::pin(async move {
            let resolved_addresses: Vec<SocketAddr> = if is_local_name(name.as_str()) {
                loopback().collect()
            } else {
                let addresses_of_name = tokio::net::lookup_host((name.as_str(), 0)).await?;
                addresses_of_name.collect()
            };
            let mut problem = None;
            let mut allowed_addresses = Vec::new();
            for address in resolved_addresses {
                match addresses.address_problem(address.ip()) {
                    None => allowed_addresses.push(address),
                    Some(reason) => problem = Some(reason),
                }
            }
            match problem {
                Some(reason) if allowed_addresses.is_empty() => Err(RefusedAddress(reason).into()),
                Some(_) | None => {
                    let addrs: Addrs = Box::new(allowed_addresses.into_iter());
                    Ok(addrs)
                }
            }
        })
    }
}
