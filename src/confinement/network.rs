//! Owns what commands may reach of the network.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the user allows (`command_line_network`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing but the sandbox's own loopback.
    #[default]
    Off,
    /// All that massgen itself reaches.
    On,
    /// Hosts of these domains, through a proxy that resolves and checks names.
    Domains(Vec<Domain>),
}

/// A host name, or with a leading dot all names below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain(String);

/// The longest name of a host, in bytes: <https://www.rfc-editor.org/rfc/rfc1035#section-2.3.4>.
const NAME_BYTES_MAX: usize = 253;

impl Domain {
    /// Reads `example.org`, `.example.org`, or `*.example.org`, which is the same as the second.
    /// Addresses, ports and anything but letters, digits, `-` and `_` are not taken.
    pub fn parse(written: &str) -> Option<Self> {
        let lower = written.to_ascii_lowercase();
        let text = lower.strip_prefix('*').filter(|rest| rest.starts_with('.'));
        let text = text.unwrap_or(&lower);
        let name = text.strip_prefix('.').unwrap_or(text);
        let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_byte);
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_address = last.bytes().all(|byte| byte.is_ascii_digit());
        let is_name = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
        (is_name && !is_address).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the sandbox is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
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
        let read = Domain::parse(written).map(|domain| domain.0);
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
}
