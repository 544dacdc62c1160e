//! `massgen web`: who is let in, and what every reply has. Each refusal has a control that is
//! answered.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::project::{Project, has_local_models};
use crate::source_tree::repository;
use crate::web_server::{Reply, WebServer};

/// A team that needs no key.
const TEAM: &str = "@examples/basic/offline_demo";
/// The addresses whose POST changes nothing.
const OPEN_POSTS: [&str; 2] = ["/api/session", "/api/browse"];
/// A run that does not exist.
const RUN: &str = "log_20260101_000000_000000";

/// Returns every method of every route, as the router lists them, with an address of it.
fn routes() -> Vec<(&'static str, String)> {
    let source = std::fs::read_to_string(repository().join("src/cli/web/router.rs")).unwrap();
    let groups: Vec<&str> = source.split("Router::new()").skip(1).collect();
    let [api, page] = groups[..] else {
        panic!("{} groups", groups.len());
    };
    let mut routes = vec![("GET", "/nothing".to_owned())];
    for (prefix, group) in [("/api", api), ("", page)] {
        for call in group.split(".route(").skip(1) {
            let (_, rest) = call.split_once('"').unwrap();
            let (path, rest) = rest.split_once('"').unwrap();
            let handlers = rest.split("\n        .").next().unwrap();
            let mut target = format!("{prefix}{path}");
            for (pattern, part) in [
                ("/runs/{id}", format!("/runs/{RUN}")),
                (
                    "/batches/{id}",
                    "/batches/batch_20260101_000000_0000".to_owned(),
                ),
                ("{label}", "agent1.1".to_owned()),
                ("{approval}", "q1".to_owned()),
                ("{question}", "q1".to_owned()),
                ("{*name}", "index.html".to_owned()),
            ] {
                target = target.replace(pattern, &part);
            }
            assert!(!target.contains('{'), "{target}");
            let known = routes.len();
            for (word, method) in [("get(", "GET"), ("post(", "POST")] {
                if handlers.contains(word) {
                    routes.push((method, target.clone()));
                }
            }
            assert!(routes.len() > known, "{target}: {handlers}");
        }
    }
    for known in [
        ("POST", format!("/api/runs/{RUN}/stop")),
        ("GET", "/api/runs".to_owned()),
        ("POST", "/api/runs".to_owned()),
        ("GET", "/".to_owned()),
    ] {
        assert!(routes.contains(&known), "{known:?}: {routes:?}");
    }
    routes
}

fn start_server(arguments: &[&str]) -> WebServer {
    let arguments: Vec<&str> = ["--config", TEAM]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    WebServer::start(Project::new(), &arguments)
}

/// Returns whether a route needs no token.
fn is_open(target: &str) -> bool {
    target == "/" || target.starts_with("/page/") || target == "/api/session"
}

#[test]
fn hosts_origins_and_tokens_are_checked_on_every_route_in_this_order() {
    let server = start_server(&[]);
    let port = server.port;
    let hosts = [
        (format!("127.0.0.1:{port}"), true),
        (format!("localhost:{port}"), true),
        (format!("[::1]:{port}"), true),
        ("127.0.0.1".to_owned(), false),
        (format!("evil.example:{port}"), false),
        (format!("127.0.0.1.evil.example:{port}"), false),
        (format!("0.0.0.0:{port}"), false),
    ];
    let origins = [
        (None, true),
        (Some(format!("http://localhost:{port}")), true),
        (Some("http://localhost:1".to_owned()), false),
        (Some("https://evil.example".to_owned()), false),
        (Some("null".to_owned()), false),
    ];
    let tokens = [
        (None, false),
        (Some(server.token.clone()), true),
        (Some("0123456789abcdef0123456789abcdef".to_owned()), false),
    ];
    for (method, target) in &routes() {
        for (host, is_host) in &hosts {
            for (origin, is_origin) in &origins {
                // Each of them is refused alone.
                if !is_host && !is_origin {
                    continue;
                }
                for (token, is_token) in &tokens {
                    let mut headers = vec![format!("host: {host}")];
                    headers.extend(origin.as_ref().map(|origin| format!("origin: {origin}")));
                    let bearer = |token: &String| format!("authorization: Bearer {token}");
                    headers.extend(token.as_ref().map(bearer));
                    let body = (*method == "POST").then_some("{}");
                    let reply = server.send(method, target, &headers, body);
                    let at = format!("{method} {target} {headers:?}\n{reply:?}");
                    if !is_host || !is_origin {
                        assert_eq!(reply.status, 403, "{at}");
                    } else if !is_token && !is_open(target) {
                        assert_eq!(reply.status, 401, "{at}");
                        assert_eq!(reply.header("www-authenticate"), Some("bearer"), "{at}");
                    } else {
                        assert!(!matches!(reply.status, 401 | 403), "{at}");
                    }
                    check_headers(&reply, &at);
                }
            }
        }
    }
}

/// Checks the headers that every reply has.
#[track_caller]
fn check_headers(reply: &Reply, at: &str) {
    let policy = reply.header("content-security-policy").expect(at);
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{part}: {at}");
    }
    assert!(!policy.contains("unsafe"), "{at}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(reply.header(name), Some(value), "{name}: {at}");
    }
    let cached = reply.header("cache-control");
    assert!(matches!(cached, Some("no-store" | "no-cache")), "{at}");
    assert!(!reply.head.contains("access-control"), "{at}");
    assert!(!reply.head.contains("set-cookie"), "{at}");
}

#[test]
fn requests_from_other_sites_and_with_two_names_are_refused() {
    let server = start_server(&[]);
    let host = format!("host: 127.0.0.1:{}", server.port);
    let check = |more: &[&str], target: &str, expected: u16| {
        let mut headers = server.headers();
        headers.extend(more.iter().map(|more| (*more).to_owned()));
        let reply = server.send("GET", target, &headers, None);
        assert_eq!(reply.status, expected, "{more:?} {target} {reply:?}");
    };
    check(&[], "/api/info", 200);
    check(&["sec-fetch-site: same-origin"], "/api/info", 200);
    check(&["sec-fetch-site: none"], "/", 200);
    check(&["sec-fetch-site: cross-site"], "/api/info", 403);
    check(&["sec-fetch-site: cross-site"], "/", 403);
    check(&[&host], "/api/info", 403);
    check(&["host: evil.example"], "/api/info", 403);
    check(&[], "http://evil.example/api/info", 403);
    let own = format!("origin: http://127.0.0.1:{}", server.port);
    check(&[&own], "/api/info", 200);
    check(&[&own, "origin: http://evil.example"], "/api/info", 403);
}

#[test]
fn methods_that_no_route_has_are_not_allowed() {
    let server = start_server(&[]);
    for method in ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"] {
        for (_, target) in &routes() {
            let reply = server.send(method, target, &server.headers(), None);
            assert_eq!(reply.status, 405, "{method} {target} {reply:?}");
            check_headers(&reply, target);
        }
    }
    for (method, target) in [("POST", "/api/info"), ("GET", "/api/browse"), ("POST", "/")] {
        let reply = server.send(method, target, &server.headers(), Some("{}"));
        assert_eq!(reply.status, 405, "{method} {target} {reply:?}");
    }
    assert_eq!(server.get("/api/info").status, 200);
    assert_eq!(server.get("/api/nothing").status, 404);
}

#[test]
fn a_link_works_once() {
    let server = WebServer::start_without_session(Project::new(), &["--config", TEAM]);
    let open = |code: &str| {
        let body = json!({ "code": code }).to_string();
        server.send("POST", "/api/session", &[], Some(&body))
    };
    let refused = |reply: &Reply| {
        assert_eq!(reply.status, 401, "{reply:?}");
        assert!(!reply.body.contains("token\""), "{reply:?}");
    };
    refused(&open(""));
    refused(&open(server.code.get(1..).unwrap()));
    let opened = open(&server.code);
    let token = opened.json()["token"].as_str().unwrap().to_owned();
    assert!(token.len() >= 32, "{token}");
    refused(&open(&server.code));
    let with = |token: &str| {
        let headers = [format!("authorization: Bearer {token}")];
        server.send("GET", "/api/info", &headers, None).status
    };
    assert_eq!(with(&token), 200);
    assert_eq!(with(&server.code), 401);
}

/// Returns the files below `folder`.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| {
        if path.is_dir() {
            files_below(&path)
        } else {
            vec![path]
        }
    };
    paths.flat_map(below).collect()
}

#[test]
fn the_page_is_served_with_its_types_and_tags() {
    let server = start_server(&[]);
    let page = server.send("GET", "/", &[], None);
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    let tag = page.header("etag").unwrap();
    let again = server.send("GET", "/", &[format!("if-none-match: {tag}")], None);
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/cli/web/page");
    let mut count = 0;
    for file in files_below(&root) {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap();
        let expected = match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => continue,
        };
        let reply = server.send("GET", &format!("/page/{name}"), &[], None);
        assert_eq!(reply.status, 200, "{name}: {reply:?}");
        assert_eq!(reply.header("content-type"), Some(expected), "{name}");
        assert_eq!(
            reply.body,
            std::fs::read_to_string(&file).unwrap(),
            "{name}"
        );
        count += 1;
    }
    assert!(count > 10, "{count} files");
    for target in [
        "/page/",
        "/page/none.js",
        "/page/../serve.rs",
        "/page/%2e%2e/serve.rs",
        "/page/..%2fserve.rs",
        "/page//etc/passwd",
        "/page/index.html%00",
    ] {
        let reply = server.send("GET", target, &[], None);
        assert!(matches!(reply.status, 400 | 404), "{target} {reply:?}");
    }
}

/// Sends a GET for a file of the page, and returns the head in lower case and the bytes of the body.
fn page_file(server: &WebServer, name: &str, headers: &[&str]) -> (String, Vec<u8>) {
    let headers: Vec<String> = headers.iter().map(|line| (*line).to_owned()).collect();
    let mut answer = Vec::new();
    let mut stream = server.open("GET", &format!("/page/{name}"), &headers, None);
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    (head, answer[end + 4..].to_vec())
}

#[test]
fn the_page_is_compressed_for_clients_that_accept_it() {
    let server = start_server(&[]);
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/cli/web/page");
    let (mut bytes, mut plain_bytes) = (0, 0);
    for file in files_below(&root) {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap();
        let (head, plain) = page_file(&server, name, &[]);
        if head.contains(" 404 ") {
            continue;
        }
        let (gzip, compressed) = page_file(&server, name, &["accept-encoding: br, gzip;q=0.5"]);
        for head in [&head, &gzip] {
            assert!(head.contains("vary: accept-encoding"), "{name}: {head}");
        }
        assert!(gzip.contains("content-encoding: gzip"), "{name}: {gzip}");
        let mut decoded = Vec::new();
        flate2::read::GzDecoder::new(compressed.as_slice())
            .read_to_end(&mut decoded)
            .unwrap();
        assert!(decoded == std::fs::read(&file).unwrap(), "{name}");
        assert!(plain == decoded, "{name}");
        bytes += compressed.len();
        plain_bytes += plain.len();
    }
    assert!(
        plain_bytes > 150_000 && bytes < 120 * 1024,
        "{bytes} of {plain_bytes} bytes"
    );
    for accepted in [
        "",
        "identity",
        "*",
        "gzip;q=0",
        "gzip;q=0.0",
        "x-gzip",
        "br",
    ] {
        let header = format!("accept-encoding: {accepted}");
        let (head, _) = page_file(&server, "index.html", &[&header]);
        assert!(!head.contains("content-encoding"), "{accepted}: {head}");
    }
    let tag = |head: &str| {
        let mut lines = head.lines();
        lines
            .find_map(|line| line.strip_prefix("etag: "))
            .unwrap()
            .to_owned()
    };
    let accept = "accept-encoding: gzip";
    let (gzip, _) = page_file(&server, "main.js", &[accept]);
    let (plain, _) = page_file(&server, "main.js", &[]);
    assert_ne!(tag(&gzip), tag(&plain));
    let known = |head: &str, more: &[&str]| {
        let known = format!("if-none-match: {}", tag(head));
        let headers: Vec<&str> = more.iter().copied().chain([known.as_str()]).collect();
        page_file(&server, "main.js", &headers).0.contains(" 304 ")
    };
    assert!(known(&gzip, &[accept]) && known(&plain, &[]));
    assert!(!known(&plain, &[accept]) && !known(&gzip, &[]));
}

#[test]
fn only_json_of_a_limited_size_is_read() {
    let server = start_server(&[]);
    let post = |kind: &str, body: &str| {
        let mut headers = server.headers();
        headers.push(format!("content-type: {kind}"));
        server.send("POST", "/api/browse", &headers, Some(body))
    };
    let json = "application/json";
    assert_eq!(post(json, "{\"path\":\"\"}").status, 200);
    assert_eq!(post("text/plain", "{\"path\":\"\"}").status, 415);
    let form = "application/x-www-form-urlencoded";
    assert_eq!(post(form, "path=").status, 415);
    assert_eq!(post(json, "{\"path\":").status, 400);
    assert_eq!(post(json, "{\"path\":1}").status, 400);
    assert_eq!(post(json, "[]").status, 400);
    let long = |bytes: usize| format!("{{\"path\":\"{}\"}}", "x".repeat(bytes));
    assert_eq!(post(json, &long(4000)).status, 200);
    assert_eq!(post(json, &long(5000)).status, 400);
    assert_eq!(post(json, &long(256 * 1024)).status, 413);
}

#[test]
fn a_page_that_only_shows_refuses_every_change() {
    let (watching, working) = (start_server(&["--read-only"]), start_server(&[]));
    for (method, target) in &routes() {
        let ask = |server: &WebServer| {
            let body = (*method == "POST").then_some("{}");
            server.send(method, target, &server.headers(), body)
        };
        let answered = ask(&watching);
        let is_change = *method == "POST" && !OPEN_POSTS.contains(&target.as_str());
        if is_change || target == "/api/config/keys" {
            assert_eq!(answered.status, 403, "{target} {answered:?}");
            assert!(answered.body.contains("--read-only"), "{answered:?}");
        } else {
            assert_ne!(answered.status, 403, "{target} {answered:?}");
        }
        assert_ne!(ask(&working).status, 403, "{target}");
    }
    assert_eq!(watching.get("/api/config/keys").status, 403);
    assert_eq!(working.get("/api/config/keys").status, 200);
    assert_eq!(watching.post("/api/browse", &json!({})).status, 200);
    assert_eq!(watching.get("/api/info").json()["read_only"], true);
    assert_eq!(working.get("/api/info").json()["read_only"], false);
}

#[test]
fn a_head_that_does_not_end_is_given_up() {
    let server = start_server(&[]);
    let since = Instant::now();
    let mut slow = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: ").unwrap();
    slow.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
    let mut rest = Vec::new();
    drop(slow.read_to_end(&mut rest));
    let waited = since.elapsed().as_secs();
    assert!((9..110).contains(&waited), "{waited} s");
    assert_eq!(server.send("GET", "/", &[], None).status, 200);
}

/// Opens 64 connections without a token that each send `text`.
fn open_without_token(server: &WebServer, text: &str) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        // One that has made room already is reset.
        drop(stream.write_all(text.as_bytes()));
        stream
    };
    (0..64).map(open).collect()
}

#[test]
fn connections_without_a_token_keep_no_client_out() {
    let server = start_server(&[]);
    let mut kept = server.open("GET", "/api/info", &server.headers()[..1], None);
    let mut authorized = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let head = format!(
        "GET /api/info HTTP/1.1\r\n{}\r\n\r\n",
        server.headers().join("\r\n")
    );
    let mut first = [0; 12];
    authorized.write_all(head.as_bytes()).unwrap();
    authorized.read_exact(&mut first).unwrap();
    let body = format!(
        "POST /api/session HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n\
         content-length: 1000\r\n\r\n{{",
        server.port
    );
    for text in ["", "GET / HTTP/1.1\r\n", &body] {
        let silent = open_without_token(&server, text);
        let info = server.get("/api/info");
        assert_eq!(info.status, 200, "{text:?}: {info:?}");
        drop(silent);
    }
    // The connection with the token was not displaced.
    authorized.write_all(head.as_bytes()).unwrap();
    let mut second = [0; 16 * 1024];
    assert!(authorized.read(&mut second).unwrap() > 0);
    let mut rest = String::new();
    kept.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("HTTP/1.1 401"), "{rest}");
}

#[test]
fn a_body_without_a_token_that_does_not_end_is_given_up() {
    let server = start_server(&[]);
    let since = Instant::now();
    let mut slow = server.open(
        "POST",
        "/api/session",
        &[
            "content-length: 9".to_owned(),
            "content-type: application/json".to_owned(),
        ],
        None,
    );
    slow.write_all(b"{").unwrap();
    let mut rest = Vec::new();
    drop(slow.read_to_end(&mut rest));
    let waited = since.elapsed().as_secs();
    assert!((9..110).contains(&waited), "{waited} s");
}

#[test]
fn other_addresses_need_a_name_and_a_token() {
    let check = |arguments: &[&str], expected: &str| {
        let arguments = ["web", "--no-browser", "--config", TEAM]
            .iter()
            .chain(arguments);
        let finished = Project::new().args(arguments).failure(2);
        let stderr = finished.stderr();
        assert!(stderr.contains(expected), "{stderr}");
    };
    check(&["--http", "0.0.0.0:0"], "is reachable from other machines");
    let named = ["--http", "0.0.0.0:0", "--allowed-host", "box.example.org"];
    check(&named, "`--token-file`");
    check(&["--http", "127.0.0.1:0", "--port", "7801"], "--port");
    check(&["--config", TEAM], "named twice");

    let project = Project::new().file("token", "0123456789abcdef0123\n");
    let readable = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(project.path("token"), readable).unwrap();
    let token = ["--token-file", "token", "--config", TEAM];
    let arguments: Vec<&str> = named.iter().chain(&token).copied().collect();
    let server = WebServer::start_without_session(project, &arguments);
    let status = |host: &str, token: &str| {
        let bearer = format!("authorization: Bearer {token}");
        let headers = [format!("host: {host}"), bearer];
        server.send("GET", "/api/info", &headers, None).status
    };
    let token = "0123456789abcdef0123";
    assert_eq!(status("box.example.org:8080", token), 200);
    assert_eq!(status("box.example.org", "0123456789abcdef0124"), 401);
    assert_eq!(status("other.example.org", token), 403);
    let warning = "warning: other machines can reach the page";
    assert!(server.printed.contains(warning), "{}", server.printed);

    // All of these are addresses of this machine; by default, the server has one of them.
    let reaches =
        |address: &str, server: &WebServer| TcpStream::connect((address, server.port)).is_ok();
    assert!(reaches("127.0.0.1", &server) && reaches("127.0.0.2", &server));
    let own = start_server(&[]);
    assert!(reaches("127.0.0.1", &own) && !reaches("127.0.0.2", &own));
    assert!(!own.printed.contains(warning), "{}", own.printed);
}

#[test]
fn without_a_model_the_page_is_served_to_write_a_config() {
    if has_local_models() {
        println!("skipped: a local server of models may be running");
        return;
    }
    let server = WebServer::start(Project::new(), &[]);
    let warning = "warning: the page starts no runs: no model available";
    assert!(server.printed.contains(warning), "{}", server.printed);
    let demo = "\nhint: without an API key: massgen web --config @examples/basic/offline_demo\n";
    assert!(server.printed.contains(demo), "{}", server.printed);
    assert!(!server.printed.contains("hello"), "{}", server.printed);
    let info = server.get("/api/info").json();
    assert_eq!(info["teams"], json!([]), "{info}");
    assert_eq!(info["read_only"], false, "{info}");
    assert_eq!(server.get("/api/config/keys").status, 200);
    let refused = server.post("/api/runs", &json!({"task": "x"}));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body.contains("has no team"), "{refused:?}");
    // A config that cannot be run still ends it.
    let project = Project::new().config("agents: 1\n");
    project.args(["web", "--no-browser"]).failure(2);
}
