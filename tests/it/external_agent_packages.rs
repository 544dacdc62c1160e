//! External agents that are the real programs of three vendors, each with a server of its vendor's
//! wire format: each finds the workflow tool over the socket of its agent, calls it, and its answer counts.
//! `tests/all.sh` installs them.

use serde_json::{Value, json};

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::mcp::HOSTILE;
use crate::mcp_servers::installed_servers;
use crate::project::{FinishedCommand, Project, events};

/// Beginning of a PNG in base64.
const PNG: &str = "iVBORw0KGgo";
/// The submitted answer.
const ANSWER: &str = "forty-two";

/// A call of a model: the end of the tool's name, and its arguments.
type Call = (&'static str, Value);

/// Plays a model that calls the tool for answers, and then reports that it is done.
fn play_model(request: &ReceivedRequest) -> ScriptedResponse {
    let has_called = request.body.contains("handed in;");
    play_with(request, (!has_called).then(answer_call).as_ref())
}

fn answer_call() -> Call {
    ("new_answer", json!({"content": ANSWER}))
}

/// Plays a model that makes this call, or reports that it is done.
fn play_with(request: &ReceivedRequest, call: Option<&Call>) -> ScriptedResponse {
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let events = if request.line.contains("/messages") && !request.line.contains("count_tokens") {
        messages(&body, call)
    } else if request.line.contains("/responses") {
        responses_events(&body, call)
    } else if request.line.contains("streamGenerateContent") {
        messages_events(&body, call)
    } else {
        return ScriptedResponse::whole("404 Not Found", &["content-type: application/json"], "{}");
    };
    stream_answer(&events)
}

fn stream_answer(events: &[Value]) -> ScriptedResponse {
    let event = |event: &Value| {
        let name = event["type"].as_str();
        let name = name.map_or_else(String::new, |name| format!("event: {name}\n"));
        format!("{name}data: {event}\n\n")
    };
    let text: String = events.iter().map(event).collect();
    ScriptedResponse::whole("200 OK", &["content-type: text/event-stream"], text)
}

/// Finds the tool of a call in `tools`, with the arguments.
fn tool<'t>(tools: &'t Value, call: Option<&'t Call>) -> Option<(&'t Value, &'t Value)> {
    let (ending, arguments) = call?;
    let is_it = |tool: &&Value| {
        tool["name"]
            .as_str()
            .is_some_and(|name| name.ends_with(ending))
    };
    Some((tools.as_array()?.iter().find(is_it)?, arguments))
}

/// Returns the id of a call; each tool is called once.
fn id_of(tool: &Value) -> String {
    format!("call_{}", tool["name"].as_str().unwrap())
}

fn messages(body: &Value, call: Option<&Call>) -> Vec<Value> {
    let (start, delta, stop) = match tool(&body["tools"], call) {
        Some((tool, arguments)) => (
            json!({"type": "tool_use", "id": id_of(tool), "name": tool["name"], "input": {}}),
            json!({"type": "input_json_delta", "partial_json": arguments.to_string()}),
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

fn responses_events(body: &Value, call: Option<&Call>) -> Vec<Value> {
    let mut spaces = body["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|space| space["type"] == "namespace");
    let found = spaces.find_map(|space| Some((space, tool(&space["tools"], call)?)));
    let item = match found {
        Some((space, (tool, arguments))) => json!({
            "type": "function_call", "id": "fc_1", "call_id": id_of(tool), "name": tool["name"],
            "namespace": space["name"], "arguments": arguments.to_string(),
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

fn messages_events(body: &Value, call: Option<&Call>) -> Vec<Value> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let mut declared = tools.map(|tools| &tools["functionDeclarations"]);
    let part = match declared.find_map(|tools| tool(tools, call)) {
        Some((tool, arguments)) => {
            json!({"functionCall": {"name": tool["name"], "args": arguments}})
        }
        None => json!({"text": "done"}),
    };
    let candidate = json!({
        "content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0,
    });
    let usage = json!({"promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9});
    vec![json!({"candidates": [candidate], "usageMetadata": usage})]
}

/// Runs one agent that is the program of a vendor, whose model is `play`; `keys` configure the
/// address `{{url}}` of the server.
#[track_caller]
fn run(
    (kind, program): (&str, &str),
    keys: &str,
    play: fn(&ReceivedRequest) -> ScriptedResponse,
) -> (FinishedCommand, Endpoint) {
    let endpoint = Endpoint::start_with(play);
    let command = format!("{}/node_modules/.bin/{program}", installed_servers());
    let project = Project::new().file("given/hostile.py", HOSTILE);
    let keys = keys
        .replace(
            "{{server}}",
            &project.path("given/hostile.py").display().to_string(),
        )
        .replace("{{url}}", &endpoint.server.url)
        .replace("{{program}}", &command);
    let yaml = format!(
        "agent:\n  id: one\n  backend: {{type: {kind}, cwd: ws, network: on, api_key: sk-not-real, \
         {keys}}}\norchestrator: {{context_paths: [{{path: given}}]}}\n"
    );
    let finished = project
        .file("team.yaml", yaml)
        .args(["--config", "team.yaml", "What is six by seven?"])
        .success();
    let answered = events(&finished, "answered");
    assert_eq!(answered[0]["content"], ANSWER, "{}", finished.stderr());
    (finished, endpoint)
}

#[track_caller]
fn check(kind: &str, program: &str, keys: &str) {
    let (finished, endpoint) = run((kind, program), keys, play_model);
    for event in events(&finished, "model_request_finished") {
        assert!(event["input_tokens"].as_u64().unwrap() > 6, "{event}");
        assert!(event["cost_usd"].as_f64().unwrap() > 0.0, "{event}");
    }
    let requests = endpoint.server.requests();
    assert!(
        requests
            .iter()
            .any(|request| request.body.contains("six by seven"))
    );
    assert!(
        !finished.stderr().contains("retries"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn claude_code_answers_over_the_agent_socket() {
    let keys = "command: ['{{program}}'], model: claude-sonnet-4-5, \
                env: {ANTHROPIC_BASE_URL: '{{url}}'}";
    check("claude_code", "claude", keys);
}

/// Returns the keys that configure the server for Codex.
fn keys_of_codex() -> String {
    let provider = "model_providers.local={name=\"local\", base_url=\"{{url}}/v1\", \
                    wire_api=\"responses\", env_key=\"CODEX_API_KEY\"}";
    format!(
        "model: gpt-5, command: ['{{{{program}}}}', -c, '{provider}', -c, 'model_provider=\"local\"']"
    )
}

#[test]
fn codex_answers_over_the_agent_socket() {
    check("codex", "codex", &keys_of_codex());
}

/// Plays a model that answers only when asked to, in the second turn of its thread.
fn play_later(request: &ReceivedRequest) -> ScriptedResponse {
    let is_told = request.body.contains("Hand in your complete answer");
    if !request.line.contains("/responses") || is_told {
        return play_model(request);
    }
    play_with(request, None)
}

#[test]
fn a_thread_of_codex_is_counted_once() {
    let finished = run(("codex", "codex"), &keys_of_codex(), play_later).0;
    let model_requests = events(&finished, "model_request_finished");
    let numbers: Vec<u64> = model_requests
        .iter()
        .map(|event| event["input_tokens"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [7, 14], "{model_requests:#?}");
}

#[test]
fn gemini_cli_answers_over_the_agent_socket() {
    let keys = "command: ['{{program}}', --acp], model: gemini-2.5-flash, \
                env: {GOOGLE_GEMINI_BASE_URL: '{{url}}'}";
    check("gemini_cli", "gemini", keys);
}

/// Plays a model that reads an image before it answers.
fn play_looking(request: &ReceivedRequest) -> ScriptedResponse {
    let has_looked = request.body.contains("[massgen: the image that");
    let look = || ("mcp__h__pictures", json!({"count": 1, "width": 3}));
    match (has_looked, request.body.contains("handed in;")) {
        (false, _) => play_with(request, Some(&look())),
        (true, false) => play_with(request, Some(&answer_call())),
        (true, true) => play_with(request, None),
    }
}

#[test]
fn the_models_of_external_agents_are_shown_images() {
    let claude = "command: ['{{program}}'], model: claude-sonnet-4-5, \
                  env: {ANTHROPIC_BASE_URL: '{{url}}'}";
    let gemini = "command: ['{{program}}', --acp], model: gemini-2.5-flash, \
                  env: {GOOGLE_GEMINI_BASE_URL: '{{url}}'}";
    for (kind, program, keys) in [
        ("claude_code", "claude", claude),
        ("codex", "codex", &keys_of_codex()),
        ("gemini_cli", "gemini", gemini),
    ] {
        let server = "mcp_servers: [{name: h, command: python3, args: ['{{server}}']}]";
        let keys = format!("{keys}, {server}");
        let (finished, endpoint) = run((kind, program), &keys, play_looking);
        let requests = endpoint.server.requests();
        let is_shown = requests.iter().any(|request| request.body.contains(PNG));
        assert!(is_shown, "{kind}: {}", finished.stderr());
    }
}
