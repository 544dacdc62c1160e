//! Failing requests to Anthropic: the error is in the vendor's words, the advice about retrying is
//! right, and half a reply never counts.

use massgen::backend::ReplyEvent;
use serde_json::{Value, json};

use crate::claude_wire::{
    call_block, event, message_start, start_claude_server, stream, text_block, usage_event,
};
use crate::http_server::ScriptedResponse;
use crate::wire::{collect, error_line, simple_request, text};

/// Returns an error as one line; no earlier event may look like a complete reply.
async fn line_of(answer: ScriptedResponse) -> String {
    let (server, backend) = start_claude_server(answer).await;
    let mut events = collect(&backend, simple_request()).await;
    let error = events.pop().unwrap().unwrap_err();
    for event in events {
        let event = event.unwrap();
        let is_whole = matches!(event, ReplyEvent::End(_) | ReplyEvent::Call(_));
        assert!(!is_whole, "{event:?}");
    }
    error_line(&error).replace(&server.url, "http://here")
}

async fn lines_of(answers: Vec<ScriptedResponse>) -> String {
    let mut lines = Vec::new();
    for answer in answers {
        lines.push(line_of(answer).await);
    }
    lines.join("\n")
}

/// Formats an error as Anthropic does.
fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

#[tokio::test]
async fn a_refused_request_is_reported_in_the_vendors_words() {
    let refusal = |status: &str, headers: &[&str], kind: &str, message: &str| {
        ScriptedResponse::whole(status, headers, error(kind, message).to_string())
    };
    let bad = "400 Bad Request";
    let invalid = "invalid_request_error";
    let large = "Request exceeds the maximum size";
    let answers = vec![
        refusal(bad, &[], invalid, "max_tokens: Field required"),
        refusal(
            bad,
            &[],
            invalid,
            "prompt is too long: 209000 tokens > 200000 maximum",
        ),
        refusal(
            bad,
            &[],
            invalid,
            "input length and `max_tokens` exceed context limit: 188240 + 32000 > 200000",
        ),
        refusal(
            "401 Unauthorized",
            &[],
            "authentication_error",
            "invalid x-api-key",
        ),
        refusal("402 Payment Required", &[], "billing_error", "no credit"),
        refusal("403 Forbidden", &[], "permission_error", "no access"),
        refusal("404 Not Found", &[], "not_found_error", "model: big-model"),
        refusal("413 Payload Too Large", &[], "request_too_large", large),
        refusal(
            "429 Too Many Requests",
            &["retry-after: 7"],
            "rate_limit_error",
            "slow down",
        ),
        refusal(
            "500 Internal Server Error",
            &[],
            "api_error",
            "Internal server error",
        ),
        refusal("529 Overloaded", &[], "overloaded_error", "Overloaded"),
    ];
    insta::assert_snapshot!(lines_of(answers).await, @"
    invalid request: `claude` answered 400 Bad Request: max_tokens: Field required (request `req_1`)
    too long: `claude` answered 400 Bad Request: prompt is too long: 209000 tokens > 200000 maximum (request `req_1`)
    too long: `claude` answered 400 Bad Request: input length and `max_tokens` exceed context limit: 188240 + 32000 > 200000 (request `req_1`)
    RejectedKey: `claude` answered 401 Unauthorized: invalid x-api-key (request `req_1`) (the key is from `api_key`)
    ExhaustedAccount: `claude` answered 402 Payment Required: no credit (request `req_1`)
    RejectedKey: `claude` answered 403 Forbidden: no access (request `req_1`) (the key is from `api_key`)
    UnknownModel: `claude` answered 404 Not Found: model: big-model (request `req_1`) (asked at `http://here/v1/messages`)
    too long: `claude` answered 413 Payload Too Large: Request exceeds the maximum size (request `req_1`)
    transient after 7s: `claude` answered 429 Too Many Requests: slow down (request `req_1`)
    transient: `claude` answered 500 Internal Server Error: Internal server error (request `req_1`)
    transient: `claude` answered 529: Overloaded (request `req_1`)
    ");
}

#[tokio::test]
async fn an_error_in_the_stream_is_reported_in_the_vendors_words() {
    let begun = || {
        let usage = json!({"input_tokens": 10, "output_tokens": 1});
        let start = ScriptedResponse::stream().piece(message_start(&usage));
        text_block(0, &["Hi"])
            .iter()
            .fold(start, ScriptedResponse::piece)
    };
    let too_many = (0..129).map(|index| call_block(index, "a", "f", &[]));
    let reported = |kind, message| begun().piece(event(&error(kind, message)));
    let answers = vec![
        reported("overloaded_error", "Overloaded"),
        reported("api_error", "Internal server error"),
        reported("rate_limit_error", "slow down"),
        reported("invalid_request_error", "no"),
        reported("authentication_error", "no"),
        begun().piece("event: error\ndata: gone wrong\n\n"),
        begun().piece("data: {\"error\": {\"message\": \"a proxy is sorry\"}}\n\n"),
        begun().piece("data: {\"type\": \"content_block\n\n"),
        begun().piece(event(
            &json!({"type": "content_block_delta", "index": 7, "delta": {"type": "input_json_delta"}}),
        )),
        begun().piece(event(&json!({"type": "content_block_delta", "delta": {}}))),
        begun().piece(text_block(0, &["again"]).concat()),
        stream(&[call_block(0, "a", "", &[])], "tool_use"),
        stream(&too_many.collect::<Vec<_>>(), "tool_use"),
        begun().end(),
        ScriptedResponse::stream().end(),
    ];
    insta::assert_snapshot!(lines_of(answers).await, @r#"
    transient: `claude` reported an error: Overloaded (request `req_1`)
    transient: `claude` reported an error: Internal server error (request `req_1`)
    transient: `claude` reported an error: slow down (request `req_1`)
    permanent: `claude` reported an error: no (request `req_1`)
    RejectedKey: `claude` reported an error: no (request `req_1`)
    transient: `claude` reported an error: gone wrong
    transient: `claude` reported an error: a proxy is sorry
    transient: `claude` sent a malformed reply: EOF while parsing a string at line 1 column 23: {"type": "content_block
    transient: `claude` sent a malformed reply: a piece of a content block that has not begun
    transient: `claude` sent a malformed reply: no `index` of a content block: {"type":"content_block_delta","delta":{}}
    transient: `claude` sent a malformed reply: a content block begins twice
    transient: `claude` sent a malformed reply: the reply makes a tool call without a name
    permanent: `claude` sent a reply that makes more than 128 tool calls
    transient: `claude` sent an incomplete reply
    transient: `claude` sent an incomplete reply
    "#);
}

#[tokio::test]
async fn a_reply_without_the_frame_of_its_blocks_is_read() {
    let delta = json!({"type": "text_delta", "text": "Hi"});
    let answer = ScriptedResponse::stream()
        .piece(event(
            &json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        ))
        .piece(event(
            &json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        ))
        .end();
    let (_server, backend) = start_claude_server(answer).await;
    let events: Vec<_> = collect(&backend, simple_request()).await;
    let events: Vec<ReplyEvent> = events.into_iter().map(Result::unwrap).collect();
    assert_eq!(events.first(), Some(&text("Hi")));
    assert!(
        matches!(events.last(), Some(ReplyEvent::End(_))),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_cut_reply_says_what_it_has_cost() {
    let counts = json!({"input_tokens": 10, "output_tokens": 1});
    let start = ScriptedResponse::stream().piece(message_start(&counts));
    let (_server, backend) =
        start_claude_server(start.piece(text_block(0, &["Hi"]).concat())).await;
    let events = collect(&backend, simple_request()).await;
    assert_eq!(events[..2], [Ok(usage_event(1)), Ok(text("Hi"))]);
    assert!(events[2].is_err(), "{events:?}");
}
