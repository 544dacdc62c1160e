//! Google's `generateContent` over real HTTP: the requests, and how the published replies are
//! decoded.

use massgen::backend::conversation::{ChatMessage, Conversation};
use massgen::backend::remote::RemoteBackend;
use massgen::backend::{BackendError, ReplyEvent};
use massgen::config::BackendConfig;
use massgen::event::StopReason;
use massgen::spending::TokenUsage;
use massgen::tools::CallRequest;
use massgen::tools::workflow::{VoteScoring, coordination_offers};
use serde_json::{Map, Value, json};

use crate::decoding::connect;
use crate::http_server::{ReceivedRequest, ScriptedResponse, ScriptedServer};
use crate::wire::{
    KEY, assistant_message, call, collect, config, event, read_tool, simple_request, text,
};

pub(crate) fn gemini(server: &ScriptedServer, model: &str, parameters: &Value) -> BackendConfig {
    let mut config = config("gemini", &format!("{}/v1beta", server.url));
    model.clone_into(&mut config.model);
    config
        .parameters
        .clone_from(parameters.as_object().unwrap());
    config
}

/// Starts a server that gives this one response, and returns its backend.
pub(crate) async fn start_gemini_server(
    response: ScriptedResponse,
) -> (ScriptedServer, RemoteBackend) {
    let server = ScriptedServer::start(vec![response]).await;
    let backend = connect(&gemini(&server, "gemini-3.8-flash", &json!({})));
    (server, backend)
}

/// Formats an event with these parts.
pub(crate) fn parts(parts: &Value) -> String {
    event(&json!({
        "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
        "modelVersion": "gemini-3.8-flash", "responseId": "mAit",
    }))
}

/// Formats an event that ends a reply.
pub(crate) fn finish(reason: &str) -> String {
    let content = json!({"parts": [{"text": ""}], "role": "model"});
    event(&json!({"candidates": [{"content": content, "finishReason": reason, "index": 0}]}))
}

/// Returns the parts of the published reply that are sent back.
fn published_parts() -> Value {
    let read = json!({"id": "x1y2", "name": "read_text_file", "args": {"path": "a.md"}});
    let list = json!({"id": "x1y3", "name": "list_directory", "args": {}});
    json!([
        {"text": "I read b\u{e9}d\u{1f600}."},
        {"functionCall": read, "thoughtSignature": "c2lnbmF0dXJl"},
        {"functionCall": list},
        {"text": "", "thoughtSignature": "bGFzdA=="},
    ])
}

/// Returns a stream as documented by Google: a thought, text, two calls of which the first is
/// signed, an empty text with a signature, and the usage.
pub(crate) fn published_stream() -> Vec<String> {
    let whole = published_parts();
    let candidate = json!({
        "content": {"parts": [whole[3]], "role": "model"}, "finishReason": "STOP", "index": 0,
    });
    vec![
        event(&json!({
            "candidates": [{"content": {
                "parts": [{"text": "**Reading**\n", "thought": true}], "role": "model",
            }, "index": 0}],
            "usageMetadata": {"promptTokenCount": 120, "totalTokenCount": 140, "thoughtsTokenCount": 20},
        })),
        parts(&json!([{"text": "I read "}])),
        parts(&json!([{"text": "b\u{e9}d\u{1f600}."}])),
        parts(&json!([whole[1]])),
        parts(&json!([whole[2]])),
        event(&json!({"candidates": [candidate], "usageMetadata": {
            "promptTokenCount": 120, "cachedContentTokenCount": 100, "candidatesTokenCount": 14,
            "thoughtsTokenCount": 20, "toolUsePromptTokenCount": 5, "totalTokenCount": 159,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 120}],
        }})),
    ]
}

/// Returns the events of the published stream.
pub(crate) fn published_events() -> Vec<Result<ReplyEvent, BackendError>> {
    vec![
        Ok(ReplyEvent::Reasoning("**Reading**\n".to_owned())),
        Ok(ReplyEvent::Usage(TokenUsage {
            input_tokens: 120,
            output_tokens: 20,
            reasoning_tokens: 20,
            ..TokenUsage::default()
        })),
        Ok(text("I read b\u{e9}d\u{1f600}.")),
        Ok(ReplyEvent::Usage(TokenUsage {
            input_tokens: 125,
            cached_tokens: 100,
            cache_write_tokens: 0,
            output_tokens: 34,
            reasoning_tokens: 20,
        })),
        Ok(call("x1y2", "read_text_file", r#"{"path":"a.md"}"#)),
        Ok(call("x1y3", "list_directory", "{}")),
        Ok(ReplyEvent::Echo(published_parts())),
        Ok(ReplyEvent::End(StopReason::Done)),
    ]
}

fn user_content(text: &str) -> Value {
    json!({"role": "user", "parts": [{"text": text}]})
}

#[tokio::test]
async fn a_request_is_sent_whole() {
    let server =
        ScriptedServer::start(vec![ScriptedResponse::stream().piece(finish("STOP")).end()]).await;
    let parameters = json!({
        "temperature": 0.2, "max_tokens": 500, "top_k": 3, "stop": "END", "seed": null,
        "reasoning_effort": "low", "service_tier": "flex", "contents": [], "tools": "none",
        "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "tool_config": {"functionCallingConfig": {"mode": "AUTO"}},
    });
    let backend = connect(&gemini(&server, "gemini-3.8-flash", &parameters));
    let mut request = simple_request();
    let mut tools = vec![read_tool()];
    tools[0].parameters["additionalItems"] = json!(false);
    request.tools = tools.into();
    collect(&backend, request).await;
    collect(&backend, simple_request()).await;

    let [with_tools, without_tools] = &server.requests()[..] else {
        panic!("two requests");
    };
    let line = "POST /v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse";
    assert_eq!(with_tools.line, line);
    assert_eq!(with_tools.headers["x-goog-api-key"], KEY);
    assert_eq!(with_tools.headers.get("authorization"), None);
    assert_eq!(with_tools.headers["content-type"], "application/json");
    let common = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "service_tier": "flex",
        "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "generationConfig": {
            "temperature": 0.2, "maxOutputTokens": 500, "topK": 3, "stopSequences": ["END"],
            "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "low"},
        },
        "contents": [user_content("Go.")],
    });
    assert_eq!(without_tools.json(), common);
    let mut expected = common;
    expected["toolConfig"] = json!({"functionCallingConfig": {"mode": "AUTO"}});
    expected["tools"] = json!([{"functionDeclarations": [{
        "name": "read_text_file",
        "description": "Reads a file.",
        "parametersJsonSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
    }]}]);
    assert_eq!(with_tools.json(), expected);
    assert!(
        with_tools
            .body
            .ends_with(r#""contents":[{"role":"user","parts":[{"text":"Go."}]}]}"#)
    );
}

#[tokio::test]
async fn tools_of_the_vendor_stand_beside_ours() {
    let server =
        ScriptedServer::start(vec![ScriptedResponse::stream().piece(finish("STOP")).end()]).await;
    let parameters = json!({"enable_web_search": true, "enable_code_execution": true});
    let backend = connect(&gemini(&server, "gemini-3.8-flash", &parameters));
    let mut request = simple_request();
    request.tools = coordination_offers(1, VoteScoring::None).into();
    collect(&backend, request).await;
    collect(&backend, simple_request()).await;

    let requests: Vec<Value> = server
        .requests()
        .iter()
        .map(ReceivedRequest::json)
        .collect();
    assert_eq!(
        requests[0]["toolConfig"],
        json!({"includeServerSideToolInvocations": true})
    );
    let tools = requests[0]["tools"].as_array().unwrap();
    assert_eq!(
        tools[0]["functionDeclarations"][0]["name"],
        json!("new_answer")
    );
    let of_google = [json!({"googleSearch": {}}), json!({"codeExecution": {}})];
    assert_eq!(tools[1..], of_google);
    assert_eq!(requests[1]["tools"], json!(of_google));
    assert_eq!(requests[1].get("toolConfig"), None);
}

#[tokio::test]
async fn the_model_is_in_the_path() {
    let server =
        ScriptedServer::start(vec![ScriptedResponse::stream().piece(finish("STOP")).end()]).await;
    for (base, model, expected) in [
        (
            "/v1beta",
            "gemini-x",
            "/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
        ),
        (
            "/",
            "gemini-x",
            "/models/gemini-x:streamGenerateContent?alt=sse",
        ),
        (
            "/v1/?a=b",
            "models/m",
            "/v1/models/m:streamGenerateContent?a=b&alt=sse",
        ),
        (
            "/v1",
            "tunedModels/m",
            "/v1/tunedModels/m:streamGenerateContent?alt=sse",
        ),
        (
            "/v1",
            "a b?c",
            "/v1/models/a%20b%3Fc:streamGenerateContent?alt=sse",
        ),
    ] {
        let mut config = config("gemini", &format!("{}{base}", server.url));
        model.clone_into(&mut config.model);
        collect(&connect(&config), simple_request()).await;
        let request = server.requests().pop().unwrap();
        assert_eq!(request.line, format!("POST {expected}"));
    }
}

fn recorded_call(id: &str, arguments: &str) -> CallRequest {
    CallRequest {
        id: id.to_owned(),
        name: "read_text_file".to_owned(),
        arguments: arguments.to_owned(),
    }
}

fn tool_result(id: &str, content: &str) -> ChatMessage {
    ChatMessage::CallResult {
        call_id: id.to_owned(),
        content: content.to_owned(),
    }
}

/// Returns the contents of a request for this conversation, after the first.
async fn sent_contents(model: &str, more: Vec<ChatMessage>) -> Vec<Value> {
    let server =
        ScriptedServer::start(vec![ScriptedResponse::stream().piece(finish("STOP")).end()]).await;
    let backend = connect(&gemini(&server, model, &json!({})));
    let mut request = simple_request();
    collect(&backend, request.clone()).await;
    let mut messages = request.conversation.messages().to_vec();
    messages.extend(more);
    let conversation = Conversation::from_messages(messages);
    request.conversation = &conversation;
    collect(&backend, request).await;
    let requests = server.requests();
    let known = requests[0].body.strip_suffix("]}").unwrap();
    assert!(requests[1].body.starts_with(known));
    requests[1].json()["contents"].as_array().unwrap()[1..].to_vec()
}

#[tokio::test]
async fn calls_of_another_model_are_told_without_their_signature() {
    let reply = ChatMessage::Assistant {
        text: "I look.".to_owned(),
        calls: vec![
            recorded_call("a", r#"{"path":"x"}"#),
            recorded_call("b", "{\"path\": "),
        ],
        echo: None,
    };
    let silent = ChatMessage::Assistant {
        text: String::new(),
        calls: Vec::new(),
        echo: None,
    };
    let more = vec![
        reply,
        tool_result("a", "hello"),
        tool_result("b", "error: malformed"),
        ChatMessage::User("Hurry.".into()),
        silent,
        ChatMessage::User("Well?".into()),
    ];
    let call = |id: &str, args: Value| json!({"id": id, "name": "read_text_file", "args": args});
    let response = |id: &str, output: &str| {
        let response = json!({"output": output});
        json!({"functionResponse": {"id": id, "name": "read_text_file", "response": response}})
    };
    let first = call("a", json!({"path": "x"}));
    let second = call("b", json!({"malformed_arguments": "{\"path\": "}));
    let expected = |first: Value| {
        [
            json!({"role": "model", "parts": [
                {"text": "I look."}, first, {"functionCall": second},
            ]}),
            json!({"role": "user", "parts": [
                response("a", "hello"), response("b", "error: malformed"),
            ]}),
            user_content("Hurry."),
            user_content("Well?"),
        ]
    };
    let signature = "skip_thought_signature_validator";
    assert_eq!(
        sent_contents("gemini-3.8-flash", more.clone()).await,
        expected(json!({"functionCall": first, "thoughtSignature": signature}))
    );
    assert_eq!(
        sent_contents("gemini-2.5-flash", more).await,
        expected(json!({"functionCall": first}))
    );
}

/// Returns the events of a stream, and the reply as the conversation stores it.
async fn decoded_reply(stream: &[String]) -> (Vec<ReplyEvent>, ChatMessage) {
    let answer = stream
        .iter()
        .fold(ScriptedResponse::stream(), ScriptedResponse::piece)
        .end();
    let (_server, backend) = start_gemini_server(answer).await;
    let events: Result<Vec<ReplyEvent>, BackendError> = collect(&backend, simple_request())
        .await
        .into_iter()
        .collect();
    let events = events.unwrap();
    let message = assistant_message(&events);
    (events, message)
}

#[tokio::test]
async fn thought_signatures_are_sent_back_unchanged() {
    let (_, reply) = decoded_reply(&published_stream()).await;
    let more = vec![
        reply,
        tool_result("x1y2", "hello"),
        tool_result("x1y3", "a.md"),
    ];
    let response = |id: &str, name: &str, output: &str| json!({"functionResponse": {"id": id, "name": name, "response": {"output": output}}});
    assert_eq!(
        sent_contents("gemini-3.8-flash", more).await,
        [
            json!({"role": "model", "parts": published_parts()}),
            json!({"role": "user", "parts": [
                response("x1y2", "read_text_file", "hello"),
                response("x1y3", "list_directory", "a.md"),
            ]}),
        ]
    );
}

#[tokio::test]
async fn calls_without_ids_get_ours_and_the_vendor_never_sees_them() {
    let call = |n: u64| json!({"functionCall": {"name": "read_text_file", "args": {"n": n}}});
    let taken = json!({"functionCall": {"name": "read_text_file", "id": "call_1_0"}});
    let all = json!([call(1), call(2), taken]);
    let (_, reply) = decoded_reply(&[parts(&all), finish("STOP")]).await;
    let ChatMessage::Assistant { calls, .. } = &reply else {
        unreachable!();
    };
    let ids: Vec<String> = calls.iter().map(|call| call.id.clone()).collect();
    assert_eq!(ids, ["call_1_0", "call_1_1", "call_1_2"]);
    let results = ids.iter().map(|id| tool_result(id, id));
    let more = [reply].into_iter().chain(results).collect();
    let contents = sent_contents("gemini-3.8-flash", more).await;
    assert_eq!(contents[0]["parts"], all);
    let seen: Vec<&Map<String, Value>> = contents[1]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["functionResponse"].as_object().unwrap())
        .collect();
    let of_vendor: Vec<Option<&Value>> = seen.iter().map(|response| response.get("id")).collect();
    assert_eq!(of_vendor, [None, None, Some(&json!("call_1_0"))]);
    let outputs: Vec<&Value> = seen
        .iter()
        .map(|call| &call["response"]["output"])
        .collect();
    assert_eq!(
        outputs,
        [&json!("call_1_0"), &json!("call_1_1"), &json!("call_1_2")]
    );
}

#[tokio::test]
async fn ids_that_the_conversation_knows_are_replaced() {
    let again = json!([{"functionCall": {"id": "a", "name": "f"}}]);
    let answer = ScriptedResponse::stream()
        .piece(parts(&again))
        .piece(finish("STOP"))
        .end();
    let (_server, backend) = start_gemini_server(answer).await;
    let mut request = simple_request();
    let mut messages = request.conversation.messages().to_vec();
    messages.push(ChatMessage::Assistant {
        text: String::new(),
        calls: vec![recorded_call("a", "{}")],
        echo: None,
    });
    messages.push(tool_result("a", "done"));
    let conversation = Conversation::from_messages(messages);
    request.conversation = &conversation;
    let events = collect(&backend, request).await;
    assert_eq!(events[0], Ok(call("call_3_0", "f", "{}")));
}

#[tokio::test]
async fn other_parts_of_a_reply_are_sent_back_and_not_shown() {
    let all = json!([
        {"executableCode": {"language": "PYTHON", "code": "print(6 * 7)"}, "thoughtSignature": "YQ=="},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}},
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {}, "id": "s1"}},
        {"text": "It is 42."},
        {"somethingNew": {}},
    ]);
    let (events, reply) = decoded_reply(&[parts(&all), finish("STOP")]).await;
    assert_eq!(
        events,
        [
            text("It is 42."),
            ReplyEvent::Echo(all.clone()),
            ReplyEvent::End(StopReason::Done),
        ]
    );
    let contents = sent_contents("gemini-3.8-flash", vec![reply]).await;
    assert_eq!(contents, [json!({"role": "model", "parts": all})]);
}

#[tokio::test]
async fn a_published_stream_becomes_events_however_it_is_sent() {
    let stream = published_stream();
    let list: Vec<Value> = stream
        .iter()
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    let json_type = ["content-type: application/json; charset=UTF-8"];
    let answers = [
        stream
            .iter()
            .fold(ScriptedResponse::stream(), ScriptedResponse::piece)
            .end(),
        ScriptedResponse::raw(format!("HTTP/1.1 200 OK\r\n\r\n{}", stream.concat())),
        // A server that does not stream sends a list.
        ScriptedResponse::whole("200 OK", &json_type, json!(list).to_string()),
    ];
    for (row, answer) in answers.into_iter().enumerate() {
        let (_server, backend) = start_gemini_server(answer).await;
        let events = collect(&backend, simple_request()).await;
        assert_eq!(events, published_events(), "row {row}");
    }
}

#[tokio::test]
async fn a_reply_ends_for_one_of_three_reasons() {
    for (reason, expected) in [
        ("STOP", StopReason::Done),
        ("MAX_TOKENS", StopReason::Length),
        ("SAFETY", StopReason::Filtered),
        ("RECITATION", StopReason::Filtered),
        ("LANGUAGE", StopReason::Filtered),
        ("BLOCKLIST", StopReason::Filtered),
        ("PROHIBITED_CONTENT", StopReason::Filtered),
        ("SPII", StopReason::Filtered),
        ("IMAGE_SAFETY", StopReason::Filtered),
    ] {
        let stream = [parts(&json!([{"text": "Hi"}])), finish(reason)];
        let (events, _) = decoded_reply(&stream).await;
        assert_eq!(events, [text("Hi"), ReplyEvent::End(expected)], "{reason}");
    }
    // A blocked prompt has no candidate.
    let blocked = event(&json!({
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
    }));
    let (events, _) = decoded_reply(&[blocked]).await;
    let usage = ReplyEvent::Usage(TokenUsage {
        input_tokens: 9,
        ..TokenUsage::default()
    });
    assert_eq!(events, [usage, ReplyEvent::End(StopReason::Filtered)]);
}

#[tokio::test]
async fn the_counts_may_follow_the_end_of_the_reply() {
    let counts = json!({"promptTokenCount": 5, "candidatesTokenCount": 7});
    let stream = [
        parts(&json!([{"text": "Hi"}])),
        finish("STOP"),
        event(&json!({"usageMetadata": counts})),
    ];
    let (events, _) = decoded_reply(&stream).await;
    let usage = ReplyEvent::Usage(TokenUsage {
        input_tokens: 5,
        output_tokens: 7,
        ..TokenUsage::default()
    });
    assert_eq!(
        events,
        [text("Hi"), usage, ReplyEvent::End(StopReason::Done)]
    );
}
