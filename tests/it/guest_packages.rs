//! Agents that are the real programs of three vendors, asked by a server of each vendor's wire format:
//! each finds the workflow tool over the relay, calls it, and its answer counts. `tests/all.sh`
//! installs them.

use serde_json::{Value, json};

use crate::http_server::{Answer, Endpoint, Recorded};
use crate::mcp_servers::installed;
use crate::project::{Finished, Project, events};

/// What is handed in.
const ANSWER: &str = "forty-two";

/// Plays a model: it calls the tool that it finds for answers, and then says that it is done.
fn play(request: &Recorded) -> Answer {
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let has_called = request.body.contains("handed in;");
    let events = if request.line.contains("/messages") && !request.line.contains("count_tokens") {
        messages(&body, has_called)
    } else if request.line.contains("/responses") {
        responses(&body, has_called)
    } else if request.line.contains("streamGenerateContent") {
        content(&body, has_called)
    } else {
        return Answer::whole("404 Not Found", &["content-type: application/json"], "{}");
    };
    streamed(&events)
}

fn streamed(events: &[Value]) -> Answer {
    let event = |event: &Value| {
        let name = event["type"].as_str();
        let name = name.map_or_else(String::new, |name| format!("event: {name}\n"));
        format!("{name}data: {event}\n\n")
    };
    let text: String = events.iter().map(event).collect();
    Answer::whole("200 OK", &["content-type: text/event-stream"], text)
}

/// The tool for answers among `tools`, unless it was called.
fn tool(tools: &Value, has_called: bool) -> Option<&Value> {
    let mut tools = tools.as_array()?.iter();
    let is_it = |tool: &&Value| {
        tool["name"]
            .as_str()
            .is_some_and(|name| name.ends_with("new_answer"))
    };
    tools.find(is_it).filter(|_| !has_called)
}

fn messages(body: &Value, has_called: bool) -> Vec<Value> {
    let (start, delta, stop) = match tool(&body["tools"], has_called) {
        Some(tool) => (
            json!({"type": "tool_use", "id": "toolu_1", "name": tool["name"], "input": {}}),
            json!({"type": "input_json_delta", "partial_json": json!({"content": ANSWER}).to_string()}),
            "tool_use",
        ),
        None => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": "done"}),
            "end_turn",
        ),
    };
    let message = json!({
        "id": "m", "type": "message", "role": "assistant", "model": body["model"], "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 7, "output_tokens": 1},
    });
    vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
            "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn responses(body: &Value, has_called: bool) -> Vec<Value> {
    let spaces = body["tools"].as_array().into_iter().flatten();
    let mut spaces = spaces.filter(|space| space["type"] == "namespace");
    let found = spaces.find_map(|space| Some((space, tool(&space["tools"], has_called)?)));
    let item = match found {
        Some((space, tool)) => json!({
            "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool["name"],
            "namespace": space["name"], "arguments": json!({"content": ANSWER}).to_string(),
        }),
        None => json!({
            "type": "message", "role": "assistant", "id": "msg_1",
            "content": [{"type": "output_text", "text": "done"}],
        }),
    };
    let usage = json!({"input_tokens": 7, "output_tokens": 2, "total_tokens": 9});
    vec![
        json!({"type": "response.created", "response": {"id": "r"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": "r", "usage": usage}}),
    ]
}

fn content(body: &Value, has_called: bool) -> Vec<Value> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let mut declared = tools.map(|tools| &tools["functionDeclarations"]);
    let part = match declared.find_map(|tools| tool(tools, has_called)) {
        Some(tool) => json!({"functionCall": {"name": tool["name"], "args": {"content": ANSWER}}}),
        None => json!({"text": "done"}),
    };
    let candidate = json!({
        "content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0,
    });
    let usage = json!({"promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9});
    vec![json!({"candidates": [candidate], "usageMetadata": usage})]
}

/// Runs one agent that is the program of a vendor, whose model `play` is; `keys` say how it finds the server
/// `{{url}}`.
#[track_caller]
fn run(
    (kind, program): (&str, &str),
    keys: &str,
    play: fn(&Recorded) -> Answer,
) -> (Finished, Endpoint) {
    let endpoint = Endpoint::answering(play);
    let command = format!("{}/node_modules/.bin/{program}", installed());
    let keys = keys
        .replace("{{url}}", &endpoint.server.url)
        .replace("{{program}}", &command);
    let yaml = format!(
        "agent:\n  id: one\n  backend: {{type: {kind}, cwd: ws, network: on, api_key: sk-not-real, \
         {keys}}}\n"
    );
    let finished = Project::new()
        .file("team.yaml", yaml)
        .args(["--config", "team.yaml", "What is six by seven?"])
        .success();
    let answered = events(&finished, "answered");
    assert_eq!(answered[0]["content"], ANSWER, "{}", finished.stderr());
    (finished, endpoint)
}

#[track_caller]
fn check(kind: &str, program: &str, keys: &str) {
    let (finished, endpoint) = run((kind, program), keys, play);
    for asked in events(&finished, "asked") {
        assert!(asked["input_tokens"].as_u64().unwrap() > 6, "{asked}");
        assert!(asked["cost_usd"].as_f64().unwrap() > 0.0, "{asked}");
    }
    let asked = endpoint.server.requests();
    assert!(
        asked
            .iter()
            .any(|request| request.body.contains("six by seven"))
    );
    assert!(
        !finished.stderr().contains("asks again"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn claude_code_answers_over_the_relay() {
    let keys = "command: ['{{program}}'], model: claude-sonnet-4-5, \
                env: {ANTHROPIC_BASE_URL: '{{url}}'}";
    check("claude_code", "claude", keys);
}

/// How Codex finds the server.
fn keys_of_codex() -> String {
    let provider = "model_providers.local={name=\"local\", base_url=\"{{url}}/v1\", \
                    wire_api=\"responses\", env_key=\"CODEX_API_KEY\"}";
    format!(
        "model: gpt-5, command: ['{{{{program}}}}', -c, '{provider}', -c, 'model_provider=\"local\"']"
    )
}

#[test]
fn codex_answers_over_the_relay() {
    check("codex", "codex", &keys_of_codex());
}

/// Answers only when it is told to, in the second turn of its thread.
fn play_later(request: &Recorded) -> Answer {
    let is_told = request.body.contains("Hand in your complete answer");
    if !request.line.contains("/responses") || is_told {
        return play(request);
    }
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    streamed(&responses(&body, true))
}

#[test]
fn a_thread_of_codex_is_counted_once() {
    let finished = run(("codex", "codex"), &keys_of_codex(), play_later).0;
    let asked = events(&finished, "asked");
    let told: Vec<u64> = asked
        .iter()
        .map(|event| event["input_tokens"].as_u64().unwrap())
        .collect();
    assert_eq!(told, [7, 14], "{asked:#?}");
}

#[test]
fn gemini_cli_answers_over_the_relay() {
    let keys = "command: ['{{program}}', --acp], model: gemini-2.5-flash, \
                env: {GOOGLE_GEMINI_BASE_URL: '{{url}}'}";
    check("gemini_cli", "gemini", keys);
}
