//! The proxy of commands whose network access is limited to some domains, with real sockets and
//! names. Each test runs itself again in its own network namespace, in which a public address is on
//! loopback and a file maps names to addresses.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use std::env;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use massgen::permissions::domains::DomainPattern;
use massgen::world::sandbox::proxy::NetworkProxy;

/// Set if the test runs in the network that was created for it.
const INSIDE: &str = "MASSGEN_TEST_NETWORK";

/// An Internet address that is not contacted here.
pub(crate) const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 215, 14);

/// Creates the network and runs its arguments in it.
const NETWORK: &str = "
ip link set lo up
ip address add 93.184.215.14/32 dev lo
hosts=$(mktemp)
cat > $hosts <<HOSTS
93.184.215.14 public.example deep.public.example other.example
127.0.0.1 inner.public.example
169.254.169.254 metadata.public.example
HOSTS
mount --bind $hosts /etc/hosts
rm $hosts
exec \"$@\"
";

/// Runs `test`, which is the whole of the test `name` of this file, in its own network.
#[track_caller]
fn in_own_network(name: &str, test: impl FnOnce()) {
    in_network_of(&format!("proxy::{name}"), test);
}

/// Runs `test`, which is the whole of the test `name`, in its own network, if that is possible.
#[track_caller]
pub(crate) fn in_network_of(name: &str, test: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return test();
    }
    let unshare = |flags: &str| {
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-ec"]);
        command
    };
    let can = |flags: &&&str| {
        let output = unshare(flags).args([NETWORK, "sh", "true"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    // Root needs no user namespace, and keeps all restrictions of processes.
    let Some(flags) = ["-nm", "-rnm"].iter().find(can) else {
        return println!("skipped: no network of its own can be made here");
    };
    let output = unshare(flags)
        .args([NETWORK, "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{error}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}

/// Starts a proxy to `*.public.example` and `public.example`, and returns its port.
fn open_proxy() -> (NetworkProxy, u16) {
    let domains =
        ["public.example", "*.public.example"].map(|text| DomainPattern::parse(text).unwrap());
    let proxy = NetworkProxy::new(&domains).unwrap();
    let port = proxy.serve_on_loopback().unwrap();
    (proxy, port)
}

fn connect_client(port: u16) -> TcpStream {
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    client
        .set_read_timeout(Some(Duration::from_mins(2)))
        .unwrap();
    client
}

/// Returns the proxy's answer to `request`, until it closes the connection.
fn ask_proxy(port: u16, request: &str) -> String {
    let mut client = connect_client(port);
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

fn connect_request(host: &str, port: u16) -> String {
    format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// Starts an echo server at the public address.
fn start_echo_server() -> SocketAddr {
    let listener = TcpListener::bind((PUBLIC, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            thread::spawn(move || {
                io::copy(&mut &socket, &mut &socket).unwrap_or_default();
                socket.shutdown(Shutdown::Write).unwrap_or_default();
            });
        }
    });
    address
}

/// Reads to the end of the proxy's own answer.
fn read_head(client: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn listed_hosts_are_reached_and_counted() {
    in_own_network("listed_hosts_are_reached_and_counted", || {
        let (proxy, port) = open_proxy();
        let server = start_echo_server();
        for host in ["public.example", "DEEP.public.example"] {
            let mut client = connect_client(port);
            let hello = [
                connect_request(host, server.port()).as_bytes(),
                b"at once, ",
            ]
            .concat();
            client.write_all(&hello).unwrap();
            assert!(read_head(&mut client).starts_with("HTTP/1.1 200 "));
            client.write_all(b"and later").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut echoed = String::new();
            client.read_to_string(&mut echoed).unwrap();
            assert_eq!(echoed, "at once, and later");
        }
        let visits = proxy.visits();
        let allowed: Vec<_> = visits.allowed.into_iter().collect();
        let expected = ["deep.public.example", "public.example"].map(|host| (host.to_owned(), 1));
        assert_eq!(allowed, expected);
        assert!(visits.refused.is_empty());
    });
}

#[test]
fn other_hosts_and_addresses_are_refused() {
    in_own_network("other_hosts_and_addresses_are_refused", || {
        let (proxy, port) = open_proxy();
        let server = start_echo_server().port();
        let local = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        local.set_nonblocking(true).unwrap();
        let local_port = local.local_addr().unwrap().port();
        for (host, at, status, reason) in [
            ("other.example", server, "403", "not listed"),
            ("public.example.evil.net", server, "403", "not listed"),
            (
                "inner.public.example",
                local_port,
                "403",
                "no public address",
            ),
            ("metadata.public.example", 80, "403", "no public address"),
            ("127.0.0.1", local_port, "400", "not an address"),
            ("93.184.215.14", server, "400", "not an address"),
            ("[::1]", local_port, "400", "not an address"),
            ("x@public.example", server, "400", "not an address"),
            ("missing.public.example", 80, "502", "massgen: "),
        ] {
            let answer = ask_proxy(port, &connect_request(host, at));
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{host}: {answer}"
            );
            assert!(answer.contains(reason), "{host}: {answer}");
        }
        let accepted = local.accept().map_err(|error| error.kind());
        assert_eq!(accepted.unwrap_err(), io::ErrorKind::WouldBlock);
        let refused = proxy.visits().refused;
        assert_eq!(refused.values().sum::<u64>(), 8, "{refused:?}");
        assert_eq!(refused["other.example"], 1);
    });
}

#[test]
fn a_plain_request_is_forwarded_under_the_name_that_was_checked() {
    in_own_network(
        "a_plain_request_is_forwarded_under_the_name_that_was_checked",
        || {
            let (_proxy, port) = open_proxy();
            let listener = TcpListener::bind((PUBLIC, 0)).unwrap();
            let at = listener.local_addr().unwrap().port();
            let server = thread::spawn(move || {
                let (mut socket, _) = listener.accept().unwrap();
                let head = read_head(&mut socket);
                socket
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    .unwrap();
                head
            });
            let request = format!(
                "GET http://public.example:{at}/a?b HTTP/1.1\r\nHost: other.example\r\n\
             Proxy-Connection: keep-alive\r\nAccept: text/plain\r\n\r\n"
            );
            assert!(ask_proxy(port, &request).ends_with("\r\n\r\nok"));
            let expected = format!(
                "GET /a?b HTTP/1.1\r\nHost: public.example:{at}\r\nAccept: text/plain\r\n\
             Connection: close\r\n\r\n"
            );
            assert_eq!(server.join().unwrap(), expected);
        },
    );
}

#[test]
fn the_proxy_limits_heads_and_connections() {
    in_own_network("the_proxy_limits_heads_and_connections", || {
        let (_proxy, port) = open_proxy();
        let long = format!("CONNECT {}:1 HTTP/1.1\r\n\r\n", "a".repeat(17_000));
        assert!(ask_proxy(port, &long).starts_with("HTTP/1.1 431 "));
        let server = start_echo_server();
        let mut open = Vec::new();
        let refused = loop {
            assert!(open.len() < 100, "no connection was refused");
            let mut client = connect_client(port);
            client
                .write_all(connect_request("public.example", server.port()).as_bytes())
                .unwrap();
            let head = read_head(&mut client);
            if !head.starts_with("HTTP/1.1 200 ") {
                break head;
            }
            open.push(client);
        };
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        assert_eq!(open.len(), 64);
    });
}

#[test]
fn dropping_the_proxy_closes_its_connections() {
    in_own_network("dropping_the_proxy_closes_its_connections", || {
        let (proxy, port) = open_proxy();
        let server = start_echo_server();
        let mut client = connect_client(port);
        client
            .write_all(connect_request("public.example", server.port()).as_bytes())
            .unwrap();
        assert!(read_head(&mut client).starts_with("HTTP/1.1 200 "));
        drop(proxy);
        let mut rest = Vec::new();
        // The connection is closed or reset.
        let ended = client.read_to_end(&mut rest).map_err(|error| error.kind());
        assert!(
            matches!(ended, Ok(0) | Err(io::ErrorKind::ConnectionReset)),
            "{ended:?}"
        );
        let again = (0..12_000).find(|_| {
            thread::sleep(Duration::from_millis(10));
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()
        });
        assert!(again.is_some(), "it still answers");
    });
}
