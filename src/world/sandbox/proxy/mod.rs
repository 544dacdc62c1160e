//! HTTP proxy for commands that may reach some domains only: it listens in their sandbox, resolves
//! names itself, and connects to public addresses of listed hosts.
//!
//! It sees host names but no content: it cannot judge what is sent to a listed host.

mod request;
mod tunnel;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::permissions::domains::{DomainPattern, HostName};
use crate::sandbox_policy::public::is_public;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::proxy::request::{ForwardingMode, ProxyRequest};
use crate::world::sandbox::proxy::tunnel::{TunnelEnds, copy_both_ways};
use crate::world::sys::launch::poll::{WaitInterest, wait_ready};

/// Largest number of connections that are open at the same time.
const CONNECTIONS_MAX: usize = 64;

/// Largest number of hosts that are counted separately; further ones are counted together.
const HOSTS_COUNTED_MAX: usize = 64;

/// Timeout for a client's request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// Name under which requests without a host are counted, and those to hosts beyond the limit.
const OTHERS: &str = "(others)";

/// Lets commands reach listed hosts. It closes all its connections on drop.
#[derive(Debug)]
pub struct NetworkProxy(Arc<NetworkProxyInner>);

#[derive(Debug)]
struct NetworkProxyInner {
    domains: Vec<DomainPattern>,
    stop: CommandInterrupt,
    /// The sockets of all open connections.
    connections: Mutex<BTreeMap<u64, Vec<TcpStream>>>,
    visits: Mutex<ProxyVisits>,
}

/// Number of requests by host. A listed host whose name cannot be resolved is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyVisits {
    /// Hosts that were allowed, whether or not they answered.
    pub allowed: BTreeMap<String, u64>,
    /// Hosts that were refused.
    pub refused: BTreeMap<String, u64>,
}

impl NetworkProxy {
    /// Creates a proxy to the hosts of `domains`, which does not listen anywhere yet.
    pub fn new(domains: &[DomainPattern]) -> io::Result<Self> {
        Ok(Self(Arc::new(NetworkProxyInner {
            domains: domains.to_vec(),
            stop: CommandInterrupt::new()?,
            connections: Mutex::default(),
            visits: Mutex::default(),
        })))
    }

    /// Serves `listener`, which is in the network namespace of a sandbox, until the proxy is
    /// dropped.
    pub fn serve(&self, listener: OwnedFd) -> io::Result<()> {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let state = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("proxy".to_owned());
        thread.spawn(move || state.accept(&listener))?;
        Ok(())
    }

    /// Listens on this machine's loopback interface and returns the port.
    pub fn serve_on_loopback(&self) -> io::Result<u16> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        self.serve(listener.into())?;
        Ok(port)
    }

    /// Returns the requests so far.
    pub fn visits(&self) -> ProxyVisits {
        self.0.visits.lock().clone()
    }
}

impl Drop for NetworkProxy {
    fn drop(&mut self) {
        self.0.stop.raise();
        for socket in self.0.connections.lock().values().flatten() {
            // Errors are ignored: the socket may be closed already.
            let _shutdown_result = socket.shutdown(Shutdown::Both);
        }
    }
}

impl NetworkProxyInner {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for number in 0.. {
            let client = loop {
                let handles = [
                    Some((listener.as_fd(), WaitInterest::Readable)),
                    Some((self.stop.as_fd(), WaitInterest::Readable)),
                ];
                if wait_ready(&handles, None).is_err() || self.stop.is_raised() {
                    return;
                }
                match listener.accept() {
                    Ok((client, _)) => break client,
                    // The client is gone, or resources are exhausted for now.
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            };
            let state = Arc::clone(self);
            let thread = thread::Builder::new().name("proxied".to_owned());
            // If no thread can be started, the connection is closed.
            let _spawn_result = thread.spawn(move || state.serve_connection(number, &client));
        }
    }

    fn serve_connection(&self, number: u64, client: &TcpStream) {
        if let Err(error) = self.answer_request(number, client) {
            tracing::debug!(%error, "a proxied connection ended");
        }
        self.connections.lock().remove(&number);
    }

    fn answer_request(&self, number: u64, client: &TcpStream) -> io::Result<()> {
        client.set_nonblocking(false)?;
        if !self.register_socket(number, client)? {
            return refuse(client, "503 Service Unavailable", "too many connections");
        }
        client.set_read_timeout(Some(REQUEST_TIME_MAX))?;
        client.set_write_timeout(Some(REQUEST_TIME_MAX))?;
        let Some((head, rest)) = request::read_head(client, REQUEST_TIME_MAX)? else {
            return refuse(client, "431 Request Header Fields Too Large", "too long");
        };
        let ProxyRequest { host, port, mode } = match request::parse_head(&head) {
            Ok(parts) => parts,
            Err(reason) => {
                self.count_refused(OTHERS);
                return refuse(client, "400 Bad Request", reason);
            }
        };
        if !self.domains.iter().any(|domain| domain.matches(&host)) {
            self.count_refused(host.as_str());
            let reason = format!(
                "`{}` is not listed in `command_line_network`, or `network` of a server or tool",
                host.as_str()
            );
            return refuse(client, "403 Forbidden", &reason);
        }
        let addresses = match resolve(&host, port) {
            Ok(addresses) => addresses,
            Err(error) => return refuse(client, "502 Bad Gateway", &error.to_string()),
        };
        if addresses.is_empty() {
            self.count_refused(host.as_str());
            let reason = format!("`{}` has no public address", host.as_str());
            return refuse(client, "403 Forbidden", &reason);
        }
        self.count_allowed(&host);
        let server = match connect(&addresses) {
            Ok(server) => server,
            Err(error) => return refuse(client, "502 Bad Gateway", &error.to_string()),
        };
        if !self.register_socket(number, &server)? {
            return Ok(());
        }
        let (mut to_client, mut to_server) = (client, &server);
        match mode {
            ForwardingMode::Tunnel => {
                to_client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            }
            ForwardingMode::Forward(head) => to_server.write_all(&head)?,
        }
        to_server.write_all(&rest)?;
        copy_both_ways(TunnelEnds {
            client,
            server: &server,
        })
    }

    /// Registers a socket, so that it is closed with the proxy; `false` if there are too many
    /// connections, or the proxy has stopped.
    fn register_socket(&self, number: u64, socket: &TcpStream) -> io::Result<bool> {
        let mut connections = self.connections.lock();
        let is_known = connections.contains_key(&number);
        if self.stop.is_raised() || (!is_known && connections.len() >= CONNECTIONS_MAX) {
            return Ok(false);
        }
        connections
            .entry(number)
            .or_default()
            .push(socket.try_clone()?);
        Ok(true)
    }

    fn count_allowed(&self, host: &HostName) {
        tracing::info!(host = host.as_str(), "a command was allowed a host");
        count(&mut self.visits.lock().allowed, host.as_str());
    }

    fn count_refused(&self, host: &str) {
        tracing::warn!(host, "a command was denied a host");
        count(&mut self.visits.lock().refused, host);
    }
}

fn count(hosts: &mut BTreeMap<String, u64>, host: &str) {
    let is_new = !hosts.contains_key(host);
    let name = if is_new && hosts.len() >= HOSTS_COUNTED_MAX {
        OTHERS
    } else {
        host
    };
    let count = hosts.entry(name.to_owned()).or_default();
    *count = count.saturating_add(1);
}

/// Sends the client the reason why there is no connection.
fn refuse(mut client: &TcpStream, status: &str, reason: &str) -> io::Result<()> {
    let body = format!("massgen: {reason}\n");
    let length = body.len();
    client.write_all(
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )
        .as_bytes(),
    )?;
    client.shutdown(Shutdown::Write)
}

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
