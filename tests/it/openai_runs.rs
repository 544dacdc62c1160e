//! Runs of the real binary against a simulated Responses server that is as strict as OpenAI's: it
//! does not know what it has not stored.

use serde_json::{Value, json};

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::openai_wire::{completed_event, stream_answer};
use crate::project::Project;

/// Plays the model: it answers, votes for the first agent, and presents.
fn play_model(request: &ReceivedRequest) -> ScriptedResponse {
    let body = request.json();
    if let Err(message) = check_input(body["input"].as_array().unwrap()) {
        let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
        return ScriptedResponse::whole("400 Bad Request", &[], error.to_string());
    }
    let model = body["model"].as_str().unwrap();
    let offered = |name: &str| body["tools"].to_string().contains(&format!("\"{name}\""));
    let called = |name: &str| {
        let calls = body["input"].as_array().unwrap().iter();
        calls
            .filter(|item| item["type"] == "function_call")
            .any(|item| item["name"] == name)
    };
    if !offered("new_answer") {
        reply_with(&message(&format!("It is forty-two, {model} is sure.")))
    } else if called("new_answer") {
        let vote = json!({"agent_id": "agent1", "reason": "it is the first"});
        reply_with(&call("vote", &vote))
    } else {
        let content = format!("forty-two, says {model}");
        reply_with(&call("new_answer", &json!({"content": content})))
    }
}

/// Checks the input like OpenAI: rejects items that refer to something that is not stored, or whose
/// required companion is missing.
fn check_input(input: &[Value]) -> Result<(), String> {
    for (index, item) in input.iter().enumerate() {
        let kind = item["type"].as_str().unwrap_or("message");
        let next = input
            .get(index + 1)
            .map_or("", |next| next["type"].as_str().unwrap_or(""));
        let has_result = |call: &Value| {
            input.iter().any(|item| {
                item["type"] == "function_call_output" && item["call_id"] == call["call_id"]
            })
        };
        let problem = match kind {
            "reasoning" if !item["encrypted_content"].is_string() => "not found",
            "reasoning" if !matches!(next, "function_call" | "message") => "leads nowhere",
            "message" | "function_call" if item.get("id").is_some() => "not found",
            "function_call" if !has_result(item) => "has no output",
            "function_call" if index == 0 || input[index - 1]["type"] != "reasoning" => {
                "was made without its reasoning"
            }
            _ => continue,
        };
        return Err(format!("item {index} of type {kind} {problem}"));
    }
    Ok(())
}

/// Returns a reply that consists of reasoning and this item.
fn reply_with(item: &Value) -> ScriptedResponse {
    let reasoning = json!({"id": "rs_1", "type": "reasoning", "summary": [],
        "encrypted_content": "gAAAA"});
    stream_answer(&[completed_event(&json!([reasoning, item]))])
}

fn message(text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [part]})
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({"id": "fc_1", "type": "function_call", "call_id": format!("call_{name}"),
        "name": name, "arguments": arguments.to_string()})
}

#[test]
fn a_team_agrees_over_responses() {
    let endpoint = Endpoint::start_with(play_model);
    let agent = |id: &str, model: &str| {
        let base_url = endpoint.base_url();
        format!(
            "  - id: {id}\n    backend: {{type: openai, base_url: \"{base_url}\", model: {model}, \
             reasoning_effort: low}}\n"
        )
    };
    let team = format!("agents:\n{}{}", agent("one", "m1"), agent("two", "m2"));
    let finished = Project::new()
        .file("team.yaml", team)
        .args(["--config", "team.yaml", "What is six times seven?"])
        .success();
    assert_eq!(finished.stdout(), "It is forty-two, m1 is sure.\n");
    let requests = endpoint.server.requests();
    assert_eq!(requests.len(), 5, "{}", finished.stderr());
    for request in &requests {
        assert_eq!(request.line, "POST /v1/responses");
        let body = request.json();
        assert_eq!(body["store"], false);
        assert_eq!(body["reasoning"], json!({"effort": "low"}));
    }
    let tokens = "600 tokens read, 170 written";
    assert!(finished.stderr().contains(tokens), "{}", finished.stderr());
}
