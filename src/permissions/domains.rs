//! Names of hosts, and the domains that a config opens. A name is read the same way here and
//! wherever it is resolved; addresses are never names.

use std::fmt;

/// A host name, or with a leading dot all names below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainPattern(String);

/// A host name in a request: lower-case ASCII, and not an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostName(String);

/// The longest host name, in bytes: <https://www.rfc-editor.org/rfc/rfc1035#section-2.3.4>.
const NAME_BYTES_MAX: usize = 253;

impl DomainPattern {
    /// Parses `example.org`, `.example.org`, or `*.example.org`, which is equivalent to the second.
    /// Addresses, ports and characters other than letters, digits, `-` and `_` are rejected.
    pub fn parse(text: &str) -> Option<Self> {
        let pattern = text
            .strip_prefix('*')
            .filter(|rest| rest.starts_with('.'))
            .unwrap_or(text);
        let (dot, name) = match pattern.strip_prefix('.') {
            Some(name) => (".", name),
            None => ("", pattern),
        };
        let HostName(name) = HostName::parse(name)?;
        Some(Self(format!("{dot}{name}")))
    }

    /// Returns whether it covers `host`: this host itself, or with a leading dot any name below.
    pub fn matches(&self, host: &HostName) -> bool {
        if self.0.starts_with('.') {
            host.0.len() > self.0.len() && host.0.ends_with(&self.0)
        } else {
            host.0 == self.0
        }
    }
}

impl HostName {
    /// Parses a host name. Rejects addresses in any notation, and characters other than letters,
    /// digits, `-`, `_` and single dots, so that a name is read the same way here and wherever it
    /// is resolved.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.to_ascii_lowercase();
        let is_label_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_label_byte);
        let last_label = name.rsplit('.').next().unwrap_or_default();
        let is_name = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
        (is_name && !is_number(last_label)).then_some(Self(name))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether a name with this last label is parsed as an address:
/// <https://url.spec.whatwg.org/#ends-in-a-number-checker>.
fn is_number(label: &str) -> bool {
    let is_decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_decimal(label) || label.strip_prefix("0x").is_some_and(is_hexadecimal)
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let domain = DomainPattern::parse(text).map(|domain| domain.0);
        assert_eq!(domain.as_deref(), expected, "{text}");
    }

    #[test]
    fn domains_are_names_and_nothing_else() {
        check("Example.org", Some("example.org"));
        check(".example.org", Some(".example.org"));
        check("*.example.org", Some(".example.org"));
        check("localhost", Some("localhost"));
        for text in [
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
            check(text, None);
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
