//! Parses requests to the proxy: the head is parsed once, and anything ambiguous is refused.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use httparse::Status;

use crate::permissions::domains::HostName;

/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Size of a chunk that is read, in bytes.
const CHUNK_BYTES: usize = 4 * 1024;

/// Default port of a request.
const HTTP_PORT: u16 = 80;

/// Why a request is refused whose first line is not what the standard allows.
const INVALID_REQUEST: &str = "the request holds characters that it may not hold";

/// End of the head of a request.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// Headers that are not forwarded: those between client and proxy, and `Host`, which the proxy
/// sets.
const UNFORWARDED_HEADERS: &[&str] = &[
    "connection",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "upgrade",
];

/// Request of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    /// The host that it names.
    pub(super) host: HostName,
    /// The port on the host.
    pub(super) port: u16,
    /// How it is forwarded.
    pub(super) mode: ForwardingMode,
}

/// How a request is forwarded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ForwardingMode {
    /// Through a tunnel, in which the client talks to the host directly.
    Tunnel,
    /// As one HTTP request, which begins with this head.
    Forward(Vec<u8>),
}

/// Reads the head of a request and the bytes that followed it; `None` if the head is too long.
pub(super) fn read_head(
    mut client: &TcpStream,
    time_max: Duration,
) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let start_time = Instant::now();
    let mut head = Vec::new();
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        let length = client.read(&mut chunk)?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(chunk.get(..length).unwrap_or_default());
        let end = head
            .windows(END_OF_HEAD.len())
            .position(|window| window == END_OF_HEAD);
        if let Some(end) = end {
            let rest = head.split_off(end.saturating_add(END_OF_HEAD.len()));
            return Ok(Some((head, rest)).filter(|(head, _)| head.len() <= HEAD_BYTES_MAX));
        }
        if head.len() > HEAD_BYTES_MAX {
            return Ok(None);
        }
        if start_time.elapsed() > time_max {
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

/// Parses the head of a request. The error says why it is refused.
pub(super) fn parse_head(head: &[u8]) -> Result<ProxyRequest, &'static str> {
    let lines = head.split(|byte| *byte == b'\n').count();
    let mut headers = vec![httparse::EMPTY_HEADER; lines];
    let mut request = httparse::Request::new(&mut headers);
    // The parser skips empty lines before a request, and also ends a head at a bare line feed.
    let is_whole = match request.parse(head).map_err(describe_syntax_error)? {
        Status::Complete(length) => {
            length == head.len() && !head.starts_with(b"\r") && !head.starts_with(b"\n")
        }
        Status::Partial => false,
    };
    let (Some(method), Some(target), true) = (request.method, request.path, is_whole) else {
        return Err("expected METHOD TARGET HTTP/1.1");
    };
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(INVALID_REQUEST);
    }
    if method == "CONNECT" {
        let (host, port) = target.rsplit_once(':').ok_or("expected HOST:PORT")?;
        let (host, port) = (parse_host(host)?, parse_port(port)?);
        let mode = ForwardingMode::Tunnel;
        return Ok(ProxyRequest { host, port, mode });
    }
    let (scheme, rest) = target
        .split_once("://")
        .ok_or("this is a proxy: expected CONNECT or a whole URL")?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err("expected CONNECT for anything but http");
    }
    if rest.contains('#') {
        return Err("a URL of a request has no fragment");
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (parse_host(host)?, parse_port(port)?),
        None => (parse_host(authority)?, HTTP_PORT),
    };
    let slash = if path.starts_with('/') { "" } else { "/" };
    let authority = match port {
        HTTP_PORT => host.as_str().to_owned(),
        port => format!("{}:{port}", host.as_str()),
    };
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    for header in &*request.headers {
        let is_named = |name: &&str| header.name.eq_ignore_ascii_case(name);
        if !UNFORWARDED_HEADERS.iter().any(is_named) {
            head.extend_from_slice(header.name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(header.value);
            head.extend_from_slice(b"\r\n");
        }
    }
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    let mode = ForwardingMode::Forward(head);
    Ok(ProxyRequest { host, port, mode })
}

fn describe_syntax_error(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => {
            "a header holds characters that it may not hold"
        }
        httparse::Error::Version => "expected HTTP/1.1",
        httparse::Error::NewLine
        | httparse::Error::Status
        | httparse::Error::Token
        | httparse::Error::TooManyHeaders => INVALID_REQUEST,
    }
}

fn parse_host(host: &str) -> Result<HostName, &'static str> {
    HostName::parse(host).ok_or("expected the name of a host, not an address")
}

fn parse_port(port: &str) -> Result<u16, &'static str> {
    let has_only_digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let number = port
        .parse()
        .ok()
        .filter(|number| has_only_digits && *number > 0);
    number.ok_or("expected the number of a port")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected` is the host and port, and the forwarded head, or `None` for a tunnel.
    #[track_caller]
    fn check_asked(head: &str, expected: Result<(&str, u16, Option<&str>), &str>) {
        let request = parse_head(head.as_bytes());
        let seen = request.as_ref().map(|request| {
            let forwarded = match &request.mode {
                ForwardingMode::Tunnel => None,
                ForwardingMode::Forward(head) => Some(std::str::from_utf8(head).unwrap()),
            };
            (request.host.as_str(), request.port, forwarded)
        });
        assert_eq!(seen.map_err(|reason| *reason), expected, "{head:?}");
    }

    #[test]
    fn a_tunnel_names_a_host_and_a_port() {
        check_asked(
            "CONNECT Example.org:443 HTTP/1.1\r\nHost: other\r\n\r\n",
            Ok(("example.org", 443, None)),
        );
        let address = Err("expected the name of a host, not an address");
        for target in [
            "1.2.3.4:443",
            "[::1]:443",
            "0x7f.1:443",
            "a@b.org:443",
            "a.org:443:443",
            "evil\u{0}.org:443",
        ] {
            let head = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
            let expected = if target.contains('\0') {
                Err("the request holds characters that it may not hold")
            } else {
                address
            };
            check_asked(&head, expected);
        }
        for target in ["a.org", "a.org:", "a.org:0", "a.org:65536", "a.org:+1"] {
            let head = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
            assert!(parse_head(head.as_bytes()).is_err(), "{target}");
        }
    }

    #[test]
    fn a_url_is_forwarded_to_the_host_that_it_names_and_to_no_other() {
        check_asked(
            "GET http://a.org/x?y HTTP/1.1\r\nHost: evil.net\r\nAccept: */*\r\n\
             Proxy-Authorization: Basic x\r\nConnection: keep-alive\r\n\r\n",
            Ok((
                "a.org",
                80,
                Some(
                    "GET /x?y HTTP/1.1\r\nHost: a.org\r\nAccept: */*\r\nConnection: close\r\n\r\n",
                ),
            )),
        );
        check_asked(
            "GET HTTP://a.org:8080?q HTTP/1.0\r\n\r\n",
            Ok((
                "a.org",
                8080,
                Some("GET /?q HTTP/1.1\r\nHost: a.org:8080\r\nConnection: close\r\n\r\n"),
            )),
        );
    }

    #[test]
    fn ambiguous_proxy_requests_are_refused() {
        for head in [
            "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET https://a.org/ HTTP/1.1\r\n\r\n",
            "GET http://user@a.org/ HTTP/1.1\r\n\r\n",
            "GET http://a.org#b.org/ HTTP/1.1\r\n\r\n",
            "GET http://a.org\\.b.org/ HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "GET  http://a.org/ HTTP/1.1\r\n\r\n",
            "GET http://a.org/ HTTP/2\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nX : y\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nX: a\r\n folded\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nX: a\rY: b\r\n\r\n",
            "GET http://\u{e4}.org/ HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
            "\r\nGET http://a.org/ HTTP/1.1\r\n\r\n",
            "\nGET http://a.org/ HTTP/1.1\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\n\nGET http://b.org/ HTTP/1.1\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nX: a\n\nY: b\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\n: y\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nX: \u{0}\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nX\r\n\r\n",
            "GET http://a.org/ HTTP/1.1 x\r\n\r\n",
            "G(T http://a.org/ HTTP/1.1\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nX: y",
        ] {
            assert!(parse_head(head.as_bytes()).is_err(), "{head:?}");
        }
    }
}
