//! Owns what commands may reach of the network.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the user allows (`command_line_network`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkPolicy {
    /// Nothing but the sandbox's own loopback.
    #[default]
    Off,
    /// All that massgen itself reaches.
    On,
    /// Hosts of these domains, through a proxy that resolves and checks names.
    Domains(Vec<DomainPattern>),
}

/// A host name, or with a leading dot all names below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainPattern(String);

/// The name of a host as a request gives it: ASCII in lower case, and no address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostName(String);

/// The longest name of a host, in bytes: <https://www.rfc-editor.org/rfc/rfc1035#section-2.3.4>.
const NAME_BYTES_MAX: usize = 253;

impl DomainPattern {
    /// Reads `example.org`, `.example.org`, or `*.example.org`, which is the same as the second.
    /// Addresses, ports and anything but letters, digits, `-` and `_` are not taken.
    pub fn parse(written: &str) -> Option<Self> {
        let text = written
            .strip_prefix('*')
            .filter(|rest| rest.starts_with('.'));
        let text = text.unwrap_or(written);
        let (dot, name) = match text.strip_prefix('.') {
            Some(name) => (".", name),
            None => ("", text),
        };
        let HostName(name) = HostName::parse(name)?;
        Some(Self(format!("{dot}{name}")))
    }

    /// Whether `host` is this host, or one of the names below it.
    pub fn matches(&self, host: &HostName) -> bool {
        if self.0.starts_with('.') {
            host.0.len() > self.0.len() && host.0.ends_with(&self.0)
        } else {
            host.0 == self.0
        }
    }
}

impl HostName {
    /// Reads a name. An address is none, in whatever way it is written, and neither is what has
    /// another character in it than letters, digits, `-`, `_` and single dots: there is one reading
    /// of it, here and wherever it is resolved.
    pub fn parse(written: &str) -> Option<Self> {
        let name = written.to_ascii_lowercase();
        let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_byte);
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_name = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
        (is_name && !is_number(last)).then_some(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a name that ends so is read as an address: <https://url.spec.whatwg.org/#ends-in-a-number-checker>.
fn is_number(label: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits(label) || label.strip_prefix("0x").is_some_and(hexadecimal)
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the sandbox is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkAccess {
    /// No network.
    None,
    /// The machine's network.
    Host,
    /// Only massgen's proxy. In tiers A and B the sandbox opens a listener on its own loopback and
    /// hands it to massgen, which answers there; in tier C it may connect to this port of the
    /// machine's loopback.
    Proxy {
        /// The port of the proxy, on 127.0.0.1 of the sandbox or of the machine.
        port: u16,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, expected: Option<&str>) {
        let read = DomainPattern::parse(written).map(|domain| domain.0);
        assert_eq!(read.as_deref(), expected, "{written}");
    }

    #[test]
    fn domains_are_names_and_nothing_else() {
        check("Example.org", Some("example.org"));
        check(".example.org", Some(".example.org"));
        check("*.example.org", Some(".example.org"));
        check("localhost", Some("localhost"));
        for bad in [
            "",
            ".",
            "*",
            "*.",
            "*a.org",
            "a..b",
            "a.org.",
            "127.0.0.1",
            "2130706433",
            "127.0.0.0x1",
            "::1",
            "a.org:443",
            "https://a.org",
            "a b",
            "a\0b",
            "a@b.org",
            "ä.org",
        ] {
            check(bad, None);
        }
    }

    #[track_caller]
    fn check_covers(domain: &str, host: &str, expected: bool) {
        let domain = DomainPattern::parse(domain).unwrap();
        let covers = HostName::parse(host).is_some_and(|host| domain.matches(&host));
        assert_eq!(covers, expected, "{domain} {host:?}");
    }

    #[test]
    fn a_domain_covers_itself_or_what_is_below_it() {
        check_covers("example.org", "example.org", true);
        check_covers("example.org", "EXAMPLE.org", true);
        check_covers("example.org", "a.example.org", false);
        check_covers("*.example.org", "a.example.org", true);
        check_covers(".example.org", "a.b.example.org", true);
        for host in [
            "example.org",
            ".example.org",
            "badexample.org",
            "a.example.org.evil.net",
            "a.example.org.",
            "evil.net\0.example.org",
            "evil.net/.example.org",
            "evil.net#.example.org",
            "user@a.example.org",
            "evil.net\r\n.example.org",
            "evil\u{ff0e}net.example.org",
            "[::1].example.org",
        ] {
            check_covers(".example.org", host, false);
        }
    }
}
