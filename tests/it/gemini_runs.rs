//! Runs of the real binary against a simulated server of Google's models on loopback, which is as
//! strict about calls, results and signatures as the vendor.

use massgen::config::vendors::find_vendor;
use serde_json::{Value, json};

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::project::Project;

const KEY: &str = "AIza-of-the-tests";
const SIGNATURE: &str = "c2lnbmF0dXJl";

/// Plays the model: it writes a file, answers, votes for the first agent and presents.
fn play_model(request: &ReceivedRequest) -> ScriptedResponse {
    assert_eq!(request.headers["x-goog-api-key"], KEY);
    let body = request.json();
    if let Some(complaint) = history_problem(&body) {
        let error = json!({"code": 400, "status": "INVALID_ARGUMENT", "message": complaint});
        let error = json!({"error": error}).to_string();
        return ScriptedResponse::whole("400 Bad Request", &[], error);
    }
    let called = |name: &str| body["contents"].to_string().contains(&format!("{name:?}"));
    let offered = |name: &str| body["tools"].to_string().contains(&format!("{name:?}"));
    if !offered("new_answer") {
        stream_answer(&[
            json!({"text": "It is "}),
            json!({"text": "forty-two, I am sure."}),
        ])
    } else if !called("write_file") {
        let arguments = json!({"path": "notes.txt", "content": "6 * 7 = 42\n"});
        stream_answer(&[
            json!({"text": "**Planning**", "thought": true}),
            json!({"text": "I write it down."}),
            signed_call("write_file", &arguments),
            json!({"functionCall": {"id": "list", "name": "list_directory", "args": {}}}),
        ])
    } else if !called("new_answer") {
        let content = json!({"content": "forty-two"});
        stream_answer(&[signed_call("new_answer", &content)])
    } else {
        let vote = json!({"agent_id": "agent1", "reason": "it is the first"});
        stream_answer(&[signed_call("vote", &vote)])
    }
}

fn signed_call(name: &str, arguments: &Value) -> Value {
    let call = json!({"id": format!("id_{name}"), "name": name, "args": arguments});
    json!({"functionCall": call, "thoughtSignature": SIGNATURE})
}

/// Returns a reply as a stream with one part in each event.
fn stream_answer(parts: &[Value]) -> ScriptedResponse {
    streamed_to(parts, "STOP")
}

fn streamed_to(parts: &[Value], finish: &str) -> ScriptedResponse {
    let event = |candidate: Value| {
        let usage = json!({"promptTokenCount": 100, "candidatesTokenCount": 10});
        let response = json!({"candidates": [candidate], "usageMetadata": usage});
        format!("data: {response}\r\n\r\n")
    };
    let content = |part: &Value| json!({"content": {"role": "model", "parts": [part]}});
    let begun = parts
        .iter()
        .fold(ScriptedResponse::stream(), |answer, part| {
            answer.piece(event(content(part)))
        });
    begun.piece(event(json!({"finishReason": finish}))).end()
}

/// Returns the vendor's objection to the contents of a request, if any.
fn history_problem(body: &Value) -> Option<String> {
    let contents = body["contents"].as_array().unwrap();
    let of_kind = |index: usize, kind: &str| -> Vec<Value> {
        let parts = contents
            .get(index)
            .and_then(|content| content["parts"].as_array());
        let parts = parts.into_iter().flatten();
        parts
            .filter(|part| part.get(kind).is_some())
            .cloned()
            .collect()
    };
    (0..contents.len()).find_map(|index| {
        let calls = of_kind(index, "functionCall");
        let results = of_kind(index + 1, "functionResponse");
        let known = |parts: &[Value], kind: &str| -> Vec<[Value; 2]> {
            let of = |part: &Value| [part[kind]["id"].clone(), part[kind]["name"].clone()];
            parts.iter().map(of).collect()
        };
        let called = known(&calls, "functionCall");
        let answered = known(&results, "functionResponse");
        let is_signed = |call: &Value| call["thoughtSignature"] == SIGNATURE;
        if called != answered {
            Some(format!("calls {called:?} are answered by {answered:?}"))
        } else if !calls.first().is_none_or(is_signed) {
            Some("Function call is missing a thought_signature".to_owned())
        } else {
            None
        }
    })
}

#[test]
fn a_team_of_two_agrees_on_an_answer() {
    let endpoint = Endpoint::start_with(play_model);
    let agent = |id: &str| {
        let url = format!("{}/v1beta", endpoint.server.url);
        format!("  - {{id: {id}, backend: {{type: gemini, base_url: {url:?}, cwd: {id}}}}}\n")
    };
    let team = format!("agents:\n{}{}", agent("one"), agent("two"));
    let finished = Project::new()
        .file("team.yaml", team)
        .args(["--config", "team.yaml", "What is six times seven?"])
        .env("GEMINI_API_KEY", KEY)
        .success();
    assert_eq!(finished.stdout(), "It is forty-two, I am sure.\n");
    let requests = endpoint.server.requests();
    let model = find_vendor("gemini").unwrap().default_model.unwrap();
    let line = format!("POST /v1beta/models/{model}:streamGenerateContent?alt=sse");
    for request in &requests {
        assert_eq!(request.line, line);
    }
    let count = requests.len();
    let tokens = format!("{} tokens read, {} written", count * 100, count * 10);
    let stderr = finished.stderr();
    assert!(stderr.contains(&tokens), "{stderr}");
}

#[test]
fn a_model_that_ends_its_replies_for_an_unknown_reason_takes_part() {
    let endpoint = Endpoint::start_with(|request| {
        let body = request.json();
        if body["tools"].to_string().contains("\"new_answer\"") {
            let content = json!({"content": "forty-two"});
            streamed_to(&[signed_call("new_answer", &content)], "FUNCTION_CALL")
        } else {
            streamed_to(&[json!({"text": "forty-two"})], "FUNCTION_CALL")
        }
    });
    let url = format!("{}/v1beta", endpoint.server.url);
    let team = format!("agent: {{id: one, backend: {{type: gemini, base_url: {url:?}}}}}\n");
    let finished = Project::new()
        .file("team.yaml", team)
        .args(["--config", "team.yaml", "What is six times seven?"])
        .env("GEMINI_API_KEY", KEY)
        .success();
    assert_eq!(finished.stdout(), "forty-two\n");
    let stderr = finished.stderr();
    assert_eq!(stderr.matches("`FUNCTION_CALL`").count(), 1, "{stderr}");
    assert!(!stderr.contains("retries"), "{stderr}");
}
