//! Decides which addresses are public: reachable from the whole Internet, and not local to the
//! machine or its network.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that are not public, as an address and a prefix length in bits:
/// <https://www.iana.org/assignments/iana-ipv4-special-registry>, multicast and reserved ones.
const NOT_PUBLIC_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Azure's metadata service:
    // <https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16>.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    // Most clouds have their metadata service at 169.254.169.254.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Networks that are not public inside `2000::/3`; nothing outside of it is:
/// <https://www.iana.org/assignments/iana-ipv6-special-registry>.
const NOT_PUBLIC_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // It embeds IPv4 addresses, including private ones.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// The public range of IPv6.
const PUBLIC_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Returns whether an address is reachable from the whole Internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let contains_address = |(network, bits): &(Ipv4Addr, u32)| {
                let differs = address.to_bits() ^ network.to_bits();
                differs.leading_zeros() >= *bits
            };
            !NOT_PUBLIC_V4.iter().any(contains_address)
        }
        IpAddr::V6(address) => {
            if let Some(mapped_address) = address.to_ipv4_mapped() {
                return is_public(mapped_address.into());
            }
            is_in_networks(address, &[PUBLIC_V6]) && !is_in_networks(address, NOT_PUBLIC_V6)
        }
    }
}

/// Returns whether an IPv6 address is in one of these networks, each an address and a prefix length
/// in bits.
pub fn is_in_networks(address: Ipv6Addr, networks: &[(Ipv6Addr, u32)]) -> bool {
    let contains_address = |(network, bits): &(Ipv6Addr, u32)| {
        let differs = address.to_bits() ^ network.to_bits();
        differs.leading_zeros() >= *bits
    };
    networks.iter().any(contains_address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, expected: bool) {
        assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
    }

    #[test]
    fn only_what_the_whole_internet_reaches_is_public() {
        for address in [
            "1.1.1.1",
            "93.184.215.14",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.32.0.1",
            "168.63.129.17",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:1.1.1.1",
        ] {
            check(address, true);
        }
        for address in [
            "0.0.0.0",
            "127.0.0.1",
            "127.255.255.254",
            "10.1.2.3",
            "100.100.100.200",
            "169.254.169.254",
            "168.63.129.16",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
        ] {
            check(address, false);
        }
    }
}
