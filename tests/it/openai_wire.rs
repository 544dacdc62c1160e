//! OpenAI's Responses API over real HTTP: the complete requests.

use std::sync::Arc;

use massgen::backend::conversation::{ChatMessage, Conversation};
use massgen::backend::remote::RemoteBackend;
use massgen::backend::{BackendError, ModelRequest, ReplyEvent};
use massgen::config::BackendConfig;
use massgen::tools::CallRequest;
use serde_json::{Value, json};

use crate::decoding::connect;
use crate::http_server::{ScriptedResponse, ScriptedServer};
use crate::wire::{KEY, assistant_message, call, collect, config, read_tool, simple_request};

/// Formats one event of a stream as OpenAI does.
pub(crate) fn event(kind: &str, fields: &Value) -> String {
    let mut data = json!({"type": kind});
    data.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    format!("event: {kind}\ndata: {data}\n\n")
}

/// Formats an item of the output, announced or complete.
pub(crate) fn item(kind: &str, index: u64, item: &Value) -> String {
    let kind = format!("response.output_item.{kind}");
    event(&kind, &json!({"output_index": index, "item": item}))
}

/// Formats a piece of the item at `index`, with these `fields`.
pub(crate) fn piece(kind: &str, id: &str, index: u64, mut fields: Value) -> String {
    fields["item_id"] = json!(id);
    fields["output_index"] = json!(index);
    event(&format!("response.{kind}"), &fields)
}

/// Formats the last event of a reply with this output.
pub(crate) fn completed_event(output: &Value) -> String {
    let response = json!({
        "id": "resp_1", "object": "response", "status": "completed", "error": null,
        "incomplete_details": null, "output": output, "usage": {
            "input_tokens": 120,
            "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 8},
            "output_tokens": 34,
            "output_tokens_details": {"reasoning_tokens": 20},
            "total_tokens": 154,
        },
    });
    event("response.completed", &json!({"response": response}))
}

pub(crate) fn reasoning_item(encrypted: &str, summary: &[&str]) -> Value {
    let part = |text: &&str| json!({"type": "summary_text", "text": text});
    let summary: Vec<Value> = summary.iter().map(part).collect();
    json!({"id": "rs_1", "type": "reasoning", "encrypted_content": encrypted, "summary": summary})
}

pub(crate) fn message_item(id: &str, text: &str) -> Value {
    let part = json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
    json!({"id": id, "type": "message", "status": "completed", "role": "assistant",
        "phase": "commentary", "content": [part]})
}

pub(crate) fn call_item(id: &str, call_id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function_call", "status": "completed", "arguments": arguments,
        "call_id": call_id, "name": name})
}

/// Returns the complete output of the published stream.
pub(crate) fn published_output() -> Value {
    json!([
        reasoning_item("gAAAb", &["**Reading**", "Two files."]),
        message_item("msg_1", "I read b\u{e9}d\u{1f600}."),
        call_item("fc_a", "call_a", "read_text_file", "{\"path\": \"a.md\"}"),
        call_item("fc_b", "call_b", "list_directory", "{\"path\": \".\"}"),
    ])
}

/// Returns a stream as documented by OpenAI: reasoning, text and two calls with interleaved pieces.
pub(crate) fn published_stream() -> Vec<String> {
    let output = published_output();
    let begun = json!({"response": {"id": "resp_1", "object": "response", "status": "in_progress",
        "error": null, "output": [], "usage": null}});
    let summary = |part: u64, delta: &str| {
        let fields = json!({"summary_index": part, "delta": delta, "obfuscation": "xyz"});
        piece("reasoning_summary_text.delta", "rs_1", 0, fields)
    };
    let text_delta = |delta: &str| {
        let fields = json!({"content_index": 0, "delta": delta, "logprobs": []});
        piece("output_text.delta", "msg_1", 1, fields)
    };
    let arguments = |id: &str, index: u64, delta: &str| {
        piece(
            "function_call_arguments.delta",
            id,
            index,
            json!({"delta": delta}),
        )
    };
    let whole = |id: &str, index: u64, arguments: &Value| {
        let fields = json!({"arguments": arguments});
        piece("function_call_arguments.done", id, index, fields)
    };
    let part = json!({"content_index": 0, "part": {"type": "output_text", "text": ""}});
    let text_done = json!({"content_index": 0, "text": "I read b\u{e9}d\u{1f600}."});
    vec![
        event("response.created", &begun),
        event("response.in_progress", &begun),
        item("added", 0, &reasoning_item("gAAAa", &[])),
        summary(0, "**Read"),
        summary(0, "ing**"),
        summary(1, "Two files."),
        item("done", 0, &output[0]),
        item(
            "added",
            1,
            &json!({"id": "msg_1", "type": "message", "role": "assistant",
            "status": "in_progress", "content": []}),
        ),
        piece("content_part.added", "msg_1", 1, part),
        text_delta("I read "),
        text_delta("b\u{e9}d\u{1f600}."),
        piece("output_text.done", "msg_1", 1, text_done),
        item("done", 1, &output[1]),
        item(
            "added",
            2,
            &call_item("fc_a", "call_a", "read_text_file", ""),
        ),
        arguments("fc_a", 2, "{\"path\":"),
        item(
            "added",
            3,
            &call_item("fc_b", "call_b", "list_directory", ""),
        ),
        arguments("fc_b", 3, "{\"path\": \".\"}"),
        arguments("fc_a", 2, " \"a.md\"}"),
        whole("fc_a", 2, &output[2]["arguments"]),
        item("done", 2, &output[2]),
        whole("fc_b", 3, &output[3]["arguments"]),
        item("done", 3, &output[3]),
        completed_event(&output),
    ]
}

/// Returns the part of the published stream that is sent back.
pub(crate) fn published_echo() -> Value {
    let mut echo = published_output();
    for (item, fields) in echo.as_array_mut().unwrap().iter_mut().zip([
        &[][..],
        &["id"],
        &["id", "arguments"],
        &["id", "arguments"],
    ]) {
        for field in fields {
            item.as_object_mut().unwrap().shift_remove(*field);
        }
    }
    echo
}

/// Returns an answer that streams these events.
pub(crate) fn stream_answer(stream: &[String]) -> ScriptedResponse {
    stream
        .iter()
        .fold(ScriptedResponse::stream(), ScriptedResponse::piece)
        .end()
}

/// Returns a config for a model that reasons, with these parameters.
pub(crate) fn openai_config(server: &ScriptedServer, parameters: Value) -> BackendConfig {
    let mut config = config("openai", &format!("{}/v1", server.url));
    "gpt-5-mini".clone_into(&mut config.model);
    let Value::Object(parameters) = parameters else {
        panic!("{parameters}");
    };
    config.parameters = parameters;
    config
}

/// Starts a server that gives this one response, and returns its backend.
pub(crate) async fn start_openai_server(
    response: ScriptedResponse,
) -> (ScriptedServer, RemoteBackend) {
    let server = ScriptedServer::start(vec![response]).await;
    let backend = connect(&openai_config(&server, json!({})));
    (server, backend)
}

#[tokio::test]
async fn a_request_is_sent_whole() {
    let server = ScriptedServer::start(vec![stream_answer(&[completed_event(&json!([]))])]).await;
    let backend = connect(&openai_config(&server, json!({})));
    let mut with_tools = simple_request();
    with_tools.tools = Arc::new([read_tool()]);
    collect(&backend, simple_request()).await;
    collect(&backend, with_tools).await;

    let [plain, with_tools] = &server.requests()[..] else {
        panic!("{:?}", server.requests());
    };
    assert_eq!(plain.line, "POST /v1/responses");
    let header = |name: &str| plain.headers.get(name).map(String::as_str);
    assert_eq!(header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("accept"), Some("text/event-stream"));
    assert_eq!(
        plain.json(),
        json!({
            "model": "gpt-5-mini",
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "instructions": "Be brief.",
            "input": [{"role": "user", "content": "Go."}],
        })
    );
    assert_eq!(
        with_tools.json(),
        json!({
            "model": "gpt-5-mini",
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "instructions": "Be brief.",
            "tools": [{
                "type": "function",
                "name": "read_text_file",
                "description": "Reads a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                "strict": false,
            }],
            "input": [{"role": "user", "content": "Go."}],
        })
    );
}

#[tokio::test]
async fn parameters_of_a_config_reach_the_request() {
    let server = ScriptedServer::start(vec![stream_answer(&[completed_event(&json!([]))])]).await;
    let parameters = json!({
        "temperature": 0.2, "top_p": 0.9, "max_tokens": 500,
        "reasoning": {"summary": "auto"}, "reasoning_effort": "low",
        "verbosity": "low", "text": {"format": {"type": "text"}},
        "service_tier": "flex", "parallel_tool_calls": false, "tool_choice": "auto",
        "metadata": {"team": "a"}, "user": "ada", "truncation": "auto", "store": true,
        "enable_web_search": true, "enable_code_interpreter": true,
        "max_tool_calls": 3, "prompt_cache_key": null,
        "model": "other", "input": [], "tools": "none", "stream": false, "n": 4,
    });
    let mut config = openai_config(&server, parameters);
    config.model = "gpt-4.1".to_owned();
    collect(&connect(&config), simple_request()).await;
    assert_eq!(
        server.requests()[0].json(),
        json!({
            "model": "gpt-4.1",
            "stream": true,
            "store": true,
            "include": ["reasoning.encrypted_content", "code_interpreter_call.outputs"],
            "temperature": 0.2,
            "top_p": 0.9,
            "max_output_tokens": 500,
            "reasoning": {"summary": "auto", "effort": "low"},
            "text": {"format": {"type": "text"}, "verbosity": "low"},
            "service_tier": "flex",
            "parallel_tool_calls": false,
            "tool_choice": "auto",
            "metadata": {"team": "a"},
            "user": "ada",
            "truncation": "auto",
            "max_tool_calls": 3,
            "instructions": "Be brief.",
            "tools": [
                {"type": "web_search"},
                {"type": "code_interpreter", "container": {"type": "auto"}},
            ],
            "input": [{"role": "user", "content": "Go."}],
        })
    );

    // A model that does not reason is not asked for its reasoning, and a tool choice requires
    // tools.
    config.parameters = json!({"tool_choice": "auto", "parallel_tool_calls": true})
        .as_object()
        .unwrap()
        .clone();
    collect(&connect(&config), simple_request()).await;
    assert_eq!(
        server.requests()[1].json(),
        json!({
            "model": "gpt-4.1",
            "stream": true,
            "store": false,
            "instructions": "Be brief.",
            "input": [{"role": "user", "content": "Go."}],
        })
    );
}

#[tokio::test]
async fn a_base_url_may_name_the_whole_way() {
    let server = ScriptedServer::start(vec![stream_answer(&[completed_event(&json!([]))])]).await;
    for (path, expected) in [
        ("", "/responses"),
        ("/v1", "/v1/responses"),
        ("/v1/", "/v1/responses"),
        ("/v1/responses", "/v1/responses"),
        (
            "/openai/v1?api-version=preview",
            "/openai/v1/responses?api-version=preview",
        ),
    ] {
        let config = config("openai", &format!("{}{path}", server.url));
        collect(&connect(&config), simple_request()).await;
        let request = server.requests().pop().unwrap();
        assert_eq!(request.line, format!("POST {expected}"));
    }
}

/// Returns the conversation after a reply with these events and these results.
fn after(
    earlier: &ModelRequest<'_>,
    reply: Vec<Result<ReplyEvent, BackendError>>,
    results: &[(&str, &str)],
) -> Conversation {
    let reply: Result<Vec<ReplyEvent>, BackendError> = reply.into_iter().collect();
    let mut messages = earlier.conversation.messages().to_vec();
    messages.push(assistant_message(&reply.unwrap()));
    let result = |(id, content): &(&str, &str)| ChatMessage::CallResult {
        call_id: (*id).to_owned(),
        content: (*content).to_owned(),
    };
    messages.extend(results.iter().map(result));
    Conversation::from_messages(messages)
}

#[tokio::test]
async fn reasoning_and_calls_go_back_in_their_order() {
    let (server, backend) = start_openai_server(stream_answer(&published_stream())).await;
    let mut request = simple_request();
    request.tools = Arc::new([read_tool()]);
    let reply = collect(&backend, request.clone()).await;
    let results = [("call_a", "hello"), ("call_b", "[file] a.md")];
    let conversation = after(&request, reply, &results);
    request.conversation = &conversation;
    collect(&backend, request).await;

    let requests = server.requests();
    let known = requests[0].body.strip_suffix("]}").unwrap();
    assert!(requests[1].body.starts_with(known));
    let part = json!({"type": "output_text", "annotations": [], "logprobs": [],
        "text": "I read b\u{e9}d\u{1f600}."});
    assert_eq!(
        requests[1].json()["input"],
        json!([
            {"role": "user", "content": "Go."},
            reasoning_item("gAAAb", &["**Reading**", "Two files."]),
            {"type": "message", "status": "completed", "role": "assistant",
                "phase": "commentary", "content": [part]},
            {"type": "function_call", "status": "completed", "call_id": "call_a",
                "name": "read_text_file", "arguments": "{\"path\": \"a.md\"}"},
            {"type": "function_call", "status": "completed", "call_id": "call_b",
                "name": "list_directory", "arguments": "{\"path\": \".\"}"},
            {"type": "function_call_output", "call_id": "call_a", "output": "hello"},
            {"type": "function_call_output", "call_id": "call_b", "output": "[file] a.md"},
        ])
    );
}

#[tokio::test]
async fn stored_items_are_sent_back_by_their_ids() {
    let server = ScriptedServer::start(vec![stream_answer(&published_stream())]).await;
    let backend = connect(&openai_config(&server, json!({"store": true})));
    let mut request = simple_request();
    let reply = collect(&backend, request.clone()).await;
    let conversation = after(&request, reply, &[("call_a", ""), ("call_b", "")]);
    request.conversation = &conversation;
    collect(&backend, request).await;
    let input = &server.requests()[1].json()["input"];
    assert_eq!(
        input.as_array().unwrap()[1..5],
        published_output().as_array().unwrap()[..]
    );
}

#[tokio::test]
async fn messages_of_other_vendors_are_sent_without_their_metadata() {
    let (server, backend) =
        start_openai_server(stream_answer(&[completed_event(&json!([]))])).await;
    let mut request = simple_request();
    let call_request = |id: &str, arguments: &str| CallRequest {
        id: id.to_owned(),
        name: "vote".to_owned(),
        arguments: arguments.to_owned(),
    };
    let mut messages = request.conversation.messages().to_vec();
    messages.extend([
        ChatMessage::Assistant {
            text: "I vote.".to_owned(),
            calls: vec![
                call_request("a", r#"{"x":1}"#),
                call_request("b", "{\"x\": "),
            ],
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
    assert_eq!(
        server.requests()[0].json()["input"],
        json!([
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": "I vote."},
            {"type": "function_call", "call_id": "a", "name": "vote", "arguments": "{\"x\":1}"},
            // Arguments that are not an object would be rejected in every later request.
            {"type": "function_call", "call_id": "b", "name": "vote",
                "arguments": "{\"malformed_arguments\":\"{\\\"x\\\": \"}"},
            {"role": "assistant", "content": "Done."},
        ])
    );
}

#[tokio::test]
async fn malformed_arguments_do_not_go_back() {
    let output = json!([call_item("fc_a", "call_a", "vote", "{\"x\": ")]);
    let (server, backend) = start_openai_server(stream_answer(&[completed_event(&output)])).await;
    let mut request = simple_request();
    let reply = collect(&backend, request.clone()).await;
    assert_eq!(reply[0], Ok(call("call_a", "vote", "{\"x\": ")));
    let conversation = after(&request, reply, &[("call_a", "error: malformed")]);
    request.conversation = &conversation;
    collect(&backend, request).await;
    assert_eq!(
        server.requests()[1].json()["input"][1]["arguments"],
        json!("{\"malformed_arguments\":\"{\\\"x\\\": \"}")
    );
}

#[tokio::test]
async fn ids_that_the_conversation_knows_are_replaced() {
    let output = json!([call_item("fc_a", "a", "f", "{}")]);
    let (server, backend) = start_openai_server(stream_answer(&[completed_event(&output)])).await;
    let mut request = simple_request();
    let reply = collect(&backend, request.clone()).await;
    let first = after(&request, reply, &[("a", "done")]);
    request.conversation = &first;
    let reply = collect(&backend, request.clone()).await;
    assert_eq!(reply[0], Ok(call("call_3_0", "f", "{}")));
    let second = after(&request, reply, &[("call_3_0", "done")]);
    request.conversation = &second;
    collect(&backend, request).await;
    let input = &server.requests()[2].json()["input"];
    let ids: Vec<&str> = input.as_array().unwrap()[1..]
        .iter()
        .map(|item| item["call_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["a", "a", "call_3_0", "call_3_0"]);
}
