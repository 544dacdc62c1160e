//! Checks whether a request was meant for this server and comes from no page of another site:
//! `Host`, `Origin` and `Sec-Fetch-Site`. A page of another site that reaches the server under its
//! own name, by DNS rebinding, is refused like one that sends requests to it.

use std::fmt;

use hyper::Method;
use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

/// Header in which browsers state the relation between the page and the server.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Value of that header for a page of another site.
const CROSS_SITE: &str = "cross-site";
/// Headers, and their values, in which browsers state that the user opens a page.
const OPENS_PAGE: [(HeaderName, &str); 2] = [
    (HeaderName::from_static("sec-fetch-mode"), "navigate"),
    (HeaderName::from_static("sec-fetch-dest"), "document"),
];
/// Names by which a machine reaches itself, as in the `Host` header.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Port of an address that names none.
const DEFAULT_PORT: u16 = 80;

/// The hosts and origins that a server accepts.
#[derive(Clone, Debug)]
pub(crate) struct OriginGuard {
    port: LoopbackPort,
    names: Vec<String>,
}

/// Which ports count with a loopback name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopbackPort {
    /// All: local pages and tunnels may use the server.
    Any,
    /// Only the server's own: pages of other local servers are refused.
    Own(u16),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardRefusal {
    /// It names several hosts or origins, of which only one would be checked.
    Ambiguous,
    /// It names no host of this server.
    Host,
    /// It comes from a page of another origin.
    Origin,
    /// The browser says that it comes from a page of another site.
    Site,
}

impl fmt::Display for GuardRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GuardRefusal::Ambiguous => "Forbidden: more than one host or origin",
            GuardRefusal::Host => "Forbidden: the host is not one of this server's names",
            GuardRefusal::Origin => "Forbidden: the origin is another server",
            GuardRefusal::Site => "Forbidden: the request comes from another site",
        })
    }
}

impl OriginGuard {
    /// Creates a guard that accepts the names of loopback with `port`, and `names` with any port.
    pub(crate) fn new(port: LoopbackPort, names: &[String]) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase());
        Self {
            port,
            names: names.collect(),
        }
    }

    /// Refuses a request that was not meant for this server, or comes from a page of another site.
    pub(crate) fn check(&self, request: &Parts) -> std::result::Result<(), GuardRefusal> {
        // A target with a host, as sent to proxies, counts as one more name.
        if request.uri.authority().is_some() {
            return Err(GuardRefusal::Ambiguous);
        }
        let host = only_value(&request.headers, &HOST)?;
        if !host.is_some_and(|host| self.is_own_host(host)) {
            return Err(GuardRefusal::Host);
        }
        if let Some(origin) = only_value(&request.headers, &ORIGIN)?
            && !self.is_own_origin(origin)
        {
            return Err(GuardRefusal::Origin);
        }
        let mut sites = request.headers.get_all(FETCH_SITE).iter();
        let is_cross_site =
            sites.any(|site| site.as_bytes().eq_ignore_ascii_case(CROSS_SITE.as_bytes()));
        if is_cross_site && !opens_page(request) {
            return Err(GuardRefusal::Site);
        }
        Ok(())
    }

    /// Returns whether `host`, a name with or without a port, is this server.
    fn is_own_host(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        if host.contains('@') {
            return false;
        }
        let name = authority.host().to_ascii_lowercase();
        if self.names.contains(&name) {
            return true;
        }
        let port = authority.port_u16().unwrap_or(DEFAULT_PORT);
        let is_accepted_port = match self.port {
            LoopbackPort::Any => true,
            LoopbackPort::Own(own) => port == own,
        };
        is_accepted_port && LOOPBACK_NAMES.contains(&name.as_str())
    }

    /// Returns whether `origin` is this server. Only a named host can be behind TLS.
    fn is_own_origin(&self, origin: &str) -> bool {
        match origin.split_once("://") {
            Some(("http", host)) => self.is_own_host(host),
            Some(("https", host)) => {
                let authority = host.parse::<Authority>().ok();
                let name = authority.map(|authority| authority.host().to_ascii_lowercase());
                self.is_own_host(host) && name.is_some_and(|name| self.names.contains(&name))
            }
            Some(_) | None => false,
        }
    }
}

/// Returns whether the user opens a page, as by a link: the page that has the link cannot read it.
fn opens_page(request: &Parts) -> bool {
    let has_value =
        |(name, value): &(HeaderName, &str)| only_value(&request.headers, name) == Ok(Some(*value));
    request.method == Method::GET && OPENS_PAGE.iter().all(has_value)
}

/// Returns the value of a header that must not occur twice. One that is not text is empty.
fn only_value<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> std::result::Result<Option<&'h str>, GuardRefusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value.map(|value| value.to_str().unwrap_or_default())),
        (_, Some(_)) => Err(GuardRefusal::Ambiguous),
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    #[track_caller]
    fn check(port: LoopbackPort, headers: &[(&str, &str)], expected: Result<(), GuardRefusal>) {
        let guard = OriginGuard::new(port, &["Box.example.org".to_owned()]);
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(guard.check(&parts), expected, "{port:?} {headers:?}");
    }

    #[test]
    fn only_the_names_of_the_server_are_hosts() {
        let own = LoopbackPort::Own(7801);
        for host in [
            "127.0.0.1:7801",
            "localhost:7801",
            "LOCALHOST:7801",
            "[::1]:7801",
            "box.example.org",
            "box.example.org:8080",
        ] {
            check(own, &[("host", host)], Ok(()));
        }
        for host in [
            "",
            "localhost",
            "localhost:7802",
            "localhost.:7801",
            "evil@localhost:7801",
            "localhost:7801@evil.example",
            "evil.example:7801",
            "localhost.evil.example:7801",
            "0.0.0.0:7801",
            "127.0.0.2:7801",
            "127.1:7801",
            "localhost:7801/x",
        ] {
            check(own, &[("host", host)], Err(GuardRefusal::Host));
        }
        check(own, &[], Err(GuardRefusal::Host));
        check(LoopbackPort::Any, &[("host", "localhost")], Ok(()));
        check(LoopbackPort::Own(80), &[("host", "localhost")], Ok(()));
        let twice = [("host", "localhost:7801"), ("host", "localhost:7801")];
        check(own, &twice, Err(GuardRefusal::Ambiguous));
    }

    #[test]
    fn only_pages_of_the_server_are_origins() {
        let own = LoopbackPort::Own(7801);
        let with = |origin| [("host", "localhost:7801"), ("origin", origin)];
        for origin in [
            "http://localhost:7801",
            "http://127.0.0.1:7801",
            "http://[::1]:7801",
            "http://box.example.org",
            "https://box.example.org",
        ] {
            check(own, &with(origin), Ok(()));
        }
        for origin in [
            "",
            "null",
            "https://localhost:7801",
            "http://localhost",
            "http://localhost:3000",
            "http://evil.example",
            "file://localhost:7801",
            "http://localhost:7801/x",
            "http://evil@localhost:7801",
        ] {
            check(own, &with(origin), Err(GuardRefusal::Origin));
        }
        check(LoopbackPort::Any, &with("http://localhost:3000"), Ok(()));
    }

    #[test]
    fn requests_of_pages_of_other_sites_are_refused() {
        let own = LoopbackPort::Own(7801);
        let with = |site| [("host", "localhost:7801"), ("sec-fetch-site", site)];
        for site in ["same-origin", "none"] {
            check(own, &with(site), Ok(()));
        }
        check(own, &with("Cross-Site"), Err(GuardRefusal::Site));
        // A link of another site, and a frame in it.
        for (destination, expected) in [
            ("document", Ok(())),
            ("iframe", Err(GuardRefusal::Site)),
            ("empty", Err(GuardRefusal::Site)),
        ] {
            let [host, site] = with("cross-site");
            let mode = ("sec-fetch-mode", "navigate");
            let headers = [host, site, mode, ("sec-fetch-dest", destination)];
            check(own, &headers, expected);
        }
    }
}
