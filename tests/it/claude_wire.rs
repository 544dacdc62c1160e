//! Anthropic's Messages API over real HTTP: the requests, and how replies are decoded.

use std::sync::Arc;

use massgen::backend::conversation::{ChatMessage, Conversation};
use massgen::backend::remote::RemoteBackend;
use massgen::backend::{BackendError, ModelRequest, ReplyEvent};
use massgen::event::StopReason;
use massgen::spending::TokenUsage;
use massgen::tools::CallRequest;
use serde_json::{Value, json};

use crate::decoding::connect;
use crate::http_server::{ScriptedResponse, ScriptedServer};
use crate::wire::{KEY, assistant_message, call, collect, config, read_tool, simple_request, text};

/// Formats one event of a stream, with its name as the vendor writes it.
pub(crate) fn event(data: &Value) -> String {
    let name = data["type"].as_str().unwrap();
    format!("event: {name}\ndata: {data}\n\n")
}

/// Formats the beginning of a stream.
pub(crate) fn message_start(usage: &Value) -> String {
    event(&json!({"type": "message_start", "message": {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant",
        "model": "claude-sonnet-5", "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": usage,
    }}))
}

/// Formats the start of a block, its deltas and its end.
pub(crate) fn block(index: u64, start: &Value, deltas: &[Value]) -> Vec<String> {
    let start = json!({"type": "content_block_start", "index": index, "content_block": start});
    let deltas = deltas.iter().map(|delta| {
        event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    });
    let stop = event(&json!({"type": "content_block_stop", "index": index}));
    std::iter::once(event(&start))
        .chain(deltas)
        .chain([stop])
        .collect()
}

/// Formats a text block in these pieces.
pub(crate) fn text_block(index: u64, pieces: &[&str]) -> Vec<String> {
    let deltas = pieces
        .iter()
        .map(|text| json!({"type": "text_delta", "text": text}));
    let start = json!({"type": "text", "text": ""});
    block(index, &start, &deltas.collect::<Vec<_>>())
}

/// Formats a call whose arguments come in these pieces.
pub(crate) fn call_block(index: u64, id: &str, name: &str, pieces: &[&str]) -> Vec<String> {
    let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    block(index, &start, &input_deltas(pieces))
}

fn input_deltas(pieces: &[&str]) -> Vec<Value> {
    let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
    pieces.iter().map(delta).collect()
}

/// Formats the end of a stream.
pub(crate) fn message_end(stop_reason: &str, usage: &Value) -> Vec<String> {
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    vec![
        event(&json!({"type": "message_delta", "delta": delta, "usage": usage})),
        event(&json!({"type": "message_stop"})),
    ]
}

/// Returns a complete stream of these blocks.
pub(crate) fn stream(blocks: &[Vec<String>], stop_reason: &str) -> ScriptedResponse {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    let end = message_end(stop_reason, &json!({"output_tokens": 5}));
    let events = std::iter::once(message_start(&usage))
        .chain(blocks.concat())
        .chain(end);
    events
        .fold(ScriptedResponse::stream(), ScriptedResponse::piece)
        .end()
}

/// Returns the usage of every stream of [`stream`], at its beginning and its end.
pub(crate) fn usage_event(output_tokens: u64) -> ReplyEvent {
    ReplyEvent::Usage(TokenUsage {
        input_tokens: 10,
        output_tokens,
        ..TokenUsage::default()
    })
}

fn reasoning(text: &str) -> ReplyEvent {
    ReplyEvent::Reasoning(text.to_owned())
}

/// Starts a server that gives this one response, and returns its backend.
pub(crate) async fn start_claude_server(
    response: ScriptedResponse,
) -> (ScriptedServer, RemoteBackend) {
    let server = ScriptedServer::start(vec![response]).await;
    let backend = connect(&config("claude", &server.url));
    (server, backend)
}

/// Returns the events of a stream of these blocks, without the first and the last usage.
async fn events_of(blocks: &[Vec<String>], stop_reason: &str) -> Vec<ReplyEvent> {
    let (_server, backend) = start_claude_server(stream(blocks, stop_reason)).await;
    let events: Result<Vec<ReplyEvent>, BackendError> = collect(&backend, simple_request())
        .await
        .into_iter()
        .collect();
    let mut events = events.unwrap();
    assert_eq!(events.remove(0), usage_event(1));
    events.retain(|event| *event != usage_event(5));
    events
}

/// Returns the request after a reply with these `events` and the messages that followed it.
async fn next_request(
    server: &ScriptedServer,
    backend: &RemoteBackend,
    events: &[ReplyEvent],
    later_messages: &[ChatMessage],
) -> Value {
    let mut messages = simple_request().conversation.messages().to_vec();
    messages.push(assistant_message(events));
    messages.extend_from_slice(later_messages);
    let conversation = Conversation::from_messages(messages);
    let request = ModelRequest {
        conversation: &conversation,
        ..simple_request()
    };
    collect(backend, request).await;
    server.requests().last().unwrap().json()
}

fn result(id: &str, content: &str) -> ChatMessage {
    ChatMessage::CallResult {
        call_id: id.to_owned(),
        content: content.to_owned(),
    }
}

/// Returns a stream as documented by the vendor: thinking with its signature, text, two calls,
/// usage at both ends, and a ping.
pub(crate) fn published_stream() -> Vec<String> {
    let thinking = json!({"type": "thinking", "thinking": "", "signature": ""});
    let thoughts = [
        json!({"type": "thinking_delta", "thinking": "I need to "}),
        json!({"type": "thinking_delta", "thinking": "look."}),
        json!({"type": "signature_delta", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}),
    ];
    let usage = json!({
        "input_tokens": 20, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 50,
        "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 1, "service_tier": "standard",
    });
    let last = json!({"output_tokens": 89, "output_tokens_details": {"thinking_tokens": 40}});
    let mut events = vec![message_start(&usage)];
    events.extend(block(0, &thinking, &thoughts));
    events.push(event(&json!({"type": "ping"})));
    events.extend(text_block(1, &["I read ", "b\u{e9}d\u{1f600}."]));
    events.extend(call_block(
        2,
        "toolu_01T1x1fJ34qAmk2tNTrN7Up6",
        "read_text_file",
        &["", "{\"path\":", " \"a.md\"}"],
    ));
    events.extend(call_block(3, "toolu_02", "list_allowed_directories", &[""]));
    events.extend(message_end("tool_use", &last));
    events
}

/// Returns the events of the published stream.
pub(crate) fn published_events() -> Vec<Result<ReplyEvent, BackendError>> {
    let usage = |output_tokens, reasoning_tokens| {
        ReplyEvent::Usage(TokenUsage {
            input_tokens: 100,
            cached_tokens: 50,
            cache_write_tokens: 30,
            output_tokens,
            reasoning_tokens,
        })
    };
    let id = "toolu_01T1x1fJ34qAmk2tNTrN7Up6";
    let events = [
        usage(1, 0),
        reasoning("I need to "),
        reasoning("look."),
        text("I read b\u{e9}d\u{1f600}."),
        usage(89, 40),
        call(id, "read_text_file", "{\"path\": \"a.md\"}"),
        call("toolu_02", "list_allowed_directories", "{}"),
        ReplyEvent::Echo(published_echo()),
        ReplyEvent::End(StopReason::Done),
    ];
    events.into_iter().map(Ok).collect()
}

/// Returns the part of the published stream that is sent back.
fn published_echo() -> Value {
    json!([
        {
            "type": "thinking", "thinking": "I need to look.",
            "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h",
        },
        {"type": "text", "text": "I read b\u{e9}d\u{1f600}."},
        {
            "type": "tool_use", "id": "toolu_01T1x1fJ34qAmk2tNTrN7Up6", "name": "read_text_file",
            "input": {"path": "a.md"},
        },
        {"type": "tool_use", "id": "toolu_02", "name": "list_allowed_directories", "input": {}},
    ])
}

#[tokio::test]
async fn a_first_request_is_sent_whole() {
    let (server, _) = start_claude_server(stream(&[], "end_turn")).await;
    let mut config = config("claude", &server.url);
    let parameters = json!({
        "temperature": 0.2, "max_tokens": 500, "top_k": null, "stop": "END",
        "thinking": {"type": "adaptive"}, "reasoning_effort": "low", "enable_web_search": true,
        "tool_choice": {"type": "auto"}, "betas": ["one-2026-01-01", "two-2026-02-02"],
        "model": "other", "messages": [], "tools": "none", "stream": false, "system": "no",
    });
    config.parameters = parameters.as_object().unwrap().clone();
    let mut request = simple_request();
    request.tools = Arc::new([read_tool()]);
    collect(&connect(&config), request).await;

    let [request] = &server.requests()[..] else {
        panic!("{:?}", server.requests());
    };
    assert_eq!(request.line, "POST /v1/messages");
    let header = |name: &str| request.headers.get(name).map(String::as_str);
    assert_eq!(header("x-api-key"), Some(KEY));
    assert_eq!(header("authorization"), None);
    assert_eq!(header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(
        header("anthropic-beta"),
        Some("one-2026-01-01,two-2026-02-02")
    );
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("accept"), Some("text/event-stream"));
    let expected = json!({
        "model": "big-model",
        "stream": true,
        "temperature": 0.2,
        "max_tokens": 500,
        "thinking": {"type": "adaptive"},
        "tool_choice": {"type": "auto"},
        "stop_sequences": ["END"],
        "output_config": {"effort": "low"},
        "tools": [
            {
                "name": "read_text_file",
                "description": "Reads a file.",
                "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "system": [
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "Go.", "cache_control": {"type": "ephemeral"}},
        ]}],
    });
    // Compared as text: the order decides what the vendor can cache.
    assert_eq!(request.body, expected.to_string());
}

#[tokio::test]
async fn a_plain_request_holds_only_what_the_api_needs() {
    let (server, _) = start_claude_server(stream(&[], "end_turn")).await;
    let mut config = config("claude", &server.url);
    let parameters = json!({"prompt_caching": false, "tool_choice": {"type": "auto"}});
    config.parameters = parameters.as_object().unwrap().clone();
    let mut request = simple_request();
    request.system = "".into();
    collect(&connect(&config), request).await;
    let [request] = &server.requests()[..] else {
        panic!("{:?}", server.requests());
    };
    assert_eq!(request.headers.get("anthropic-beta"), None);
    assert_eq!(
        request.json(),
        json!({
            "model": "big-model", "stream": true, "max_tokens": 32_000,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Go."}]}],
        })
    );
}

#[tokio::test]
async fn a_base_url_may_name_any_part_of_the_way() {
    let (server, _) = start_claude_server(stream(&[], "end_turn")).await;
    for (path, expected) in [
        ("", "/v1/messages"),
        ("/", "/v1/messages"),
        ("/v1", "/v1/messages"),
        ("/v1/", "/v1/messages"),
        ("/v1/messages", "/v1/messages"),
        ("/api/anthropic", "/api/anthropic/v1/messages"),
    ] {
        let config = config("claude", &format!("{}{path}", server.url));
        collect(&connect(&config), simple_request()).await;
        let request = server.requests().pop().unwrap();
        assert_eq!(request.line, format!("POST {expected}"), "{path}");
    }
}

#[tokio::test]
async fn a_published_stream_becomes_events() {
    let answer = published_stream()
        .iter()
        .fold(ScriptedResponse::stream(), ScriptedResponse::piece);
    let (_server, backend) = start_claude_server(answer.end()).await;
    let events = collect(&backend, simple_request()).await;
    assert_eq!(events, published_events());
}

#[tokio::test]
async fn thinking_goes_back_unchanged_with_the_results() {
    let answer = published_stream()
        .iter()
        .fold(ScriptedResponse::stream(), ScriptedResponse::piece);
    let (server, backend) = start_claude_server(answer.end()).await;
    let events: Result<Vec<ReplyEvent>, BackendError> = collect(&backend, simple_request())
        .await
        .into_iter()
        .collect();
    let first = "toolu_01T1x1fJ34qAmk2tNTrN7Up6";
    let later_messages = [
        result(first, "hello"),
        // The API requires results first, whatever else was said to the model.
        ChatMessage::User("An answer is there.".into()),
        result("toolu_02", ""),
        ChatMessage::User(" \n".into()),
    ];
    let request = next_request(&server, &backend, &events.unwrap(), &later_messages).await;
    let marked = json!({"type": "ephemeral"});
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "Go."}]},
        {"role": "assistant", "content": published_echo()},
        {"role": "user", "content": [
            {
                "type": "tool_result", "tool_use_id": first, "content": "hello",
                "cache_control": marked,
            },
            {"type": "tool_result", "tool_use_id": "toolu_02"},
            {"type": "text", "text": "An answer is there.", "cache_control": marked},
        ]},
    ]);
    assert_eq!(request["messages"], expected);
    let marks = request.to_string().matches("cache_control").count();
    assert!(marks <= 4, "{marks}");
}

#[tokio::test]
async fn earlier_messages_are_sent_again_byte_for_byte() {
    let (server, backend) = start_claude_server(stream(&[], "end_turn")).await;
    let assistant = |text: &str, arguments: &[&str]| ChatMessage::Assistant {
        text: text.to_owned(),
        calls: (0..)
            .zip(arguments)
            .map(|(n, arguments)| CallRequest {
                // Ids and names of other vendors that were asked before.
                id: format!("functions.f:{n}"),
                name: "multi tool".to_owned(),
                arguments: (*arguments).to_owned(),
            })
            .collect(),
        echo: None,
    };
    let messages = [
        ChatMessage::User("Go.".into()),
        assistant("I look.", &["{\"path\":\"x\"}", "{\"path\": "]),
        result("functions.f:0", "hello"),
        result("functions.f:1", "error: malformed"),
        assistant("", &[]),
        ChatMessage::User("Go on.".into()),
        assistant("Done.", &[]),
        ChatMessage::User("Present.".into()),
    ];
    let mut request = simple_request();
    request.tools = Arc::new([read_tool()]);
    let mut conversation = Conversation::default();
    let mut settled = String::new();
    for message in messages {
        let ends = matches!(message, ChatMessage::Assistant { .. });
        conversation.push(message);
        if ends {
            continue;
        }
        let request = ModelRequest {
            conversation: &conversation,
            ..request.clone()
        };
        collect(&backend, request).await;
        let body = server.requests().pop().unwrap().body;
        // Cache marks move with each request: the vendor does not compare them.
        let unmarked = body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "");
        let begun = settled.strip_suffix("]}]}").unwrap_or_default();
        assert!(unmarked.starts_with(begun), "{settled}\n{unmarked}");
        settled = unmarked;
    }
    let input = |n: u64, input: Value| {
        let (id, name) = (format!("functions_2ef_3a{n}"), "multi_20tool");
        json!({"type": "tool_use", "id": id, "name": name, "input": input})
    };
    let body: Value = serde_json::from_str(&settled).unwrap();
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Go."}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look."},
                input(0, json!({"path": "x"})),
                input(1, json!({"malformed_arguments": "{\"path\": "})),
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "functions_2ef_3a0", "content": "hello"},
                {
                    "type": "tool_result", "tool_use_id": "functions_2ef_3a1",
                    "content": "error: malformed",
                },
            ]},
            // The empty reply is left out.
            {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
            {"role": "user", "content": [{"type": "text", "text": "Present."}]},
        ])
    );
}

#[tokio::test]
async fn a_body_that_is_not_streamed_is_read_too() {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [
            {"type": "text", "text": "Hello."},
            {"type": "tool_use", "id": "a", "name": "vote", "input": {"n": 1}},
        ],
        "usage": {"input_tokens": 10, "output_tokens": 5},
    });
    let answer = ScriptedResponse::whole(
        "200 OK",
        &["content-type: application/json"],
        body.to_string(),
    );
    let (_server, backend) = start_claude_server(answer).await;
    assert_eq!(
        collect(&backend, simple_request()).await,
        [
            Ok(text("Hello.")),
            Ok(usage_event(5)),
            Ok(call("a", "vote", "{\"n\":1}")),
            Ok(ReplyEvent::End(StopReason::Done)),
        ]
    );
}

#[tokio::test]
async fn a_reply_ends_for_one_of_four_reasons() {
    for (reason, expected) in [
        ("end_turn", StopReason::Done),
        ("tool_use", StopReason::Done),
        ("stop_sequence", StopReason::Done),
        ("brand_new", StopReason::Done),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("refusal", StopReason::Filtered),
        ("pause_turn", StopReason::Paused),
    ] {
        let events = events_of(&[text_block(0, &["Well"])], reason).await;
        assert_eq!(
            events,
            [text("Well"), ReplyEvent::End(expected)],
            "{reason}"
        );
    }
}

/// Returns a web search as the vendor streams it, and the part that is sent back.
fn web_search() -> (Vec<Vec<String>>, Value) {
    let query = "{\"query\": \"weather NYC today\"}";
    let search = json!({
        "type": "server_tool_use", "id": "srvtoolu_014hJH82Qum7Td6UV8gDXThB",
        "name": "web_search", "input": {},
    });
    let found = json!({
        "type": "web_search_tool_result", "tool_use_id": "srvtoolu_014hJH82Qum7Td6UV8gDXThB",
        "content": [{
            "type": "web_search_result", "title": "Weather in New York City",
            "url": "https://example.com/weather", "encrypted_content": "Ev0DCioIAxgC", "page_age": null,
        }],
    });
    let citation = json!({
        "type": "web_search_result_location", "url": "https://example.com/weather",
        "title": "Weather in New York City", "encrypted_index": "Eo8BCioIAhgB",
        "cited_text": "72 degrees",
    });
    let cited = json!({"type": "text", "text": "", "citations": []});
    let pieces = [
        json!({"type": "citations_delta", "citation": citation}),
        json!({"type": "text_delta", "text": "it is warm"}),
        json!({"type": "new_delta", "new": 1}),
    ];
    let blocks = vec![
        text_block(0, &["I will look."]),
        block(1, &search, &input_deltas(&["", query])),
        block(2, &found, &[]),
        text_block(3, &["Today "]),
        block(4, &cited, &pieces),
        text_block(5, &["."]),
    ];
    let mut searched = search;
    searched["input"] = json!({"query": "weather NYC today"});
    let echo = json!([
        {"type": "text", "text": "I will look."},
        searched,
        found,
        {"type": "text", "text": "Today "},
        {"type": "text", "text": "it is warm", "citations": [citation]},
        {"type": "text", "text": "."},
    ]);
    (blocks, echo)
}

#[tokio::test]
async fn tools_of_the_vendor_run_in_the_middle_of_a_reply() {
    let (blocks, echo) = web_search();
    let events = events_of(&blocks, "end_turn").await;
    let expected = [
        text("I will look.\n\nToday it is warm."),
        ReplyEvent::Echo(echo),
        ReplyEvent::End(StopReason::Done),
    ];
    assert_eq!(events, expected);
}

#[tokio::test]
async fn a_paused_reply_goes_back_as_it_stands() {
    let (blocks, echo) = web_search();
    let (server, backend) = start_claude_server(stream(&[], "end_turn")).await;
    let events = events_of(&blocks[..2], "pause_turn").await;
    let begun: Vec<Value> = echo.as_array().unwrap()[..2].to_vec();
    let expected = [
        text("I will look."),
        ReplyEvent::Echo(begun.clone().into()),
        ReplyEvent::End(StopReason::Paused),
    ];
    assert_eq!(events, expected);
    let request = next_request(&server, &backend, &events, &[]).await;
    let last = json!({"role": "assistant", "content": begun});
    assert_eq!(request["messages"].as_array().unwrap().last(), Some(&last));
}

#[tokio::test]
async fn blocks_that_the_api_refuses_are_not_sent_back() {
    /// Checks the part of a reply with this stop reason that is sent back.
    async fn check(blocks: &[Vec<String>], stop_reason: &str, expected: Value) {
        let (server, backend) = start_claude_server(stream(&[], "end_turn")).await;
        let events = events_of(blocks, stop_reason).await;
        let later_messages = [ChatMessage::User("Go on.".into())];
        let request = next_request(&server, &backend, &events, &later_messages).await;
        let messages = request["messages"].as_array().unwrap();
        let content = match &messages[..] {
            [_, reply, _] => reply["content"].clone(),
            _ => Value::Null,
        };
        assert_eq!(content, expected, "{events:?}");
    }

    let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    let hidden = json!({"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3p"});
    let unsigned = json!({"type": "thinking", "thinking": "H", "signature": ""});
    let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let so = json!({"type": "text", "text": "So."});
    let odd = json!({"type": "tool_use", "id": "a.b", "name": "a b", "input": {}});
    check(
        &[
            block(0, &thought, &[]),
            block(1, &hidden, &[]),
            block(2, &so, &[]),
        ],
        "end_turn",
        json!([thought, hidden, so]),
    )
    .await;
    // Thinking is never the last block, and a truncated one has no signature.
    check(&[block(0, &thought, &[])], "end_turn", Value::Null).await;
    check(
        &[block(0, &so, &[]), block(1, &thought, &[])],
        "max_tokens",
        json!([so]),
    )
    .await;
    check(
        &[block(0, &unsigned, &[]), block(1, &so, &[])],
        "end_turn",
        json!([so]),
    )
    .await;
    // A search that never ran would be waited for.
    check(
        &[block(0, &so, &[]), block(1, &search, &[])],
        "max_tokens",
        json!([so]),
    )
    .await;
    // Text that is only whitespace.
    check(
        &[
            text_block(0, &["\n\n"]),
            block(1, &thought, &[]),
            block(2, &so, &[]),
        ],
        "end_turn",
        json!([thought, so]),
    )
    .await;
    // Truncated arguments, and an id and a name that the API does not accept.
    check(
        &[
            block(0, &thought, &[]),
            block(1, &odd, &input_deltas(&["{\"path\": \"a"])),
        ],
        "max_tokens",
        json!([thought, {
            "type": "tool_use", "id": "a_2eb", "name": "a_20b",
            "input": {"malformed_arguments": "{\"path\": \"a"},
        }]),
    )
    .await;
}

#[tokio::test]
async fn every_call_has_an_id_of_its_own() {
    let blocks = [
        call_block(0, "a", "f", &["{}"]),
        call_block(1, "a", "g", &["{}"]),
        call_block(2, "", "h", &[]),
    ];
    let events = events_of(&blocks, "tool_use").await;
    let calls = [
        call("a", "f", "{}"),
        call("call_1_1", "g", "{}"),
        call("call_1_2", "h", "{}"),
    ];
    assert_eq!(events[..3], calls);
    let again = [call_block(0, "a", "f", &["{}"])];
    let (_server, backend) = start_claude_server(stream(&again, "tool_use")).await;
    let ReplyEvent::Call(earlier) = call("a", "f", "{}") else {
        unreachable!();
    };
    let conversation = Conversation::from_messages(vec![
        ChatMessage::User("Go.".into()),
        ChatMessage::Assistant {
            text: String::new(),
            calls: vec![earlier],
            echo: None,
        },
        result("a", "done"),
    ]);
    let request = ModelRequest {
        conversation: &conversation,
        ..simple_request()
    };
    let events = collect(&backend, request).await;
    assert!(
        events.contains(&Ok(call("call_3_0", "f", "{}"))),
        "{events:?}"
    );
}
