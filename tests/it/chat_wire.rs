//! Chat Completions over real HTTP: the requests, and how the vendors' replies are decoded.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use massgen::backend::conversation::{ChatMessage, Conversation};
use massgen::backend::{Backend, BackendError, ReplyEvent};
use massgen::event::StopReason;
use massgen::spending::TokenUsage;
use massgen::tools::CallRequest;
use massgen::world::diagnostics::probe::endpoint::probe_endpoint;
use massgen::world::io::http::HttpClient;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::decoding::connect;
use crate::http_server::{ScriptedResponse, ScriptedServer};
use crate::waiting::WAIT_TIME_MAX;
use crate::wire::{
    KEY, call, collect, config, event, read_tool, simple_request, start_chat_server, text,
};

/// Formats an event whose choice has this delta.
pub(crate) fn delta(delta: &Value) -> String {
    event(&json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000,
        "model": "big-model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}],
    }))
}

/// Formats the event with the finish reason, and the end of the stream.
pub(crate) fn finish(reason: &str) -> String {
    let choice = json!({"index": 0, "delta": {}, "finish_reason": reason});
    let last = event(&json!({"object": "chat.completion.chunk", "choices": [choice]}));
    last + "data: [DONE]\n\n"
}

/// Returns a stream as documented by OpenAI: text, two calls with interleaved pieces, usage without
/// choices, and the end.
pub(crate) fn published_stream() -> Vec<String> {
    let piece = |index: u64, arguments: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]});
    let opening = |index: u64, id: &str, name: &str| {
        let function = json!({"name": name, "arguments": ""});
        json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
    };
    vec![
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"content": "I read "})),
        delta(&json!({"content": "b\u{e9}d\u{1f600}."})),
        delta(&opening(0, "call_a", "read_text_file")),
        delta(&piece(0, "{\"path\":")),
        delta(&opening(1, "call_b", "list_directory")),
        delta(&piece(1, "{\"path\": \".\"")),
        delta(&piece(0, " \"a.md\"}")),
        delta(&piece(1, "}")),
        event(
            &json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": null}),
        ),
        event(&json!({"choices": [], "usage": {
            "prompt_tokens": 120, "completion_tokens": 34, "total_tokens": 154,
            "prompt_tokens_details": {"cached_tokens": 100},
        }})),
        "data: [DONE]\n\n".to_owned(),
    ]
}

/// Returns the events of the published stream.
pub(crate) fn published_events() -> Vec<Result<ReplyEvent, BackendError>> {
    vec![
        Ok(text("I read b\u{e9}d\u{1f600}.")),
        Ok(ReplyEvent::Usage(TokenUsage {
            input_tokens: 120,
            cached_tokens: 100,
            output_tokens: 34,
            ..TokenUsage::default()
        })),
        Ok(call("call_a", "read_text_file", "{\"path\": \"a.md\"}")),
        Ok(call("call_b", "list_directory", "{\"path\": \".\"}")),
        Ok(ReplyEvent::End(StopReason::Done)),
    ]
}

#[tokio::test]
async fn a_request_is_sent_whole() {
    let answer = ScriptedResponse::stream().piece(finish("stop")).end();
    let server = ScriptedServer::start(vec![answer]).await;
    let mut config = config("groq", &format!("{}/v1/", server.url));
    config.parameters = json!({
        "temperature": 0.2, "max_tokens": 500, "tool_choice": "auto", "seed": null,
        "model": "other", "messages": [], "tools": "none", "stream": false, "n": 4,
    })
    .as_object()
    .unwrap()
    .clone();
    let backend = connect(&config);
    let mut request = simple_request();
    request.tools = Arc::new([read_tool()]);
    collect(&backend, request).await;
    collect(&backend, simple_request()).await;

    let [with_tools, without_tools] = &server.requests()[..] else {
        panic!("{:?}", server.requests());
    };
    assert_eq!(with_tools.line, "POST /v1/chat/completions");
    let header = |name: &str| with_tools.headers.get(name).map(String::as_str);
    assert_eq!(header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("accept"), Some("text/event-stream"));
    assert_eq!(
        header("user-agent"),
        Some(concat!("massgen/", env!("CARGO_PKG_VERSION")))
    );
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Go."},
    ]);
    assert_eq!(
        with_tools.json(),
        json!({
            "model": "big-model",
            "stream": true,
            "stream_options": {"include_usage": true},
            "temperature": 0.2,
            "max_tokens": 500,
            "tool_choice": "auto",
            "tools": [{"type": "function", "function": {
                "name": "read_text_file",
                "description": "Reads a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            }}],
            "messages": messages,
        })
    );
    assert_eq!(
        without_tools.json(),
        json!({
            "model": "big-model",
            "stream": true,
            "stream_options": {"include_usage": true},
            "temperature": 0.2,
            "max_tokens": 500,
            "messages": messages,
        })
    );
}

#[tokio::test]
async fn a_search_of_openrouter_is_asked_for_by_its_plugin() {
    let server =
        ScriptedServer::start(vec![ScriptedResponse::stream().piece(finish("stop")).end()]).await;
    for (parameters, plugins) in [
        (json!({"enable_web_search": true}), json!([{"id": "web"}])),
        (
            json!({"enable_web_search": true, "plugins": [{"id": "file-parser"}]}),
            json!([{"id": "file-parser"}, {"id": "web"}]),
        ),
        (json!({}), json!(null)),
    ] {
        let mut config = config("openrouter", &server.url);
        config.parameters = parameters.as_object().unwrap().clone();
        collect(&connect(&config), simple_request()).await;
        let body = server.requests().pop().unwrap().json();
        assert_eq!(body["plugins"], plugins);
        assert_eq!(body.get("enable_web_search"), None);
    }
}

#[tokio::test]
async fn a_conversation_grows_only_at_its_end() {
    let server =
        ScriptedServer::start(vec![ScriptedResponse::stream().piece(finish("stop")).end()]).await;
    let backend = connect(&config("groq", &server.url));
    let mut request = simple_request();
    request.tools = Arc::new([read_tool()]);
    collect(&backend, request.clone()).await;
    let call_request = |id: &str, arguments: &str| CallRequest {
        id: id.to_owned(),
        name: "read_text_file".to_owned(),
        arguments: arguments.to_owned(),
    };
    let result = |id: &str, content: &str| ChatMessage::CallResult {
        call_id: id.to_owned(),
        content: content.to_owned(),
    };
    let mut messages = request.conversation.messages().to_vec();
    messages.extend([
        ChatMessage::Assistant {
            text: String::new(),
            calls: vec![
                call_request("a", r#"{"path":"x"}"#),
                call_request("b", "{\"path\": "),
            ],
            echo: None,
        },
        result("a", "hello"),
        result("b", "error: malformed"),
        // Some vendors reject an empty message.
        ChatMessage::Assistant {
            text: String::new(),
            calls: Vec::new(),
            echo: None,
        },
        ChatMessage::Assistant {
            text: "Done.".to_owned(),
            calls: Vec::new(),
            echo: None,
        },
    ]);
    let conversation = Conversation::from_messages(messages);
    request.conversation = &conversation;
    collect(&backend, request).await;

    let requests = server.requests();
    let known = requests[0].body.strip_suffix("]}").unwrap();
    assert!(requests[1].body.starts_with(known));
    let wire_call = |id: &str, arguments: &str| {
        let function = json!({"name": "read_text_file", "arguments": arguments});
        json!({"id": id, "type": "function", "function": function})
    };
    assert_eq!(
        requests[1].json()["messages"].as_array().unwrap()[2..],
        [
            json!({"role": "assistant", "content": null, "tool_calls": [
                wire_call("a", r#"{"path":"x"}"#),
                // Servers that parse arguments reject a conversation with malformed ones.
                wire_call("b", r#"{"malformed_arguments":"{\"path\": "}"#),
            ]}),
            json!({"role": "tool", "tool_call_id": "a", "content": "hello"}),
            json!({"role": "tool", "tool_call_id": "b", "content": "error: malformed"}),
            json!({"role": "assistant", "content": "Done."}),
        ]
    );
}

#[tokio::test]
async fn azure_has_its_own_urls_and_header() {
    #[track_caller]
    fn check(server: &ScriptedServer, expected: &str) {
        let request = server.requests().pop().unwrap();
        assert_eq!(request.line, format!("POST {expected}"));
        assert_eq!(request.headers.get("api-key").unwrap(), KEY);
        assert_eq!(request.headers.get("authorization"), None);
        assert_eq!(request.json().get("api_version"), None);
    }

    let server =
        ScriptedServer::start(vec![ScriptedResponse::stream().piece(finish("stop")).end()]).await;
    let rows = [
        (
            "",
            "/openai/deployments/big-model/chat/completions?api-version=2025-01-01",
        ),
        (
            "/",
            "/openai/deployments/big-model/chat/completions?api-version=2025-01-01",
        ),
        (
            "/openai/deployments/mine",
            "/openai/deployments/mine/chat/completions?api-version=2025-01-01",
        ),
        (
            "/openai/deployments/mine/chat/completions?api-version=2024-06-01",
            "/openai/deployments/mine/chat/completions?api-version=2024-06-01",
        ),
        ("/openai/v1", "/openai/v1/chat/completions"),
    ];
    for (path, expected) in rows {
        let mut config = config("azure_openai", &format!("{}{path}", server.url));
        config
            .parameters
            .insert("api_version".to_owned(), json!("2025-01-01"));
        collect(&connect(&config), simple_request()).await;
        check(&server, expected);
    }
}

#[tokio::test]
async fn a_published_stream_becomes_events() {
    let stream = published_stream();
    let answer = stream
        .iter()
        .fold(ScriptedResponse::stream(), ScriptedResponse::piece)
        .end();
    let (_server, backend) = start_chat_server(answer).await;
    assert_eq!(
        collect(&backend, simple_request()).await,
        published_events()
    );
}

#[tokio::test]
async fn the_way_a_stream_is_sent_does_not_matter() {
    let stream = published_stream().concat();
    let one_by_one = stream.as_bytes().chunks(1);
    let answers = [
        one_by_one
            .fold(ScriptedResponse::stream(), ScriptedResponse::piece)
            .end(),
        // Without a content type or length: the end of the connection is the end of the body.
        ScriptedResponse::raw(format!("HTTP/1.1 200 OK\r\n\r\n{stream}")),
        // Without `[DONE]`, as some servers stop after the finish reason.
        ScriptedResponse::stream()
            .piece(stream.replace("data: [DONE]\n\n", ""))
            .end(),
    ];
    for (row, answer) in answers.into_iter().enumerate() {
        let (_server, backend) = start_chat_server(answer).await;
        let events = collect(&backend, simple_request()).await;
        assert_eq!(events, published_events(), "row {row}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_streamed_is_read_too() {
    let body = json!({
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Hello.", "reasoning": "Hm.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "vote", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "vote", "arguments": {"n": 1}}},
            ],
        }}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7},
    });
    let headers = ["content-type: application/json; charset=utf-8"];
    let answer = ScriptedResponse::whole("200 OK", &headers, body.to_string());
    let (_server, backend) = start_chat_server(answer).await;
    assert_eq!(
        collect(&backend, simple_request()).await,
        [
            Ok(ReplyEvent::Usage(TokenUsage {
                input_tokens: 5,
                cached_tokens: 0,
                output_tokens: 7,
                ..TokenUsage::default()
            })),
            Ok(ReplyEvent::Reasoning("Hm.".to_owned())),
            Ok(text("Hello.")),
            Ok(call("a", "vote", "{}")),
            Ok(call("b", "vote", "{\"n\":1}")),
            Ok(ReplyEvent::End(StopReason::Done)),
        ]
    );
}

#[tokio::test]
async fn ids_that_the_conversation_knows_are_replaced() {
    let piece = json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]);
    let answer = ScriptedResponse::stream().piece(delta(&json!({"tool_calls": piece})));
    let (_server, backend) = start_chat_server(answer.piece(finish("tool_calls")).end()).await;
    let mut request = simple_request();
    let ReplyEvent::Call(earlier) = call("a", "f", "{}") else {
        unreachable!();
    };
    let mut messages = request.conversation.messages().to_vec();
    messages.push(ChatMessage::Assistant {
        text: String::new(),
        calls: vec![earlier],
        echo: None,
    });
    messages.push(ChatMessage::CallResult {
        call_id: "a".to_owned(),
        content: "done".to_owned(),
    });
    let conversation = Conversation::from_messages(messages);
    request.conversation = &conversation;
    let events = collect(&backend, request).await;
    assert_eq!(events[0], Ok(call("call_3_0", "f", "{}")));
}

#[tokio::test]
async fn reasoning_and_extra_content_are_sent_back_to_the_vendor() {
    let extra = json!({"google": {"thought_signature": "c2ln"}});
    let piece = json!([{
        "index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra,
    }]);
    let answer = ScriptedResponse::stream()
        .piece(delta(&json!({"reasoning_content": "Hm."})))
        .piece(delta(&json!({"tool_calls": piece})))
        .piece(finish("tool_calls"))
        .end();
    let (server, backend) = start_chat_server(answer).await;
    let events = collect(&backend, simple_request()).await;
    let [_, Ok(ReplyEvent::Call(call)), Ok(ReplyEvent::Echo(echo)), _] = &events[..] else {
        panic!("{events:?}");
    };
    let mut request = simple_request();
    let mut messages = request.conversation.messages().to_vec();
    messages.push(ChatMessage::Assistant {
        text: String::new(),
        calls: vec![call.clone()],
        echo: Some(echo.clone()),
    });
    let conversation = Conversation::from_messages(messages);
    request.conversation = &conversation;
    collect(&backend, request).await;
    assert_eq!(
        server.requests()[1].json()["messages"][2],
        json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"},
            "extra_content": extra,
        }]})
    );
}

/// Checks that a stream of these events has this text and reasoning, and nothing else but its end.
async fn check_stream(stream: &[String], expected: &[ReplyEvent]) {
    let answer = stream
        .iter()
        .fold(ScriptedResponse::stream(), ScriptedResponse::piece)
        .end();
    let (_server, backend) = start_chat_server(answer).await;
    let events: Result<Vec<ReplyEvent>, BackendError> = collect(&backend, simple_request())
        .await
        .into_iter()
        .collect();
    assert_eq!(events.unwrap(), expected, "{stream:#?}");
}

#[tokio::test]
async fn text_and_reasoning_come_under_many_names() {
    let end = || ReplyEvent::End(StopReason::Done);
    let reasoning = |text: &str| ReplyEvent::Reasoning(text.to_owned());
    let empty = delta(&json!({"content": null}));
    check_stream(&[empty, finish("stop")], &[end()]).await;
    let refusal = delta(&json!({"refusal": "I may not."}));
    check_stream(&[refusal, finish("stop")], &[text("I may not."), end()]).await;
    let stream = [
        delta(&json!({"reasoning_content": "Hm", "content": null})),
        delta(&json!({"reasoning": "m.", "reasoning_content": null})),
        delta(&json!({"content": "So.", "reasoning": ""})),
        finish("stop"),
    ];
    let expected = [reasoning("Hm"), reasoning("m."), text("So."), end()];
    check_stream(&stream, &expected).await;
}

#[tokio::test]
async fn a_reply_ends_for_one_of_three_reasons() {
    for (reason, expected) in [
        ("stop", StopReason::Done),
        ("tool_calls", StopReason::Done),
        ("eos", StopReason::Done),
        ("length", StopReason::Length),
        ("content_filter", StopReason::Filtered),
    ] {
        check_stream(&[finish(reason)], &[ReplyEvent::End(expected)]).await;
    }
    // Some servers give no reason.
    let stream = [
        delta(&json!({"content": "Hi"})),
        "data: [DONE]\n\n".to_owned(),
    ];
    check_stream(&stream, &[text("Hi"), ReplyEvent::End(StopReason::Done)]).await;
}

/// As small models of local servers write calls that the server does not recognise.
#[tokio::test]
async fn a_reply_that_is_one_call_in_text_is_that_call() {
    let written = json!({"name": "read_text_file", "arguments": {"path": "a.md"}}).to_string();
    let native = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]});
    let expected = call("call_1_0", "read_text_file", "{\"path\":\"a.md\"}");
    let plain = |text: &str| vec![delta(&json!({"content": text})), finish("stop")];
    let (first, rest) = written.split_at(9);
    let in_pieces = vec![
        delta(&json!({"content": first})),
        delta(&json!({"content": rest})),
        finish("stop"),
    ];
    let with_native = vec![
        delta(&json!({"content": written})),
        delta(&native),
        finish("tool_calls"),
    ];
    for (stream, is_call) in [
        (plain(&written), true),
        (plain(&format!("<tool_call>{written}</tool_call>")), true),
        (in_pieces, true),
        (plain(&written.replace("read_text_file", "rm")), false),
        (plain(&format!("So: {written}")), false),
        (
            vec![delta(&json!({"content": written})), finish("length")],
            false,
        ),
        (with_native, false),
    ] {
        let answer = stream
            .iter()
            .fold(ScriptedResponse::stream(), ScriptedResponse::piece)
            .end();
        let (_server, backend) = start_chat_server(answer).await;
        let mut request = simple_request();
        request.tools = Arc::new([read_tool()]);
        let events = collect(&backend, request).await;
        assert_eq!(
            events.contains(&Ok(expected.clone())),
            is_call,
            "{events:?}"
        );
    }
    // Nothing is a call where no tool is offered.
    let stream = plain(&written);
    check_stream(
        &stream,
        &[text(&written), ReplyEvent::End(StopReason::Done)],
    )
    .await;
}

#[tokio::test]
async fn the_last_count_of_tokens_holds_wherever_it_stands() {
    let counts = json!({"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4});
    let early = json!({"prompt_tokens": 9, "completion_tokens": 1});
    let usage = |cached_tokens, output_tokens| {
        ReplyEvent::Usage(TokenUsage {
            input_tokens: 9,
            cached_tokens,
            output_tokens,
            ..TokenUsage::default()
        })
    };
    let end = ReplyEvent::End(StopReason::Done);
    let without_choices = event(&json!({"choices": null, "usage": counts}));
    check_stream(
        &[without_choices, finish("stop")],
        &[usage(4, 2), end.clone()],
    )
    .await;
    let stream = [
        event(&json!({"choices": [], "usage": early})),
        event(&json!({"choices": [{"delta": {}, "finish_reason": "stop", "usage": counts}]})),
        "data: [DONE]\n\n".to_owned(),
    ];
    check_stream(&stream, &[usage(0, 1), usage(4, 2), end]).await;
}

#[tokio::test]
async fn reasoning_is_output_whether_or_not_the_vendor_counts_it_as_completion() {
    for (completion, total) in [(9, 135), (103, 135), (103, 0)] {
        let stream = [
            event(&json!({"choices": [], "usage": {
                "prompt_tokens": 32, "completion_tokens": completion, "total_tokens": total,
                "completion_tokens_details": {"reasoning_tokens": 94},
            }})),
            finish("stop"),
        ];
        let usage = TokenUsage {
            input_tokens: 32,
            output_tokens: 103,
            reasoning_tokens: 94,
            ..TokenUsage::default()
        };
        let end = ReplyEvent::End(StopReason::Done);
        check_stream(&stream, &[ReplyEvent::Usage(usage), end]).await;
    }
}

#[tokio::test]
async fn usage_of_a_truncated_stream_is_reported() {
    let counts = json!({"prompt_tokens": 9, "completion_tokens": 1});
    let choice = json!({"index": 0, "delta": {"content": "Hi"}});
    let piece = event(&json!({"choices": [choice], "usage": counts}));
    let (_server, backend) = start_chat_server(ScriptedResponse::stream().piece(piece).end()).await;
    let events = collect(&backend, simple_request()).await;
    let counted = TokenUsage {
        input_tokens: 9,
        output_tokens: 1,
        ..TokenUsage::default()
    };
    assert_eq!(events[0], Ok(ReplyEvent::Usage(counted)));
    assert!(events.last().unwrap().is_err(), "{events:?}");
}

#[tokio::test]
async fn text_arrives_while_the_vendor_still_writes() {
    let answer = ScriptedResponse::stream()
        .piece(delta(&json!({"content": "Hi"})))
        .await_close();
    let (server, backend) = start_chat_server(answer).await;
    let mut reply = backend.ask(simple_request());
    assert_eq!(reply.next().await, Some(Ok(text("Hi"))));
    // Dropping the reply ends the request.
    drop(reply);
    let closing = async {
        while server.closed_connections() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let closed = tokio::time::timeout(WAIT_TIME_MAX, closing).await;
    closed.expect("the connection is closed");
}

#[tokio::test]
async fn mebibytes_of_text_and_of_arguments_stream_through() {
    const PIECES: usize = 10 << 10;
    let kibibyte = "x".repeat(1 << 10);
    let text_piece = delta(&json!({"content": kibibyte}));
    let arguments = json!({"tool_calls": [{"index": 0, "function": {"arguments": kibibyte}}]});
    let call_piece = delta(&arguments);
    let opening = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]});

    let answer = ScriptedResponse::stream()
        .piece(text_piece.repeat(PIECES))
        .piece(finish("stop"))
        .end();
    let (_server, backend) = start_chat_server(answer).await;
    let mut largest = 0;
    let mut total = 0;
    let mut reply = backend.ask(simple_request());
    while let Some(event) = reply.next().await {
        if let ReplyEvent::Text(text) = event.unwrap() {
            largest = largest.max(text.len());
            total += text.len();
        }
    }
    assert_eq!((largest, total), (1 << 10, 10 << 20));

    let answer = ScriptedResponse::stream()
        .piece(delta(&opening))
        .piece(call_piece.repeat(PIECES / 2))
        .piece(finish("tool_calls"))
        .end();
    let (_server, backend) = start_chat_server(answer).await;
    let events = collect(&backend, simple_request()).await;
    let Ok(ReplyEvent::Call(call)) = &events[0] else {
        panic!("{:?}", events.last());
    };
    assert_eq!(call.arguments.len(), 5 << 20);
}

#[tokio::test]
async fn local_servers_list_their_models_at_once_or_are_not_there() {
    let listing = json!({"data": [{"id": "llama3"}, {"id": "qwen3"}, {"object": "model"}]});
    let answer = ScriptedResponse::whole(
        "200 OK",
        &["content-type: application/json"],
        listing.to_string(),
    );
    let server = ScriptedServer::start(vec![answer]).await;
    let models = |url: String| async move {
        let url = url.parse().unwrap();
        let reply = probe_endpoint(&HttpClient::new(), &url, HeaderMap::new()).await;
        reply.into_models()
    };
    let names = models(format!("{}/v1/models", server.url)).await;
    assert_eq!(names.unwrap(), ["llama3", "qwen3"]);
    assert_eq!(server.requests()[0].line, "GET /v1/models");

    for answer in [
        ScriptedResponse::whole("404 Not Found", &[], "{\"data\":[]}"),
        ScriptedResponse::whole("200 OK", &[], "<html>"),
        ScriptedResponse::default(),
        ScriptedResponse::default().await_close(),
    ] {
        let server = ScriptedServer::start(vec![answer]).await;
        assert!(models(format!("{}/models", server.url)).await.is_err());
    }
}
