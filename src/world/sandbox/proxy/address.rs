//! Addresses that the proxy connects to: only those that it resolved itself, and only if they are
//! public on the Internet. Services on this machine or in its local network are never reached.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::permissions::domains::HostName;
use crate::sandbox_policy::public::is_public;

/// Timeout for connecting to one address.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Largest number of addresses of a host that are tried.
const ADDRESSES_TRIED_MAX: usize = 4;

/// Resolves a host to its public addresses.
pub(super) fn resolve(host: &HostName, port: u16) -> io::Result<Vec<SocketAddr>> {
    let addresses = (host.as_str(), port).to_socket_addrs()?;
    let public_addresses = addresses.filter(|address| is_public(address.ip()));
    Ok(public_addresses.take(ADDRESSES_TRIED_MAX).collect())
}

/// Connects to the first of `addresses` that answers.
pub(super) fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_TIME_MAX) {
            Ok(server) => return Ok(server),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
