//! `massgen mcp serve --http`: authorization, parallel sessions, and third-party clients.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::mcp_serve;
use crate::project::{Project, binary};

const CLIENT: &str = include_str!("../servers/client.cjs");
/// A server that is listening, and stops with the test.
pub(crate) struct McpHttpServer {
    pub(crate) project: Project,
    child: Child,
    port: u16,
    pub(crate) token: String,
}

impl Drop for McpHttpServer {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}

fn served_project() -> Project {
    mcp_serve::guarded_project().file("client.cjs", CLIENT)
}

impl McpHttpServer {
    fn start(project: Project, arguments: &[&str]) -> Self {
        let grants = ["mcp", "serve", "--grants", "grants.json", "--http"];
        Self::start_server(project.args(grants), arguments)
    }

    /// Starts the server with the arguments of `project` and `arguments`.
    pub(crate) fn start_server(project: Project, arguments: &[&str]) -> Self {
        let project = project.args(arguments);
        let mut child = project
            .command()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut after = |beginning: &str| {
            let line = lines.next().expect("a line").unwrap();
            let parts = line.split_once(beginning);
            parts.unwrap_or_else(|| panic!("{line}")).1.to_owned()
        };
        let address = after("http://127.0.0.1:");
        let port = address.strip_suffix("/mcp").unwrap().parse().unwrap();
        let token = if arguments.contains(&"--token-file") {
            String::new()
        } else {
            after("token: ")
        };
        Self {
            project,
            child,
            port,
            token,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Sends one request; `headers` are whole lines. Returns the status and the head with the body
    /// of the answer.
    fn send(&self, line: &str, headers: &[String], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut head = format!(
            "{line} HTTP/1.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n",
            body.len()
        );
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }

    fn headers(&self) -> Vec<String> {
        vec![
            format!("host: localhost:{}", self.port),
            format!("authorization: Bearer {}", self.token),
        ]
    }

    /// Begins a session and returns its id.
    fn session(&self) -> String {
        let (status, answer) = self.send("POST /mcp", &self.headers(), &initialize_request());
        assert_eq!(status, 200, "{answer}");
        let head = answer.to_ascii_lowercase();
        let (_, rest) = head.split_once("mcp-session-id: ").expect("a session");
        let id = rest.lines().next().unwrap().to_owned();
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let (status, answer) = self.send("POST /mcp", &self.within(&id), &begun.to_string());
        assert_eq!(status, 202, "{answer}");
        id
    }

    fn within(&self, session: &str) -> Vec<String> {
        let mut headers = self.headers();
        headers.push(format!("mcp-session-id: {session}"));
        headers
    }

    fn call(&self, session: &str, tool: &str, arguments: &Value) -> String {
        let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        let (status, answer) = self.send("POST /mcp", &self.within(session), &call.to_string());
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

fn initialize_request() -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "a-client", "version": "1"}}});
    hello.to_string()
}

/// Returns where `tests/all.sh` installs third-party programs.
fn node_modules() -> PathBuf {
    let dir = std::env::var_os("MASSGEN_TEST_SERVERS")
        .map_or_else(|| "/var/tmp/massgen-test-servers".into(), PathBuf::from);
    dir.join("node_modules")
}

/// Runs a script of the project with Node.
fn node_command(project: &Project, arguments: &[&str]) -> Command {
    let mut command = Command::new("node");
    command
        .args(arguments)
        .current_dir(project.path(""))
        .env("NODE_PATH", node_modules())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[track_caller]
fn parse_result(output: &Output) -> Value {
    let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(out).unwrap_or_else(|_| panic!("{}{err}", String::from_utf8_lossy(out)))
}

#[test]
fn only_requests_with_the_token_are_admitted() {
    let served = McpHttpServer::start(served_project(), &[]);
    let host = format!("host: localhost:{}", served.port);
    let check = |line: &str, headers: &[String], expected: u16| {
        let (status, answer) = served.send(line, headers, &initialize_request());
        assert_eq!(status, expected, "{line} {headers:?}\n{answer}");
        assert!(
            expected == 200 || !answer.contains("serverInfo"),
            "{answer}"
        );
    };
    check("POST /mcp", &served.headers(), 200);
    check("POST /mcp", std::slice::from_ref(&host), 401);
    let wrong = |value: &str| vec![host.clone(), format!("authorization: {value}")];
    check(
        "POST /mcp",
        &wrong("Bearer 0123456789abcdef0123456789abcdef"),
        401,
    );
    check("POST /mcp", &wrong(&format!("Basic {}", served.token)), 401);
    check(
        "POST /mcp",
        &wrong(&format!("Bearer {}x", served.token)),
        401,
    );
    check("GET /mcp", std::slice::from_ref(&host), 401);
    check("POST /", &served.headers(), 404);
    assert!(served.token.len() >= 32, "{}", served.token);
}

#[test]
fn requests_with_a_foreign_origin_are_refused() {
    let served = McpHttpServer::start(served_project(), &[]);
    let check = |host: &str, origin: Option<&str>, expected: u16| {
        let mut headers = vec![
            format!("host: {host}"),
            format!("authorization: Bearer {}", served.token),
        ];
        headers.extend(origin.map(|origin| format!("origin: {origin}")));
        let (status, answer) = served.send("POST /mcp", &headers, &initialize_request());
        assert_eq!(status, expected, "{host} {origin:?}\n{answer}");
    };
    check("localhost", None, 200);
    check("127.0.0.1:80", Some("http://localhost:3000"), 200);
    check("evil.example.com", None, 403);
    check("localhost.example.com", None, 403);
    check("localhost", Some("http://evil.example.com"), 403);
    check("localhost", Some("https://localhost.example.com"), 403);
    check("localhost", Some("null"), 403);
    let token = format!("authorization: Bearer {}", served.token);
    let twice = |line: &str, more: &[&str]| {
        let mut headers = vec!["host: localhost".to_owned(), token.clone()];
        headers.extend(more.iter().map(|more| (*more).to_owned()));
        let (status, answer) = served.send(line, &headers, &initialize_request());
        assert_eq!(status, 403, "{line} {more:?}\n{answer}");
    };
    twice("POST /mcp", &["host: evil.example.com"]);
    twice("POST http://evil.example.com/mcp", &[]);
    let origins = [
        "origin: http://localhost",
        "origin: http://evil.example.com",
    ];
    twice("POST /mcp", &origins);
}

#[test]
fn two_sessions_share_the_same_grants() {
    let served = McpHttpServer::start(served_project(), &[]);
    let (one, other) = (served.session(), served.session());
    assert_ne!(one, other);
    let wrote = served.call(
        &one,
        "write_file",
        &json!({"path": "b.txt", "content": "two"}),
    );
    assert!(wrote.contains(r#""isError":false"#), "{wrote}");
    let read = served.call(&other, "read_text_file", &json!({"path": "b.txt"}));
    assert!(read.contains("two"), "{read}");
    let secret = served.project.path("closed/secret.txt");
    let denied = served.call(&other, "read_text_file", &json!({"path": secret}));
    assert!(
        denied.contains("denied: read of") && !denied.contains("CANARY"),
        "{denied}"
    );
    let (status, _) = served.send("DELETE /mcp", &served.within(&one), "");
    assert!((200..300).contains(&status), "{status}");
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    assert_eq!(served.send("POST /mcp", &served.within(&one), &list).0, 404);
    assert_eq!(
        served.send("POST /mcp", &served.within(&other), &list).0,
        200
    );
}

#[test]
fn the_number_of_sessions_is_limited() {
    let served = McpHttpServer::start(served_project(), &[]);
    let sessions: Vec<String> = (0..32).map(|_| served.session()).collect();
    let (status, answer) = served.send("POST /mcp", &served.headers(), &initialize_request());
    assert_eq!(status, 503, "{answer}");
    served.send("DELETE /mcp", &served.within(&sessions[0]), "");
    served.session();
}

#[test]
fn a_message_that_is_too_long_is_refused() {
    let served = McpHttpServer::start(served_project(), &[]);
    let session = served.session();
    let call = |length: usize| {
        let arguments = json!({"path": "long.txt", "content": "x".repeat(length)});
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
            "params": {"name": "write_file", "arguments": arguments}})
    };
    let within = served.within(&session);
    let (status, answer) = served.send("POST /mcp", &within, &call(5_000_000).to_string());
    assert!(
        status == 200 && answer.contains("the arguments have"),
        "{answer}"
    );
    let (status, _) = served.send("POST /mcp", &within, &call(3_000_000).to_string());
    assert_eq!(status, 200);
    assert!(served.project.path("ws/long.txt").exists());
}

#[test]
fn a_token_comes_from_a_file_and_addresses_are_loopback() {
    let project = served_project().file("token", "0123456789abcdef0123\n");
    fs::set_permissions(project.path("token"), Permissions::from_mode(0o600)).unwrap();
    let mut served = McpHttpServer::start(project, &["--token-file", "token"]);
    served.token = "0123456789abcdef0123".to_owned();
    served.session();
    served.token = "0123456789abcdef0124".to_owned();
    assert_eq!(
        served
            .send("POST /mcp", &served.headers(), &initialize_request())
            .0,
        401
    );

    let check = |arguments: &[&str], expected: &str| {
        let arguments = ["mcp", "serve", "--grants", "grants.json"]
            .iter()
            .chain(arguments);
        let project = served_project()
            .file("short", "abc\n")
            .file("wide", "0123456789abcdef\n");
        for (name, mode) in [("short", 0o600), ("wide", 0o640)] {
            fs::set_permissions(project.path(name), Permissions::from_mode(mode)).unwrap();
        }
        let finished = project.args(arguments).failure(2);
        assert!(
            finished.stderr().contains(expected),
            "{}",
            finished.stderr()
        );
    };
    check(&["--http", "0.0.0.0:0"], "is reachable from other machines");
    check(
        &["--http", "127.0.0.1:0", "--token-file", "short"],
        "contains no token",
    );
    check(
        &["--http", "--token-file", "wide"],
        "contains a secret, and other users may read or change it",
    );
    check(&["--http", "--token-file", "none"], "token file `");
    check(&["--http", "nowhere"], "nowhere");
}

#[test]
fn a_host_name_given_with_allowed_host_is_accepted() {
    let arguments = ["127.0.0.1:0", "--allowed-host", "box.example.org"];
    let served = McpHttpServer::start(served_project(), &arguments);
    let host = |name: &str| {
        let token = format!("authorization: Bearer {}", served.token);
        let headers = [format!("host: {name}"), token];
        served.send("POST /mcp", &headers, &initialize_request()).0
    };
    assert_eq!(host("box.example.org"), 200);
    assert_eq!(host("evil.example.org"), 403);
}

#[test]
fn a_client_of_another_project_lists_and_calls_the_tools() {
    let check = |server: Value, project: &Project| {
        let (open, secret) = (
            project.path("open/a.txt"),
            project.path("closed/secret.txt"),
        );
        let mut asked = server;
        asked["calls"] = json!([
            ["read_text_file", {"path": open}],
            ["read_text_file", {"path": secret}],
            ["write_file", {"path": "made.txt", "content": "by a client\n"}],
            ["write_file", {"path": open, "content": "changed\n"}],
        ]);
        let asked = asked.to_string();
        let report = parse_result(
            &node_command(project, &["client.cjs", &asked])
                .output()
                .unwrap(),
        );
        let tools = report["tools"].as_array().unwrap();
        assert!(tools.contains(&json!("read_text_file")), "{report}");
        let failed = |index: usize| report["results"][index]["isError"] == true;
        assert_eq!(
            [0, 1, 2, 3].map(failed),
            [false, true, false, true],
            "{report}"
        );
        assert!(!report.to_string().contains("CANARY"), "{report}");
        let read = |path: &str| std::fs::read_to_string(project.path(path)).unwrap();
        assert_eq!(read("ws/made.txt"), "by a client\n");
        assert_eq!(read("open/a.txt"), "one\n");
    };
    let project = served_project();
    let args = ["mcp", "serve", "--grants", "grants.json"];
    check(json!({"command": binary(), "args": args}), &project);
    let served = McpHttpServer::start(served_project(), &[]);
    check(
        json!({"url": served.url(), "token": served.token}),
        &served.project,
    );
}
