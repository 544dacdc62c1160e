//! Failing Chat Completions requests: the error is in the vendor's words, the advice about retrying
//! is right, the key is never shown, and no wait is endless.

use std::time::{Duration, Instant};

use massgen::backend::remote::RemoteBackend;
use massgen::backend::remote::reply::ReplyLimits;
use massgen::backend::{BackendError, BackendErrorKind, ReplyEvent};
use massgen::event::StopReason;
use serde_json::json;

use crate::chat_wire::{delta, finish, published_events, published_stream};
use crate::decoding::connect;
use crate::http_server::{ScriptedResponse, ScriptedServer};
use crate::wire::{
    KEY, collect, config, error_line, event, simple_request, start_chat_server, text,
};

/// How often a reply is requested that a busy machine may hold up.
const TRIES_MAX: u32 = 5;

/// Returns limits of small replies, whose times a busy machine keeps, too.
fn tight_limits() -> ReplyLimits {
    ReplyLimits {
        first_byte: Duration::from_mins(2),
        idle: Duration::from_mins(2),
        total: Duration::from_mins(3),
        event_bytes_max: 4 << 10,
        reply_bytes_max: 12 << 10,
    }
}

/// Returns the error that a reply ends with; no earlier event may look like an end.
async fn error_of(backend: &RemoteBackend) -> BackendError {
    let mut events = collect(backend, simple_request()).await;
    let last = events.pop().unwrap();
    for event in events {
        let event = event.unwrap();
        assert!(
            !matches!(event, ReplyEvent::End(_) | ReplyEvent::Call(_)),
            "{event:?}"
        );
    }
    last.unwrap_err()
}

/// Returns an error as one line, without the address of the server.
async fn line_of(answer: ScriptedResponse) -> String {
    line_within(answer, tight_limits()).await
}

/// The same with these limits.
async fn line_within(answer: ScriptedResponse, limits: ReplyLimits) -> String {
    let (server, backend) = start_chat_server(answer).await;
    let error = error_of(&backend.with_limits(limits)).await;
    error_line(&error).replace(&server.url, "http://here")
}

#[tokio::test]
async fn a_connection_may_break_anywhere() {
    let stream = published_stream();
    let answer = stream
        .iter()
        .fold(ScriptedResponse::stream(), ScriptedResponse::piece)
        .end();
    let bytes = answer.bytes();
    let done = b"data: [DONE]\n\n";
    let end = bytes
        .windows(done.len())
        .position(|window| window == done)
        .unwrap()
        + done.len();
    // In the headers, in events of the stream, and in HTTP chunk framing.
    let cuts: Vec<usize> = (0..end).step_by(31).chain(end - 3..bytes.len()).collect();
    let answers = cuts
        .iter()
        .map(|&cut| ScriptedResponse::raw(&bytes[..cut]))
        .collect();
    let server = ScriptedServer::start(answers).await;
    let backend = connect(&config("groq", &server.url));
    for cut in cuts {
        if cut < end {
            let error = error_of(&backend).await;
            let kind = BackendErrorKind::Transient { retry_after: None };
            assert_eq!(error.kind, kind, "cut at {cut}: {error}");
        } else {
            let events = collect(&backend, simple_request()).await;
            assert_eq!(events, published_events(), "cut at {cut}");
        }
    }
}

/// Formats an error as OpenAI does.
fn openai(message: &str, kind: &str) -> String {
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}}).to_string()
}

/// Returns the errors for answers with this status, these headers and this body.
async fn refusals(rows: &[(&str, &[&str], String)]) -> String {
    let mut lines = Vec::new();
    for (status, headers, body) in rows {
        lines.push(line_of(ScriptedResponse::whole(status, headers, body)).await);
    }
    lines.join("\n")
}

#[tokio::test]
async fn a_refusal_for_good_is_reported_in_the_vendors_words() {
    let detail = json!({"detail": [{"msg": "field required"}]});
    let google = json!([{"error": {"message": "INVALID", "code": 400}}]);
    let rows: &[(&str, &[&str], String)] = &[
        (
            "401 Unauthorized",
            &[],
            openai("Invalid API Key", "invalid_request_error"),
        ),
        (
            "403 Forbidden",
            &[],
            json!({"message": "No access."}).to_string(),
        ),
        (
            "404 Not Found",
            &[],
            json!({"error": "model 'm' not found"}).to_string(),
        ),
        (
            "400 Bad Request",
            &[],
            json!({"detail": "bad tool"}).to_string(),
        ),
        (
            "400 Bad Request",
            &[],
            openai("Unknown parameter: 'stream_options'.", "x"),
        ),
        ("400 Bad Request", &[], google.to_string()),
        (
            "402 Payment Required",
            &[],
            "Insufficient credits".to_owned(),
        ),
        ("413 Payload Too Large", &[], String::new()),
        ("422 Unprocessable Entity", &[], detail.to_string()),
        (
            "307 Temporary Redirect",
            &["location: https://elsewhere.example/v1"],
            String::new(),
        ),
        (
            "429 Too Many Requests",
            &[],
            openai("You exceeded your quota.", "insufficient_quota"),
        ),
    ];
    insta::assert_snapshot!(refusals(rows).await, @"
    RejectedKey: `groq` answered 401 Unauthorized: Invalid API Key (the key is from `api_key`)
    RejectedKey: `groq` answered 403 Forbidden: No access. (the key is from `api_key`)
    UnknownModel: `groq` answered 404 Not Found: model 'm' not found (asked at `http://here/v1/chat/completions`)
    invalid request: `groq` answered 400 Bad Request: bad tool
    invalid request: `groq` answered 400 Bad Request: Unknown parameter: 'stream_options'. (set `stream_options: null` next to `model` to omit it)
    invalid request: `groq` answered 400 Bad Request: INVALID
    ExhaustedAccount: `groq` answered 402 Payment Required: Insufficient credits
    invalid request: `groq` answered 413 Payload Too Large
    invalid request: `groq` answered 422 Unprocessable Entity: field required
    permanent: `groq` answered 307 Temporary Redirect (redirects to `https://elsewhere.example/v1` are not followed)
    ExhaustedAccount: `groq` answered 429 Too Many Requests: You exceeded your quota.
    ");
}

#[tokio::test]
async fn a_refusal_that_may_heal_says_when_to_ask_again() {
    let router = json!({"error": {
        "message": "Provider returned error", "code": 502, "metadata": {"raw": "upstream is down"},
    }});
    let slow_down = || openai("Slow down.", "requests");
    let date = "date: Sun, 06 Nov 1994 08:49:37 GMT";
    let until = [date, "retry-after: Sun, 06 Nov 1994 08:49:59 GMT"];
    let rows: &[(&str, &[&str], String)] = &[
        ("429 Too Many Requests", &["retry-after: 7"], slow_down()),
        ("429 Too Many Requests", &["retry-after: 0.5"], slow_down()),
        ("429 Too Many Requests", &until, slow_down()),
        (
            "429 Too Many Requests",
            &["retry-after: 99999999999"],
            String::new(),
        ),
        ("429 Too Many Requests", &["retry-after: -1"], String::new()),
        (
            "429 Too Many Requests",
            &["retry-after: soon"],
            String::new(),
        ),
        ("408 Request Timeout", &[], String::new()),
        ("409 Conflict", &[], String::new()),
        ("425 Too Early", &[], String::new()),
        ("500 Internal Server Error", &[], "<h1>Oops</h1>".to_owned()),
        ("502 Bad Gateway", &[], router.to_string()),
        (
            "503 Service Unavailable",
            &["retry-after: 2"],
            String::new(),
        ),
        ("529 Overloaded", &[], String::new()),
    ];
    insta::assert_snapshot!(refusals(rows).await, @"
    transient after 7s: `groq` answered 429 Too Many Requests: Slow down.
    transient after 500ms: `groq` answered 429 Too Many Requests: Slow down.
    transient after 22s: `groq` answered 429 Too Many Requests: Slow down.
    transient after 3600s: `groq` answered 429 Too Many Requests
    transient after 0ns: `groq` answered 429 Too Many Requests
    transient: `groq` answered 429 Too Many Requests
    transient: `groq` answered 408 Request Timeout
    transient: `groq` answered 409 Conflict
    transient: `groq` answered 425 Too Early
    transient: `groq` answered 500 Internal Server Error: <h1>Oops</h1>
    transient: `groq` answered 502 Bad Gateway: Provider returned error: upstream is down
    transient after 2s: `groq` answered 503 Service Unavailable
    transient: `groq` answered 529
    ");
}

/// Returns the errors for these answers.
async fn lines_of(answers: Vec<ScriptedResponse>) -> String {
    let mut lines = Vec::new();
    for answer in answers {
        lines.push(line_of(answer).await);
    }
    lines.join("\n")
}

/// Returns a stream that has begun with some text.
fn hello() -> ScriptedResponse {
    ScriptedResponse::stream().piece(delta(&json!({"content": "Hi"})))
}

#[tokio::test]
async fn an_error_in_the_stream_is_reported_in_the_vendors_words() {
    let error = |error| hello().piece(event(&json!({"error": error})));
    let vllm = json!({"object": "error", "message": "vLLM is sorry", "code": 500});
    let refusal = json!({"error": {"message": "No.", "code": 401}}).to_string();
    let answers = vec![
        error(json!({"message": "Overloaded", "type": "server_error"})),
        error(json!({"code": 502, "message": "Network connection lost."})),
        error(json!({"code": "429", "message": "Slow down."})),
        error(json!({"code": 400, "message": "Too long."})),
        error(json!({"type": "invalid_request_error", "message": "No."})),
        error(json!("plain words")),
        hello().piece(event(&vllm)),
        hello().piece("event: error\ndata: gone wrong\n\n"),
        hello().piece(finish("error")),
        ScriptedResponse::whole("200 OK", &["content-type: application/json"], refusal),
    ];
    insta::assert_snapshot!(lines_of(answers).await, @"
    transient: `groq` reported an error: Overloaded
    transient: `groq` reported an error: Network connection lost.
    transient: `groq` reported an error: Slow down.
    invalid request: `groq` reported an error: Too long.
    permanent: `groq` reported an error: No.
    transient: `groq` reported an error: plain words
    transient: `groq` reported an error: vLLM is sorry
    transient: `groq` reported an error: gone wrong
    transient: `groq` ended its reply with `error`
    RejectedKey: `groq` reported an error: No.
    ");
}

#[tokio::test]
async fn a_reply_that_is_broken_is_no_reply() {
    let html = ["content-type: text/html; charset=utf-8"];
    let json_type = ["content-type: application/json"];
    let nameless = json!({"index": 0, "id": "a", "function": {"arguments": "{}"}});
    let nameless = delta(&json!({"tool_calls": [nameless]}));
    let answers = vec![
        hello().piece("data: {\"choices\": [\n\n"),
        hello().piece("data: hello\n\n"),
        hello().piece(b"data: \xff\xfe\n\n"),
        hello().piece(nameless).piece(finish("tool_calls")).end(),
        hello().end(),
        ScriptedResponse::stream().end(),
        ScriptedResponse::whole("200 OK", &html, "<html>"),
        ScriptedResponse::whole("200 OK", &json_type, "{\"choices\": ["),
        ScriptedResponse::whole("200 OK", &json_type, "{}"),
        ScriptedResponse::raw("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort"),
        ScriptedResponse::raw("no HTTP at all\r\n\r\n"),
        ScriptedResponse::default(),
    ];
    insta::assert_snapshot!(lines_of(answers).await, @r#"
    transient: `groq` sent a malformed reply: EOF while parsing a list at line 1 column 13: {"choices": [
    transient: `groq` sent a malformed reply: expected value at line 1 column 1: hello
    transient: `groq` sent a malformed reply: utf8 parse error: invalid utf-8 sequence of 1 bytes from index 0
    transient: `groq` sent a malformed reply: the reply makes a tool call without a name
    transient: `groq` sent an incomplete reply
    transient: `groq` sent an incomplete reply
    permanent: `groq` answered with a web page at `http://here/v1/chat/completions`: check `base_url`
    transient: `groq` sent a malformed reply: EOF while parsing a list at line 1 column 13: {"choices": [
    transient: `groq` sent a malformed reply: the body holds no reply
    transient: `groq` closed the connection: end of file before message length reached
    transient: `groq` closed the connection: invalid HTTP version parsed
    transient: `groq` closed the connection: connection closed before message completed
    "#);
}

#[tokio::test]
async fn an_unreachable_server_is_retried_unless_it_is_on_this_machine() {
    // A TCP connection to this address fails at once, whatever the network is.
    let error = error_of(&connect(&config("groq", "http://255.255.255.255:9"))).await;
    assert_eq!(error.kind, BackendErrorKind::Unreachable, "{error}");
    let server = ScriptedServer::start(vec![ScriptedResponse::default()]).await;
    let url = server.url.clone();
    drop(server);
    tokio::task::yield_now().await;
    // The user has to start a server of this machine, of whatever type the config says it is.
    for (vendor, hint) in [
        ("ollama", "is `ollama serve` running?"),
        ("lmstudio", "is `lms server start` running?"),
        ("vllm", "is `vllm serve` running?"),
        ("sglang", "is `sglang.launch_server` running?"),
        ("inference", "is the server running?"),
        ("groq", "is the server running?"),
    ] {
        let error = error_of(&connect(&config(vendor, &url))).await;
        assert_eq!(error.kind, BackendErrorKind::Permanent, "{vendor}");
        let message = error.message.replace(&url, "http://here");
        let expected = format!(
            "`{vendor}` cannot be reached at `http://here/chat/completions`: Connection refused \
             (os error 111) (hint: {hint})"
        );
        assert_eq!(message, expected);
    }
}

#[tokio::test]
async fn silence_ends_a_request_and_signs_of_life_do_not() {
    let silent = "transient: `groq` did not send the next part of its response in 0.15 s";
    let brief = ReplyLimits {
        first_byte: Duration::from_millis(150),
        idle: Duration::from_millis(150),
        ..tight_limits()
    };
    let began = Instant::now();
    for answer in [
        ScriptedResponse::default(),
        ScriptedResponse::stream(),
        hello(),
    ] {
        assert_eq!(line_within(answer.await_close(), brief).await, silent);
    }
    // Its head has to come in time.
    let limits = ReplyLimits {
        idle: Duration::from_millis(150),
        ..tight_limits()
    };
    let refusal = ScriptedResponse::raw("HTTP/1.1 500 Oops\r\ncontent-length: 9\r\n\r\n");
    assert_eq!(
        line_within(refusal.await_close(), limits).await,
        "transient: `groq` answered 500 Internal Server Error"
    );
    assert!(began.elapsed() < Duration::from_mins(1));

    // All pauses together are longer than the limit, and each is much shorter.
    let pause = Duration::from_millis(1300);
    let comment = |answer: ScriptedResponse| answer.wait(pause).piece(": still here\n\n");
    let alive = comment(comment(comment(comment(hello()))))
        .piece(finish("stop"))
        .end();
    let expected: [Result<ReplyEvent, BackendError>; 2] =
        [Ok(text("Hi")), Ok(ReplyEvent::End(StopReason::Done))];
    // On a busy machine, one of the pauses may be as long as the limit.
    for tries in 1.. {
        let (_server, backend) = start_chat_server(alive.clone()).await;
        let backend = backend.with_limits(ReplyLimits {
            idle: Duration::from_secs(5),
            ..tight_limits()
        });
        let events = collect(&backend, simple_request()).await;
        if events == expected {
            break;
        }
        assert!(tries < TRIES_MAX, "{events:?}");
    }
}

#[tokio::test]
async fn signs_of_life_do_not_keep_a_request_alive_for_ever() {
    let pause = Duration::from_millis(60);
    let comments = (0..40).fold(hello(), |answer, _| {
        answer.wait(pause).piece(": still here\n\n")
    });
    // On a busy machine, all of them may be there when the first is read.
    let (_server, backend) = start_chat_server(comments.await_close()).await;
    let backend = backend.with_limits(ReplyLimits {
        total: Duration::from_millis(500),
        ..tight_limits()
    });
    let error = error_of(&backend).await;
    assert_eq!(error.message, "`groq` did not finish its reply in 0.5 s");
    assert_eq!(
        error.kind,
        BackendErrorKind::Transient { retry_after: None }
    );
}

#[tokio::test]
async fn a_reply_is_bounded() {
    let kibibyte = "x".repeat(1 << 10);
    let content = delta(&json!({"content": kibibyte}));
    let piece = json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": kibibyte}}]);
    let calls: Vec<_> = (0..200)
        .map(|index| json!({"index": index, "id": index.to_string(), "function": {"name": "f"}}))
        .collect();
    let too_long = json!({"choices": [{"message": {"content": "x".repeat(13 << 10)}}]}).to_string();
    let rows = vec![
        ScriptedResponse::stream().piece(content.repeat(20)),
        ScriptedResponse::stream().piece(delta(&json!({"tool_calls": piece})).repeat(20)),
        ScriptedResponse::stream()
            .piece(delta(&json!({"tool_calls": calls[..100]})))
            .piece(delta(&json!({"tool_calls": calls[100..]}))),
        (0..40).fold(ScriptedResponse::stream().piece("data: "), |answer, _| {
            answer.piece(&kibibyte)
        }),
        (0..40).fold(ScriptedResponse::stream(), |answer, _| {
            answer.piece(format!("data: {kibibyte}\n"))
        }),
        ScriptedResponse::whole("200 OK", &["content-type: application/json"], too_long),
    ];
    insta::assert_snapshot!(lines_of(rows).await, @"
    permanent: `groq` sent a reply of more than 12288 bytes
    permanent: `groq` sent a reply of more than 12288 bytes
    permanent: `groq` sent a reply that makes more than 128 tool calls
    permanent: `groq` sent an event of more than 4096 bytes
    permanent: `groq` sent an event of more than 4096 bytes
    permanent: `groq` sent a reply of more than 12288 bytes
    ");

    // Control: the limits allow a reply of exactly their size.
    let (_server, backend) = start_chat_server(
        ScriptedResponse::stream()
            .piece(content.repeat(8))
            .piece(finish("stop"))
            .end(),
    )
    .await;
    let events = collect(&backend.with_limits(tight_limits()), simple_request()).await;
    assert_eq!(events.last(), Some(&Ok(ReplyEvent::End(StopReason::Done))));
}

#[tokio::test]
async fn the_key_is_shown_nowhere() {
    let words = format!("the key {KEY} is \u{1b}[31mbad\u{7}\n{}", "x".repeat(2000));
    let error = json!({"error": {"message": words}});
    let answers = vec![
        ScriptedResponse::whole("401 Unauthorized", &[], error.to_string()),
        ScriptedResponse::whole("500 Oops", &[], &words),
        ScriptedResponse::whole(
            "302 Found",
            &[&format!("location: https://x/?key={KEY}")],
            "",
        ),
        ScriptedResponse::stream().piece(event(&error)),
        ScriptedResponse::stream().piece(format!("data: {KEY}\n\n")),
        ScriptedResponse::stream().piece(event(
            &json!({"choices": [{"delta": {}, "finish_reason": "error"}]}),
        )),
        ScriptedResponse::default(),
    ];
    for answer in answers {
        let server = ScriptedServer::start(vec![answer]).await;
        let url = server
            .url
            .replace("http://", &format!("http://user:{KEY}@"));
        let config = config("groq", &format!("{url}/v1?key={KEY}"));
        let backend = connect(&config);
        let error = error_of(&backend).await;
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(KEY), "{shown}");
        assert!(!error.message.contains(char::is_control), "{shown}");
        assert!(error.message.chars().count() < 800, "{shown}");
    }
    let backend = connect(&config("groq", &format!("http://localhost/v1?key={KEY}")));
    assert!(!format!("{backend:?} {backend:#?}").contains(KEY));
}
