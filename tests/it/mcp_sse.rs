//! Remote servers with the older HTTP+SSE transport: how they are found, where messages are posted,
//! and what they may not do.

use serde_json::{Value, json};

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse, StreamFeed};
use crate::mcp::{call_results, calls_of};
use crate::mcp_login::{LOGIN, RUN};
use crate::oauth_server::{OauthBehaviour, OauthServer, TOKEN};
use crate::project::{FinishedCommand, Project, events};
use crate::scripted_team::{agent, team};

/// Returns a project whose agent makes two calls of the server `t` at `url`; `keys` are further
/// keys of it.
fn project(url: &str, keys: &str) -> Project {
    let server = format!("{{name: t, url: '{url}', security: {{allow_localhost: true}}, {keys}}}");
    let call = ("mcp__t__who", json!({}));
    let calls = calls_of(&[call.clone(), call]);
    let replies = format!("{calls}- calls: [{{name: new_answer, arguments: {{content: done}}}}]");
    let keys = format!("cwd: w1\nmcp_servers: [{server}]");
    Project::new()
        .file("team.yaml", team(&[agent("one", &keys, &replies)], ""))
        .args(RUN)
}

/// Behaviour of an older server.
#[derive(Clone)]
struct OlderServer {
    /// Endpoint that it announces for messages; `{{host}}` is replaced by itself.
    message_endpoint: &'static str,
    /// Answer to a message that is posted to its stream.
    stream_post_answer: ScriptedResponse,
    /// Answer to a message that is posted to its endpoint.
    endpoint_post_answer: ScriptedResponse,
    /// Reaction to a tool call.
    react_to_call: fn(&StreamFeed, &Value),
}

impl Default for OlderServer {
    fn default() -> Self {
        Self {
            message_endpoint: "message?id=7",
            stream_post_answer: ScriptedResponse::whole(
                "405 Method Not Allowed",
                &[],
                "Method Not Allowed",
            ),
            endpoint_post_answer: ScriptedResponse::whole("202 Accepted", &[], "Accepted"),
            react_to_call: |feed, id| {
                let content = json!([{"type": "text", "text": "you are somebody"}]);
                send_result(feed, id, &json!({"content": content}));
            },
        }
    }
}

fn send_result(feed: &StreamFeed, id: &Value, result: &Value) {
    let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
    feed.piece(format!("event: message\ndata: {message}\n\n"));
}

impl OlderServer {
    fn start(self) -> Endpoint {
        let feed = StreamFeed::new();
        Endpoint::start_with(move |request| self.answer(request, &feed))
    }

    fn answer(&self, request: &ReceivedRequest, feed: &StreamFeed) -> ScriptedResponse {
        match request.line.as_str() {
            "GET /old/sse" => {
                let message_endpoint = self
                    .message_endpoint
                    .replace("{{host}}", &request.headers["host"]);
                let first = format!(": hello\n\nevent: endpoint\ndata: {message_endpoint}\n\n");
                ScriptedResponse::stream().piece(first).follow(feed)
            }
            "POST /old/sse" => self.stream_post_answer.clone(),
            "POST /old/message?id=7" => {
                let message = request.json();
                let id = &message["id"];
                match message["method"].as_str().unwrap() {
                    "initialize" => {
                        // Events that are not messages are skipped.
                        feed.piece("event: ping\ndata: {}\n\ndata: nonsense\n\n");
                        let greeting = json!({
                            "protocolVersion": "2024-11-05",
                            "capabilities": {"tools": {}},
                            "serverInfo": {"name": "o", "version": "1"},
                        });
                        send_result(feed, id, &greeting);
                    }
                    "tools/list" => {
                        let tool = json!({"name": "who", "inputSchema": {"type": "object"}});
                        send_result(feed, id, &json!({"tools": [tool]}));
                    }
                    "tools/call" => (self.react_to_call)(feed, id),
                    _ => {}
                }
                self.endpoint_post_answer.clone()
            }
            _ => ScriptedResponse::whole("404 Not Found", &[], ""),
        }
    }
}

fn sse_url(endpoint: &Endpoint) -> String {
    format!("{}/old/sse", endpoint.server.url)
}

/// Returns the requests so far, one per line.
fn lines(endpoint: &Endpoint) -> Vec<String> {
    let requests = endpoint.server.requests().into_iter();
    requests.map(|request| request.line).collect()
}

/// Checks that the server is used, and returns the requests that it received.
#[track_caller]
fn check(script: OlderServer, keys: &str) -> Vec<ReceivedRequest> {
    let endpoint = script.start();
    let finished = project(&sse_url(&endpoint), keys).success();
    assert_eq!(call_results(&finished), ["you are somebody"; 2], "{keys}");
    endpoint.server.requests()
}

/// Checks that the server cannot be used, for this reason, and that no model is asked.
#[track_caller]
fn assert_unusable(endpoint: &Endpoint, keys: &str, expected: &str) -> FinishedCommand {
    let keys = format!("required: true, {keys}");
    let finished = project(&sse_url(endpoint), &keys).failure(3);
    let stderr = finished.stderr();
    let expected = format!("the server `t` cannot be used: {expected}");
    assert!(stderr.contains(&expected), "{stderr}\n{expected}");
    assert_eq!(events(&finished, "replied").len(), 0);
    finished
}

#[test]
fn a_server_configured_as_sse_is_used_as_such_at_once() {
    let requests = check(
        OlderServer::default(),
        "type: sse, headers: {Authorization: 'Bearer mine', X-Team: blue}",
    );
    assert_eq!(requests[0].line, "GET /old/sse");
    for request in &requests[1..] {
        assert_eq!(request.line, "POST /old/message?id=7");
    }
    for request in &requests {
        assert_eq!(request.headers["authorization"], "Bearer mine");
        assert_eq!(request.headers["x-team"], "blue");
    }
}

#[test]
fn replies_to_sse_messages_are_ignored() {
    let json = ["content-type: application/json"];
    for endpoint_post_answer in [
        ScriptedResponse::whole("202 Accepted", &[], ""),
        ScriptedResponse::whole("204 No Content", &[], ""),
        ScriptedResponse::whole("200 OK", &[], ""),
        ScriptedResponse::whole("200 OK", &["content-type: text/plain"], "ok"),
        ScriptedResponse::whole("200 OK", &json, r#"{"status": "ok"}"#),
    ] {
        let script = OlderServer {
            endpoint_post_answer,
            ..OlderServer::default()
        };
        check(script, "type: sse");
    }
}

#[test]
fn the_sse_transport_is_used_if_a_server_rejects_streamable_http() {
    for status in ["400 Bad Request", "404 Not Found", "405 Method Not Allowed"] {
        for keys in ["", "type: http", "type: streamable-http"] {
            let script = OlderServer {
                stream_post_answer: ScriptedResponse::whole(status, &[], "what: is this?"),
                ..OlderServer::default()
            };
            let requests = check(script, keys);
            let lines = [0, 1, 2].map(|index: usize| requests[index].line.as_str());
            assert_eq!(lines, ["POST /old/sse", "POST /old/sse", "GET /old/sse"]);
        }
    }
}

#[test]
fn a_server_that_refuses_is_not_tried_in_the_older_protocol() {
    let message = json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -32600, "message": "no"}});
    let json = ["content-type: application/json"];
    for (stream_post_answer, expected) in [
        (
            ScriptedResponse::whole("403 Forbidden", &[], ""),
            "HTTP 403",
        ),
        (
            ScriptedResponse::whole("410 Gone", &[], "HTTP 404 "),
            "HTTP 410",
        ),
        (ScriptedResponse::whole("500 Oh No", &[], ""), "HTTP 500"),
        (
            ScriptedResponse::whole("302 Found", &["location: /new"], ""),
            "HTTP 302",
        ),
        (
            ScriptedResponse::whole("400 Bad Request", &json, message.to_string()),
            "no",
        ),
    ] {
        let script = OlderServer {
            stream_post_answer,
            ..OlderServer::default()
        };
        let endpoint = script.start();
        let finished = project(&sse_url(&endpoint), "required: true").failure(3);
        assert!(finished.stderr().contains(expected), "{expected}");
        // Some answers may mean only that the newest protocol is not known.
        let lines = lines(&endpoint);
        let is_post = |line: &String| line == "POST /old/sse";
        assert!(lines.len() <= 3 && lines.iter().all(is_post), "{lines:?}");
    }
}

#[test]
fn a_server_with_neither_transport_is_reported() {
    let endpoint = Endpoint::start_with(|request| {
        let is_post = request.line.starts_with("POST");
        let status = if is_post {
            "404 Not Found"
        } else {
            "406 Not Acceptable"
        };
        ScriptedResponse::whole(status, &[], "no: such page")
    });
    assert_unusable(
        &endpoint,
        "",
        "it supports neither streamable HTTP nor SSE: HTTP 404 Not Found; HTTP 406 Not Acceptable",
    );
    let sse = "it does not support SSE: HTTP 406 Not Acceptable";
    assert_unusable(&endpoint, "type: sse", sse);
    for (answer, expected) in [
        (
            ScriptedResponse::whole("200 OK", &["content-type: text/html"], "<p>"),
            "its reply is not an event stream",
        ),
        (
            ScriptedResponse::whole("302 Found", &["location: /sse"], ""),
            "its reply is not an event stream",
        ),
        (
            ScriptedResponse::whole("405 Method Not Allowed", &[], ""),
            "HTTP 405 Method Not Allowed",
        ),
        (ScriptedResponse::whole("503 Later", &[], ""), "HTTP 503"),
    ] {
        let endpoint = Endpoint::start_with(move |_| answer.clone());
        let expected = format!("it does not support SSE: {expected}");
        assert_unusable(&endpoint, "type: sse", &expected);
        assert_eq!(lines(&endpoint), ["GET /old/sse"]);
    }
}

#[test]
fn messages_are_sent_to_the_server_itself_and_nowhere_else() {
    let own_server = OlderServer {
        message_endpoint: "http://{{host}}/old/message?id=7",
        ..OlderServer::default()
    };
    check(own_server, "type: sse");
    let other = Endpoint::start_with(|_| ScriptedResponse::whole("202 Accepted", &[], ""));
    let message_endpoint: &'static str = format!("{}/old/message?id=7", other.server.url).leak();
    let script = OlderServer {
        message_endpoint,
        ..OlderServer::default()
    };
    let endpoint = script.start();
    let (own_url, other_url) = (&endpoint.server.url, &other.server.url);
    let finished = assert_unusable(
        &endpoint,
        "type: sse, headers: {Authorization: 'Bearer mine'}",
        &format!(
            "it does not support SSE: its endpoint is at `{other_url}`, but the server is at `{own_url}`"
        ),
    );
    assert!(!finished.stderr().contains("mine"));
    assert_eq!(lines(&endpoint), ["GET /old/sse"]);
    assert_eq!(other.server.requests().len(), 0);
}

#[test]
fn a_stream_that_does_not_say_where_messages_go_is_given_up() {
    let first = |piece: &str| ScriptedResponse::stream().piece(piece);
    for (stream, expected) in [
        (
            first(": hello\n\n").await_close(),
            "no `endpoint` event within 10 s",
        ),
        (
            first("").end(),
            "its stream ended before the `endpoint` event",
        ),
        (
            first("data: /message\n\n").await_close(),
            "its first event is `message`, not `endpoint`",
        ),
        (
            first("event: \u{1b}[2Jx\ndata: /message\n\n").await_close(),
            "its first event is `\\u{1b}[2Jx`, not `endpoint`",
        ),
        (
            first("event: endpoint\ndata: https://[\n\n").await_close(),
            "its `endpoint` event contains no URL",
        ),
        (
            first(&format!("data: {}", "x".repeat(17 << 20))).await_close(),
            "SSE event exceeded the maximum size of 16777216 bytes",
        ),
    ] {
        let endpoint = Endpoint::start_with(move |_| stream.clone());
        let expected = format!("it does not support SSE: {expected}");
        assert_unusable(&endpoint, "type: sse", &expected);
    }
}

#[test]
fn a_stream_that_ends_or_an_event_that_does_not_ends_the_link() {
    let ended_error = "error: the server `t` has ended, and the outcome of the call is unknown";
    let ends: [fn(&StreamFeed, &Value); 2] = [
        |feed, _| feed.end(),
        |feed, _| {
            feed.piece(format!("data: {}", "x".repeat(17 << 20)));
            feed.end();
        },
    ];
    for react_to_call in ends {
        let script = OlderServer {
            react_to_call,
            ..OlderServer::default()
        };
        let endpoint = script.start();
        let finished = project(&sse_url(&endpoint), "type: sse").success();
        assert_eq!(call_results(&finished), [ended_error; 2]);
        let begun = lines(&endpoint);
        let begun = begun.iter().filter(|line| *line == "GET /old/sse");
        assert_eq!(begun.count(), 2, "it is connected to again");
    }
}

#[test]
fn a_message_that_is_not_taken_fails_its_call() {
    let script = OlderServer {
        react_to_call: |_, _| {},
        ..OlderServer::default()
    };
    let feed = StreamFeed::new();
    let endpoint = Endpoint::start_with(move |request| {
        let answer = script.answer(request, &feed);
        if request.body.contains("tools/call") {
            return ScriptedResponse::whole("404 Not Found", &[], "no such session");
        }
        answer
    });
    let finished = project(&sse_url(&endpoint), "type: sse").success();
    for read in call_results(&finished) {
        assert!(read.starts_with("error: the server `t`"), "{read}");
    }
}

#[test]
fn an_older_server_wants_the_user_to_sign_in_too() {
    let challenge = "www-authenticate: Bearer realm=\"t\"";
    for headers in [vec![challenge], vec![]] {
        let endpoint = Endpoint::start_with(move |request| {
            if request.line.starts_with("GET") {
                return ScriptedResponse::whole("401 Unauthorized", &headers, "");
            }
            ScriptedResponse::whole("405 Method Not Allowed", &[], "")
        });
        for keys in ["type: sse", ""] {
            let sign_in = "it requires authentication: sign in with `massgen mcp login t`";
            assert_unusable(&endpoint, keys, sign_in);
            let keys = format!("headers: {{Authorization: 'Bearer mine'}}, {keys}");
            let wrong = "it rejects the credentials in `headers`";
            assert_unusable(&endpoint, &keys, wrong);
        }
    }
}

#[test]
fn a_sign_in_works_with_an_sse_server() {
    for keys in ["type: sse", ""] {
        let server = OauthServer::start(OauthBehaviour {
            answers_in: Some(StreamFeed::new()),
            ..OauthBehaviour::default()
        });
        let arguments = LOGIN.into_iter();
        let finished = crate::mcp_login::project(&server.url(), keys)
            .args(arguments)
            .success();
        let finished = finished.then(RUN).success();
        assert_eq!(
            call_results(&finished),
            ["you are Bearer [redacted]"],
            "{keys}"
        );
        assert!(!finished.stderr().contains(TOKEN));
        let requests = [
            server.requests("GET /mcp"),
            server.requests("POST /message"),
        ]
        .concat();
        let known = |request: &&ReceivedRequest| request.headers.contains_key("authorization");
        assert!(requests.iter().filter(known).count() > 3, "{requests:#?}");
    }
}

#[test]
fn a_token_that_an_older_server_no_longer_takes_is_exchanged() {
    let server = OauthServer::start(OauthBehaviour {
        answers_in: Some(StreamFeed::new()),
        ..OauthBehaviour::default()
    });
    let finished = crate::mcp_login::project(&server.url(), "type: sse")
        .args(LOGIN)
        .success();
    server.expire();
    let finished = finished.then(RUN).success();
    assert_eq!(call_results(&finished), ["you are Bearer [redacted]"]);
}
