//! Answers the `connect` calls of commands that may reach massgen's proxy and nothing else, at
//! level `landlock`. Landlock restricts the port but not the address, so the supervisor connects a
//! copy of the caller's socket itself, and only to the proxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::connect;

use crate::world::sys::sandbox::caller::NotifyingProcess;
use crate::world::sys::sandbox::notification::SeccompNotification;

/// The longest socket address, in bytes (`struct sockaddr_storage`).
const ADDRESS_BYTES_MAX: usize = 128;
/// Address families (`linux/socket.h`).
const INET: u16 = 2;
const INET6: u16 = 10;

/// A socket that is to be connected to the proxy.
#[derive(Debug)]
pub(crate) struct ProxyConnection {
    socket: OwnedFd,
    proxy: SocketAddr,
}

/// Reads the address that the caller wants to connect to; anything but the proxy at `proxy_port` is
/// refused, and without a proxy everything.
pub(crate) fn prepare_connection(
    notification: &SeccompNotification,
    caller: &NotifyingProcess,
    proxy_port: Option<u16>,
) -> Result<ProxyConnection, Errno> {
    let length = usize::try_from(notification.argument_i32(2)).map_err(|_| Errno::INVAL)?;
    if length > ADDRESS_BYTES_MAX {
        return Err(Errno::INVAL);
    }
    let address = caller.read_bytes(notification.argument(1), length)?;
    let proxy = parse_address(&address).filter(|address| is_proxy(*address, proxy_port));
    Ok(ProxyConnection {
        proxy: proxy.ok_or(Errno::ACCESS)?,
        socket: caller.duplicate_handle(notification.argument_i32(0))?,
    })
}

impl ProxyConnection {
    /// Connects the socket. The caller's own handle refers to the same socket.
    pub(crate) fn open(self) -> Result<(), Errno> {
        connect(self.socket, &self.proxy)
    }
}

/// Parses a `struct sockaddr_in` or a `struct sockaddr_in6`; `None` for another family.
fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, after_family) = bytes.split_first_chunk()?;
    let (port, after_port) = after_family.split_first_chunk()?;
    let ip = match u16::from_ne_bytes(*family) {
        INET => IpAddr::V4(Ipv4Addr::from(*after_port.first_chunk::<4>()?)),
        INET6 => {
            let (_flow, after_flow) = after_port.split_first_chunk::<4>()?;
            IpAddr::V6(Ipv6Addr::from(*after_flow.first_chunk::<16>()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

/// Returns whether the address is that of massgen's proxy. It listens on the IPv4 loopback address,
/// which an IPv6 socket writes in its own form.
fn is_proxy(address: SocketAddr, proxy_port: Option<u16>) -> bool {
    let is_loopback = address.ip().to_canonical() == IpAddr::V4(Ipv4Addr::LOCALHOST);
    is_loopback && proxy_port == Some(address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether a socket may be connected to `ip` at `port` when the proxy is at 3128, with
    /// the address in the kernel's format.
    #[track_caller]
    fn check(ip: &str, port: u16, expected: bool) {
        let (family, ip) = match ip.parse().unwrap() {
            IpAddr::V4(ip) => (INET, ip.octets().to_vec()),
            IpAddr::V6(ip) => (INET6, [&[0; 4], ip.octets().as_slice()].concat()),
        };
        let family = family.to_ne_bytes();
        let bytes = [family.as_slice(), &port.to_be_bytes(), &ip, &[0; 8]].concat();
        let address = parse_address(&bytes).unwrap();
        assert_eq!(is_proxy(address, Some(3128)), expected, "{address}");
        assert!(!is_proxy(address, None));
    }

    #[test]
    fn the_proxy_alone_is_reached() {
        check("127.0.0.1", 3128, true);
        check("::ffff:127.0.0.1", 3128, true);
        check("127.0.0.1", 3129, false);
        check("127.0.0.2", 3128, false);
        check("192.0.2.1", 3128, false);
        check("::1", 3128, false);
        check("::", 3128, false);
    }

    #[test]
    fn malformed_socket_addresses_are_rejected() {
        for bytes in [
            &[][..],
            &[2],
            &[2, 0, 12],
            &[2, 0, 12, 56, 127, 0, 0],
            &[1, 0, b'/', 0],
        ] {
            assert_eq!(parse_address(bytes), None, "{bytes:?}");
        }
        assert_eq!(parse_address(&[0; 16]), None);
    }
}
